"""Removes old versions, and files that no version needs.

::

    list the files -> read every manifest -> read pending transactions -> decide (``plan``)
        -> announce what goes, check for new tags -> remove manifests -> check for new versions and commits -> remove files

Generators over ``requests``, as commits are. Files are listed before manifests are read, so that a file committed
in between counts as needed. Manifests are removed first, oldest first, so after an interruption every listed
version can be read, and the next cleanup removes the rest. A manifest, tag or transaction that cannot be read or
understood stops the cleanup before anything is removed.

A distributed write can take hours, and its commit looks at every version made since it began. So these versions stay as
long as the marker of the write stands.

A commit writes its transaction file before it checks that the files it names, or the version it restores, exist.
So either the commit misses them and fails, or the second check here finds the transaction and spares them.

Facts: table sheet, sections 6.3 and 9.1.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from lancecy.errors import (
    ConflictError,
    FormatError,
    LanceError,
    StoreError,
    VersionNotFoundError,
)
from lancecy.progress import Progress, Step, silent
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.cleanup.plan import (
    FOLDERS,
    GRACE_NS,
    CleanupOptions,
    CleanupStats,
    Found,
    Kind,
    Removal,
    Times,
    expired,
    file_of,
    leftovers,
)
from lancecy.table.cleanup.retention import ListedManifest, Needs, Scope
from lancecy.table.paths import TRANSACTIONS, VERSIONS, WRITE_MARKER
from lancecy.table.refs import Pin
from lancecy.table.refs.guards import LIFETIME_NS, announce, is_stale, withdraw
from lancecy.table.refs.names import GUARDS
from lancecy.table.requests import ListOwned, Now, Remove, Steps, StoreTime, Wait, again
from lancecy.table.wire.references import References

__all__ = [
    "CleanupOptions",
    "CleanupPlan",
    "CleanupStats",
    "Scope",
    "cleanup",
    "cleanup_all",
    "cleanup_plan",
]

_BATCH = 1000
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """What a cleanup would remove, and why the rest stays.

    Attributes
    ----------
    removal : Removal
    known : frozenset of str
        Paths of files that a removed version names; other files of the removal are left of commits that failed.
    pins : tuple of Pin
        Tags and branches that need versions of this table.
    """

    removal: Removal
    known: frozenset[str]
    pins: tuple[Pin, ...]


def cleanup_plan(
    scope: Scope, options: CleanupOptions, progress: Progress | None = None
) -> Steps[CleanupPlan]:
    """Requests that find what :func:`cleanup` would remove; parameters and errors as there."""
    work = _Cleanup(scope, options, progress or silent)
    try:
        removal = yield from work.planned()
    except LanceError as error:
        raise error.within("a cleanup that removed nothing")
    return CleanupPlan(removal, frozenset(scope.home + path for path in work.named), tuple(work.own_pins()))


def cleanup(
    scope: Scope, options: CleanupOptions, progress: Progress | None = None, *, dry_run: bool = False
) -> Steps[CleanupStats]:
    """Requests that remove old versions and the files that only they need.

    Parameters
    ----------
    scope : Scope
    options : CleanupOptions
    progress : Progress, optional
    dry_run : bool
        Find what would be removed, and remove nothing.

    Raises
    ------
    ConflictError
        An old version has a tag, or tags or branches were made meanwhile.
    NotFoundError
        The open version, or a table that uses this one, does not exist.
    FormatError, LimitError, UnsupportedError
        A manifest, tag or branch cannot be read, so the files it needs are unknown.
    StoreError
        The storage failed; the message says what was removed before.
    """
    return (yield from _removed(scope, options, progress, dry_run)).stats


def cleanup_all(
    tables: Sequence[tuple[Scope, CleanupOptions]],
    progress: Progress | None = None,
    *,
    dry_run: bool = False,
) -> Steps[CleanupStats]:
    """Requests that clean up a main table and its branches; errors as of :func:`cleanup`.

    Nothing is removed before all tables are planned.

    Parameters
    ----------
    tables : sequence of (Scope, CleanupOptions)
        Branches before the tables that they start from, whose files they need.
    progress : Progress, optional
    dry_run : bool
    """
    total = yield from _removed_from(tables, progress, dry_run=True)
    if not dry_run:
        total = yield from _removed_from(tables, progress, dry_run=False)
    return total.stats


def _removed_from(
    tables: Sequence[tuple[Scope, CleanupOptions]], progress: Progress | None, *, dry_run: bool
) -> Steps[Removal]:
    total = Removal()
    for scope, options in tables:
        gone = frozenset(meta.path for meta in total.manifests)
        found = yield from _removed(replace(scope, gone=gone), options, progress, dry_run)
        total = Removal(total.manifests + found.manifests, total.files + found.files)
    return total


def _removed(
    scope: Scope, options: CleanupOptions, progress: Progress | None, dry_run: bool
) -> Steps[Removal]:
    work = _Cleanup(scope, options, progress or silent)
    try:
        removal = yield from work.planned()
        if not dry_run:
            yield from work.announced()
    except LanceError as error:
        raise error.within("a cleanup that removed nothing")
    if not dry_run:
        removal = yield from work.carried_out(removal)
    return removal


class _Cleanup:
    """The state of one cleanup."""

    def __init__(self, scope: Scope, options: CleanupOptions, progress: Progress) -> None:
        self.scope, self.options, self.progress = scope, options, progress
        self.needs = Needs(scope)
        self.pins: frozenset[Pin] = frozenset()
        self.read: set[tuple[str, str]] = set()  # manifests, by table root and path
        self.files: set[str] = set()  # listed at the start
        self.named: set[str] = set()  # by versions that go, below the table's folder
        self.going: dict[int, Found] = {}
        self.times = Times(0, None)
        self.guard = ""  # path of the announcement

    # -- planning ---------------------------------------------------------------------------------

    def planned(self) -> Steps[Removal]:
        """The plan of the removal; removes nothing."""
        home = self.scope.home
        times = self.times = Times((yield Now()), (yield from again(StoreTime())))
        files: list[ObjectMeta] = []
        for folder in FOLDERS:
            files += yield from again(ListOwned(home + folder))
        self.pins = yield from self.needs.pins()
        manifests = yield from self.needs.manifests()
        history: list[Found] = []
        kept: set[str] = set()
        abandoned = [manifest.meta for manifest in manifests if self._is_abandoned(manifest, files, times)]
        # They need no files, and may be torn.
        self.read |= {("", meta.path) for meta in abandoned}
        manifests = [
            manifest for manifest in manifests if (manifest.place, manifest.meta.path) not in self.read
        ]
        for number, manifest in enumerate(manifests):
            self.progress(Step("read versions", number, len(manifests), "versions", manifest.meta.path))
            references = yield from self._read(manifest)
            if references is None:
                raise ConflictError(
                    f"{manifest.meta.path} vanished while it was read: is another cleanup running? Try again"
                )
            kept |= references.foreign
            if self._is_own(manifest) and manifest.is_history:
                history.append(Found(manifest.meta, references))
            else:
                kept |= references.own
        self.progress(Step("read versions", len(manifests), len(manifests), "versions"))
        history.sort(key=lambda found: found.references.version)
        self._check_history(history)
        markers = [meta for meta in files if self._is_running(meta, times)]
        oldest = yield from self.needs.running(markers)
        going = self._going(files, history, times)
        if oldest is not None:
            going = {version: found for version, found in going.items() if version <= oldest}
        for found in history:
            kept |= set() if found.references.version in going else found.references.own
        self.files = {meta.path for meta in files}
        named = self.named = {path for found in going.values() for path in found.references.own}
        pending = [meta for meta in files if self._may_be_pending(meta, kept | named, times)]
        intents = yield from self.needs.intents(pending)
        for version in intents.restored & set(going):
            kept |= going.pop(version).references.own
        self.going = going
        gone = leftovers(home, files, kept, named, intents.raw, self.options, times)
        gone += [(Kind.TEMPORARY, meta) for meta in abandoned]
        return Removal(tuple(found.meta for found in going.values()), tuple(gone))

    def _going(self, files: Sequence[ObjectMeta], history: Sequence[Found], times: Times) -> dict[int, Found]:
        """Versions to remove, oldest first."""
        # A manifest that is a symbolic link is not the table's own: it stays with the files it needs.
        ours = {meta.path: meta for meta in files}
        removable = [Found(ours.get(f.meta.path, f.meta), f.references) for f in history]
        going = {
            found.references.version: found
            for found in expired(removable, self.options, times)
            if found.meta.path in ours and not found.references.tagged
        }
        self._check_tags(going)
        for pin in self.own_pins():
            going.pop(pin.version, None)
        return going

    def _check_history(self, history: Sequence[Found]) -> None:
        versions = [found.references.version for found in history]
        if len(set(versions)) != len(versions):
            raise FormatError(f"{self.scope.home}{VERSIONS}/ has two manifests of one version")
        if self.options.opened not in versions:
            number = str(self.options.opened)
            raise VersionNotFoundError(
                f"version {number}, which is open, is gone: open the newest one", name=number
            )

    def _check_tags(self, going: dict[int, Found]) -> None:
        tagged = sorted(
            (pin.version, pin.path) for pin in self.own_pins() if pin.is_tag and pin.version in going
        )
        if tagged and self.options.fail_if_tagged:
            shown = ", ".join(f"{version} ({path})" for version, path in tagged[:5])
            raise ConflictError(
                f"{len(tagged)} versions to remove are tagged: {shown}; delete the tags, or keep these "
                "versions with error_if_tagged_old_versions=False"
            )

    def own_pins(self) -> list[Pin]:
        """Tags of this table, and branches that begin at its versions."""
        return [pin for pin in self.pins if pin.branch == self.scope.branch]

    def _read(self, manifest: ListedManifest) -> Steps[References | None]:
        self.read.add((manifest.place, manifest.meta.path))
        return (yield from self.needs.references(manifest))

    def _is_own(self, manifest: ListedManifest) -> bool:
        folder = manifest.meta.path.rpartition("/")[0]
        return not manifest.place and folder == self.scope.home + VERSIONS

    def _is_abandoned(self, manifest: ListedManifest, files: Sequence[ObjectMeta], times: Times) -> bool:
        """Whether a manifest was staged for a version that it did not become, too long ago for a commit under way."""
        return (
            self.scope.versions.settles_staged
            and manifest.name.staged
            and not manifest.name.detached
            and self._is_own(manifest)
            and manifest.meta.path in {meta.path for meta in files}
            and (self.options.unverified or times.is_old(manifest.meta, GRACE_NS))
        )

    def _is_running(self, meta: ObjectMeta, times: Times) -> bool:
        """Whether a file is the marker of a distributed write that may still be under way."""
        is_marker = meta.path.startswith(self.scope.home + WRITE_MARKER)
        return is_marker and not self.options.unverified and not times.is_old(meta, GRACE_NS)

    def _may_be_pending(self, meta: ObjectMeta, known: Collection[str], times: Times) -> bool:
        """Whether a file holds a transaction that no version names and that may still be committed."""
        path = meta.path[len(self.scope.home) :]
        if self.options.unverified or path in known or file_of(path) is not Kind.TRANSACTION:
            return False
        return not times.is_old(meta, GRACE_NS)

    # -- removing ---------------------------------------------------------------------------------

    def announced(self) -> Steps[None]:
        """Announce the versions to remove, and check that no tag or branch was made since the plan.

        Whoever makes a tag or a branch after the check sees the announcement (``refs.guards``). A full disk has no room
        for it, and none for a tag: then there is none until :meth:`carried_out` has made room.
        """
        if self.going:
            try:
                self.guard = yield from announce(self.scope.branch, self.going)
            except StoreError as error:
                if error.errno not in _FULL:
                    raise
        try:
            if (yield from self.needs.pins()) != self.pins:
                raise ConflictError("tags or branches were made or removed meanwhile: try again")
        except LanceError:
            yield from self._withdraw()
            raise

    def _withdraw(self) -> Steps[None]:
        if self.guard:
            yield from withdraw(self.guard)

    def _remove_stale_guards(self) -> Steps[None]:
        """Remove what processes that died left; after a failure the next cleanup does."""
        with suppress(StoreError):
            metas: Sequence[ObjectMeta] = yield from again(ListOwned(GUARDS))
            stale = tuple(meta.path for meta in metas if is_stale(meta, self.times.theirs))
            if stale:
                yield from again(Remove(stale))

    def carried_out(self, removal: Removal) -> Steps[Removal]:
        """Carry out a removal; returns what was removed."""
        done, versions, what = 0, len(removal.manifests), "nothing was removed"
        try:
            paths = [meta.path for meta in removal.manifests]
            while done < versions:
                if done and not self.guard:
                    yield from self.announced()
                if done and (yield Now()) - self.times.ours > LIFETIME_NS // 2:
                    raise ConflictError("it took so long that its announcement is about to expire: try again")
                batch = next(self._batches(paths[done:] if self.guard else paths[done : done + 1]))
                self.progress(Step("remove", done, len(removal), "files", batch[0]))
                yield from self.scope.versions.remove(batch)
                yield from self._paced(len(batch))
                done += len(batch)
                what = f"{done} of {versions} versions were removed, and no file of theirs yet"
            # After a failure it stays: a removal that failed may be carried out later.
            yield from self._withdraw()
            removal = yield from self._spared(removal)
            for batch in self._batches([meta.path for _, meta in removal.files]):
                self.progress(Step("remove", done, len(removal), "files", batch[0]))
                yield from again(Remove(batch))
                yield from self._paced(len(batch))
                done += len(batch)
                what = f"{versions} versions and {done - versions} of {len(removal.files)} files were removed"
            yield from self._remove_stale_guards()
        except LanceError as error:
            failure = StoreError(
                f"the cleanup was cut short: {error}. Until then {what}; no version that is left needs the rest, "
                "which another cleanup removes, if need be after seven days"
            )
            failure.errno = getattr(error, "errno", None)
            raise failure from error
        self.progress(Step("remove", len(removal), len(removal), "files"))
        return removal

    def _spared(self, removal: Removal) -> Steps[Removal]:
        """The removal without files of versions and commits made since the plan."""
        if not removal.files:
            return removal
        home, kept = self.scope.home, set[str]()
        folder = f"{home}{TRANSACTIONS}"
        metas: Sequence[ObjectMeta] = yield from again(ListOwned(folder))
        for manifest in (yield from self.needs.manifests()):
            if (manifest.place, manifest.meta.path) not in self.read:
                references = yield from self._read(manifest)
                kept |= set() if references is None else references.all
        unknown = Times(0, None)
        new = [m for m in metas if m.path not in self.files and self._may_be_pending(m, kept, unknown)]
        intents = yield from self.needs.intents(new)
        for version in intents.restored & set(self.going):
            kept |= self.going[version].references.own
        return removal.without(home, kept, intents.raw)

    def _batches(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Paths that are removed together; each batch ends before the next begins."""
        limits = (_BATCH, self.options.files_per_second, self.options.files_at_once)
        size = min(limit for limit in limits if limit is not None)
        for start in range(0, len(paths), size):
            yield tuple(paths[start : start + size])

    def _paced(self, count: int) -> Steps[None]:
        """Wait after so many files were removed, if there is a limit per second."""
        if self.options.files_per_second is not None:
            yield Wait(count / self.options.files_per_second)
