"""The base class :class:`Operation`, and the values that its methods take and return.

A commit calls these methods of an operation, in this order::

    footprints      what it touches, to compare with later commits (``commit.conflicts``)
    adds_same_keys  reads rows that later commits added, where footprints leave a doubt
    resolve         adds facts of the newest version, by requests: files to write, places of bases
    apply           the next manifest's message (``create``: for a new table)
    encode          its message in the transaction file
    references      files and versions it refers to, checked before the version is published

A commit that lost a race begins again at ``footprints``. ``decode`` reads the message of ``encode``.

Source: table sheet, sections 4.2 and 4.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol, Self

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import BasePath, BasePaths, Fragment
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.requests import Steps
from lancecy.table.wire.fragment import decode_base_paths
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = [
    "Added",
    "Footprint",
    "NewManifest",
    "Newest",
    "Operation",
    "OtherVersions",
    "References",
    "VersionStamp",
]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The parts of a table that an operation touches, to detect conflicts.

    Attributes
    ----------
    kind : str
        Name of its row and column in the grid.
    changed : frozenset of int
        Fragments where only the deletion file changes.
    rewritten : frozenset of int
        Fragments that are removed or whose data files change.
    knows_rows : bool
        Whether the deleted rows are known, so that deletion vectors can be merged.
    upserts, deletes : frozenset of str
        Keys of a map, or names of indices.
    replaces : bool
        Whether the whole map is replaced.
    fields : frozenset of int or None
        Fields whose metadata or values are set, or that are indexed; all remaining fields if the schema changes.
    keys : KeyFilter or None
        Keys of rows that are added because the table lacks them.
    bases : tuple of BasePath
    """

    kind: str
    changed: frozenset[int] = frozenset()
    rewritten: frozenset[int] = frozenset()
    knows_rows: bool = False
    upserts: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    replaces: bool = False
    fields: frozenset[int] | None = None
    keys: KeyFilter | None = None
    bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionStamp:
    """Number, time and transaction file of a version.

    Attributes
    ----------
    version : int
        Number of the new version.
    time_ns : int, ns since 1970
    transaction_file : str
        Name below ``_transactions/``.
    is_detached : bool
        Whether the version is outside the history.
    """

    version: int
    time_ns: int
    transaction_file: str
    is_detached: bool = False


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A new manifest, with the other contents of its file.

    Attributes
    ----------
    message : lance.table.Manifest
    indices : bytes or None
        The index section.
    dictionaries : bytes
        Values of 0.1 dictionary fields.
    continues : ManifestFile or None
        The version whose row ids must be valid; None for a new table or a repair of row ids.
    """

    message: table_pb2.Manifest
    indices: bytes | None
    dictionaries: bytes
    continues: ManifestFile | None = None

    @classmethod
    def copy_of(cls, stored: ManifestFile) -> NewManifest:
        """A copy of a version, whose message may be changed."""
        message = table_pb2.Manifest()
        message.CopyFrom(stored.message)
        return cls(message, stored.indices, stored.dictionaries, stored)

    @property
    def bases(self) -> BasePaths:
        """The bases of its files."""
        bases = decode_base_paths(self.message.base_paths)
        is_flagged = bool(self.message.reader_feature_flags & flags.BASES)
        return BasePaths(bases, is_flagged, self.message.branch or None)


@dataclass(frozen=True, slots=True)
class References:
    """Files, versions and bases that an operation refers to, beyond those of the newest version.

    Attributes
    ----------
    fragments : tuple of Fragment
        New fragments, whose data files are checked before the version is published.
    version : int or None
        A version that must exist until the publication.
    bases : tuple of BasePath
        Bases that the operation registers or moves.
    """

    fragments: tuple[Fragment, ...] = ()
    version: int | None = None
    bases: tuple[BasePath, ...] = ()


class OtherVersions(Protocol):
    """Reads versions of the table (``history.History``)."""

    def at(self, version: int) -> Steps[ManifestFile | None]:
        """A version by its number, None if it is gone."""

    def operation(self, stored: ManifestFile) -> Steps[Operation | None]:
        """The operation that made a version, None if unknown."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version, as the input of :meth:`Operation.resolve`.

    Attributes
    ----------
    stored : ManifestFile
        The newest version.
    others : OtherVersions
    limits : Limits
    """

    stored: ManifestFile
    others: OtherVersions
    limits: Limits


@dataclass(frozen=True, slots=True)
class Added:
    """Rows that others added since a change was made.

    Attributes
    ----------
    stored : ManifestFile
        The newest version. Fragments may be gone from it again.
    path : str
        Its manifest file, below the dataset root.
    fragments : tuple of Fragment
        The rows, as they were added.
    """

    stored: ManifestFile
    path: str
    fragments: tuple[Fragment, ...]


class Operation(ABC):
    """A change of a table, independent of the version it is applied to.

    Subclasses are frozen values. New fragments have no ids yet, and deleted rows are offsets and not files:
    :meth:`resolve` and :meth:`apply` add them in each attempt of a commit.

    Attributes
    ----------
    kinds : tuple of str
        Names of its rows and columns in the conflict grid.
    writes : str
        Kind of the files that :meth:`resolve` writes, for messages; "" if it writes none.
    makes_tables : bool
        Whether it has a :meth:`create`.
    needs_read_version : bool
        Whether its meaning depends on the version it was made from, so that a user must name one.
    """

    __slots__ = ()

    kinds: ClassVar[tuple[str, ...]]
    writes: ClassVar[str] = ""
    makes_tables: ClassVar[bool] = False
    needs_read_version: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Its name in messages."""
        return type(self).__name__

    @abstractmethod
    def footprints(self) -> tuple[Footprint, ...]:
        """The parts of a table that it touches, one footprint for each of its ``kinds``."""

    def adds_same_keys(self, added: Added) -> Steps[bool]:
        """Whether rows that others added may have keys of the rows that it adds; False is certain.

        Asked only if the grid says that they may.

        Parameters
        ----------
        added : Added

        Raises
        ------
        LanceError
            The rows cannot be read.
        """
        yield from ()
        return True

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """The operation with facts of the newest version; writes the files that it needs.

        Parameters
        ----------
        newest : Newest
        before : (operation, ManifestFile), optional
            Result of the earlier attempt, and its version.
        """
        yield from ()
        return self

    @property
    def first_version(self) -> int:
        """Number of the first version of a table that it makes."""
        return 1

    def create(self, stamp: VersionStamp) -> NewManifest:
        """The first version of a table.

        Raises
        ------
        ValueError
            This operation makes no table.
        """
        raise ValueError(f"{self.name} makes no table: only Overwrite and Clone do")

    @abstractmethod
    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        """The version that the resolved operation makes from another; ``apply.apply`` does the shared steps.

        Raises
        ------
        LanceError, ValueError
            As ``apply.apply``.
        """

    @abstractmethod
    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        """Write the operation into the message of its transaction.

        Parameters
        ----------
        message : lance.table.Transaction
            Changed.
        made : lance.table.Manifest
            The result of :meth:`apply`; empty if unknown.
        """

    @classmethod
    @abstractmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Operation:
        """The operation in a transaction message that has its registered field.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            The fragments or bases it adds cannot be read.
        """

    def references(self) -> References:
        """Its references beyond the newest version."""
        return References()

    def written_fields(self) -> frozenset[int] | None:
        """Ids of the table's fields in new files, which must still mean the same columns; None without such files."""
        return None

    @property
    def changes_schema(self) -> bool:
        """Whether it may change the columns that field ids mean, in a table that keeps its rows."""
        return False
