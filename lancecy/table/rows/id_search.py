"""Finds rows of a fragment by their row ids or versions, in the compact sequences.

Only arrays are expanded: a comparison with a range of any length is one subtraction. Results are ranges of
row offsets, ascending and disjoint, so a fragment of 2^32 rows costs nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.table.rows.row_ids import (
    ArraySegment,
    HolesSegment,
    RangeSegment,
    RowIdSequence,
    Segment,
    VersionSequence,
)

__all__ = ["OPERATORS", "Ranges", "bounds", "rows_among", "rows_where"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

Ranges: TypeAlias = tuple[Int64, Int64]
"""(starts, stops): ascending, disjoint, none of them empty."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def rows_where(sequence: RowIdSequence | VersionSequence, op: str, value: int) -> Ranges:
    """The rows whose number satisfies a comparison with a value.

    Parameters
    ----------
    sequence : RowIdSequence or VersionSequence
    op : str
        A key of ``OPERATORS``.
    value : int

    Returns
    -------
    (starts, stops) : (num_ranges,) int64 each
        Row offsets.

    Examples
    --------
    >>> sequence = RowIdSequence((RangeSegment(10, 15), RangeSegment(7, 9)), np.array([0, 5, 7]))
    >>> rows_where(sequence, "<", 12)
    (array([0, 5]), array([2, 7]))
    """
    if isinstance(sequence, VersionSequence):
        return _runs_of_mask(sequence, OPERATORS[op](sequence.versions, value))
    never, always = _decided(*sequence.spans, op, value)
    some = np.flatnonzero(~(never | always))
    parts = [_in_segment(sequence.segments[i], op, value) for i in some.tolist()]
    return _joined(sequence, always, some, parts)


def rows_among(sequence: RowIdSequence | VersionSequence, values: UInt64) -> Ranges:
    """The rows whose number is among the values.

    Parameters
    ----------
    sequence : RowIdSequence or VersionSequence
    values : (num_values,) uint64, ascending, without duplicates

    Returns
    -------
    (starts, stops) : (num_ranges,) int64 each
        Row offsets.
    """
    if isinstance(sequence, VersionSequence):
        return _runs_of_mask(sequence, _are_among(sequence.versions, values))
    lows, highs = sequence.spans
    some = np.flatnonzero(np.searchsorted(values, lows) < np.searchsorted(values, highs, side="right"))
    parts = [_among_segment(sequence.segments[i], values) for i in some.tolist()]
    return _joined(sequence, np.zeros(lows.size, np.bool_), some, parts)


def bounds(sequence: RowIdSequence | VersionSequence, edges: Int64) -> tuple[UInt64, UInt64]:
    """Bounds of the numbers of consecutive groups of rows.

    Parameters
    ----------
    sequence : RowIdSequence or VersionSequence
    edges : (num_groups + 1,) int64, ascending
        First row of each group, then the end of the last, all within the sequence; a group may be empty.

    Returns
    -------
    (lows, highs) : (num_groups,) uint64 each
        Undefined for an empty group.
    """
    result = np.zeros((2, max(0, edges.size - 1)), np.uint64)
    filled = edges[:-1] < edges[1:]
    if not filled.any():
        return result[0], result[1]
    cuts = np.unique(np.concatenate((edges, sequence.starts)))
    cuts = cuts[(cuts >= edges[0]) & (cuts <= edges[-1])]
    # No piece crosses an edge or the end of a segment; each group consists of pieces.
    lows, highs = np.empty(cuts.size - 1, np.uint64), np.empty(cuts.size - 1, np.uint64)
    owner = np.searchsorted(sequence.starts, cuts[:-1], side="right") - 1
    for index in np.unique(owner).tolist():
        which = np.flatnonzero(owner == index)
        start = int(sequence.starts[index])
        pieces = cuts[which[0] : which[-1] + 2] - start
        lows[which], highs[which] = _segment_bounds(sequence, index, pieces)
    first = np.searchsorted(cuts, edges[:-1][filled])
    result[0, filled] = np.minimum.reduceat(lows, first)
    result[1, filled] = np.maximum.reduceat(highs, first)
    return result[0], result[1]


def _segment_bounds(
    sequence: RowIdSequence | VersionSequence, index: int, pieces: Int64
) -> tuple[UInt64, UInt64]:
    """Bounds of consecutive non-empty pieces of one segment or run."""
    if isinstance(sequence, VersionSequence):
        same = np.full(pieces.size - 1, sequence.versions[index])
        return same, same
    segment = sequence.segments[index]
    if isinstance(segment, ArraySegment):
        held = segment.offsets[: pieces[-1]]
        low = np.minimum.reduceat(held, pieces[:-1]).astype(np.uint64)
        high = np.maximum.reduceat(held, pieces[:-1]).astype(np.uint64)
        return low + np.uint64(segment.base), high + np.uint64(segment.base)
    return segment.take(pieces[:-1]), segment.take(pieces[1:] - 1)


