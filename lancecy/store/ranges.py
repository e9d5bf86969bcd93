"""Merging of byte ranges: many small ranges of one object become few large ones.

Computes on NumPy arrays, without IO. The merged ranges are
disjoint and ascending; concatenated they form the *arena* in which
every requested range lies contiguously::

    requested        [--)   [----)  [-)                    [---)
    merged           [-----------------)                   [---)
    arena            [-----------------|---)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = ["MergedRanges", "check_range", "joined", "merge", "split", "worthwhile_holes"]

Int64s = NDArray[np.int64]

REQUEST_BYTES = 16 << 20
"""A scan may make one request per this many bytes."""
_MOST_HOLES = 128


@dataclass(frozen=True, slots=True, eq=False)
class MergedRanges:
    """The ranges to fetch, and the position of each requested range in them.

    Attributes
    ----------
    starts, stops : (num_merged,) int64, bytes
        Disjoint, ascending, none empty.
    arena_positions : (num_ranges,) int64, bytes
        Start of each requested range in the arena, in the order requested; 0 for an empty range.
    """

    starts: Int64s
    stops: Int64s
    arena_positions: Int64s

    @property
    def nbytes(self) -> int:
        """Length of the arena."""
        return int((self.stops - self.starts).sum())


def check_range(start: int, stop: int | None) -> None:
    """Refuse an invalid range; ``stop`` None is the end of the object.

    Raises
    ------
    ValueError
        It starts before the object or stops before it starts.
    """
    if start < 0 or (stop is not None and stop < start):
        raise ValueError(f"invalid range from {start} to {stop}")


def merge(positions: Int64s, lengths: Int64s, gap: int, cap: int) -> MergedRanges:
    """Join ranges that overlap, or lie at most ``gap`` bytes apart.

    Parameters
    ----------
    positions, lengths : (num_ranges,) int64, bytes
        Any order, overlaps and duplicates allowed, none negative, no end beyond 2**63 - 1.
    gap : int, bytes
        Largest hole that is fetched; 0 joins only ranges that touch.
    cap : int, bytes
        A merged range is not extended by a range that starts ``cap`` bytes or more after its own start,
        unless the two overlap: no byte is fetched twice.

    Returns
    -------
    MergedRanges

    Notes
    -----
    O(n log n), O(n) when the positions ascend. The cap is applied to cells of ``cap`` bytes counted from the
    start of a run, which needs no loop; a merged range of non-overlapping ranges spans less than ``cap``
    plus one range.

    Examples
    --------
    >>> merged = merge(np.array([100, 0, 110]), np.array([20, 10, 5]), gap=0, cap=1 << 20)
    >>> merged.starts.tolist(), merged.stops.tolist(), merged.arena_positions.tolist()
    ([0, 100], [10, 120], [10, 0, 20])
    """
    starts = np.asarray(positions, dtype=np.int64)
    sizes = np.asarray(lengths, dtype=np.int64)
    present = sizes > 0
    if not present.all():
        return _merge_present(starts, sizes, present, gap, cap)
    if starts.size <= 1:
        return MergedRanges(starts, starts + sizes, np.zeros(starts.size, np.int64))
    order = None if bool((starts[1:] >= starts[:-1]).all()) else np.argsort(starts, kind="stable")
    if order is not None:
        starts, sizes = starts[order], sizes[order]
    run_starts, run_stops, arena = _merge_sorted(starts, starts + sizes, gap, cap)
    if order is not None:
        unsorted = np.empty_like(arena)
        unsorted[order] = arena
        arena = unsorted
    return MergedRanges(run_starts, run_stops, arena)


def _merge_present(
    starts: Int64s, sizes: Int64s, present: NDArray[np.bool_], gap: int, cap: int
) -> MergedRanges:
    """Merge without the empty ranges: they must not extend a merged range."""
    merged = merge(starts[present], sizes[present], gap, cap)
    arena = np.zeros(starts.size, np.int64)
    arena[present] = merged.arena_positions
    return MergedRanges(merged.starts, merged.stops, arena)


def _merge_sorted(starts: Int64s, stops: Int64s, gap: int, cap: int) -> tuple[Int64s, Int64s, Int64s]:
    reach = np.maximum.accumulate(stops)  # furthest byte requested so far
    opens = np.empty(starts.size, np.bool_)
    opens[0] = True
    np.greater(starts[1:] - reach[:-1], gap, out=opens[1:])
    if cap < int(reach[-1] - starts[0]):
        run_first = starts[np.flatnonzero(opens)][np.cumsum(opens) - 1]
        cell = (starts - run_first) // max(cap, 1)
        opens[1:] |= (cell[1:] != cell[:-1]) & (starts[1:] >= reach[:-1])
    first = np.flatnonzero(opens)
    after = np.append(first[1:], starts.size)
    run_starts, run_stops = starts[first], reach[after - 1]
    base = np.cumsum(run_stops - run_starts) - (run_stops - run_starts)
    return run_starts, run_stops, starts + np.repeat(base - run_starts, after - first)


def worthwhile_holes(starts: Int64s, stops: Int64s, gap: int, lanes: int) -> NDArray[np.bool_]:
    """Which holes between ranges to fetch, so that fewer requests are needed.

    Requests that run concurrently wait together, so a hole among few of them is closed only while all closed
    holes cost at most twice the requested bytes, and down to one request per 16 MiB. A request that has to queue
    waits once more; to avoid that, at most ``128 / lanes`` holes of the largest size are fetched, so that reading
    a hundred rows of a large file does not read the whole file.

    Parameters
    ----------
    starts, stops : (num_ranges,) int64, bytes
        Disjoint and ascending, none empty; at least one.
    gap : int, bytes
        Bytes worth fetching to save a request that has to queue.
    lanes : int
        Requests that can be in flight at the same time.

    Returns
    -------
    (num_ranges - 1,) bool
        True for the holes to fetch: the smallest ones, of equal ones the first.

    Examples
    --------
    Two small ranges stay separate; of a hundred some are joined:

    >>> bool(worthwhile_holes(np.array([0, 9000]), np.array([100, 9100]), gap=1000, lanes=4).any())
    False
    >>> starts = np.arange(0, 100_000, 1000)
    >>> int(worthwhile_holes(starts, starts + 100, gap=1000, lanes=4).sum())
    35
    """
    holes = starts[1:] - stops[:-1]
    order = np.argsort(holes, kind="stable")
    ascending = holes[order]
    costs = np.cumsum(ascending)
    wanted = int((stops - starts).sum())
    few = 1 + -(-wanted // REQUEST_BYTES)
    affordable = int(np.searchsorted(costs, 2 * wanted, side="right"))
    affordable = min(affordable, int(np.searchsorted(ascending, 4 * gap, side="right")), starts.size - few)
    queueing = min(starts.size - lanes, int(np.searchsorted(ascending, gap, side="right")))
    bearable = int(np.searchsorted(costs, _MOST_HOLES * gap // lanes, side="right"))
    is_closed = np.zeros(holes.size, np.bool_)
    is_closed[order[: max(0, affordable, min(queueing, bearable))]] = True
    return is_closed


def joined(merged: MergedRanges, is_closed: NDArray[np.bool_]) -> MergedRanges:
    """Merged ranges joined over some of the holes between them.

    Parameters
    ----------
    merged : MergedRanges
        At least one.
    is_closed : (num_merged - 1,) bool
        Which holes are fetched.

    Examples
    --------
    >>> merged = merge(np.array([0, 20, 90]), np.array([5, 5, 5]), gap=0, cap=1 << 20)
    >>> wider = joined(merged, np.array([True, False]))
    >>> wider.starts.tolist(), wider.stops.tolist(), wider.arena_positions.tolist()
    ([0, 90], [25, 95], [0, 20, 25])
    """
    opens = np.concatenate(([True], ~is_closed))
    group = np.cumsum(opens) - 1
    starts, stops = merged.starts[opens], merged.stops[np.concatenate((~is_closed, [True]))]
    sizes, old_sizes = stops - starts, merged.stops - merged.starts
    bases, old_bases = np.cumsum(sizes) - sizes, np.cumsum(old_sizes) - old_sizes
    # Every range moves with its merged range.
    moved = bases[group] + merged.starts - starts[group] - old_bases
    mine = np.searchsorted(old_bases, merged.arena_positions, side="right") - 1
    return MergedRanges(starts, stops, merged.arena_positions + moved[mine])


def split(starts: Int64s, stops: Int64s, cap: int) -> tuple[Int64s, Int64s]:
    """Cut ranges longer than ``cap`` into equal parts of at most ``cap`` bytes.

    Parameters
    ----------
    starts, stops : (num_ranges,) int64, bytes
        None empty.
    cap : int, bytes, positive

    Returns
    -------
    starts, stops : (num_parts,) int64
        The same bytes in the same order.

    Examples
    --------
    >>> [edges.tolist() for edges in split(np.array([0, 50]), np.array([10, 55]), 6)]
    [[0, 5, 50], [5, 10, 55]]
    """
    lengths = stops - starts
    if int(lengths.max(initial=0)) <= cap:
        return starts, stops
    parts = -(-lengths // cap)
    owner = np.repeat(np.arange(starts.size), parts)
    index = np.arange(owner.size) - np.repeat(np.cumsum(parts) - parts, parts)
    step = -(-lengths // parts)
    part_starts = starts[owner] + index * step[owner]
    return part_starts, np.minimum(part_starts + step[owner], stops[owner])
