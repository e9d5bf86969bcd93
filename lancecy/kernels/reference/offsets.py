"""Twins of ``_offsets``, ``_varwidth``, ``_v20_offsets`` and ``_v20_take``: offsets of a chunk, page or run at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import check_chunk_runs, check_runs, checked, same_length

__all__ = [
    "chunk_offsets",
    "ended_offsets",
    "list_offsets",
    "pick_ended",
    "varwidth_offsets",
    "zipped_offsets",
]


Int64 = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]


@checked
def chunk_offsets(
    memory: NDArray[np.uint8],
    positions: Int64,
    lengths: Int64,
    counts: Int64,
    width: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out_offsets: Offsets,
    out_starts: Int64,
    out_lengths: Int64,
) -> int:
    """As :func:`lancecy.kernels.chunk_offsets`."""
    if width not in {4, 8}:
        raise ValueError("width must be 4 or 8")
    same_length("out_starts and out_lengths need one entry per run", run_chunks, out_starts, out_lengths)
    if out_offsets.size < 1:
        raise ValueError("out_offsets needs one entry more than values")
    chunks = (positions, lengths, counts)
    check_chunk_runs(memory, chunks, (run_chunks, run_starts, run_counts), out_offsets.size - 1)
    most = int(np.iinfo(out_offsets.dtype).max)
    row = total = 0
    out_offsets[0] = 0
    for r, count in enumerate(run_counts.tolist()):
        out_starts[r] = out_lengths[r] = 0
        if not count:
            continue
        chunk, start = int(run_chunks[r]), int(run_starts[r])
        position, length, stored = (int(numbers[chunk]) for numbers in chunks)
        if stored + 1 > length // width:
            fail(Fault.CHUNK_SHORT, chunk)
        first = position + start * width
        raw = memory[first : first + (count + 1) * width].tobytes()
        offsets = np.frombuffer(raw, f"<i{width}").astype(np.int64)
        before, after = offsets[:-1], offsets[1:]
        bad = np.flatnonzero((before < (stored + 1) * width) | (after < before) | (after > length))
        if bad.size:
            fail(Fault.CHUNK_OFFSETS, row + int(bad[0]))
        nbytes = int(offsets[-1]) - int(offsets[0])
        if total + nbytes > most:
            fail(Fault.TOO_MANY, row)
        out_offsets[row + 1 : row + count + 1] = after - offsets[0] + total
        out_starts[r] = position + int(offsets[0])
        out_lengths[r] = nbytes
        total += nbytes
        row += count
    return total


@checked
def zipped_offsets(lengths: Int64, out_offsets: Offsets) -> int:
    """As :func:`lancecy.kernels.zipped_offsets`."""
    if out_offsets.size != lengths.size + 1:
        raise ValueError("out_offsets needs one entry more than lengths")
    most = int(np.iinfo(out_offsets.dtype).max)
    offsets = [0]
    for i, length in enumerate(lengths.tolist()):
        if length < 0:
            fail(Fault.LENGTH, i)
        if offsets[-1] + length > most:
            fail(Fault.TOO_MANY, i)
        offsets.append(offsets[-1] + length)
    out_offsets[:] = offsets
    return offsets[-1]


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
    faults: tuple[Fault, Fault],
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


@checked
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
    what = "positions, counts, out_starts and out_lengths differ in length"
    same_length(what, positions, counts, out_starts, out_lengths)
    if file_size < 0:
        raise ValueError("file_size is negative")
    rows = out_offsets.size - 1
    if rows < 0 or out_validity.size != (rows + 7) // 8:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    runs = check_runs(positions, counts, memory.size, extra=1, width=8, capacity=rows)
    bounds = [file_size] * len(runs)
    faults = (Fault.VALUE_OFFSETS, Fault.TOO_MANY_BYTES)
    total = _rebase(memory, runs, 8, bounds, out_offsets, out_starts, out_lengths, faults)
    valid = np.diff(out_offsets) > 0 if nullable else np.ones(rows, np.bool_)
    out_validity[:] = np.packbits(valid, bitorder="little")
    return total, rows - int(valid.sum())


@checked
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
    what = "positions, counts, out_starts and out_lengths differ in length"
    same_length(what, positions, counts, out_starts, out_lengths)
    if width not in (4, 8):
        raise ValueError("width must be 4 or 8")
    rows = out_offsets.size - 1
    if rows < 0 or child_lengths.size != positions.size:
        raise ValueError("out_offsets needs one entry more than rows, and child_lengths one per run")
    runs = check_runs(positions, counts, memory.size, extra=1, width=width, capacity=rows)
    bounds = child_lengths.tolist()
    faults = (Fault.LIST_OFFSETS, Fault.TOO_MANY_ITEMS)
    return _rebase(memory, runs, width, bounds, out_offsets, out_starts, out_lengths, faults)


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
        fail(Fault.NEGATIVE, run)
    if previous + 8 > memory.size:
        fail(Fault.TRUNCATED, run)
    return _ends(memory, previous, 1, adjustment)[0][0]


@checked
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
                fail(Fault.ENDS, row + j)
            before = end
        if base + before - start > most:
            fail(Fault.TOO_MANY, row)
        offsets.extend(base + end - start for end in ends)
        nulls[row : row + count] = is_null
        out_starts[i] = start
        out_lengths[i] = before - start
    out_offsets[:] = offsets
    out_validity[:] = np.packbits(~nulls, bitorder="little")
    return offsets[-1], int(nulls.sum())


def _check_page(page: int, ends: int, values: int, size: int, rows: int, memory_size: int) -> None:
    if ends < 0 or values < 0 or size < 0:
        fail(Fault.CHUNK_NEGATIVE, page)
    if ends + 8 * rows > memory_size or values + size > memory_size:
        fail(Fault.CHUNK_TRUNCATED, page)


@checked
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
    pages = (end_positions, value_positions, value_sizes, adjustments, counts)
    runs = (run_pages, run_starts, run_counts)
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
            fail(Fault.RUN, i)
        if not count:
            continue
        row, base = len(is_valid), offsets[-1]
        ends, values, size, adjustment, _ = table[page]
        _check_page(page, ends, values, size, start + count, memory.size)
        if count > rows - row:
            fail(Fault.OUT_SIZE, i)
        adjustment %= 2**64
        entries = np.frombuffer(memory[ends : ends + 8 * (start + count)].tobytes(), "<u8").tolist()
        plain = [entry - adjustment * (entry >= adjustment) for entry in entries]
        first = before = plain[start - 1] if start else 0
        if page == last_page and first < last_end:
            fail(Fault.ENDS, row)
        for j in range(start, start + count):
            if plain[j] < before or plain[j] > size:
                fail(Fault.ENDS, row + j - start)
            if plain[j] - first > most - base:
                fail(Fault.TOO_MANY, row + j - start)
            before = plain[j]
            offsets.append(base + before - first)
            is_valid.append(entries[j] < adjustment)
        out_positions[i], out_lengths[i] = values + first, before - first
        last_page, last_end = page, before
    if len(is_valid) != rows:
        fail(Fault.OUT_SIZE, len(run_pages))
    out_offsets[:] = offsets
    out_validity[:] = np.packbits(np.array(is_valid, np.bool_), bitorder="little")
    return offsets[-1], is_valid.count(False)