# -- one segment ----------------------------------------------------------------------


def _decided(lows: UInt64, highs: UInt64, op: str, value: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(segments where no number satisfies the comparison, those where all do); empty ones are in either."""
    if op in {"=", "!="}:
        outside, equal = (lows > value) | (highs < value), (lows == value) & (highs == value)
        return (outside, equal) if op == "=" else (equal, outside)
    compare = OPERATORS[op]
    first, second = (lows, highs) if op in {"<", "<="} else (highs, lows)
    return ~compare(first, value), compare(second, value)


def _in_segment(segment: Segment, op: str, value: int) -> Ranges:
    if isinstance(segment, ArraySegment):
        # Compared with a Python integer, which may exceed the type of the offsets.
        return _ranges_of_mask(OPERATORS[op](segment.offsets, value - segment.base))
    below, through = _rank(segment, value), _rank(segment, value + 1)
    if op == "!=":
        return _kept([0, through], [below, segment.count])
    start = {"=": below, ">=": below, ">": through}.get(op, 0)
    stop = {"=": through, "<": below, "<=": through}.get(op, segment.count)
    return _kept([start], [stop])


def _rank(segment: RangeSegment | HolesSegment, value: int) -> int:
    """The number of a segment's numbers below a value."""
    passed = min(max(value, segment.start), segment.stop) - segment.start
    if isinstance(segment, RangeSegment):
        return passed
    return passed - int(np.searchsorted(_holes(segment), passed))


def _holes(segment: HolesSegment) -> Int64:
    """Positions of the holes in the whole range: (num_holes,) int64, ascending."""
    return segment.ranks + np.arange(segment.ranks.size, dtype=np.int64)


def _among_segment(segment: Segment, values: UInt64) -> Ranges:
    if isinstance(segment, ArraySegment):
        low, most = np.uint64(segment.base), np.iinfo(segment.offsets.dtype).max
        near = values[values >= low] - low
        return _ranges_of_mask(_are_among(segment.offsets, near[near <= most].astype(segment.offsets.dtype)))
    first, last = np.searchsorted(values, np.array([segment.start, segment.stop], np.uint64))
    rows = (values[first:last] - np.uint64(segment.start)).astype(np.int64)
    if isinstance(segment, HolesSegment):
        holes = _holes(segment)
        before = np.searchsorted(holes, rows)
        is_hole = holes[np.minimum(before, holes.size - 1)] == rows
        rows = (rows - before)[~is_hole]
    return rows, rows + 1


def _are_among(numbers: NDArray[Any], values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of the numbers that are among the (ascending) values, both of one type."""
    if not values.size:
        return np.zeros(numbers.size, np.bool_)
    at = np.minimum(np.searchsorted(values, numbers), values.size - 1)
    found: NDArray[np.bool_] = values[at] == numbers
    return found


# -- ranges ---------------------------------------------------------------------------


def _kept(starts: list[int], stops: list[int]) -> Ranges:
    """The non-empty ranges."""
    first, last = np.array(starts, np.int64), np.array(stops, np.int64)
    some = last > first
    return first[some], last[some]


def _ranges_of_mask(mask: NDArray[np.bool_]) -> Ranges:
    edges = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0))
    return edges[0::2].astype(np.int64), edges[1::2].astype(np.int64)


def _runs_of_mask(sequence: VersionSequence, mask: NDArray[np.bool_]) -> Ranges:
    first, last = _ranges_of_mask(mask)
    starts, stops = sequence.starts[first], sequence.starts[last]
    some = stops > starts
    return starts[some], stops[some]


def _joined(
    sequence: RowIdSequence, whole: NDArray[np.bool_], some: Int64, parts: Sequence[Ranges]
) -> Ranges:
    """Ranges of some segments, shifted to the segments' starts, joined with the segments taken whole."""
    first, last = sequence.starts[:-1], sequence.starts[1:]
    taken = whole & (last > first)
    shifts = np.repeat(first[some], [part[0].size for part in parts])
    starts, stops = (
        np.concatenate([edge[taken], *(part[side] for part in parts)])
        for side, edge in enumerate((first, last))
    )
    starts[starts.size - shifts.size :] += shifts
    stops[stops.size - shifts.size :] += shifts
    order = np.argsort(starts, kind="stable")
    return starts[order], stops[order]
