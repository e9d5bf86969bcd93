"""Makes the files of scalar indices from values and row ids; no table is known here.

==================  ==================================================================================
``index_types``     the types of indices: their names, what their entries say, which columns they take
``base``            what a builder takes and gives
``order``           the order of values in an index
``sorted_pairs``    values with row ids, sorted with bounded memory
``row_sets``        serialized sets of row ids
``btree``, …        one builder per type of index
==================  ==================================================================================

Facts: sheet of indices, part B.
"""
