"""Twin of ``_v20_take``: one run at a time, in Python integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import (
    FAULT_CHUNK_NEGATIVE,
    FAULT_CHUNK_TRUNCATED,
    FAULT_ENDS,
    FAULT_OUT_SIZE,
    FAULT_RUN,
    FAULT_TOO_MANY,
    fail,
)
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["pick_ended"]

Int64 = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]


def _check_page(page: int, ends: int, values: int, size: int, rows: int, memory_size: int) -> None:
    if ends < 0 or values < 0 or size < 0:
        fail(FAULT_CHUNK_NEGATIVE, page)
    if ends + 8 * rows > memory_size or values + size > memory_size:
        fail(FAULT_CHUNK_TRUNCATED, page)


def pick_ended(
    memory: NDArray[np.uint8],
    end_positions: Int64,
    value_positions: Int64,
    value_sizes: Int64,
    adjustments: Int64,
    counts: Int64,
    run_pages: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out_offsets: Offsets,
    out_validity: NDArray[np.uint8],
    out_positions: Int64,
    out_lengths: Int64,
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.pick_ended`."""
    require(memory, np.uint8)
    pages = (end_positions, value_positions, value_sizes, adjustments, counts)
    runs = (run_pages, run_starts, run_counts)
    for numbers in (*pages, *runs):
        require(numbers, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out_validity, np.uint8, writable=True)
    require(out_positions, np.int64, writable=True)
    require(out_lengths, np.int64, writable=True)
    same_length("the arrays of pages differ in length", *pages)
    same_length("the arrays of runs differ in length", *runs, out_positions, out_lengths)
    rows = out_offsets.size - 1
    if rows < 0 or out_validity.size != (rows + 7) // 8:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    most = int(np.iinfo(out_offsets.dtype).max)
    table = list(zip(*(numbers.tolist() for numbers in pages), strict=True))
    offsets: list[int] = [0]
    is_valid: list[bool] = []
    last_page, last_end = -1, 0
    for i, (page, start, count) in enumerate(zip(*(numbers.tolist() for numbers in runs), strict=True)):
        out_positions[i] = out_lengths[i] = 0
        if not 0 <= page < len(table) or start < 0 or count < 0 or start + count > table[page][4]:
            fail(FAULT_RUN, i)
        if not count:
            continue
        row, base = len(is_valid), offsets[-1]
        ends, values, size, adjustment, _ = table[page]
        _check_page(page, ends, values, size, start + count, memory.size)
        if count > rows - row:
            fail(FAULT_OUT_SIZE, i)
        adjustment %= 2**64
        entries = np.frombuffer(memory[ends : ends + 8 * (start + count)].tobytes(), "<u8").tolist()
        plain = [entry - adjustment * (entry >= adjustment) for entry in entries]
        first = before = plain[start - 1] if start else 0
        if page == last_page and first < last_end:
            fail(FAULT_ENDS, row)
        for j in range(start, start + count):
            if plain[j] < before or plain[j] > size:
                fail(FAULT_ENDS, row + j - start)
            if plain[j] - first > most - base:
                fail(FAULT_TOO_MANY, row + j - start)
            before = plain[j]
            offsets.append(base + before - first)
            is_valid.append(entries[j] < adjustment)
        out_positions[i], out_lengths[i] = values + first, before - first
        last_page, last_end = page, before
    if len(is_valid) != rows:
        fail(FAULT_OUT_SIZE, len(run_pages))
    out_offsets[:] = offsets
    out_validity[:] = np.packbits(np.array(is_valid, np.bool_), bitorder="little")
    return offsets[-1], is_valid.count(False)
