"""Reads the transactions that made the versions of a table."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any
from uuid import uuid4

from lancecy.changes.base import Change
from lancecy.errors import DatasetNotFoundError, FormatError, LanceError, StoreError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory, Store
from lancecy.table import operations as stored_as
from lancecy.table.manifest import Fragment, Manifest
from lancecy.table.operations.transaction import COMMIT_MESSAGE
from lancecy.table.paths import TRANSACTIONS, check_name
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import ManifestLocation, locate
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.outline import Outline
from lancecy.write.operations import view_of

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "MadeVersion",
    "Transaction",
    "TransactionReads",
    "read_version",
    "transactions_by_version",
    "versions_between",
]

LANCE_COMMIT_MESSAGE_KEY = COMMIT_MESSAGE
"""Key of the commit message among the properties of a transaction; pylance's name."""


@dataclass(frozen=True)
class Transaction:
    """The change that made a version.

    Attributes
    ----------
    read_version : int
        Version the change was made from; 0 for a new table.
    operation : object
        One of ``lancecy.LanceOperation``. A change that pylance has no class for has another class of its name.
    uuid : str
        By default a new one.
    transaction_properties : mapping of str to str
        What the writer passed as ``transaction_properties``, and its ``commit_message`` under
        ``__lance_commit_message``.
    """

    read_version: int
    operation: Any
    uuid: str = field(default_factory=lambda: str(uuid4()))
    transaction_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation_name(self) -> str:
        """Name of the operation, such as "Append"."""
        return type(self.operation).__name__

    @property
    def commit_message(self) -> str | None:
        """What the writer passed as ``commit_message``."""
        return self.transaction_properties.get(COMMIT_MESSAGE)


class TransactionReads(Change):
    """The methods of a dataset that read transactions."""

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version: its operation, properties and commit message.

        Parameters
        ----------
        version : int

        Returns
        -------
        Transaction or None
            None if it is not stored, or cannot be read.

        Raises
        ------
        NotFoundError
            There is no such version.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1]}, "memory://messages", commit_message="one row")
        >>> made = ds.read_transaction(1)
        >>> made.commit_message, made.read_version, made.operation_name
        ('one row', 0, 'Overwrite')
        """
        snapshot = self._snapshot
        found = locate.at_version(snapshot.store, operator.index(version), snapshot.versions)
        return _transactions_of(snapshot, [found])[0]

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of this version and those before it, newest first.

        Parameters
        ----------
        recent_transactions : int
            At most so many. The list ends where a version was cleaned up.

        Returns
        -------
        list of Transaction or None
            None for one that is not stored, or cannot be read.

        Raises
        ------
        ValueError
            The number is negative.
        """
        count = operator.index(recent_transactions)
        if count < 0:
            raise ValueError(f"recent_transactions must not be negative, but is {count}")
        return _transactions_of(self._snapshot, _recent_locations(self._snapshot, count))


def transactions_by_version(snapshot: Snapshot) -> dict[int, Transaction | None]:
    """The transaction of every version; None as in ``read_transaction``.

    Parameters
    ----------
    snapshot : Snapshot
        Any version of the table.
    """
    found = locate.locations(snapshot.store, snapshot.versions)
    made = _transactions_of(snapshot, found)
    return {location.version: each for location, each in zip(found, made, strict=True)}


@dataclass(frozen=True)
class MadeVersion:
    """What made a version, and its columns.

    Attributes
    ----------
    operation : Operation or None
        None if it is not stored or cannot be read.
    field_ids : frozenset of int
        Of all fields, nested ones included.
    is_fast_forward : bool
        Whether it brought the versions of a branch, which continue those before it; stored as an overwrite.
    """

    operation: stored_as.Operation | None
    field_ids: frozenset[int]
    is_fast_forward: bool = False


