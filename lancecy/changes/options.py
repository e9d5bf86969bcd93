"""Keyword arguments of all write functions, and the values made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from lancecy.keyword_options import uuid_of, whole_number
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.committing import CommitLock
from lancecy.store.local import LocalStore
from lancecy.table.cleanup.automatic import INTERVAL, OLDER_THAN
from lancecy.table.operations.transaction import COMMIT_MESSAGE
from lancecy.table.paths import Naming
from lancecy.write.fragments import FileLimits
from lancecy.write.progress import WriteCallback
from lancecy.write.targets import DatasetBasePath

__all__ = [
    "UNSUPPORTED_WRITES",
    "WRITE_DEFAULTS",
    "AccessOptions",
    "CommitAccessOptions",
    "CommitOptions",
    "CommitRequest",
    "Durability",
    "FileOptions",
    "FragmentOptions",
    "InsertOptions",
    "Mode",
    "NewFragmentOptions",
    "VersionOptions",
    "WriteOptions",
    "WriteRequest",
    "check_texts",
    "cleanup_config",
    "commit_request",
    "is_durable",
    "requests_of",
    "with_durability",
]

Mode: TypeAlias = Literal["create", "append", "overwrite"]
Durability: TypeAlias = Literal["fsync", "none"]
ExternalBlobMode: TypeAlias = Literal["reference", "ingest"]
_DURABILITIES = get_args(Durability)


class FileOptions(TypedDict, total=False):
    """Options of data files and their places; ``lancecy.write_dataset`` describes each."""

    data_storage_version: str | None
    initial_bases: Sequence[DatasetBasePath] | None
    target_bases: Sequence[str] | None
    target_all_bases: bool | None
    max_rows_per_file: int
    max_bytes_per_file: int
    max_rows_per_group: int
    cast: bool
    external_blob_mode: ExternalBlobMode
    allow_external_blob_outside_bases: bool
    durability: Durability
    progress: WriteCallback | None


class VersionOptions(TypedDict, total=False):
    """Options recorded in a version, and options of a new table."""

    enable_stable_row_ids: bool | None
    enable_v2_manifest_paths: bool | None
    commit_message: str | None
    transaction_properties: Mapping[str, str] | None
    skip_auto_cleanup: bool


class AccessOptions(TypedDict, total=False):
    """Options of storage access; not allowed with a Dataset, which has its own."""

    storage_options: Mapping[str, Any] | None
    allowed_bases: Sequence[str] | None
    session: Session | None


class CommitAccessOptions(AccessOptions, total=False):
    """Options of storage access by a commit; not allowed with a Dataset, which has its own."""

    commit_lock: CommitLock | None


class CommitOptions(VersionOptions, CommitAccessOptions, total=False):
    """Options of committing an operation."""

    durability: Durability


class InsertOptions(FileOptions, VersionOptions, total=False):
    """Options of writing rows into an open table."""

    auto_cleanup_options: Mapping[str, int] | None


class FragmentOptions(FileOptions, AccessOptions, total=False):
    """Options of writing data files that no version names yet."""


class NewFragmentOptions(AccessOptions, total=False):
    """Options of writing one data file that no version names yet."""

    data_storage_version: str | None
    cast: bool
    durability: Durability


class WriteOptions(InsertOptions, CommitAccessOptions, total=False):
    """Options of writing rows."""


_LIMITS = FileLimits()
WRITE_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(WriteOptions.__annotations__),
    "enable_stable_row_ids": False,
    "enable_v2_manifest_paths": True,
    "max_rows_per_file": _LIMITS.max_rows,
    "max_bytes_per_file": _LIMITS.max_bytes,
    "max_rows_per_group": _LIMITS.max_rows_per_group,
    "cast": False,
    "external_blob_mode": "reference",
    "allow_external_blob_outside_bases": False,
    "durability": "fsync",
    "skip_auto_cleanup": False,
}
"""Default of each option; None where the table decides."""

_BY_NAME = (
    "pass the Dataset that lancecy.dataset(namespace=…, table_id=…) opens; for a new table write_dataset("
    "schema.empty_table(), namespace=…, table_id=…) makes one"
)
UNSUPPORTED_WRITES = {
    "commit_lock": "give it to the commit, or to lancecy.dataset",
    "data_cache_bytes": "the pages of all columns wait in bounded memory",
    "max_page_bytes": "max_rows_per_group sets the rows of a page in files of 0.1",
    "use_legacy_format": "data_storage_version='legacy' writes files of 0.1",
    "base_store_params": "storage_options={'base_<id>.<key>': …} gives the options of one base",
    "blob_pack_file_size_threshold": "lancecy.blob_field(pack_file_size_threshold=…) sets it for a column",
    "namespace_client": _BY_NAME,
    "table_id": _BY_NAME,
    "namespace_client_managed_versioning": _BY_NAME,
}
"""Pylance options that writers refuse, and the alternative to each."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Options of one commit, as a value.

    Attributes
    ----------
    message : str or None
    properties : mapping of str to str
    attempts : int
        Maximum number of lost races for a version.
    token : str or None
        Identifies the change, so that repeated commits apply it once.
    naming : Naming
        Naming scheme of a new table.
    durable : bool
        Whether written files are synced to disk before the commit returns.
    auto_cleanup : bool
        Whether to clean up after the commit, if the table's configuration asks for it.
    detached : bool
        Whether the version is outside the history.
    uuid : str or None
        Id of the transaction; a new one if not given.
    timeout : timedelta or None
        After this no new attempt is made.
    written_ns : int or None
        When the writing of the new files began; see ``table.commit.options.Policy``.
    check_files : bool
        Whether to check that new data files are there.
    next_only : bool
        Whether any version after the one that was read is a conflict.

    Raises
    ------
    TypeError
        The message or a property is not a string.
    ValueError
        The number of races is negative, the time is not positive, or the id is not a UUID.
    """

    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 20
    token: str | None = None
    naming: Naming = Naming.V2
    durable: bool = True
    auto_cleanup: bool = True
    detached: bool = False
    uuid: str | None = None
    timeout: timedelta | None = None
    written_ns: int | None = None
    check_files: bool = True
    next_only: bool = False

    def __post_init__(self) -> None:
        if self.uuid is not None:
            # It becomes part of a file name.
            object.__setattr__(self, "uuid", str(uuid_of("the uuid of a transaction", self.uuid)))
        check_texts(self.all_properties)
        if self.attempts < 0:
            raise ValueError(f"max_retries is {self.attempts}; it cannot be negative")
        if self.timeout is not None and self.timeout <= timedelta(0):
            raise ValueError(f"commit_timeout is {self.timeout}; it has to be positive")

    @property
    def all_properties(self) -> dict[str, str]:
        """The properties, including the message."""
        return {**self.properties, **({} if self.message is None else {COMMIT_MESSAGE: self.message})}


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Options of one write, as a value; ``lancecy.write_dataset`` describes each.

    Attributes
    ----------
    mode : "create", "append" or "overwrite"
    data_version : str or None
    stable_row_ids : bool
    initial_bases : tuple of DatasetBasePath
    target_bases : tuple of str or None
    target_all_bases : bool or None
    limits : FileLimits
    cast : bool
    durable : bool
    progress : function of a Step, or FragmentWriteProgress, or None
    config : mapping of str to str
        Configuration of a new table.
    external_blobs : "reference" or "ingest"
    anywhere_blobs : bool
        Whether blobs may refer to objects outside of the bases.
    """

    mode: Mode = "create"
    data_version: str | None = None
    stable_row_ids: bool = False
    initial_bases: tuple[DatasetBasePath, ...] = ()
    target_bases: tuple[str, ...] | None = None
    target_all_bases: bool | None = None
    limits: FileLimits = field(default_factory=FileLimits)
    cast: bool = False
    durable: bool = True
    progress: WriteCallback | None = field(default=None, compare=False)
    config: Mapping[str, str] = field(default_factory=dict)
    external_blobs: ExternalBlobMode = "reference"
    anywhere_blobs: bool = False

    def __post_init__(self) -> None:
        if self.external_blobs not in get_args(ExternalBlobMode):
            raise ValueError(
                f"external_blob_mode is {self.external_blobs!r}; it can be 'reference' or 'ingest'"
            )
        if self.anywhere_blobs and self.external_blobs == "ingest":
            raise ValueError(
                "allow_external_blob_outside_bases is for external_blob_mode='reference': with 'ingest' the bytes are "
                "copied, wherever they are"
            )
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode is {self.mode!r}; it can be 'create', 'append' or 'overwrite'")
        if not isinstance(self.data_version, str | None):
            raise TypeError(
                f"data_storage_version is text, such as {str(self.data_version)!r}, not {self.data_version!r}"
            )


