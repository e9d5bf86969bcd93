"""Secondary indices on scalar columns.

An index has one or several *segments*: entries of one name in the index section, each with files of its own and a
bitmap of the fragments it covers. A segment answers for fragments of its bitmap that exist now, and for no others.

=================  ==================================================================================
``files``          an index file: a Lance file of 2.x with its own schema, metadata and extra buffers
``row_sets``       serialized sets of row ids; addresses of rows from either kind of id
``found``          rows by fragment, as one segment names them
``answers``        AND and OR over what segments name: exactly the rows, or at most these rows
``bounds``         bounds in an index as statistics
``btree``, …       one module per type of index: its files, and the conditions it answers
``segments``       entries of the index section to opened segments
``query``          a filter's condition as a tree of conditions on single columns
``catalog``        the indices of a snapshot
=================  ==================================================================================

A condition on one column is never translated into an operation of the index. It is evaluated on the values that the
index stores, by the functions that evaluate it on rows. So NaN, signed zeros and nulls mean the same with an index and
without one, in indices of the reference implementation too, which ranks NaN above all numbers.

Facts: sheet of indices, part B; table sheet, section 10.
"""
