"""Rows of fragments: which are deleted, and which ids they have.

===================  ================================================================
``deletion``         deletion vectors, and their two file formats
``roaring``          roaring bitmaps
``row_ids``          stable row ids and row versions, as compact sequences
``id_index``         maps row ids to row addresses over all fragments
``id_index_build``   builds that index
``id_search``        finds rows of a fragment by their ids or versions
===================  ================================================================
"""
