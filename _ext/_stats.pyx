"""Compares bounds with a value: which pages or fragments are proved to have no matching row.

Each unit (a page, a fragment) has a smallest and a largest value. A unit is "empty"
for a comparison if no value between its bounds can satisfy it. Doubtful bounds, such as a low above its
high, prove nothing.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from cursor cimport FAULT_BOUND_OFFSETS

from operator import index

from lancecy.kernels._codes import fail

__all__ = ["compare_bounds", "compare_bytes_bounds"]

# As EQ, NE, LT, LE, GT, GE of lancecy/kernels/_codes.py.
cdef enum:
    OP_EQ = 0
    OP_NE = 1
    OP_LT = 2
    OP_LE = 3
    OP_GT = 4
    OP_GE = 5

ctypedef fused Number:
    int64_t
    uint64_t
    double


cdef int32_t _compare(
    int64_t op, const Number *lows, const Number *highs, Number value, Py_ssize_t count, uint8_t *empty
) except -2 nogil:
    # bounds: all three arrays have count entries.
    # A NaN makes every comparison below false, and some must be true, so it proves nothing. Tests are
    # joined by `&` and `|` to keep the loops free of branches.
    cdef Py_ssize_t i
    if op == OP_EQ:
        for i in range(count):
            empty[i] = (lows[i] <= highs[i]) & ((value < lows[i]) | (value > highs[i]))
    elif op == OP_NE:
        for i in range(count):
            empty[i] = (lows[i] == value) & (highs[i] == value)
    elif op == OP_LT:
        for i in range(count):
            empty[i] = (lows[i] <= highs[i]) & (lows[i] >= value)
    elif op == OP_LE:
        for i in range(count):
            empty[i] = (lows[i] <= highs[i]) & (lows[i] > value)
    elif op == OP_GT:
        for i in range(count):
            empty[i] = (lows[i] <= highs[i]) & (highs[i] <= value)
    else:
        for i in range(count):
            empty[i] = (lows[i] <= highs[i]) & (highs[i] < value)
    return 0


def compare_bounds(
    int64_t op,
    const Number[::1] lows not None,
    const Number[::1] highs not None,
    value,
    uint8_t[::1] out_empty not None,
):
    """Mark the units in which no value can satisfy ``x op value``.

    Parameters
    ----------
    op : int
        0 ``==``, 1 ``!=``, 2 ``<``, 3 ``<=``, 4 ``>``, 5 ``>=``.
    lows, highs : (num_units,) int64, uint64 or float64, both the same
        Every value ``x`` of a unit has ``low <= x <= high``. Null and NaN values are left to the
        caller.
    value : int or float
        Must be a number of the type of the bounds.
    out_empty : (num_units,) uint8
        1 = proved empty, 0 = unknown.

    Raises
    ------
    TypeError
        ``value`` is not a number, or is a fraction while the bounds are integers.
    ValueError
        ``op`` is unknown, ``value`` is outside the type of the bounds, or arrays differ in length.

    Notes
    -----
    ``low > high``, and NaN in a bound or as value, prove nothing. -0.0 equals 0.0.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import compare_bounds
    >>> empty = np.empty(2, np.uint8)
    >>> compare_bounds(4, np.array([0, 50]), np.array([49, 99]), 60, empty)
    >>> empty.tolist()
    [1, 0]
    """
    cdef Py_ssize_t count = lows.shape[0]
    cdef const Number *low = &lows[0] if count > 0 else NULL
    cdef const Number *high
    cdef uint8_t *empty
    cdef Number needle
    if op < OP_EQ or op > OP_GE:
        raise ValueError("op is not one of 0..5")
    if highs.shape[0] != count or out_empty.shape[0] != count:
        raise ValueError("lows, highs and out_empty differ in length")
    try:
        # The conversion alone would truncate 1.5 to 1 and so change the comparison.
        needle = value if Number is double else index(value)
    except OverflowError:
        raise ValueError("value is outside the type of the bounds") from None
    if count == 0:
        return
    high = &highs[0]
    empty = &out_empty[0]
    with nogil:
        _compare(op, low, high, needle, count, empty)


cdef struct ByteStrings:
    # (num_units + 1,) offsets into `size` bytes, and which units have a value.
    const int64_t *offsets
    const uint8_t *data
    int64_t size
    const uint8_t *present


cdef int64_t _first_bad(const int64_t *offsets, Py_ssize_t count, int64_t size) except -2 nogil:
    # bounds: offsets has count + 1 entries.
    cdef Py_ssize_t i
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
            return i
    return -1


cdef int32_t _order(const uint8_t *a, int64_t a_size, const uint8_t *b, int64_t b_size) except -2 nogil:
    # -1, 0 or 1 by bytes; a prefix comes before longer values.
    # bounds: the caller passes whole values inside checked offsets.
    cdef int64_t common = a_size if a_size < b_size else b_size
    cdef int64_t difference = 0
    if common > 0:
        difference = memcmp(a, b, <size_t> common)
    if difference == 0:
        difference = a_size - b_size
    return (difference > 0) - (difference < 0)


cdef inline int32_t _against(
    const ByteStrings *bound, Py_ssize_t i, const uint8_t *value, int64_t value_size
) except -2 nogil:
    # bounds: _first_bad has checked the offsets.
    return _order(bound.data + bound.offsets[i], bound.offsets[i + 1] - bound.offsets[i], value, value_size)


cdef int32_t _compare_bytes(
    int64_t op,
    const ByteStrings *low,
    const ByteStrings *high,
    Py_ssize_t count,
    const uint8_t *value,
    int64_t value_size,
    uint8_t *empty,
) except -2 nogil:
    # bounds: present and empty have count entries; offsets were checked by _first_bad.
    cdef Py_ssize_t i
    cdef int32_t below, above
    cdef bint unordered
    for i in range(count):
        # Order of each bound against the value; a missing bound proves nothing.
        below = _against(low, i, value, value_size) if low.present[i] else -2
        above = _against(high, i, value, value_size) if high.present[i] else 2
        unordered = (
            low.present[i]
            and high.present[i]
            and _against(low, i, high.data + high.offsets[i], high.offsets[i + 1] - high.offsets[i]) > 0
        )
        if unordered or op == OP_NE:
            empty[i] = 0
        elif op == OP_EQ:
            empty[i] = below > 0 or above < 0
        elif op == OP_LT:
            empty[i] = below >= 0
        elif op == OP_LE:
            empty[i] = below > 0
        elif op == OP_GT:
            empty[i] = above <= 0
        else:
            empty[i] = above < 0
    return 0


cdef ByteStrings _strings(
    const int64_t[::1] offsets, const uint8_t[::1] data, const uint8_t[::1] present, Py_ssize_t count
):
    # Raw pointers of one side of the bounds.
    cdef ByteStrings strings
    if offsets.shape[0] != count + 1 or present.shape[0] != count:
        raise ValueError("offsets need one entry more than out_empty, and has_low and has_high as many")
    strings.offsets = &offsets[0]
    strings.data = &data[0] if data.shape[0] > 0 else NULL
    strings.size = data.shape[0]
    strings.present = &present[0] if count > 0 else NULL
    return strings


def compare_bytes_bounds(
    int64_t op,
    const int64_t[::1] low_offsets not None,
    const uint8_t[::1] low_bytes not None,
    const int64_t[::1] high_offsets not None,
    const uint8_t[::1] high_bytes not None,
    const uint8_t[::1] has_low not None,
    const uint8_t[::1] has_high not None,
    bytes value not None,
    uint8_t[::1] out_empty not None,
):
    """Mark the units in which no string or binary can satisfy ``x op value``, compared byte by byte.

    Parameters
    ----------
    op : int
        0 ``==``, 1 ``!=``, 2 ``<``, 3 ``<=``, 4 ``>``, 5 ``>=``.
    low_offsets, high_offsets : (num_units + 1,) int64, bytes, ascending
    low_bytes, high_bytes : (nbytes,) uint8, may be read-only
        Bound of unit ``i`` is ``bytes[offsets[i]:offsets[i + 1]]``.
    has_low, has_high : (num_units,) bool or uint8
        False if there is no such bound, whatever the bytes.
    value : bytes
    out_empty : (num_units,) uint8
        1 = proved empty, 0 = unknown.

    Raises
    ------
    FormatError
        Offsets are negative, descend or pass the end of their bytes; ``position`` is the unit.
    ValueError
        ``op`` is unknown or arrays differ in length.

    Notes
    -----
    ``low > high`` proves nothing. Neither do equal bounds for ``!=``: stored bounds of strings may be
    truncated, so that ``low == high`` does not mean that there is one value only.

    Source: legacy (0.1) files, page statistics of strings.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import compare_bytes_bounds
    >>> low, high = np.frombuffer(b"am", np.uint8), np.frombuffer(b"lz", np.uint8)
    >>> ends, yes, empty = np.array([0, 1, 2]), np.ones(2, bool), np.empty(2, np.uint8)
    >>> compare_bytes_bounds(0, ends, low, ends, high, yes, yes, b"kiwi", empty)
    >>> empty.tolist()
    [0, 1]
    """
    cdef Py_ssize_t count = out_empty.shape[0]
    cdef ByteStrings low = _strings(low_offsets, low_bytes, has_low, count)
    cdef ByteStrings high = _strings(high_offsets, high_bytes, has_high, count)
    cdef const uint8_t *needle = value
    cdef int64_t needle_size = len(value), bad = -1
    cdef uint8_t *empty
    if op < OP_EQ or op > OP_GE:
        raise ValueError("op is not one of 0..5")
    if count == 0:
        return
    empty = &out_empty[0]
    with nogil:
        bad = _first_bad(low.offsets, count, low.size)
        if bad < 0:
            bad = _first_bad(high.offsets, count, high.size)
        if bad < 0:
            _compare_bytes(op, &low, &high, count, needle, needle_size, empty)
    if bad >= 0:
        fail(FAULT_BOUND_OFFSETS, bad)
