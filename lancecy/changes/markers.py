"""The marker of work that several processes share.

It stands in the table's folder while one process waits for the others. A worker that finishes its part and finds it gone
removes its files. No cleanup removes the version that a marker names.
"""

from __future__ import annotations

from contextlib import suppress

from lancecy.errors import DatasetNotFoundError, LanceError
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.table.paths import WRITE_MARKER

__all__ = ["WriteMarker"]


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """A marker.

    Attributes
    ----------
    tag : str
        Tells the work from any other.
    """

    tag: str

    @property
    def path(self) -> str:
        """Its path in the table; readers ignore it, and a cleanup removes it."""
        return f"{WRITE_MARKER}{self.tag}"

    def put(self, store: Store, version: int) -> None:
        """Make it.

        Parameters
        ----------
        store : Store
            That of the table.
        version : int
            What the work was planned from; 0 for a new table.

        Raises
        ------
        StoreError
            It could not be written.
        """
        store.put(self.path, str(version).encode())

    def remove(self, store: Store) -> None:
        """Remove it; if that fails, a cleanup does.

        Parameters
        ----------
        store : Store
        """
        with suppress(LanceError):
            store.delete([self.path])

    def is_gone(self, store: Store) -> bool:
        """Whether it was removed; False if the storage does not tell.

        Parameters
        ----------
        store : Store
        """
        try:
            store.head(self.path)
        except DatasetNotFoundError:
            return True
        except LanceError:
            return False
        return False
