"""Finds the files of a base that moved together with the table.

A branch or a clone records the table it was made of by an absolute path. A copy of the whole table therefore still names the
old place, although the files are beside the copy. They are read from there if nothing is left in the recorded place.

::

    {home}/data/...               files of the main table
    {home}/tree/{branch}/data/... files of a branch

A recorded place with any object in it is never left, so that two tables are never mixed.

Facts: table sheet, sections 6.2 and 6.4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from lancecy.errors import DatasetNotFoundError, LanceError, PathPolicyError, printable, warn
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.uri import scheme_of
from lancecy.store.wrap import Pairs, WrappedStore
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.paths import TREE, VERSIONS, check_relative

__all__ = ["GONE", "REFUSED", "Home", "MovableStore", "is_branch_folder", "is_gone"]

T = TypeVar("T")

GONE = "where nothing is any more"
REFUSED = "which this table may not read"

# Moved bases that were warned about: the table's URI, and the recorded and the found place.
_WARNED: set[tuple[str, str, str]] = set()


@dataclass(frozen=True)
class Home:
    """The root of the main table that a table belongs to: its own root, or the one above ``tree/{branch}``.

    Attributes
    ----------
    root : Store
        Rooted at the table.
    location : TableLocation
    session : Session
    branch : str or None
        The branch that the manifest names.
    """

    root: Store
    location: TableLocation
    session: Session
    branch: str | None = None

    @property
    def uri(self) -> str:
        """Canonical URI."""
        above = self.root.uri.removesuffix(f"/{TREE}/{self.branch}")
        return above if above and not above.endswith("/") else self.root.uri

    @property
    def is_above(self) -> bool:
        """Whether the table is a branch in the folder of its main table."""
        return self.uri != self.root.uri

    @property
    def is_table(self) -> bool:
        """Whether a table is there."""
        return not self.is_above or not is_gone(self.open(self.uri), VERSIONS)

    def may_have(self, base: BasePath) -> bool:
        """Whether a base is a table that this one was made of, as a branch or a clone, and not one registered for its files.

        Parameters
        ----------
        base : BasePath
        """
        return base.is_dataset_root and (self.is_above or base.id == 0 or is_branch_folder(base))

    def open(self, uri: str) -> Store:
        """The store of a place in the home, with the options of the table.

        Parameters
        ----------
        uri : str
        """
        if uri == self.root.uri:
            return self.root
        return self.location.open_other(self.session, uri, self.location.root_options)

    def having(self, base: BasePath, path: str, reason: str) -> Store | None:
        """The store of the place in the home that has a file of a base, None without one; warns about a found one.

        Parameters
        ----------
        base : BasePath
        path : str
            From the root of the base, such as ``"data/a.lance"``.
        reason : str
            Why the recorded place is not used, for the warning.

        Raises
        ------
        LanceError
            The home cannot be read.
        """
        if self.location.untrusted and not self.is_table:
            return None  # the branch's name is a claim of the manifest, so the folder above could be anything
        for uri in self._places(base):
            store = self.open(uri)
            try:
                store.head(path)
            except DatasetNotFoundError:
                continue
            self._tell(base, store.uri, reason)
            return store
        return None

    def _places(self, base: BasePath) -> Iterator[str]:
        """Where the files of a base may have moved to."""
        if is_branch_folder(base):
            try:
                name = check_relative(base.name or "", "name of a base")
                yield f"{self.uri}/{TREE}/{name}"
            except PathPolicyError:
                return
        yield self.uri

    def _tell(self, base: BasePath, found: str, reason: str) -> None:
        key = self.root.uri, base.path, found
        if key not in _WARNED:
            _WARNED.add(key)
            warn(
                f"base {base.id} of {self.root.uri} is {printable(base.path)}, {reason}; its files moved with the table and "
                f"are read from {found}; relocate_base gives the base this path"
            )


class MovableStore(WrappedStore):
    """The recorded place of a base until a file is missing there; then, if all are, the place they moved to.

    Parameters
    ----------
    inner : Store
        Of the recorded place.
    home : Home
    base : BasePath
    """

    def __init__(self, inner: Store, home: Home, base: BasePath) -> None:
        super().__init__(inner, uri=inner.uri)
        self._home, self._base = home, base

    @property
    def moved_to(self) -> str | None:
        """URI of the place the files moved to, None as long as the recorded one is used."""
        return None if self.inner.uri == self.uri else self.inner.uri

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        asked = self.inner
        try:
            return call()
        except DatasetNotFoundError:
            if method not in ("head", "get", "get_many"):
                raise
            if self.inner is asked and not self._moved(path):
                raise
        return call()

    def _moved(self, path: str) -> bool:
        try:
            found = self._home.having(self._base, path, GONE) if is_gone(self.inner) else None
        except LanceError:
            return False  # the first error says more
        if found is None:
            return False
        self.inner = found
        return True


def is_branch_folder(base: BasePath) -> bool:
    """Whether a base is recorded as the folder of a branch.

    Parameters
    ----------
    base : BasePath

    Examples
    --------
    >>> is_branch_folder(BasePath(1, "/t/tree/team/dev", "team/dev", is_dataset_root=True))
    True
    """
    # Writers name a base after the branch that it is.
    return bool(base.name) and base.path.rstrip("/").endswith(f"/{TREE}/{base.name}")


def is_gone(store: Store, folder: str = "") -> bool:
    """Whether nothing is in a folder of a store; costs a request unless the store is local.

    Parameters
    ----------
    store : Store
    folder : str
        "" is its root.
    """
    if scheme_of(store.uri) == "file":
        return not _has_file(f"{store.uri}/{folder}")
    try:
        return next(iter(store.list(folder)), None) is None
    except DatasetNotFoundError:
        return True


def _has_file(folder: str) -> bool:
    """Whether a local folder or one below it has a file, or cannot be read."""
    below = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    return True
                below.append(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return any(map(_has_file, below))
