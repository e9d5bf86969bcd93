"""Twin of ``_v20_offsets``: one row at a time, in Python integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_ENDS, FAULT_NEGATIVE, FAULT_TOO_MANY, FAULT_TRUNCATED, fail
from lancecy.kernels.reference.checks import check_runs, require, same_length

__all__ = ["ended_offsets"]

Int64 = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]


def _ends(
    memory: NDArray[np.uint8], position: int, count: int, adjustment: int
) -> tuple[list[int], list[bool]]:
    raw = memory[position : position + 8 * count].tobytes()
    entries = np.frombuffer(raw, "<u8").tolist()
    is_null = [entry >= adjustment for entry in entries]
    return [entry - adjustment * null for entry, null in zip(entries, is_null, strict=True)], is_null


def _start(memory: NDArray[np.uint8], previous: int, adjustment: int, run: int) -> int:
    if previous == -1:
        return 0
    if previous < 0:
        fail(FAULT_NEGATIVE, run)
    if previous + 8 > memory.size:
        fail(FAULT_TRUNCATED, run)
    return _ends(memory, previous, 1, adjustment)[0][0]


def ended_offsets(
    memory: NDArray[np.uint8],
    positions: Int64,
    counts: Int64,
    previous: Int64,
    adjustments: Int64,
    value_sizes: Int64,
    out_offsets: Offsets,
    out_validity: NDArray[np.uint8],
    out_starts: Int64,
    out_lengths: Int64,
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.ended_offsets`."""
    require(memory, np.uint8)
    for numbers in (positions, counts, previous, adjustments, value_sizes):
        require(numbers, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out_validity, np.uint8, writable=True)
    require(out_starts, np.int64, writable=True)
    require(out_lengths, np.int64, writable=True)
    runs_of = (positions, counts, previous, adjustments, value_sizes, out_starts, out_lengths)
    same_length("the arrays of runs differ in length", *runs_of)
    rows = out_offsets.size - 1
    if rows < 0 or out_validity.size != (rows + 7) // 8:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    runs = check_runs(positions, counts, memory.size, extra=0, width=8, capacity=rows)
    most = int(np.iinfo(out_offsets.dtype).max)
    offsets, nulls = [0], np.zeros(rows, np.bool_)
    for i, (position, count) in enumerate(runs):
        out_starts[i] = out_lengths[i] = 0
        if not count:
            continue
        adjustment = int(adjustments[i]) % 2**64
        row, base = len(offsets) - 1, offsets[-1]
        start = before = _start(memory, int(previous[i]), adjustment, i)
        ends, is_null = _ends(memory, position, count, adjustment)
        for j, end in enumerate(ends):
            if end < before or end > int(value_sizes[i]):
                fail(FAULT_ENDS, row + j)
            before = end
        if base + before - start > most:
            fail(FAULT_TOO_MANY, row)
        offsets.extend(base + end - start for end in ends)
        nulls[row : row + count] = is_null
        out_starts[i] = start
        out_lengths[i] = before - start
    out_offsets[:] = offsets
    out_validity[:] = np.packbits(~nulls, bitorder="little")
    return offsets[-1], int(nulls.sum())
