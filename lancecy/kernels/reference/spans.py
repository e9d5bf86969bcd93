"""Twins of ``_spans``: copies of byte spans and values by slices and index arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_NEGATIVE, FAULT_PAGE_STARTS, FAULT_ROW, FAULT_TRUNCATED, fail
from lancecy.kernels.reference.checks import check_runs, require, same_length

__all__ = ["copy_spans", "gather_fixed", "rows_to_pages"]


def copy_spans(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.copy_spans`."""
    require(memory, np.uint8)
    require(positions, np.int64)
    require(lengths, np.int64)
    require(out, np.uint8, writable=True)
    same_length("positions and lengths differ in length", positions, lengths)
    runs = check_runs(positions, lengths, memory.size, extra=0, width=1, capacity=out.size)
    done = 0
    for position, length in runs:
        if length:
            out[done : done + length] = memory[position : position + length]
        done += length
    return done


def gather_fixed(
    memory: NDArray[np.uint8], positions: NDArray[np.int64], width: int, out: NDArray[np.uint8]
) -> None:
    """As :func:`lancecy.kernels.gather_fixed`."""
    require(memory, np.uint8)
    require(positions, np.int64)
    require(out, np.uint8, writable=True)
    if width < 1:
        raise ValueError("width must be at least 1")
    if out.size != positions.size * width:
        raise ValueError("out does not have one value per position")
    bad = np.flatnonzero((positions < 0) | (positions > memory.size - width))
    if bad.size:
        first = int(bad[0])
        fail(FAULT_NEGATIVE if positions[first] < 0 else FAULT_TRUNCATED, first)
    if positions.size:  # without positions nothing bounds the width
        out.reshape(positions.size, width)[:] = memory[positions[:, None] + np.arange(width)]


def rows_to_pages(
    page_starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    out_page: NDArray[np.int64],
    out_offset: NDArray[np.int64],
) -> None:
    """As :func:`lancecy.kernels.rows_to_pages`."""
    require(page_starts, np.int64)
    require(rows, np.int64)
    require(out_page, np.int64, writable=True)
    require(out_offset, np.int64, writable=True)
    if not page_starts.size:
        raise ValueError("page_starts is empty")
    same_length("out_page and out_offset need one entry per row", rows, out_page, out_offset)
    if page_starts[0] != 0:
        fail(FAULT_PAGE_STARTS, 0)
    descents = np.flatnonzero(page_starts[1:] < page_starts[:-1])
    if descents.size:
        fail(FAULT_PAGE_STARTS, int(descents[0]) + 1)
    outside = np.flatnonzero((rows < 0) | (rows >= page_starts[-1]))
    if outside.size:
        fail(FAULT_ROW, int(outside[0]))
    out_page[:] = np.searchsorted(page_starts, rows, side="right") - 1
    out_offset[:] = rows - page_starts[out_page]
