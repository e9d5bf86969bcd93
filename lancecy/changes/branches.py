"""Creates, describes and deletes branches in the storage of a table."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, TypeVar

from lancecy.changes.shallow_clone import clone_of
from lancecy.errors import LanceError, RefNotFoundError, nearest, printable
from lancecy.records import dataclass
from lancecy.session import Session, default
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.store.paths import LONGEST_NAME
from lancecy.table.answers import run_on
from lancecy.table.branches.creation import NewBranch, create_branch
from lancecy.table.branches.files import KINDS, mark_path, own_files, replace_branch_file
from lancecy.table.branches.removal import Leftover, Work, delete_branch, leftovers, remove_leftover
from lancecy.table.commit.driver import check_create, drive
from lancecy.table.commit.options import Committed
from lancecy.table.location import TableLocation
from lancecy.table.operations import new_transaction
from lancecy.table.refs.contents import Branch
from lancecy.table.refs.files import branches, read_branch
from lancecy.table.refs.names import BRANCHES, MAIN, branch_folder, branch_path, check_branch_name
from lancecy.table.refs.places import branch_location, main_location
from lancecy.table.refs.readable import ReadableRefs, refs_that_can_be_read
from lancecy.table.requests import ListOwned, Steps, again
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import version_store

__all__ = ["BranchFiles", "BranchStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BranchFiles:
    """The versions and files of a branch.

    Attributes
    ----------
    branch : Branch
    versions : tuple of int
        Oldest first.
    num_files : int
        Files in its own folder; those of its parents are not counted.
    nbytes : int, bytes
    """

    branch: Branch
    versions: tuple[int, ...]
    num_files: int
    nbytes: int


class BranchStore:
    """The branches of a table.

    Parameters
    ----------
    location : TableLocation
        Of the main table.
    session : Session

    Notes
    -----
    Errors of the storage and damaged files of branches raise ``StoreError`` and ``FormatError`` in all methods.
    """

    def __init__(self, location: TableLocation, session: Session) -> None:
        self.location, self._session = location, session

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.location,)

    @classmethod
    def of(cls, location: TableLocation, branch: str | None, session: Session) -> BranchStore:
        """The branches of a table, from its location or that of one of its branches.

        Raises
        ------
        UnsupportedError
            The branch was moved without its main table.
        """
        return cls(main_location(location, branch), session)

    def all(self) -> dict[str, Branch]:
        """The branches by name."""
        return self._run(branches(self.location.limits))

    def readable(self) -> ReadableRefs:
        """The branches that can be read, and why others cannot."""
        return self._run(refs_that_can_be_read(self.location.limits, BRANCHES))

    def leftovers(self) -> dict[str, Leftover]:
        """Files in folders of branches that do not exist."""
        return self._run(leftovers(self.location.limits))

    def read(self, name: str) -> Branch:
        """A branch.

        Raises
        ------
        NotFoundError
            There is no such branch.
        """
        found = self._run(read_branch(name, self.location.limits))
        if found is None:
            known = sorted(self.all())
            close = nearest(name, known) or known
            shown = ", ".join(map(printable, close[:10])) if close else "none"
            raise RefNotFoundError(
                f"{self.location.uri} has no branch {printable(name)!r}; there are: {shown}",
                kind="branch",
                name=name,
                known=close[:10],
            )
        return found

    def describe(self, name: str) -> BranchFiles:
        """The versions and files of a branch; errors as of :meth:`read`."""
        branch = self.read(name)
        metas = own_files(name, self._run(again(ListOwned(branch_folder(name)), 4)))
        location = branch_location(self.location, name)
        versions = version_store(self._store())
        found = run_on(versions.versions(), location.open(self._session))
        numbers = tuple(sorted(entry.version for entry in found))
        return BranchFiles(branch, numbers, len(metas), sum(meta.size for meta in metas))

    def replace_metadata(self, name: str, metadata: dict[str, str]) -> None:
        """Replace the metadata of a branch; errors as of :meth:`read`."""
        self._run(replace_branch_file(name, replace(self.read(name), metadata=metadata)))

    def create(self, name: str, start: Snapshot) -> tuple[TableLocation, Committed]:
        """Create a branch from a version; see ``table.branches.creation.create_branch`` for errors.

        Returns
        -------
        (TableLocation, Committed)
            The branch, and its first version.
        """
        check_branch_name(name)
        _check_new_name(name)
        parent, target = start.manifest.branch, branch_location(self.location, name)
        clone = clone_of(start, target, name)
        size = len(clone.source.raw) if clone.source else 0
        new = NewBranch(
            name, parent, start.manifest_file, new_transaction(clone, start.version), uuid.uuid4().hex, size
        )
        store = self._store()
        versions = version_store(store)
        check_create(store, commits=False)
        made = store.missing_folders(mark_path(name, 1)) if isinstance(store, LocalStore) else ()
        try:
            committed = self._run(create_branch(new, versions, self.location.limits))
        except LanceError:
            # Folders with what is left of an unknown outcome are not empty.
            kinds = [f"{store.uri}/{branch_folder(name)}/{kind}" for kind in KINDS] if made else []
            LocalStore.remove_folders([*kinds, *made])
            raise
        return target, committed

    def delete(self, name: str, older_than_ns: int) -> None:
        """Delete a branch; see ``table.branches.removal.delete_branch`` for errors."""
        if name == MAIN:
            raise ValueError("the table without a branch cannot be deleted as a branch")
        self._remove_folders(self._run(delete_branch(name, self._work(older_than_ns))))

    def remove_leftover(self, name: str, older_than_ns: int) -> None:
        """Remove what is left of a branch; see ``table.branches.removal.remove_leftover`` for errors."""
        check_branch_name(name)
        self._remove_folders(self._run(remove_leftover(name, self._work(older_than_ns))))

    def _work(self, older_than_ns: int) -> Work:
        if older_than_ns < 0:
            raise ValueError("older_than is negative")
        store = self._store()
        return Work(version_store(store), uuid.uuid4().hex, older_than_ns, self.location.limits)

    def _store(self) -> Store:
        return self.location.open(self._session)

    def _run(self, steps: Steps[T]) -> T:
        own = self.location.open(self._session, follow_symlinks=False)
        return drive(steps, self._store(), self._session, self.location, own)

    def _remove_folders(self, paths: tuple[str, ...]) -> None:
        """Remove the folders that are empty now; object stores have none."""
        store = self._store()
        if isinstance(store, LocalStore):
            folders = {path.rpartition("/")[0] for path in paths}
            for folder in tuple(folders):
                while "/" in folder:
                    folder = folder.rpartition("/")[0]
                    folders.add(folder)
            inner_first = sorted(folders, key=len, reverse=True)
            LocalStore.remove_folders([f"{store.uri}/{folder}" for folder in inner_first])


def _check_new_name(name: str) -> None:
    """Refuse a name whose branch could not be kept, although the document allows it.

    A folder ``data`` is allowed: files of a table and of a branch are told apart there.
    """
    first, *_ = parts = name.split("/")
    reserved = [part for part in parts if part in KINDS and part.startswith("_")]
    problem = ""
    if reserved:
        problem = f"{reserved[0]!r} is a folder of the files of a table"
    elif first == MAIN:
        problem = "it begins with 'main/', and pylance 14 deletes the whole table with the last such branch"
    elif len(branch_path(name).rpartition("/")[2]) > LONGEST_NAME:
        problem = (
            f"its file would have a name of more than {LONGEST_NAME} bytes, where '/' and 'ü' take 3 and 6"
        )
    if problem:
        raise ValueError(f"{printable(repr(name))} cannot be the name of a branch: {problem}")


def _reopened(location: TableLocation) -> BranchStore:
    session = default()
    return BranchStore(location.known_to(session), session)
