"""Twins of ``_page_runs``: rows and ranges cut where pages end, one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_PAGE_STARTS, FAULT_ROW, fail
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["chunk_table", "cut_ranges", "cut_rows", "distinct_pages"]

Int64 = NDArray[np.int64]


def chunk_table(words: NDArray[np.uint8], width: int, out_offsets: Int64, out_starts: Int64) -> None:
    """As :func:`lancecy.kernels.chunk_table`."""
    require(words, np.uint8)
    require(out_offsets, np.int64, writable=True)
    require(out_starts, np.int64, writable=True)
    if width not in {2, 4} or words.size % width:
        raise ValueError("words are of 2 or of 4 bytes")
    numbers = np.frombuffer(words.tobytes(), f"<u{width}").astype(np.int64)
    if out_offsets.size != numbers.size + 1 or out_starts.size != numbers.size + 1:
        raise ValueError("out_offsets and out_starts need one entry more than there are words")
    out_offsets[0] = out_starts[0] = 0
    np.cumsum(((numbers >> 4) + 1) << 3, out=out_offsets[1:])
    np.cumsum(np.left_shift(1, numbers & 15), out=out_starts[1:])


def _require_runs(*arrays: Int64) -> None:
    for array in arrays:
        require(array, np.int64, writable=True)
    same_length("the arrays for runs differ in length", *arrays)


def _check_pages(page_starts: Int64) -> None:
    if page_starts[0] != 0:
        fail(FAULT_PAGE_STARTS, 0)
    descents = np.flatnonzero(page_starts[1:] < page_starts[:-1])
    if descents.size:
        fail(FAULT_PAGE_STARTS, int(descents[0]) + 1)


def cut_ranges(
    page_starts: Int64, starts: Int64, stops: Int64, out_pages: Int64, out_starts: Int64, out_counts: Int64
) -> int:
    """As :func:`lancecy.kernels.cut_ranges`."""
    for array in (page_starts, starts, stops):
        require(array, np.int64)
    _require_runs(out_pages, out_starts, out_counts)
    if not page_starts.size:
        raise ValueError("page_starts is empty")
    same_length("starts and stops differ in length", starts, stops)
    _check_pages(page_starts)
    size = 0
    for i, (row, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        if row < stop and (row < 0 or stop > page_starts[-1]):
            fail(FAULT_ROW, i)
        while row < stop:
            if size == out_pages.size:
                raise ValueError("there is no room for all runs")
            page = int(np.searchsorted(page_starts, row, side="right")) - 1
            end = min(int(page_starts[page + 1]), stop)
            out_pages[size], out_starts[size], out_counts[size] = page, row - page_starts[page], end - row
            row, size = end, size + 1
    return size


def cut_rows(page_starts: Int64, rows: Int64, out_pages: Int64, out_starts: Int64, out_counts: Int64) -> int:
    """As :func:`lancecy.kernels.cut_rows`."""
    require(page_starts, np.int64)
    require(rows, np.int64)
    _require_runs(out_pages, out_starts, out_counts)
    if not page_starts.size:
        raise ValueError("page_starts is empty")
    same_length("the arrays for runs differ in length", rows, out_pages)
    _check_pages(page_starts)
    outside = np.flatnonzero((rows < 0) | (rows >= page_starts[-1]))
    if outside.size:
        fail(FAULT_ROW, int(outside[0]))
    pages = np.searchsorted(page_starts, rows, side="right") - 1
    is_first = np.ones(rows.size, np.bool_)
    is_first[1:] = (rows[1:] - 1 != rows[:-1]) | (pages[1:] != pages[:-1])
    first = np.flatnonzero(is_first)
    out_pages[: first.size] = pages[first]
    out_starts[: first.size] = rows[first] - page_starts[pages[first]]
    out_counts[: first.size] = np.diff(np.append(first, rows.size))
    return int(first.size)


def distinct_pages(pages: Int64, out_distinct: Int64, out_numbers: Int64) -> int:
    """As :func:`lancecy.kernels.distinct_pages`."""
    require(pages, np.int64)
    require(out_distinct, np.int64, writable=True)
    require(out_numbers, np.int64, writable=True)
    same_length("the arrays differ in length", pages, out_distinct, out_numbers)
    is_new = np.ones(pages.size, np.bool_)
    is_new[1:] = pages[1:] != pages[:-1]
    found = pages[is_new]
    out_distinct[: found.size] = found
    out_numbers[:] = np.cumsum(is_new) - 1
    return int(found.size)
