"""Model of pages and decoded values: plain frozen data for all other folders.

============  ==============================================================
``spec``      nodes that describe the layout of values
``fields``    the spec that follows from a field's type
``layouts``   layouts of pages of 2.1 and later: values and levels
``pages``     the pages of a physical column of 2.x, as arrays
``chunks``    chunks of values, and runs within chunks and pages
``block``     decoded buffers with a length, not yet Arrow
``ledger``    bytes of a file that its columns take
``notation``  a node in one line, for people
============  ==============================================================
"""
