"""Strings coded with a table of up to 255 symbols of 1 to 8 bytes (FSST).

Every byte of a coded value is the number of a symbol, except 255: the byte after it stands for
itself. Decoding copies eight bytes per code, whatever the length of its symbol, and moves on by
that length; only where the output has no eight bytes left are symbols copied exactly. Once every
value is measured, and so known to end with a whole code, all are decoded as one stream: ends of
short values would cost more than their codes.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_CODED_OFFSETS,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    FAULT_SYMBOL,
    FAULT_TOO_MANY_BYTES,
    Fault,
    load32,
    store64,
)

from lancecy.kernels._codes import fail

__all__ = ["fsst_decode", "fsst_offsets"]

cdef enum:
    NUM_CODES = 256
    ESCAPE = 255
    LONGEST = 8
    BLOCK = 2048

ctypedef fused Offset:
    int32_t
    int64_t

ctypedef fused OutOffset:
    int32_t
    int64_t

cdef struct Coded:
    # The bytes of all values, and the table: the length of a code without a symbol is 0.
    const uint8_t *values
    int64_t num_bytes
    const uint64_t *symbols
    const uint8_t *lengths

cdef struct Output:
    uint8_t *first
    int64_t size


cdef int64_t _sizes(const Coded *coded, int64_t start, int64_t stop, int32_t *before) except -2 nogil:
    # Decoded bytes before each code of start .. stop, counted from start, and before what follows them. A
    # byte that an escape makes literal has -1: no value can begin there. Returns where it ended, which is one
    # beyond stop if the last code is an escape; or -3 - position of a code without a symbol, or that
    # escapes nothing.
    # bounds: before has BLOCK + 2 entries, stop - start is at most BLOCK and stop at most num_bytes.
    cdef const uint8_t *values = coded.values
    cdef const uint8_t *lengths = coded.lengths
    cdef int64_t at = start
    cdef int32_t *place
    cdef int32_t done = 0, length
    cdef uint32_t four
    while at < stop:
        if stop - at >= 4:
            # Four codes at a time as long as all of them have symbols.
            four = load32(values + at)
            if (
                lengths[four & 255] != 0
                and lengths[four >> 8 & 255] != 0
                and lengths[four >> 16 & 255] != 0
                and lengths[four >> 24] != 0
            ):
                place = before + (at - start)
                place[0] = done
                place[1] = done + lengths[four & 255]
                place[2] = place[1] + lengths[four >> 8 & 255]
                place[3] = place[2] + lengths[four >> 16 & 255]
                done = place[3] + lengths[four >> 24]
                at += 4
                continue
        before[at - start] = done
        length = lengths[values[at]]
        if length == 0:
            if values[at] != ESCAPE or at + 1 >= coded.num_bytes:
                return -3 - at
            at += 1
            before[at - start] = -1
            length = 1
        done += length
        at += 1
    before[at - start] = done
    return at


cdef int64_t _measure(
    const Coded *coded, const Offset *offsets, int64_t count, OutOffset *out, Fault *fault
) except -2 nogil:
    # Codes are measured in blocks and the ends of values looked up in each: a loop per value would spend its
    # time on guessing wrong how many codes the value has.
    # bounds: offsets and out have count + 1 entries; a block is looked at between its first code and where
    # _sizes ended.
    cdef int32_t before[BLOCK + 2]
    cdef int64_t i, first, stop, next_stop, bad, total = 0
    cdef int64_t most = INT32_MAX if OutOffset is int32_t else INT64_MAX
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > coded.num_bytes:
            fault.code, fault.index = FAULT_CODED_OFFSETS, i
            return -1
    out[0] = 0
    i = 1
    first = offsets[0]
    while i <= count:
        stop = min(first + BLOCK, <int64_t> offsets[count])
        next_stop = _sizes(coded, first, stop, before)
        if next_stop < 0 or next_stop > offsets[count]:
            fault.code, fault.index = FAULT_SYMBOL, i - 1
            bad = -3 - next_stop if next_stop < 0 else stop - 1
            # The value that the bad code is in, unless one before it ends in an escape.
            while fault.index < count - 1 and offsets[fault.index + 1] <= bad:
                if before[offsets[fault.index + 1] - first] < 0:
                    break
                fault.index += 1
            return -1
        while i <= count and offsets[i] <= next_stop:
            if before[offsets[i] - first] < 0 or total + before[offsets[i] - first] > most:
                fault.code = FAULT_SYMBOL if before[offsets[i] - first] < 0 else FAULT_TOO_MANY_BYTES
                fault.index = i - 1
                return -1
            out[i] = <OutOffset> (total + before[offsets[i] - first])
            i += 1
        # Eight times what is in memory: the sum cannot pass 64 bits.
        total += before[next_stop - first]
        first = next_stop
    return total


cdef inline int64_t _append(uint8_t *out, uint64_t symbol, int64_t length) except -2 nogil:
    # bounds: the caller has room for eight bytes.
    store64(out, symbol)
    return length


cdef int64_t _decode(const Coded *coded, int64_t start, int64_t stop, Output *out) except -2 nogil:
    # Decode codes start .. stop to the end of out; -1 if a code has no symbol or they do not fit. The
    # output is bytes, which may alias anything in C: what the loop needs is kept in variables of its own.
    # bounds: start <= stop <= num_bytes; eight bytes are stored only where out has them left, fewer only if
    # they fit.
    cdef const uint8_t *values = coded.values
    cdef const uint8_t *lengths = coded.lengths
    cdef const uint64_t *symbols = coded.symbols
    cdef uint8_t *first = out.first
    cdef int64_t done = 0, last = out.size - LONGEST, length
    cdef uint64_t symbol
    cdef uint32_t four
    while start < stop:
        # Four codes at a time as long as all of them have symbols.
        if stop - start >= 4 and done <= last - 3 * LONGEST:
            four = load32(values + start)
            if (
                lengths[four & 255] != 0
                and lengths[four >> 8 & 255] != 0
                and lengths[four >> 16 & 255] != 0
                and lengths[four >> 24] != 0
            ):
                done += _append(first + done, symbols[four & 255], lengths[four & 255])
                done += _append(first + done, symbols[four >> 8 & 255], lengths[four >> 8 & 255])
                done += _append(first + done, symbols[four >> 16 & 255], lengths[four >> 16 & 255])
                done += _append(first + done, symbols[four >> 24], lengths[four >> 24])
                start += 4
                continue
        length, symbol = lengths[values[start]], symbols[values[start]]
        if length == 0:
            start += 1
            if values[start - 1] != ESCAPE or start == stop:
                return -1
            length, symbol = 1, values[start]
        start += 1
        if length > out.size - done:
            return -1
        if done <= last:
            store64(first + done, symbol)
        else:
            memcpy(first + done, &symbol, length)
        done += length
    return 0 if done == out.size else -1


cdef int64_t _bad_code(const Coded *coded, int64_t start, int64_t stop) except -2 nogil:
    # Where the first code is that has no symbol or escapes nothing, or -1. bounds: as _decode.
    while start < stop:
        if coded.values[start] == ESCAPE and start + 1 < stop:
            start += 1
        elif coded.lengths[coded.values[start]] == 0:
            return start
        start += 1
    return -1


cdef int64_t _decode_all(
    const Coded *coded, const Offset *offsets, int64_t count, Output *out, Fault *fault
) except -2 nogil:
    # bounds: offsets has count + 1 entries; from their first to their last is within values if none descends.
    cdef int64_t i, bad
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > coded.num_bytes:
            fault.code, fault.index = FAULT_CODED_OFFSETS, i
            return -1
    if count == 0 or _decode(coded, offsets[0], offsets[count], out) == 0:
        fault.code = FAULT_OUT_SIZE if count == 0 and out.size > 0 else FAULT_NONE
        return 0
    fault.code = FAULT_OUT_SIZE
    bad = _bad_code(coded, offsets[0], offsets[count])
    for i in range(count):
        if offsets[i] <= bad < offsets[i + 1]:
            fault.code, fault.index = FAULT_SYMBOL, i
    return -1


cdef Coded _coded(
    const uint64_t *symbols, const uint8_t[::1] symbol_lengths, const uint8_t[::1] values
) except *:
    # bounds: the table of lengths is seen to have an entry for every code.
    cdef Coded coded
    cdef Py_ssize_t i
    if symbol_lengths.shape[0] != NUM_CODES:
        raise ValueError("symbol_lengths needs 256 entries")
    for i in range(NUM_CODES):
        if symbol_lengths[i] > LONGEST:
            raise ValueError("a symbol has at most 8 bytes")
    if symbol_lengths[ESCAPE] != 0:
        raise ValueError("code 255 is the escape and has no symbol")
    coded.symbols, coded.lengths = symbols, &symbol_lengths[0]
    coded.values, coded.num_bytes = NULL, values.shape[0]
    if values.shape[0] > 0:
        coded.values = &values[0]
    return coded


def fsst_offsets(
    const uint8_t[::1] symbol_lengths not None,
    const Offset[::1] offsets not None,
    const uint8_t[::1] values not None,
    OutOffset[::1] out_offsets not None,
):
    """Measure the strings that coded values stand for.

    Parameters
    ----------
    symbol_lengths : (256,) uint8, bytes
        Of each symbol, at most 8; 0 where there is none, and for code 255, the escape.
    offsets : (num_values + 1,) int32 or int64
        Of the coded values in ``values``; the first may be beyond 0.
    values : (nbytes,) uint8, may be read-only
    out_offsets : (num_values + 1,) int32 or int64
        Offsets of the decoded values; the first is 0.

    Returns
    -------
    int
        Bytes of all decoded values.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``, a value has a code without a symbol or ends in an escape, or
        there are more than 2^31-1 bytes for int32 offsets; ``position`` is the value.
    ValueError
        An array does not have its size, or the table other lengths.

    Source: FSST, file versions 2.0 and later.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import fsst_offsets
    >>> lengths, offsets = np.zeros(256, np.uint8), np.empty(3, np.int32)
    >>> lengths[0] = 5
    >>> coded = np.array([0, 255, 33, 0], np.uint8)
    >>> fsst_offsets(lengths, np.array([0, 3, 4]), coded, offsets)
    11
    >>> offsets.tolist()
    [0, 6, 11]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Coded coded = _coded(NULL, symbol_lengths, values)
    cdef int64_t total = 0
    if offsets.shape[0] < 1 or out_offsets.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    with nogil:
        total = _measure(&coded, &offsets[0], offsets.shape[0] - 1, &out_offsets[0], &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total


def fsst_decode(
    const uint64_t[::1] symbols not None,
    const uint8_t[::1] symbol_lengths not None,
    const Offset[::1] offsets not None,
    const uint8_t[::1] values not None,
    const OutOffset[::1] out_offsets not None,
    uint8_t[::1] out not None,
):
    """Decode the strings that were measured by ``fsst_offsets``.

    Parameters
    ----------
    symbols : (256,) uint64
        Text of each symbol, its first byte lowest.
    symbol_lengths, offsets, values
        As given to ``fsst_offsets``.
    out_offsets : (num_values + 1,) int32 or int64
        As filled by ``fsst_offsets``.
    out : (out_offsets[-1],) uint8
        The decoded values, one after the other.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``, or a code has no symbol; ``position`` is the value.
    ValueError
        An array does not have its size, the table other lengths, or the values do not decode to that size.

    Source: FSST, file versions 2.0 and later.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import fsst_decode
    >>> symbols, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    >>> symbols[0], lengths[0] = int.from_bytes(b"lance", "little"), 5
    >>> coded, out = np.array([0, 255, 33, 0], np.uint8), np.empty(11, np.uint8)
    >>> fsst_decode(symbols, lengths, np.array([0, 3, 4]), coded, np.array([0, 6, 11]), out)
    >>> out.tobytes()
    b'lance!lance'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Coded coded
    cdef Output output = Output(NULL, out.shape[0])
    if symbols.shape[0] != NUM_CODES:
        raise ValueError("symbols needs 256 entries")
    coded = _coded(&symbols[0], symbol_lengths, values)
    if offsets.shape[0] < 1 or out_offsets.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    if out.shape[0] > 0:
        output.first = &out[0]
    if out_offsets[0] != 0 or out_offsets[out_offsets.shape[0] - 1] != out.shape[0]:
        fail(FAULT_OUT_SIZE, 0)
    with nogil:
        _decode_all(&coded, &offsets[0], offsets.shape[0] - 1, &output, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
