"""Twins of ``_chunk_runs`` and ``_chunk_values``: rows of mini-block chunks, run by run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.bits import unpack_blocks, unpack_inline
from lancecy.kernels.reference.checks import check_chunk_runs, require, require_table
from lancecy.kernels.reference.offsets import chunk_offsets
from lancecy.kernels.reference.structural import parts_of

__all__ = ["find_chunks", "read_chunks"]

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_PLAIN, _INLINE, _BLOCKS, _TEXT = 1, 2, 3, 4
_MOST_PROGRAMS = 64


def find_chunks(
    chunk_starts: Int64, offsets: Int64, rows: Int64, stops: Int64 | None, out_chunks: Int64, out_runs: Int64
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.find_chunks`."""
    for array in (chunk_starts, offsets, rows, *(() if stops is None else (stops,))):
        require(array, np.int64)
    require_table(out_chunks, writable=True)
    require_table(out_runs, writable=True)
    if not chunk_starts.size:
        raise ValueError("chunk_starts is empty")
    if offsets.size != chunk_starts.size or (stops is not None and stops.size != rows.size):
        raise ValueError("arrays of chunks or of ranges differ in length")
    if len(out_chunks) != 3 or len(out_runs) != 3:
        raise ValueError("out_chunks and out_runs need three rows")
    descents = np.flatnonzero(np.diff(chunk_starts, prepend=0) < 0)
    if chunk_starts[0] or descents.size:
        fail(Fault.PAGE_STARTS, 0 if chunk_starts[0] else int(descents[0]))
    chunks: list[int] = []
    runs: list[list[int]] = []
    follows = -1
    for chunk, row, count in _cuts(chunk_starts, rows, stops):
        is_new = not chunks or chunks[-1] != chunk
        if is_new:
            chunks.append(chunk)
        if not is_new and row == follows:
            runs[-1][2] += count
        else:
            runs.append([len(chunks) - 1, row - int(chunk_starts[chunk]), count])
        follows = row + count
        if min(out_chunks.size, out_runs.size) == 0 or (
            len(chunks) > out_chunks.shape[1] or len(runs) > out_runs.shape[1]
        ):
            raise ValueError("there is no room for all chunks and runs")
    for column, chunk in enumerate(chunks):
        first, last = slice(chunk, chunk + 1), slice(chunk + 1, chunk + 2)
        out_chunks[:, column] = np.concatenate(
            (offsets[first], offsets[last] - offsets[first], chunk_starts[last] - chunk_starts[first])
        )
    if runs:
        out_runs[:, : len(runs)] = np.array(runs).T
    return len(chunks), len(runs)


def _cuts(chunk_starts: Int64, rows: Int64, stops: Int64 | None) -> Iterator[tuple[int, int, int]]:
    """Chunk, first row and number of rows of each part of a range within one chunk."""
    bounds = chunk_starts.tolist()
    ends = [row + 1 for row in rows.tolist()] if stops is None else stops.tolist()
    for i, (row, stop) in enumerate(zip(rows.tolist(), ends, strict=True)):
        if not 0 <= row < min(stop, bounds[-1]) or stop > bounds[-1]:
            fail(Fault.ROW, i)
        chunk = int(np.searchsorted(chunk_starts, row, side="right")) - 1
        while row < stop:
            while bounds[chunk + 1] <= row:
                chunk += 1
            end = min(bounds[chunk + 1], stop)
            yield chunk, row, end - row
            row = end


def _check_codec(codec: list[int], is_level: bool) -> None:
    kind, bits, packed, _ = codec
    if not (0 if is_level else _PLAIN) <= kind <= (_BLOCKS if is_level else _TEXT):
        raise ValueError("a program has an unknown kind of levels or values")
    if kind == 0:
        return
    impossible = bits <= 0 or bits & 7 or bits >> 3 > 2**31 - 1 or (is_level and bits != 16)
    if impossible or (kind == _TEXT and bits not in (32, 64)):
        raise ValueError("a program has levels or values of an impossible width")
    if kind in (_INLINE, _BLOCKS) and bits not in (8, 16, 32, 64):
        raise ValueError("bits must be 8, 16, 32 or 64")
    if kind == _BLOCKS and not 0 <= packed <= bits:
        raise ValueError("a program has levels or values of an impossible width")


def _check_program(program: list[int]) -> None:
    if program[0] not in {2, 4}:
        raise ValueError("size_width must be 2 or 4")
    if not 0 <= program[3] <= 0xFFFF:
        raise ValueError("num_buffers is negative or too large")
    if not 0 <= program[4] < program[3]:
        raise ValueError("a program has no buffer of that number")
    _check_codec(program[5:9], is_level=True)
    _check_codec(program[9:], is_level=False)
    if program[5] and not program[2]:
        raise ValueError("a program has levels that no chunk has")


def _check_programs(programs: list[list[int]]) -> None:
    if not 0 < len(programs) <= _MOST_PROGRAMS:
        raise ValueError("there must be one program, and at most 64")
    for program in programs:
        _check_program(program)
        first, mine = ((each[9] == _TEXT, each[10] >> 3) for each in (programs[0], program))
        if first != mine:
            raise ValueError("programs differ in the width of their values")


