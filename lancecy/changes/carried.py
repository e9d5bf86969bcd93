"""Row ids and row versions that rows keep when a compaction moves them to new fragments.

Facts: table sheet, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.table.manifest import Fragment
from lancecy.table.rows.row_ids import (
    ArraySegment,
    HolesSegment,
    RangeSegment,
    RowIdSequence,
    Segment,
    VersionSequence,
)
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.row_ids import encode_row_ids, encode_versions
from lancecy.write.metadata import FragmentMetadata

__all__ = ["carried", "sequence_of", "versions_of"]

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]


def carried(
    snapshot: Snapshot, old: Sequence[Fragment], new: Sequence[FragmentMetadata]
) -> tuple[FragmentMetadata, ...]:
    """New fragments with the row ids and versions of their rows; unchanged in a table without stable row ids.

    Parameters
    ----------
    snapshot : Snapshot
    old : sequence of Fragment
        Fragments of the snapshot.
    new : sequence of FragmentMetadata
        Their live rows, in order.

    Raises
    ------
    FormatError
        A fragment of the snapshot has no row ids, or too few; or the rows of old and new fragments differ.
    """
    if not snapshot.manifest.has_stable_row_ids:
        return tuple(new)
    counts = [part.physical_rows or 0 for part in new]
    live = [_live(snapshot, part) for part in old]
    if sum(map(len, live)) != sum(counts):
        raise FormatError(f"{sum(counts)} rows were written, where {sum(map(len, live))} are alive")
    ids = _cut((_ids(snapshot, part, rows) for part, rows in zip(old, live, strict=True)), counts)
    made = _cut((_created(snapshot, part, rows) for part, rows in zip(old, live, strict=True)), counts)
    changed = _cut((_updated(snapshot, part, rows) for part, rows in zip(old, live, strict=True)), counts)
    return tuple(
        replace(
            part,
            row_ids=encode_row_ids(sequence_of(mine)),
            created_at_versions=encode_versions(versions_of(first)),
            last_updated_versions=encode_versions(versions_of(last)),
        )
        for part, mine, first, last in zip(new, ids, made, changed, strict=True)
    )


def sequence_of(parts: Iterable[UInt64]) -> RowIdSequence:
    """Row ids as a sequence: each part becomes a range, a range with holes or an array, whichever is smallest.

    Parameters
    ----------
    parts : iterable of (num_rows,) uint64
        The ids, in the order of the rows.

    Examples
    --------
    >>> sequence_of([np.array([3, 4], np.uint64), np.array([5, 6], np.uint64)]).segments
    (RangeSegment(start=3, stop=7),)
    """
    segments: list[Segment] = []
    for ids in parts:
        if not ids.size:
            continue
        found = _segment(ids)
        last = segments[-1] if segments else None
        if isinstance(found, RangeSegment) and isinstance(last, RangeSegment) and last.stop == found.start:
            segments[-1] = RangeSegment(last.start, found.stop)
        else:
            segments.append(found)
    starts = np.concatenate(([0], np.cumsum([segment.count for segment in segments], dtype=np.int64)))
    return RowIdSequence(tuple(segments), starts.astype(np.int64))


def _segment(ids: UInt64) -> Segment:
    first, last = int(ids[0]), int(ids[-1])
    ascends = bool((ids[1:] > ids[:-1]).all())
    if ascends and last - first + 1 == ids.size:
        return RangeSegment(first, last + 1)
    if ascends and last - first + 1 - ids.size < ids.size:
        offsets = (ids - np.uint64(first)).astype(np.int64)
        # Each hole comes after as many ids as there are before the id that follows it.
        ranks = np.repeat(np.arange(1, ids.size, dtype=np.int64), np.diff(offsets) - 1)
        return HolesSegment(first, last + 1, ranks)
    least = int(ids.min())
    return ArraySegment(least, ids - np.uint64(least))


def versions_of(parts: Iterable[UInt64]) -> VersionSequence:
    """Row versions as runs.

    Parameters
    ----------
    parts : iterable of (num_rows,) uint64
        The version of each row, in order.

    Examples
    --------
    >>> versions_of([np.array([1, 1], np.uint64), np.array([1, 4], np.uint64)]).versions
    array([1, 4], dtype=uint64)
    """
    found = list(parts)
    versions = np.concatenate(found) if found else np.empty(0, np.uint64)
    firsts = np.flatnonzero(versions[1:] != versions[:-1]) + 1
    firsts = np.concatenate(([0], firsts)).astype(np.int64)[: versions.size]
    return VersionSequence(np.append(firsts, versions.size), versions[firsts])


def _live(snapshot: Snapshot, fragment: Fragment) -> Int64:
    """(num_live,) int64: physical offsets of the rows that are not deleted."""
    rows = np.arange(fragment.physical_rows or 0, dtype=np.int64)
    deleted = snapshot.deletions(fragment)
    return rows if deleted is None else np.delete(rows, deleted.offsets)


def _ids(snapshot: Snapshot, fragment: Fragment, rows: Int64) -> UInt64:
    sequence = snapshot.row_ids(fragment)
    if sequence is None:
        raise FormatError(f"fragment {fragment.id} of a table with stable row ids has no row ids")
    return sequence.take(rows)


def _created(snapshot: Snapshot, fragment: Fragment, rows: Int64) -> UInt64:
    return _taken(snapshot.created_versions(fragment), fragment, rows)


def _updated(snapshot: Snapshot, fragment: Fragment, rows: Int64) -> UInt64:
    return _taken(snapshot.updated_versions(fragment), fragment, rows)


def _taken(versions: VersionSequence | None, fragment: Fragment, rows: Int64) -> UInt64:
    if versions is None:
        raise FormatError(f"fragment {fragment.id} does not say how many rows it has")
    return versions.take(rows)


def _cut(parts: Iterable[UInt64], counts: Sequence[int]) -> list[list[UInt64]]:
    """The values of each new fragment, in pieces."""
    result: list[list[UInt64]] = [[] for _ in counts]
    number, room = 0, counts[0] if counts else 0
    for part in parts:
        while part.size:
            while not room:
                number += 1
                room = counts[number]
            taken = part[:room]
            result[number].append(taken)
            room -= taken.size
            part = part[taken.size :]
    return result
