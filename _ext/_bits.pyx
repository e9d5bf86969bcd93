"""Joins runs of bits into one bitmap; finds the bits that are set.

Bit ``k`` of a bitmap is bit ``k % 8`` of byte ``k // 8``, counted from the least
significant one, as in the 0.1 file format and in Arrow.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from bitruns cimport BitRuns, bit_runs, check_bit_runs
from bitwords cimport BitWords, bit_words, next_word
from cursor cimport (
    FAULT_NONE,
    FAULT_OUT_SIZE,
    Fault,
    load64,
    lowest64,
    ones64,
    store64,
)

from lancecy.kernels._codes import fail

__all__ = ["copy_bits", "find_bits"]

cdef uint64_t _peek(
    const uint8_t *source, Py_ssize_t shift, Py_ssize_t count
) except? 0xE5C1A9D3B7F08642 nogil:
    # bounds: reads the second byte only if the bits reach into it. 0 <= shift <= 7 and 1 <= count <= 8.
    cdef uint64_t bits = source[0] >> shift
    if shift + count > 8:
        bits |= <uint64_t> source[1] << (8 - shift)
    return bits & ((<uint64_t> 1 << count) - 1)


cdef Py_ssize_t _shift_bytes(
    const uint8_t *source, Py_ssize_t shift, Py_ssize_t nbytes, uint8_t *out
) except -2 nogil:
    # bounds: with 1 <= shift <= 7 the last of 8 * nbytes bits is in source[nbytes], so reading nbytes + 1
    # bytes stays within a run that was checked for its bits.
    cdef Py_ssize_t i = 0
    while i + 8 <= nbytes:
        store64(out + i, (load64(source + i) >> shift) | (<uint64_t> source[i + 8] << (64 - shift)))
        i += 8
    while i < nbytes:
        out[i] = <uint8_t> ((source[i] >> shift) | (source[i + 1] << (8 - shift)))
        i += 1
    return nbytes


cdef Py_ssize_t _copy_run(
    const uint8_t *source, Py_ssize_t shift, Py_ssize_t count, uint8_t *out, Py_ssize_t filled
) except -2 nogil:
    # Append `count` bits to the `filled` bits of out. A byte is written whole at its first bit, with zeros
    # above, so out needs no clearing and the spare bits at its end are zero.
    # bounds: source holds shift + count bits and out filled + count bits, by check_bit_runs.
    cdef Py_ssize_t head = (8 - (filled & 7)) & 7, nbytes
    if head > count:
        head = count
    if head > 0:
        out[filled >> 3] |= <uint8_t> (_peek(source, shift, head) << (filled & 7))
        filled += head
        shift += head
        count -= head
    if count == 0:
        return 0
    source += shift >> 3
    shift &= 7
    out += filled >> 3
    nbytes = count >> 3
    if shift > 0:
        _shift_bytes(source, shift, nbytes, out)
    elif nbytes > 0:
        memcpy(out, source, nbytes)
    if count & 7:
        out[nbytes] = _peek(source + nbytes, shift, count & 7)
    return 0


cdef int64_t _copy_runs(const uint8_t *memory, const BitRuns *runs, uint8_t *out) except -2 nogil:
    # bounds: check_bit_runs has shown that every run that is not empty is in memory, and that out holds all.
    cdef Py_ssize_t i, filled = 0
    cdef int64_t offset
    for i in range(runs.num_runs):
        offset = runs.bit_offsets[i]
        if runs.counts[i] > 0:
            _copy_run(memory + runs.positions[i] + (offset >> 3), offset & 7, runs.counts[i], out, filled)
            filled += runs.counts[i]
    return filled


cdef int64_t _count_ones(const uint8_t *bits, Py_ssize_t nbytes) except -2 nogil:
    # bounds: whole words as long as eight bytes are left, single bytes after that.
    # Inner loop: one count per byte, added up for 24 words before they are summed (24 * 8 < 256).
    cdef int64_t total = 0
    cdef uint64_t word, sums
    cdef Py_ssize_t i = 0, j
    while nbytes - i >= 192:
        sums = 0
        for j in range(24):
            word = load64(bits + i + 8 * j)
            word = word - ((word >> 1) & 0x5555555555555555u)
            word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u)
            sums += (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu
        sums = (sums & 0x00FF00FF00FF00FFu) + ((sums >> 8) & 0x00FF00FF00FF00FFu)
        total += <int64_t> ((sums * 0x0001000100010001u) >> 48)
        i += 192
    while nbytes - i >= 8:
        total += <int64_t> ones64(load64(bits + i))
        i += 8
    while i < nbytes:
        total += <int64_t> ones64(bits[i])
        i += 1
    return total


def copy_bits(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] bit_offsets not None,
    const int64_t[::1] counts not None,
    uint8_t[::1] out not None,
):
    """Join runs of bits into one bitmap and return the number of set bits.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions : (num_runs,) int64, bytes
        Start of the bitmap of each run.
    bit_offsets : (num_runs,) int64, bits
        First bit of the run in its bitmap; at least 0, may exceed 7.
    counts : (num_runs,) int64, bits
        An empty run may have any position and offset.
    out : (ceil(sum(counts) / 8),) uint8
        Unused bits of the last byte become 0.

    Returns
    -------
    int
        Number of set bits in ``out``.

    Raises
    ------
    FormatError
        A position, offset or count is negative; ``position`` is the index of the run.
    TruncatedError
        A run passes the end of ``memory``; ``position`` is its index.
    ValueError
        The arrays differ in length, or ``out`` does not have the size of all runs together.

    Source: legacy (0.1) files, plain encoding of booleans; Arrow columnar format, bitmaps.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import copy_bits
    >>> out = np.empty(1, np.uint8)
    >>> copy_bits(np.array([0b10110010], np.uint8), np.array([0]), np.array([4]), np.array([3]), out)
    2
    >>> bin(out[0])
    '0b11'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    cdef BitRuns runs = bit_runs(positions, bit_offsets, counts)
    cdef int64_t total, ones = 0
    with nogil:
        total = check_bit_runs(&runs, 1, memory.shape[0], 8 * out.shape[0], &fault)
        if fault.code == FAULT_NONE and (total + 7) >> 3 != out.shape[0]:
            fault.code = FAULT_OUT_SIZE
        if fault.code == FAULT_NONE and target is not NULL:
            _copy_runs(source, &runs, target)
            ones = _count_ones(target, out.shape[0])
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return ones


