"""Merges rows into a table by keys.

==============  ==================================================================================
``source``      the rows to merge: read once, in memory or in a temporary file
``keys``        key columns as words that are looked up, and as the hashes of key filters
``clauses``     what a merge does with the rows, from the calls of its builder
``matching``    which rows of the source match which rows of the table
``structs``     struct columns that lack members
``rows``        the rows that are written: matched ones first, then inserted ones
``distributed`` a merge that many workers do; ``in_dask`` runs it in Dask
``options``     a merge as keyword arguments
==============  ==================================================================================

The key columns of the table are read in units of fragments, over threads. Rows of the source that match nothing
are known only after all of them.
"""
