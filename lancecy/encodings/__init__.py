"""Spec trees and blocks: how values lie in pages, and how they are decoded.

What is described
    ===============  ==============================================================
    ``spec``         nodes that say how values are laid out: plain data
    ``layouts``      how a page of 2.1 and later combines values and levels
    ``pages``        the pages of a physical column of 2.x, as arrays
    ``block``        decoded buffers with a length, not yet Arrow
    ``notation``     a node in one line, for people
    ===============  ==============================================================

Three dialects, each from a description to blocks
    ===============  ==============================================================
    ``legacy*``      0.1: a field's spec, and Reads over its pages (``legacy_write``, ``legacy_stats``: the way back)
    ``v20*``         2.0: nodes of a page, nested by columns
    ``structural``   2.1 and later: one leaf with all that is around it
    ``miniblock``    values in chunks, levels beside them
    ``fullzip``      each value with its levels before it (``cells``: the walk)
    ``constant``     one value, or null, for all
    ``planar*``      2.3: structure and values described apart (``planar_sparse``, ``planar_slots``: positions)
    ``blob``         descriptors of values elsewhere
    ``repdef``       levels to offsets and validity
    ``*_wire``       messages to nodes
    ===============  ==============================================================

Encodings that several dialects use
    ===============  ==============================================================
    ``flat``         plain values and fixed-size lists: copied in one go, or views
    ``values``       compressed values of chunks (``chunks``, ``fixed``, ``strings``, ``coded_runs``, ``sequences``)
    ``dictionaries`` codes and items
    ``placing``      values by number, put into slots
    ``presence``     nulls without the values
    ``fsst``         symbol tables
    ``general``      lz4 and zstd
    ``packed``       structs row by row
    ===============  ==============================================================

To Arrow
    ===============  ==============================================================
    ``arrow``        blocks and Arrow arrays, sharing memory
    ``assemble``     one column from parts of it
    ``columns``      columns in chunks: joined, their rows in another order, extension types
    ``nulls``        columns of nulls that cost no memory
    ``jsonb``        JSON as 2.x stores it
    ===============  ==============================================================

A decoder is a Read (``store.reads``): it asks for ranges as arrays and does no IO. It
makes one kernel call per buffer, whatever the number of pages or chunks.
"""
