"""Converts JSONB values to text, all values of a column in one pass.

Text is written as long as there is room, and counted beyond that: if the caller's guess was too small, a
second call with the size returned by the first writes everything.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cursor cimport FAULT_NONE, Fault
from jsonb cimport (
    JSON_STRING,
    JsonColumn,
    JsonNode,
    TextWork,
    json_column,
    json_is_null,
    json_root,
    json_span,
    put_json,
    put_plain,
    put_text,
)
from text cimport NUM_POWERS

from lancecy.kernels._codes import fail
from lancecy.kernels._powers import powers_of_ten

__all__ = ["json_texts"]


cdef int32_t _text(TextWork *work, int64_t start, int64_t stop, bint plain) except -2 nogil:
    # bounds: start .. stop is within the data; no bytes are null, as to the reference reader.
    cdef JsonNode node
    cdef int32_t fault
    if start == stop:
        put_text(work, <const uint8_t *> b"null", 4)
        return FAULT_NONE
    if plain:
        fault = json_root(work.data, start, stop, &node)
        if fault != FAULT_NONE:
            return fault
        if node.kind == JSON_STRING:
            return put_plain(work, work.data + node.at, node.size)
    return put_json(work, start, stop, 0)


cdef int64_t _texts(
    TextWork *work, const JsonColumn *column, bint plain, int64_t[::1] out_offsets, Fault *fault
) except -2 nogil:
    # bounds: out_offsets has an entry more than there are values.
    cdef int64_t i, start, stop
    out_offsets[0] = 0
    for i in range(column.num_values):
        fault.index = i
        fault.code = json_span(column, i, &start, &stop)
        if fault.code == FAULT_NONE and not json_is_null(column, i):
            fault.code = _text(work, start, stop, plain)
        if fault.code != FAULT_NONE:
            return -1
        out_offsets[i + 1] = work.done
    return 0


def json_texts(
    const int64_t[::1] offsets not None,
    const uint8_t[::1] values not None,
    int64_t[::1] out_offsets not None,
    uint8_t[::1] out not None,
    const uint8_t[::1] validity=None,
    bint plain=False,
):
    """Write stored JSON values as text.

    Parameters
    ----------
    offsets : (num_values + 1,) int64
        Offsets of the stored values in ``values``; the first may be above 0.
    values : (nbytes,) uint8, may be read-only
    out_offsets : (num_values + 1,) int64
        Offsets of the texts; exact even if ``out`` is too small.
    out : (capacity,) uint8
        The concatenated texts if all fit; otherwise undefined.
    validity : (ceil(num_values / 8),) uint8 or None
        Bitmap of the values that are not null; the text of a null is empty.
    plain : bool
        Write a value that is text without quotes and escapes.

    Returns
    -------
    int
        Bytes of all texts; if more than ``capacity``, call again with that capacity.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; a value is cut off, of an unknown kind, nested more than 128
        deep, or has text that is not UTF-8; ``position`` is the value.
    ValueError
        An array does not have its size.

    Source: file sheet 2.0, section 8.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import json_texts
    >>> stored = np.frombuffer(bytes.fromhex("40000001 10000001 20000002 61 5001"), np.uint8)
    >>> offsets, out = np.empty(2, np.int64), np.empty(99, np.uint8)
    >>> total = json_texts(np.array([0, 15]), stored, offsets, out)
    >>> out[:total].tobytes()
    b'{"a":1}'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef const uint64_t[::1] powers = powers_of_ten()
    cdef JsonColumn column = json_column(offsets, values, validity)
    cdef TextWork work = TextWork(column.data, NULL, NULL, out.shape[0], 0)
    if out_offsets.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    if powers.shape[0] != NUM_POWERS:
        raise ValueError("powers of ten are missing")
    work.powers = &powers[0]
    if out.shape[0] > 0:
        work.out = &out[0]
    with nogil:
        _texts(&work, &column, plain, out_offsets, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return work.done
