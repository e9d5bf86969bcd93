"""Portable 32-bit roaring bitmaps: how many numbers and bytes one has, and its numbers.

::

    u32 cookie            12346: u32 number of containers follows
                          low half 12347: high half + 1 containers, then one bit each: is it a run container
    (u16 key, u16 count-1) per container, keys ascending; a key is the upper half of its numbers
    u32 position per container              unless there are run containers and fewer than four in all
    containers:  array   count <= 4096      u16 lower halves, ascending
                 bitmap  count  > 4096      8192 bytes, lowest bit first
                 run                        u16 number of runs, then (u16 start, u16 length-1) each

Containers follow each other, so their stated positions are not read.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cursor cimport (
    FAULT_CHUNK_PARTS,
    FAULT_CHUNK_TRUNCATED,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    FAULT_RUN,
    Fault,
    has,
    load16,
    load32,
    load64,
    ones64,
)

from lancecy.kernels._codes import fail

__all__ = ["measure_bitmap", "read_bitmap"]

cdef enum:
    NO_RUNS = 12346
    WITH_RUNS = 12347
    MOST_LISTED = 4096
    MAP_BYTES = 8192
    MOST_CONTAINERS = 65536

cdef struct Bitmap:
    # Where the parts of a bitmap begin; ``flags`` is 0 without run containers.
    const uint8_t *memory
    int64_t nbytes
    int64_t containers
    int64_t flags
    int64_t pairs
    int64_t content


cdef int32_t _open(Bitmap *found, Fault *fault) except -2 nogil:
    # Find the parts before the containers; all of them are in memory afterwards. FAULT_RUN: it is no bitmap.
    # bounds: each load follows a test that its bytes are there.
    cdef uint64_t cookie
    cdef int64_t at
    fault.index = 0
    fault.code = FAULT_CHUNK_TRUNCATED
    if found.nbytes < 4:
        return -1
    cookie = load32(found.memory)
    found.flags = 0
    if cookie & 0xFFFF == WITH_RUNS:
        found.containers = <int64_t> (cookie >> 16) + 1
        found.flags = 4
        at = 4 + ((found.containers + 7) >> 3)
    elif cookie == NO_RUNS:
        if found.nbytes < 8:
            return -1
        found.containers = load32(found.memory + 4)
        at = 8
    else:
        fault.code = FAULT_RUN
        return -1
    if found.containers > MOST_CONTAINERS:
        fault.code = FAULT_RUN
        return -1
    found.pairs = at
    at += 4 * found.containers
    if found.flags == 0 or found.containers >= 4:
        at += 4 * found.containers
    found.content = at
    if at > found.nbytes:
        return -1
    fault.code = FAULT_NONE
    return 0


cdef bint _is_run(const Bitmap *found, int64_t number) except -2 nogil:
    # bounds: number is below the containers, whose flags are in memory.
    return found.flags and (found.memory[found.flags + (number >> 3)] >> (number & 7)) & 1


cdef int64_t _count(const Bitmap *found, int64_t number) except -2 nogil:
    # Numbers that a container states. bounds: as above.
    return <int64_t> load16(found.memory + found.pairs + 4 * number + 2) + 1


cdef int64_t _key(const Bitmap *found, int64_t number) except -2 nogil:
    # bounds: as above.
    return load16(found.memory + found.pairs + 4 * number)


cdef int64_t _size(const Bitmap *found, int64_t number, int64_t at) except -2 nogil:
    # Bytes of a container; -1 if they are not in memory. bounds: the number of runs is read if it is there.
    cdef int64_t size
    if _is_run(found, number):
        if not has(at, 2, found.nbytes):
            return -1
        size = 2 + 4 * <int64_t> load16(found.memory + at)
    else:
        size = 2 * _count(found, number) if _count(found, number) <= MOST_LISTED else MAP_BYTES
    return size if has(at, size, found.nbytes) else -1


cdef int64_t _measure(const Bitmap *found, int64_t *end, Fault *fault) except -2 nogil:
    # Numbers of all containers, which are in memory from ``content`` to ``end``; -1 after a fault.
    # bounds: each pointer is to one value of the caller's; number is below the containers.
    cdef int64_t number, size, total = 0
    end[0] = found.content
    for number in range(found.containers):
        fault.index = number
        if number and _key(found, number) <= _key(found, number - 1):
            fault.code = FAULT_RUN
            return -1
        size = _size(found, number, end[0])
        if size < 0:
            fault.code = FAULT_CHUNK_TRUNCATED
            return -1
        end[0] += size
        total += _count(found, number)
    return total


cdef int64_t _read_list(const uint8_t *content, int64_t base, int64_t[::1] out) except -2 nogil:
    # One number for each place of ``out``; -1 if they do not ascend. bounds: the container is in memory.
    cdef Py_ssize_t i
    cdef int64_t last = -1, value
    for i in range(out.shape[0]):
        value = load16(content + 2 * i)
        if value <= last:
            return -1
        out[i] = base | value
        last = value
    return 0


cdef int64_t _read_map(const uint8_t *content, int64_t base, int64_t[::1] out) except -2 nogil:
    # As many numbers as ``out`` has places; -1 if there are more or fewer. bounds: as above.
    cdef Py_ssize_t i, done = 0
    cdef uint64_t word
    for i in range(MAP_BYTES // 8):
        word = load64(content + 8 * i)
        if <Py_ssize_t> ones64(word) > out.shape[0] - done:
            return -1
        while word:
            out[done] = base | (64 * i + <int64_t> ones64((word & (~word + 1)) - 1))
            word &= word - 1
            done += 1
    return 0 if done == out.shape[0] else -1


cdef int64_t _read_runs(const uint8_t *content, int64_t base, int64_t[::1] out) except -2 nogil:
    # As above; -1 also if runs overlap, touch or leave the container. bounds: as above.
    cdef Py_ssize_t i, done = 0
    cdef int64_t start, length, value, stop = -1
    for i in range(load16(content)):
        start = load16(content + 2 + 4 * i)
        length = <int64_t> load16(content + 4 + 4 * i) + 1
        if start <= stop or length > MOST_CONTAINERS - start or length > out.shape[0] - done:
            return -1
        stop = start + length
        for value in range(start, stop):
            out[done] = base | value
            done += 1
    return 0 if done == out.shape[0] else -1


cdef int64_t _read(const Bitmap *found, int64_t[::1] out) except -2 nogil:
    # Number of the first bad container, or -1. The bitmap is measured, and ``out`` has room for its numbers.
    # bounds: so all containers are in memory.
    cdef int64_t number, count, base, outcome, at = found.content
    cdef Py_ssize_t done = 0
    cdef const uint8_t *content
    for number in range(found.containers):
        count, base, content = _count(found, number), _key(found, number) << 16, found.memory + at
        if _is_run(found, number):
            outcome = _read_runs(content, base, out[done : done + count])
        elif count <= MOST_LISTED:
            outcome = _read_list(content, base, out[done : done + count])
        else:
            outcome = _read_map(content, base, out[done : done + count])
        if outcome < 0:
            return number
        done += count
        at += _size(found, number, at)
    return -1


cdef int64_t _measured(const uint8_t[::1] memory, Bitmap *found, int64_t *end) except -2:
    # Numbers of the bitmap, and where it ends; -1 and a container if it is none.
    # bounds: the address of the first byte is taken if there is one; other pointers are to one value each.
    cdef Fault fault
    cdef int64_t total = -1
    found.nbytes = memory.shape[0]
    found.memory = &memory[0] if found.nbytes else NULL
    with nogil:
        if _open(found, &fault) == 0:
            total = _measure(found, end, &fault)
    if total < 0:
        end[0] = fault.index
        if fault.code != FAULT_RUN:
            fail(fault.code, fault.index)
    return total


def measure_bitmap(const uint8_t[::1] memory not None):
    """Numbers and bytes of the serialized roaring bitmap that memory begins with.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
        Other bytes may follow the bitmap.

    Returns
    -------
    (int, int)
        As its containers state them; all of its bytes are in memory. -1 and the number of a container: memory
        begins with no bitmap, or keys do not ascend there.

    Raises
    ------
    TruncatedError
        It is cut off; ``position`` is the container.

    Notes
    -----
    Source: RoaringFormatSpec of the roaring bitmap project; table sheet, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import measure_bitmap
    >>> measure_bitmap(np.array([12346, 1, 1 << 16 | 3, 16, 9 << 16 | 5], np.uint32).view(np.uint8))
    (2, 20)
    """
    cdef Bitmap found
    cdef int64_t end = 0
    cdef int64_t total = _measured(memory, &found, &end)
    return total, end


def read_bitmap(const uint8_t[::1] memory not None, int64_t[::1] out not None):
    """Read the numbers of a serialized roaring bitmap.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
        Begins with the bitmap.
    out : (num_numbers,) int64
        As many as :func:`measure_bitmap` finds; ascending afterwards, each in 0 .. 2**32 - 1.

    Raises
    ------
    FormatError
        A container does not hold as many numbers as it states, ascending; ``position`` is the container.
        TruncatedError as for :func:`measure_bitmap`.
    ValueError
        ``out`` has another size, or memory begins with no bitmap.

    Notes
    -----
    Source: as for :func:`measure_bitmap`.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import read_bitmap
    >>> out = np.empty(2, np.int64)
    >>> read_bitmap(np.array([12346, 1, 1 << 16 | 3, 16, 9 << 16 | 5], np.uint32).view(np.uint8), out)
    >>> out - (3 << 16)
    array([5, 9])
    """
    cdef Bitmap found
    cdef int64_t wrong, end = 0
    if _measured(memory, &found, &end) != out.shape[0]:
        fail(FAULT_OUT_SIZE, 0)
    with nogil:
        wrong = _read(&found, out)
    if wrong >= 0:
        fail(FAULT_CHUNK_PARTS, wrong)