def requests_of(mode: Mode, options: Mapping[str, object]) -> tuple[WriteRequest, CommitRequest]:
    """The options of ``lancecy.write_dataset`` as values.

    Parameters
    ----------
    mode : "create", "append" or "overwrite"
    options : mapping
        The given keys of ``WriteOptions``.

    Raises
    ------
    ValueError, TypeError
        An option is invalid.
    """
    given: dict[str, Any] = {**WRITE_DEFAULTS, **options}
    bases = given["target_bases"]
    if isinstance(bases, str):
        raise TypeError("target_bases is a list of names or paths, not one of them")
    commit = commit_request(options)
    limits = ("max_rows_per_file", "max_bytes_per_file", "max_rows_per_group")
    written = WriteRequest(
        mode,
        given["data_storage_version"],
        bool(given["enable_stable_row_ids"]),
        tuple(given["initial_bases"] or ()),
        None if bases is None else tuple(bases),
        given["target_all_bases"],
        FileLimits(*(whole_number(name, given[name]) for name in limits)),
        given["cast"],
        commit.durable,
        given["progress"],
        cleanup_config(given["auto_cleanup_options"]),
        given["external_blob_mode"],
        bool(given["allow_external_blob_outside_bases"]),
    )
    return written, commit


def cleanup_config(options: Mapping[str, int] | None) -> dict[str, str]:
    """The configuration for automatic cleanups, as pylance writes it.

    Parameters
    ----------
    options : mapping or None
        As ``auto_cleanup_options`` of ``lancecy.write_dataset``.

    Raises
    ------
    ValueError, TypeError
        An option is unknown, negative or no integer.

    Examples
    --------
    >>> cleanup_config({"interval": 3})
    {'lance.auto_cleanup.interval': '3', 'lance.auto_cleanup.older_than': '14days'}
    """
    if options is None:
        return {}
    known = {"interval": (INTERVAL, ""), "older_than_seconds": (OLDER_THAN, "s")}
    config = {INTERVAL: "20", OLDER_THAN: "14days"}
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"auto_cleanup_options have no {name!r}, only {' and '.join(known)}")
        number = whole_number(f"{name} of auto_cleanup_options", value)
        if number < 0:
            raise ValueError(f"{name} of auto_cleanup_options is {number}; it cannot be negative")
        key, unit = known[name]
        config[key] = f"{number}{unit}"
    return config


