"""Lance tables in Spark, without a jar.

=========================  ===================================================================
``read``                   a table as a DataFrame, read by the executors (``frames``)
``changes``                the rows that differ between two versions (``row_changes``)
``diff``                   the same for versions of different branches (``row_changes``)
``compact``                merges small fragments on the executors (``compaction``)
``create_scalar_index``    an index, parts of which the executors make (``indexing``)
``copy_files``             data files to another base, copied by the executors (``file_copies``)
``write``                  a DataFrame to a table, written by the executors (``sink``)
``add_columns``            columns computed by the executors (``columns``)
``merge``                  a DataFrame into a table by keys, joined by the executors (``merging``)
``update``                 sets columns of matching rows on the executors (``updating``)
``dataframe``              an Arrow table in memory as a DataFrame (``frames``)
``LancecyDataSource``      implements ``format("lancecy")`` and ``USING lancecy`` (``source``)
``register``               registers that format where Spark does not find it (``registration``)
``normalize``              an Arrow schema in Spark's types (``types``)
``original_schema``        the original types of such a schema or DataFrame (``types``)
``spark_arrow_schema``     the Arrow types in which Spark holds a table's columns (``types``)
=========================  ===================================================================

``convert`` converts values to Spark's types, ``tasks`` divides a table, reads the parts and runs tasks of changes,
``searching`` searches for nearest neighbours, ``pushdown`` and ``aggregates`` compute aggregates on the executors,
``source_writes`` writes for the format, ``options`` and ``sink_options`` parse its options, ``views`` makes views of
the tables of a namespace, ``workers`` checks the executors' Python, ``autoload`` is the module that Spark looks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lancecy.spark.columns import add_columns as add_columns
    from lancecy.spark.compaction import compact as compact
    from lancecy.spark.file_copies import copy_files as copy_files
    from lancecy.spark.frames import dataframe as dataframe
    from lancecy.spark.frames import read as read
    from lancecy.spark.indexing import create_scalar_index as create_scalar_index
    from lancecy.spark.merging import merge as merge
    from lancecy.spark.registration import register as register
    from lancecy.spark.row_changes import changes as changes
    from lancecy.spark.row_changes import diff as diff
    from lancecy.spark.sink import write as write
    from lancecy.spark.source import LancecyDataSource as LancecyDataSource
    from lancecy.spark.types import normalize as normalize
    from lancecy.spark.types import original_schema as original_schema
    from lancecy.spark.types import spark_arrow_schema as spark_arrow_schema
    from lancecy.spark.updating import update as update

_HOMES = {
    "lancecy.spark.columns": "add_columns",
    "lancecy.spark.compaction": "compact",
    "lancecy.spark.file_copies": "copy_files",
    "lancecy.spark.indexing": "create_scalar_index",
    "lancecy.spark.frames": "dataframe read",
    "lancecy.spark.merging": "merge",
    "lancecy.spark.row_changes": "changes diff",
    "lancecy.spark.sink": "write",
    "lancecy.spark.registration": "register",
    "lancecy.spark.source": "LancecyDataSource",
    "lancecy.spark.types": "normalize original_schema spark_arrow_schema",
    "lancecy.spark.updating": "update",
}

__getattr__, __dir__, __all__ = lazy_attributes(__name__, _HOMES)
