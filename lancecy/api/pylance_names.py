"""Names of pylance: properties that are methods there, and missing ones, each with an error that says what does the same."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

__all__ = ["DATASET_NAMES", "FRAGMENT_NAMES", "CallableDict", "RefusedNames"]

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


class _Refusing(ABCMeta):
    """The class of :class:`RefusedNames`: static methods of pylance are missing on the class itself."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            refused = f"type object {cls.__name__!r} has no attribute {name!r}"
            raise AttributeError(f"{refused}{_advice(cls, name)}", name=name, obj=cls)


class RefusedNames(metaclass=_Refusing):
    """Base class of objects whose missing attributes are explained."""

    _refused_names: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refused = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{refused}{_advice(type(self), name)}", name=name, obj=self)


def _advice(kind: type[RefusedNames], name: str) -> str:
    advice = kind._refused_names.get(name)
    return "" if advice is None else f", which pylance has: {advice}"


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