cdef Py_ssize_t _find_bits(BitWords *words, int64_t *out, Py_ssize_t room) except -2 nogil:
    # bounds: every word is tested to have room. -1: there are more bits.
    cdef Py_ssize_t found = 0
    cdef int64_t done = 0, part
    cdef uint64_t word = 0
    while words.left > 0:
        part = next_word(words, &word)
        if word != 0:
            if room - found < <Py_ssize_t> ones64(word):
                return -1
            while word != 0:
                out[found] = done + lowest64(word)
                found += 1
                word &= word - 1
        done += part
    return found


def find_bits(
    const uint8_t[::1] bits not None,
    int64_t first,
    int64_t count,
    int64_t[::1] out not None,
):
    """Find the bits that are set, and return their number.

    Parameters
    ----------
    bits : (nbytes,) uint8, may be read-only
    first, count : int, bits
        The bits that are looked at.
    out : (num_set,) int64
        Positions of the set bits, counted from ``first``, in ascending order. May be larger; the rest is
        not written.

    Returns
    -------
    int
        Number of set bits.

    Raises
    ------
    FormatError
        ``first`` or ``count`` is negative; ``position`` is 0.
    TruncatedError
        The bits pass the end of ``bits``; ``position`` is 0.
    ValueError
        ``out`` is too small.

    Source: Arrow columnar format, bitmaps.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import find_bits
    >>> out = np.empty(4, np.int64)
    >>> find_bits(np.array([0b10110010], np.uint8), 1, 7, out), out.tolist()
    (4, [0, 3, 4, 6])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Py_ssize_t found = 0
    cdef BitWords words = bit_words(bits, first, count, &fault)
    with nogil:
        found = _find_bits(&words, &out[0] if out.shape[0] > 0 else NULL, out.shape[0])
    if found < 0:
        fault.code = FAULT_OUT_SIZE
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return found
