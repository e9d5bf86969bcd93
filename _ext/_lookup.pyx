"""Dictionary look-ups by code: lengths and bytes of strings, and fixed-width values.

Codes of every width are read as unsigned numbers of that width, where negative ones are
larger than any that a dictionary of a signed code type can have. Nulls need no branch: their
code becomes 0 and their length 0, so random nulls cost the same as values.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int16_t, int32_t, int64_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from cursor cimport (
    FAULT_CODE,
    FAULT_CODED_OFFSETS,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    FAULT_TOO_MANY_BYTES,
    Fault,
    has,
    load64,
    store64,
)

from lancecy.kernels._codes import fail

__all__ = ["take_fixed", "take_offsets", "take_values"]

ctypedef fused Code:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Offset:
    int32_t
    int64_t

ctypedef fused OutOffset:
    int32_t
    int64_t

cdef enum:
    # Up to this length, values are copied as four words if there is room.
    SHORT = 32

cdef struct Rows:
    # The codes (of any type), the number of values in the dictionary, and the bitmap of rows that are not
    # null.
    const void *codes
    Py_ssize_t count
    uint64_t limit
    const uint8_t *validity

cdef struct Values:
    const uint8_t *first
    int64_t size

cdef struct Output:
    uint8_t *first
    int64_t size


cdef inline uint64_t _valid(const Rows *rows, Py_ssize_t row) except? 2 nogil:
    # 1 if the row is not null, else 0. bounds: validity is NULL or has a bit for every row.
    return 1 if rows.validity is NULL else rows.validity[row >> 3] >> (row & 7) & 1


cdef inline uint64_t _code(
    const Rows *rows, Py_ssize_t row, uint64_t valid, Code kind
) except? 0xE5C1A9D3B7F08642 nogil:
    # The code of a row as an unsigned number, 0 for a null. bounds: codes has an entry for every row.
    if Code is int8_t or Code is uint8_t:
        return (<const uint8_t *> rows.codes)[row] & (0 - valid)
    elif Code is int16_t or Code is uint16_t:
        return (<const uint16_t *> rows.codes)[row] & (0 - valid)
    elif Code is int32_t or Code is uint32_t:
        return (<const uint32_t *> rows.codes)[row] & (0 - valid)
    else:
        return (<const uint64_t *> rows.codes)[row] & (0 - valid)


cdef int64_t _measure(
    const Rows *rows, const Offset *offsets, OutOffset *out, Fault *fault, Code kind
) except -2 nogil:
    # bounds: offsets has limit + 1 entries, of which there is at least one, and out count + 1.
    cdef int64_t length, total = 0, most = INT32_MAX if OutOffset is int32_t else INT64_MAX
    cdef Py_ssize_t row
    cdef uint64_t code, valid, start, stop
    out[0] = 0
    for row in range(rows.count):
        valid = _valid(rows, row)
        code = _code(rows, row, valid, kind)
        length = 0
        if code < rows.limit:
            start, stop = <uint64_t> offsets[code] & (0 - valid), <uint64_t> offsets[code + 1] & (0 - valid)
            length = <int64_t> (stop - start)
            # The sign bit is set if one of them is negative, or if neither is and they descend.
            if (start | stop | (stop - start)) >> 63:
                fault.code, fault.index = FAULT_CODED_OFFSETS, row
                return -1
        elif valid:
            fault.code, fault.index = FAULT_CODE, row
            return -1
        if length > most - total:
            fault.code, fault.index = FAULT_TOO_MANY_BYTES, row
            return -1
        total += length
        out[row + 1] = <OutOffset> total
    return total


cdef int64_t _copy_values(
    const Rows *rows, const Offset *offsets, const Values *values, const OutOffset *out_offsets,
    const Output *out, Fault *fault, Code kind,
) except -2 nogil:
    # bounds: as _measure; a value is tested to be in values and to fit into out before it is copied. Four
    # words are copied instead of a short one only where both sides have them.
    cdef const uint8_t *source = values.first
    cdef uint8_t *target = out.first
    cdef int64_t size = values.size, room = out.size, start, length, done = 0
    cdef Py_ssize_t row
    cdef uint64_t code, valid
    for row in range(rows.count):
        valid = _valid(rows, row)
        code = _code(rows, row, valid, kind)
        start = length = 0
        if code < rows.limit:
            start = <int64_t> (<uint64_t> offsets[code] & (0 - valid))
            length = <int64_t> ((<uint64_t> offsets[code + 1] - <uint64_t> offsets[code]) & (0 - valid))
            if not has(start, length, size):
                fault.code, fault.index = FAULT_CODED_OFFSETS, row
                return -1
        elif valid:
            fault.code, fault.index = FAULT_CODE, row
            return -1
        if length > room - done or out_offsets[row + 1] != done + length:
            fault.code, fault.index = FAULT_OUT_SIZE, row
            return -1
        if length <= SHORT and room - done >= SHORT and size - start >= SHORT:
            store64(target + done, load64(source + start))
            store64(target + done + 8, load64(source + start + 8))
            store64(target + done + 16, load64(source + start + 16))
            store64(target + done + 24, load64(source + start + 24))
        elif length > 0:
            memcpy(target + done, source + start, length)
        done += length
    if out_offsets[0] != 0 or done != room:
        fault.code = FAULT_OUT_SIZE
    return done


cdef inline int64_t _copy_fixed(
    const Rows *rows, const uint8_t *values, size_t width, uint8_t *out, Code kind
) except -2 nogil:
    # Index of the first bad code, or -1. Called with literal widths, so that the copies become single
    # moves.
    # bounds: values has limit values of `width` bytes and out count of them; a code is tested before its
    # use.
    cdef Py_ssize_t row
    cdef uint64_t code, valid, word = 0
    for row in range(rows.count):
        valid = _valid(rows, row)
        code = _code(rows, row, valid, kind)
        if code >= rows.limit:
            if valid:
                return row
            memset(out, 0, width)
        elif width <= 8:
            memcpy(&word, values + code * width, width)
            word &= 0 - valid
            memcpy(out, &word, width)
        elif valid:
            memcpy(out, values + code * width, width)
        else:
            memset(out, 0, width)
        out += width
    return -1


cdef Rows _rows(const void *codes, Py_ssize_t count, int64_t limit, const uint8_t[::1] validity) except *:
    # Nothing is read through a pointer here; bounds: validity has the bits of all rows.
    cdef Rows rows = Rows(codes, count, <uint64_t> limit, NULL)
    if validity is not None:
        if validity.shape[0] != (count + 7) >> 3:
            raise ValueError("validity needs one bit per row")
        if count > 0:
            rows.validity = &validity[0]
    return rows


cdef inline int64_t _limit(int64_t num_values, Code kind) except -1:
    # Beyond the largest number of a signed type, negative codes read as unsigned would be valid.
    # Codes of 64 bits need no such limit: there are no 2^63 values.
    cdef int64_t largest = INT64_MAX
    if Code is int8_t or Code is int16_t or Code is int32_t:
        largest = <int64_t> 1 << (8 * sizeof(Code) - 1)
    return num_values if num_values < largest else largest


def take_offsets(
    const Code[::1] codes not None,
    const Offset[::1] dict_offsets not None,
    OutOffset[::1] out_offsets not None,
    const uint8_t[::1] validity=None,
):
    """Measure the strings of codes.

    Parameters
    ----------
    codes : (num_rows,) integers of any width, signed or unsigned
    dict_offsets : (num_values + 1,) int32 or int64, bytes
        Offsets of the dictionary's values.
    out_offsets : (num_rows + 1,) int32 or int64, bytes
        Offsets of the concatenated strings; the first is 0.
    validity : (ceil(num_rows / 8),) uint8, optional
        Bitmap; a row whose bit is 0 may have any code and becomes empty.

    Returns
    -------
    int
        Bytes of all strings.

    Raises
    ------
    FormatError
        A code is not in the dictionary, offsets of its value are negative or descend, or there are more than
        2^31-1 bytes for int32 offsets; ``position`` is the row.
    ValueError
        An array does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import take_offsets
    >>> offsets = np.empty(4, np.int32)
    >>> take_offsets(np.array([1, 0, 1]), np.array([0, 2, 5]), offsets)
    8
    >>> offsets.tolist()
    [0, 3, 5, 8]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Rows rows
    cdef int64_t total = 0
    if dict_offsets.shape[0] < 1 or out_offsets.shape[0] != codes.shape[0] + 1:
        raise ValueError("dict_offsets needs an entry more than values and out_offsets one more than codes")
    rows = _rows(NULL, codes.shape[0], _limit(dict_offsets.shape[0] - 1, <Code> 0), validity)
    if rows.count > 0:
        rows.codes = &codes[0]
    with nogil:
        total = _measure(&rows, &dict_offsets[0], &out_offsets[0], &fault, <Code> 0)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total


