"""Looks at the values of a page once, for the choice of their encoding: equal ones, runs, bits, lengths."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcmp

from cursor cimport FAULT_NONE, FAULT_TEXT_OFFSETS, Fault, has, load_word

from lancecy.kernels._codes import fail

__all__ = ["measure_numbers", "measure_texts"]

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* The bits of all values together, and how often a value differs from the one before it. */
    #define LANCECY_MEASURE(name, type) \\
        static void name(const uint8_t *values, int64_t count, uint64_t *joined, int64_t *changes) \\
        { \\
            type all = 0, one, before; \\
            int64_t different = 0; \\
            for (int64_t i = 0; i < count; i++) { \\
                memcpy(&one, values + i * sizeof one, sizeof one); \\
                all |= one; \\
            } \\
            for (int64_t i = 1; i < count; i++) { \\
                memcpy(&before, values + (i - 1) * sizeof one, sizeof one); \\
                memcpy(&one, values + i * sizeof one, sizeof one); \\
                different += one != before; \\
            } \\
            *joined = all; \\
            *changes = different; \\
        }
    LANCECY_MEASURE(lancecy_measure8, uint8_t)
    LANCECY_MEASURE(lancecy_measure16, uint16_t)
    LANCECY_MEASURE(lancecy_measure32, uint32_t)
    LANCECY_MEASURE(lancecy_measure64, uint64_t)

    static void lancecy_measure(
        const uint8_t *values, int64_t count, int64_t width, uint64_t *joined, int64_t *changes)
    {
        switch (width) {
            case 1: lancecy_measure8(values, count, joined, changes); return;
            case 2: lancecy_measure16(values, count, joined, changes); return;
            case 4: lancecy_measure32(values, count, joined, changes); return;
            default: lancecy_measure64(values, count, joined, changes);
        }
    }
    """
    # bounds: values has `count` words of 1, 2, 4 or 8 bytes.
    void measure_block "lancecy_measure"(
        const uint8_t *values, int64_t count, int64_t width, uint64_t *joined, int64_t *changes
    ) nogil

cdef enum:
    BLOCK = 1024
    LONGEST_RUN = 255


cdef struct Slots:
    # Which entries have a slot, and which slots are valid; without levels all entries.
    const uint16_t *levels
    int64_t num_entries
    int64_t visible_max


cdef Slots _slots(const uint16_t[::1] definition, int64_t visible_max, int64_t num_values) except *:
    # bounds: checked by Cython.
    cdef Slots slots
    cdef int64_t i, visible = 0
    slots.levels, slots.num_entries, slots.visible_max = NULL, num_values, visible_max
    if definition is None:
        return slots
    for i in range(definition.shape[0]):
        visible += definition[i] <= visible_max
    if visible != num_values:
        raise ValueError("levels are not of as many slots as there are")
    slots.num_entries = definition.shape[0]
    if slots.num_entries > 0:
        slots.levels = &definition[0]
    return slots


cdef int64_t _same_number(const uint8_t *values, int64_t width, const Slots *slots) except -2 nogil:
    # A valid slot that all valid slots are equal to, or -1. bounds: values has a value for each slot.
    cdef int64_t i, slot = 0, first = -1
    for i in range(slots.num_entries):
        if slots.levels != NULL and slots.levels[i] > slots.visible_max:
            continue
        if slots.levels == NULL or slots.levels[i] == 0:
            if first < 0:
                first = slot
            elif memcmp(values + first * width, values + slot * width, width) != 0:
                return -1
        slot += 1
    return first


