"""The metadata of one version: plain frozen values, without bytes and IO.

``wire`` decodes protobuf to these and encodes them. A manifest of thousands of fragments or
columns builds them on first use. Facts: table sheet, sections 1 to 3.
"""

from __future__ import annotations

import enum
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.table.fragment_table import FileForm, FragmentTable
from lancecy.table.paths import DELETIONS
from lancecy.table.replicas import configured_replicas

__all__ = [
    "BasePath",
    "BasePaths",
    "DataFile",
    "DeletionFile",
    "DeletionFileType",
    "ExternalFile",
    "Fragment",
    "IndexEntry",
    "Manifest",
    "WriterVersion",
    "table_of",
    "without_row_counts",
]


@dataclass(frozen=True, slots=True)
class BasePath:
    """An alternative place for files.

    Attributes
    ----------
    id : int
        The value of a file's ``base_id``.
    path : str
        Absolute path or URI, as stored.
    name : str or None
    is_dataset_root : bool
        True: files are in ``data/`` and ``_deletions/`` below it. False: directly below it.
    """

    id: int
    path: str
    name: str | None = None
    is_dataset_root: bool = False


@dataclass(frozen=True, slots=True)
class BasePaths:
    """The bases of a version: the part of its manifest that locates its files.

    Attributes
    ----------
    by_id : mapping of id to BasePath
    is_flagged : bool
        Whether the manifest has the feature flag for bases.
    branch : str or None
        Branch of the version; None for a main table.
    replicas : mapping of str to tuple of str
        Places with copies of a base's files by the configuration: by name or id of the base, "" for the table's own folder.
    """

    by_id: Mapping[int, BasePath] = field(default_factory=dict)
    is_flagged: bool = True
    branch: str | None = None
    replicas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Lance file holding some columns of a fragment.

    Attributes
    ----------
    path : str
        One segment, below ``data/``.
    fields : tuple of int
        Field ids as stored; negative ids are tombstones or hidden columns.
    column_indices : tuple of int
        Parallel to ``fields`` in 2.x files, empty in 0.1 files.
    file_major_version, file_minor_version : int
        File version as the manifest states it.
    file_size_bytes : int or None
        As stated; None if absent. Several releases stated wrong sizes of legacy files, so it is not trusted for them.
    base_id : int or None

    Examples
    --------
    >>> import dataclasses
    >>> made = DataFile("a.lance", fields=[0, 1], column_indices=[0, 1], file_major_version=2, file_minor_version=1)
    >>> dataclasses.asdict(made)["fields"], DataFile(**dataclasses.asdict(made)) == made
    ((0, 1), True)
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...] = ()
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def __post_init__(self) -> None:
        if type(self.fields) is not tuple or type(self.column_indices) is not tuple:
            # Code written for pylance gives lists, or None.
            object.__setattr__(self, "fields", tuple(self.fields))
            object.__setattr__(self, "column_indices", tuple(self.column_indices or ()))

    @property
    def is_legacy(self) -> bool:
        """Whether this is a 0.1 file (table sheet 2.2, file sheet 7.1)."""
        return self.major == 0 and self.minor < 3

    @property
    def major(self) -> int:
        """Short for ``file_major_version``."""
        return self.file_major_version

    @property
    def minor(self) -> int:
        """Short for ``file_minor_version``."""
        return self.file_minor_version

    @property
    def size(self) -> int | None:
        """Short for ``file_size_bytes``."""
        return self.file_size_bytes


