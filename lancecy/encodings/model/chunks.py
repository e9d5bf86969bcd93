"""Chunks of values, and runs within chunks or pages.

Values of 2.1 and later are compressed by chunk; a run is some consecutive values of one chunk or page. Both are
arrays, so a page of 2,000 chunks costs as many Python steps as one of two. ``runs_of``, ``runs_within`` and
``touched`` turn rows and ranges into runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.errors import FormatError, TruncatedError
from lancecy.records import dataclass
from lancecy.rows import PageRuns, RowSelection
from lancecy.store.base import Memory

__all__ = [
    "Buffers",
    "Chunks",
    "chunk_bounds",
    "places_of",
    "repeated",
    "require_bytes",
    "row_ranges",
    "runs_of",
    "runs_within",
    "split_runs",
    "starts_of",
    "touched",
    "whole_runs",
]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """One value buffer of every chunk.

    Attributes
    ----------
    memory : (nbytes,) uint8
    positions, lengths : (num_chunks,) int64, bytes
        Where in ``memory`` the buffer of each chunk is.
    """

    memory: Memory
    positions: Int64
    lengths: Int64


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Chunks, and the runs of selected values.

    Attributes
    ----------
    buffers : tuple of Buffers
        By buffer number of the nodes.
    counts : (num_chunks,) int64
        Values in each chunk.
    runs : PageRuns
        Its ``pages`` are chunk numbers; ascending, disjoint, within the counts.
    """

    buffers: tuple[Buffers, ...]
    counts: Int64
    runs: PageRuns

    def scaled(self, factor: int) -> Chunks:
        """The same chunks with counts and runs in elements, ``factor`` per value."""
        runs = PageRuns(self.runs.pages, self.runs.starts * factor, self.runs.counts * factor)
        return Chunks(self.buffers, self.counts * factor, runs)


def starts_of(counts: Int64) -> Int64:
    """(n + 1,) int64: running sum of ``counts``, beginning with 0."""
    starts = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def whole_runs(counts: Int64) -> PageRuns:
    """Every value of every chunk; empty chunks left out."""
    starts = np.zeros(counts.size, np.int64)
    if counts.all():
        return PageRuns(np.arange(counts.size), starts, counts)
    pages = np.flatnonzero(counts)
    return PageRuns(pages, starts[: pages.size], counts[pages])


def runs_within(bounds: Int64, starts: Int64, stops: Int64) -> PageRuns:
    """Split ranges over all chunks, or all pages, at their ends.

    Parameters
    ----------
    bounds : (num_chunks + 1,) int64, ascending, first is 0
        Chunks may be empty.
    starts, stops : (num_ranges,) int64
        Ascending disjoint ranges; empty ones are allowed and left out.

    Raises
    ------
    FormatError
        A range is not within the bounds; ``position`` is its index.

    Examples
    --------
    >>> runs = runs_within(np.array([0, 4, 8, 9]), np.array([1, 7]), np.array([2, 9]))
    >>> runs.pages.tolist(), runs.starts.tolist(), runs.counts.tolist()
    ([0, 1, 2], [1, 3, 0], [1, 1, 1])
    """
    runs = np.empty((3, starts.size + bounds.size), np.int64)
    count = kernels.cut_ranges(bounds, starts, stops, *runs)
    return PageRuns(*runs[:, :count])


def runs_of(bounds: Int64, rows: RowSelection) -> PageRuns:
    """Runs of an ascending selection within chunks or pages; rows that follow each other are one run.

    Examples
    --------
    >>> runs = runs_of(np.array([0, 4, 9]), RowSelection.take(9, [1, 3, 4, 5]))
    >>> runs.pages.tolist(), runs.starts.tolist(), runs.counts.tolist()
    ([0, 0, 1], [1, 3, 0], [1, 1, 2])
    """
    if rows.indices is None:
        return runs_within(bounds, *row_ranges(rows))
    runs = np.empty((3, rows.indices.size), np.int64)
    count = kernels.cut_rows(bounds, rows.indices, *runs)
    return PageRuns(*runs[:, :count])


def places_of(starts: Int64, counts: Int64) -> Int64:
    """All indices of the runs ``start`` to ``start + count``, run after run.

    Examples
    --------
    >>> places_of(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    shifts = starts - (np.cumsum(counts) - counts)
    return np.repeat(shifts, counts) + np.arange(int(counts.sum()))


def touched(runs: PageRuns) -> tuple[Int64, PageRuns]:
    """The distinct chunks of ascending runs, and the runs with indices into these as chunk numbers."""
    chunks, numbers = np.empty((2, runs.pages.size), np.int64)
    count = kernels.distinct_pages(runs.pages, chunks, numbers)
    return chunks[:count], PageRuns(numbers, runs.starts, runs.counts)


def repeated(runs: PageRuns, count: int) -> PageRuns:
    """Repeat the runs of one chunk for each of ``count`` chunks.

    Examples
    --------
    >>> runs = repeated(PageRuns(np.array([0]), np.array([3]), np.array([2])), 2)
    >>> runs.pages.tolist(), runs.starts.tolist(), runs.counts.tolist()
    ([0, 1], [3, 3], [2, 2])
    """
    chunks = np.repeat(np.arange(count), runs.pages.size)
    return PageRuns(chunks, np.tile(runs.starts, count), np.tile(runs.counts, count))


def row_ranges(rows: RowSelection) -> tuple[Int64, Int64]:
    """Starts and stops of the runs of an ascending selection without duplicates."""
    if rows.indices is None:
        if rows.starts is None or rows.stops is None:
            raise ValueError("a selection has neither ranges nor indices")
        return rows.starts, rows.stops
    if not rows.indices.size:
        return rows.indices, rows.indices
    runs = runs_of(np.array([0, rows.num_rows], np.int64), rows)
    return runs.starts, runs.starts + runs.counts


def require_bytes(source: Buffers, needed: Int64, what: str) -> None:
    """Raise TruncatedError if a chunk is shorter than its content needs.

    Raises
    ------
    TruncatedError
        ``position`` is the chunk.
    """
    short = source.lengths < needed
    if bool(short.any()):
        chunk = int(np.argmax(short))
        raise TruncatedError(
            f"chunk {chunk} has {int(source.lengths[chunk])} bytes of {what}, where {int(needed[chunk])} are needed",
            position=chunk,
        )


def split_runs(source: Buffers) -> tuple[Buffers, Buffers]:
    """Values and lengths of runs that are stored in one buffer: ``u64 bytes of values | values | lengths``.

    Raises
    ------
    FormatError
        The values do not fit the buffer.

    Source: file sheet 2.1, section 3.2.
    """
    require_bytes(source, np.full(source.positions.size, 8, np.int64), "runs")
    sizes = np.empty(source.positions.size, np.int64)
    kernels.gather_fixed(source.memory, source.positions, 8, sizes.view(np.uint8))
    bad = (sizes < 0) | (sizes > source.lengths - 8)
    if bool(bad.any()):
        chunk = int(np.argmax(bad))
        raise FormatError(f"values of runs in chunk {chunk} pass the end of their buffer", position=chunk)
    first = source.positions + 8
    values = Buffers(source.memory, first, sizes)
    return values, Buffers(source.memory, first + sizes, source.lengths - 8 - sizes)


def chunk_bounds(num_slots: int, slots: int) -> Int64:
    """First slot of each chunk, and the number of slots.

    Examples
    --------
    >>> chunk_bounds(5, 2).tolist()
    [0, 2, 4, 5]
    """
    bounds = np.arange(0, num_slots + slots, slots)
    bounds[-1] = num_slots
    return bounds
