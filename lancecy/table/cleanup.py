"""Removing old versions, and files that nobody needs any more.

::

    list the files -> read every manifest there is -> decide (``removal``) -> look for new tags
        -> remove the manifests that go -> look for new versions -> remove the files

Generators over ``requests``, as commits are. Files are listed before manifests are read, so that a file
committed in between is seen to be needed. Manifests go first, oldest first: a version that can be found can
be read, whenever this is cut short, and what is left then is found by the next cleanup. Anything that cannot
be read or understood ends it before anything is removed.

Facts: table sheet, sections 6.3 and 9.1. Imports ``removal``, ``refs``, ``references_wire`` and ``requests``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lancecy.errors import (
    ConflictError,
    DatasetNotFoundError,
    FormatError,
    LanceError,
    NotFoundError,
    StoreError,
)
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.progress import Progress, Step, silent
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.paths import VERSIONS, ManifestName, parse_manifest_name
from lancecy.table.publishing import again
from lancecy.table.references_wire import References, decode_references
from lancecy.table.refs import BRANCHES, REFS, TAGS, TREE, Pin, branch_folder, decode_pin
from lancecy.table.removal import FOLDERS, CleanupStats, Found, Removal, Terms, Times, doomed, leftovers
from lancecy.table.requests import Clock, Elsewhere, List, Now, Own, Read, Remove, Steps

__all__ = ["CleanupStats", "Scope", "Terms", "cleanup"]

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Scope:
    """Which table is cleaned up, and who else needs its files.

    Attributes
    ----------
    branch : str or None
        None for the main table, at whose root paths begin in either case.
    used_by : tuple of str
        Roots of tables elsewhere that have files of this one, such as shallow clones.
    tries : int
        Times a failing request is made.
    limits : Limits
    """

    branch: str | None = None
    used_by: tuple[str, ...] = ()
    tries: int = 4
    limits: Limits = DEFAULT_LIMITS

    @property
    def home(self) -> str:
        """What paths of the table begin with."""
        return "" if self.branch is None else f"{branch_folder(self.branch)}/"


def cleanup(
    scope: Scope, terms: Terms, progress: Progress | None = None, *, dry_run: bool = False
) -> Steps[CleanupStats]:
    """Requests that remove old versions and what only they need.

    Parameters
    ----------
    scope : Scope
    terms : Terms
    progress : Progress, optional
    dry_run : bool
        Find out what would go, and remove nothing.

    Raises
    ------
    ConflictError
        A tag is on a version that would go, or tags or branches were made meanwhile.
    NotFoundError
        The open version, or a table that uses this one, is gone.
    FormatError, LimitError, UnsupportedError
        A manifest, tag or branch cannot be read, so nobody knows what it needs.
    StoreError
        The storage failed; the message says what was removed before.
    """
    work = _Cleanup(scope, terms, progress or silent)
    try:
        removal = yield from work.planned()
        if not dry_run:
            yield from work.check_pins()
    except LanceError as error:
        raise error.within("a cleanup that removed nothing")
    if not dry_run:
        removal = yield from work.carried_out(removal)
    return removal.stats


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A manifest file that was listed; ``place`` is the root of another table, "" of this one."""

    place: str
    meta: ObjectMeta
    name: ManifestName

    @property
    def is_history(self) -> bool:
        return not self.name.detached and not self.name.staged


