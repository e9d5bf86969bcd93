"""Directories of tables below a root, and the markers in them.

Source: namespace document, "V1: Directory Listing"; the markers are those of pylance.
"""

from __future__ import annotations

from datetime import datetime

from lancecy.errors import ExistsError, PathPolicyError
from lancecy.namespace.entries import MANIFEST
from lancecy.namespace.names import DIRECTORY_SUFFIX, LONGEST, directory_of, is_hashed
from lancecy.session import Session
from lancecy.store.base import PutMode, Store
from lancecy.store.folders import names_in, remove_folder
from lancecy.store.paths import check_path, is_safe_path
from lancecy.table.location import TableLocation
from lancecy.table.paths import VERSIONS

__all__ = ["DEREGISTERED", "RESERVED", "Directories"]

RESERVED = ".lance-reserved"
"""Marker of a table that is declared; its data may be written later."""
DEREGISTERED = ".lance-deregistered"
"""Marker of a directory that is not a table of the namespace any more."""
_CONTENT = b"reserved"


class Directories:
    """The directories below a root.

    Parameters
    ----------
    location : TableLocation
        Of the root.
    session : Session
    """

    def __init__(self, location: TableLocation, session: Session) -> None:
        self._location = location
        self._session = session

    @property
    def _store(self) -> Store:
        return self._location.open(self._session)

    def tables(self) -> list[str]:
        """Names of the tables that directories of the root show, in order; no deregistered ones.

        Raises
        ------
        StoreError
            The root is a file or cannot be read.
        """
        return self.without_deregistered(self.names())

    def names(self) -> list[str]:
        """Names of the tables that directories of the root show, in order; also of deregistered ones.

        Raises
        ------
        StoreError
            The root is a file or cannot be read.
        """
        found = [name.removesuffix("/") for name in names_in(self._store)]
        return sorted({name.removesuffix(DIRECTORY_SUFFIX) for name in found if _is_table(name)})

    def without_deregistered(self, names: list[str]) -> list[str]:
        """Those of some tables whose directories have no marker that hides them."""
        hidden = self._session.map(self._is_deregistered, names, blocking=True)
        return [name for name, is_hidden in zip(names, hidden, strict=True) if not is_hidden]

    def hashed(self) -> list[str]:
        """Directories of the root that have the name of a table's directory of V2."""
        names = [name.removesuffix("/") for name in names_in(self._store) if name.endswith("/")]
        return [name for name in names if is_hashed(name)]

    def _is_deregistered(self, name: str) -> bool:
        return DEREGISTERED in self.contents(directory_of(name))

    def contents(self, directory: str) -> frozenset[str]:
        """The names directly in a directory; empty if there is no such directory."""
        if not is_safe_path(directory) or any(len(n.encode()) > LONGEST for n in directory.split("/")):
            return frozenset()
        return frozenset(name.removesuffix("/") for name in names_in(self._store, directory))

    def exists(self, name: str) -> bool:
        """Whether there is a table of this name: its directory has at least one entry and is not deregistered."""
        found = self.contents(directory_of(name))
        return bool(found) and DEREGISTERED not in found

    def has_versions(self, directory: str) -> bool:
        """Whether a directory has a version of a table."""
        return next(iter(self._store.list(f"{check_path(directory)}/{VERSIONS}")), None) is not None

    def is_only_declared(self, directory: str) -> bool:
        """Whether a directory is reserved for a table without data."""
        return RESERVED in self.contents(directory) and not self.has_versions(directory)

    def mark(self, directory: str, marker: str) -> bool:
        """Put a marker into a directory.

        Parameters
        ----------
        directory, marker : str

        Returns
        -------
        bool
            False if it is there already. Of several processes that put it at once, exactly one gets True.
        """
        try:
            self._store.put(check_path(f"{directory}/{marker}"), _CONTENT, PutMode.CREATE)
        except ExistsError:
            return False
        return True

    def unmark(self, directory: str, marker: str) -> None:
        """Remove a marker; a missing one is no error."""
        self._store.delete([check_path(f"{directory}/{marker}")])

    def remove(self, directory: str) -> None:
        """Remove a directory with everything in it; a missing one is no error.

        Parameters
        ----------
        directory : str
            Never the root or that of ``__manifest``.

        Raises
        ------
        PathPolicyError
            It is no directory of a table below the root, or a symbolic link is on the way to it.
        StoreError
            The storage failed.
        """
        path = check_path(directory.removesuffix("/"))
        if path.partition("/")[0] == MANIFEST:
            raise PathPolicyError(f"{path!r} is the directory of the catalog and no table", path=path)
        remove_folder(self._location.open(self._session, follow_symlinks=False), path, DEREGISTERED)

    def is_older(self, directory: str, moment: datetime) -> bool:
        """Whether all objects in a directory were written before a moment; those without a time were not."""
        metas = self._store.list(check_path(directory))
        return all(meta.modified is not None and meta.modified < moment for meta in metas)


def _is_table(name: str) -> bool:
    return name.endswith(DIRECTORY_SUFFIX) and is_safe_path(name)
