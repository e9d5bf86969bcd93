"""Deletes branches, and finds and removes what interrupted creations and deletions left.

::

    check that nothing needs the branch -> mark -> announce that its versions go, and check again
        -> remove the JSON file -> remove manifests -> remove other files -> remove the announcement and the mark

Whoever makes a tag or branch after the second check sees the announcement (``refs.guards``).

Only the branch's own files go, as branches with longer names may be in the same folder.

Generators over ``requests``; all paths begin at the main table's root.

Facts: table sheet, section 6.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lancecy.errors import (
    ConflictError,
    LanceError,
    RefNotFoundError,
    StoreError,
    nearest,
    printable,
)
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.branches.files import (
    create_once,
    is_mark,
    leftover_advice,
    mark_number,
    mark_path,
    own_files,
    remove_for_good,
    table_folders,
)
from lancecy.table.cleanup.plan import GRACE_NS, Times
from lancecy.table.paths import VERSIONS, parse_manifest_name
from lancecy.table.refs.contents import Branch, Tag
from lancecy.table.refs.files import branches, pins, read_branch, tags
from lancecy.table.refs.guards import announce, withdraw
from lancecy.table.refs.names import TREE, branch_folder, branch_path, is_branch_name
from lancecy.table.requests import List, ListOwned, Now, Steps, StoreTime, again
from lancecy.table.versions import VersionStore

__all__ = ["Leftover", "Work", "delete_branch", "leftovers", "remove_leftover"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """The files in the folder of a branch that does not exist.

    Attributes
    ----------
    files : int
    nbytes : int, bytes
    modified : datetime or None
        Time of the newest one, by the storage's clock; UTC.
    """

    files: int
    nbytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Work:
    """How files are removed.

    Attributes
    ----------
    versions : VersionStore
    unique : str
        Random text.
    older_than_ns : int, ns
        Age from which a mark, or a file without a branch, belongs to a process that is gone.
    limits : Limits
    """

    versions: VersionStore
    unique: str
    older_than_ns: int = GRACE_NS
    limits: Limits = DEFAULT_LIMITS


def leftovers(limits: Limits = DEFAULT_LIMITS) -> Steps[dict[str, Leftover]]:
    """Files in folders of branches that do not exist, by the name of the branch.

    They are from creations and deletions that were interrupted or are under way.

    Raises
    ------
    FormatError, LimitError
        The file of a branch is damaged.
    StoreError
        The storage failed.
    """
    metas: Sequence[ObjectMeta] = yield from again(List(TREE))
    known = yield from branches(limits)
    names = table_folders(meta.path.removeprefix(f"{TREE}/") for meta in metas)
    found = {}
    for name in sorted(names):
        if name not in known and is_branch_name(name):
            below = [meta for meta in metas if meta.path.startswith(f"{branch_folder(name)}/")]
            own = own_files(name, below)
            if own:
                times = [meta.modified for meta in own if meta.modified is not None]
                size = sum(meta.size for meta in own)
                found[name] = Leftover(len(own), size, max(times, default=None))
    return found


def delete_branch(name: str, work: Work) -> Steps[tuple[str, ...]]:
    """Requests that delete a branch; the result is the paths of its files.

    Parameters
    ----------
    name : str
    work : Work

    Raises
    ------
    RefNotFoundError
        There is no such branch.
    ConflictError
        Another branch starts from it, a tag names one of its versions, or another process creates or deletes it.
    FormatError, LimitError
        The file of a tag or branch is damaged, so what needs the branch is unknown.
    StoreError
        The storage failed; the message says what was removed.
    """
    yield from _check_deletable(name, work)
    removal = _Removal(name, work)
    yield from removal.begin()
    try:
        if (yield from read_branch(name, work.limits)) is None:
            raise ConflictError(f"branch {printable(name)!r} was deleted meanwhile")
        yield from removal.announce()
    except LanceError:
        yield from removal.given_up()
        raise
    return (yield from removal.run(has_file=True))


def remove_leftover(name: str, work: Work) -> Steps[tuple[str, ...]]:
    """Requests that remove the files in the folder of a branch that does not exist; the result is their paths.

    Parameters
    ----------
    name : str
    work : Work

    Raises
    ------
    RefNotFoundError
        There is nothing left of such a branch.
    ConflictError
        The branch exists, another one starts from it, a tag names a version of it, or a file is too young.
    FormatError, LimitError, StoreError
        As of :func:`delete_branch`.
    """
    yield from _check_leftover(name, work)
    removal = _Removal(name, work)
    yield from removal.begin()
    try:
        # Another process may have removed them, and created the branch, before the mark was there.
        yield from _check_leftover(name, work, removal.mark)
        yield from removal.announce()
    except LanceError:
        yield from removal.given_up()
        raise
    return (yield from removal.run(has_file=False))


class _Removal:
    """The state of one removal."""

    def __init__(self, name: str, work: Work) -> None:
        self.name, self.work = name, work
        self.folder = branch_folder(name)
        self.mark = self.guard = ""
        self.is_certain = True

    def begin(self) -> Steps[None]:
        """Mark the branch, unless another process is at work on it."""
        start = len(self.folder) + 1
        metas: Sequence[ObjectMeta] = yield from again(List(f"{self.folder}/{VERSIONS}"))
        marks = [meta for meta in metas if is_mark(meta.path[start:])]
        if (yield from _young(marks, self.work)):
            raise self._busy()
        number = mark_number(meta.path[start:] for meta in marks) + 1
        mark = mark_path(self.name, number)
        if not (yield from create_once(mark, self.work.unique.encode())):
            raise self._busy()
        self.mark = mark

    def announce(self) -> Steps[None]:
        """Announce that all versions go, and check that no tag or branch was made of one, or is being made."""
        metas: Sequence[ObjectMeta] = yield from again(List(f"{self.folder}/{VERSIONS}"))
        names = [parse_manifest_name(meta.path.rpartition("/")[2]) for meta in own_files(self.name, metas)]
        self.guard = yield from announce(self.name, {name.version for name in names if name is not None})
        found = yield from pins(self.work.limits)
        users = sorted(pin.path for pin in found if pin.branch == self.name)
        if users:
            raise ConflictError(
                f"branch {printable(self.name)!r} cannot be deleted: {', '.join(map(printable, users[:10]))} needs a "
                "version of it"
            )

    def given_up(self) -> Steps[None]:
        """Remove the announcement and the mark again."""
        if self.guard:
            yield from withdraw(self.guard)
        yield from remove_for_good([self.mark])

    def run(self, *, has_file: bool) -> Steps[tuple[str, ...]]:
        """Remove the file of the branch, and its table."""
        done = "nothing is known to be removed"
        try:
            if has_file:
                yield from self._remove([branch_path(self.name)])
                done = "the branch is deleted"
            metas: Sequence[ObjectMeta] = yield from again(ListOwned(self.folder))
            paths = [meta.path for meta in own_files(self.name, metas)]
            done = "the branch is deleted, and some of its files"
            yield from self._remove_files(paths)
        except StoreError as error:
            name = printable(self.name)
            failure = StoreError(
                f"the deletion of branch {name!r} was cut short: {error}. Until then {done}; "
                f"{leftover_advice(self.name)}"
            )
            failure.errno = error.errno
            raise failure from error
        return tuple(paths)

    def _remove_files(self, paths: Sequence[str]) -> Steps[None]:
        start = len(self.folder) + 1
        marks = [path for path in paths if is_mark(path[start:])]
        versions = [path for path in paths if path[start:].startswith(f"{VERSIONS}/") and path not in marks]
        # A version that is listed has all its files, also if this is cut short.
        yield from self.work.versions.forget(versions)
        yield from self._remove(versions)
        yield from self._remove(sorted({*paths} - {*marks, *versions}))
        # A removal that failed may be carried out later, and must find no new branch then.
        if self.is_certain or self.work.versions.fails_at_once:
            yield from withdraw(self.guard)
            yield from remove_for_good(marks)

    def _remove(self, paths: Sequence[str]) -> Steps[None]:
        is_certain = yield from remove_for_good(paths)
        self.is_certain = self.is_certain and is_certain

    def _busy(self) -> ConflictError:
        return ConflictError(
            f"branch {printable(self.name)!r} is being created or deleted by another process, or such work was "
            "interrupted: if no process is at work on it, pass older_than=timedelta(0)"
        )


def _check_deletable(name: str, work: Work) -> Steps[None]:
    """Check that a branch exists and nothing needs it."""
    known = yield from branches(work.limits)
    branch = known.get(name)
    if branch is None:
        close = nearest(name, known) or sorted(known)
        shown = f"there are {', '.join(map(printable, close[:10]))}" if close else "there are none"
        raise RefNotFoundError(
            f"there is no branch {printable(name)!r}; {shown}. ds.branches.list_leftovers() lists folders of branches that "
            "do not exist",
            kind="branch",
            name=name,
            known=close[:10],
        )
    _check_unused(name, branch, known, (yield from tags(work.limits)))


def _check_unused(
    name: str, branch: Branch | None, known: Mapping[str, Branch], named: Mapping[str, Tag]
) -> None:
    mine = () if branch is None else branch.lineage
    children = [
        other
        for other, found in known.items()
        if other != name and (found.parent == name or (mine and _extends(found.lineage, mine)))
    ]
    tagged = [tag for tag, found in named.items() if found.branch == name]
    for kind, users in (("branches start from it", children), ("tags name versions of it", tagged)):
        if users:
            raise ConflictError(
                f"branch {printable(name)!r} cannot be deleted, as {kind}: {', '.join(map(printable, users[:10]))}; "
                "delete these first"
            )


def _extends(lineage: Sequence[tuple[int, str]], mine: Sequence[tuple[int, str]]) -> bool:
    return len(lineage) > len(mine) and tuple(lineage[: len(mine)]) == tuple(mine)


def _check_leftover(name: str, work: Work, mark: str = "") -> Steps[None]:
    known = yield from branches(work.limits)
    if name in known:
        raise ConflictError(f"branch {printable(name)!r} exists: ds.branches.delete deletes it")
    _check_unused(name, None, known, (yield from tags(work.limits)))
    metas: Iterable[ObjectMeta] = yield from again(ListOwned(branch_folder(name)))
    own = [meta for meta in own_files(name, metas) if meta.path != mark]
    if not own and not mark:
        raise RefNotFoundError(f"nothing is left of a branch {printable(name)!r}", kind="branch", name=name)
    if (yield from _young(own, work)):
        raise ConflictError(
            f"files of branch {printable(name)!r} are so young that a process may be at work on it; if none is, pass "
            "older_than=timedelta(0)"
        )


def _young(metas: Sequence[ObjectMeta], work: Work) -> Steps[bool]:
    """Whether one of these files may belong to a process at work."""
    if not metas or work.older_than_ns <= 0:
        return False
    times = Times((yield Now()), (yield from again(StoreTime())))
    return not all(times.is_old(meta, work.older_than_ns) for meta in metas)
