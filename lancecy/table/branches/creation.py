"""Creates branches.

::

    check the name -> mark -> check the name again -> hold the version that the branch starts from
        -> first version of the branch -> JSON file if absent -> check the parent -> remove the hold and the mark

The branch exists from the moment it has its JSON file. A creation that fails before removes what it wrote; one that
crashes leaves its mark, and then its first version, which ``removal`` lists and removes.

Cleanups and deletions of branches announce the versions that they remove, and look for holds then (``refs.guards``), so
the version and its files stay. pylance knows neither, which is why the parent is checked once more.

Generators over ``requests``; all paths begin at the main table's root.

Facts: table sheet, sections 6.2 and 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from lancecy.errors import (
    CommitUnknownError,
    ConflictError,
    DatasetNotFoundError,
    ExistsError,
    LanceError,
    RefExistsError,
    StoreError,
    VersionNotFoundError,
    printable,
)
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.branches.files import (
    create_branch_file,
    create_once,
    is_mark,
    leftover_advice,
    mark_path,
    remove_for_good,
    replace_branch_file,
)
from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed, Policy
from lancecy.table.operations import Transaction
from lancecy.table.paths import TRANSACTIONS, VERSIONS
from lancecy.table.refs.contents import Branch
from lancecy.table.refs.files import branches, read_branch
from lancecy.table.refs.guards import holding
from lancecy.table.refs.names import branch_folder, branch_path
from lancecy.table.requests import Head, List, Now, Steps, again, below
from lancecy.table.versions import ManifestLocation, VersionStore

__all__ = ["NewBranch", "create_branch"]


@dataclass(frozen=True, slots=True)
class NewBranch:
    """A branch to create.

    Attributes
    ----------
    name : str
    parent : str or None
        Branch of the version it starts from; None for the main table.
    start : ManifestLocation
        That version, below the parent's root.
    clone : Transaction
        Makes the first version.
    unique : str
        32 random hexadecimal digits.
    metadata_size : int, bytes
        Size of the parent's manifest file.
    """

    name: str
    parent: str | None
    start: ManifestLocation
    clone: Transaction
    unique: str
    manifest_size: int


def create_branch(
    new: NewBranch, versions: VersionStore, limits: Limits = DEFAULT_LIMITS
) -> Steps[Committed]:
    """Requests that create a branch.

    Parameters
    ----------
    new : NewBranch
    versions : VersionStore
    limits : Limits

    Raises
    ------
    RefExistsError
        There is such a branch, or it is being created or deleted, or such work was interrupted.
    NotFoundError
        The version it starts from, or its branch, was removed meanwhile.
    CommitUnknownError
        The branch may exist.
    LanceError
        As of ``commit.commit``; there is no new branch.
    """
    return (yield from _Creation(new, versions, limits).run())


class _Creation:
    """The state of one creation."""

    def __init__(self, new: NewBranch, versions: VersionStore, limits: Limits) -> None:
        self.new, self.versions, self.limits = new, versions, limits
        self.folder = branch_folder(new.name)
        self.mark = mark_path(new.name, 1)
        self.written: list[str] = []
        self.parent: Branch | None = None

    def run(self) -> Steps[Committed]:
        yield from self._check_free()
        # Its bytes are unique, so a failed request that was carried out is recognised.
        if not (yield from create_once(self.mark, self.new.unique.encode())):
            raise self._busy()
        try:
            yield from self._check_free()
            new = self.new
            committed = yield from holding(new.parent, new.start.version, self._created(), self.limits)
        except CommitUnknownError:
            raise
        except LanceError as error:
            yield from self._withdrawn(error)
            raise
        # The branch is there; a mark that stays only delays its deletion.
        with suppress(StoreError):
            yield from remove_for_good([self.mark])
        return committed

    def _check_free(self) -> Steps[None]:
        if (yield from read_branch(self.new.name, self.limits)) is not None:
            raise self._exists()
        # Nested branches may have folders in here.
        metas: Sequence[ObjectMeta] = yield from again(List(f"{self.folder}/{VERSIONS}"))
        found = [meta.path[len(self.folder) + 1 :] for meta in metas if meta.path != self.mark]
        found = [path for path in found if path.count("/") == 1]
        if any(is_mark(path) for path in found):
            raise self._busy()
        if any(path.endswith(".manifest") for path in found):
            raise self._leftover()

    def _created(self) -> Steps[Committed]:
        yield from self._check_parent()
        committed = yield from self._made()
        yield from self._named()
        return committed

    def _made(self) -> Steps[Committed]:
        """The first version of the branch."""
        clone = self.new.clone
        self.written.append(f"{self.folder}/{TRANSACTIONS}/{clone.file_name}")
        policy = Policy(limits=self.limits)
        try:
            committed = yield from below(self.folder, commit(clone, None, policy, self.versions))
        except ExistsError as error:
            # pylance knows no marks.
            raise self._exists() from error
        except CommitUnknownError as error:
            raise self._unknown(error) from error
        self.written.append(f"{self.folder}/{committed.location.path}")
        yield from self._check_alone(committed)
        return committed

    def _check_alone(self, committed: Committed) -> Steps[None]:
        """Refuse to share the folder with a branch that pylance began from another version."""
        found = yield from below(self.folder, self.versions.versions())
        if any(location.version != committed.version for location in found):
            raise self._exists()

    def _named(self) -> Steps[None]:
        """Write the file of the branch."""
        lineage = yield from self._lineage_of_parent()
        seconds = (yield Now()) // 10**9
        start = (self.new.start.version, self.new.unique)
        branch = Branch(start[0], self.new.parent, (*lineage, start), seconds, self.new.manifest_size)
        try:
            is_mine = yield from create_branch_file(self.new.name, branch)
        except StoreError as error:
            raise self._unknown(error) from error
        if not is_mine:
            raise self._exists()
        self.written.append(branch_path(self.new.name))
        try:
            yield from self._check_parent()
        except StoreError as error:
            raise self._unknown(error) from error

    def _check_parent(self) -> Steps[None]:
        """Check that the version the branch starts from is there, and so are its files."""
        new = self.new
        if new.parent is not None:
            self.parent = yield from read_branch(new.parent, self.limits)
            if self.parent is None:
                raise self._parent_gone()
        folder = "" if new.parent is None else f"{branch_folder(new.parent)}/"
        try:
            yield from again(Head(folder + new.start.path))
        except DatasetNotFoundError as error:
            version = str(new.start.version)
            raise VersionNotFoundError(
                f"version {version}, which the branch starts from, was removed meanwhile", name=version
            ) from error

    def _lineage_of_parent(self) -> Steps[tuple[tuple[int, str], ...]]:
        """The lineage of the parent; one from an old release gets it now, as pylance protects parents by it."""
        if self.parent is None or self.new.parent is None or self.parent.lineage:
            return () if self.parent is None else self.parent.lineage
        others = yield from branches(self.limits)
        # pylance gives children the lineage that it computes for such a parent.
        known = (other.lineage[:-1] for other in others.values() if other.parent == self.new.parent)
        lineage = next((found for found in known if found), None)
        if lineage is None:
            lineage = ((self.parent.parent_version, self.new.unique[::-1]),)
            healed = replace(self.parent, lineage=lineage)
            yield from replace_branch_file(self.new.parent, healed)
        return lineage

    def _withdrawn(self, error: LanceError) -> Steps[None]:
        """Remove what was written, the newest first; the mark stays if a request may still be carried out."""
        try:
            yield from self.versions.forget(self.written)
            is_certain = yield from remove_for_good(self.written[::-1])
            if is_certain or self.versions.fails_at_once:
                yield from remove_for_good([self.mark])
        except StoreError:
            error.within(
                f"branch {printable(self.new.name)!r}, whose creation leaves files that ds.branches.remove_leftover removes"
            )

    def _exists(self) -> RefExistsError:
        name = self.new.name
        return RefExistsError(f"there is a branch {printable(name)!r} already", kind="branch", name=name)

    def _busy(self) -> RefExistsError:
        name = printable(self.new.name)
        return RefExistsError(
            f"branch {name!r} is being created or deleted by another process, or such work was interrupted: then "
            f"{leftover_advice(self.new.name)}",
            kind="branch",
            name=self.new.name,
        )

    def _leftover(self) -> RefExistsError:
        name = printable(self.new.name)
        return RefExistsError(
            f"the folder of branch {name!r} has versions, but there is no such branch: its creation or deletion was "
            f"interrupted, or is under way. {leftover_advice(self.new.name)}",
            kind="branch",
            name=self.new.name,
        )

    def _parent_gone(self) -> ConflictError:
        return ConflictError(
            f"branch {printable(self.new.parent or '')!r}, from which the new branch starts, was deleted meanwhile"
        )

    def _unknown(self, error: LanceError) -> CommitUnknownError:
        name = printable(self.new.name)
        return CommitUnknownError(
            f"branch {name!r} may have been created ({error}): look for it in ds.branches.list(). If it is not there, "
            f"{leftover_advice(self.new.name)}"
        )
