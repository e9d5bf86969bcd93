"""What pages and decoded values are: plain frozen data that every other folder speaks of.

============  ==============================================================
``spec``      nodes that say how values are laid out
``fields``    the spec that follows from a field's type
``layouts``   how a page of 2.1 and later combines values and levels
``pages``     the pages of a physical column of 2.x, as arrays
``chunks``    chunks of values, and runs within chunks and pages
``block``     decoded buffers with a length, not yet Arrow
``ledger``    how many bytes of a file its columns take
``notation``  a node in one line, for people
============  ==============================================================
"""
