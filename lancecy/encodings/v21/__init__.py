"""Pages of 2.1 and later: every leaf has a column, its structure is stored as levels beside its values.

================  ==============================================================
``leaf``          a leaf and a selection of rows to a nested block; the registry of page layouts
``repdef``        repetition and definition levels to offsets and validity
``miniblock``     small values in chunks, levels beside them
``chunk_tables``  where the chunks of a mini-block page are, and which some rows need
``fullzip``       large values, each with its levels before it
``constant``      one value, or null, for all slots
``blob``          positions and sizes of values that lie elsewhere in the file
``planar``        2.3: structure and values described separately
``write``         nested blocks to pages of 2.1 and 2.2
``wire``          messages to layouts and back
================  ==============================================================
"""
