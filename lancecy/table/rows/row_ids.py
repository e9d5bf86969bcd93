"""Stable row ids and row versions of a fragment, as compact sequences.

A :class:`RowIdSequence` is a list of segments, each a range, a range with holes or an array;
only requested rows are expanded. Rows are addressed by their physical offset, so deleted rows keep
their place. :func:`row_ids` returns the ids in a table with stable ones, else the row addresses.

Facts: table sheet, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.kernels.sorting import sorted_order
from lancecy.records import dataclass
from lancecy.table.manifest import Fragment, Manifest

__all__ = [
    "ArraySegment",
    "HolesSegment",
    "RangeSegment",
    "RowIdSequence",
    "Segment",
    "VersionSequence",
    "renumbered",
    "renumbered_version",
    "row_ids",
]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

# Ids are stored as ranges down to this mean length; a range takes about as much as this many numbers.
_ROWS_PER_RANGE = 8
# Segments of fewer rows are joined with their neighbours, so that a fragment made of many small ones has few of
# them; at most so many rows are expanded for that.
_FEW_ROWS, _JOINED_ROWS = 4096, 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class RangeSegment:
    """The numbers ``start .. stop - 1``."""

    start: int
    stop: int

    @property
    def count(self) -> int:
        """Numbers in it."""
        return self.stop - self.start

    @property
    def span(self) -> tuple[int, int]:
        """Its smallest and largest number; it must not be empty."""
        return self.start, self.stop - 1

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory, roughly."""
        return 64

    def take(self, positions: Int64) -> UInt64:
        """The numbers at these positions."""
        return positions.astype(np.uint64) + np.uint64(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class HolesSegment:
    """The numbers ``start .. stop - 1`` without some.

    Attributes
    ----------
    start, stop : int
    ranks : (num_holes,) int64, ascending
        Count of the segment's numbers before each hole.
    """

    start: int
    stop: int
    ranks: Int64

    @property
    def count(self) -> int:
        """Numbers in it."""
        return self.stop - self.start - int(self.ranks.size)

    @property
    def span(self) -> tuple[int, int]:
        """Bounds of its numbers, not necessarily tight."""
        return self.start, self.stop - 1

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory, roughly."""
        return 64 + int(self.ranks.nbytes)

    def take(self, positions: Int64) -> UInt64:
        """The numbers at these positions."""
        skipped = np.searchsorted(self.ranks, positions, side="right")
        return (positions + skipped).astype(np.uint64) + np.uint64(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class ArraySegment:
    """Any numbers: ``base`` plus each of ``offsets`` ((count,) uint16, uint32 or uint64)."""

    base: int
    offsets: NDArray[np.unsignedinteger]

    @property
    def count(self) -> int:
        """Numbers in it."""
        return int(self.offsets.size)

    @property
    def span(self) -> tuple[int, int]:
        """Its smallest and largest number; it must not be empty."""
        return self.base + int(self.offsets.min()), self.base + int(self.offsets.max())

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory, roughly."""
        return 64 + int(self.offsets.nbytes)

    def take(self, positions: Int64) -> UInt64:
        """The numbers at these positions."""
        return self.offsets[positions].astype(np.uint64) + np.uint64(self.base)


Segment: TypeAlias = RangeSegment | HolesSegment | ArraySegment


@dataclass(frozen=True, eq=False)
class RowIdSequence:
    """The stable row ids of a fragment, in the order of its physical rows.

    Attributes
    ----------
    segments : tuple of Segment
    starts : (num_segments + 1,) int64, ascending, first is 0
        Row offset at which each segment starts, then the number of rows.
    """

    segments: tuple[Segment, ...]
    starts: Int64

    @classmethod
    def of(cls, ids: UInt64) -> RowIdSequence:
        """The sequence of these ids: few ranges, a range with holes, or an array, whichever is smallest.

        Parameters
        ----------
        ids : (num_rows,) uint64

        Examples
        --------
        >>> RowIdSequence.of(np.append(np.arange(20, 30), np.arange(10)).astype(np.uint64)).segments
        (RangeSegment(start=20, stop=30), RangeSegment(start=0, stop=10))
        """
        if not ids.size:
            return cls((), np.zeros(1, np.int64))
        breaks = np.flatnonzero(ids[1:] != ids[:-1] + np.uint64(1)) + 1
        if breaks.size <= ids.size // _ROWS_PER_RANGE and not _has_small_holes(ids, breaks):
            starts = np.concatenate(([0], breaks, [ids.size])).astype(np.int64)
            spans = zip(ids[starts[:-1]].tolist(), np.diff(starts).tolist(), strict=True)
            return cls(tuple(RangeSegment(low, low + count) for low, count in spans), starts)
        return cls((_one_segment(ids),), np.array([0, ids.size], np.int64))

    @classmethod
    def joined(cls, parts: Sequence[RowIdSequence]) -> RowIdSequence:
        """The ids of several sequences, one after the other.

        Ranges that continue each other are one, and so are neighbours of few rows.

        Parameters
        ----------
        parts : sequence of RowIdSequence

        Examples
        --------
        >>> parts = [RowIdSequence.of(np.arange(*ends, dtype=np.uint64)) for ends in ((3, 20), (20, 30))]
        >>> RowIdSequence.joined(parts).segments
        (RangeSegment(start=3, stop=30),)
        """
        segments = _continued(segment for part in parts for segment in part.segments)
        found = tuple(_without_small(segments))
        counts = [0, *(segment.count for segment in found)]
        return cls(found, np.cumsum(counts, dtype=np.int64))

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory, roughly."""
        return int(self.starts.nbytes) + sum(segment.nbytes for segment in self.segments)

    @cached_property
    def spans(self) -> tuple[UInt64, UInt64]:
        """(lows, highs): bounds of the numbers of each segment, (num_segments,) uint64 each.

        The low of an empty segment is above its high.
        """
        found = [segment.span if segment.count else (1, 0) for segment in self.segments]
        lows, highs = (np.array([span[i] for span in found], np.uint64) for i in range(2))
        return lows, highs

    def ids(self, start: int, stop: int) -> UInt64:
        """The ids of rows ``start .. stop - 1``: (n,) uint64, fresh memory.

        Examples
        --------
        >>> RowIdSequence((RangeSegment(7, 9), RangeSegment(100, 103)), np.array([0, 2, 5])).ids(1, 4)
        array([  8, 100, 101], dtype=uint64)
        """
        return self.take(np.arange(max(0, start), min(stop, len(self)), dtype=np.int64))

    def take(self, offsets: Int64) -> UInt64:
        """The ids of the rows at these offsets, in their order: (num_offsets,) uint64, fresh memory.

        Raises
        ------
        FormatError
            A row has no id: the sequence is shorter than the fragment.
        """
        if offsets.size == 0:
            return np.empty(0, np.uint64)
        if int(offsets.max()) >= len(self) or int(offsets.min()) < 0:
            raise FormatError(f"{len(self)} row ids for a fragment with a row {int(offsets.max())}")
        if len(self.segments) == 1:
            return self.segments[0].take(offsets)
        which = np.searchsorted(self.starts, offsets, side="right") - 1
        ascends = bool((which[1:] >= which[:-1]).all())
        order = None if ascends else sorted_order(which)
        if order is not None:
            which, offsets = which[order], offsets[order]
        result = np.empty(offsets.size, np.uint64)
        bounds = [*np.flatnonzero(np.diff(which, prepend=-1)).tolist(), offsets.size]
        for start, stop in pairwise(bounds):
            index = int(which[start])
            rows = slice(start, stop) if order is None else order[start:stop]
            result[rows] = self.segments[index].take(offsets[start:stop] - self.starts[index])
        return result


@dataclass(frozen=True, slots=True, eq=False)
class VersionSequence:
    """A version per row of a fragment, as runs.

    Attributes
    ----------
    starts : (num_runs + 1,) int64, ascending, first is 0
        Row offset at which each run starts, then the number of rows.
    versions : (num_runs,) uint64
    """

    starts: Int64
    versions: UInt64

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory, roughly."""
        return int(self.starts.nbytes + self.versions.nbytes)

    @classmethod
    def constant(cls, version: int, num_rows: int) -> VersionSequence:
        """The same version for every row."""
        return cls(np.array([0, num_rows], np.int64), np.array([version], np.uint64))

    @classmethod
    def of(cls, versions: UInt64) -> VersionSequence:
        """The sequence of these versions, one for each row: (num_rows,) uint64.

        Examples
        --------
        >>> VersionSequence.of(np.array([4, 4, 2], np.uint64)).starts
        array([0, 2, 3])
        """
        firsts = np.flatnonzero(versions[1:] != versions[:-1]) + 1
        starts = np.concatenate(([0], firsts)) if versions.size else np.empty(0, np.int64)
        return cls(np.append(starts, versions.size).astype(np.int64), versions[starts])

    @classmethod
    def joined(cls, parts: Sequence[VersionSequence]) -> VersionSequence:
        """The versions of several sequences, one after the other; runs that continue each other are one.

        Parameters
        ----------
        parts : sequence of VersionSequence

        Examples
        --------
        >>> VersionSequence.joined([VersionSequence.constant(4, 2), VersionSequence.constant(4, 3)]).starts
        array([0, 5])
        """
        versions = np.concatenate([np.empty(0, np.uint64), *(part.versions for part in parts)])
        counts = np.concatenate([np.empty(0, np.int64), *(np.diff(part.starts) for part in parts)])
        versions, counts = versions[counts > 0], counts[counts > 0]
        is_first = np.ones(versions.size, np.bool_)
        is_first[1:] = versions[1:] != versions[:-1]
        starts = (np.cumsum(counts) - counts)[is_first]
        return cls(np.append(starts, counts.sum()).astype(np.int64), versions[is_first])

    def between(self, start: int, stop: int) -> UInt64:
        """The versions of rows ``start .. stop - 1``: (n,) uint64, fresh memory.

        Examples
        --------
        >>> VersionSequence(np.array([0, 2, 5]), np.array([1, 4], np.uint64)).between(1, 4)
        array([1, 4, 4], dtype=uint64)
        """
        return self.take(np.arange(max(0, start), min(stop, len(self)), dtype=np.int64))

    def take(self, offsets: Int64) -> UInt64:
        """The versions of the rows at these offsets, in their order: (num_offsets,) uint64.

        Raises
        ------
        FormatError
            A row has no version: the sequence is shorter than the fragment.
        """
        if offsets.size and (int(offsets.max()) >= len(self) or int(offsets.min()) < 0):
            raise FormatError(f"{len(self)} row versions for a fragment with a row {int(offsets.max())}")
        return self.versions[np.searchsorted(self.starts, offsets, side="right") - 1]


def _continued(segments: Iterable[Segment]) -> list[Segment]:
    """Segments, with ranges that continue each other as one."""
    found: list[Segment] = []
    for segment in segments:
        last = found[-1] if found else None
        if (
            isinstance(last, RangeSegment)
            and isinstance(segment, RangeSegment)
            and last.stop == segment.start
        ):
            found[-1] = RangeSegment(last.start, segment.stop)
        else:
            found.append(segment)
    return found


def _without_small(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Segments, with neighbours of few rows joined."""
    small: list[Segment] = []
    rows = 0
    for segment in segments:
        is_small = segment.count < _FEW_ROWS
        if not is_small or rows + segment.count > _JOINED_ROWS:
            yield from _as_few(small)
            small, rows = [], 0
        if is_small:
            small.append(segment)
            rows += segment.count
        else:
            yield segment
    yield from _as_few(small)


def _as_few(segments: Sequence[Segment]) -> Sequence[Segment]:
    """The numbers of several segments in as few as fit them."""
    if len(segments) < 2:
        return segments
    ids = [segment.take(np.arange(segment.count, dtype=np.int64)) for segment in segments]
    return RowIdSequence.of(np.concatenate(ids)).segments


def _has_small_holes(ids: UInt64, breaks: Int64) -> bool:
    """Whether ids ascend, and the numbers missing in them take less than ranges between them."""
    if breaks.size < 2 or not bool((ids[breaks] > ids[breaks - 1]).all()):
        return False
    missing = int(ids[-1]) - int(ids[0]) + 1 - ids.size
    return missing <= min(breaks.size * _ROWS_PER_RANGE, ids.size // 2)


def _one_segment(ids: UInt64) -> Segment:
    low, high = int(ids.min()), int(ids.max())
    missing = high - low + 1 - ids.size
    if missing * 2 < ids.size and bool((ids[1:] > ids[:-1]).all()):
        present = (ids - np.uint64(low)).astype(np.int64)
        # A hole follows the last number before it.
        gaps = np.diff(present, prepend=-1) - 1
        return HolesSegment(low, high + 1, np.repeat(np.arange(ids.size), gaps))
    return ArraySegment(low, (ids - np.uint64(low)).astype(np.min_scalar_type(max(high - low, 1 << 8))))


class HasRowIds(Protocol):
    """The part of a snapshot that :func:`row_ids` uses."""

    @property
    def manifest(self) -> Manifest: ...

    def row_ids(self, fragment: Fragment) -> RowIdSequence | None:
        """The fragment's sequence, None without one."""


def row_ids(snapshot: HasRowIds, fragment: Fragment, offsets: Int64, addresses: UInt64) -> UInt64:
    """Row ids of some rows of a fragment.

    Parameters
    ----------
    snapshot : Snapshot
    fragment : Fragment
    offsets : (num_rows,) int64
        Physical row offsets, in any order.
    addresses : (num_rows,) uint64
        Row addresses of the rows, which are the ids in tables without stable ones.

    Returns
    -------
    (num_rows,) uint64

    Raises
    ------
    FormatError
        The table has stable row ids, but this fragment has none or too few.

    Source: table sheet, section 3.2.
    """
    if not snapshot.manifest.has_stable_row_ids:
        return addresses
    sequence = snapshot.row_ids(fragment)
    if sequence is None:
        raise FormatError(f"fragment {fragment.id} of a table with stable row ids has no row ids")
    return sequence.take(offsets)


def renumbered(versions: UInt64, steps: Sequence[tuple[int, int]]) -> UInt64:
    """Versions of rows of one branch in the numbers of another.

    Parameters
    ----------
    versions : (n,) uint64
    steps : sequence of (int, int)
        Ascending pairs of versions with the same content, here and there; the first pair has one number. A version
        above one pair, up to the next one, becomes the second number of that. Earlier ones stay. Empty to keep all.

    Examples
    --------
    >>> renumbered(np.array([1, 3, 4, 6], np.uint64), [(3, 3), (5, 4), (7, 5)])
    array([1, 3, 4, 5], dtype=uint64)
    """
    if not steps:
        return versions
    here, there = (np.array(column, np.uint64) for column in zip(*steps, strict=True))
    place = np.minimum(np.searchsorted(here, versions), here.size - 1)
    return np.where(place == 0, np.minimum(versions, there[0]), there[place])


def renumbered_version(version: int, steps: Sequence[tuple[int, int]]) -> int:
    """One version, as by :func:`renumbered`."""
    return int(renumbered(np.array([version], np.uint64), steps)[0])
