"""Versions committed by a key-value store, which makes up for an object store that cannot create conditionally.

A commit takes four steps, and a reader that finds the work of a writer that died takes the last ones in its place::

    writer                                            reader
    1. write the manifest under a staged name         1. look the item of the version up
    2. put the item of the version if it is absent    2. copy the staged manifest to its final name
    3. copy the staged manifest to its final name     3. point the item there
    4. point the item there                           4. open the final name

The second step of a writer is the commit. A reader that cannot finish a version refuses to open it, so that a copy
of the folder alone always opens, at its last finished version. The object store is listed for a table without items.

Facts: table sheet, section 5.3; document 001, "External Manifest Store".
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from lancecy.errors import (
    CommitUnknownError,
    ConflictError,
    DatasetNotFoundError,
    FormatError,
    StoreError,
)
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.store.key_values import KeyedTable, ManifestItem
from lancecy.table.paths import DETACHED, VERSIONS, ManifestName, Naming, parse_manifest_name
from lancecy.table.requests import (
    TRIES,
    Copy,
    Head,
    KeyValueCall,
    Pause,
    Put,
    RandomBits,
    Remove,
    Steps,
    again,
    below,
)
from lancecy.table.versions.base import ManifestEntry, ManifestLocation, Outcome
from lancecy.table.versions.folder import VersionFolder

__all__ = ["ExternalVersions"]

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EAGAIN})


@dataclass(frozen=True, slots=True)
class ExternalVersions:
    """The versions named by the items of a key-value store.

    Attributes
    ----------
    keyed : KeyedTable
        The table in the key-value store.
    lists_in_order : bool
        Whether the object store lists in name order natively.
    """

    needs_conditional_put: ClassVar[bool] = False
    fails_at_once: ClassVar[bool] = False
    settles_staged: ClassVar[bool] = True

    keyed: KeyedTable
    lists_in_order: bool = False

    # -- finding ----------------------------------------------------------------------------------

    def latest(self) -> Steps[ManifestLocation | None]:
        items = self.keyed.key_values
        before: tuple[int, ManifestItem] | None = None
        while True:
            found: tuple[int, ManifestItem] | None = yield from self._ask(items.latest)
            if found is None:
                return (yield from self._folder.latest())
            location = yield from self._finished(*found)
            if location is not None:
                return location
            # Meanwhile others may have made a newer version, and a cleanup may have removed this one.
            if found == before:
                raise self._gone(*found)
            before = found

    def at(self, version: int, naming: Naming | None = None) -> Steps[ManifestLocation | None]:
        if version & DETACHED:
            return (yield from self._folder.at(version, naming))
        items = self.keyed.key_values
        item: ManifestItem | None = yield from self._ask(lambda table: items.get(table, version))
        if item is None:
            # An older version than the table has items, or one whose item was deleted.
            return (yield from self._folder.at(version, naming))
        if naming is not None and item.path == ManifestLocation.canonical(version, naming).path:
            return ManifestLocation.canonical(version, naming)
        return (yield from self._finished(version, item))

    def versions(self, above: int = 0, naming: Naming | None = None) -> Steps[list[ManifestLocation]]:
        known = self.keyed.key_values
        items: list[tuple[int, ManifestItem]] = yield from self._ask(lambda table: known.above(table, above))
        listed = yield from self._folder.versions(above, naming)
        found = {location.version: location for location in listed}
        newest = max(found, default=0)
        for version, item in items:
            is_staged = self._name(version, item).staged
            if version in found and not is_staged:
                continue
            # Older versions with an item and without a file were removed by a cleanup that knows no items.
            if is_staged or version > newest:
                location = yield from self._finished(version, item)
                if location is None and version > newest:
                    raise self._gone(version, item)
                if location is not None:
                    found[version] = _in_naming(location, naming)
        return [found[version] for version in sorted(found)]

    def manifests(self) -> Steps[list[ManifestEntry]]:
        found = yield from self._folder.manifests()
        # A staged manifest that is committed gets its final name before anybody takes it for a leftover.
        staged = [entry for entry in found if entry.name.staged and not entry.name.detached]
        for entry in staged:
            folder = entry.meta.path.rpartition("/")[0].removesuffix(VERSIONS).rstrip("/")
            steps = self.at(entry.name.version)
            yield from below(folder, steps) if folder else steps
        return (yield from self._folder.manifests()) if staged else found

    # -- publishing -------------------------------------------------------------------------------

    def publish(self, version: int, naming: Naming, data: bytes) -> Steps[Outcome]:
        final = ManifestLocation.canonical(version, naming).path
        if version & DETACHED:
            return (yield from self._detached(final, data))
        if (yield from self._is_without_item(version, final)):
            return Outcome.LOST
        unique = uuid.UUID(int=(yield RandomBits()) << 64 | (yield RandomBits()), version=4)
        item = ManifestItem(f"{final}-{unique}", len(data))
        yield from again(Put(item.path, data))
        outcome = yield from self._put_item(version, item)
        if outcome is Outcome.WON:
            # The version is published; readers do what fails here.
            with suppress(StoreError, DatasetNotFoundError):
                if (yield from self._finish(version, item, final, len(data))) is None:
                    yield from self._restage(version, item, data)
        elif outcome is Outcome.LOST:
            with suppress(StoreError):
                yield Remove((item.path,))
        return outcome

    def _is_without_item(self, version: int, final: str) -> Steps[bool]:
        """Whether the manifest of a version is there although its item is not: it gets its item.

        Without this a deleted item would let a second manifest replace a published one.
        """
        try:
            meta: ObjectMeta = yield from again(Head(final))
        except DatasetNotFoundError:
            return False
        items, item = self.keyed.key_values, ManifestItem(final, meta.size)
        yield from again(self._call(lambda table: items.put_if_absent(table, version, item), True))
        return True

    def _put_item(self, version: int, item: ManifestItem) -> Steps[Outcome]:
        """Put the item of a new version: the commit."""
        items = self.keyed.key_values
        failure: StoreError | None = None
        for attempt in range(TRIES):
            try:
                if (yield self._call(lambda table: items.put_if_absent(table, version, item), True)):
                    return Outcome.WON
                # A client may have tried twice, and found what it had put.
                there: ManifestItem | None = yield from self._ask(lambda table: items.get(table, version))
            except StoreError as error:
                if error.errno in _REFUSED and attempt == 0:
                    with suppress(StoreError):
                        yield Remove((item.path,))
                    raise
                failure = error
                if error.tries > 1:
                    break  # the store itself has tried as often as it may
                yield Pause(attempt)
                continue
            if there == item:
                return Outcome.WON
            # An item that a reader has finished names no writer: reading the manifest tells whose it is.
            is_doubtful = there is None or there.path in item.path
            return Outcome.UNKNOWN if failure is not None and is_doubtful else Outcome.LOST
        raise CommitUnknownError(
            f"the item of version {version} may or may not have been written ({failure}): open the table and look for "
            "it before committing again, and delete none of the files of this commit"
        ) from failure

    def _restage(self, version: int, item: ManifestItem, data: bytes) -> Steps[None]:
        """Write the staged manifest once more if somebody removed it before it was copied, such as a cleanup."""
        items = self.keyed.key_values
        if (yield from self._ask(lambda table: items.get(table, version))) == item:
            yield from again(Put(item.path, data))

    def _detached(self, path: str, data: bytes) -> Steps[Outcome]:
        """Publish a version outside the history; its number is random, so no other writer has the name."""
        try:
            yield from again(Head(path))
        except DatasetNotFoundError:
            yield from again(Put(path, data))
            return Outcome.WON
        return Outcome.LOST

    # -- finishing --------------------------------------------------------------------------------

    def _finished(self, version: int, item: ManifestItem) -> Steps[ManifestLocation | None]:
        """The location of a published version, finished if it was not; None if its manifest is gone."""
        name = self._name(version, item)
        location = ManifestLocation.canonical(version, name.naming, item.size or 0)
        if name.staged:
            try:
                size = yield from self._finish(version, item, location.path)
            except StoreError as error:
                raise _unfinished(version, error) from error
        else:
            size = yield from self._size(location.path)
        if size is None:
            return None
        if item.size is not None and size != item.size:
            raise FormatError(
                f"the manifest of version {version} has {size} bytes, and {item.size} according to its external "
                "manifest store: one of the two was changed or restored without the other",
                path=location.path,
            )
        return replace(location, size=size)

    def _finish(
        self, version: int, staged: ManifestItem, final: str, size: int | None = None
    ) -> Steps[int | None]:
        """Copy a staged manifest to its final name and point the item there.

        Parameters
        ----------
        version : int
        staged : ManifestItem
        final : str
        size : int, bytes, optional
            Of the manifest, known to its writer; readers look.

        Returns
        -------
        int or None
            The size; None if there is neither manifest.
        """
        try:
            yield from again(Copy(staged.path, final))
        except DatasetNotFoundError:
            size = None  # another one was faster, and has removed it
        if size is None:
            size = yield from self._size(final)
        if size is None or staged.size not in (None, size):
            return size
        items, finished = self.keyed.key_values, ManifestItem(final, size)
        steps = again(self._call(lambda table: items.put_if(table, version, finished, staged), True))
        yield from steps
        with suppress(StoreError):
            yield Remove((staged.path,))
        return size

    def _size(self, path: str) -> Steps[int | None]:
        try:
            meta: ObjectMeta = yield from again(Head(path))
        except DatasetNotFoundError:
            return None
        return meta.size

    # -- replacing and removing -------------------------------------------------------------------

    def replace(self, location: ManifestLocation, seen: bytes, data: bytes) -> Steps[bool]:
        items, version = self.keyed.key_values, location.version
        item: ManifestItem | None = yield from self._ask(lambda table: items.get(table, version))
        if (
            item is not None
            and item.size is not None
            and item.path == location.path
            and len(data) != item.size
        ):
            # An item without a size agrees with both manifests.
            unsized = ManifestItem(item.path)
            yield from again(self._call(lambda table: items.put_if(table, version, unsized, unsized), True))
        return (yield from self._folder.replace(location, seen, data))

    def remove(self, paths: Sequence[str]) -> Steps[None]:
        # Files that stay without an item are removed by the next cleanup; items without a file would be for ever.
        yield from self.forget(paths)
        yield from self._folder.remove(paths)

    def forget(self, paths: Sequence[str]) -> Steps[None]:
        for folder, versions in _by_table(paths).items():
            steps = self._forget(versions)
            yield from below(folder, steps) if folder else steps

    def _forget(self, versions: Sequence[int]) -> Steps[None]:
        items = self.keyed.key_values
        yield from again(self._call(lambda table: items.delete(table, versions), True))

    # -- parts ------------------------------------------------------------------------------------

    @property
    def _folder(self) -> VersionFolder:
        return VersionFolder(self.lists_in_order)

    def _call(self, run: Callable[[str], Any], changes: bool = False) -> KeyValueCall:
        return KeyValueCall(run, self.keyed.table, changes)

    def _ask(self, run: Callable[[str], Any]) -> Steps[Any]:
        return (yield from again(self._call(run)))

    def _name(self, version: int, item: ManifestItem) -> ManifestName:
        """The parsed name that an item gives the manifest of a version."""
        folder, _, name = item.path.rpartition("/")
        parsed = parse_manifest_name(name) if folder == VERSIONS else None
        if parsed is None or parsed.detached or parsed.version != version:
            raise FormatError(
                f"the external manifest store names {item.path!r} for version {version} of {self.keyed.table!r}, "
                "which is no name of its manifest"
            )
        return parsed

    def _gone(self, version: int, item: ManifestItem) -> FormatError:
        return FormatError(
            f"the external manifest store has version {version} of {self.keyed.table!r}, and the object store has "
            f"neither {item.path!r} nor its final manifest: restore the object, or delete the item of this version "
            "to go back to the one before"
        )


def _by_table(paths: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of finished versions among paths, by the folder of their table; "" is the table itself."""
    found: dict[str, list[int]] = {}
    for path in paths:
        folder, _, file = path.rpartition("/")
        name = parse_manifest_name(file)
        if name is not None and not name.staged and folder.rpartition("/")[2] == VERSIONS:
            found.setdefault(folder.removesuffix(VERSIONS).rstrip("/"), []).append(name.version)
    return found


def _in_naming(location: ManifestLocation, naming: Naming | None) -> ManifestLocation:
    if naming is not None and location.naming is not naming:
        raise ConflictError("manifests were renamed since the table was opened: open it again")
    return location


def _unfinished(version: int, error: StoreError) -> StoreError:
    failure = StoreError(
        f"version {version} is committed, and its writer did not finish it; a reader does so, and could not: {error}. "
        f"Open the table with credentials that may write, or an older version",
        path=error.path,
        store=error.store,
    )
    failure.errno = error.errno
    return failure
