"""Finds the strings that contain a string; the result is a bitmap.

The first and the last byte of the string are looked for at 64 places at once, in the bytes of all strings
together; where both are found, the bytes between them are compared.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset

from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, FAULT_TEXT_OFFSETS, Fault, lowest64, pack64
from offsets cimport Offset, first_astray, in_order

from lancecy.kernels._codes import fail

__all__ = ["search_bytes"]

cdef enum:
    GROUP = 64

cdef struct Wanted:
    # The string to find, at least one byte.
    const uint8_t *bytes
    int64_t size


cdef uint64_t _candidates(
    const uint8_t *text, int64_t count, const Wanted *wanted
) except? 0xE5C1A9D3B7F08642 nogil:
    # One bit for each of up to 64 places where the string may begin.
    # bounds: the string lies in the text from each of `count` places on.
    cdef uint8_t flags[GROUP]
    cdef uint8_t first = wanted.bytes[0], last = wanted.bytes[wanted.size - 1]
    cdef const uint8_t *end = text + wanted.size - 1
    cdef int64_t j
    if count == GROUP:
        for j in range(GROUP):
            flags[j] = (text[j] == first) & (end[j] == last)
    else:
        for j in range(GROUP):
            flags[j] = 0
        for j in range(count):
            flags[j] = (text[j] == first) & (end[j] == last)
    return pack64(flags)


cdef int64_t _search(
    const uint8_t *text, const Offset *offsets, int64_t count, const Wanted *wanted, uint8_t *out
) except -2 nogil:
    # bounds: offsets has count + 1 entries, in order and within the text; out has a bit for each value.
    # A place found lies before the last offset, so the value that it belongs to is among them.
    cdef int64_t at = offsets[0], stop = <int64_t> offsets[count] - wanted.size + 1
    cdef int64_t row = 0, free = 0, found = 0, place
    cdef uint64_t word
    while at < stop:
        word = _candidates(text + at, min(<int64_t> GROUP, stop - at), wanted)
        while word != 0:
            place = at + lowest64(word)
            word &= word - 1
            # In a value that is marked already, nothing is looked for.
            if place < free or memcmp(text + place, wanted.bytes, <size_t> wanted.size) != 0:
                continue
            while offsets[row + 1] <= place:
                row += 1
            if place + wanted.size <= offsets[row + 1]:
                out[row >> 3] |= <uint8_t> (1 << (row & 7))
                found += 1
                free = offsets[row + 1]
        at += GROUP
    return found


def search_bytes(
    const Offset[::1] offsets not None,
    const uint8_t[::1] values not None,
    bytes value not None,
    uint8_t[::1] out not None,
):
    """Mark the strings that contain a string and return their number.

    Parameters
    ----------
    offsets : (num_values + 1,) int32 or int64, ascending
        Offsets of the strings in ``values``; the first may be above 0.
    values : (nbytes,) uint8, may be read-only
    value : bytes
        The string to find, at least one byte.
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
        ``offsets`` or ``value`` is empty, or ``out`` does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import search_bytes
    >>> out = np.empty(1, np.uint8)
    >>> search_bytes(np.array([0, 1, 3, 4]), np.frombuffer(b"abab", np.uint8), b"ba", out)
    1
    >>> bin(out[0])
    '0b10'
    """
    cdef Wanted wanted = Wanted(value, len(value))
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef int64_t row = 0, part, found = 0
    cdef Fault fault = Fault(FAULT_NONE, 0)
    if count < 0:
        raise ValueError("offsets is empty")
    if wanted.size == 0:
        raise ValueError("value is empty")
    if out.shape[0] != (count + 7) >> 3:
        fail(FAULT_OUT_SIZE, 0)
    if count == 0:
        return 0
    with nogil:
        while row < count and fault.code == FAULT_NONE:
            part = min(<int64_t> GROUP, count - row)
            if not in_order(&offsets[row], part, values.shape[0]):
                fault.code = FAULT_TEXT_OFFSETS
                fault.index = row + first_astray(&offsets[row], part, values.shape[0])
            row += part
        if fault.code == FAULT_NONE:
            memset(&out[0], 0, <size_t> out.shape[0])
            if values.shape[0] > 0:
                found = _search(&values[0], &offsets[0], count, &wanted, &out[0])
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return found
