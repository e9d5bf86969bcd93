"""Finds out whether a version was published too late, under a number that had been used before.

::

    a slow writer                           others
    lists the versions: 4 is the newest
                                            publish 5, 6 and 7; a cleanup removes 4 and 5
    publishes 5, as there is no 5

Version 6 was not made from the slow writer's version 5, so no newer version has its change. It may also lack files:
those that only versions 4 and 5 needed are gone. It is removed, and the commit begins again.

A cleanup never removes the newest version, so a version that is the newest right after it was published is in time.
"""

from __future__ import annotations

import enum
from contextlib import suppress

from lancecy.errors import DatasetNotFoundError, StoreError
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.commit.history import History
from lancecy.table.operations import Operation
from lancecy.table.operations.base import NewManifest
from lancecy.table.requests import Head, Pause, Steps, again
from lancecy.table.versions import ManifestLocation
from lancecy.table.wire.manifest_file import ManifestFile
from lancecy.table.wire.parts import changed_fragments, parts_of

__all__ = ["Place", "place_of"]

# Operations that change the fragments that they name and nothing else, by the rows of the grid.
_GENTLE = frozenset(("append", "reserve", "delete", "update_rows", "rewrite"))
# Listings, if the version above is gone each time.
_LOOKS = 5


class Place(enum.Enum):
    """Where a version stands that was just published."""

    IN_TIME = "no newer version was there before it, or newer ones were made from it"
    LATE = "newer versions were made from another one of its number; it is removed"
    UNKNOWN = "newer versions lack its change, which others may have undone"


@dataclass(frozen=True)
class _Published:
    """A version that was just published, and the one that it was made from."""

    location: ManifestLocation
    made: NewManifest
    base: ManifestFile | None
    history: History


def place_of(
    location: ManifestLocation, made: NewManifest, base: ManifestFile | None, history: History
) -> Steps[Place]:
    """Where a version stands that was just published; one that is late is removed.

    Parameters
    ----------
    location : ManifestLocation
    made : NewManifest
    base : ManifestFile or None
        The version that it was made from; None if it is the first one.
    history : History
    """
    newest = yield from history.versions.latest()
    if newest is None or newest.version <= location.version:
        return Place.IN_TIME
    published = _Published(location, made, base, history)
    place = yield from _among_newer(published)
    if place is Place.LATE:
        # One that stays is removed by a cleanup.
        with suppress(StoreError):
            yield from history.versions.remove((location.path,))
    return place


def _among_newer(published: _Published) -> Steps[Place]:
    version, history = published.location.version, published.history
    for look in range(_LOOKS):
        listed = yield from history.versions.versions(version - 1, history.naming)
        above = next((one for one in listed if one.version > version), None)
        if above is None:
            return Place.IN_TIME
        stored = yield from history.stored(above)
        if stored is None:
            continue
        if _is_in(published, stored):
            return Place.IN_TIME
        if above.version == version + 1:
            theirs = yield from history.operation(stored)
            is_lost = theirs is not None and _keeps_all(theirs, published)
            return Place.LATE if is_lost else Place.IN_TIME
        if look == 0:
            # Cleanups remove several versions at once, in any order.
            yield Pause(look)
            continue
        # Whoever removes versions begins with the oldest, so one that stays below a gap came after the removal.
        is_there = any(one.version == version for one in listed)
        return Place.LATE if is_there and (yield from _is_younger(published, above)) else Place.UNKNOWN
    return Place.UNKNOWN


def _is_in(published: _Published, stored: ManifestFile) -> bool:
    """Whether a newer version has anything that this one added, or lacks all that this one only removed."""
    made, base = published.made, published.base
    mine, theirs = parts_of(made.message, made.indices), parts_of(stored.message, stored.indices)
    before = set() if base is None else parts_of(base.message, base.indices)
    added = mine - before
    return not added.isdisjoint(theirs) if added else theirs.isdisjoint(before - mine)


def _keeps_all(theirs: Operation, published: _Published) -> bool:
    """Whether an operation on top of a version leaves everything as the version has it that the version changed."""
    base = published.base
    changed = changed_fragments(published.made.message, None if base is None else base.message)
    return all(
        one.kind in _GENTLE and changed.isdisjoint(one.changed | one.rewritten) for one in theirs.footprints()
    )


def _is_younger(published: _Published, above: ManifestLocation) -> Steps[bool]:
    """Whether the storage wrote a version after a newer one; on a disk, whose files are dated earlier, nothing says no."""
    versions, tries = published.history.versions, published.history.tries
    if versions.fails_at_once:
        return True
    try:
        mine: ObjectMeta = yield from again(Head(published.location.path), tries)
        theirs: ObjectMeta = yield from again(Head(above.path), tries)
    except DatasetNotFoundError:
        return False
    return mine.modified is not None and theirs.modified is not None and mine.modified >= theirs.modified
