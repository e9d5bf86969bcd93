"""Converts definition and repetition levels to lists, from the inside out.

A leaf of a nested column in 2.1 and later has one entry per value, null or empty list: a
repetition level (0 = continues the innermost list) and a definition level (0 = a value).
Comparisons are branch-free: 64 of them become one word of a bitmap, lists are where its bits
are, and faults are recorded and located afterwards.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset

from cursor cimport (
    FAULT_LEVEL_ORDER,
    FAULT_NONE,
    FAULT_TOO_MANY_ITEMS,
    BitSink,
    Fault,
    flush_bits,
    lowest64,
    ones64,
    pack64,
    push_bits,
)
from levels cimport largest_level, level_of
from offsets cimport Offset

from lancecy.kernels._codes import fail

__all__ = ["peel_lists"]

cdef struct Layer:
    # Definition levels that matter to one layer of lists; 65536 is no level.
    int32_t null_level
    int32_t empty_level
    int32_t upper
    int32_t visible_max

cdef struct Marks:
    # A bit for each of 64 entries: a list further out is null or empty, the list is null, a child is added.
    uint64_t hidden
    uint64_t nulls
    uint64_t children

cdef struct Counts:
    int64_t lists
    int64_t children
    int64_t left


cdef int32_t _optional_level(int64_t level) except -1:
    return 0x10000 if level == -1 else level_of(level, 1)


cdef uint64_t _begun(const uint16_t *rep) except? 0xE5C1A9D3B7F08642 nogil:
    # Which of 64 entries do not continue a list. bounds: 64 entries.
    cdef uint8_t flags[64]
    cdef Py_ssize_t j
    for j in range(64):
        flags[j] = rep[j] != 0
    return pack64(flags)


cdef int64_t _mark(const uint16_t *definition, const Layer *layer, Marks *marks) except -2 nogil:
    # What the levels of 64 entries say. bounds: 64 entries.
    cdef uint8_t hidden[64]
    cdef uint8_t null[64]
    cdef uint8_t child[64]
    cdef int32_t level
    cdef Py_ssize_t j
    for j in range(64):
        level = definition[j]
        hidden[j] = level > layer.visible_max
        null[j] = (level == layer.null_level) | (level > layer.upper)
        child[j] = (level != layer.empty_level) & (level <= layer.visible_max) & (null[j] ^ 1)
    marks.hidden = pack64(hidden)
    marks.nulls = pack64(null) & ~marks.hidden
    marks.children = pack64(child)
    return 0


cdef uint64_t _peel_group(
    const uint16_t *rep,
    const uint16_t *definition,
    Py_ssize_t count,
    const Layer *layer,
    Offset *offsets,
    uint16_t *out_rep,
    uint16_t *out_def,
    BitSink *sink,
    Counts *counts,
) except? 0xE5C1A9D3B7F08642 nogil:
    # Up to 64 entries, of which only `count` are meant; the entries that continue a list without a child.
    # bounds: 64 entries of rep and definition; what is written never passes the current entry.
    cdef Marks marks = Marks(0, 0, 0xFFFFFFFFFFFFFFFFu)
    cdef uint64_t meant = 0xFFFFFFFFFFFFFFFFu if count == 64 else (<uint64_t> 1 << count) - 1
    cdef uint64_t begun = _begun(rep) & meant, rest = begun, word = 0, listed = 1
    cdef int64_t bit, filled = 0, childless = 0
    cdef bint is_plain = definition is NULL or largest_level(definition, 64) == 0
    if not is_plain:
        _mark(definition, layer, &marks)
    while rest != 0:
        bit = lowest64(rest)
        rest &= rest - 1
        out_rep[counts.left] = <uint16_t> (rep[bit] - 1)
        if definition is not NULL:
            out_def[counts.left] = definition[bit]
        counts.left += 1
        if is_plain:
            offsets[counts.lists] = <Offset> (counts.children + bit)
            counts.lists += 1
            continue
        # Whatever adds no child begins a list, or the levels are damaged: so it was counted here.
        offsets[counts.lists] = <Offset> (counts.children + bit - childless)
        childless += <int64_t> ((marks.children >> bit & 1) ^ 1)
        listed = (marks.hidden >> bit & 1) ^ 1
        word |= (listed & ~(marks.nulls >> bit)) << filled
        filled += <int64_t> listed
        counts.lists += <int64_t> listed
    if is_plain:
        filled = <int64_t> ones64(begun)
        word = meant if filled == 64 else (<uint64_t> 1 << filled) - 1
    push_bits(sink, word, filled)
    counts.children += count - childless
    return ~(begun | marks.children) & meant


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
) except? 0xE5C1A9D3B7F08642 nogil:
    # Not 0 if an entry continues a list but has no child to add.
    # bounds: all arrays have count entries, offsets one more.
    cdef uint16_t last_rep[64]
    cdef uint16_t last_def[64]
    cdef uint64_t bad = 0
    cdef Py_ssize_t i = 0, size
    while i + 64 <= count:
        bad |= _peel_group(
            rep + i, definition + i if definition is not NULL else NULL, 64, layer,
            offsets, out_rep, out_def, sink, counts,
        )
        i += 64
    size = count - i
    if size > 0:
        memset(last_rep, 0, 128)
        memset(last_def, 0, 128)
        memcpy(last_rep, rep + i, 2 * size)
        if definition is not NULL:
            memcpy(last_def, definition + i, 2 * size)
        bad |= _peel_group(
            last_rep, last_def if definition is not NULL else NULL, size, layer,
            offsets, out_rep, out_def, sink, counts,
        )
    offsets[counts.lists] = <Offset> counts.children
    return bad


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
    layer.upper, layer.visible_max = level_of(upper, 0), level_of(visible_max, 0)
    if count == 0:
        out_offsets[0] = 0
        return 0, 0, 0, 0
    if definition is not None:
        levels, left = &definition[0], &out_def[0]
    sink.bits = &out_validity[0]
    with nogil:
        if _peel(&rep[0], levels, count, &layer, &out_offsets[0], &out_rep[0], left, &sink, &counts) != 0:
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