def measure_numbers(
    const uint8_t[::1] values not None,
    Py_ssize_t width,
    const uint16_t[::1] definition or None,
    int64_t visible_max,
    Py_ssize_t step,
):
    """Look at values of one width.

    Parameters
    ----------
    values : (num_values * width,) uint8, may be read-only
    width : int, bytes
    definition : (num_levels,) uint16 or None
        A value is valid if its level is 0.
    visible_max : int
        Highest level of an entry that has a value.
    step : int
        Runs and bits are those of every ``step``-th 1,024 values.

    Returns
    -------
    same : int
        Number of a value that all valid ones are equal to, -1 if they differ or there are none.
    examined : int
        Values looked at for runs and bits; 0 if the width is not 1, 2, 4 or 8.
    runs : int
        About the runs of at most 255 equal values.
    packed : int
        Bytes of these values in blocks of 1,024, each with the bits of its largest value.

    Raises
    ------
    ValueError
        The arrays do not fit each other, or a width or step is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import measure_numbers
    >>> measure_numbers(np.array([7, 7, 3], np.uint8), 1, None, 0, 1)
    (-1, 3, 2, 385)
    """
    cdef int64_t num_values, num_blocks, block = 0, count
    cdef int64_t same = -1, examined = 0, runs = 0, packed = 0, changes = 0
    cdef uint64_t joined = 0
    if width < 1 or step < 1 or values.shape[0] % width:
        raise ValueError("values are not of that width, or a step is not positive")
    num_values = values.shape[0] // width
    cdef Slots slots = _slots(definition, visible_max, num_values)
    if num_values == 0:
        return -1, 0, 0, 0
    num_blocks = (num_values - 1) // BLOCK + 1
    step = min(step, num_blocks)  # block + step does not overflow
    with nogil:
        same = _same_number(&values[0], width, &slots)
        while (width == 1 or width == 2 or width == 4 or width == 8) and block < num_blocks:
            count = min(num_values - block * BLOCK, <int64_t> BLOCK)
            measure_block(&values[block * BLOCK * width], count, width, &joined, &changes)
            examined += count
            runs += 1 + changes + (count - 1) // LONGEST_RUN
            packed += width
            while joined:
                joined >>= 1
                packed += BLOCK // 8
            block += step
    return same, examined, runs, packed


cdef int64_t _same_text(
    const uint8_t *values, int64_t size, const uint8_t *offsets, int64_t unit, const Slots *slots,
    int64_t *longest, Fault *fault,
) except -2 nogil:
    # As _same_number, and the length of the longest. bounds: offsets has one more than the slots; spans are
    # checked.
    cdef int64_t i, slot = 0, first = -1, start, stop, origin = 0, length = 0
    cdef bint same = True
    fault.code = FAULT_NONE
    for i in range(slots.num_entries):
        if slots.levels != NULL and slots.levels[i] > slots.visible_max:
            continue
        start = <int64_t> load_word(offsets + slot * unit, <uint64_t> unit)
        stop = <int64_t> load_word(offsets + (slot + 1) * unit, <uint64_t> unit)
        if stop < start or not has(start, stop - start, size):
            fault.code, fault.index = FAULT_TEXT_OFFSETS, slot
            return -1
        longest[0] = max(longest[0], stop - start)
        if same and (slots.levels == NULL or slots.levels[i] == 0):
            if first < 0:
                first, origin, length = slot, start, stop - start
            else:
                same = stop - start == length and (
                    length == 0 or memcmp(values + origin, values + start, length) == 0
                )
        slot += 1
    return first if same else -1


def measure_texts(
    const uint8_t[::1] values not None,
    const uint8_t[::1] offsets not None,
    Py_ssize_t width,
    const uint16_t[::1] definition or None,
    int64_t visible_max,
):
    """Look at byte strings.

    Parameters
    ----------
    values : (nbytes,) uint8, may be read-only
    offsets : ((num_values + 1) * width,) uint8
        Ascending offsets in ``values``.
    width : 4 or 8, bytes
        Of an offset.
    definition, visible_max
        See :func:`measure_numbers`.

    Returns
    -------
    same : int
        Number of a value that all valid ones are equal to, -1 if they differ or there are none.
    longest : int, bytes

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; ``position`` is the value.
    ValueError
        The arrays do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import measure_texts
    >>> offsets = np.array([0, 2, 4], np.int32).view(np.uint8)
    >>> measure_texts(np.frombuffer(b"abab", np.uint8), offsets, 4, None, 0)
    (0, 2)
    """
    cdef int64_t same = -1, longest = 0
    cdef Fault fault
    if width != 4 and width != 8:
        raise ValueError("offsets have 4 or 8 bytes")
    if offsets.shape[0] % width or offsets.shape[0] == 0:
        raise ValueError("offsets are one more than the values")
    cdef Slots slots = _slots(definition, visible_max, offsets.shape[0] // width - 1)
    fault.code = FAULT_NONE
    cdef const uint8_t *memory = &values[0] if values.shape[0] > 0 else NULL
    with nogil:
        same = _same_text(memory, values.shape[0], &offsets[0], width, &slots, &longest, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return same, longest
