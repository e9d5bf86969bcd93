"""Options of ``df.write.format("lancecy")``; ``options`` has those of reads, and parses both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancecy.changes.options import WRITE_DEFAULTS
from lancecy.errors import printable
from lancecy.records import dataclass
from lancecy.spark.options import KEPT_NOWHERE, TableOptions, json_value, parsed, placed
from lancecy.write.targets import DatasetBasePath

__all__ = ["SinkOptions"]


@dataclass(frozen=True)
class SinkOptions(TableOptions):
    """Options of a write through the data source; as for ``lancecy.write_dataset``.

    Attributes
    ----------
    branch : str or None
        An existing branch of the table to write to; the table itself need not exist.
    initial_bases : tuple of DatasetBasePath
        From a JSON list of objects with ``path``, ``name`` and ``is_dataset_root``.
    target_bases, allowed_bases : list of str or None
        From a JSON list, or comma-separated names.
    target_all_bases : bool or None
    data_storage_version, commit_message, token : str or None
    durability : str
    enable_stable_row_ids : bool
    max_rows_per_file, max_bytes_per_file, max_rows_per_group : int
    cast : bool
    zonemaps : bool or list of str
        "true" for all columns that have an order, or their names as for ``target_bases``.
    """

    branch: str | None = None
    initial_bases: tuple[DatasetBasePath, ...] = ()
    target_bases: Any = None
    target_all_bases: bool | None = None
    data_storage_version: str | None = None
    enable_stable_row_ids: bool = False
    max_rows_per_file: int = WRITE_DEFAULTS["max_rows_per_file"]
    max_bytes_per_file: int = WRITE_DEFAULTS["max_bytes_per_file"]
    max_rows_per_group: int = WRITE_DEFAULTS["max_rows_per_group"]
    cast: bool = False
    zonemaps: Any = False
    commit_message: str | None = None
    durability: Any = WRITE_DEFAULTS["durability"]
    token: str | None = None
    allowed_bases: Any = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Check the options of a write; parameters and errors as for :meth:`lancecy.spark.options.ReadOptions.parse`.

        Examples
        --------
        >>> SinkOptions.parse({"path": "t.lance", "maxRowsPerFile": "1000", "targetbases": "b1, b2"}).target_bases
        ['b1', 'b2']
        """
        found = placed(parsed(cls, _of_writes(given), {"initial_bases": _bases}), "append")
        if not found.path:
            raise ValueError(
                f"lancecy writes one table: say which with .save(path). {KEPT_NOWHERE} INSERT INTO name WITH (path '…')"
            )
        return found


_ROWS_READ = ("columns", "filter", "with_row_id", "with_row_address", "version", "tag", "asof")
_WAYS_OF_READING = ("partitions", "blocksize", "batch_size", "truncate_nanoseconds", "untrusted", "replicas")


def _of_writes(given: Mapping[str, str]) -> dict[str, str]:
    """The options without those that only say how a view is read; refused if they say which rows and columns it has."""
    plain = {key.replace("_", "").lower(): key for key in given}
    for name in _ROWS_READ:
        if name.replace("_", "") in plain:
            raise ValueError(
                f"a view with option {name} is for reading: INSERT needs one of the whole table, made without it"
            )
    ways = {name.replace("_", "") for name in _WAYS_OF_READING}
    return {key: given[key] for short, key in plain.items() if short not in ways}


def _bases(name: str, text: str) -> tuple[DatasetBasePath, ...]:
    try:
        return tuple(DatasetBasePath(**base) for base in json_value(name, text, list, "a JSON list"))
    except TypeError as error:
        raise ValueError(f"option {name} must be a JSON list of objects: {printable(error)}") from None
