"""Decodes the levels of rows of lists in mini-block chunks, and finds their value slots.

Levels are decoded chunk by chunk, and only those of the requested rows are kept.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from bitpack cimport Packing, blocks_run, inline_run, packing_of
from cursor cimport (
    FAULT_CHUNK_SHORT, FAULT_GROUP_ROW, FAULT_LEVEL, FAULT_LEVEL_COUNT, FAULT_NEGATIVE, FAULT_NONE,
    FAULT_ROW_COUNT, FAULT_TRUNCATED, Fault, has,
)
from fastlanes cimport ones

from lancecy.kernels._codes import fail

__all__ = ["read_lists"]

cdef enum:
    PLAIN = 1
    INLINE = 2
    BLOCKS = 3


cdef struct Codec:
    # How levels of 16 bits are coded; kind 0 means that there are none.
    int64_t kind
    Packing packing
    bint raw_tail

cdef struct Walk:
    # Levels of a chunk, and where in them the walk is: `row` rows of the group and `slot` slots of the chunk
    # precede `level`.
    uint16_t *rep
    uint16_t *definition
    uint16_t max_rep
    uint16_t visible_max
    int64_t size
    int64_t level
    int64_t row
    int64_t slot

cdef struct Output:
    # The kept levels and the runs of slots so far.
    uint16_t *rep
    uint16_t *definition
    int64_t done
    Py_ssize_t num_runs


cdef Codec _codec(const int64_t[::1] numbers, Py_ssize_t first) except *:
    # bounds: checked by Cython.
    cdef Codec codec
    cdef int64_t packed = numbers[first + 2]
    codec.kind, codec.raw_tail, codec.packing = numbers[first], numbers[first + 3] != 0, packing_of(16)
    if not 0 <= codec.kind <= BLOCKS or not 0 <= packed <= 16:
        raise ValueError("a program has an unknown kind of levels")
    if codec.kind != 0 and numbers[first + 1] != 16:
        raise ValueError("a program has an unknown kind of levels")
    codec.packing.width, codec.packing.mask = <uint64_t> packed, ones(<uint64_t> packed)
    return codec


cdef int32_t _levels(
    const uint8_t[::1] memory, int64_t position, int64_t size, Codec *codec, int64_t count, uint16_t *out
) except -1 nogil:
    # All levels of a chunk; returns a fault. bounds: the part is tested to be in memory; out has room for
    # count.
    cdef const uint8_t *at
    if position < 0 or size < 0:
        return FAULT_NEGATIVE
    if not has(position, size, memory.shape[0]):
        return FAULT_TRUNCATED
    if count == 0:
        return FAULT_NONE
    if size == 0 and codec.kind != BLOCKS:
        return FAULT_CHUNK_SHORT
    at = &memory[0] + position if memory.shape[0] > 0 else NULL
    if codec.kind == INLINE:
        return inline_run(at, size, count, 0, count, &codec.packing, <uint8_t *> out)
    if codec.kind == BLOCKS:
        return blocks_run(at, size, count, 0, count, &codec.packing, codec.raw_tail, <uint8_t *> out)
    if count > size >> 1:
        return FAULT_CHUNK_SHORT
    memcpy(out, at, 2 * count)
    return FAULT_NONE


cdef int64_t _visible(const uint16_t *levels, int64_t count, uint16_t most) except -1 nogil:
    # How many levels are at most `most`. bounds: there are count levels.
    cdef int64_t i, found = 0
    for i in range(count):
        found += levels[i] <= most
    return found


cdef int64_t _equal(const uint16_t *levels, int64_t count, uint16_t level) except -1 nogil:
    # How many levels are this one. bounds: as _visible.
    cdef int64_t i, found = 0
    for i in range(count):
        found += levels[i] == level
    return found


cdef int64_t _above(const uint16_t *levels, int64_t count, uint16_t most) except -1 nogil:
    # Whether a level is above `most`. bounds: as _visible.
    cdef int64_t i
    cdef uint16_t largest = 0
    for i in range(count):
        largest = levels[i] if levels[i] > largest else largest
    return largest > most


cdef int64_t _seek(Walk *walk, int64_t row) except -1 nogil:
    # Advance to the start of a row, or to the end of the chunk if it does not begin before; 1 if it does.
    # bounds: level only grows up to size.
    cdef int64_t j, starts
    while walk.size - walk.level >= 32:
        starts = 0
        for j in range(32):
            starts += walk.rep[walk.level + j] == walk.max_rep
        if starts > row - walk.row:
            break
        if walk.definition is not NULL:
            walk.slot += _visible(walk.definition + walk.level, 32, walk.visible_max)
        else:
            walk.slot += 32
        walk.level += 32
        walk.row += starts
    while walk.level < walk.size:
        if walk.rep[walk.level] == walk.max_rep:
            if walk.row == row:
                return 1
            walk.row += 1
        walk.slot += walk.definition is NULL or walk.definition[walk.level] <= walk.visible_max
        walk.level += 1
    return 0


cdef int64_t _keep(
    const Walk *walk, int64_t level, int64_t slot, int64_t chunk, int64_t[:, ::1] runs, Output *out
) except -1 nogil:
    # Keep the levels from `level` to where the walk is, and their slots as a run.
    # bounds: kept levels are no more than decoded ones, so they move to the front; runs are checked by
    # Cython.
    cdef int64_t count = walk.level - level
    if count == 0:
        return 0
    memmove(out.rep + out.done, walk.rep + level, 2 * count)
    if walk.definition is not NULL:
        memmove(out.definition + out.done, walk.definition + level, 2 * count)
    out.done += count
    if walk.slot > slot:
        runs[0, out.num_runs], runs[1, out.num_runs] = chunk, slot
        runs[2, out.num_runs] = walk.slot - slot
        out.num_runs += 1
    return 0


cdef int64_t _rows(
    Walk *walk, const int64_t[:, ::1] ranges, int64_t group, int64_t chunk, Py_ssize_t *at, bint *inside,
    int64_t[:, ::1] runs, Output *out
) except -1 nogil:
    # Keep the parts of all ranges in one chunk; range number `at` may have begun in an earlier one.
    # bounds: checked by Cython.
    cdef int64_t level = 0, slot = 0, found
    while at[0] < ranges.shape[1] and ranges[0, at[0]] == group:
        found = _seek(walk, ranges[2 if inside[0] else 1, at[0]])
        if inside[0]:
            _keep(walk, level, slot, chunk, runs, out)
            at[0] += found
        elif found:
            level, slot = walk.level, walk.slot
        if not found:
            break
        inside[0] = not inside[0]
    return 0


cdef int64_t _load(
    const uint8_t[::1] memory, const int64_t[:, ::1] found, Py_ssize_t chunk, int64_t num_slots,
    int64_t num_rows, Codec *rep, Codec *definition, Walk *walk, Fault *fault,
) except -1 nogil:
    # Decode and check the levels of a chunk. bounds: the walk points to room for them; the rest is checked by
    # Cython.
    cdef int64_t visible
    walk.size, walk.level, walk.slot = found[0, chunk], 0, 0
    fault.index = chunk
    fault.code = _levels(memory, found[1, chunk], found[2, chunk], rep, walk.size, walk.rep)
    if fault.code == FAULT_NONE and walk.definition is not NULL:
        fault.code = _levels(memory, found[3, chunk], found[4, chunk], definition, walk.size, walk.definition)
    if fault.code != FAULT_NONE:
        return 0
    visible = walk.size
    if walk.definition is not NULL:
        visible = _visible(walk.definition, walk.size, walk.visible_max)
    if visible != num_slots:
        fault.code = FAULT_LEVEL_COUNT
    elif _above(walk.rep, walk.size, walk.max_rep):
        fault.code = FAULT_LEVEL
    elif num_rows >= 0 and _equal(walk.rep, walk.size, walk.max_rep) != num_rows:
        fault.code = FAULT_ROW_COUNT
    return 0


cdef int64_t _read(
    const uint8_t[::1] memory, const int64_t[:, ::1] found, const int64_t[::1] counts,
    const int64_t[::1] begun, const int64_t[::1] groups, const int64_t[:, ::1] ranges, Codec *rep,
    Codec *definition, Walk *walk, int64_t[:, ::1] runs, Output *out, Fault *fault,
) except -1 nogil:
    # bounds: checked by Cython; there is room for the levels of all chunks.
    cdef Py_ssize_t chunk, group, at = 0
    cdef int64_t num_rows
    cdef bint inside = False
    for group in range(groups.shape[0] - 1):
        walk.row = 0
        for chunk in range(groups[group], groups[group + 1]):
            walk.rep = out.rep + out.done
            walk.definition = NULL if out.definition is NULL else out.definition + out.done
            num_rows = -1 if begun is None else begun[chunk]
            _load(memory, found, chunk, counts[chunk], num_rows, rep, definition, walk, fault)
            if fault.code != FAULT_NONE:
                return 0
            _rows(walk, ranges, group, chunk, &at, &inside, runs, out)
        if inside and walk.row == ranges[2, at]:
            at += 1
            inside = False
        if at < ranges.shape[1] and (inside or ranges[0, at] <= group):
            break
    if at < ranges.shape[1]:
        fault.code, fault.index = FAULT_GROUP_ROW, at
    return 0


cdef int64_t _clear(uint16_t *levels, int64_t count) except -1 nogil:
    # Chunks were decoded past the kept levels. bounds: the caller has room for count levels.
    if levels is not NULL and count > 0:
        memset(levels, 0, 2 * count)
    return 0


cdef int64_t _check(
    const int64_t[:, ::1] found, const int64_t[::1] counts, const int64_t[::1] begun,
    const int64_t[::1] groups, const int64_t[:, ::1] ranges, int64_t[:, ::1] runs, Py_ssize_t num_levels
) except -1:
    # bounds: checked by Cython.
    cdef Py_ssize_t i
    cdef int64_t done = 0, total = 0
    if found.shape[0] < 5 or found.shape[1] != counts.shape[0] or ranges.shape[0] != 3 or runs.shape[0] != 3:
        raise ValueError("arrays of chunks, ranges or runs do not have their size")
    if begun is not None and begun.shape[0] != counts.shape[0]:
        raise ValueError("arrays of chunks, ranges or runs do not have their size")
    if runs.shape[1] < ranges.shape[1] + counts.shape[0]:
        raise ValueError("out_runs needs one entry per range and per chunk")
    for i in range(groups.shape[0]):
        if groups[i] < done or (i == 0 and groups[i] != 0):
            raise ValueError("groups must ascend to the number of chunks")
        done = groups[i]
    if groups.shape[0] == 0 or done != counts.shape[0]:
        raise ValueError("groups must ascend to the number of chunks")
    for i in range(counts.shape[0]):
        if not 0 <= found[0, i] <= 0xFFFF:
            raise ValueError("a chunk has an impossible number of levels")
        total += found[0, i]
    for i in range(ranges.shape[1]):
        if not 0 <= ranges[1, i] < ranges[2, i]:
            raise ValueError("ranges must not be empty")
    if total != num_levels:
        raise ValueError("out_rep and out_def need one entry per level")
    return 0


def read_lists(
    const uint8_t[::1] memory not None,
    const int64_t[:, ::1] found not None,
    const int64_t[::1] counts not None,
    const int64_t[::1] begun or None,
    const int64_t[::1] groups not None,
    const int64_t[:, ::1] ranges not None,
    const int64_t[::1] program not None,
    uint16_t[::1] out_rep not None,
    uint16_t[::1] out_def or None,
    int64_t[:, ::1] out_runs not None,
):
    """Decode the levels of ranges of rows of lists, and find their value slots.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    found : (5 or more, num_chunks) int64
        Number of levels, and position and length of repetition and definition levels, from ``chunk_headers``.
    counts : (num_chunks,) int64
        Value slots of each chunk.
    begun : (num_chunks,) int64 or None
        Rows that begin in each chunk, by the index of its page; None: there is no index.
    groups, ranges : as from ``find_lists``
        (num_groups + 1,) and (3, num_ranges) int64.
    program : (10,) int64
        Four numbers each of the repetition and the definition levels: how they are coded (0 there are none, 1
        plain, 2 blocks with their width, 3 blocks of one width), 16, bits of a packed level, whether the last
        block may be unpacked. Then the number of lists around a value, and the largest definition level of an
        entry that has a slot.
    out_rep, out_def : (sum(found[0]),) uint16
        The levels of the ranges, in the first ``num_levels`` entries; the rest are 0. ``out_def`` is
        None if there are no definition levels.
    out_runs : (3, room) int64
        Chunk of each run of slots, its first slot within the chunk, its slots; the first ``num_runs``
        columns.

    Returns
    -------
    num_levels, num_runs : int

    Raises
    ------
    FormatError
        A part has a negative position, a chunk another number of slots than its levels say or a level above
        the number of lists, other rows begin in it than ``begun`` says, or levels are not so coded
        (``position`` is the chunk); a group has fewer rows than a range asks for (the range).
    TruncatedError
        Levels pass the end of ``memory`` or are too short (the chunk).
    ValueError
        The program is impossible, or an array does not have its size.

    Source: file sheet 2.1, sections 3.3 and 5.3.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import read_lists
    >>> levels, found = np.array([1, 0, 1, 1], "<u2").view(np.uint8), np.array([[4], [0], [8], [0], [0]])
    >>> program, rep = np.array([1, 16, 0, 0, 0, 0, 0, 0, 1, 0]), np.empty(4, np.uint16)
    >>> groups, ranges, runs = np.array([0, 1]), np.array([[0], [0], [1]]), np.empty((3, 2), np.int64)
    >>> read_lists(levels, found, np.array([4]), np.array([3]), groups, ranges, program, rep, None, runs)
    (2, 1)
    >>> rep[:2].tolist(), runs[:, 0].tolist()
    ([1, 0], [0, 0, 2])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Output out = Output(NULL, NULL, 0, 0)
    cdef Walk walk = Walk(NULL, NULL, 0, 0, 0, 0, 0, 0)
    cdef Codec rep, definition
    cdef uint16_t nothing = 0
    if program.shape[0] != 10 or not 0 <= program[8] <= 0xFFFF or not 0 <= program[9] <= 0xFFFF:
        raise ValueError("a program of lists has 10 numbers, of which two are levels")
    rep, definition = _codec(program, 0), _codec(program, 4)
    if rep.kind == 0 or (definition.kind == 0) != (out_def is None):
        raise ValueError("lists have repetition levels, and out_def is for definition levels")
    if out_def is not None and out_def.shape[0] != out_rep.shape[0]:
        raise ValueError("out_rep and out_def need one entry per level")
    _check(found, counts, begun, groups, ranges, out_runs, out_rep.shape[0])
    walk.max_rep, walk.visible_max = <uint16_t> program[8], <uint16_t> program[9]
    # Without a level nothing is written, but whether there are definition levels still counts.
    out.rep = &out_rep[0] if out_rep.shape[0] > 0 else &nothing
    if out_def is not None:
        out.definition = &out_def[0] if out_def.shape[0] > 0 else &nothing
    with nogil:
        _read(memory, found, counts, begun, groups, ranges, &rep, &definition, &walk, out_runs, &out, &fault)
        _clear(out.rep + out.done, out_rep.shape[0] - out.done)
        if out.definition is not NULL:
            _clear(out.definition + out.done, out_rep.shape[0] - out.done)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return out.done, out.num_runs