def commit_request(
    options: Mapping[str, object], max_retries: int = 20, token: str | None = None
) -> CommitRequest:
    """The options of ``lancecy.commit`` as a value.

    Parameters
    ----------
    options : mapping
        The given keys of ``CommitOptions``.
    max_retries : int
    token : str, optional

    Raises
    ------
    ValueError, TypeError
        An option is invalid.
    """
    given: dict[str, Any] = {**WRITE_DEFAULTS, **options}
    naming = Naming.V1 if given["enable_v2_manifest_paths"] is False else Naming.V2
    properties = dict(given["transaction_properties"] or {})
    durable = is_durable(given["durability"])
    cleans = not given["skip_auto_cleanup"]
    return CommitRequest(given["commit_message"], properties, max_retries, token, naming, durable, cleans)


def with_durability(store: Store, durable: bool) -> Store:
    """The store for writing; it does not wait for the disk if ``durable`` is false."""
    return store.without_fsync() if not durable and isinstance(store, LocalStore) else store


def is_durable(durability: Durability) -> bool:
    """Whether writes wait for the disk.

    Raises
    ------
    ValueError
        Neither "fsync" nor "none".
    """
    if durability not in _DURABILITIES:
        raise ValueError(f"durability is {durability!r}; it can be 'fsync' or 'none'")
    return durability == "fsync"


def check_texts(values: Mapping[str, object]) -> None:
    """Check that keys and values are strings, as all maps of a table require.

    Raises
    ------
    TypeError
        A key or value is not a string.
    """
    for key, value in values.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"keys and values are texts; {key!r} is to become {value!r}")
