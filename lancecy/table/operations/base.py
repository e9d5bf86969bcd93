"""What every operation has: the class :class:`Operation`, and the values that its methods take and return.

A commit asks an operation these, in this order::

    footprints   what it touches: compared with what others committed since (``conflicts``)
    resolve      what only the newest version tells, as requests: which files to write, where bases are
    apply        the next manifest's message (``create``: that of a new table)
    encode       its message in the transaction file
    references   what it refers to: checked before the version is published

A commit that lost a race begins again at ``footprints``. ``decode`` is how others read it.

Source: table sheet, sections 4.2 and 4.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.table import flags
from lancecy.table.fragment_wire import decode_base_paths
from lancecy.table.manifest import BasePath, BasePaths, Fragment
from lancecy.table.requests import Steps
from lancecy.table.stored_wire import Stored

__all__ = [
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
    """What an operation touches, as far as conflicts depend on it.

    Attributes
    ----------
    kind : str
        Its row and column of the grid.
    changed : frozenset of int
        Fragments of which only the deletion file changes.
    rewritten : frozenset of int
        Fragments whose data files change, or which are removed.
    knows_rows : bool
        Whether the rows deleted are known, so that deletion vectors can be merged.
    upserts, deletes : frozenset of str
        Keys of a map.
    replaces : bool
        Whether the whole map is replaced.
    fields : frozenset of int or None
        Fields whose metadata is set; of a foreign operation all fields it leaves.
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
    bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionStamp:
    """What every version says of itself.

    Attributes
    ----------
    version : int
        Number of the version to be made.
    time_ns : int, ns since 1970
    transaction_file : str
        Name below ``_transactions/``.
    """

    version: int
    time_ns: int
    transaction_file: str


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest to be written, and what goes into its file beside it.

    Attributes
    ----------
    message : lance.table.Manifest
    indices : bytes or None
        The index section.
    dictionaries : bytes
        Values of 0.1 dictionary fields.
    continues : Stored or None
        The version whose row ids must be in order; None if the table is new, or if its row ids are mended.
    """

    message: table_pb2.Manifest
    indices: bytes | None
    dictionaries: bytes
    continues: Stored | None = None

    @classmethod
    def copy_of(cls, stored: Stored) -> NewManifest:
        """A version once more, whose message may be changed."""
        message = table_pb2.Manifest()
        message.CopyFrom(stored.message)
        return cls(message, stored.indices, stored.dictionaries, stored)

    @property
    def bases(self) -> BasePaths:
        """The bases that its files are in."""
        bases = decode_base_paths(self.message.base_paths)
        return BasePaths(bases, bool(self.message.reader_feature_flags & flags.BASES))


@dataclass(frozen=True, slots=True)
class References:
    """What an operation refers to, beside what the newest version has.

    Attributes
    ----------
    fragments : tuple of Fragment
        New ones. Their data files are looked for before the version is published.
    version : int or None
        A version that must exist until then.
    bases : tuple of BasePath
        Bases that it registers or moves.
    """

    fragments: tuple[Fragment, ...] = ()
    version: int | None = None
    bases: tuple[BasePath, ...] = ()


class OtherVersions(Protocol):
    """Reads versions of the table (``history.History``)."""

    def at(self, version: int) -> Steps[Stored | None]:
        """A version by its number, None if it is gone."""

    def operation(self, stored: Stored) -> Steps[Operation | None]:
        """What made a version, None if that is not known."""


@dataclass(frozen=True, slots=True)
class Newest:
    """What an operation is resolved against.

    Attributes
    ----------
    stored : Stored
        The newest version.
    others : OtherVersions
    limits : Limits
    """

    stored: Stored
    others: OtherVersions
    limits: Limits


class Operation(ABC):
    """A change of a table. It says what is to happen and nothing of how far the table has moved on meanwhile.

    Subclasses are frozen values. Fragments to add have no ids yet, deleted rows are offsets and not files:
    :meth:`resolve` and :meth:`apply` fill that in, as often as a commit has to.

    Attributes
    ----------
    kinds : tuple of str
        Its rows and columns of the conflict grid.
    writes : str
        Kind of the files that :meth:`resolve` writes, for messages; "" if it writes none.
    makes_tables : bool
        Whether it has a :meth:`create`.
    needs_read_version : bool
        Whether what it means depends on the version it was made from, so that a user must name one.
    """

    __slots__ = ()

    kinds: ClassVar[tuple[str, ...]]
    writes: ClassVar[str] = ""
    makes_tables: ClassVar[bool] = False
    needs_read_version: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @abstractmethod
    def footprints(self) -> tuple[Footprint, ...]:
        """What it touches, one footprint for each of the ``kinds`` it is."""

    def resolve(self, newest: Newest, before: tuple[Self, Stored] | None) -> Steps[Self]:
        """The same change with what only the newest version tells; files that it needs are written.

        Parameters
        ----------
        newest : Newest
        before : (operation, Stored), optional
            What an earlier attempt came to, and on which version.
        """
        yield from ()
        return self

    def create(self, stamp: VersionStamp) -> NewManifest:
        """The first version of a table.

        Raises
        ------
        ValueError
            This operation makes none.
        """
        raise ValueError(f"{self.name} makes no table: only Overwrite does")

    @abstractmethod
    def apply(self, base: Stored, stamp: VersionStamp) -> NewManifest:
        """The version it makes of another; it is resolved. ``apply.apply`` does what all operations share.

        Raises
        ------
        LanceError, ValueError
            As ``apply.apply``.
        """

    @abstractmethod
    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        """Put it into the message of its transaction.

        Parameters
        ----------
        message : lance.table.Transaction
            Changed.
        made : lance.table.Manifest
            What :meth:`apply` made; empty if that is not known.
        """

    @classmethod
    @abstractmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Operation:
        """The operation in a transaction that has the field it is registered under.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            What it adds to the table cannot be read.
        """

    def references(self) -> References:
        """What it refers to, beside what the newest version has."""
        return References()

    def written_fields(self) -> frozenset[int] | None:
        """Ids of the table's fields that new files hold, which must mean the same columns by then; None if it adds no files to the schema."""
        return None

    @property
    def changes_schema(self) -> bool:
        """Whether ids of fields may mean other columns after it, in a table that keeps its rows."""
        return False
