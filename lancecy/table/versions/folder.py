"""Versions as manifest files in ``_versions/``, named after their version number.

::

    {root}/_versions/{20 digits of 2**64-1-version}.manifest     V2 names, newest first in a listing
    {root}/_versions/{version}.manifest                          V1 names

A table uses one naming scheme. The folder is the only source: hint files are not needed, because the first V2 name
of a listing is the latest version and V1 names have to be listed anyway.

Source: table sheet, sections 1.3 and 5.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from lancecy.errors import (
    CommitUnknownError,
    ConflictError,
    DatasetNotFoundError,
    ExistsError,
    FormatError,
    StoreError,
)
from lancecy.records import dataclass
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.paths import VERSIONS, Naming, parse_manifest_name
from lancecy.table.refs import TREE
from lancecy.table.requests import TRIES, Create, Head, List, Pause, Put, Read, Remove, Scan, Steps, again
from lancecy.table.versions.base import ManifestEntry, ManifestLocation, Outcome

__all__ = ["ConditionalPut", "LocalLink", "VersionFolder", "published"]

# Above every V2 name and below the V1 names that a listing yields after them.
_AFTER_V2 = f"{VERSIONS}/{(1 << 64) - 1}."
# Errors of a store that did nothing and would do nothing when asked again.
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def published(metas: Iterable[ObjectMeta]) -> Iterator[ManifestLocation]:
    """The published versions in a listing of ``_versions/``; other names are skipped."""
    for meta in metas:
        folder, _, name = meta.path.rpartition("/")
        parsed = parse_manifest_name(name) if folder == VERSIONS else None
        if parsed is not None and parsed.is_published:
            yield ManifestLocation(parsed.version, meta.path, meta.size, parsed.naming, meta.identity)


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """The versions named by the files in ``_versions/``.

    Attributes
    ----------
    lists_in_order : bool
        Whether the store lists in name order natively, so that the first V2 name is the latest version.
    """

    needs_conditional_put: ClassVar[bool] = True
    fails_at_once: ClassVar[bool] = False
    settles_staged: ClassVar[bool] = False

    lists_in_order: bool = False

    def latest(self) -> Steps[ManifestLocation | None]:
        newest: ManifestLocation | None = None
        for found in published((yield Scan(VERSIONS))):
            newest = _newer(newest, found)
            if found.naming is Naming.V2:
                # V2 names sort newest first. A store that lists in order is trusted, because a further request would
                # cost more than it is worth. On a disk the rest is searched for V1 names.
                if not self.lists_in_order:
                    for other in published((yield Scan(VERSIONS, _AFTER_V2))):
                        newest = _newer(newest, other)
                break
        return newest

    def at(self, version: int, naming: Naming | None = None) -> Steps[ManifestLocation | None]:
        if naming is not None:
            return ManifestLocation.canonical(version, naming)
        for one in (Naming.V2,) if version >> 63 else (Naming.V2, Naming.V1):
            location = ManifestLocation.canonical(version, one)
            try:
                meta: ObjectMeta = yield Head(location.path)
            except DatasetNotFoundError:
                continue
            return replace(location, size=meta.size)
        return None

    def versions(self, above: int = 0, naming: Naming | None = None) -> Steps[list[ManifestLocation]]:
        # V2 names of newer versions come first in a listing, V1 names in no useful order.
        before = ManifestLocation.canonical(above, naming).path if above and naming is Naming.V2 else None
        metas: Sequence[ObjectMeta] = yield from again(List(VERSIONS, before))
        found = [location for location in published(metas) if location.version > above]
        newest: ManifestLocation | None = None
        for location in found:
            if naming is not None and location.naming is not naming:
                raise ConflictError("manifests were renamed since the table was opened: open it again")
            newest = _newer(newest, location)
        return sorted(found, key=lambda location: location.version)

    def publish(self, version: int, naming: Naming, data: bytes) -> Steps[Outcome]:
        # A failed request may have been carried out, or may be carried out later. So it is repeated with the same
        # bytes under the same name until the name is known to be taken.
        path = ManifestLocation.canonical(version, naming).path
        failure: StoreError | None = None
        for attempt in range(TRIES):
            try:
                yield Create(path, data)
            except ExistsError:
                return Outcome.LOST if failure is None else Outcome.UNKNOWN
            except StoreError as error:
                if error.errno in _REFUSED and attempt == 0:
                    raise
                failure = error
            else:
                return Outcome.WON
            try:
                yield from again(Read(path))
            except DatasetNotFoundError:
                if self.fails_at_once and attempt == TRIES - 1:
                    raise failure from None
            except StoreError as error:
                failure = error
                if error.tries > 1:
                    break  # the store itself has tried for minutes, both times
            else:
                return Outcome.UNKNOWN
            yield Pause(attempt)
        raise CommitUnknownError(
            f"{path} may or may not have been written ({failure}): open the table and look for it before "
            "committing again, and delete none of the files of this commit"
        ) from failure

    def replace(self, location: ManifestLocation, seen: bytes, data: bytes) -> Steps[bool]:
        failure = StoreError(f"{location.path} was not replaced", path=location.path)
        for attempt in range(TRIES):
            try:
                # Read at the last moment: a writer may have finished this file, or a cleanup may have removed it.
                memory: Memory = yield from again(Read(location.path))
            except DatasetNotFoundError:
                return False
            there = memory.tobytes()
            if there == data or there != seen:
                return there == data
            try:
                yield Put(location.path, data)
            except StoreError as error:
                if error.errno in _REFUSED:
                    raise
                failure = error
            else:
                return True
            yield Pause(attempt)
        raise failure

    def manifests(self) -> Steps[list[ManifestEntry]]:
        found = []
        for folder in (VERSIONS, TREE):
            metas: Sequence[ObjectMeta] = yield from again(List(folder))
            for meta in metas:
                parent, _, name = meta.path.rpartition("/")
                parsed = parse_manifest_name(name)
                if parsed is not None and parent.rpartition("/")[2] == VERSIONS:
                    found.append(ManifestEntry(meta, parsed))
        return found

    def forget(self, paths: Sequence[str]) -> Steps[None]:
        yield from ()  # the files are all there is

    def remove(self, paths: Sequence[str]) -> Steps[None]:
        yield from again(Remove(tuple(paths)))


@dataclass(frozen=True, slots=True)
class ConditionalPut(VersionFolder):
    """Publishes by one conditional put. A put that failed may still be carried out later by the network."""


@dataclass(frozen=True, slots=True)
class LocalLink(VersionFolder):
    """Publishes on a local disk by a hard link that never replaces. A link that failed is not made later."""

    fails_at_once: ClassVar[bool] = True


def _newer(one: ManifestLocation | None, other: ManifestLocation) -> ManifestLocation:
    if one is None:
        return other
    if one.naming is not other.naming:
        raise FormatError(
            f"{VERSIONS}/ has manifests of both naming schemes, {one.path} and {other.path}: lancecy.repair "
            "finishes a migration of the names that was interrupted"
        )
    return one if one.version >= other.version else other
