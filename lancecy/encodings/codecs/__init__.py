"""Encodings of values that several versions of the format share, each in a module of its own.

=================  ==============================================================
``values``         the registry: compressed values of chunks, one function per node
``flat``           plain values and fixed-size lists: copied at once, or views
``fixed``          values of one width in chunks: plain, bit-packed, byte by byte
``strings``        byte strings of 2.1 and later
``run_length``     values repeated in runs
``arithmetic``     index sequences of 2.3: ranges, running sums, items by number
``dictionaries``   codes and items
``zipped_values``  values stored one by one, each with its position
``packed``         structs row by row
``fsst``           strings coded with a symbol table
``general``        lz4 and zstd
``blobs``          writing of values of blob columns
``outside_blobs``  descriptors of blobs that are objects outside of the table
=================  ==============================================================

A decoder makes one kernel call per buffer, for any number of pages or chunks.
"""
