"""Converts definition levels to validity.

Loops are branch-free: 64 comparisons become one word of a bitmap.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t

from cursor cimport BitSink, flush_bits, pack64, push_bits
from levels cimport largest_level, level_of

__all__ = ["level_validity"]


cdef uint64_t _pack_below(const uint16_t *levels, uint16_t most) except? 0xE5C1A9D3B7F08642 nogil:
    # bounds: 64 levels.
    cdef uint8_t below[64]
    cdef Py_ssize_t j
    for j in range(64):
        below[j] = levels[j] <= most
    return pack64(below)


cdef int64_t _push_visible(
    const uint16_t *levels, Py_ssize_t count, uint16_t valid_max, uint16_t visible_max, BitSink *sink
) except -2 nogil:
    # Up to 64 levels one by one; returns how many are visible. bounds: `count` levels.
    cdef uint64_t word = 0
    cdef int64_t slots = 0
    cdef Py_ssize_t j
    for j in range(count):
        word |= <uint64_t> (levels[j] <= valid_max and levels[j] <= visible_max) << slots
        slots += levels[j] <= visible_max
        if slots == 64:  # only at the last one
            break
    push_bits(sink, word, slots)
    return slots


cdef int64_t _validity(
    const uint16_t *levels, Py_ssize_t count, uint16_t valid_max, uint16_t visible_max, BitSink *sink
) except -2 nogil:
    # Returns the number of slots. bounds: whole groups of 64, then the rest.
    cdef Py_ssize_t i = 0
    cdef int64_t slots = 0
    while i + 64 <= count:
        if visible_max == 0xFFFF or _pack_below(levels + i, visible_max) == 0xFFFFFFFFFFFFFFFFu:
            push_bits(sink, _pack_below(levels + i, valid_max), 64)
            slots += 64
        else:
            slots += _push_visible(levels + i, 64, valid_max, visible_max, sink)
        i += 64
    if i < count:
        slots += _push_visible(levels + i, count - i, valid_max, visible_max, sink)
    return slots


def level_validity(
    const uint16_t[::1] levels not None,
    int64_t valid_max,
    int64_t visible_max,
    uint8_t[::1] out_validity not None,
):
    """Turn definition levels into the validity of value slots.

    Parameters
    ----------
    levels : (num_levels,) uint16
    valid_max : int
        Largest level of a slot that is not null.
    visible_max : int
        Largest level of an entry that has a slot; others are skipped.
    out_validity : (ceil(num_levels / 8),) uint8
        One bit per slot, 1 = not null; unused bits are 0.

    Returns
    -------
    num_slots, null_count : int

    Raises
    ------
    ValueError
        A bound is not a level (0..65535), or ``out_validity`` does not have its size.

    Source: file sheet 2.1, sections 3.2 and 3.10.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import level_validity
    >>> bits = np.empty(1, np.uint8)
    >>> level_validity(np.array([0, 1, 3, 0], np.uint16), 0, 1, bits), bin(bits[0])
    ((3, 1), '0b101')
    """
    cdef BitSink sink = BitSink(NULL, 0, 0, 0, 0)
    cdef Py_ssize_t count = levels.shape[0]
    cdef uint16_t valid = <uint16_t> level_of(valid_max, 0), visible = <uint16_t> level_of(visible_max, 0)
    cdef int64_t slots = 0
    if out_validity.shape[0] != (count + 7) >> 3:
        raise ValueError("out_validity needs one bit per level")
    if count == 0:
        return 0, 0
    sink.bits = &out_validity[0]
    with nogil:
        if largest_level(&levels[0], count) <= visible:
            visible = 0xFFFF  # nothing is skipped
        slots = _validity(&levels[0], count, valid, visible, &sink)
        flush_bits(&sink, out_validity.shape[0])
    return slots, slots - sink.ones
