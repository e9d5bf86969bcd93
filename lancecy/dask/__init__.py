"""Lance tables in Dask.

=========================  ====================================================================
``scan``                   a table as a Dask DataFrame (``collection``)
``to_dask_array``          a column as a Dask array (``array``)
``compact``                merges small fragments on the workers (``compaction``)
``create_scalar_index``    an index, parts of which the workers make (``indexing``)
``copy_files``             data files to another base, copied by the workers (``file_copies``)
``changes``                the rows that differ between two versions (``row_changes``)
``diff``                   the same for versions of different branches (``row_changes``)
``add_columns``            columns computed by the workers (``columns``)
``merge_insert``           a frame into a table by keys, joined by the workers (``merging``)
``update``                 sets columns of matching rows on the workers (``updating``)
``plain``                  a frame without lancecy's dtypes (``dtypes``)
``NestedArrowDtype``       the pandas dtype that keeps vectors, lists, structs and maps
                           through shuffles and Parquet (``dtypes``)
``to_frame``               an Arrow table as a DataFrame with the dtypes of a scan (``dtypes``)
=========================  ====================================================================

``reader`` reads partitions, ``tasks`` runs those of changes, ``searching`` searches for nearest neighbours,
``optimizer`` and ``steps`` use Dask's private interface, and ``predicates`` defines which comparisons may be pushed
down; ``aliases`` names Arrow types so that the names can be parsed. Neither Dask nor pandas is imported by importing
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lancecy.dask.array import to_dask_array as to_dask_array
    from lancecy.dask.collection import scan as scan
    from lancecy.dask.columns import add_columns as add_columns
    from lancecy.dask.compaction import compact as compact
    from lancecy.dask.dtypes import NestedArrowDtype as NestedArrowDtype
    from lancecy.dask.dtypes import plain as plain
    from lancecy.dask.dtypes import to_frame as to_frame
    from lancecy.dask.file_copies import copy_files as copy_files
    from lancecy.dask.indexing import create_scalar_index as create_scalar_index
    from lancecy.dask.merging import merge_insert as merge_insert
    from lancecy.dask.row_changes import changes as changes
    from lancecy.dask.row_changes import diff as diff
    from lancecy.dask.updating import update as update

_HOMES = {
    "lancecy.dask.array": "to_dask_array",
    "lancecy.dask.collection": "scan",
    "lancecy.dask.columns": "add_columns",
    "lancecy.dask.compaction": "compact",
    "lancecy.dask.dtypes": "NestedArrowDtype plain to_frame",
    "lancecy.dask.file_copies": "copy_files",
    "lancecy.dask.indexing": "create_scalar_index",
    "lancecy.dask.merging": "merge_insert",
    "lancecy.dask.row_changes": "changes diff",
    "lancecy.dask.updating": "update",
}

__getattr__, __dir__, __all__ = lazy_attributes(__name__, _HOMES)
