"""Finds the levels and value slots of rows.

A row of a list column begins at a repetition level that equals the number of lists. Rows are found by
counting such levels, 64 at a time unless a requested row begins or ends among them.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint16_t

from cursor cimport FAULT_GROUP_ROW, FAULT_LEVEL

from lancecy.kernels._codes import fail

__all__ = ["select_rows"]

cdef struct Levels:
    # A walk over levels: `row` row starts and `slot` slots precede `level`.
    const uint16_t *rep
    const uint16_t *definition
    uint16_t max_rep
    uint16_t visible_max
    int64_t level
    int64_t row
    int64_t slot


cdef int64_t _seek(Levels *walk, int64_t row, int64_t stop) except -2 nogil:
    # Advance to the start of a row, or to `stop` if it does not begin before.
    # bounds: level only grows up to stop, which is at most the length of both arrays.
    cdef Py_ssize_t j
    cdef uint16_t starts, visible
    while stop - walk.level >= 64:
        starts = 0
        visible = 0
        for j in range(64):
            starts += walk.rep[walk.level + j] == walk.max_rep
        if starts > row - walk.row:
            break
        if walk.definition is not NULL:
            for j in range(64):
                visible += walk.definition[walk.level + j] <= walk.visible_max
        walk.level += 64
        walk.row += starts
        walk.slot += 64 if walk.definition is NULL else visible
    while walk.level < stop:
        if walk.rep[walk.level] == walk.max_rep:
            if walk.row == row:
                return 0
            walk.row += 1
        walk.slot += walk.definition is NULL or walk.definition[walk.level] <= walk.visible_max
        walk.level += 1
    return 0


cdef int64_t _select(
    Levels *walk,
    const int64_t[::1] group_stops,
    const int64_t[::1] groups,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    int64_t[::1] level_starts,
    int64_t[::1] level_stops,
    int64_t[::1] slot_starts,
    int64_t[::1] slot_stops,
) except -2 nogil:
    # Index of the first range whose rows do not exist, or -1. The caller has checked that ranges ascend by
    # group and row. bounds: checked by Cython; group_stops ascend to the number of levels, so no seek passes
    # that.
    cdef Py_ssize_t i
    cdef int64_t group = 0
    for i in range(groups.shape[0]):
        while group < groups[i]:
            _seek(walk, INT64_MAX, group_stops[group])
            walk.row = 0
            group += 1
        _seek(walk, starts[i], group_stops[group])
        level_starts[i] = walk.level
        slot_starts[i] = walk.slot
        _seek(walk, stops[i], group_stops[group])
        if walk.row < stops[i]:
            return i
        level_stops[i] = walk.level
        slot_stops[i] = walk.slot
    return -1


cdef int64_t _first_above(const uint16_t[::1] rep, uint16_t most) except -2 nogil:
    cdef Py_ssize_t i
    cdef uint16_t largest = 0
    for i in range(rep.shape[0]):
        largest = rep[i] if rep[i] > largest else largest
    if largest <= most:
        return -1
    for i in range(rep.shape[0]):
        if rep[i] > most:
            return i
    return -1


cdef int64_t _check_groups(const int64_t[::1] group_stops, Py_ssize_t num_levels) except -2:
    cdef Py_ssize_t i
    cdef int64_t done = 0
    for i in range(group_stops.shape[0]):
        if group_stops[i] < done:
            raise ValueError("group_stops must ascend to the number of levels")
        done = group_stops[i]
    if done != num_levels:
        raise ValueError("group_stops must ascend to the number of levels")
    return 0


cdef int64_t _check_ranges(
    const int64_t[::1] groups, const int64_t[::1] starts, const int64_t[::1] stops, Py_ssize_t num_groups
) except -2:
    cdef Py_ssize_t i
    cdef int64_t group = -1, row = 0
    for i in range(groups.shape[0]):
        if (
            not 0 <= groups[i] < num_groups
            or not 0 <= starts[i] < stops[i]
            or groups[i] < group
            or (groups[i] == group and starts[i] < row)
        ):
            raise ValueError("ranges must not be empty and ascend by group and row")
        group, row = groups[i], stops[i]
    return 0


cdef Levels _walk(
    const uint16_t[::1] rep, const uint16_t[::1] definition, uint16_t max_rep, uint16_t visible_max
):
    cdef Levels walk = Levels(NULL, NULL, max_rep, visible_max, 0, 0, 0)
    if rep.shape[0] > 0:
        walk.rep = &rep[0]
        walk.definition = &definition[0] if definition is not None else NULL
    return walk


def select_rows(
    const uint16_t[::1] rep not None,
    const uint16_t[::1] definition or None,
    int64_t max_rep,
    int64_t visible_max,
    const int64_t[::1] group_stops not None,
    const int64_t[::1] range_groups not None,
    const int64_t[::1] range_starts not None,
    const int64_t[::1] range_stops not None,
    int64_t[::1] out_level_starts not None,
    int64_t[::1] out_level_stops not None,
    int64_t[::1] out_slot_starts not None,
    int64_t[::1] out_slot_stops not None,
):
    """Find the levels and the value slots of ranges of rows.

    The levels are those of groups of consecutive chunks, one group after the other. Row r of a group begins
    at the group's r-th level (from 0) that equals ``max_rep`` and ends where the next one begins, or with
    the group. Levels of a group before its first row belong to no row.

    Parameters
    ----------
    rep : (num_levels,) uint16
    definition : (num_levels,) uint16 or None
        None means that every level has a slot.
    max_rep : int
        Number of lists around a value.
    visible_max : int
        Largest definition level of an entry that has a slot.
    group_stops : (num_groups,) int64
        End of each group in ``rep``; ascending, the last is ``num_levels``.
    range_groups, range_starts, range_stops : (num_ranges,) int64
        Group, first row and row after the last one; not empty, ascending by group and row, disjoint.
    out_level_starts, out_level_stops : (num_ranges,) int64
        Levels of each range.
    out_slot_starts, out_slot_stops : (num_ranges,) int64
        Value slots of each range, counted from the first level.

    Raises
    ------
    FormatError
        A level is above ``max_rep`` (``position`` is the level), or a group has fewer rows than a range
        requests (``position`` is the range).
    ValueError
        Ranges or groups are not in order, or an array does not have its size.

    Source: file sheet 2.1, sections 3.3 and 5.3.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import select_rows
    >>> rep, levels = np.array([0, 1, 0, 1, 1], np.uint16), np.array([0, 0, 0, 1, 0], np.uint16)
    >>> outs = np.empty((4, 1), np.int64)
    >>> select_rows(rep, levels, 1, 0, np.array([5]), np.array([0]), np.array([0]), np.array([2]), *outs)
    >>> outs.ravel().tolist()
    [1, 4, 1, 3]
    """
    cdef Py_ssize_t count = range_groups.shape[0]
    cdef int64_t above = -1, bad = -1
    cdef Levels walk
    if not 0 <= max_rep <= 0xFFFF or not 0 <= visible_max <= 0xFFFF:
        raise ValueError("max_rep and visible_max must be levels")
    if (
        range_starts.shape[0] != count
        or range_stops.shape[0] != count
        or out_level_starts.shape[0] != count
        or out_level_stops.shape[0] != count
        or out_slot_starts.shape[0] != count
        or out_slot_stops.shape[0] != count
    ):
        raise ValueError("arrays of ranges differ in length")
    if definition is not None and definition.shape[0] != rep.shape[0]:
        raise ValueError("rep and definition differ in length")
    _check_groups(group_stops, rep.shape[0])
    _check_ranges(range_groups, range_starts, range_stops, group_stops.shape[0])
    walk = _walk(rep, definition, <uint16_t> max_rep, <uint16_t> visible_max)
    with nogil:
        above = _first_above(rep, walk.max_rep)
        if above < 0:
            bad = _select(
                &walk, group_stops, range_groups, range_starts, range_stops, out_level_starts,
                out_level_stops, out_slot_starts, out_slot_stops,
            )
    if above >= 0:
        fail(FAULT_LEVEL, above)
    if bad >= 0:
        fail(FAULT_GROUP_ROW, bad)
