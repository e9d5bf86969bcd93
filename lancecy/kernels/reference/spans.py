"""Twins of ``_spans``, ``_scatter`` and ``_page_runs``: slices, index arrays, and rows cut where pages end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import check_runs, checked, same_length

__all__ = [
    "chunk_table",
    "copy_spans",
    "cut_ranges",
    "cut_rows",
    "distinct_pages",
    "gather_fixed",
    "place_spans",
]


@checked
def copy_spans(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.copy_spans`."""
    same_length("positions and lengths differ in length", positions, lengths)
    runs = check_runs(positions, lengths, memory.size, extra=0, width=1, capacity=out.size)
    done = 0
    for position, length in runs:
        if length:
            out[done : done + length] = memory[position : position + length]
        done += length
    return done


@checked
def gather_fixed(
    memory: NDArray[np.uint8], positions: NDArray[np.int64], width: int, out: NDArray[np.uint8]
) -> None:
    """As :func:`lancecy.kernels.gather_fixed`."""
    if width < 1:
        raise ValueError("width must be at least 1")
    if out.size != positions.size * width:
        raise ValueError("out does not have one value per position")
    bad = np.flatnonzero((positions < 0) | (positions > memory.size - width))
    if bad.size:
        first = int(bad[0])
        fail(Fault.NEGATIVE if positions[first] < 0 else Fault.TRUNCATED, first)
    if positions.size:  # without positions nothing bounds the width
        out.reshape(positions.size, width)[:] = memory[positions[:, None] + np.arange(width)]


@checked
def place_spans(
    memory: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None:
    """As :func:`lancecy.kernels.place_spans`."""
    same_length("the arrays of the spans differ in length", starts, lengths, positions)
    spans = zip(starts.tolist(), lengths.tolist(), positions.tolist(), strict=True)
    for i, (start, length, position) in enumerate(spans):
        if length == 0:
            continue
        if start < 0 or length < 0:
            fail(Fault.NEGATIVE, i)
        if start + length > memory.size:
            fail(Fault.TRUNCATED, i)
        if position < 0 or position + length > out.size:
            fail(Fault.OUT_SIZE, i)
        out[position : position + length] = memory[start : start + length]


Int64 = NDArray[np.int64]


@checked
def chunk_table(words: NDArray[np.uint8], width: int, out_offsets: Int64, out_starts: Int64) -> None:
    """As :func:`lancecy.kernels.chunk_table`."""
    if width not in {2, 4} or words.size % width:
        raise ValueError("words are of 2 or of 4 bytes")
    numbers = np.frombuffer(words.tobytes(), f"<u{width}").astype(np.int64)
    if out_offsets.size != numbers.size + 1 or out_starts.size != numbers.size + 1:
        raise ValueError("out_offsets and out_starts need one entry more than there are words")
    out_offsets[0] = out_starts[0] = 0
    np.cumsum(((numbers >> 4) + 1) << 3, out=out_offsets[1:])
    np.cumsum(np.left_shift(1, numbers & 15), out=out_starts[1:])


def _check_pages(page_starts: Int64) -> None:
    if page_starts[0] != 0:
        fail(Fault.PAGE_STARTS, 0)
    descents = np.flatnonzero(page_starts[1:] < page_starts[:-1])
    if descents.size:
        fail(Fault.PAGE_STARTS, int(descents[0]) + 1)


@checked
def cut_ranges(
    page_starts: Int64, starts: Int64, stops: Int64, out_pages: Int64, out_starts: Int64, out_counts: Int64
) -> int:
    """As :func:`lancecy.kernels.cut_ranges`."""
    same_length("the arrays for runs differ in length", out_pages, out_starts, out_counts)
    if not page_starts.size:
        raise ValueError("page_starts is empty")
    same_length("starts and stops differ in length", starts, stops)
    _check_pages(page_starts)
    size = 0
    for i, (row, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        if row < stop and (row < 0 or stop > page_starts[-1]):
            fail(Fault.ROW, i)
        while row < stop:
            if size == out_pages.size:
                raise ValueError("there is no room for all runs")
            page = int(np.searchsorted(page_starts, row, side="right")) - 1
            end = min(int(page_starts[page + 1]), stop)
            out_pages[size], out_starts[size], out_counts[size] = page, row - page_starts[page], end - row
            row, size = end, size + 1
    return size


@checked
def cut_rows(page_starts: Int64, rows: Int64, out_pages: Int64, out_starts: Int64, out_counts: Int64) -> int:
    """As :func:`lancecy.kernels.cut_rows`."""
    same_length("the arrays for runs differ in length", out_pages, out_starts, out_counts)
    if not page_starts.size:
        raise ValueError("page_starts is empty")
    same_length("the arrays for runs differ in length", rows, out_pages)
    _check_pages(page_starts)
    outside = np.flatnonzero((rows < 0) | (rows >= page_starts[-1]))
    if outside.size:
        fail(Fault.ROW, int(outside[0]))
    pages = np.searchsorted(page_starts, rows, side="right") - 1
    is_first = np.ones(rows.size, np.bool_)
    is_first[1:] = (rows[1:] - 1 != rows[:-1]) | (pages[1:] != pages[:-1])
    first = np.flatnonzero(is_first)
    out_pages[: first.size] = pages[first]
    out_starts[: first.size] = rows[first] - page_starts[pages[first]]
    out_counts[: first.size] = np.diff(np.append(first, rows.size))
    return int(first.size)


@checked
def distinct_pages(pages: Int64, out_distinct: Int64, out_numbers: Int64) -> int:
    """As :func:`lancecy.kernels.distinct_pages`."""
    same_length("the arrays differ in length", pages, out_distinct, out_numbers)
    is_new = np.ones(pages.size, np.bool_)
    is_new[1:] = pages[1:] != pages[:-1]
    found = pages[is_new]
    out_distinct[: found.size] = found
    out_numbers[:] = np.cumsum(is_new) - 1
    return int(found.size)