def versions_between(snapshot: Snapshot, first: int, last: int) -> dict[int, MadeVersion]:
    """The versions from ``first`` to ``last``, ascending.

    Parameters
    ----------
    snapshot : Snapshot
        Any version of the table.
    first, last : int

    Returns
    -------
    dict
        Without versions that were removed or are damaged.
    """
    store, limits = snapshot.store, snapshot.limits
    found = locate.locations(store, snapshot.versions)
    known = [location for location in reversed(found) if first <= location.version <= last]

    def made(location: ManifestLocation) -> MadeVersion | None:
        try:
            manifest, stored = read_version(store, location, limits)
        except FormatError:
            return None
        fields = frozenset(manifest.schema.by_id)
        if stored is None:
            return MadeVersion(None, fields)
        return MadeVersion(stored.operation, fields, stored_as.FAST_FORWARD in stored.properties)

    read = snapshot.session.map(made, known, blocking=not store.traits.is_mapped)
    return {location.version: each for location, each in zip(known, read, strict=True) if each is not None}


def _recent_locations(snapshot: Snapshot, count: int) -> list[ManifestLocation]:
    """Manifests of this version and those before it, newest first; ends at a version that is missing."""
    found: list[ManifestLocation] = []
    for location in locate.locations(snapshot.store, snapshot.versions):
        if location.version == snapshot.version - len(found) and len(found) < count:
            found.append(location)
    return found


def _transactions_of(snapshot: Snapshot, locations: Sequence[ManifestLocation]) -> list[Transaction | None]:
    """The transactions of some versions; None for one that is not stored, or cannot be read."""
    store, limits = snapshot.store, snapshot.limits
    # Each costs a request, where files are not mapped.
    blocking = not store.traits.is_mapped
    return snapshot.session.map(
        lambda where: _transaction(store, where, limits), locations, blocking=blocking
    )


def _transaction(store: Store, location: ManifestLocation, limits: Limits) -> Transaction | None:
    found, memory = _with_file(store, location, limits)
    if found is None:
        return None

    def fragments() -> Iterator[Fragment]:
        # Made only if the operation has to tell of them.
        yield from manifest_wire.decode(memory, location.path, limits).fragments

    try:
        operation = view_of(found.operation, fragments())
    except FormatError:
        return None
    return Transaction(found.read_version, operation, found.uuid, dict(found.properties))


def read_version(
    store: Store, location: ManifestLocation, limits: Limits
) -> tuple[Manifest, stored_as.Transaction | None]:
    """A version and the transaction that made it, None if it is not stored or cannot be read.

    Parameters
    ----------
    store : Store
        Rooted at the dataset.
    location : ManifestLocation
    limits : Limits

    Raises
    ------
    FormatError, StoreError
        The manifest cannot be read.
    """
    manifest, memory = locate.read(store, location, limits)
    return manifest, _stored(store, manifest, memory, limits)


def read_operation(store: Store, location: ManifestLocation, limits: Limits) -> stored_as.Transaction | None:
    """The transaction that made a version, without the version; parameters and errors as of :func:`read_version`."""
    return _with_file(store, location, limits)[0]


def _with_file(
    store: Store, location: ManifestLocation, limits: Limits
) -> tuple[stored_as.Transaction | None, Memory]:
    """The transaction that made a version, and the bytes of its manifest file."""
    outline, memory = locate.read_outline(store, location, limits)
    return _stored(store, outline, memory, limits), memory


def _stored(
    store: Store, manifest: Manifest | Outline, memory: Memory, limits: Limits
) -> stored_as.Transaction | None:
    try:
        if manifest.transaction_section is None:
            data = _from_file(store, manifest, limits)
        else:
            start, length = manifest.transaction_section
            data = memory[start : start + length].tobytes()
        return None if data is None else stored_as.decode_transaction(data, limits)
    except StoreError:
        raise
    except LanceError:
        return None


def _from_file(store: Store, manifest: Manifest | Outline, limits: Limits) -> bytes | None:
    """The message in the folder of transactions, where old releases have the only copy."""
    if not manifest.transaction_file:
        return None
    path = f"{TRANSACTIONS}/{check_name(manifest.transaction_file, 'name of a transaction')}"
    try:
        size = store.head(path).size
        limits.check("metadata_bytes", size, f"size of {path}")
        return store.get(path, 0, size).tobytes()
    except DatasetNotFoundError:
        return None
