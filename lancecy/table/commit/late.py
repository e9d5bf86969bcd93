"""Finds out whether a version was published too late, under a number that had been used before.

::

    a slow writer                           others
    lists the versions: 4 is the newest
                                            publish 5, 6 and 7; a cleanup removes 4 and 5
    publishes 5, as there is no 5

Version 6 was not made from the slow writer's version 5, so no newer version has its change. It may also lack files:
those that only versions 4 and 5 needed are gone. It is removed, and the commit begins again.

A cleanup never removes the newest version, so a version that is the newest right after it was published is in time.
Otherwise there are three witnesses, the first of which counts:

========  ==================================================================================================
files     the newest version has a file that this one added: it is in time
dates     the storage wrote a newer version before this one: it is late
the next  the version with the next number has the change of this one, or would have it if it were made from it
========  ==================================================================================================
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property

from lancecy.errors import DatasetNotFoundError, LanceError, StoreError
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.commit.history import History
from lancecy.table.operations import Operation
from lancecy.table.operations.base import NewManifest
from lancecy.table.refs.files import pins
from lancecy.table.requests import Head, Pause, Steps, Wait, again
from lancecy.table.versions import ManifestLocation
from lancecy.table.wire.manifest_file import ManifestFile
from lancecy.table.wire.parts import Part, changed_fragments, files_of, settings_of

__all__ = ["Place", "Published", "place_of"]

# Operations that change the fragments that they name and nothing else, by the rows of the grid.
_GENTLE = frozenset(("append", "reserve", "delete", "update_rows", "rewrite"))
# Those of them that leave all indices as they are.
_KEEP_INDICES = frozenset(("append", "reserve"))
# Listings, if the version above is gone each time.
_LOOKS = 5
# Seconds in which a cleanup that removes one of several versions removes the others.
_SOON_S = 0.1


class Place(enum.Enum):
    """Where a version stands that was just published."""

    IN_TIME = "no newer version was there before it, or newer ones were made from it"
    LATE = "newer versions were made from another one of its number; it is removed"
    UNKNOWN = "newer versions lack its change, which others may have undone"


@dataclass(frozen=True)
class Published:
    """A version that was just published, and the one that it was made from.

    Attributes
    ----------
    location : ManifestLocation
    made : NewManifest
    base : ManifestFile or None
        The version that it was made from; None if it is the first one.
    dates_tell : bool
        Whether its manifest got its date as it was published. It may have got it before or after, if it was written
        first and published later, or was copied to its name once more.
    """

    location: ManifestLocation
    made: NewManifest
    base: ManifestFile | None
    dates_tell: bool

    @cached_property
    def before(self) -> set[Part]:
        """The files of the version that it was made from."""
        return set() if self.base is None else files_of(self.base.message, self.base.indices)

    @cached_property
    def added(self) -> set[Part]:
        """The files that it added."""
        return files_of(self.made.message, self.made.indices) - self.before

    @property
    def removed(self) -> set[Part]:
        """The files that it does not need any more."""
        return self.before - files_of(self.made.message, self.made.indices)


def place_of(published: Published, history: History) -> Steps[Place]:
    """Where a version stands that was just published; one that is late is removed.

    Parameters
    ----------
    published : Published
    history : History

    Raises
    ------
    LanceError
        The versions cannot be listed.
    """
    location = published.location
    newer = yield from _newer(location, history)
    if newer == []:
        return Place.IN_TIME
    place = Place.UNKNOWN
    with suppress(LanceError):
        place = yield from _among(newer, published, history)
    if place is Place.LATE:
        # One that stays is removed by a cleanup.
        with suppress(StoreError):
            yield from history.versions.remove((location.path,))
    if place is Place.UNKNOWN and (yield from _is_never_removed(published, history)):
        return Place.IN_TIME
    return place


def _newer(location: ManifestLocation, history: History) -> Steps[list[ManifestLocation] | None]:
    """The versions above one, oldest first; None if a cleanup removed them, and this one, while they were listed."""
    listed = yield from history.versions.versions(location.version - 1, history.naming)
    return [one for one in listed if one.version > location.version] if listed else None


def _among(newer: Sequence[ManifestLocation] | None, published: Published, history: History) -> Steps[Place]:
    """Where a version stands among newer ones, oldest first."""
    location = published.location
    for look in range(_LOOKS):
        if look:
            # Cleanups remove several versions at once, in any order.
            yield Pause(look - 1)
            newer = yield from _newer(location, history)
        if newer is None:
            continue
        if not newer:
            return Place.IN_TIME
        latest = yield from history.stored(newer[-1])
        if latest is None:
            continue
        if not published.added.isdisjoint(files_of(latest.message, latest.indices)):
            return Place.IN_TIME
        order = yield from _order(published, newer, history)
        if order is _Order.AFTER:
            return Place.LATE
        above = newer[0]
        stored = latest if above == newer[-1] else (yield from history.stored(above))
        if stored is None:
            continue
        if above.version == location.version + 1:
            theirs = yield from history.operation(stored)
            is_in = _is_in(published, stored, theirs)
            if is_in is None:
                return Place.IN_TIME if order is _Order.BEFORE else Place.UNKNOWN
            return Place.IN_TIME if is_in else Place.LATE
        if _is_in(published, stored, None):
            return Place.IN_TIME
        if look:
            # Cleanups remove the oldest version first: a version below a gap was published after the removal.
            return Place.LATE if order is _Order.SAME else Place.UNKNOWN
    return Place.UNKNOWN


def _is_in(published: Published, stored: ManifestFile, theirs: Operation | None) -> bool | None:
    """Whether a newer version was made from this one; None if that cannot be told.

    Parameters
    ----------
    published : Published
    stored : ManifestFile
        The newer version.
    theirs : Operation or None
        What made it of the version before; None if that is unknown, or if it is not the next one.
    """
    made, base = published.made.message, published.base
    there = files_of(stored.message, stored.indices)
    kinds = set() if theirs is None else {one.kind for one in theirs.footprints()}
    is_gentle = bool(kinds) and kinds <= _GENTLE
    if published.added:
        if not published.added.isdisjoint(there):
            return True
        has_indices = any(part[0] == "index" for part in published.added)
        changed = changed_fragments(made, None if base is None else base.message)
        is_kept = kinds <= _KEEP_INDICES if has_indices else _keeps(theirs, changed)
        return False if is_gentle and is_kept else None
    before = set() if base is None else settings_of(base.message)
    mine, now = settings_of(made), settings_of(stored.message)
    if mine != before:
        is_in = mine - before <= now and now.isdisjoint(before - mine)
        return True if is_in else False if is_gentle else None
    return False if is_gentle and not published.removed.isdisjoint(there) else None


def _keeps(theirs: Operation | None, changed: set[int]) -> bool:
    """Whether an operation leaves fragments as they are."""
    return theirs is not None and all(
        changed.isdisjoint(one.changed | one.rewritten) for one in theirs.footprints()
    )


class _Order(enum.Enum):
    """When the storage wrote a version, compared with newer ones."""

    BEFORE = "before all of them"
    SAME = "at the same time as one of them, as exactly as the storage dates its objects"
    AFTER = "after one of them"
    UNKNOWN = "it has no dates, or they do not tell"


def _order(published: Published, newer: Sequence[ManifestLocation], history: History) -> Steps[_Order]:
    # A manifest that is created under its name, or linked there, is written once: before anybody can read it.
    if not (published.dates_tell or history.versions.needs_conditional_put):
        return _Order.UNKNOWN
    mine = yield from _date(published.location, history)
    first = yield from _date(newer[0], history)
    last = first if len(newer) == 1 else (yield from _date(newer[-1], history))
    if mine is None or first is None or last is None:
        return _Order.UNKNOWN
    if mine > min(first, last):
        return _Order.AFTER
    if mine == min(first, last):
        return _Order.SAME
    return _Order.BEFORE if published.dates_tell else _Order.UNKNOWN


def _date(location: ManifestLocation, history: History) -> Steps[datetime | None]:
    try:
        meta: ObjectMeta = yield from again(Head(location.path))
    except DatasetNotFoundError:
        return None
    return meta.modified


def _is_never_removed(published: Published, history: History) -> Steps[bool]:
    """Whether no cleanup has removed a version of this number: it would have removed the version before too.

    It would not if a tag or a branch needs the version before. A branch does not see them: they are in the main table.
    """
    before = published.location.version - 1
    with suppress(LanceError):
        for look in range(2):
            if look:
                # Other cleanups than lancecy's remove versions in any order, and have soon removed all.
                yield Wait(_SOON_S)
            listed = yield from history.versions.versions(before - 1, history.naming)
            if all(one.version != before for one in listed):
                return False
        needed = yield from pins(history.limits)
        return before not in {pin.version for pin in needed if pin.branch is None}
    return False