def take_values(
    const Code[::1] codes not None,
    const Offset[::1] dict_offsets not None,
    const uint8_t[::1] dict_values not None,
    const OutOffset[::1] out_offsets not None,
    uint8_t[::1] out not None,
    const uint8_t[::1] validity=None,
):
    """Copy the strings of codes.

    Parameters
    ----------
    codes, dict_offsets, validity
        As for ``take_offsets``.
    dict_values : (nbytes,) uint8, may be read-only
        Bytes of the dictionary's values.
    out_offsets : (num_rows + 1,) int32 or int64, bytes
        Filled by ``take_offsets``.
    out : (out_offsets[-1],) uint8
        The concatenated strings.

    Raises
    ------
    FormatError
        A code is not in the dictionary, or its value not in ``dict_values``; ``position`` is the row.
    ValueError
        An array does not have its size, or strings do not have the lengths in ``out_offsets``.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import take_values
    >>> words, out = np.frombuffer(b"abcde", np.uint8), np.empty(8, np.uint8)
    >>> take_values(np.array([1, 0, 1]), np.array([0, 2, 5]), words, np.array([0, 3, 5, 8]), out)
    >>> out.tobytes()
    b'cdeabcde'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Values values = Values(NULL, dict_values.shape[0])
    cdef Output output = Output(NULL, out.shape[0])
    cdef Rows rows
    if dict_offsets.shape[0] < 1 or out_offsets.shape[0] != codes.shape[0] + 1:
        raise ValueError("dict_offsets needs an entry more than values and out_offsets one more than codes")
    rows = _rows(NULL, codes.shape[0], _limit(dict_offsets.shape[0] - 1, <Code> 0), validity)
    if rows.count > 0:
        rows.codes = &codes[0]
    if values.size > 0:
        values.first = &dict_values[0]
    if output.size > 0:
        output.first = &out[0]
    with nogil:
        _copy_values(&rows, &dict_offsets[0], &values, &out_offsets[0], &output, &fault, <Code> 0)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)


def take_fixed(
    const Code[::1] codes not None,
    const uint8_t[::1] values not None,
    int64_t width,
    uint8_t[::1] out not None,
    const uint8_t[::1] validity=None,
):
    """Copy the fixed-width values of codes.

    Parameters
    ----------
    codes : (num_rows,) integers of any width, signed or unsigned
    values : (num_values * width,) uint8, may be read-only
        The dictionary.
    width : int, bytes
        Width of one value, at least 1.
    out : (num_rows * width,) uint8
    validity : (ceil(num_rows / 8),) uint8, optional
        Bitmap; a row whose bit is 0 may have any code and gets zeros.

    Raises
    ------
    FormatError
        A code is not in the dictionary; ``position`` is the row.
    ValueError
        ``width`` is below 1 or an array does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import take_fixed
    >>> values, out = np.array([10, 20, 30], "<i4"), np.empty(2, "<i4")
    >>> take_fixed(np.array([2, 0], np.int8), values.view(np.uint8), 4, out.view(np.uint8))
    >>> out.tolist()
    [30, 10]
    """
    cdef const uint8_t *source = &values[0] if values.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    cdef int64_t bad = -1
    cdef Rows rows
    if width < 1 or values.shape[0] % width:
        raise ValueError("width must be at least 1 and divide the size of values")
    if out.shape[0] % width or out.shape[0] // width != codes.shape[0]:
        raise ValueError("out does not have one value per code")
    rows = _rows(NULL, codes.shape[0], _limit(values.shape[0] // width, <Code> 0), validity)
    if rows.count > 0:
        rows.codes = &codes[0]
    with nogil:
        if width == 1:
            bad = _copy_fixed(&rows, source, 1, target, <Code> 0)
        elif width == 2:
            bad = _copy_fixed(&rows, source, 2, target, <Code> 0)
        elif width == 4:
            bad = _copy_fixed(&rows, source, 4, target, <Code> 0)
        elif width == 8:
            bad = _copy_fixed(&rows, source, 8, target, <Code> 0)
        elif width == 16:
            bad = _copy_fixed(&rows, source, 16, target, <Code> 0)
        else:
            bad = _copy_fixed(&rows, source, <size_t> width, target, <Code> 0)
    if bad >= 0:
        fail(FAULT_CODE, bad)
