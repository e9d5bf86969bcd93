"""Converts definition and repetition levels to validity and, from the inside out, to lists.

A leaf of a nested column in 2.1 and later has one entry per value, null or empty list: a
repetition level (0 = continues the innermost list) and a definition level (0 = a value).
Loops are branch-free: 64 comparisons become one word of a bitmap, and faults are recorded
and located afterwards.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint64_t

from cursor cimport (
    FAULT_LEVEL_ORDER,
    FAULT_NONE,
    FAULT_TOO_MANY_ITEMS,
    BitSink,
    Fault,
    flush_bits,
    pack64,
    push_bits,
)

from lancecy.kernels._codes import fail

__all__ = ["level_validity", "peel_lists"]

ctypedef fused Offset:
    int32_t
    int64_t

cdef struct Layer:
    # Definition levels that matter to one layer of lists; 65536 is no level.
    uint64_t null_level
    uint64_t empty_level
    uint64_t upper
    uint64_t visible_max

cdef struct Counts:
    int64_t lists
    int64_t children
    int64_t left


cdef uint64_t _level(int64_t level, int64_t lowest) except? 1:
    if level < lowest or level > 0xFFFF:
        raise ValueError(f"{level} is not a level")
    return <uint64_t> level


cdef uint64_t _optional_level(int64_t level) except? 1:
    return 0x10000 if level == -1 else _level(level, 1)


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


cdef uint64_t _largest(const uint16_t *levels, Py_ssize_t count) except? 0xFFFFF nogil:
    # bounds: levels has count entries.
    cdef Py_ssize_t i
    cdef uint16_t largest = 0
    for i in range(count):
        largest = levels[i] if levels[i] > largest else largest
    return largest


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
    cdef uint16_t valid = <uint16_t> _level(valid_max, 0), visible = <uint16_t> _level(visible_max, 0)
    cdef int64_t slots = 0
    if out_validity.shape[0] != (count + 7) >> 3:
        raise ValueError("out_validity needs one bit per level")
    if count == 0:
        return 0, 0
    sink.bits = &out_validity[0]
    with nogil:
        if _largest(&levels[0], count) <= visible:
            visible = 0xFFFF  # nothing is skipped
        slots = _validity(&levels[0], count, valid, visible, &sink)
        flush_bits(&sink, out_validity.shape[0])
    return slots, slots - sink.ones


cdef uint64_t _peel(
    const uint16_t *rep,
    const uint16_t *definition,
    Py_ssize_t count,
    const Layer *layer,
    Offset *offsets,
    uint16_t *out_rep,
    uint16_t *out_def,
    BitSink *sink,
    Counts *counts,
) except? 2 nogil:
    # One pass; 1 if an entry continues a list but has no child to add, else 0.
    # bounds: all arrays have count entries, offsets one more; lists and left never pass the current entry.
    cdef Py_ssize_t i
    cdef uint64_t level = 0, starts, hidden, null, child, listed, bad = 0, word = 0
    cdef int64_t filled = 0, lists = 0, children = 0, left = 0
    for i in range(count):
        level = definition[i]
        out_def[left] = <uint16_t> level
        starts = rep[i] != 0
        hidden = level > layer.visible_max
        null = ((level == layer.null_level) | (level > layer.upper)) & (hidden ^ 1)
        child = (hidden | null | (level == layer.empty_level)) ^ 1
        bad |= (starts | child) ^ 1
        listed = starts & (hidden ^ 1)
        offsets[lists] = <Offset> children
        out_rep[left] = <uint16_t> (rep[i] - 1)
        word |= (listed & (null ^ 1)) << filled
        filled += <int64_t> listed
        lists += <int64_t> listed
        left += <int64_t> starts
        children += <int64_t> child
        if filled == 64:
            push_bits(sink, word, 64)
            word = 0
            filled = 0
    push_bits(sink, word, filled)
    offsets[lists] = <Offset> children
    counts.lists = lists
    counts.children = children
    counts.left = left
    return bad


cdef int64_t _peel_plain(
    const uint16_t *rep, Py_ssize_t count, Offset *offsets, uint16_t *out_rep, Counts *counts
) except -2 nogil:
    # Nothing is null or empty: a list starts wherever the level is not 0. bounds: as _peel.
    cdef Py_ssize_t i, lists = 0
    for i in range(count):
        offsets[lists] = <Offset> i
        out_rep[lists] = <uint16_t> (rep[i] - 1)
        lists += rep[i] != 0
    offsets[lists] = <Offset> count
    counts.lists = counts.left = lists
    counts.children = count
    return 0


cdef int64_t _push_ones(BitSink *sink, int64_t count) except -2 nogil:
    # bounds: the bitmap has room for them.
    while count >= 64:
        push_bits(sink, 0xFFFFFFFFFFFFFFFFu, 64)
        count -= 64
    return push_bits(sink, (<uint64_t> 1 << count) - 1, count)


cdef int64_t _first_astray(
    const uint16_t *rep, const uint16_t *definition, Py_ssize_t count, const Layer *layer
) except -2 nogil:
    # bounds: both have count entries.
    cdef Py_ssize_t i
    if rep[0] == 0:
        return 0
    for i in range(count):
        if rep[i] == 0 and (
            definition[i] > layer.visible_max
            or definition[i] > layer.upper
            or definition[i] == layer.null_level
            or definition[i] == layer.empty_level
        ):
            return i
    return 0


cdef int64_t _check_sizes(
    const uint16_t[::1] rep,
    const uint16_t[::1] definition,
    Py_ssize_t num_offsets,
    Py_ssize_t num_bytes,
    const uint16_t[::1] out_rep,
    const uint16_t[::1] out_def,
) except -1:
    cdef Py_ssize_t count = rep.shape[0]
    if (definition is None) != (out_def is None):
        raise ValueError("out_def is for definition levels, and they need it")
    if definition is not None and (definition.shape[0] != count or out_def.shape[0] != count):
        raise ValueError("definition and out_def need one entry per level")
    if out_rep.shape[0] != count:
        raise ValueError("out_rep needs one entry per level")
    if num_offsets != count + 1 or num_bytes != (count + 7) >> 3:
        raise ValueError("out_offsets needs one entry more than levels, and out_validity one bit per level")
    return 0


def peel_lists(
    const uint16_t[::1] rep not None,
    const uint16_t[::1] definition or None,
    int64_t null_level,
    int64_t empty_level,
    int64_t upper,
    int64_t visible_max,
    Offset[::1] out_offsets not None,
    uint8_t[::1] out_validity not None,
    uint16_t[::1] out_rep not None,
    uint16_t[::1] out_def or None,
):
    """Split the innermost layer of lists off the levels of a leaf.

    An entry is hidden if its definition level is above ``visible_max`` (a list further out is null or
    empty), else null if it is ``null_level`` or above ``upper`` (a struct around the list is null), else
    empty if it is ``empty_level``; otherwise it adds one child. A list starts where the repetition level is
    not 0.

    Parameters
    ----------
    rep : (num_levels,) uint16
    definition : (num_levels,) uint16 or None
        None means that all levels are 0.
    null_level, empty_level : int
        Definition levels of null and of empty lists of this layer; -1 if there are none.
    upper : int
        Highest definition level of this layer and those inside.
    visible_max : int
        ``upper`` and the levels of the structs between this layer and the next list.
    out_offsets : (num_levels + 1,) int32 or int64
        The first ``num_lists + 1`` entries become the offsets.
    out_validity : (ceil(num_levels / 8),) uint8
        The first ``num_lists`` bits, 1 = not null; the rest is 0.
    out_rep, out_def : (num_levels,) uint16; ``out_def`` is None if ``definition`` is
        The first ``num_left`` entries become the levels of the next layer.

    Returns
    -------
    num_lists, num_children, null_count, num_left : int

    Raises
    ------
    FormatError
        The first entry continues a list, or a later one does and has no child (``position`` is the
        entry), or there are more than 2^31-1 children for int32 offsets.
    ValueError
        A number is not a level or an array does not have its size.

    Source: file sheet 2.1, section 3.10.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import peel_lists
    >>> rep, levels = np.array([1, 0, 1, 1, 1], np.uint16), np.array([0, 0, 2, 1, 0], np.uint16)
    >>> offsets, bits, left = np.empty(6, np.int32), np.empty(1, np.uint8), np.empty((2, 5), np.uint16)
    >>> peel_lists(rep, levels, 1, 2, 2, 2, offsets, bits, *left)
    (4, 3, 1, 4)
    >>> offsets[:5].tolist(), bin(bits[0])
    ([0, 2, 2, 2, 3], '0b1011')
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef BitSink sink = BitSink(NULL, 0, 0, 0, 0)
    cdef Counts counts = Counts(0, 0, 0)
    cdef Py_ssize_t count = rep.shape[0]
    cdef int64_t most = INT32_MAX if Offset is int32_t else INT64_MAX
    cdef const uint16_t *levels = NULL
    cdef uint16_t *left = NULL
    cdef Layer layer
    _check_sizes(rep, definition, out_offsets.shape[0], out_validity.shape[0], out_rep, out_def)
    layer.null_level, layer.empty_level = _optional_level(null_level), _optional_level(empty_level)
    layer.upper, layer.visible_max = _level(upper, 0), _level(visible_max, 0)
    if count == 0:
        out_offsets[0] = 0
        return 0, 0, 0, 0
    if definition is not None:
        levels, left = &definition[0], &out_def[0]
    sink.bits = &out_validity[0]
    with nogil:
        if levels is NULL:
            _peel_plain(&rep[0], count, &out_offsets[0], &out_rep[0], &counts)
            _push_ones(&sink, counts.lists)
        elif _peel(&rep[0], levels, count, &layer, &out_offsets[0], &out_rep[0], left, &sink, &counts) != 0:
            fault.code = FAULT_LEVEL_ORDER
        if rep[0] == 0 or fault.code != FAULT_NONE:
            fault.code = FAULT_LEVEL_ORDER
            fault.index = _first_astray(&rep[0], levels, count, &layer)
        elif counts.children > most:
            fault.code = FAULT_TOO_MANY_ITEMS
        flush_bits(&sink, out_validity.shape[0])
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return counts.lists, counts.children, counts.lists - sink.ones, counts.left
