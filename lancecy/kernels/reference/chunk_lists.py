"""Twin of ``_chunk_lists``, and of the search for chunks of lists: rows of lists, chunk by chunk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.bits import unpack_blocks, unpack_inline
from lancecy.kernels.reference.checks import require, require_table

__all__ = ["find_lists", "read_lists"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

_PLAIN, _INLINE, _BLOCKS = 1, 2, 3


def find_lists(
    begins: Int64,
    ends: Int64,
    rows: Int64,
    stops: Int64 | None,
    out_chunks: Int64,
    out_groups: Int64,
    out_ranges: Int64,
) -> tuple[int, int, int]:
    """As :func:`lancecy.kernels.find_lists`."""
    for array in (begins, ends, rows, *(() if stops is None else (stops,))):
        require(array, np.int64)
    for array in (out_chunks, out_groups):
        require(array, np.int64, writable=True)
    require_table(out_ranges, writable=True)
    if begins.size != ends.size + 1 or out_chunks.size != ends.size:
        raise ValueError("arrays of chunks differ in length")
    if stops is not None and stops.size != rows.size:
        raise ValueError("arrays of ranges differ in length")
    if out_groups.size != rows.size + 1 or out_ranges.shape != (3, rows.size):
        raise ValueError("out_groups and out_ranges need one entry per row")
    lasts = [row + 1 for row in rows.tolist()] if stops is None else stops.tolist()
    chunks: list[int] = []
    groups: list[int] = []
    ranges: list[list[int]] = []
    first = last = before = 0
    follows = -1
    for i, (row, stop) in enumerate(zip(rows.tolist(), lasts, strict=True)):
        if not 0 <= row < stop <= begins[-1] or not ends.size:
            fail(Fault.ROW, i)
        while first + 1 < ends.size and begins[first + 1] <= row:
            first += 1
        while last + 1 < ends.size and ends[last] < stop:
            last += 1
        if stop > ends[last] or last < first:
            fail(Fault.ROW, i)
        if stops is None and row == follows:
            ranges[-1][2] += 1
        else:
            if not groups or first > chunks[-1] + 1:
                groups.append(len(chunks))
                before = int(begins[first])
            ranges.append([len(groups) - 1, row - before, stop - before])
        follows = stop
        chunks += range(max(first, chunks[-1] + 1) if chunks else first, last + 1)
    out_chunks[: len(chunks)] = chunks
    out_groups[: len(groups) + 1] = [*groups, len(chunks)]
    out_ranges[:, : len(ranges)] = np.array(ranges, np.int64).reshape(-1, 3).T
    return len(chunks), len(groups), len(ranges)


def _check(
    found: Int64,
    counts: Int64,
    begun: Int64 | None,
    groups: Int64,
    ranges: Int64,
    runs: Int64,
    num_levels: int,
) -> None:
    if len(found) < 5 or found.shape[1] != counts.size or len(ranges) != 3 or len(runs) != 3:
        raise ValueError("arrays of chunks, ranges or runs do not have their size")
    if begun is not None and begun.size != counts.size:
        raise ValueError("arrays of chunks, ranges or runs do not have their size")
    if runs.shape[1] < ranges.shape[1] + counts.size:
        raise ValueError("out_runs needs one entry per range and per chunk")
    edges = groups.tolist()
    if not edges or edges[0] != 0 or edges != sorted(edges) or edges[-1] != counts.size:
        raise ValueError("groups must ascend to the number of chunks")
    sizes = found[0].tolist()
    if any(not 0 <= size <= 0xFFFF for size in sizes):
        raise ValueError("a chunk has an impossible number of levels")
    if any(not 0 <= start < stop for _, start, stop in ranges.T.tolist()):
        raise ValueError("ranges must not be empty")
    if sum(sizes) != num_levels:
        raise ValueError("out_rep and out_def need one entry per level")


def _check_program(program: list[int], has_definition: bool) -> None:
    if len(program) != 10 or not 0 <= program[8] <= 0xFFFF or not 0 <= program[9] <= 0xFFFF:
        raise ValueError("a program of lists has 10 numbers, of which two are levels")
    for kind, bits, packed, _ in (program[:4], program[4:8]):
        if not 0 <= kind <= _BLOCKS or (kind and bits != 16) or not 0 <= packed <= 16:
            raise ValueError("a program has an unknown kind of levels")
    if not program[0] or bool(program[4]) != has_definition:
        raise ValueError("lists have repetition levels, and out_def is for definition levels")


def _levels(
    memory: NDArray[np.uint8], position: int, size: int, codec: list[int], count: int, chunk: int
) -> Levels:
    """All levels of a chunk."""
    kind, _, packed, raw_tail = codec
    if position < 0 or size < 0:
        fail(Fault.NEGATIVE, chunk)
    if position + size > memory.size:
        fail(Fault.TRUNCATED, chunk)
    out = np.empty(count, np.uint16)
    if not count:
        return out
    if size // 2 < count and kind == _PLAIN:
        fail(Fault.CHUNK_SHORT, chunk)
    # As many chunks as come before, so that an error names this one.
    positions, sizes, counts = np.zeros((3, chunk + 1), np.int64)
    positions[chunk], sizes[chunk], counts[chunk] = position, size, count
    run = (np.array([chunk]), np.array([0]), np.array([count]))
    if kind == _INLINE:
        unpack_inline(memory, positions, sizes, counts, 16, *run, out.view(np.uint8))
    elif kind == _BLOCKS:
        unpack_blocks(memory, positions, sizes, counts, 16, packed, raw_tail != 0, *run, out.view(np.uint8))
    else:
        out[:] = np.frombuffer(memory[position : position + 2 * count].tobytes(), "<u2")
    return out


def _pieces(
    rep: list[int], slots: list[int], bounds: list[int], range_: list[int], max_rep: int
) -> list[tuple[int, int, int, int]] | None:
    """Chunk, first and last level and number of slots of a range in the levels of a group; None if rows are missing.

    ``slots`` are running sums of the slots before each level, and ``bounds`` the levels at which chunks begin.
    """
    starts = [place for place, level in enumerate(rep) if level == max_rep]
    edges = [*starts, len(rep)]
    _, first, stop = range_
    if stop >= len(edges):
        return None
    begin, end = edges[first], edges[stop]
    found = []
    for chunk in range(len(bounds) - 1):
        low, high = max(begin, bounds[chunk]), min(end, bounds[chunk + 1])
        if low < high:
            found.append((chunk, low, high, slots[high] - slots[low]))
    return found


def read_lists(
    memory: NDArray[np.uint8],
    found: Int64,
    counts: Int64,
    begun: Int64 | None,
    groups: Int64,
    ranges: Int64,
    program: Int64,
    out_rep: Levels,
    out_def: Levels | None,
    out_runs: Int64,
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.read_lists`."""
    require(memory, np.uint8)
    for array in (counts, groups, program, *(() if begun is None else (begun,))):
        require(array, np.int64)
    for levels in (out_rep, *(() if out_def is None else (out_def,))):
        require(levels, np.uint16, writable=True)
    for table in (found, ranges):
        require_table(table)
    require_table(out_runs, writable=True)
    numbers = program.tolist()
    _check_program(numbers, out_def is not None)
    if out_def is not None and out_def.size != out_rep.size:
        raise ValueError("out_rep and out_def need one entry per level")
    _check(found, counts, begun, groups, ranges, out_runs, out_rep.size)
    wanted = ranges.T.tolist()
    done = num_runs = at = 0
    for group in range(groups.size - 1):
        chunks = range(int(groups[group]), int(groups[group + 1]))
        loaded = [_loaded(memory, found, counts, begun, numbers, chunk) for chunk in chunks]
        rep = np.concatenate([np.empty(0, np.uint16), *(levels for levels, _ in loaded)])
        definition = np.concatenate([np.empty(0, np.uint16), *(levels for _, levels in loaded)])
        bounds = [0, *np.cumsum([levels.size for levels, _ in loaded], dtype=np.int64).tolist()]
        slots = [0, *np.cumsum(definition <= numbers[9], dtype=np.int64).tolist()]
        while at < len(wanted) and wanted[at][0] <= group:
            pieces = _pieces(rep.tolist(), slots, bounds, wanted[at], numbers[8])
            follows = at == 0 or wanted[at - 1][0] < group or wanted[at - 1][2] <= wanted[at][1]
            if pieces is None or wanted[at][0] < group or not follows:
                fail(Fault.GROUP_ROW, at)
            for chunk, low, high, count in pieces:
                out_rep[done : done + high - low] = rep[low:high]
                if out_def is not None:
                    out_def[done : done + high - low] = definition[low:high]
                done += high - low
                if count:
                    first_slot = slots[low] - slots[bounds[chunk]]
                    out_runs[:, num_runs] = chunks[chunk], first_slot, count
                    num_runs += 1
            at += 1
    if at < len(wanted):
        fail(Fault.GROUP_ROW, at)
    for levels in (out_rep, *(() if out_def is None else (out_def,))):
        levels[done:] = 0
    return done, num_runs


def _loaded(
    memory: NDArray[np.uint8],
    found: Int64,
    counts: Int64,
    begun: Int64 | None,
    program: list[int],
    chunk: int,
) -> tuple[Levels, Levels]:
    """Repetition and definition levels of a chunk; where there are none of the latter, zeros."""
    num_levels, at, size, def_at, def_size = found[:5, chunk].tolist()
    rep = _levels(memory, at, size, program[:4], num_levels, chunk)
    definition = np.zeros(num_levels, np.uint16)
    if program[4]:
        definition = _levels(memory, def_at, def_size, program[4:8], num_levels, chunk)
    visible = definition <= program[9] if program[4] else np.ones(num_levels, np.bool_)
    if int(visible.sum()) != counts[chunk]:
        fail(Fault.LEVEL_COUNT, chunk)
    if (rep > program[8]).any():
        fail(Fault.LEVEL, chunk)
    if begun is not None and begun[chunk] >= 0 and int((rep == program[8]).sum()) != begun[chunk]:
        fail(Fault.ROW_COUNT, chunk)
    return rep, definition