class DeletionFileType(enum.StrEnum):
    """The two formats of a deletion file, which equal pylance's texts for them."""

    ARROW = "array"
    BITMAP = "bitmap"


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The manifest's entry of a fragment's deletion file.

    ``num_deleted_rows`` is None if the manifest does not state it (0 or absent).

    Examples
    --------
    >>> found = DeletionFile(read_version=2, id=99, file_type="array", num_deleted_rows=1)
    >>> found.file_type == "array", DeletionFile.from_json(found.json()) == found
    (True, True)
    """

    read_version: int
    id: int
    file_type: DeletionFileType
    num_deleted_rows: int | None = None
    base_id: int | None = None

    def __post_init__(self) -> None:
        if type(self.file_type) is not DeletionFileType:
            object.__setattr__(self, "file_type", DeletionFileType(self.file_type))

    def name(self, fragment_id: int) -> str:
        """The name of the file.

        Parameters
        ----------
        fragment_id : int

        Examples
        --------
        >>> DeletionFile(2, 99, DeletionFileType.BITMAP).name(7)
        '7-2-99.bin'
        """
        extension = "arrow" if self.file_type is DeletionFileType.ARROW else "bin"
        return f"{fragment_id}-{self.read_version}-{self.id}.{extension}"

    def path(self, fragment_id: int, base_path: str = "") -> str:
        """The path of the file in the folder of the table, as in pylance.

        Parameters
        ----------
        fragment_id : int
        base_path : str
            That folder, to be put in front.

        Examples
        --------
        >>> DeletionFile(2, 99, DeletionFileType.BITMAP).path(7, "data/table")
        'data/table/_deletions/7-2-99.bin'
        """
        above = f"{base_path.rstrip('/')}/" if base_path else ""
        return f"{above}{DELETIONS}/{self.name(fragment_id)}"

    def asdict(self) -> dict[str, Any]:
        """The attributes, with the type as pylance's text: "array" or "bitmap"."""
        return {
            "read_version": self.read_version,
            "id": self.id,
            "file_type": self.file_type.value,
            "num_deleted_rows": self.num_deleted_rows,
            "base_id": self.base_id,
        }

    def json(self) -> str:
        """The attributes as JSON text, as in pylance."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(text: str) -> DeletionFile:
        """The deletion file in the text of :meth:`json`, of lancecy or pylance.

        Parameters
        ----------
        text : str

        Raises
        ------
        ValueError
            Not such JSON, or an unknown type.
        """
        try:
            return DeletionFile(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"this is not a deletion file: {error}") from error


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A byte range of a file below the dataset root (old releases: external row ids)."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of rows.

    Attributes
    ----------
    id : int
        Unique. Below 2**32, except for a fragment whose stored id another one before it has: 2**32 is added for each of
        these.
    physical_rows : int or None
        Rows including deleted ones; None if the manifest does not state them.
    row_ids : bytes, ExternalFile or None
        Serialized row-id sequence (``wire.row_ids`` decodes it), or its place.
    last_updated_versions, created_at_versions : bytes, ExternalFile or None
        Serialized version sequences.
    """

    id: int
    files: tuple[DataFile, ...] = ()
    physical_rows: int | None = None
    deletion_file: DeletionFile | None = None
    row_ids: bytes | ExternalFile | None = None
    last_updated_versions: bytes | ExternalFile | None = None
    created_at_versions: bytes | ExternalFile | None = None

    @property
    def stored_id(self) -> int:
        """The id in the manifest, which is part of row addresses and names of deletion files."""
        return self.id & 0xFFFFFFFF

    @property
    def has_updated_rows(self) -> bool:
        """Whether it has rows of older versions that an update moved here, with their stable row ids."""
        return self.last_updated_versions != self.created_at_versions

    @property
    def live_rows(self) -> int | None:
        """Rows that are not deleted; None if the manifest does not state them."""
        if self.physical_rows is None or self.deletion_file is None:
            return self.physical_rows
        deleted = self.deletion_file.num_deleted_rows
        return None if deleted is None else self.physical_rows - deleted


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One entry of the index section: one segment of an index.

    Attributes
    ----------
    uuid : uuid.UUID
    name : str
        Several entries (segments) may share it; names starting with ``__lance_`` are the system's.
    fields : tuple of int
        Ids of the fields indexed.
    dataset_version : int
        Version the index was built on.
    fragment_bitmap : bytes or None
        Covered fragments, a portable 32-bit roaring bitmap; None if unknown.
    details_type : str
        Full type name of the entry's details, "" without any.
    base_id : int or None
    raw : bytes
        The entry's message, as stored in the section.
    """

    uuid: uuid.UUID
    name: str
    fields: tuple[int, ...]
    dataset_version: int
    fragment_bitmap: bytes | None
    details_type: str
    base_id: int | None
    raw: bytes


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """Name and version of the library that wrote a version."""

    library: str
    version: str


@dataclass(frozen=True)
class Manifest:
    """The metadata of one version.

    Attributes
    ----------
    version : int
    schema : Schema
    fragments : tuple of Fragment, by ascending id
    timestamp : datetime or None, UTC
    reader_flags, writer_flags : int
    data_version : str or None
        "0.1", "2.0", …; None in tables of old releases.
    index_section, transaction_section : (position, length) or None
        Places of the carried sections in the manifest file (bytes of the message itself).
    transaction_file : str or None
    base_paths : mapping of id to BasePath
    """

    version: int
    schema: Schema
    # A default factory leaves no class attribute, which would be found before __getattr__.
    fragments: tuple[Fragment, ...] = field(default_factory=tuple)
    timestamp: datetime | None = None
    tag: str | None = None
    reader_flags: int = 0
    writer_flags: int = 0
    max_fragment_id: int | None = None
    next_row_id: int = 0
    data_version: str | None = None
    writer: WriterVersion | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    base_paths: Mapping[int, BasePath] = field(default_factory=dict)
    branch: str | None = None
    transaction_file: str | None = None
    index_section: tuple[int, int] | None = None
    transaction_section: tuple[int, int] | None = None

    @classmethod
    def later(
        cls,
        makers: Mapping[str, Callable[[], object]],
        table: Callable[[], FragmentTable | None] | None = None,
        one: Callable[[int], Fragment] | None = None,
        **known: Any,
    ) -> Manifest:
        """A manifest that makes some of its attributes on first use.

        Parameters
        ----------
        makers : mapping of attribute to function
            Makes the attribute. Must not fail, because its input was checked; several threads may call it at once.
        table : function, optional
            Makes the columns of the fragments without the fragments; returns None if it needs these.
        one : function of an index, optional
            Makes one fragment, for who needs only some.
        **known
            All other attributes with a value.
        """
        placeholders: dict[str, Any] = dict.fromkeys(makers)
        made = cls(**placeholders, **known)
        for name in makers:
            del made.__dict__[name]
        made.__dict__["_makers"] = dict(makers)
        made.__dict__["_table"] = table
        made.__dict__["_one"] = one
        return made

    def __getattr__(self, name: str) -> Any:
        maker = self.__dict__.get("_makers", {}).get(name)
        if maker is not None:
            value = self.__dict__.setdefault(name, maker())
            self.__dict__["_makers"].pop(name, None)
            if name == "fragments":
                self.__dict__["_table"] = self.__dict__["_one"] = None  # they hold the parsed message
            return value
        if name in self.__dict__:
            return self.__dict__[name]  # another thread has made it meanwhile
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        for name in tuple(self.__dict__.get("_makers", ())):
            getattr(self, name)
        return {name: value for name, value in self.__dict__.items() if name not in _NOT_STORED}

    def fragment(self, index: int) -> Fragment:
        """One of the fragments, by its index in ``fragment_table``; the others need not be made."""
        one: Callable[[int], Fragment] | None = self.__dict__.get("_one")
        return self.fragments[index] if one is None or "fragments" in self.__dict__ else one(index)

    @cached_property
    def fragment_table(self) -> FragmentTable:
        """The fragments as columns."""
        make: Callable[[], FragmentTable | None] | None = self.__dict__.get("_table")
        found = None if make is None else make()
        return table_of(self.fragments) if found is None else found

    @cached_property
    def num_rows(self) -> int | None:
        """Live rows of all fragments, None if the manifest does not state them for each."""
        return self.fragment_table.num_rows

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move (reader flag 2)."""
        return bool(self.reader_flags & 2)

    @property
    def bases(self) -> BasePaths:
        """The bases, and whether reader flag 16 is set for them."""
        flagged = bool(self.reader_flags & 16)
        return BasePaths(self.base_paths, flagged, self.branch, configured_replicas(self.config))


