"""Names of pylance, and of tables of other libraries, that are missing: each error says what does the same.

Also properties that are methods in pylance.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

__all__ = ["DATASET_NAMES", "FRAGMENT_NAMES", "OTHER_NAMES", "CallableDict", "RefusedNames"]

_K = TypeVar("_K")
_V = TypeVar("_V")

_ARROW = "to_pyarrow_dataset() has the methods of a pyarrow dataset"
_VECTORS = "lancecy makes no vector indices yet, and nearest compares every row"
_LOG = "lancecy has no write-ahead log of tables"
_OPTIONS = "location.storage_options has the options that the table was opened with"
_COUNTS = "scanner(…).analyze() returns the bytes and requests of a scan"

DATASET_NAMES: Mapping[str, str] = {
    "_take_rows": "take_rows is its name",
    "all_files": "explain_cleanup_old_versions(timedelta(0), include_files=True) lists what no newer version needs",
    "centroids": _VECTORS,
    "create_index": _VECTORS,
    "drop": "remove the folder of the table, or use drop_table of a namespace",
    "filter": _ARROW,
    "from_pydantic_model": "write_dataset takes rows as a list of models, or as dictionaries with schema=",
    "get_ivf_model": _VECTORS,
    "initial_storage_options": _OPTIONS,
    "initialize_mem_wal": _LOG,
    "io_stats_incremental": _COUNTS,
    "io_stats_snapshot": _COUNTS,
    "join": _ARROW,
    "join_asof": _ARROW,
    "latest_storage_options": _OPTIONS,
    "mem_wal_index_details": _LOG,
    "mem_wal_writer": _LOG,
    "merge_index_metadata": "merge_existing_index_segments joins segments of an index",
    "new_file_session": "LanceFileReader and LanceFileWriter open one file each",
    "partition_expression": _ARROW,
    "remap_row_addrs": "compactions of lancecy write no index of moved rows; stable row ids survive them",
    "replace_schema": "add_columns, alter_columns, drop_columns and update_schema_metadata change the schema",
    "sort_by": "to_table(order_by=…) sorts",
    "storage_options_accessor": _OPTIONS,
    "tracked_files": "get_fragments() of each version name their files",
}
"""Attributes of pylance's ``LanceDataset`` that are missing, and the alternative to each."""

FRAGMENT_NAMES: Mapping[str, str] = {
    "partition_expression": _ARROW,
    "physical_schema": "schema is that of the table, and data_files() tells the columns of each file",
}
"""The same for ``LanceFragment``."""

_GROUPS = "scan(uri) is a Dask DataFrame with groupby, and sql(…) has GROUP BY"
_ROWS = "to_table(columns, filter) reads rows as an Arrow table, and to_pandas(…) as a DataFrame"
_COLUMNS = "schema has the columns: schema.names, schema.types"

OTHER_NAMES: Mapping[str, str] = {
    "add_column": "add_columns({'name': 'expression'}) adds columns",
    "checkout": "checkout_version(version) opens a version",
    "columns": _COLUMNS,
    "compact": "optimize.compact_files() compacts fragments",
    "count": "count_rows(filter) counts rows",
    "describe": "summary() describes the table",
    "drop_column": "drop_columns(['name']) drops columns",
    "dtypes": _COLUMNS,
    "fragments": "get_fragments() returns them",
    "group_by": _GROUPS,
    "groupby": _GROUPS,
    "history": "versions() lists the versions",
    "info": "summary() describes the table",
    "iter_batches": "to_batches(…) yields record batches",
    "num_rows": "count_rows() counts rows",
    "overwrite": "write_dataset(rows, uri, mode='overwrite') replaces all rows",
    "query": _ROWS,
    "rename": "alter_columns({'path': 'old', 'name': 'new'}) renames a column",
    "rename_columns": "alter_columns({'path': 'old', 'name': 'new'}) renames a column",
    "rollback": "checkout_version(version).restore() makes a version the newest",
    "select": _ROWS,
    "shape": "count_rows() counts rows, and schema has the columns",
    "sort_values": "to_table(order_by=…) sorts",
    "tail": "slice(start, end) reads rows by their numbers",
    "to_arrow": "to_table() reads an Arrow table",
    "to_csv": "to_pandas().to_csv(path) writes the rows",
    "to_dask": "lancecy.scan(uri) is a Dask DataFrame",
    "to_duckdb": "to_pyarrow_dataset() is what DuckDB queries",
    "to_numpy": "to_table() reads an Arrow table, whose columns have to_numpy()",
    "to_parquet": "lancecy.scan(uri).to_parquet(folder) writes Parquet files",
    "to_pydict": "to_table() reads an Arrow table, which has to_pydict()",
    "to_pylist": "to_table() reads an Arrow table, which has to_pylist()",
    "to_reader": "scanner(…).to_reader() reads batch by batch",
    "upsert": "merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(rows) is an upsert",
    "vacuum": "cleanup_old_versions(older_than) removes old versions and their files",
    "where": _ROWS,
}
"""Names of pandas, pyarrow, Delta and Iceberg for what a dataset does by another name."""


class _Refusing(ABCMeta):
    """The class of :class:`RefusedNames`: static methods of pylance are missing on the class itself."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            refused = f"type object {cls.__name__!r} has no attribute {name!r}"
            raise AttributeError(f"{refused}{_advice(cls, name)}", name=name, obj=cls)


class RefusedNames(metaclass=_Refusing):
    """Base class of objects whose missing attributes are explained."""

    _refused_names: ClassVar[Mapping[str, str]] = {}
    _other_names: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refused = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{refused}{_advice(type(self), name)}", name=name, obj=self)


def _advice(kind: type[RefusedNames], name: str) -> str:
    if name in kind._refused_names:
        return f", which pylance has: {kind._refused_names[name]}"
    return f": {kind._other_names[name]}" if name in kind._other_names else ""


class CallableDict(dict[_K, _V]):
    """A dictionary of a property that is a method in pylance: a call returns the dictionary.

    Examples
    --------
    >>> config = CallableDict({"owner": "me"})
    >>> config["owner"], config() == config
    ('me', True)
    """

    def __call__(self) -> CallableDict[_K, _V]:
        return self
