"""Reads the versions of a table and its branches, newest first, with their tags.

::

    list tags and branches  ->  list the versions of each branch  ->  read manifests from the newest on, up to the limit
        ->  order them by time, each before those that it was made from

What is damaged is named, and does not hide the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from lancecy.changes.history_graph import GraphVersion, HistoryGraph
from lancecy.changes.lineage import main_of
from lancecy.changes.log import Made, log_entry
from lancecy.changes.transactions import read_version
from lancecy.errors import DatasetNotFoundError, LanceError, StoreError, printable
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.commit.driver import drive
from lancecy.table.location import TableLocation
from lancecy.table.refs import MAIN, Branch, Tag
from lancecy.table.refs.names import branch_of
from lancecy.table.refs.places import branch_location
from lancecy.table.refs.readable import ReadableRefs, refs_that_can_be_read
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import ManifestLocation, locate, version_store

__all__ = ["history_graph"]

# Branches that are shown: each costs a listing, and the reading of manifests.
_MOST_BRANCHES = 32
# Manifests of all branches that are read side by side, where each costs a request.
_TOGETHER = 32


def history_graph(snapshot: Snapshot, limit: int) -> HistoryGraph:
    """The history of a table with its branches and tags; see :meth:`lancecy.Dataset.history_graph`.

    Parameters
    ----------
    snapshot : Snapshot
        Any version of the table or of a branch.
    limit : int
        At most so many versions.

    Raises
    ------
    StoreError
        The storage failed.
    UnsupportedError
        The branch was moved without its main table.
    """
    main, session = main_of(snapshot), snapshot.session
    refs = drive(refs_that_can_be_read(main.limits), main.open(session), session, main)
    shown, problems = _chosen(refs)

    def line(item: tuple[str, Branch | None]) -> _Line | str:
        return _line(main, *item, session)

    found = session.map(line, shown.items(), blocking=not snapshot.store.traits.is_mapped)
    lines = [each for each in found if isinstance(each, _Line)]
    problems += [each for each in found if isinstance(each, str)]
    problems += _dangling(refs, {line.name: line for line in lines})
    versions = [*islice(_ordered(lines, _by_version(refs.tags)), limit)]
    total = sum(len(line.found) for line in lines)
    return HistoryGraph(main.uri, tuple(versions), len(versions) == total, tuple(problems))


def _chosen(refs: ReadableRefs) -> tuple[dict[str, Branch | None], list[str]]:
    """The branches that are shown, the main one first, and what is said of the others."""
    newest = sorted(refs.branches.items(), key=lambda item: (-item[1].created_s, item[0]))
    shown: dict[str, Branch | None] = {MAIN: None, **dict(newest[:_MOST_BRANCHES])}
    problems = [*refs.damaged.values()]
    if len(newest) > _MOST_BRANCHES:
        problems.append(f"{len(newest) - _MOST_BRANCHES:,} branches that were made earlier are not shown")
    return shown, problems


@dataclass(frozen=True, slots=True)
class _Line:
    """A branch and its versions, newest first."""

    name: str
    start: tuple[str, int] | None
    store: Store
    session: Session
    found: list[ManifestLocation]

    def has(self, version: int) -> bool:
        return any(location.version == version for location in self.found)


def _line(main: TableLocation, name: str, branch: Branch | None, session: Session) -> _Line | str:
    """The versions of a branch, or why there are none."""
    place = branch_location(main, None if branch is None else name)
    start = None if branch is None else (branch.parent or MAIN, branch.parent_version)
    try:
        store = place.open(session)
        return _Line(name, start, store, session, locate.locations(store, version_store(store)))
    except StoreError:
        raise
    except LanceError as error:
        return f"branch {printable(name)} cannot be read: {error}"


def _by_version(tags: Mapping[str, Tag]) -> dict[tuple[str, int], list[str]]:
    """Names of the tags of each version."""
    found: dict[tuple[str, int], list[str]] = {}
    for name, tag in tags.items():
        found.setdefault((tag.branch or MAIN, tag.version), []).append(name)
    return found


def _dangling(refs: ReadableRefs, lines: Mapping[str, _Line]) -> list[str]:
    """What is said of tags whose version is not there."""
    unknown = {*refs.branches, *map(branch_of, refs.damaged)}.difference(lines)
    problems = []
    for (branch, version), names in _by_version(refs.tags).items():
        line = lines.get(branch)
        if branch not in unknown and (line is None or not line.has(version)):
            told = ", ".join(map(printable, names))
            problems.append(f"tag {told} names version {version} of {printable(branch)}, which is not there")
    return problems


def _ordered(lines: list[_Line], tags: Mapping[tuple[str, int], list[str]]) -> Iterator[GraphVersion]:
    """The versions of all branches, newest first, and each after those that were made from it."""
    known = {line.name: line for line in lines}
    # Branches that start from a version, and of which older versions are still to come.
    above: dict[tuple[str, int], set[str]] = {}
    for line in lines:
        if line.start is not None:
            above.setdefault(line.start, set()).add(line.name)
    together = max(2, _TOGETHER // max(1, len(lines)))
    left = {line.name: _versions(line, known, tags, together) for line in lines}
    heads = {name: next(versions) for name, versions in left.items()}
    while heads:
        # All are waiting for each other only if branches start from one another, by files that are damaged.
        ready = [head for head in heads.values() if not above.get((head.branch, head.version))]
        head = max(ready or heads.values(), key=_time)
        yield head
        following = next(left[head.branch], None)
        if following is not None:
            heads[head.branch] = following
            continue
        del heads[head.branch]
        start = known[head.branch].start
        if start is not None:
            above[start].discard(head.branch)


def _time(version: GraphVersion) -> datetime:
    # Where a time is not known, the version comes as soon as it can.
    time = None if version.entry is None else version.entry.timestamp
    return time or datetime.max.replace(tzinfo=UTC)


def _versions(
    line: _Line, known: Mapping[str, _Line], tags: Mapping[tuple[str, int], list[str]], together: int
) -> Iterator[GraphVersion]:
    """The versions of one branch, newest first; manifests are read as they are needed."""
    read = _read(line, together)
    after, last = next(read), line.found[-1].version
    for location in line.found:
        before = next(read, None)
        start = line.start if location.version == last else None
        version = GraphVersion(
            line.name,
            location.version,
            tuple(tags.get((line.name, location.version), ())),
            is_newest=location is line.found[0],
            is_oldest=location.version == last,
            start=start,
            is_joined=start is not None and start[0] in known and known[start[0]].has(start[1]),
        )
        if isinstance(after, str):
            yield replace(version, damage=after)
        else:
            older = before[0] if isinstance(before, tuple) else None
            yield replace(version, entry=log_entry(line.store.uri, older, *after))
        if before is not None:
            after = before


def _read(line: _Line, together: int) -> Iterator[Made | str]:
    """The manifests of a branch, or why they cannot be read."""
    store, limits, left = line.store, line.session.limits, iter(line.found)

    def made(location: ManifestLocation) -> Made | str:
        try:
            return read_version(store, location, limits)
        except DatasetNotFoundError as error:
            return str(error)
        except StoreError:
            raise
        except LanceError as error:
            return str(error)

    while some := list(islice(left, together)):
        yield from line.session.map(made, some, blocking=not store.traits.is_mapped)