_NOT_STORED = frozenset(("_makers", "_table", "_one", "fragment_table", "num_rows"))


def table_of(fragments: Sequence[Fragment]) -> FragmentTable:
    """Columns of some fragments, by ascending id."""
    files = [file for part in fragments for file in part.files]
    forms: dict[FileForm, int] = {}
    form_of = [forms.setdefault(FileForm(f.fields, f.is_legacy), len(forms)) for f in files]
    live = [part.live_rows for part in fragments]
    return FragmentTable(
        ids=np.array([part.id for part in fragments], np.int64),
        rows=np.array([part.physical_rows or 0 for part in fragments], np.int64),
        live=np.array([-1 if rows is None else rows for rows in live], np.int64),
        has_deletions=np.array([part.deletion_file is not None for part in fragments], np.bool_),
        first_file=np.cumsum([0, *(len(part.files) for part in fragments)], dtype=np.int64),
        forms=tuple(forms),
        form_of=np.array(form_of, np.int64),
        sizes=np.array([file.size or 0 for file in files], np.float64),
        bases=np.array([-1 if file.base_id is None else file.base_id for file in files], np.int64),
    )


def without_row_counts(manifest: Manifest) -> Manifest:
    """The manifest without the physical rows of its fragments, so that the data files tell them.

    Releases that did not name themselves in the manifest wrote the rows that were left after a delete.

    Parameters
    ----------
    manifest : Manifest
    """
    fragments = tuple(replace(fragment, physical_rows=None) for fragment in manifest.fragments)
    return replace(manifest, fragments=fragments)
