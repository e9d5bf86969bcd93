"""Converts JSONB values to text, all values of a column in one pass.

A value is a tree of containers, which the loops below walk recursively to a bounded depth. Text is written
as long as there is room, and counted beyond that: if the caller's guess was too small, a second call with the
size returned by the first writes everything.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_CODED_OFFSETS,
    FAULT_JSON,
    FAULT_JSON_DEPTH,
    FAULT_JSON_TEXT,
    FAULT_NONE,
    Fault,
)
from text cimport NUM_POWERS, clean_length, put_float, put_integer

from lancecy.kernels._codes import fail
from lancecy.kernels._powers import powers_of_ten

__all__ = ["json_texts"]

cdef enum:
    # Headers of containers: kind and number of elements (of keys, for objects).
    ARRAY = 4
    OBJECT = 2
    SCALAR = 1
    COUNT = 0x1FFFFFFF
    # Entries of elements: kind and number of bytes.
    IS_NULL = 0
    IS_STRING = 1
    IS_NUMBER = 2
    IS_FALSE = 3
    IS_TRUE = 4
    IS_CONTAINER = 5
    SIZE = 0x0FFFFFFF
    # Nesting that the parser of the reference writer accepts.
    DEPTH = 128
    # Room for the text of any number.
    NUMBER = 32

cdef struct Work:
    # All stored bytes, the powers of ten, and the output: `done` may exceed `room`; nothing is written there.
    const uint8_t *data
    const uint64_t *powers
    uint8_t *out
    int64_t room
    int64_t done


# -- output -----------------------------------------------------------------------------


cdef inline int64_t _put(Work *work, const uint8_t *text, int64_t size) except -2 nogil:
    # bounds: text has `size` bytes; bytes that do not fit are only counted.
    if size <= work.room - work.done:
        memcpy(work.out + work.done, text, size)
    work.done += size
    return 0


cdef inline int64_t _put_byte(Work *work, uint8_t byte) except -2 nogil:
    # bounds: written only where there is room.
    if work.done < work.room:
        work.out[work.done] = byte
    work.done += 1
    return 0


cdef inline uint32_t _word(const uint8_t *data) except? 77 nogil:
    # A big-endian number. bounds: the caller has checked that four bytes are present.
    return <uint32_t> data[0] << 24 | <uint32_t> data[1] << 16 | <uint32_t> data[2] << 8 | data[3]


# -- text -------------------------------------------------------------------------------


cdef int64_t _escape(Work *work, uint8_t byte) except -2 nogil:
    # bounds: both tables have an entry for every number used.
    cdef const uint8_t *letters = <const uint8_t *> b"btn_fr"
    cdef const uint8_t *hexadecimal = <const uint8_t *> b"0123456789abcdef"
    _put_byte(work, 0x5C)
    if byte == 0x22 or byte == 0x5C:
        _put_byte(work, byte)
    elif 8 <= byte <= 13 and byte != 11:
        _put_byte(work, letters[byte - 8])
    else:
        _put(work, <const uint8_t *> b"u00", 3)
        _put_byte(work, hexadecimal[byte >> 4])
        _put_byte(work, hexadecimal[byte & 15])
    return 0


cdef int32_t _quoted(Work *work, const uint8_t *text, int64_t size) except -2 nogil:
    # bounds: text has `size` bytes, and so has each part that is written.
    cdef int64_t at = 0, length
    _put_byte(work, 0x22)
    while True:
        length = clean_length(text + at, size - at)
        _put(work, text + at, length)
        at += length
        if at == size:
            break
        if text[at] >= 0x80:
            return FAULT_JSON_TEXT
        _escape(work, text[at])
        at += 1
    _put_byte(work, 0x22)
    return FAULT_NONE


# -- numbers ----------------------------------------------------------------------------


cdef int32_t _number(Work *work, const uint8_t *data, int64_t size) except -2 nogil:
    # bounds: data has `size` bytes; text has room for any number.
    cdef uint8_t text[NUMBER]
    cdef uint8_t kind
    cdef uint64_t word = 0
    cdef int64_t i
    if size == 0 or size > 9:
        return FAULT_JSON
    kind = data[0]
    for i in range(1, size):
        word = word << 8 | data[i]
    size -= 1
    if (kind == 0x40 or kind == 0x50) and (size == 1 or size == 2 or size == 4 or size == 8):
        _put(work, text, put_integer(kind == 0x40, word, size, text))
    elif kind == 0x60 and size == 8:
        _put(work, text, put_float(work.powers, word, text))
    elif kind == 0 and size == 0:
        _put_byte(work, 0x30)
    elif (kind == 0x10 or kind == 0x20 or kind == 0x30) and size == 0:
        # JSON has no notation for NaN and the infinities.
        _put(work, <const uint8_t *> b"null", 4)
    else:
        return FAULT_JSON
    return FAULT_NONE


# -- values -----------------------------------------------------------------------------


cdef int32_t _value(Work *work, uint32_t entry, int64_t at, int64_t size, int64_t depth) except -2 nogil:
    # bounds: `size` bytes from `at` on are within the data.
    cdef uint32_t kind = entry >> 28 & 7
    if kind == IS_CONTAINER:
        return _container(work, at, at + size, depth + 1)
    if kind == IS_STRING:
        return _quoted(work, work.data + at, size)
    if kind == IS_NUMBER:
        return _number(work, work.data + at, size)
    if kind == IS_NULL:
        _put(work, <const uint8_t *> b"null", 4)
    elif kind == IS_TRUE:
        _put(work, <const uint8_t *> b"true", 4)
    elif kind == IS_FALSE:
        _put(work, <const uint8_t *> b"false", 5)
    else:
        return FAULT_JSON
    return FAULT_NONE


cdef int32_t _elements(
    Work *work, int64_t entries, int64_t count, int64_t at, int64_t stop, int64_t depth
) except -2 nogil:
    # Elements described from `entries` on, whose bytes begin at `at`.
    # bounds: `count` entries of four bytes are within the data, and so is all before stop.
    cdef int64_t i, size
    cdef uint32_t entry
    cdef int32_t fault
    for i in range(count):
        if i > 0:
            _put_byte(work, 0x2C)
        entry = _word(work.data + entries + 4 * i)
        size = entry & SIZE
        if size > stop - at:
            return FAULT_JSON
        fault = _value(work, entry, at, size, depth)
        if fault != FAULT_NONE:
            return fault
        at += size
    return FAULT_NONE


cdef int32_t _members(
    Work *work, int64_t entries, int64_t count, int64_t at, int64_t stop, int64_t depth
) except -2 nogil:
    # Keys, then values, described from `entries` on; the bytes of the keys begin at `at`.
    # bounds: 2 * count entries of four bytes are within the data, and so is all before stop.
    cdef int64_t i, size, key = at
    cdef uint32_t entry
    cdef int32_t fault
    for i in range(count):
        size = _word(work.data + entries + 4 * i) & SIZE
        if size > stop - at:
            return FAULT_JSON
        at += size
    for i in range(count):
        if i > 0:
            _put_byte(work, 0x2C)
        size = _word(work.data + entries + 4 * i) & SIZE
        # The bytes may belong to a file that is being written to: what was checked above may have changed.
        if size > stop - key:
            return FAULT_JSON
        fault = _quoted(work, work.data + key, size)
        key += size
        if fault != FAULT_NONE:
            return fault
        _put_byte(work, 0x3A)
        entry = _word(work.data + entries + 4 * (count + i))
        size = entry & SIZE
        if size > stop - at:
            return FAULT_JSON
        fault = _value(work, entry, at, size, depth)
        if fault != FAULT_NONE:
            return fault
        at += size
    return FAULT_NONE


cdef int32_t _container(Work *work, int64_t start, int64_t stop, int64_t depth) except -2 nogil:
    # bounds: start .. stop is within the data, and entries are read only once they are known to be.
    cdef uint32_t header, kind
    cdef int64_t count, entries = start + 4
    cdef int32_t fault = FAULT_JSON
    if depth > DEPTH:
        return FAULT_JSON_DEPTH
    if stop - start < 4:
        return FAULT_JSON
    header = _word(work.data + start)
    kind, count = header >> 29, header & COUNT
    if kind == SCALAR:
        count = 1
    if count * (2 if kind == OBJECT else 1) > (stop - entries) >> 2:
        return FAULT_JSON
    if kind == SCALAR:
        return _elements(work, entries, 1, entries + 4, stop, depth)
    if kind == ARRAY:
        _put_byte(work, 0x5B)
        fault = _elements(work, entries, count, entries + 4 * count, stop, depth)
        _put_byte(work, 0x5D)
    elif kind == OBJECT:
        _put_byte(work, 0x7B)
        fault = _members(work, entries, count, entries + 8 * count, stop, depth)
        _put_byte(work, 0x7D)
    return fault


cdef int64_t _texts(
    Work *work,
    const int64_t *offsets,
    int64_t num_bytes,
    const uint8_t *validity,
    int64_t[::1] out_offsets,
    Fault *fault,
) except -2 nogil:
    # bounds: offsets has as many entries as out_offsets, validity a bit for each but the last or is NULL.
    cdef int64_t i, start, stop
    out_offsets[0] = 0
    for i in range(out_offsets.shape[0] - 1):
        start, stop = offsets[i], offsets[i + 1]
        fault.index = i
        if start < 0 or stop < start or stop > num_bytes:
            fault.code = FAULT_CODED_OFFSETS
            return -1
        if validity == NULL or validity[i >> 3] >> (i & 7) & 1:
            if start == stop:
                # The reference reader's result for no bytes.
                _put(work, <const uint8_t *> b"null", 4)
            else:
                fault.code = _container(work, start, stop, 0)
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
    cdef const uint8_t *bits = NULL
    cdef Work work = Work(NULL, NULL, NULL, out.shape[0], 0)
    if offsets.shape[0] < 1 or out_offsets.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    if validity is not None:
        if validity.shape[0] != (offsets.shape[0] + 6) >> 3:
            raise ValueError("validity does not have a bit for every value")
        if validity.shape[0] > 0:
            bits = &validity[0]
    if powers.shape[0] != NUM_POWERS:
        raise ValueError("powers of ten are missing")
    work.powers = &powers[0]
    if values.shape[0] > 0:
        work.data = &values[0]
    if out.shape[0] > 0:
        work.out = &out[0]
    with nogil:
        _texts(&work, &offsets[0], values.shape[0], bits, out_offsets, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return work.done
