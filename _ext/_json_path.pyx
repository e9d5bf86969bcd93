"""Selects parts of JSONB values by a path, for all values of a column in one pass.

A part is copied as it is stored; several parts become one array. As with text, bytes that have no room are
counted.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from cursor cimport FAULT_JSON, FAULT_JSON_WALK, FAULT_NONE, Fault
from json_walk cimport (
    ARRAY_OF_VALUES,
    DONE,
    MORE_RANGES,
    ONE_VALUE,
    STEP_KEY,
    STEP_NAME,
    STEP_RANGE,
    PathStep,
    PathWalk,
    follow_path,
    put_json_word,
)
from jsonb cimport (
    JSON_ARRAY,
    JSON_CONTAINER,
    JSON_DEPTH,
    JSON_SCALAR,
    JsonColumn,
    JsonNode,
    json_column,
    json_is_null,
    json_root,
    json_span,
)

from lancecy.kernels._codes import fail

__all__ = ["json_select"]

cdef enum:
    # What may be visited in one call: at least so much, for each byte, and for each value.
    LEAST_VISITS = 1 << 16
    BYTE_VISITS = 64
    VALUE_VISITS = 128

cdef struct Output:
    # As of text: `done` may exceed `room`; nothing is written there.
    uint8_t *out
    int64_t room
    int64_t done


cdef int32_t _put_one(PathWalk *walk, Output *output) except -2 nogil:
    # The first part as a value of its own. bounds: written only if all of it has room.
    cdef int64_t head = 0 if walk.first.kind == JSON_CONTAINER else 8
    cdef int64_t size = head + walk.first.size
    cdef uint8_t *out
    if size <= output.room - output.done:
        out = output.out + output.done
        if head:
            put_json_word(out, <uint32_t> JSON_SCALAR << 29)
            put_json_word(out + 4, walk.first.kind << 28 | <uint32_t> walk.first.size)
        if walk.first.size:
            memcpy(out + head, walk.data + walk.first.at, walk.first.size)
    output.done += size
    return FAULT_NONE


cdef int32_t _put_array(PathWalk *walk, const JsonNode *root, Output *output) except -2 nogil:
    # All parts as an array, in a second walk. bounds: written only if all of it has room.
    cdef int64_t size = 4 + 4 * walk.found + walk.num_bytes
    cdef int32_t fault = FAULT_NONE
    # Far from what 64 bits can count, so that no sum overflows.
    if size > (<int64_t> 1 << 60) - output.done:
        return FAULT_JSON_WALK
    if size <= output.room - output.done:
        put_json_word(output.out + output.done, <uint32_t> JSON_ARRAY << 29 | <uint32_t> walk.found)
        walk.entry = output.out + output.done + 4
        walk.bytes = walk.entry + 4 * walk.found
        walk.entries_left, walk.bytes_left = walk.found, walk.num_bytes
        fault = follow_path(walk, root, 0, 0)
        walk.entry = NULL
        if fault == FAULT_NONE and (walk.entries_left or walk.bytes_left):
            fault = FAULT_JSON
    output.done += size
    return fault


cdef int32_t _select(PathWalk *walk, int64_t start, int64_t stop, Output *output) except -2 nogil:
    # bounds: start .. stop is within the data.
    cdef JsonNode root
    cdef int32_t fault = json_root(walk.data, start, stop, &root)
    walk.found, walk.num_bytes = 0, 0
    if fault == FAULT_NONE:
        fault = follow_path(walk, &root, 0, 0)
    if fault != FAULT_NONE and fault != DONE:
        return fault
    if walk.mode == ARRAY_OF_VALUES or walk.found > 1:
        return _put_array(walk, &root, output)
    return _put_one(walk, output) if walk.found else FAULT_NONE


cdef int64_t _rows(
    PathWalk *walk, const JsonColumn *column, Output *output, int64_t[::1] offsets, uint8_t[::1] found, Fault
    *fault
) except -2 nogil:
    # bounds: offsets has an entry more than there are values, found one for each.
    cdef int64_t i, start, stop
    offsets[0] = 0
    for i in range(column.num_values):
        walk.found = 0
        fault.index = i
        fault.code = json_span(column, i, &start, &stop)
        if fault.code == FAULT_NONE and not json_is_null(column, i):
            fault.code = _select(walk, start, stop, output)
        if fault.code != FAULT_NONE:
            return -1
        found[i] = walk.found > 0
        offsets[i + 1] = output.done
    return 0


cdef int64_t _check_steps(const int64_t[::1] steps, const uint8_t[::1] names) except -2:
    cdef int64_t i, kind, first, last, most = <int64_t> 1 << 31
    if steps.shape[0] & 3 or steps.shape[0] > 4 * JSON_DEPTH:
        raise ValueError(f"a path has up to {JSON_DEPTH} steps of four numbers")
    for i in range(0, steps.shape[0], 4):
        kind, first, last = steps[i], steps[i + 1], steps[i + 2]
        if not STEP_NAME <= kind <= STEP_KEY:
            raise ValueError(f"step {i >> 2} is of no known kind")
        if (kind == STEP_NAME or kind == STEP_KEY) and not 0 <= first <= last <= names.shape[0]:
            raise ValueError(f"the name of step {i >> 2} is not among the names")
        if not (-most <= first <= most and -most <= last <= most):
            raise ValueError(f"the numbers of step {i >> 2} have more than 32 bits")
        if kind != STEP_RANGE or not steps[i + 3] & MORE_RANGES:
            continue
        if i + 4 == steps.shape[0] or steps[i + 4] != STEP_RANGE:
            raise ValueError(f"no range follows step {i >> 2}")
    return 0


def json_select(
    const int64_t[::1] offsets not None,
    const uint8_t[::1] values not None,
    const int64_t[::1] steps not None,
    const uint8_t[::1] names not None,
    int64_t mode,
    int64_t[::1] out_offsets not None,
    uint8_t[::1] out not None,
    uint8_t[::1] out_found not None,
    const uint8_t[::1] validity=None,
):
    """Select parts of stored JSON values by a path.

    Parameters
    ----------
    offsets : (num_values + 1,) int64
    values : (nbytes,) uint8, may be read-only
    steps : (4 * num_steps,) int64
        Kind, first, last and flags of each step: 0 the member named ``names[first:last]``; 1 the elements
        from first to last (flags: 1 first counts from the last element, 2 last does, 4 the next step is
        another such range); 2 all elements, or the value itself if it is no array; 3 all elements; 4 all
        members; 5 the value and those below it, from first to last levels down; 6 the member as of kind 0, or
        the element with the number ``flags``.
    names : (nbytes,) uint8
    mode : int
        0 the part, or an array of several; 1 the first part; 2 an array of the parts.
    out_offsets : (num_values + 1,) int64
        Offsets of the selected values; exact even if ``out`` is too small.
    out : (capacity,) uint8
        The stored selected values if all fit; otherwise undefined.
    out_found : (num_values,) uint8
        1 for a value with such a part, otherwise 0.
    validity : (ceil(num_values / 8),) uint8 or None
        Bitmap of the values that are not null; of a null nothing is selected.

    Returns
    -------
    int
        Bytes of all selected values; if more than ``capacity``, call again.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; a value is cut off, of an unknown kind or nested more than 128
        deep where the path leads; ``position`` is the value. What is selected is not looked into.
    ExpressionError
        The path leads to values in too many ways.
    ValueError
        An array does not have its size, or a step is none.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import json_select
    >>> stored = np.frombuffer(bytes.fromhex("40000001 10000001 20000002 61 5001"), np.uint8)
    >>> offsets, out, found = np.empty(2, np.int64), np.empty(99, np.uint8), np.empty(1, np.uint8)
    >>> path, names = np.array([0, 0, 1, 0]), np.frombuffer(b"a", np.uint8)
    >>> total = json_select(np.array([0, 15]), stored, path, names, 0, offsets, out, found)
    >>> out[:total].tobytes().hex(" ", 4)
    '2000 00002000 00025001'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef JsonColumn column = json_column(offsets, values, validity)
    cdef PathWalk walk
    cdef Output output = Output(NULL, out.shape[0], 0)
    if out_offsets.shape[0] != offsets.shape[0] or out_found.shape[0] != column.num_values:
        raise ValueError("out_offsets and out_found do not have an entry for every value")
    if not ONE_VALUE <= mode <= ARRAY_OF_VALUES:
        raise ValueError("mode is 0, 1 or 2")
    _check_steps(steps, names)
    walk.data, walk.mode, walk.entry, walk.names = column.data, mode, NULL, NULL
    walk.visits_left = LEAST_VISITS + BYTE_VISITS * column.num_bytes + VALUE_VISITS * column.num_values
    walk.steps, walk.num_steps = NULL, steps.shape[0] >> 2
    if walk.num_steps:
        walk.steps = <const PathStep *> &steps[0]
    if names.shape[0] > 0:
        walk.names = &names[0]
    if out.shape[0] > 0:
        output.out = &out[0]
    with nogil:
        _rows(&walk, &column, &output, out_offsets, out_found, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return output.done
