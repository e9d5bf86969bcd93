"""Splits the entries of full-zip pages: a control word with the levels, then the value.

Entries are read one at a time, because only the control word tells whether a value follows.
Nothing is read before it is known to lie inside its span, and every entry takes at
least one byte, so hostile bytes cannot prolong the walk.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_ENTRIES,
    FAULT_ENTRY,
    FAULT_LEVEL,
    FAULT_NEGATIVE,
    FAULT_NONE,
    FAULT_TRUNCATED,
    Fault,
    load16,
    load32,
    load64,
)

from lancecy.kernels._codes import fail

__all__ = ["zip_fixed", "zip_variable"]

cdef struct Walk:
    # Parameters of a page's entries, and the state of the walk.
    int64_t word_bytes
    int64_t def_bits
    uint64_t def_mask
    uint64_t visible_max
    uint64_t max_rep
    uint64_t max_def
    uint16_t *rep
    uint16_t *definition
    int64_t capacity
    int64_t entries
    int64_t slots


cdef Walk _walk(
    Py_ssize_t word_bytes,
    int64_t def_bits,
    int64_t visible_max,
    int64_t max_rep,
    int64_t max_def,
    uint16_t[::1] out_rep,
    uint16_t[::1] out_def,
):
    cdef Walk walk
    if word_bytes not in (0, 1, 2, 4) or not 0 <= def_bits <= 31:
        raise ValueError("word_bytes must be 0, 1, 2 or 4, and def_bits at most 31")
    if not (0 <= visible_max <= 0xFFFF and 0 <= max_rep <= 0xFFFF and 0 <= max_def <= 0xFFFF):
        raise ValueError("visible_max, max_rep and max_def must be levels")
    if out_rep is not None and out_def is not None and out_rep.shape[0] != out_def.shape[0]:
        raise ValueError("out_rep and out_def differ in length")
    walk.word_bytes, walk.def_bits = word_bytes, def_bits
    walk.def_mask = (<uint64_t> 1 << def_bits) - 1
    walk.visible_max, walk.max_rep, walk.max_def = visible_max, max_rep, max_def
    walk.entries = walk.slots = 0
    walk.capacity = INT64_MAX
    walk.rep = walk.definition = NULL
    if out_rep is not None:
        walk.capacity = out_rep.shape[0]
        walk.rep = &out_rep[0] if out_rep.shape[0] > 0 else NULL
    if out_def is not None:
        walk.capacity = out_def.shape[0]
        walk.definition = &out_def[0] if out_def.shape[0] > 0 else NULL
    return walk


cdef int64_t _check_spans(
    const int64_t[::1] starts, const int64_t[::1] stops, Py_ssize_t memory_size, Fault *fault
) except -2 nogil:
    # Every span lies in memory. bounds: checked by Cython, not an inner loop.
    cdef Py_ssize_t i
    for i in range(starts.shape[0]):
        fault.index = i
        if starts[i] < 0 or stops[i] < starts[i]:
            fault.code = FAULT_NEGATIVE
            return -1
        if stops[i] > memory_size:
            fault.code = FAULT_TRUNCATED
            return -1
    return 0


cdef inline int64_t _word(Walk *walk, const uint8_t *entry, int64_t left, Fault *fault) except -2 nogil:
    # Read the control word of the next entry; returns its definition level, or -1.
    # bounds: `left` bytes of the span are left at `entry`, and rep and definition have `capacity` entries.
    cdef uint64_t word = 0, level
    fault.index = walk.entries
    if left < walk.word_bytes:
        fault.code = FAULT_ENTRY
        return -1
    if walk.word_bytes == 1:
        word = entry[0]
    elif walk.word_bytes == 2:
        word = load16(entry)
    elif walk.word_bytes == 4:
        word = load32(entry)
    level = word & walk.def_mask
    word >>= walk.def_bits
    if word > walk.max_rep or level > walk.max_def:
        fault.code = FAULT_LEVEL
        return -1
    if walk.entries >= walk.capacity:
        fault.code = FAULT_ENTRIES
        return -1
    if walk.rep is not NULL:
        walk.rep[walk.entries] = <uint16_t> word
    if walk.definition is not NULL:
        walk.definition[walk.entries] = <uint16_t> level
    walk.entries += 1
    return <int64_t> level


cdef inline int64_t _fixed_span(
    Walk *walk, const uint8_t *at, int64_t left, int64_t width, uint8_t *values, int64_t room, Fault *fault
) except -2 nogil:
    # All entries of one span; -1 and a fault if they do not fit. Called with literal widths, so that the
    # copies become single moves. bounds: at has `left` bytes, values has room for `room` values in all.
    cdef int64_t level
    while left > 0:
        level = _word(walk, at, left, fault)
        if level < 0:
            return -1
        at += walk.word_bytes
        left -= walk.word_bytes
        if <uint64_t> level > walk.visible_max:
            continue
        if left < width or walk.slots >= room:
            fault.code = FAULT_ENTRY if left < width else FAULT_ENTRIES
            return -1
        if width > 0:
            memcpy(values + walk.slots * width, at, <size_t> width)
        walk.slots += 1
        at += width
        left -= width
    return 0


cdef int64_t _fixed(
    Walk *walk,
    const uint8_t *memory,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int64_t width,
    uint8_t *values,
    int64_t room,
    Fault *fault,
) except -2 nogil:
    # bounds: _check_spans has shown that every span is in memory.
    cdef Py_ssize_t i
    cdef int64_t left, done
    cdef const uint8_t *at
    for i in range(starts.shape[0]):
        at = memory + starts[i]
        left = stops[i] - starts[i]
        if width == 4:
            done = _fixed_span(walk, at, left, 4, values, room, fault)
        elif width == 8:
            done = _fixed_span(walk, at, left, 8, values, room, fault)
        elif width == 16:
            done = _fixed_span(walk, at, left, 16, values, room, fault)
        else:
            done = _fixed_span(walk, at, left, width, values, room, fault)
        if done < 0:
            return -1
    fault.code = FAULT_NONE
    return 0


def zip_fixed(
    const uint8_t[::1] memory not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] stops not None,
    Py_ssize_t word_bytes,
    int64_t def_bits,
    int64_t value_bytes,
    int64_t visible_max,
    int64_t max_rep,
    int64_t max_def,
    uint16_t[::1] out_rep or None,
    uint16_t[::1] out_def or None,
    uint8_t[::1] out_values not None,
):
    """Split full-zip entries of one width into levels and values.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    starts, stops : (num_spans,) int64, bytes
        Spans of whole entries, for instance rows.
    word_bytes : int, bytes
        0, 1, 2 or 4: width of the control word, ``rep << def_bits | def``.
    def_bits : int
    value_bytes : int, bytes
        Width of one value; a visible null has one too.
    visible_max : int
        Largest definition level of an entry that has a value.
    max_rep, max_def : int
        Largest levels allowed.
    out_rep, out_def : (max_entries,) uint16 or None
        Levels of the entries.
    out_values : (max_slots * value_bytes,) uint8

    Returns
    -------
    num_entries, num_slots : int
        Number of entries written to the outputs; the rest is undefined.

    Raises
    ------
    FormatError
        An entry is cut off by the end of its span, has a level that is not allowed, or exceeds the capacity
        of the outputs (``position`` is the entry); a span has a negative start or length (the span).
    TruncatedError
        A span passes the end of ``memory``.
    ValueError
        Widths or levels are impossible, or arrays do not have their size.

    Source: file sheet 2.1, section 3.8.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import zip_fixed
    >>> page = np.array([0, 7, 1, 0, 0, 9], np.uint8)
    >>> levels, values = np.empty(3, np.uint16), np.empty(3, np.uint8)
    >>> zip_fixed(page, np.array([0]), np.array([6]), 1, 1, 1, 1, 0, 1, None, levels, values)
    (3, 3)
    >>> levels.tolist(), values.tolist()
    ([0, 1, 0], [7, 0, 9])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Walk walk = _walk(word_bytes, def_bits, visible_max, max_rep, max_def, out_rep, out_def)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *values = &out_values[0] if out_values.shape[0] > 0 else NULL
    cdef int64_t room = INT64_MAX
    if stops.shape[0] != starts.shape[0]:
        raise ValueError("starts and stops differ in length")
    if value_bytes < 0 or word_bytes + value_bytes == 0:
        raise ValueError("value_bytes is negative, or entries have no bytes")
    if value_bytes > 0:
        room = out_values.shape[0] // value_bytes
    if (out_values.shape[0] > 0 and value_bytes == 0) or (
        value_bytes > 0 and room * value_bytes != out_values.shape[0]
    ):
        raise ValueError("out_values does not hold a whole number of values")
    with nogil:
        if _check_spans(starts, stops, memory.shape[0], &fault) == 0 and source is not NULL:
            _fixed(&walk, source, starts, stops, value_bytes, values, room, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return walk.entries, walk.slots


cdef int64_t _variable_span(
    Walk *walk,
    const uint8_t *memory,
    int64_t at,
    int64_t stop,
    int64_t length_bytes,
    int64_t[::1] out_starts,
    int64_t[::1] out_lengths,
    Fault *fault,
) except -2 nogil:
    # All entries of one span; -1 and a fault if they do not fit.
    # bounds: at <= stop <= size of memory; at only grows by bytes known to be present.
    cdef int64_t level
    cdef uint64_t length
    while at < stop:
        level = _word(walk, memory + at, stop - at, fault)
        if level < 0:
            return -1
        at += walk.word_bytes
        length = 0
        if level == 0:
            fault.code = FAULT_ENTRY
            if stop - at < length_bytes:
                return -1
            length = load32(memory + at) if length_bytes == 4 else load64(memory + at)
            at += length_bytes
            if length > <uint64_t> (stop - at):
                return -1
            fault.code = FAULT_NONE
        if <uint64_t> level <= walk.visible_max:
            if walk.slots >= out_starts.shape[0]:
                fault.code = FAULT_ENTRIES
                return -1
            out_starts[walk.slots] = at
            out_lengths[walk.slots] = <int64_t> length
            walk.slots += 1
        at += <int64_t> length
    return 0


def zip_variable(
    const uint8_t[::1] memory not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] stops not None,
    Py_ssize_t word_bytes,
    int64_t def_bits,
    Py_ssize_t length_bytes,
    int64_t visible_max,
    int64_t max_rep,
    int64_t max_def,
    uint16_t[::1] out_rep or None,
    uint16_t[::1] out_def or None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_lengths not None,
):
    """Find the values in full-zip entries of varying size.

    An entry whose definition level is 0 has a length and that many bytes after its control word; every other
    one is only the word, and an empty slot if it is visible.

    Parameters
    ----------
    memory, starts, stops, word_bytes, def_bits, visible_max, max_rep, max_def, out_rep, out_def
        As for ``zip_fixed``.
    length_bytes : int, bytes
        4 or 8: width of the length before a value.
    out_starts, out_lengths : (max_slots,) int64, bytes
        Position and length in ``memory`` of the value of each slot.

    Returns
    -------
    num_entries, num_slots : int
        Number of entries written to the outputs; the rest is undefined.

    Raises
    ------
    FormatError, TruncatedError, ValueError
        As for ``zip_fixed``.

    Source: file sheet 2.1, section 3.8.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import zip_variable
    >>> page, spans = np.array([0, 1, 0, 0, 0, 97, 1], np.uint8), np.empty((2, 2), np.int64)
    >>> zip_variable(page, np.array([0]), np.array([7]), 1, 1, 4, 1, 0, 1, None, None, *spans)
    (2, 2)
    >>> spans.tolist()
    [[5, 7], [1, 0]]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Walk walk = _walk(word_bytes, def_bits, visible_max, max_rep, max_def, out_rep, out_def)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef Py_ssize_t i
    if stops.shape[0] != starts.shape[0]:
        raise ValueError("starts and stops differ in length")
    if length_bytes != 4 and length_bytes != 8:
        raise ValueError("length_bytes must be 4 or 8")
    if out_lengths.shape[0] != out_starts.shape[0]:
        raise ValueError("out_starts and out_lengths differ in length")
    with nogil:
        if _check_spans(starts, stops, memory.shape[0], &fault) == 0 and source is not NULL:
            for i in range(starts.shape[0]):
                if _variable_span(
                    &walk, source, starts[i], stops[i], length_bytes, out_starts, out_lengths, &fault
                ) < 0:
                    break
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return walk.entries, walk.slots
