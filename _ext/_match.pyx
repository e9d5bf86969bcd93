"""Compares strings with one string; the result is a bitmap of equal ones.

The first eight bytes are compared without a branch per value, for 64 values at a time; the rest is
compared only if these and the length are equal.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, FAULT_TEXT_OFFSETS, Fault, load64, ones64, pack64, store64
from offsets cimport Offset, first_astray, in_order

from lancecy.kernels._codes import fail

__all__ = ["match_bytes"]

cdef enum:
    GROUP = 64
    WORD = 8

cdef struct Text:
    const uint8_t *bytes
    int64_t size

cdef struct Wanted:
    # The string to find, its first eight bytes (padded with zeros) and a mask of those that it has.
    const uint8_t *bytes
    int64_t size
    uint64_t head
    uint64_t mask


cdef inline uint64_t _alike(
    const uint8_t *text, const Offset *offsets, uint64_t size, uint64_t head, uint64_t mask
) except? 0xE5C1A9D3B7F08642 nogil:
    # One bit for each of 64 values with the same length and first bytes.
    # bounds: offsets has 65 entries, and the text eight bytes from each of the first 64 on.
    cdef uint8_t flags[GROUP]
    cdef int64_t j
    for j in range(GROUP):
        flags[j] = (
            (<uint64_t> (offsets[j + 1] - offsets[j]) == size)
            & ((load64(text + offsets[j]) & mask) == head)
        )
    return pack64(flags)


cdef inline uint64_t _same_length(
    const Offset *offsets, int64_t count, int64_t size
) except? 0xE5C1A9D3B7F08642 nogil:
    # One bit for each of up to 64 values that has the length. bounds: offsets has count + 1 entries.
    cdef uint64_t word = 0
    cdef int64_t j
    for j in range(count):
        word |= <uint64_t> (offsets[j + 1] - offsets[j] == size) << j
    return word


cdef inline uint64_t _equal(
    const Text *text, const Offset *offsets, const Wanted *wanted, uint64_t among
) except? 0xE5C1A9D3B7F08642 nogil:
    # The values with a bit in `among`, whose lengths match, that are equal in all bytes.
    # bounds: offsets are in order, within the text; an empty value is not read.
    cdef uint64_t found = 0
    cdef int64_t j
    if wanted.size == 0:
        return among
    while among != 0:
        # Index of the lowest set bit: the number of bits below it.
        j = <int64_t> ones64((among - 1) & ~among)
        if memcmp(text.bytes + offsets[j], wanted.bytes, <size_t> wanted.size) == 0:
            found |= <uint64_t> 1 << j
        among &= among - 1
    return found


cdef int64_t _match(
    const Text *text, const Offset *offsets, int64_t count, const Wanted *wanted, uint8_t *out, Fault *fault
) except -2 nogil:
    # bounds: offsets has count + 1 entries and out a bit for each value; a whole word of bits is stored only
    # for 64 values.
    cdef int64_t row = 0, part, ones = 0
    cdef uint64_t word
    while row < count:
        part = min(<int64_t> GROUP, count - row)
        if not in_order(offsets + row, part, text.size):
            fault.code, fault.index = FAULT_TEXT_OFFSETS, row + first_astray(offsets + row, part, text.size)
            return -1
        if part == GROUP and offsets[row + GROUP] <= text.size - WORD:
            word = _alike(text.bytes, offsets + row, <uint64_t> wanted.size, wanted.head, wanted.mask)
            if word != 0 and wanted.size > WORD:
                word = _equal(text, offsets + row, wanted, word)
        else:
            word = _same_length(offsets + row, part, wanted.size)
            word = _equal(text, offsets + row, wanted, word)
        ones += <int64_t> ones64(word)
        if part == GROUP:
            store64(out + (row >> 3), word)
        else:
            memcpy(out + (row >> 3), &word, <size_t> (part + 7) >> 3)
        row += part
    return ones


cdef Wanted _wanted(bytes value) except *:
    cdef Wanted wanted = Wanted(value, len(value), 0, 0)
    if wanted.size > 0:
        memcpy(&wanted.head, wanted.bytes, <size_t> min(wanted.size, <int64_t> WORD))
        wanted.mask = <uint64_t> -1 >> (8 * (WORD - min(wanted.size, <int64_t> WORD)))
    return wanted


def match_bytes(
    const Offset[::1] offsets not None,
    const uint8_t[::1] values not None,
    bytes value not None,
    uint8_t[::1] out not None,
):
    """Mark the strings that equal a string and return their number.

    Parameters
    ----------
    offsets : (num_values + 1,) int32 or int64, ascending
        Offsets of the strings in ``values``; the first may be above 0.
    values : (nbytes,) uint8, may be read-only
    value : bytes
        The string to compare with.
    out : (ceil(num_values / 8),) uint8
        A bit per string, lowest first; unused bits are 0.

    Returns
    -------
    int
        Number of set bits.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; ``position`` is the string.
    ValueError
        ``offsets`` is empty or ``out`` does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import match_bytes
    >>> out = np.empty(1, np.uint8)
    >>> match_bytes(np.array([0, 1, 3, 4]), np.frombuffer(b"aaba", np.uint8), b"a", out)
    2
    >>> bin(out[0])
    '0b101'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Text text = Text(NULL, values.shape[0])
    cdef Wanted wanted = _wanted(value)
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef int64_t ones = 0
    if count < 0:
        raise ValueError("offsets is empty")
    if out.shape[0] != (count + 7) >> 3:
        fail(FAULT_OUT_SIZE, 0)
    if count == 0:
        return 0
    if text.size > 0:
        text.bytes = &values[0]
    with nogil:
        ones = _match(&text, &offsets[0], count, &wanted, &out[0], &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return ones
