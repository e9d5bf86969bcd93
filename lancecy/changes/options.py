"""What a write is told: what, and how it is committed; the arguments of users as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Literal, TypeAlias, get_args

from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.paths import Naming
from lancecy.write.fragments import FileLimits
from lancecy.write.targets import DatasetBasePath

__all__ = [
    "CommitOptions",
    "Durability",
    "Mode",
    "WriteOptions",
    "check_texts",
    "is_durable",
    "options_of",
    "with_durability",
]

Mode: TypeAlias = Literal["create", "append", "overwrite"]
Durability: TypeAlias = Literal["fsync", "none"]

_MESSAGE = "__lance_commit_message"


def with_durability(store: Store, durable: bool) -> Store:
    """The store, to write to without waiting for the disk if it need not be durable."""
    return store.without_fsync() if not durable and isinstance(store, LocalStore) else store


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """How a change is committed.

    Attributes
    ----------
    message : str or None
    properties : mapping of str to str
    attempts : int
        Races for a version that may be lost.
    token : str or None
        Names the change: it happens once, however often it is committed.
    naming : Naming
        Of a new table.
    durable : bool
        Whether what is written is on the disk before anybody hears that it happened.

    Raises
    ------
    TypeError
        The message, or a property, is no text.
    ValueError
        A negative number of races.
    """

    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 20
    token: str | None = None
    naming: Naming = Naming.V2
    durable: bool = True

    def __post_init__(self) -> None:
        check_texts(self.all_properties)
        if self.attempts < 0:
            raise ValueError(f"max_retries is {self.attempts}; it cannot be negative")

    @property
    def all_properties(self) -> dict[str, str]:
        """The properties, the message among them."""
        return {**self.properties, **({} if self.message is None else {_MESSAGE: self.message})}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What is written, and where; see ``lancecy.write_dataset`` for each.

    Attributes
    ----------
    mode : "create", "append" or "overwrite"
    data_version : str or None
    stable_row_ids : bool
    initial_bases : tuple of DatasetBasePath
    target_bases : tuple of str or None
    target_all_bases : bool or None
    limits : FileLimits
    durable : bool
    """

    mode: Mode = "create"
    data_version: str | None = None
    stable_row_ids: bool = False
    initial_bases: tuple[DatasetBasePath, ...] = ()
    target_bases: tuple[str, ...] | None = None
    target_all_bases: bool | None = None
    limits: FileLimits = field(default_factory=FileLimits)
    durable: bool = True

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode is {self.mode!r}; it can be 'create', 'append' or 'overwrite'")


def options_of(
    mode: Mode,
    *,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool = False,
    enable_v2_manifest_paths: bool = True,
    initial_bases: Sequence[DatasetBasePath] | None = None,
    target_bases: Sequence[str] | None = None,
    target_all_bases: bool | None = None,
    max_rows_per_file: int = 1 << 20,
    max_bytes_per_file: int = 90 << 30,
    max_rows_per_group: int = 1024,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    durability: Durability = "fsync",
) -> tuple[WriteOptions, CommitOptions]:
    """The arguments of ``lancecy.write_dataset``, which says what they mean, as values.

    Raises
    ------
    ValueError, TypeError
        They cannot be meant.
    """
    if isinstance(target_bases, str):
        raise TypeError("target_bases is a list of names or paths, not one of them")
    durable = is_durable(durability)
    written = WriteOptions(
        mode,
        data_storage_version,
        enable_stable_row_ids,
        tuple(initial_bases or ()),
        None if target_bases is None else tuple(target_bases),
        target_all_bases,
        FileLimits(
            _whole("max_rows_per_file", max_rows_per_file),
            _whole("max_bytes_per_file", max_bytes_per_file),
            _whole("max_rows_per_group", max_rows_per_group),
        ),
        durable,
    )
    naming = Naming.V2 if enable_v2_manifest_paths else Naming.V1
    properties = dict(transaction_properties or {})
    return written, CommitOptions(commit_message, properties, naming=naming, durable=durable)


def is_durable(durability: Durability) -> bool:
    """Whether to wait for the disk.

    Raises
    ------
    ValueError
        Neither "fsync" nor "none".
    """
    if durability not in get_args(Durability):
        raise ValueError(f"durability is {durability!r}; it can be 'fsync' or 'none'")
    return durability == "fsync"


def check_texts(values: Mapping[str, object]) -> None:
    """See that keys and values are texts, as all of a table's maps want them.

    Raises
    ------
    TypeError
        One is not.
    """
    for key, value in values.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"keys and values are texts; {key!r} is to become {value!r}")


def _whole(name: str, value: int) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
