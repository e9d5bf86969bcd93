"""Row selections, shared by files, deletions, scans and takes.

A :class:`RowSelection` is either sorted disjoint half-open ranges or an array of
row offsets in any order (duplicates allowed), over a known number of rows.
All operations are on arrays; nothing loops over rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lancecy.kernels.sorting import sorted_unique
from lancecy.records import dataclass

__all__ = ["PageRuns", "RowSelection"]

Int64 = NDArray[np.int64]

_NONE = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class PageRuns:
    """A selection as runs of consecutive rows, each inside one page of a column.

    Attributes
    ----------
    pages : (num_runs,) int64
        Index of the page.
    starts : (num_runs,) int64
        First row within that page.
    counts : (num_runs,) int64
        Rows of the run; never negative.
    """

    pages: Int64
    starts: Int64
    counts: Int64

    @property
    def num_rows(self) -> int:
        """Rows of all runs together."""
        return int(self.counts[0] if self.counts.size == 1 else self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """Some of ``num_rows`` rows.

    Exactly one of ``ranges`` and ``indices`` is set.

    Attributes
    ----------
    num_rows : int
        Number of rows to select from.
    starts, stops : (num_ranges,) int64 or None
        Sorted, disjoint, non-empty half-open ranges.
    indices : (num_selected,) int64 or None
        Row offsets in the requested order, each in ``0 .. num_rows - 1``.
    """

    num_rows: int
    starts: Int64 | None = None
    stops: Int64 | None = None
    indices: Int64 | None = None
    _length: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.indices is not None:
            length = self.indices.size
        elif self.starts is None or self.stops is None or self.starts.size == 0:
            length = 0
        elif self.starts.size == 1:
            length = int(self.stops[0]) - int(self.starts[0])
        else:
            length = int((self.stops - self.starts).sum())
        object.__setattr__(self, "_length", length)

    # -- making ---------------------------------------------------------------

    @classmethod
    def all(cls, num_rows: int) -> RowSelection:
        """Every row, in order."""
        return cls.range(num_rows, 0, num_rows)

    @classmethod
    def range(cls, num_rows: int, start: int, stop: int) -> RowSelection:
        """Rows ``start`` to ``stop``, clipped to the existing rows."""
        start, stop = max(0, start), min(stop, num_rows)
        if stop <= start:
            return cls(num_rows, _NONE, _NONE)
        return cls(num_rows, np.array([start], np.int64), np.array([stop], np.int64))

    @classmethod
    def take(cls, num_rows: int, indices: ArrayLike) -> RowSelection:
        """These rows, in this order.

        Raises
        ------
        IndexError
            A row offset is negative or not below ``num_rows``.
        """
        rows = np.ascontiguousarray(indices, dtype=np.int64)
        if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= num_rows):
            raise IndexError(f"row offsets must be in 0 .. {num_rows - 1}")
        return cls(num_rows, indices=rows)

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_]) -> RowSelection:
        """The rows whose mask is true, as ranges if runs are long, as indices if they are short."""
        mask = np.asarray(mask, dtype=np.bool_)
        selected = int(np.count_nonzero(mask))
        if selected == mask.size:
            return cls.all(mask.size)
        edges = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0))
        starts, stops = edges[0::2].astype(np.int64), edges[1::2].astype(np.int64)
        if starts.size * 4 > selected:
            return cls(mask.size, indices=np.flatnonzero(mask).astype(np.int64, copy=False))
        return cls(mask.size, starts, stops)

    @classmethod
    def ascending(cls, num_rows: int, offsets: Int64) -> RowSelection:
        """These rows, as ranges if runs are long, as indices if they are short.

        Parameters
        ----------
        num_rows : int
        offsets : (n,) int64, ascending, without duplicates
            Each in ``0 .. num_rows - 1``.

        Examples
        --------
        >>> RowSelection.ascending(9, np.array([2, 3, 4, 5, 6])).stops
        array([7])
        """
        if offsets.size < 4:
            return cls(num_rows, indices=offsets)
        ends = np.flatnonzero(offsets[1:] - offsets[:-1] != 1)
        if (ends.size + 1) * 4 > offsets.size:
            return cls(num_rows, indices=offsets)
        starts = offsets[np.append(0, ends + 1)]
        stops = offsets[np.append(ends, offsets.size - 1)] + 1
        return cls(num_rows, starts, stops)

    @classmethod
    def joined(cls, first: RowSelection, second: RowSelection) -> RowSelection:
        """The rows of two selections from the same rows, of which the second begins behind the first.

        Examples
        --------
        >>> RowSelection.joined(RowSelection.range(9, 1, 3), RowSelection.range(9, 3, 5)).ends
        (1, 5)
        """
        if not len(first) or not len(second):
            return first if len(first) else second
        if first.indices is None and second.indices is None:
            starts = np.concatenate([first._starts, second._starts])
            stops = np.concatenate([first._stops, second._stops])
            apart = starts[1:] != stops[:-1]
            return cls(first.num_rows, starts[np.append(True, apart)], stops[np.append(apart, True)])
        return cls(first.num_rows, indices=np.concatenate([first.to_indices(), second.to_indices()]))

    # -- asking ---------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def is_all(self) -> bool:
        """Whether this is every row in order."""
        return self.indices is None and self._length == self.num_rows

    @property
    def is_ascending(self) -> bool:
        """Whether the rows ascend, without duplicates."""
        rows = self.indices
        return rows is None or bool((rows[1:] > rows[:-1]).all())

    def in_file_order(self) -> tuple[RowSelection, Int64 | None]:
        """The distinct rows, ascending, and the place of each selected row among them; None if they are so already."""
        rows = self.indices
        if rows is None or self.is_ascending:
            return self, None
        unique, order = np.unique(rows, return_inverse=True)
        return RowSelection(self.num_rows, indices=unique), order.astype(np.int64, copy=False)

    @property
    def ends(self) -> tuple[int, int]:
        """The first selected row and the end of the last; both 0 if there is none.

        Examples
        --------
        >>> RowSelection.take(9, [6, 2]).ends
        (2, 7)
        """
        if not len(self):
            return 0, 0
        if self.indices is not None:
            return int(self.indices.min()), int(self.indices.max()) + 1
        return int(self._starts[0]), int(self._stops[-1])

    @property
    def largest_gap(self) -> int:
        """Most consecutive rows that are left out, those before the first and after the last included.

        Only for a selection in ascending order.

        Examples
        --------
        >>> RowSelection.take(9, [1, 2, 6]).largest_gap
        3
        """
        if not len(self):
            return self.num_rows
        if self.indices is not None:
            firsts, ends = self.indices, self.indices + 1
        else:
            firsts, ends = self._starts, self._stops
        between = int((firsts[1:] - ends[:-1]).max()) if firsts.size > 1 else 0
        return max(int(firsts[0]), between, self.num_rows - int(ends[-1]))

    @property
    def _starts(self) -> Int64:
        return self.starts if self.starts is not None else _NONE

    @property
    def _stops(self) -> Int64:
        return self.stops if self.stops is not None else _NONE

    def to_indices(self) -> Int64:
        """(num_selected,) int64 row offsets."""
        if self.indices is not None:
            return self.indices
        lengths = self._stops - self._starts
        if lengths.size == 1:
            return np.arange(self._starts[0], self._stops[0], dtype=np.int64)
        shifts = self._starts - (np.cumsum(lengths) - lengths)
        return np.repeat(shifts, lengths) + np.arange(int(lengths.sum()), dtype=np.int64)

    def to_mask(self) -> NDArray[np.bool_]:
        """(num_rows,) bool, true where a row is selected."""
        if self.indices is not None:
            mask = np.zeros(self.num_rows, np.bool_)
            mask[self.indices] = True
            return mask
        steps = np.zeros(self.num_rows + 1, np.int8)
        steps[self._starts] += 1
        steps[self._stops] -= 1
        return np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)

    # -- combining ------------------------------------------------------------

    def slice(self, offset: int, length: int) -> RowSelection:
        """Selected rows number ``offset`` to ``offset + length``, over the same rows."""
        offset = max(0, offset)
        if offset == 0 and length >= self._length:
            return self
        if self.indices is not None:
            return RowSelection(self.num_rows, indices=self.indices[offset : offset + max(0, length)])
        lengths = self._stops - self._starts
        before = np.cumsum(lengths) - lengths
        starts = self._starts + np.clip(offset - before, 0, lengths)
        stops = self._starts + np.clip(offset + length - before, 0, lengths)
        keep = stops > starts
        return RowSelection(self.num_rows, starts[keep], stops[keep])

    def intersect(self, other: RowSelection) -> RowSelection:
        """Rows in both, in this selection's order; both over the same ``num_rows``."""
        if other.indices is None and self.indices is None:
            return RowSelection(
                self.num_rows, *_overlaps(self._starts, self._stops, other._starts, other._stops)
            )
        if other.is_all:
            return self
        if self.is_all and other.indices is not None:
            return RowSelection(self.num_rows, indices=sorted_unique(other.indices))
        single = self.indices if self.indices is not None else other.indices
        if single is not None and single.size * 16 < self.num_rows:
            # Few rows of many: no mask over all of them.
            if self.indices is not None:
                return RowSelection(self.num_rows, indices=single[other._has(single)])
            ordered = sorted_unique(single)
            if self._starts.size == 1:
                first, last = np.searchsorted(ordered, (self._starts[0], self._stops[0]))
                return RowSelection(self.num_rows, indices=ordered[first:last])
            return RowSelection(self.num_rows, indices=ordered[self._has(ordered)])
        mask = other.to_mask()
        if self.indices is not None:
            return RowSelection(self.num_rows, indices=self.indices[mask[self.indices]])
        return RowSelection.from_mask(self.to_mask() & mask)

    def _has(self, rows: Int64) -> NDArray[np.bool_]:
        """Which of some rows are selected."""
        if self.indices is not None:
            return np.isin(rows, self.indices)
        run = np.searchsorted(self._stops, rows, side="right")
        found: NDArray[np.bool_] = rows >= np.append(self._starts, self.num_rows)[run]
        return found

    def minus(self, deleted: Int64) -> RowSelection:
        """Without the given row offsets (ascending, unique; those outside are ignored)."""
        gone = deleted[(deleted >= 0) & (deleted < self.num_rows)]
        if gone.size == 0:
            return self
        if self.indices is None and gone.size * 16 < self.num_rows:
            starts = np.concatenate(([0], gone + 1))
            stops = np.concatenate((gone, [self.num_rows]))
            keep = stops > starts
            return RowSelection(
                self.num_rows, *_overlaps(self._starts, self._stops, starts[keep], stops[keep])
            )
        mask = np.ones(self.num_rows, np.bool_)
        mask[gone] = False
        if self.indices is not None:
            return RowSelection(self.num_rows, indices=self.indices[mask[self.indices]])
        return RowSelection.from_mask(self.to_mask() & mask)

    def pick(self, positions: Int64) -> RowSelection:
        """The selected rows at these positions of the selection."""
        if self.indices is None and self._starts.size == 1:
            start = int(self._starts[0])
            return RowSelection(self.num_rows, indices=positions + start if start else positions)
        return RowSelection(self.num_rows, indices=self.to_indices()[positions])

    def split(self, max_rows: int) -> Iterator[RowSelection]:
        """Consecutive pieces of at most ``max_rows`` selected rows."""
        total = len(self)
        for offset in range(0, total, max_rows):
            yield self.slice(offset, max_rows)


def _overlaps(starts: Int64, stops: Int64, other_starts: Int64, other_stops: Int64) -> tuple[Int64, Int64]:
    """Intersection of two lists of sorted disjoint ranges, without a mask over the rows."""
    if starts.size == 0 or other_starts.size == 0:
        return _NONE, _NONE
    if starts.size == 1 and starts[0] <= other_starts[0] and other_stops[-1] <= stops[0]:
        return other_starts, other_stops
    first = np.searchsorted(other_stops, starts, side="right")
    last = np.searchsorted(other_starts, stops, side="left")
    counts = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(starts.size), counts)
    theirs = (
        np.arange(int(counts.sum()))
        - np.repeat(np.cumsum(counts) - counts, counts)
        + np.repeat(first, counts)
    )
    return (
        np.maximum(starts[mine], other_starts[theirs]),
        np.minimum(stops[mine], other_stops[theirs]),
    )