def _room(
    programs: list[list[int]],
    levels: NDArray[np.uint16] | None,
    values: Bytes,
    spans: Int64 | None,
    num_runs: int,
) -> int:
    """How many values the outputs have room for."""
    is_text, nbytes = programs[0][9] == _TEXT, programs[0][10] >> 3
    has_levels = any(program[5] for program in programs)
    if values.size % nbytes or (is_text and not values.size):
        raise ValueError("out_values does not have the size of whole values")
    room = values.size // nbytes - is_text
    if (levels is None) == has_levels or (spans is None) == is_text:
        raise ValueError("out_levels and out_spans are for levels and for strings, and they need them")
    if levels is not None and levels.size != room:
        raise ValueError("out_levels needs one entry per value")
    if spans is not None and spans.shape != (2, num_runs):
        raise ValueError("out_spans needs two rows of one entry per run")
    return room


def read_chunks(
    memory: Bytes,
    chunks: Int64,
    num_chunks: int,
    runs: Int64,
    num_runs: int,
    programs: Int64,
    program_numbers: Int64 | None,
    out_levels: NDArray[np.uint16] | None,
    out_values: Bytes,
    out_spans: Int64 | None,
) -> None:
    """As :func:`lancecy.kernels.read_chunks`."""
    require(memory, np.uint8)
    require_table(chunks)
    require_table(runs)
    require_table(programs)
    if program_numbers is not None:
        require(program_numbers, np.int64)
    if out_levels is not None:
        require(out_levels, np.uint16, writable=True)
    require(out_values, np.uint8, writable=True)
    if out_spans is not None:
        require_table(out_spans, writable=True)
    parsed: list[list[int]] = programs.tolist()
    if programs.shape[1] != 13:
        raise ValueError("a program has 13 numbers")
    _check_programs(parsed)
    if len(chunks) != 3 or len(runs) != 3:
        raise ValueError("chunks and runs need three rows")
    if not 0 <= num_chunks <= chunks.shape[1] or not 0 <= num_runs <= runs.shape[1]:
        raise ValueError("more chunks or runs than their tables have")
    which = [0] * num_chunks if program_numbers is None else program_numbers[:num_chunks].tolist()
    if len(which) < num_chunks:
        raise ValueError("program_numbers has fewer entries than there are chunks")
    if any(not 0 <= number < len(parsed) for number in which):
        raise ValueError("a chunk has a program that is not there")
    room = _room(parsed, out_levels, out_values, out_spans, num_runs)
    positions, lengths, counts = chunks[:, :num_chunks].copy()
    check_chunk_runs(memory, (positions, lengths, counts), tuple(runs[:, :num_runs].copy()), room)
    parts = np.zeros((2, 2, num_chunks), np.int64)
    row, nbytes = 0, parsed[0][10] >> 3
    if out_spans is not None:
        out_values[:nbytes] = 0
        out_spans[:] = 0
    for r, (chunk, start, count) in enumerate(runs[:, :num_runs].T.tolist()):
        if not count:
            continue
        numbers = parsed[which[chunk]]
        parts[:, :, chunk] = _parts(memory, int(positions[chunk]), int(lengths[chunk]), numbers, chunk)
        stated = memory[int(positions[chunk]) :][:2].tobytes()
        if numbers[5] and (int.from_bytes(stated, "little") ^ int(counts[chunk])) & 0xFFFF:
            fail(Fault.LEVEL_COUNT, chunk)
        run = (np.array([chunk]), np.array([start]), np.array([count]))
        if out_levels is not None:
            mine = out_levels[row : row + count].view(np.uint8)
            mine[:] = 0
            if numbers[5]:
                _decode(numbers[5:9], memory, (*parts[0], counts), run, mine)
        if out_spans is None:
            mine = out_values[row * nbytes : (row + count) * nbytes]
            _decode(numbers[9:], memory, (*parts[1], counts), run, mine)
        else:
            # From the first run on, so that rows and bytes are counted from there.
            offsets = np.empty(row + count + 1, f"<i{nbytes}")
            first, sizes = np.empty((2, r + 1), np.int64)
            at, lengths_of = parts[1]
            of_chunks, firsts, so_far = runs[:, : r + 1].copy()
            chunk_offsets(
                memory, at, lengths_of, counts, nbytes, of_chunks, firsts, so_far, offsets, first, sizes
            )
            out_values[: offsets.nbytes] = offsets.view(np.uint8)
            out_spans[:, : r + 1] = first, sizes
        row += count


def _parts(
    memory: Bytes, position: int, length: int, program: list[int], number: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Position and bytes of the definition levels, and of the values."""
    has_rep, has_def = program[1] != 0, program[2] != 0
    chunk = memory[position : position + length].tobytes()
    parts = parts_of(chunk, has_rep, has_def, program[3], program[0])
    if len(parts) != has_rep + has_def + program[3] or length < 2:
        fail(Fault.CHUNK_PARTS, number)
    placed = [(position + start, size) for start, size in parts]
    levels = placed[int(has_rep)] if has_def else (position, 0)
    return levels, placed[has_rep + has_def + program[4]]


def _decode(
    codec: list[int],
    memory: Bytes,
    chunks: tuple[Int64, Int64, Int64],
    run: tuple[Int64, Int64, Int64],
    out: Bytes,
) -> None:
    kind, bits, packed, raw_tail = codec
    if kind == _INLINE:
        unpack_inline(memory, *chunks, bits, *run, out)
    elif kind == _BLOCKS:
        unpack_blocks(memory, *chunks, bits, packed, raw_tail != 0, *run, out)
    else:
        chunk, start = int(run[0][0]), int(run[1][0])
        position, size, stored = (int(numbers[chunk]) for numbers in chunks)
        if stored > size // (bits >> 3):
            fail(Fault.CHUNK_SHORT, chunk)
        first = position + start * (bits >> 3)
        out[:] = memory[first : first + out.size]
