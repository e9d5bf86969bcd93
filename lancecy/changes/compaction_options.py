"""Options of a compaction: given, else from the table's configuration, else the default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from lancecy.changes.options import CommitRequest, Durability, commit_request
from lancecy.errors import UnsupportedError, nearest
from lancecy.keyword_options import check_options, whole_number
from lancecy.records import dataclass

__all__ = [
    "COMPACTION_DEFAULTS",
    "RUN_DEFAULTS",
    "CompactionMode",
    "CompactionOptions",
    "CompactionRunOptions",
    "CompactionSettings",
    "RunRequest",
]

CompactionMode: TypeAlias = Literal["reencode", "try_binary_copy", "force_binary_copy"]

_CONFIG = "lance.compaction."
_NOT_IN_CONFIG = ("num_threads", "io_buffer_size", "excluded_fragment_ids", "target_bases")
_COUNTS = (
    "target_rows_per_fragment",
    "max_rows_per_group",
    "max_bytes_per_file",
    "num_threads",
    "batch_size",
    "io_buffer_size",
    "binary_copy_read_batch_bytes",
    "max_source_fragments",
    "max_source_rows",
    "max_source_bytes",
)


class CompactionOptions(TypedDict, total=False):
    """Options of a compaction; :meth:`DatasetOptimizer.compact_files` describes each."""

    target_rows_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    defer_index_remap: bool | None
    num_threads: int | None
    batch_size: int | None
    io_buffer_size: int | None
    compaction_mode: CompactionMode | None
    binary_copy_read_batch_bytes: int | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    excluded_fragment_ids: Sequence[int] | None
    data_storage_version: str | None
    target_bases: Sequence[str] | None


COMPACTION_DEFAULTS: dict[str, Any] = dict.fromkeys(CompactionOptions.__annotations__)
"""Default of each option: None, so that the table's configuration applies."""


class CompactionRunOptions(CompactionOptions, total=False):
    """Options of a compaction that is committed; :meth:`DatasetOptimizer.compact_files` describes each."""

    durability: Durability
    commit_message: str | None
    transaction_properties: Mapping[str, str] | None
    conflict_retries: int
    retry_timeout: timedelta


