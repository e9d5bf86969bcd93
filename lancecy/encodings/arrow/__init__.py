"""Blocks to Arrow arrays and back, and operations on Arrow columns.

===============  ==============================================================
``to_arrow``     a block becomes an Arrow array that shares its memory
``from_arrow``   an Arrow array becomes a block, for writers
``assemble``     one nested column out of parts that hold some of its leaves
``agreement``    whether the leaves of one file say the same about the structs and lists around them
``columns``      chunked columns: concatenation, order of rows, extension types
``conversions``  Python and NumPy values to Arrow and back, without pandas
``nulls``        columns of nulls that cost no memory
``map_nested``   a function applied to arrays inside nested arrays
``json``         binary JSON to text and back; parts of binary values
===============  ==============================================================
"""
