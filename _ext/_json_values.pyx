"""Reads JSONB values as numbers, and looks for elements of JSONB arrays."""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from cursor cimport FAULT_JSON, FAULT_NONE, Fault
from jsonb cimport (
    JSON_ARRAY,
    JSON_FALSE,
    JSON_NULL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_TRUE,
    JsonColumn,
    JsonItems,
    JsonNode,
    TextWork,
    json_child,
    json_column,
    json_is_null,
    json_items,
    json_root,
    json_span,
    put_json_value,
)
from text cimport NUM_POWERS

from lancecy.kernels._codes import fail
from lancecy.kernels._powers import powers_of_ten

__all__ = ["json_array_has", "json_scalars"]

cdef enum:
    # Kinds of json_scalars.
    KIND_NULL = 0
    KIND_INTEGER = 1
    KIND_LARGE = 2
    KIND_FLOAT = 3
    KIND_FALSE = 4
    KIND_TRUE = 5
    KIND_TEXT = 6
    KIND_ARRAY = 7
    KIND_OBJECT = 8

cdef struct Number:
    uint8_t kind
    int64_t integer
    double float


# -- membership -------------------------------------------------------------------------


cdef int32_t _has(
    TextWork *work, int64_t start, int64_t stop, const uint8_t[::1] text, uint8_t *hit
) except -2 nogil:
    # bounds: start .. stop is within the data; `out` has two bytes more than text.
    cdef JsonNode node
    cdef JsonItems items
    cdef int64_t i, at, size = text.shape[0]
    cdef int32_t fault = json_root(work.data, start, stop, &node)
    if fault == FAULT_NONE:
        fault = json_items(work.data, &node, &items)
    if fault != FAULT_NONE or items.kind != JSON_ARRAY:
        return fault
    at = items.at
    for i in range(items.count):
        fault = json_child(work.data, items.entries + 4 * i, at, items.stop, &node)
        if fault != FAULT_NONE:
            return fault
        work.done = 0
        fault = put_json_value(work, node.kind << 28, node.at, node.size, 0)
        if fault != FAULT_NONE:
            return fault
        at += node.size
        if work.done == size and (size == 0 or memcmp(work.out, &text[0], size) == 0):
            hit[0] = 1
        elif work.done == size + 2 and work.out[0] == 0x22 and work.out[size + 1] == 0x22:
            hit[0] = size == 0 or memcmp(work.out + 1, &text[0], size) == 0
        if hit[0]:
            break
    return FAULT_NONE


cdef int64_t _hits(
    TextWork *work, const JsonColumn *column, const uint8_t[::1] text, uint8_t[::1] out, Fault *fault
) except -2 nogil:
    # bounds: out has an entry for every value.
    cdef int64_t i, start, stop
    for i in range(column.num_values):
        out[i] = 0
        fault.index = i
        fault.code = json_span(column, i, &start, &stop)
        if fault.code == FAULT_NONE and not json_is_null(column, i):
            fault.code = _has(work, start, stop, text, &out[i])
        if fault.code != FAULT_NONE:
            return -1
    return 0


