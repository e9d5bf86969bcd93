"""Branches of a table: ``Dataset.branches`` and ``Dataset.create_branch``."""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypedDict

from lancecy.changes.branches import BranchStore
from lancecy.errors import FormatError, LanceError, with_short_tracebacks
from lancecy.inspection.reference_tables import ReferenceTable, branch_table, unlisted
from lancecy.keyword_options import checked_arguments
from lancecy.table.refs.contents import Branch
from lancecy.table.refs.names import branch_path
from lancecy.table.refs.reference import Reference
from lancecy.table.snapshot import Snapshot, committed_snapshot, load_reference

if TYPE_CHECKING:
    from lancecy.session import Session
    from lancecy.table.location import TableLocation

__all__ = ["BranchDescription", "BranchEntry", "BranchLeftover", "Branches", "Branching"]

_WEEK = timedelta(days=7)


class BranchEntry(TypedDict):
    """A branch in a list, as pylance describes it."""

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


class BranchDescription(TypedDict):
    """A branch with its versions and files: ``num_files`` and ``nbytes`` are those of its own folder."""

    name: str
    parent_branch: str | None
    parent_version: int
    branch_identifier: list[tuple[int, str]]
    created_at: datetime
    metadata: dict[str, str]
    versions: list[int]
    num_files: int
    nbytes: int


class BranchLeftover(TypedDict):
    """Files in the folder of a branch that does not exist; ``modified`` is the time of the newest one."""

    num_files: int
    nbytes: int
    modified: datetime | None


