"""What a change of a table is: one frozen value per operation, and the transaction that holds it.

An operation says what is to happen and nothing of how far the table has moved on meanwhile: fragments
to add have no ids yet, deleted rows are offsets and not files. ``commit`` fills that in against the
newest version, as often as it has to. Operations that others made and lancecy does not are
:class:`Foreign`: enough to tell what they conflict with.

Facts: table sheet, sections 4.2 and 4.3.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.schema import Schema
from lancecy.table.manifest import BasePath, DeletionFile, Fragment

__all__ = [
    "Append",
    "Delete",
    "Foreign",
    "MapUpdate",
    "Operation",
    "Overwrite",
    "RepairRowIds",
    "ReserveFragments",
    "Restore",
    "Transaction",
    "UpdateBases",
    "UpdateConfig",
    "new_transaction",
]

Int64: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Append:
    """Add fragments. Their ids, row ids and versions are given at the commit; those stated are ignored."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    """Delete rows and whole fragments.

    Attributes
    ----------
    rows : mapping of fragment id to (n,) int64, ascending
        Offsets of living rows that go. The commit writes the deletion files, together with what others deleted
        meanwhile; a fragment left without rows goes as a whole.
    files : mapping of fragment id to DeletionFile
        Fragments whose complete deletion file is written already. Cannot be merged with others' deletes.
    removed : tuple of int
        Fragments that go as a whole.
    predicate : str
        For the record.
    """

    rows: Mapping[int, Int64] = field(default_factory=dict)
    files: Mapping[int, DeletionFile] = field(default_factory=dict)
    removed: tuple[int, ...] = ()
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replace schema and rows; also what creates a table.

    Attributes
    ----------
    fragments : tuple of Fragment
        As of :class:`Append`.
    schema : Schema
        With field ids; they may start at 0 again, as no index survives.
    config : mapping of str to str
        Added to the table's configuration.
    data_version : str or None
        Version of data files the table is declared to have; None keeps it. A new table needs one.
    initial_bases : tuple of BasePath
        Of a new table only. Id 0 means "the next free one".
    stable_row_ids : bool
        Of a new table only; others keep what they have.
    dictionaries : bytes
        Values of 0.1 dictionary fields, to stand at the start of the manifest file.
    """

    fragments: tuple[Fragment, ...]
    schema: Schema
    config: Mapping[str, str] = field(default_factory=dict)
    data_version: str | None = None
    initial_bases: tuple[BasePath, ...] = ()
    stable_row_ids: bool = False
    dictionaries: bytes = b""


@dataclass(frozen=True, slots=True)
class Restore:
    """Make an old version the newest one again."""

    version: int


@dataclass(frozen=True, slots=True)
class ReserveFragments:
    """Claim fragment ids for a later rewrite."""

    num_fragments: int


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes of a map of texts.

    Attributes
    ----------
    entries : mapping of str to str or None
        New values; None removes the key.
    replace : bool
        Whether all other keys go.
    """

    entries: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Change any of the four maps of a table; None leaves one alone.

    Attributes
    ----------
    config, table_metadata, schema_metadata : MapUpdate or None
    field_metadata : mapping of field id to MapUpdate
    """

    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdateBases:
    """Register places for files, or say where a registered one is now.

    Attributes
    ----------
    bases : tuple of BasePath
        Id 0 means "the smallest free one".
    relocate : bool
        The ids are of bases the table has, whose path, name and kind become these: what moves a table to
        its copy in another bucket. Otherwise such an id is refused.
    """

    bases: tuple[BasePath, ...]
    relocate: bool = False


@dataclass(frozen=True, slots=True)
class RepairRowIds:
    """Give ids to rows of fragments that have none although the table has stable ones; state a next one that is free.

    Others see a ``Merge`` that leaves all columns as they are.
    """


@dataclass(frozen=True, slots=True)
class Foreign:
    """An operation that lancecy does not make.

    Attributes
    ----------
    kind : str
        Its name in the conflict grid (``conflicts.COLUMNS``).
    changed : frozenset of int
        Fragments of which only the deletion file changed.
    rewritten : frozenset of int
        Fragments whose data files changed, or which were removed.
    fields : frozenset of int or None
        Ids of the fields of the schema it leaves; None if it leaves the schema alone.
    """

    kind: str
    changed: frozenset[int] = frozenset()
    rewritten: frozenset[int] = frozenset()
    fields: frozenset[int] | None = None


Operation: TypeAlias = (
    Append
    | Delete
    | Overwrite
    | Restore
    | ReserveFragments
    | UpdateConfig
    | UpdateBases
    | RepairRowIds
    | Foreign
)


@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """An operation on its way to become a version.

    Attributes
    ----------
    read_version : int
        Version it was made from; 0 for a new table.
    uuid : str
        In the history at most once.
    operation : Operation
    properties : mapping of str to str
        Such as the message of the commit, under ``__lance_commit_message``.
    """

    read_version: int
    uuid: str
    operation: Operation
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name below ``_transactions/``."""
        return f"{self.read_version}-{self.uuid}.txn"


def new_transaction(
    operation: Operation,
    read_version: int = 0,
    properties: Mapping[str, str] | None = None,
    token: str | None = None,
) -> Transaction:
    """A transaction with an id of its own, or one that follows from a token.

    Parameters
    ----------
    operation : Operation
    read_version : int
    properties : mapping of str to str, optional
    token : str, optional
        Names the change: however often a change with this token is committed, it happens once
        (pass ``once=True`` to the commit as well, which looks further back then).

    Examples
    --------
    >>> one, two = (new_transaction(Restore(3), 7, token="job 5") for _ in range(2))
    >>> one.uuid == two.uuid
    True
    """
    unique = uuid.uuid4() if token is None else uuid.uuid5(_TOKENS, token)
    return Transaction(read_version, str(unique), operation, dict(properties or {}))


_TOKENS = uuid.UUID("6a1f6b1e-52c9-4c57-9d0c-6c616e636563")
