"""Checks the codes of dictionary-encoded columns.

Codes of every width are read as unsigned numbers of that width, where negative
ones are larger than any that a dictionary of a signed code type can have.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from cursor cimport FAULT_CODE, ones64, pack64, store64

from lancecy.kernels._codes import fail

__all__ = ["check_codes"]

ctypedef fused Code:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Unsigned:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef int64_t _first_over(const Unsigned *codes, Py_ssize_t count, uint64_t limit) except -2 nogil:
    # Index of the first code that is not below limit, or -1. The first pass finds the largest code, a second
    # the first bad one, if there is any. bounds: codes has count entries.
    cdef Py_ssize_t i
    cdef Unsigned largest = 0
    for i in range(count):
        largest = codes[i] if codes[i] > largest else largest
    if count == 0 or largest < limit:
        return -1
    for i in range(count):
        if codes[i] >= limit:
            return i
    return -1


cdef int64_t _pack_below(
    const Unsigned *codes, Py_ssize_t count, uint64_t limit, uint8_t *bits
) except -2 nogil:
    # Set bit i where code i is below limit; the number of set bits.
    # bounds: codes has count entries, bits ceil(count / 8) bytes; a last group below 64 goes bit by bit.
    cdef uint8_t below[64]
    cdef uint64_t word
    cdef Py_ssize_t j, row = 0
    cdef int64_t total = 0
    while row + 64 <= count:
        for j in range(64):
            below[j] = codes[row + j] < limit
        word = pack64(below)
        store64(bits + (row >> 3), word)
        total += <int64_t> ones64(word)
        row += 64
    for j in range(row, count):
        if j & 7 == 0:
            bits[j >> 3] = 0
        if codes[j] < limit:
            bits[j >> 3] |= <uint8_t> (1 << (j & 7))
            total += 1
    return total


cdef int64_t _check(
    const Unsigned *codes, Py_ssize_t count, uint64_t limit, uint8_t *bits, int64_t *nulls
) except -2 nogil:
    # Index of the first bad code, or -1 and the number of nulls. bounds: as the two functions above.
    if bits is NULL:
        return _first_over(codes, count, limit)
    nulls[0] = count - _pack_below(codes, count, limit, bits)
    return -1


def check_codes(const Code[::1] codes not None, int64_t num_values, uint8_t[::1] out_validity=None):
    """Check that every code points into a dictionary of ``num_values`` values.

    Parameters
    ----------
    codes : (num_rows,) integers of any width, signed or unsigned
    num_values : int
        Length of the dictionary, at least 0.
    out_validity : (ceil(num_rows / 8),) uint8, optional
        If given, a code outside the dictionary makes its row null instead of raising: filled with the bitmap,
        1 = inside, unused bits are 0.

    Returns
    -------
    int
        Number of codes outside the dictionary; without ``out_validity`` always 0.

    Raises
    ------
    FormatError
        A code is negative or not below ``num_values`` and ``out_validity`` is not given; ``position`` is
        its row.
    ValueError
        ``num_values`` is negative or ``out_validity`` has another size.

    Notes
    -----
    ``out_validity`` is for nullable columns: the legacy writer stores arbitrary codes for nulls,
    and pandas' categoricals store -1.

    Source: legacy (0.1) files, dictionary pages.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import check_codes
    >>> check_codes(np.array([0, 2, 1], np.int8), 3)
    0
    >>> validity = np.empty(1, np.uint8)
    >>> check_codes(np.array([0, -1, 1], np.int8), 3, validity), bin(validity[0])
    (1, '0b101')
    """
    cdef Py_ssize_t count = codes.shape[0]
    cdef const Code *first = &codes[0] if count > 0 else NULL
    cdef uint8_t *bits = NULL
    cdef uint64_t limit = <uint64_t> num_values, largest_limit
    cdef int64_t bad = -1, nulls = 0
    if num_values < 0:
        raise ValueError("num_values is negative")
    if out_validity is not None:
        if out_validity.shape[0] != (count + 7) >> 3:
            raise ValueError("out_validity needs one bit per row")
        bits = &out_validity[0] if count > 0 else NULL
    if Code is int8_t or Code is int16_t or Code is int32_t or Code is int64_t:
        # Beyond this, negative codes read as unsigned would be valid.
        largest_limit = <uint64_t> 1 << (8 * sizeof(Code) - 1)
        limit = limit if limit < largest_limit else largest_limit
    with nogil:
        if Code is int8_t or Code is uint8_t:
            bad = _check(<const uint8_t *> first, count, limit, bits, &nulls)
        elif Code is int16_t or Code is uint16_t:
            bad = _check(<const uint16_t *> first, count, limit, bits, &nulls)
        elif Code is int32_t or Code is uint32_t:
            bad = _check(<const uint32_t *> first, count, limit, bits, &nulls)
        else:
            bad = _check(<const uint64_t *> first, count, limit, bits, &nulls)
    if bad >= 0:
        fail(FAULT_CODE, bad)
    return nulls
