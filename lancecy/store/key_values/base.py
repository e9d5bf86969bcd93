"""The protocol of key-value stores of manifests, and its values."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

from lancecy.errors import StoreError
from lancecy.records import dataclass
from lancecy.store.base import Store

__all__ = ["KeyedTable", "LostKeyValue", "ManifestItem", "ManifestKeyValue", "commit_through", "keyed_table"]

_ATTRIBUTE = "keyed_table"


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """The manifest of one version, as a key-value store names it.

    Attributes
    ----------
    path : str
        Below the root of the table: ``_versions/{version}.manifest`` of a finished version,
        ``_versions/{version}.manifest-{uuid}`` of one that is still to be copied there.
    size : int or None, bytes
        None if it is unknown.
    """

    path: str
    size: int | None = None


@runtime_checkable
class ManifestKeyValue(Protocol):
    """Items by table and version, each changed on one condition, as in :class:`lancecy.SqlManifestStore`.

    Methods raise ``StoreError`` if the store does not answer; the change may then have been made, or may be made
    later. An error whose ``errno`` is ``EACCES`` (refused) or ``EAGAIN`` (too many requests) says that nothing was changed
    and nothing will be. A read gives what the last write left, whichever process wrote it. Methods are called by several
    threads at once.

    Attributes of an implementation that hold secrets are not pickled.

    Notes
    -----
    ``table`` is the key of a table: text that is the same for every process, such as its URI. The key of a branch is
    the table's with ``/tree/{branch}`` added. Versions are whole numbers below 2**64.
    """

    def get(self, table: str, version: int) -> ManifestItem | None:
        """The item of a version, None if it has none.

        Parameters
        ----------
        table : str
        version : int
        """

    def latest(self, table: str) -> tuple[int, ManifestItem] | None:
        """The highest version below 2**63 with its item, None if the table has none.

        Parameters
        ----------
        table : str
        """

    def above(self, table: str, version: int = 0) -> list[tuple[int, ManifestItem]]:
        """Versions above one and below 2**63 with their items, lowest first.

        Parameters
        ----------
        table : str
        version : int
        """

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        """Set the item of a version that has none.

        Parameters
        ----------
        table : str
        version : int
        item : ManifestItem

        Returns
        -------
        bool
            False if the version has an item. Of several processes that put one at once, exactly one gets True.
        """

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        """Replace the item of a version.

        Parameters
        ----------
        table : str
        version : int
        item : ManifestItem
        expected : ManifestItem
            Only its path counts.

        Returns
        -------
        bool
            False if the version has no item, or one whose path is not that of ``expected``.
        """

    def delete(self, table: str, versions: Sequence[int]) -> None:
        """Delete the items of versions; missing ones are no error.

        Parameters
        ----------
        table : str
        versions : sequence of int
        """


class LostKeyValue:
    """Has no items, so that a table is read at its finished versions, and refuses to change any.

    Parameters
    ----------
    kind : str
        Name of the class of the store.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"LostKeyValue({self.kind!r})"

    def get(self, table: str, version: int) -> ManifestItem | None:
        """None."""
        return None

    def latest(self, table: str) -> tuple[int, ManifestItem] | None:
        """None."""
        return None

    def above(self, table: str, version: int = 0) -> list[tuple[int, ManifestItem]]:
        """No item."""
        return []

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        """Refused."""
        self._refuse(table)

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        """Refused."""
        self._refuse(table)

    def delete(self, table: str, versions: Sequence[int]) -> None:
        """Refused."""
        self._refuse(table)

    def _refuse(self, table: str) -> NoReturn:
        error = StoreError(
            f"the external manifest store of {table}, an object of class {self.kind}, is in the process that opened the "
            "table, so nothing is written here: open it here with storage option 'manifest_store'",
            store=table,
        )
        error.errno = errno.EACCES
        raise error


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table in a key-value store.

    Attributes
    ----------
    key_values : ManifestKeyValue
    table : str
        Its key.
    """

    key_values: ManifestKeyValue
    table: str

    def __reduce__(self) -> tuple[Any, ...]:
        # An object of the user's stays in its process, as it does in storage options.
        kind = type(self.key_values)
        is_own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
        return KeyedTable, (self.key_values if is_own else LostKeyValue(kind.__name__), self.table)


def keyed_table(store: Store) -> KeyedTable | None:
    """The table in a key-value store through which the root of a store is committed; None if there is none."""
    found: KeyedTable | None = getattr(store, _ATTRIBUTE, None)
    return found


def commit_through(store: Store, keyed: KeyedTable) -> None:
    """Let the table at the root of a store be committed through a key-value store, from now on.

    Parameters
    ----------
    store : Store
        Used by nobody else yet.
    keyed : KeyedTable

    Examples
    --------
    >>> from lancecy.store.key_values import MemoryKeyValue
    >>> from lancecy.store.memory import MemoryStore
    >>> store = MemoryStore()
    >>> commit_through(store, KeyedTable(MemoryKeyValue(), "t"))
    >>> keyed_table(store).table
    't'
    """
    setattr(store, _ATTRIBUTE, keyed)
