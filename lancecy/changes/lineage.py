"""Where versions of one table come from: its main branch, the branches, and the last state that two versions share.

A version on a branch has a line: the versions at which its branches start, from the main one on, then its own number.
Two lines share their versions up to the point where they part. A fast-forward joins them again: the parent's version is
then a copy of the branch's one, under another number.

Facts: table sheet, sections 6.1 and 6.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from lancecy.changes.transactions import read_operation
from lancecy.errors import FormatError, LanceError, printable
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass
from lancecy.scanning.changed_rows import CommonPoint
from lancecy.table.commit.driver import drive
from lancecy.table.location import TableLocation
from lancecy.table.operations.fast_forward import FAST_FORWARD
from lancecy.table.paths import DETACHED
from lancecy.table.refs import BRANCHES
from lancecy.table.refs.files import read_branch
from lancecy.table.refs.opening import unknown_branch
from lancecy.table.refs.places import main_location
from lancecy.table.refs.reference import Reference
from lancecy.table.snapshot import Snapshot, load_reference
from lancecy.table.versions import locate

__all__ = [
    "BranchStart",
    "FastForwarded",
    "Shared",
    "branch_start",
    "fast_forwards",
    "main_of",
    "open_at",
    "shared_by",
]


def main_of(snapshot: Snapshot) -> TableLocation:
    """The location of the main table, which has the tags and branches (raises as ``refs.places.main_location``)."""
    return main_location(snapshot.location, snapshot.manifest.branch)


def open_at(snapshot: Snapshot, reference: Reference) -> Snapshot:
    """The version that a reference names, as seen from another version (raises as ``load_reference``)."""
    return load_reference(snapshot.location, snapshot.manifest.branch, reference, snapshot.session)


@dataclass(frozen=True, slots=True)
class BranchStart:
    """The version that a branch was made from.

    Attributes
    ----------
    parent : str or None
        Branch of the version; None for the main one.
    version : int
    id : str
        Distinguishes branches that had one name one after the other.
    """

    parent: str | None
    version: int
    id: str


def branch_start(snapshot: Snapshot, branch: str) -> BranchStart:
    """The version that a branch was made from.

    Parameters
    ----------
    snapshot : Snapshot
        Any version of the table.
    branch : str

    Raises
    ------
    NotFoundError
        The table has no such branch.
    FormatError
        Its file is damaged.
    """
    main, session = main_of(snapshot), snapshot.session
    stored = drive(read_branch(branch, snapshot.limits), main.open(session), session, main)
    if stored is None:
        raise unknown_branch(main, branch, session)
    # Branches of old releases have no id, but a time.
    unique = stored.lineage[-1][1] if stored.lineage else str(stored.created_s)
    return BranchStart(stored.parent, stored.parent_version, unique)


@dataclass(frozen=True, slots=True)
class FastForwarded:
    """What a fast-forward records in the version that it makes.

    Attributes
    ----------
    branch : str
    id : str
        Of the branch (:class:`BranchStart`).
    steps : tuple of (int, int)
        Versions of the branch, and the versions of the target that have the same content: the start of the branch
        first, this fast-forward last.
    """

    branch: str
    id: str
    steps: tuple[tuple[int, int], ...]

    def to_text(self) -> str:
        """The value of the transaction property."""
        return json.dumps(
            {"branch": self.branch, "id": self.id, "versions": [list(step) for step in self.steps]}
        )

    @classmethod
    def of(cls, text: str | None) -> FastForwarded | None:
        """The record in the value of a transaction property; None if there is none, or it is damaged."""
        try:
            found = json.loads(text or "null")
            steps = tuple(
                (whole_number("version", a), whole_number("version", b)) for a, b in found["versions"]
            )
            record = cls(str(found["branch"]), str(found["id"]), steps)
        except (ValueError, TypeError, KeyError, LanceError):
            return None
        grows = all(a < c and b < d for (a, b), (c, d) in pairwise(steps))
        return record if len(steps) > 1 and grows and min(steps[0]) > 0 else None


def fast_forwards(snapshot: Snapshot, after: int, until: int) -> Iterator[FastForwarded]:
    """The fast-forwards among some versions of a branch, the newest first; versions that cannot be read are left out.

    Parameters
    ----------
    snapshot : Snapshot
        Any version of the branch.
    after, until : int
        The first version is left out, the last one is not.
    """
    store, limits = snapshot.store, snapshot.limits
    for location in locate.locations(store, snapshot.versions):
        if after < location.version <= until:
            try:
                made = read_operation(store, location, limits)
            except FormatError:
                continue
            found = None if made is None else FastForwarded.of(made.properties.get(FAST_FORWARD))
            if found is not None and found.steps[-1][1] == location.version:
                yield found


@dataclass(frozen=True, slots=True)
class _Station:
    """A branch on a line, and the last of its versions there."""

    branch: str | None
    version: int
    id: str = ""


def _line(snapshot: Snapshot) -> list[_Station]:
    """The branches that a version comes from, the main one first."""
    branch, version = snapshot.manifest.branch, _last_of_history(snapshot)
    found: list[_Station] = []
    while branch is not None:
        start = branch_start(snapshot, branch)
        found.append(_Station(branch, version, start.id))
        if any(station.branch == start.parent for station in found):
            raise FormatError(f"branch {printable(branch)!r} comes from itself, by its file in {BRANCHES}")
        branch, version = start.parent, start.version
    return [_Station(None, version), *reversed(found)]


def _last_of_history(snapshot: Snapshot) -> int:
    """The version itself; for a detached one the version of the history that it was made from."""
    version = snapshot.version
    while version >= DETACHED:
        found = locate.at_version(snapshot.store, version, snapshot.versions)
        made = read_operation(snapshot.store, found, snapshot.limits)
        if made is None or made.read_version == version:
            raise FormatError(f"detached version {version} does not tell from which version it was made")
        version = made.read_version
    return version


@dataclass(frozen=True, slots=True)
class Shared:
    """The last state that two versions have in common.

    Attributes
    ----------
    snapshot : Snapshot
        A version with this state.
    point : CommonPoint
    """

    snapshot: Snapshot
    point: CommonPoint


def shared_by(old: Snapshot, new: Snapshot) -> Shared:
    """The last state that two versions of a table have in common.

    Parameters
    ----------
    old, new : Snapshot
        On any branches, in any order.

    Raises
    ------
    ValueError
        They are not of one table.
    NotFoundError
        That state, or a branch between, was removed.
    UnsupportedError
        A branch is not in a folder of its table.
    """
    if main_of(old).uri != main_of(new).uri:
        raise ValueError(f"{old.uri} and {new.uri} are not branches of one table, and cannot be compared")
    mine, theirs = _line(old), _line(new)
    last = max(
        place
        for place, pair in enumerate(zip(mine, theirs, strict=False))
        if all(a.branch == b.branch for a, b in zip(mine[: place + 1], theirs[: place + 1], strict=True))
    )
    version = min(mine[last].version, theirs[last].version)
    joined = _joined(old, mine, theirs, last, version) or _joined(new, theirs, mine, last, version)
    branch = mine[last].branch
    if joined is None:
        found = open_at(old, (branch, version))
        return Shared(found, _point(found, version, version, ()))
    found = open_at(old, (branch, joined.steps[-1][1]))
    here, there = joined.steps[-1][1], joined.steps[-1][0]
    if mine[last + 1 :] and mine[last + 1].branch == joined.branch:
        point = _point(found, there, here, joined.steps)
    else:
        point = replace(_point(found, here, there, ()), new_steps=joined.steps)
    return Shared(found, point)


def _joined(
    snapshot: Snapshot, parent: Sequence[_Station], child: Sequence[_Station], last: int, version: int
) -> FastForwarded | None:
    """The last fast-forward of the child's branch into the parent's one that both lines have."""
    here = parent[last]
    if len(child) <= last + 1 or here.version <= version:
        return None
    source = child[last + 1]
    try:
        tip = open_at(snapshot, (here.branch, here.version))
    except LanceError:
        return None
    for found in fast_forwards(tip, version, here.version):
        if (found.branch, found.id) == (source.branch, source.id) and found.steps[-1][0] <= source.version:
            return found
    return None


def _point(snapshot: Snapshot, old: int, new: int, old_steps: tuple[tuple[int, int], ...]) -> CommonPoint:
    manifest = snapshot.manifest
    ids = [fragment.id for fragment in manifest.fragments]
    given = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
    largest = max([given, *ids])
    return CommonPoint(old, new, manifest.next_row_id, largest, old_steps)
