"""Decodes levels and values of rows of mini-block chunks.

What the chunks of a page have in common is a program: thirteen numbers that say where levels and values are
and how they are coded. Chunks of pages that are coded in different ways have several. Each chunk is visited
once: its header is parsed, and the levels and values of its rows are decoded.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from bitpack cimport BLOCK, ROW_BYTES, Packing, blocks_run, inline_run
from chunk_parts cimport Place, part_into
from chunk_programs cimport BLOCKS, INLINE, MOST_PROGRAMS, TEXT, Codec, Program, programs_into
from cursor cimport (
    FAULT_CHUNK_OFFSETS, FAULT_CHUNK_PARTS, FAULT_CHUNK_SHORT, FAULT_LEVEL_COUNT, FAULT_NONE, FAULT_TOO_MANY,
    ChunkRuns, Fault, check_chunk_runs, load16, prefetch,
)
from fastlanes cimport row_of
from offsets cimport Raw, first_bad_offset, rebase_offsets, signed_offset

from lancecy.kernels._codes import fail

__all__ = ["read_chunks"]

cdef enum:
    AHEAD = 16  # chunks to prefetch ahead: for scattered rows every header is on its own page of memory
    RUNS_AHEAD = 8  # runs to prefetch ahead, and the longest runs for which it pays
    SHORT = 4


cdef struct Parts:  # of a chunk, and how many levels it states, modulo 65536
    int64_t num_levels
    int64_t levels
    int64_t levels_size
    int64_t values
    int64_t values_size

cdef struct Output:  # where the next levels and values go; `total` bytes of strings precede them
    uint8_t *levels
    uint8_t *values
    int64_t *starts
    int64_t *lengths
    int64_t total
    int64_t row


cdef int32_t _parts(
    const uint8_t *memory, int64_t position, int64_t length, const Program *program, Parts *parts
) except -2 nogil:
    # Parse the header of a chunk; returns a fault.
    # bounds: the chunk is in memory and holds its header before any size is read.
    cdef Place place = Place(memory + position, (program.header.nbytes + 7) & ~<int64_t> 7, 0)
    cdef int64_t start = 0, size = 0
    cdef Py_ssize_t b
    if length < program.header.nbytes:
        return FAULT_CHUNK_PARTS
    parts.num_levels = load16(place.at)
    place.at += 2
    if part_into(&place, program.header.rep_bytes, length, position, &start, &size) < 0:
        return FAULT_CHUNK_PARTS
    if part_into(&place, program.header.def_bytes, length, position, &parts.levels, &parts.levels_size) < 0:
        return FAULT_CHUNK_PARTS
    for b in range(program.header.num_buffers):
        if part_into(&place, program.header.size_width, length, position, &start, &size) < 0:
            return FAULT_CHUNK_PARTS
        if b == program.buffer:
            parts.values, parts.values_size = start, size
    return FAULT_NONE


cdef int32_t _decode(
    Codec *codec, const uint8_t *at, int64_t size, int64_t stored, int64_t start, int64_t count, uint8_t *out
) except -1 nogil:
    # bounds: `size` bytes are at `at`, start + count <= stored, and out has room for count values.
    if codec.kind == INLINE:
        return inline_run(at, size, stored, start, count, &codec.packing, out)
    if codec.kind == BLOCKS:
        return blocks_run(at, size, stored, start, count, &codec.packing, codec.raw_tail, out)
    if stored > size // codec.nbytes:
        return FAULT_CHUNK_SHORT
    memcpy(out, at + start * codec.nbytes, count * codec.nbytes)
    return FAULT_NONE


cdef int32_t _strings(
    const uint8_t *at, int64_t size, int64_t stored, int64_t start, int64_t count, Raw kind, Output *out,
    Py_ssize_t run, Fault *fault,
) except -1 nogil:
    # Rebase the offsets of a run, and note where its bytes are in the buffer; returns a fault.
    # bounds: as _decode; there is an offset more than values, and an entry for every run.
    cdef int64_t width = sizeof(Raw), first, last, most = INT32_MAX if Raw is uint32_t else INT64_MAX
    cdef uint64_t bad, shift
    if stored >= size // width:
        return FAULT_CHUNK_SHORT
    at += start * width
    first, last = signed_offset(at, 0, kind), signed_offset(at, count, kind)
    shift = <uint64_t> first - <uint64_t> out.total
    if Raw is uint32_t:
        bad = rebase_offsets(at, count, shift, kind, <int32_t *> out.values + 1)
    else:
        bad = rebase_offsets(at, count, shift, kind, <int64_t *> out.values + 1)
    if bad != 0 or first < (stored + 1) * width or last < first or last > size:
        fault.index = out.row + first_bad_offset(at, count, (stored + 1) * width, size, kind)
        return FAULT_CHUNK_OFFSETS
    if last - first > most - out.total:
        fault.index = out.row
        return FAULT_TOO_MANY
    out.starts[run], out.lengths[run] = first, last - first
    out.total += last - first
    return FAULT_NONE


cdef int32_t _values(
    Program *program, const uint8_t *memory, const Parts *parts, int64_t stored, int64_t start, int64_t count,
    Output *out, Py_ssize_t run, Fault *fault,
) except -1 nogil:
    # The values of a run; returns a fault. bounds: as _read.
    cdef const uint8_t *at = memory + parts.values
    cdef int32_t code
    if program.values.kind != TEXT:
        return _decode(&program.values, at, parts.values_size, stored, start, count, out.values)
    if program.values.nbytes == 4:
        code = _strings(at, parts.values_size, stored, start, count, <uint32_t> 0, out, run, fault)
    else:
        code = _strings(at, parts.values_size, stored, start, count, <uint64_t> 0, out, run, fault)
    if code == FAULT_NONE:
        out.starts[run] += parts.values
    return code


cdef int64_t _place_in(const Packing *packing, int64_t start) except? -1 nogil:
    # Where in its block the word of a value begins, in bytes.
    cdef int64_t place = start & (BLOCK - 1), lane = place & (packing.lanes - 1)
    cdef uint64_t bit = row_of(<uint64_t> (place - lane)) * packing.width
    return <int64_t> (ROW_BYTES * (bit >> packing.shift) + <uint64_t> lane * packing.nbytes)


cdef int64_t _expect(
    const ChunkRuns *runs, Py_ssize_t r, int64_t chunk, const uint8_t *memory, int64_t memory_size,
    const Program *program, const Parts *parts,
) except -1 nogil:
    # Prefetch the first value of a run, as if its chunk were laid out like the chunk of the parts.
    # bounds: check_chunk_runs has checked the chunk of a run that is not empty. Nothing is read, and the
    # place is compared with the memory before it is named. Values have less than 2^31 bytes, so no product
    # overflows.
    cdef int64_t start = runs.starts[r], at, within = parts.values - runs.positions[chunk]
    if runs.run_counts[r] <= 0 or start > INT32_MAX:
        return 0
    if program.values.kind == INLINE:
        at = program.values.nbytes + _place_in(&program.values.packing, start)
    elif program.values.kind == BLOCKS:
        at = (start >> 10) * <int64_t> (ROW_BYTES * program.values.packing.width)
        at += _place_in(&program.values.packing, start)
    else:
        at = start * program.values.nbytes
    if within < 0 or at >= memory_size - within:
        return 0
    at += within
    if runs.positions[runs.chunks[r]] < memory_size - at:
        prefetch(memory + runs.positions[runs.chunks[r]] + at)
    return 0


cdef int32_t _levels(
    Program *program, const uint8_t *memory, const Parts *parts, int64_t stored, int64_t start, int64_t count,
    uint8_t *out,
) except -1 nogil:
    # The levels of a run, zeros where chunks have none; returns a fault. bounds: as _read.
    if program.levels.kind == 0:
        memset(out, 0, 2 * count)
        return FAULT_NONE
    return _decode(&program.levels, memory + parts.levels, parts.levels_size, stored, start, count, out)


cdef int64_t _read(
    const ChunkRuns *runs, const uint8_t *memory, int64_t memory_size, Program *programs,
    const int64_t *numbers, Output *out, Fault *fault,
) except -1 nogil:
    # bounds: check_chunk_runs has shown that the chunks of runs are in memory and the runs within them, and
    # that there is room for the values and levels of all runs; parts lie within their chunk. `numbers` is
    # NULL or has a number below that of the programs for every chunk.
    cdef Py_ssize_t r
    cdef int64_t chunk, count, parsed = -1
    cdef Parts parts = Parts(0, 0, 0, 0, 0)
    cdef Program *program = programs
    for r in range(runs.num_runs):
        chunk, count = runs.chunks[r], runs.run_counts[r]
        if count == 0:
            if out.starts is not NULL:
                out.starts[r] = out.lengths[r] = 0
            continue
        if chunk + AHEAD < runs.num_chunks and 0 <= runs.positions[chunk + AHEAD] < memory_size:
            prefetch(memory + runs.positions[chunk + AHEAD])
        if count <= SHORT and parsed >= 0 and r + RUNS_AHEAD < runs.num_runs:
            # One value of each of many rows is on a line of memory of its own.
            _expect(runs, r + RUNS_AHEAD, parsed, memory, memory_size, program, &parts)
        fault.index = chunk
        if chunk != parsed:
            if numbers is not NULL:
                program = programs + numbers[chunk]
            fault.code = _parts(memory, runs.positions[chunk], runs.lengths[chunk], program, &parts)
            parsed = chunk
            if fault.code == FAULT_NONE and program.levels.kind != 0:
                if (parts.num_levels ^ runs.counts[chunk]) & 0xFFFF:
                    fault.code = FAULT_LEVEL_COUNT
        if fault.code == FAULT_NONE and out.levels is not NULL:
            fault.code = _levels(
                program, memory, &parts, runs.counts[chunk], runs.starts[r], count, out.levels
            )
            out.levels += 2 * count
        if fault.code == FAULT_NONE:
            fault.code = _values(
                program, memory, &parts, runs.counts[chunk], runs.starts[r], count, out, r, fault
            )
        if fault.code != FAULT_NONE:
            return 0
        out.values += program.values.nbytes * count
        out.row += count
    return 0


cdef ChunkRuns _runs(
    const int64_t[:, ::1] chunks, Py_ssize_t num_chunks, const int64_t[:, ::1] runs, Py_ssize_t num_runs
) except *:
    # Raw pointers of the rows of both tables; without chunks or runs nothing is read through them.
    cdef ChunkRuns found
    if chunks.shape[0] != 3 or runs.shape[0] != 3:
        raise ValueError("chunks and runs need three rows")
    if not 0 <= num_chunks <= chunks.shape[1] or not 0 <= num_runs <= runs.shape[1]:
        raise ValueError("more chunks or runs than their tables have")
    found.num_chunks, found.num_runs = num_chunks, num_runs
    found.positions = found.lengths = found.counts = found.chunks = found.starts = found.run_counts = NULL
    if num_chunks > 0:
        found.positions, found.lengths, found.counts = &chunks[0, 0], &chunks[1, 0], &chunks[2, 0]
    if num_runs > 0:
        found.chunks, found.starts, found.run_counts = &runs[0, 0], &runs[1, 0], &runs[2, 0]
    return found


cdef const int64_t *_numbers(
    const int64_t[::1] numbers, Py_ssize_t num_chunks, Py_ssize_t num_programs
) except? NULL:
    # The number of the program of each chunk; NULL if all have the first. bounds: checked by Cython.
    cdef Py_ssize_t chunk
    if numbers is None or num_chunks == 0:
        return NULL
    if numbers.shape[0] < num_chunks:
        raise ValueError("program_numbers has fewer entries than there are chunks")
    for chunk in range(num_chunks):
        if not 0 <= numbers[chunk] < num_programs:
            raise ValueError("a chunk has a program that is not there")
    return &numbers[0]


cdef Output _output(
    const Program *program, bint has_levels, uint16_t[::1] levels, uint8_t[::1] values, int64_t[:, ::1] spans,
    Py_ssize_t num_runs,
) except *:
    # Room for levels, values and spans, as large as the program needs; `row` is how many values there is room
    # for. bounds: checked by Cython.
    cdef Output out = Output(NULL, NULL, NULL, NULL, 0, 0)
    cdef bint is_text = program.values.kind == TEXT
    if values.shape[0] % program.values.nbytes or (is_text and values.shape[0] == 0):
        raise ValueError("out_values does not have the size of whole values")
    out.row = values.shape[0] // program.values.nbytes - is_text
    if (levels is None) == has_levels or (spans is None) == is_text:
        raise ValueError("out_levels and out_spans are for levels and for strings, and they need them")
    if levels is not None:
        if levels.shape[0] != out.row:
            raise ValueError("out_levels needs one entry per value")
        out.levels = <uint8_t *> &levels[0] if out.row > 0 else NULL
    if is_text:
        if spans.shape[0] != 2 or spans.shape[1] != num_runs:
            raise ValueError("out_spans needs two rows of one entry per run")
        if num_runs > 0:
            out.starts, out.lengths = &spans[0, 0], &spans[1, 0]
    out.values = &values[0] if values.shape[0] > 0 else NULL
    return out


def read_chunks(
    const uint8_t[::1] memory not None,
    const int64_t[:, ::1] chunks not None,
    Py_ssize_t num_chunks,
    const int64_t[:, ::1] runs not None,
    Py_ssize_t num_runs,
    const int64_t[:, ::1] programs not None,
    const int64_t[::1] program_numbers or None,
    uint16_t[::1] out_levels or None,
    uint8_t[::1] out_values not None,
    int64_t[:, ::1] out_spans or None,
):
    """Decode the definition levels and the values of runs of rows in mini-block chunks.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    chunks : (3, room) int64
        Position in ``memory``, bytes and values of each chunk; the first ``num_chunks`` columns.
    runs : (3, room) int64
        Chunk, first value and number of values of each run; the first ``num_runs`` columns. Other chunks are
        ignored.
    programs : (num_programs, 13) int64
        At most 64, whose values have one width. Each has: width of the size of a value buffer (2 or 4);
        whether chunks have repetition and definition levels; value buffers of a chunk, and which of them is
        read; four numbers each of the definition levels and the values: how they are coded (0 not wanted, 1
        plain, 2 blocks with their width, 3 blocks of one width, 4 strings with offsets), bits of a number
        or an offset, bits of a packed number, whether the last block may be unpacked.
    program_numbers : (room,) int64 or None
        The program of each chunk; None: all have the first.
    out_levels : (num_values,) uint16 or None
        Definition levels, 0 in chunks whose program does not want them; None if no program does.
    out_values : (num_values * bits / 8,) uint8
        The values of all runs, or for strings ``num_values + 1`` offsets from 0, little-endian.
    out_spans : (2, num_runs) int64 or None
        For strings: position in ``memory`` and length of the bytes of each run.

    Raises
    ------
    FormatError
        A run is not within its chunk (``position`` is the run); a chunk has a negative position or length,
        parts that pass its end, another number of levels than of values, or values that are not so coded (the
        chunk); offsets of strings descend or leave their buffer (the value).
    TruncatedError
        A chunk passes the end of ``memory`` or is too short for its values (the chunk).
    ValueError
        A program is impossible or not there, or an array does not have its size.

    Source: file sheet 2.1, sections 3.1 to 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import read_chunks
    >>> chunk = np.frombuffer(np.array([0, 6, 0, 0, 7, 8, 9, 0], "<u2").tobytes(), np.uint8)
    >>> programs, out = np.array([[2, 0, 0, 1, 0, 0, 0, 0, 0, 1, 16, 0, 0]]), np.empty(4, np.uint8)
    >>> chunks, runs = np.array([[0], [16], [3]]), np.array([[0], [1], [2]])
    >>> read_chunks(chunk, chunks, 1, runs, 1, programs, None, None, out, None)
    >>> out.view("<u2").tolist()
    [8, 9]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Program parsed[MOST_PROGRAMS]
    cdef bint has_levels = programs_into(programs, parsed)
    cdef ChunkRuns found = _runs(chunks, num_chunks, runs, num_runs)
    cdef const int64_t *numbers = _numbers(program_numbers, num_chunks, programs.shape[0])
    cdef Output out = _output(parsed, has_levels, out_levels, out_values, out_spans, num_runs)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef int64_t num_values = out.row
    with nogil:
        check_chunk_runs(&found, memory.shape[0], num_values, &fault)
        if fault.code == FAULT_NONE:
            out.row = 0
            if parsed[0].values.kind == TEXT:
                memset(out.values, 0, parsed[0].values.nbytes)
            _read(&found, source, memory.shape[0], parsed, numbers, &out, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
