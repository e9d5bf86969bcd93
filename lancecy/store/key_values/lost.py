"""Stands for a key-value store that another process has, so that nobody commits past it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NoReturn

from lancecy.errors import StoreError
from lancecy.store.credentials import Options
from lancecy.store.key_values.base import ManifestItem

__all__ = ["LostKeyValue", "lost_url", "open_lost"]

_MARK = "lost://"


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


def lost_url(kind: str) -> str:
    """What stands in storage options for a store of a class.

    Examples
    --------
    >>> lost_url("MyStore")
    'lost://MyStore'
    """
    return _MARK + kind


def open_lost(url: str, options: Options) -> LostKeyValue:
    """The stand-in of a URL of :func:`lost_url`."""
    return LostKeyValue(url.removeprefix(_MARK))