_RUN: dict[str, Any] = {
    "durability": "fsync",
    "commit_message": None,
    "transaction_properties": None,
    "conflict_retries": 10,
    "retry_timeout": timedelta(seconds=30),
}
RUN_DEFAULTS: dict[str, Any] = {**COMPACTION_DEFAULTS, **_RUN}
"""Default of each option of a compaction that is committed."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The options of a compaction that is committed.

    Attributes
    ----------
    options : mapping
        Keys of ``CompactionOptions``.
    commit : CommitRequest
    conflict_retries : int
    retry_timeout : timedelta
    """

    options: Mapping[str, Any]
    commit: CommitRequest
    conflict_retries: int
    retry_timeout: timedelta

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RunRequest:
        """The options of :class:`CompactionRunOptions` as a value.

        Parameters
        ----------
        given : mapping

        Raises
        ------
        ValueError, TypeError
            An option of the commit is invalid.
        """
        options = {name: value for name, value in given.items() if name in COMPACTION_DEFAULTS}
        asked = {**_RUN, **{name: value for name, value in given.items() if name in _RUN}}
        retries, timeout = asked.pop("conflict_retries"), asked.pop("retry_timeout")
        return cls(options, commit_request(asked), retries, timeout)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The options of one compaction, as plain values; :meth:`of` makes and checks them.

    Attributes
    ----------
    target_rows_per_fragment : int
    max_rows_per_group : int
    max_bytes_per_file : int, bytes
    materialize_deletions : bool
    materialize_deletions_threshold : float
    num_threads : int
        Tasks that run side by side.
    batch_size : int or None
    io_buffer_size : int or None, bytes
    compaction_mode : str or None
        None: pages are copied where the result reads as fast as a rewritten file.
    binary_copy_read_batch_bytes : int, bytes
    max_source_fragments, max_source_rows, max_source_bytes : int or None
    excluded_fragment_ids : tuple of int
    data_storage_version : str or None
    target_bases : tuple of str or None
    """

    target_rows_per_fragment: int = 1 << 20
    max_rows_per_group: int = 1024
    max_bytes_per_file: int = 90 << 30
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    num_threads: int = 1
    batch_size: int | None = None
    io_buffer_size: int | None = None
    compaction_mode: CompactionMode | None = None
    binary_copy_read_batch_bytes: int = 16 << 20
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: tuple[int, ...] = ()
    data_storage_version: str | None = None
    target_bases: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, options: Mapping[str, Any] | None, config: Mapping[str, str] | None = None
    ) -> CompactionSettings:
        """Settings from given options and the configuration of a table.

        Parameters
        ----------
        options : mapping, optional
            Keys of :class:`CompactionOptions`; None as a value means that the option is not given.
        config : mapping of str to str, optional
            Configuration of the table, whose keys ``lance.compaction.*`` are used.

        Raises
        ------
        ValueError
            An unknown option, or a value out of range.
        TypeError
            A value of another type.
        UnsupportedError
            ``defer_index_remap`` is requested.

        Examples
        --------
        >>> config = {"lance.compaction.target_rows_per_fragment": "500"}
        >>> CompactionSettings.of({"batch_size": 10}, config).target_rows_per_fragment
        500
        """
        given = {name: value for name, value in (options or {}).items() if value is not None}
        for name in given:
            if name not in COMPACTION_DEFAULTS:
                close = nearest(name, set(COMPACTION_DEFAULTS), limit=1)
                advice = f"; did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"{name!r} is no option of a compaction{advice}")
        check_options(CompactionOptions, given)
        merged = {**_configured(config or {}), **given}
        if merged.pop("defer_index_remap", False):
            raise UnsupportedError(
                "defer_index_remap=True is not supported: it writes an index of moved rows, which lancecy does not "
                "maintain. Without it, scalar indices are made again for the new fragments, in a version of their own",
                feature="defer_index_remap",
            )
        return _checked(merged)

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``json.dumps``."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CompactionSettings:
        """The settings in the JSON of :meth:`to_json`.

        Raises
        ------
        ValueError, TypeError
            As :meth:`of`.
        """
        return cls.of(data)


def _configured(config: Mapping[str, str]) -> dict[str, Any]:
    """Options in the configuration of a table; names that are no option are ignored, as in pylance."""
    found: dict[str, Any] = {}
    for key, text in config.items():
        name = key.removeprefix(_CONFIG)
        if name != key and name in COMPACTION_DEFAULTS and name not in _NOT_IN_CONFIG:
            try:
                found[name] = _parsed(name, text)
            except ValueError:
                raise ValueError(
                    f"the configuration of the table sets {key} to {text!r}, which is no value of this option: "
                    f"change it with update_config, or give {name}"
                ) from None
    return found


def _parsed(name: str, text: str) -> Any:
    if name in _COUNTS:
        return int(text)
    if name == "materialize_deletions_threshold":
        return float(text)
    if name in ("materialize_deletions", "defer_index_remap"):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return text


def _checked(given: Mapping[str, Any]) -> CompactionSettings:
    values = dict(given)
    for name in _COUNTS:
        if name in values:
            values[name] = whole_number(name, values[name])
            if values[name] < 1:
                raise ValueError(f"{name} is {values[name]}; it must be at least 1")
    share = values.get("materialize_deletions_threshold", 0.0)
    if isinstance(share, bool) or not isinstance(share, int | float):
        raise TypeError(f"materialize_deletions_threshold is a number, not {share!r}")
    if math.isnan(share) or share < 0:
        raise ValueError(f"materialize_deletions_threshold is {share}; it is a share of rows, from 0 to 1")
    mode = values.get("compaction_mode")
    if mode is not None and mode not in get_args(CompactionMode):
        known = ", ".join(map(repr, get_args(CompactionMode)))
        raise ValueError(f"compaction_mode is {mode!r}; it can be {known}")
    excluded = values.get("excluded_fragment_ids", ())
    values["excluded_fragment_ids"] = tuple(whole_number("a fragment id", item) for item in excluded)
    bases = values.get("target_bases")
    if isinstance(bases, str):
        raise TypeError("target_bases is a list of names or paths, not one of them")
    values["target_bases"] = None if bases is None else tuple(bases)
    names = {field.name for field in fields(CompactionSettings)}
    return CompactionSettings(**{name: value for name, value in values.items() if name in names})
