"""Twins of ``_varwidth``: offsets of one page at a time as a NumPy array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import (
    FAULT_LIST_OFFSETS,
    FAULT_TOO_MANY_BYTES,
    FAULT_TOO_MANY_ITEMS,
    FAULT_VALUE_OFFSETS,
    fail,
)
from lancecy.kernels.reference.checks import check_runs, require, same_length

__all__ = ["list_offsets", "varwidth_offsets"]


def _load(memory: NDArray[np.uint8], position: int, count: int, width: int) -> NDArray[np.int64]:
    """The ``count + 1`` offsets at a position, as fresh int64."""
    raw = memory[position : position + (count + 1) * width].tobytes()
    return np.frombuffer(raw, f"<i{width}").astype(np.int64)


def _rebase(
    memory: NDArray[np.uint8],
    runs: list[tuple[int, int]],
    width: int,
    bounds: list[int],
    out_offsets: NDArray[Any],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
    faults: tuple[int, int],
) -> int:
    most = int(np.iinfo(out_offsets.dtype).max)
    row = total = 0
    out_offsets[0] = 0
    for i, (position, count) in enumerate(runs):
        out_starts[i] = out_lengths[i] = 0
        if not count:
            continue
        offsets = _load(memory, position, count, width)
        before, after = offsets[:-1], offsets[1:]
        bad = np.flatnonzero((before < 0) | (after < before) | (after > bounds[i]))
        if bad.size:
            fail(faults[0], row + int(bad[0]))
        length = int(offsets[-1]) - int(offsets[0])
        if total + length > most:
            fail(faults[1], row)
        out_offsets[row + 1 : row + count + 1] = after - offsets[0] + total
        out_starts[i] = offsets[0]
        out_lengths[i] = length
        total += length
        row += count
    return total


def varwidth_offsets(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
    file_size: int,
    nullable: bool,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_validity: NDArray[np.uint8],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.varwidth_offsets`."""
    require(memory, np.uint8)
    require(positions, np.int64)
    require(counts, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out_validity, np.uint8, writable=True)
    require(out_starts, np.int64, writable=True)
    require(out_lengths, np.int64, writable=True)
    what = "positions, counts, out_starts and out_lengths differ in length"
    same_length(what, positions, counts, out_starts, out_lengths)
    if file_size < 0:
        raise ValueError("file_size is negative")
    rows = out_offsets.size - 1
    if rows < 0 or out_validity.size != (rows + 7) // 8:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    runs = check_runs(positions, counts, memory.size, extra=1, width=8, capacity=rows)
    bounds = [file_size] * len(runs)
    faults = (FAULT_VALUE_OFFSETS, FAULT_TOO_MANY_BYTES)
    total = _rebase(memory, runs, 8, bounds, out_offsets, out_starts, out_lengths, faults)
    valid = np.diff(out_offsets) > 0 if nullable else np.ones(rows, np.bool_)
    out_validity[:] = np.packbits(valid, bitorder="little")
    return total, rows - int(valid.sum())


def list_offsets(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
    width: int,
    child_lengths: NDArray[np.int64],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> int:
    """As :func:`lancecy.kernels.list_offsets`."""
    require(memory, np.uint8)
    for numbers in (positions, counts, child_lengths):
        require(numbers, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out_starts, np.int64, writable=True)
    require(out_lengths, np.int64, writable=True)
    what = "positions, counts, out_starts and out_lengths differ in length"
    same_length(what, positions, counts, out_starts, out_lengths)
    if width not in (4, 8):
        raise ValueError("width must be 4 or 8")
    rows = out_offsets.size - 1
    if rows < 0 or child_lengths.size != positions.size:
        raise ValueError("out_offsets needs one entry more than rows, and child_lengths one per run")
    runs = check_runs(positions, counts, memory.size, extra=1, width=width, capacity=rows)
    bounds = child_lengths.tolist()
    faults = (FAULT_LIST_OFFSETS, FAULT_TOO_MANY_ITEMS)
    return _rebase(memory, runs, width, bounds, out_offsets, out_starts, out_lengths, faults)