class _Cleanup:
    """One cleanup on its way."""

    def __init__(self, scope: Scope, terms: Terms, progress: Progress) -> None:
        self.scope, self.terms, self.progress = scope, terms, progress
        self.pins: frozenset[Pin] = frozenset()
        self.read: set[tuple[str, str]] = set()  # manifests, by their place and path

    # -- what goes --------------------------------------------------------------------------------

    def planned(self) -> Steps[Removal]:
        """What goes; nothing is removed."""
        home, tries = self.scope.home, self.scope.tries
        times = Times((yield Now()), (yield from again(Clock(), tries)))
        files: list[ObjectMeta] = []
        for folder in FOLDERS:
            files += yield from again(Own(home + folder), tries)
        self.pins = yield from self._pins()
        manifests = yield from self._manifests()
        history: list[Found] = []
        kept: set[str] = set()
        for number, manifest in enumerate(manifests):
            self.progress(Step("read versions", number, len(manifests), "versions", manifest.meta.path))
            references = yield from self._references(manifest)
            if references is None:
                raise StoreError(
                    f"{manifest.meta.path} vanished while it was read: is another cleanup running? Try again"
                )
            kept |= references.foreign
            if self._is_own(manifest) and manifest.is_history:
                history.append(Found(manifest.meta, references))
            else:
                kept |= references.own
        self.progress(Step("read versions", len(manifests), len(manifests), "versions"))
        return self._decided(files, sorted(history, key=lambda found: found.references.version), kept, times)

    def _decided(
        self, files: Sequence[ObjectMeta], history: Sequence[Found], kept: set[str], times: Times
    ) -> Removal:
        self._check_history(history)
        # A manifest that is a symbolic link is none of our files: it stays, and what it needs.
        ours = {meta.path: meta for meta in files}
        removable = [Found(ours.get(f.meta.path, f.meta), f.references) for f in history]
        going = {
            found.references.version: found
            for found in doomed(removable, self.terms, times)
            if found.meta.path in ours and not found.references.tagged
        }
        self._check_tags(going)
        for pin in self._own_pins():
            going.pop(pin.version, None)
        named: set[str] = set()
        for found in history:
            (named if found.references.version in going else kept).update(found.references.own)
        gone = leftovers(self.scope.home, files, kept, named, self.terms, times)
        return Removal(tuple(found.meta for found in going.values()), tuple(gone))

    def _check_history(self, history: Sequence[Found]) -> None:
        versions = [found.references.version for found in history]
        if len(set(versions)) != len(versions):
            raise FormatError(f"{self.scope.home}{VERSIONS}/ has two manifests of one version")
        if self.terms.opened not in versions:
            number = str(self.terms.opened)
            raise NotFoundError(
                f"version {number}, which is open, is gone: open the newest one", kind="version", name=number
            )

    def _check_tags(self, going: dict[int, Found]) -> None:
        tagged = sorted(
            (pin.version, pin.path) for pin in self._own_pins() if pin.is_tag and pin.version in going
        )
        if tagged and self.terms.fail_if_tagged:
            shown = ", ".join(f"{version} ({path})" for version, path in tagged[:5])
            raise ConflictError(
                f"{len(tagged)} versions that would go are tagged: {shown}; delete the tags, or keep these "
                "versions with error_if_tagged_old_versions=False"
            )

    def _own_pins(self) -> list[Pin]:
        return [pin for pin in self.pins if pin.branch == self.scope.branch]

    # -- reading ----------------------------------------------------------------------------------

    def _pins(self) -> Steps[frozenset[Pin]]:
        """Tags and branches there are."""
        metas: Sequence[ObjectMeta] = yield from again(List(REFS), self.scope.tries)
        pins = set()
        for meta in metas:
            folder, _, name = meta.path.rpartition("/")
            if folder in (TAGS, BRANCHES) and name.endswith(".json"):
                memory: Memory = yield from again(Read(meta.path), self.scope.tries)
                pins.add(decode_pin(memory, meta.path, self.scope.limits))
        return frozenset(pins)

    def _manifests(self) -> Steps[list[_Manifest]]:
        """Every manifest of this table, its branches, the table they branch from, and those that use it."""
        found: list[_Manifest] = []
        for place in ("", *self.scope.used_by):
            there = len(found)
            for folder in (VERSIONS, TREE):
                request = List(folder)
                metas = yield from again(Elsewhere(place, request) if place else request, self.scope.tries)
                found += _manifests_in(place, metas)
            if place and len(found) == there:
                raise NotFoundError(
                    f"there is no table at {place}, which is said to use files of this one",
                    kind="dataset",
                    name=place,
                )
        return found

    def _is_own(self, manifest: _Manifest) -> bool:
        folder = manifest.meta.path.rpartition("/")[0]
        return not manifest.place and folder == self.scope.home + VERSIONS

    def _references(self, manifest: _Manifest) -> Steps[References | None]:
        """What a version needs, None if its manifest is gone."""
        path, place = manifest.meta.path, manifest.place
        request = Read(path)
        try:
            memory: Memory = yield from again(
                Elsewhere(place, request) if place else request, self.scope.tries
            )
        except DatasetNotFoundError:
            return None
        self.read.add((place, path))
        shown = f"{place}/{path}" if place else path
        return decode_references(memory, shown, manifest.name.version, self.scope.limits)

    # -- removing ---------------------------------------------------------------------------------

    def check_pins(self) -> Steps[None]:
        """See that no tag or branch was made since the versions that go were chosen."""
        if (yield from self._pins()) != self.pins:
            raise ConflictError("tags or branches were made or removed meanwhile: try again")

    def carried_out(self, removal: Removal) -> Steps[Removal]:
        """Remove what goes; what that came to."""
        done, versions, what = 0, len(removal.manifests), "nothing was removed"
        try:
            for batch in _batches([meta.path for meta in removal.manifests]):
                yield from self._remove(batch, done, len(removal))
                done += len(batch)
                what = f"{done} of {versions} versions were removed, and no file of theirs yet"
            removal = yield from self._spared(removal)
            for batch in _batches([meta.path for _, meta in removal.files]):
                yield from self._remove(batch, done, len(removal))
                done += len(batch)
                what = f"{versions} versions and {done - versions} of {len(removal.files)} files were removed"
        except LanceError as error:
            failure = StoreError(
                f"the cleanup was cut short: {error}. Until then {what}; no version that is left needs the rest, "
                "which another cleanup removes, if need be after seven days"
            )
            failure.errno = getattr(error, "errno", None)
            raise failure from error
        self.progress(Step("remove", len(removal), len(removal), "files"))
        return removal

    def _remove(self, batch: tuple[str, ...], done: int, total: int) -> Steps[None]:
        self.progress(Step("remove", done, total, "files", batch[0]))
        yield from again(Remove(batch), self.scope.tries)

    def _spared(self, removal: Removal) -> Steps[Removal]:
        """Without the files of versions that were made since the others were read."""
        if not removal.files:
            return removal
        kept: set[str] = set()
        for manifest in (yield from self._manifests()):
            if (manifest.place, manifest.meta.path) not in self.read:
                references = yield from self._references(manifest)
                kept |= set() if references is None else references.all
        return removal.without(self.scope.home, kept)


def _manifests_in(place: str, metas: Sequence[ObjectMeta]) -> Iterator[_Manifest]:
    for meta in metas:
        folder, _, name = meta.path.rpartition("/")
        parsed = parse_manifest_name(name)
        if parsed is not None and folder.rpartition("/")[2] == VERSIONS:
            yield _Manifest(place, meta, parsed)


def _batches(paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(paths), _BATCH):
        yield tuple(paths[start : start + _BATCH])