def json_array_has(
    const int64_t[::1] offsets not None,
    const uint8_t[::1] values not None,
    const uint8_t[::1] text not None,
    uint8_t[::1] out not None,
    const uint8_t[::1] validity=None,
):
    """Find the stored JSON arrays that have an element with a given text.

    Parameters
    ----------
    offsets : (num_values + 1,) int64
    values : (nbytes,) uint8, may be read-only
    text : (size,) uint8
        JSON as :func:`json_texts` writes it; text may lack its quotes.
    out : (num_values,) uint8
        1 for an array with such an element, 0 for other arrays, other values and nulls.
    validity : (ceil(num_values / 8),) uint8 or None
        Bitmap of the values that are not null.

    Raises
    ------
    FormatError
        As :func:`json_texts`, for what was looked at until an element was found.
    ValueError
        An array does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import json_array_has
    >>> stored = np.frombuffer(bytes.fromhex("80000001 10000001 61"), np.uint8)
    >>> out = np.empty(1, np.uint8)
    >>> json_array_has(np.array([0, 9]), stored, np.frombuffer(b"a", np.uint8), out)
    >>> out.tolist()
    [1]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef const uint64_t[::1] powers = powers_of_ten()
    cdef JsonColumn column = json_column(offsets, values, validity)
    cdef uint8_t[::1] scratch = bytearray(text.shape[0] + 2)
    cdef TextWork work = TextWork(column.data, NULL, &scratch[0], scratch.shape[0], 0)
    if out.shape[0] != column.num_values:
        raise ValueError("out does not have an entry for every value")
    if powers.shape[0] != NUM_POWERS:
        raise ValueError("powers of ten are missing")
    work.powers = &powers[0]
    with nogil:
        _hits(&work, &column, text, out, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)


# -- scalars ----------------------------------------------------------------------------


cdef int32_t _number(const uint8_t *data, int64_t size, Number *number) except -2 nogil:
    # bounds: data has `size` bytes.
    cdef uint8_t kind
    cdef uint64_t word = 0
    cdef int64_t i
    if size == 0 or size > 9:
        return FAULT_JSON
    kind = data[0]
    size -= 1
    for i in range(size):
        word = word << 8 | data[i + 1]
    number.kind = KIND_INTEGER
    if (kind == 0x40 or kind == 0x50) and (size == 1 or size == 2 or size == 4 or size == 8):
        if kind == 0x40 and size < 8:
            # Subtracting the sign bit of the narrow number extends it.
            number.integer = <int64_t> word - ((<int64_t> (word >> (8 * size - 1))) << (8 * size))
        elif kind == 0x40 or word < <uint64_t> 1 << 63:
            number.integer = <int64_t> word
        else:
            number.kind = KIND_LARGE
        number.float = <double> word if number.kind == KIND_LARGE else <double> number.integer
    elif kind == 0x60 and size == 8:
        number.kind = KIND_FLOAT
        memcpy(&number.float, &word, 8)
    elif (kind == 0x10 or kind == 0x20 or kind == 0x30) and size == 0:
        number.kind = KIND_FLOAT
        number.float = NAN if kind == 0x10 else (INFINITY if kind == 0x20 else -INFINITY)
    elif kind != 0 or size != 0:
        return FAULT_JSON
    return FAULT_NONE


cdef int32_t _scalar(const uint8_t *data, int64_t start, int64_t stop, Number *number) except -2 nogil:
    # bounds: start .. stop is within the data.
    cdef JsonNode node
    cdef JsonItems items
    cdef int32_t fault = json_root(data, start, stop, &node)
    if fault != FAULT_NONE:
        return fault
    if node.kind == JSON_NUMBER:
        return _number(data + node.at, node.size, number)
    if node.kind == JSON_NULL:
        number.kind = KIND_NULL
    elif node.kind == JSON_TRUE or node.kind == JSON_FALSE:
        number.kind = KIND_TRUE if node.kind == JSON_TRUE else KIND_FALSE
    elif node.kind == JSON_STRING:
        number.kind = KIND_TEXT
    else:
        fault = json_items(data, &node, &items)
        number.kind = KIND_ARRAY if items.kind == JSON_ARRAY else KIND_OBJECT
        number.integer = items.count
    return fault


cdef int64_t _scalars(
    const JsonColumn *column, uint8_t[::1] kinds, int64_t[::1] integers, double[::1] floats, Fault *fault
) except -2 nogil:
    # bounds: the three arrays have an entry for every value.
    cdef int64_t i, start, stop
    cdef Number number
    for i in range(column.num_values):
        number.kind, number.integer, number.float = KIND_NULL, 0, 0.0
        fault.index = i
        fault.code = json_span(column, i, &start, &stop)
        if fault.code == FAULT_NONE and not json_is_null(column, i):
            fault.code = _scalar(column.data, start, stop, &number)
        if fault.code != FAULT_NONE:
            return -1
        kinds[i], integers[i], floats[i] = number.kind, number.integer, number.float
    return 0


def json_scalars(
    const int64_t[::1] offsets not None,
    const uint8_t[::1] values not None,
    uint8_t[::1] out_kinds not None,
    int64_t[::1] out_integers not None,
    double[::1] out_floats not None,
    const uint8_t[::1] validity=None,
):
    """Read the kinds and numbers of stored JSON values.

    Parameters
    ----------
    offsets : (num_values + 1,) int64
    values : (nbytes,) uint8, may be read-only
    out_kinds : (num_values,) uint8
        0 null, 1 integer of 64 bits, 2 larger integer, 3 float, 4 false, 5 true, 6 text, 7 array, 8 object.
    out_integers : (num_values,) int64
        The integers of kind 1, and how many elements or members arrays and objects have; 0 for others.
    out_floats : (num_values,) float64
        The numbers of kinds 1 to 3, rounded; 0 for others.
    validity : (ceil(num_values / 8),) uint8 or None
        Bitmap of the values that are not null.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; a value is cut off or of an unknown kind; ``position`` is the
        value. Elements and members are not looked at.
    ValueError
        An array does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import json_scalars
    >>> stored = np.frombuffer(bytes.fromhex("20000000 20000002 50ff"), np.uint8)
    >>> kinds, integers, floats = np.empty(1, np.uint8), np.empty(1, np.int64), np.empty(1)
    >>> json_scalars(np.array([0, 10]), stored, kinds, integers, floats)
    >>> kinds.tolist(), integers.tolist(), floats.tolist()
    ([1], [255], [255.0])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef JsonColumn column = json_column(offsets, values, validity)
    if not out_kinds.shape[0] == out_integers.shape[0] == out_floats.shape[0] == column.num_values:
        raise ValueError("an output does not have an entry for every value")
    with nogil:
        _scalars(&column, out_kinds, out_integers, out_floats, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