@with_short_tracebacks
class Branches:
    """The branches of a table (``Dataset.branches``), the same from the table and from each of its branches.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
    >>> trial = ds.create_branch("trial")
    >>> trial.append({"a": [2]})
    >>> ds.branches
    1 branch of ...
      branch  from               created (UTC)        metadata
      trial   version 1 of main  ...
    >>> ds.count_rows(), trial.count_rows(), ds.branches.describe("trial")["versions"]
    (1, 2, [1, 2])
    >>> ds.branches.delete("trial")
    >>> ds.branches.list()
    {}
    """

    def __init__(self, store: BranchStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return self._table().to_text()

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def _table(self) -> ReferenceTable:
        """The branches for people; what cannot be listed is named."""
        uri = self._store.location.uri
        try:
            return branch_table(uri, self._store.readable())
        except LanceError as error:
            return unlisted("branches", uri, error)

    def list(self) -> dict[str, BranchEntry]:
        """All branches by name.

        Returns
        -------
        dict of str to dict
            ``parent_branch`` (None for the main table), ``parent_version``, ``branch_identifier`` (for each branch from
            the main table to this one: the version it starts from, and a random id), ``create_at`` (seconds since 1970),
            ``manifest_size`` (bytes) and ``metadata``.

        Raises
        ------
        FormatError
            The file of a branch is damaged.
        StoreError
            The storage failed.
        """
        return {name: _entry(branch) for name, branch in self._store.all().items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, BranchEntry]]:
        """All branches by the version that they start from.

        Parameters
        ----------
        order : {"desc", "asc"}, optional
            "desc" (the default) begins with the newest.

        Raises
        ------
        ValueError
            ``order`` is another text.
        FormatError, StoreError
            As of :meth:`list`.
        """
        if order not in (None, "asc", "desc"):
            raise ValueError(f"order is 'asc' or 'desc', not {order!r}")
        sign = 1 if order == "asc" else -1
        entries = self.list().items()
        return sorted(entries, key=lambda entry: (sign * entry[1]["parent_version"], entry[0]))

    def describe(self, branch: str) -> BranchDescription:
        """A branch with its versions, and the number and size of the files in its own folder.

        Parameters
        ----------
        branch : str

        Raises
        ------
        NotFoundError
            There is no such branch.
        FormatError, StoreError
            As of :meth:`list`.
        """
        found = self._store.describe(branch)
        entry = _entry(found.branch)
        return BranchDescription(
            name=branch,
            parent_branch=entry["parent_branch"],
            parent_version=entry["parent_version"],
            branch_identifier=entry["branch_identifier"],
            created_at=_created_at(branch, found.branch),
            metadata=entry["metadata"],
            versions=[*found.versions],
            num_files=found.num_files,
            nbytes=found.nbytes,
        )

    @checked_arguments()
    def delete(self, branch: str, *, older_than: timedelta = _WEEK) -> None:
        """Delete a branch: its versions, and the files that only it has.

        Branches with longer names may have folders inside that of the branch; their files stay.

        Parameters
        ----------
        branch : str
        older_than : timedelta
            A process that died while it created or deleted the branch left a mark. A mark of this age is ignored; a
            younger one may be that of a process at work.

        Raises
        ------
        NotFoundError
            There is no such branch.
        ConflictError
            Another branch starts from it, a tag names one of its versions, or another process creates or deletes it.
        FormatError
            The file of a tag or branch is damaged, so what needs the branch is unknown.
        StoreError
            The storage failed; the message says what was removed.
        """
        self._store.delete(branch, _nanoseconds(older_than))

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a branch.

        Parameters
        ----------
        branch : str
        metadata : mapping of str to str

        Raises
        ------
        NotFoundError
            There is no such branch.
        TypeError
            A key or value is no text.
        FormatError, StoreError
            As of :meth:`list`.
        """
        found = dict(metadata)
        if not all(isinstance(text, str) for pair in found.items() for text in pair):
            raise TypeError("the metadata of a branch maps texts to texts")
        self._store.replace_metadata(branch, found)

    def list_leftovers(self) -> dict[str, BranchLeftover]:
        """Files in folders of branches that do not exist, by the name of the branch.

        They belong to creations and deletions of branches that were interrupted, or are under way.

        Raises
        ------
        FormatError, StoreError
            As of :meth:`list`.
        """
        return {
            name: BranchLeftover(num_files=found.files, nbytes=found.nbytes, modified=found.modified)
            for name, found in self._store.leftovers().items()
        }

    @checked_arguments()
    def remove_leftover(self, branch: str, *, older_than: timedelta = _WEEK) -> None:
        """Remove the files in the folder of a branch that does not exist, so that the name is free.

        Parameters
        ----------
        branch : str
        older_than : timedelta
            Minimum age of all these files: younger ones may belong to a process that creates the branch now. Pass
            ``timedelta(0)`` if no process does.

        Raises
        ------
        NotFoundError
            There is nothing left of such a branch.
        ConflictError
            The branch exists, or another one starts from it; a tag names a version of it; or a file is too young.
        ValueError
            A branch cannot have this name.
        FormatError, StoreError
            As of :meth:`delete`.
        """
        self._store.remove_leftover(branch, _nanoseconds(older_than))


class Branching:
    """The methods of a dataset for branches."""

    _snapshot: Snapshot
    _session: Session

    @abstractmethod
    def _opened(self, snapshot: Snapshot) -> Self:
        """The dataset of a snapshot."""

    @property
    def branches(self) -> Branches:
        """The branches of the table: list, describe and delete them (:class:`lancecy.api.branches.Branches`)."""
        return Branches(self._branch_store())

    @checked_arguments()
    def create_branch(
        self, branch: str, reference: Reference = None, storage_options: Mapping[str, Any] | None = None
    ) -> Self:
        """Create a branch: a table in the folder ``tree/{branch}`` that begins as a version and uses its files.

        Costs the reading and writing of one manifest, however large the table is. Changes of the branch do not touch
        the table, nor those of the table the branch.

        Parameters
        ----------
        branch : str
            Name: letters, digits, ".", "-" and "_", with "/" between parts.
        reference : int, str, or (str or None, int or None), optional
            The version that it starts from: by default this one; a number, the name of a tag, or a branch and a
            version, where None or "main" is the main table.
        storage_options : mapping, optional
            By default those of this dataset.

        Returns
        -------
        Dataset
            The branch. ``lancecy.dataset(uri, version=("name", None))`` opens it again.

        Raises
        ------
        ExistsError
            There is such a branch; or it is being created or deleted, or such work was interrupted:
            ``branches.remove_leftover`` then removes the rest of it.
        ValueError
            A branch cannot have this name.
        NotFoundError
            There is no such version, tag or branch.
        CommitUnknownError
            The storage failed, and the branch may exist.
        UnsupportedError
            The table has features that this release cannot write.
        StoreError
            The storage failed; there is no new branch.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
        >>> trial = ds.create_branch("team/trial")
        >>> trial.append({"a": [2]})
        >>> trial.to_table().to_pydict(), ds.checkout_latest().to_table().to_pydict()
        ({'a': [1, 2]}, {'a': [1]})
        """
        mine = self._snapshot
        location = mine.location
        if storage_options is not None:
            location = replace(location, storage_options=dict(storage_options))
        start = mine
        if reference is not None:
            start = load_reference(location, mine.manifest.branch, reference, self._session)
        place, made = self._branch_store(location).create(branch, start)
        return self._opened(committed_snapshot(place, made.version, self._session, made.written))

    def _branch_store(self, location: TableLocation | None = None) -> BranchStore:
        mine = self._snapshot
        return BranchStore.of(location or mine.location, mine.manifest.branch, self._session)


def _entry(branch: Branch) -> BranchEntry:
    return BranchEntry(
        parent_branch=branch.parent,
        branch_identifier=[*branch.lineage],
        parent_version=branch.parent_version,
        create_at=branch.created_s,
        manifest_size=branch.manifest_size,
        metadata=dict(branch.metadata),
    )


def _created_at(name: str, branch: Branch) -> datetime:
    try:
        return datetime.fromtimestamp(branch.created_s, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise FormatError(
            f"{branch_path(name)}: createAt is {branch.created_s}, which is no date: {error}"
        ) from None


def _nanoseconds(age: timedelta) -> int:
    return age // timedelta(microseconds=1) * 1000
