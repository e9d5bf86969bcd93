"""Decodes FSST strings, coded with a table of up to 255 symbols of 1 to 8 bytes.

Every byte of a coded value is the number of a symbol, except 255: the byte after it is a literal.
Codes are decoded in blocks, as one stream, and the end of each value is then looked up in its block:
a loop per value would mispredict the number of codes of each value. Eight bytes are stored per
code, whatever the length of its symbol; only if the output has fewer than eight bytes left are
symbols copied exactly.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_CODED_OFFSETS,
    FAULT_NEGATIVE,
    FAULT_NONE,
    FAULT_SYMBOL,
    FAULT_TRUNCATED,
    Fault,
    has,
)
from offsets cimport Offset, first_astray, in_order

from lancecy.kernels._codes import fail

__all__ = ["fsst_decode"]

cdef extern from *:
    """
    /* Decode codes from `at` while they have symbols and `room` holds the longest ones, four at a
       time where possible. Returns the next code, and in *done the position of its text. In C, to tell the
       compiler that the text aliases nothing. */
    static inline int64_t lancecy_decode_codes(const uint64_t *__restrict symbols,
                                               const uint8_t *__restrict lengths,
                                               const uint8_t *__restrict codes, int64_t at, int64_t stop,
                                               uint8_t *__restrict text, int64_t room,
                                               int64_t *__restrict done, uint16_t *__restrict places)
    {
        uint64_t next = (uint64_t) *done;
        for (; stop - at >= 4 && (int64_t) next <= room - 32; at += 4) {
            uint32_t four = lancecy_load32(codes + at);
            uint64_t a = lengths[four & 255], b = lengths[four >> 8 & 255];
            uint64_t c = lengths[four >> 16 & 255], d = lengths[four >> 24];
            uint64_t second = next + a, third = second + b, fourth = third + c;
            if ((a | b | c | d) & 0x80) break;
            places[at] = (uint16_t) next;
            places[at + 1] = (uint16_t) second;
            places[at + 2] = (uint16_t) third;
            places[at + 3] = (uint16_t) fourth;
            lancecy_store64(text + next, symbols[four & 255]);
            lancecy_store64(text + second, symbols[four >> 8 & 255]);
            lancecy_store64(text + third, symbols[four >> 16 & 255]);
            lancecy_store64(text + fourth, symbols[four >> 24]);
            next = fourth + d;
        }
        for (; at < stop && (int64_t) next <= room - 8 && lengths[codes[at]] < 0x80; at++) {
            places[at] = (uint16_t) next;
            lancecy_store64(text + next, symbols[codes[at]]);
            next += lengths[codes[at]];
        }
        *done = (int64_t) next;
        return at;
    }
    """
    # bounds: places has an entry for each code before `stop`; a symbol is stored where eight bytes are left.
    int64_t decode_codes "lancecy_decode_codes"(
        const uint64_t *symbols, const uint8_t *lengths, const uint8_t *codes, int64_t at, int64_t stop,
        uint8_t *text, int64_t room, int64_t *done, uint16_t *places,
    ) nogil

cdef enum:
    NUM_CODES = 256
    ESCAPE = 255
    LONGEST = 8
    BLOCK = 2048
    # Marks the length of a code without symbol, and the place of a byte that is not a code.
    NO_SYMBOL = 0x80
    LITERAL = 0xFFFF

ctypedef fused OutOffset:
    int32_t
    int64_t

cdef struct Table:
    uint64_t symbols[NUM_CODES]
    uint8_t lengths[NUM_CODES]

cdef struct Spans:
    # Coded bytes: spans of memory, read as one stream.
    const uint8_t *memory
    const int64_t *positions
    const int64_t *lengths
    Py_ssize_t count

cdef struct Output:
    # `done` of `size` bytes are written; what ended a block early: an invalid code or a lack of room.
    uint8_t *first
    int64_t size
    int64_t done
    bint is_bad
    bint is_full

cdef struct Values:
    # `next` is the first value whose end is not known yet, of `count`.
    int64_t next
    int64_t count


cdef int64_t _one_code(
    const Table *table, const uint8_t *codes, int64_t at, int64_t end, Output *out, uint16_t *places
) except -2 nogil:
    # Decode the code at `at` if it is valid and its text fits. Returns its number of bytes, 0 if it
    # was not decoded.
    # bounds: at < end, the number of bytes from codes on; places has two entries from `at` on.
    cdef int64_t length = table.lengths[codes[at]]
    cdef uint64_t symbol = table.symbols[codes[at]]
    if length == NO_SYMBOL:
        out.is_bad = codes[at] != ESCAPE or at + 1 >= end
        if out.is_bad or out.size == out.done:
            out.is_full = not out.is_bad
            return 0
        out.first[out.done] = codes[at + 1]
        out.done += 1
        places[at + 1] = LITERAL
        return 2
    if length > out.size - out.done:
        out.is_full = True
        return 0
    memcpy(out.first + out.done, &symbol, <size_t> length)
    out.done += length
    return 1


cdef int64_t _block(
    const Table *table, const uint8_t *codes, int64_t stop, int64_t end, Output *out, uint16_t *places
) except -2 nogil:
    # Decode codes up to `stop`, one byte further if the last one is an escape, and record how many bytes of
    # text precede each. Returns the end, before a code that is invalid or whose text does not fit. bounds:
    # stop is at most BLOCK and `end`, the number of bytes from codes on; places has BLOCK + 2 entries. A
    # block decodes to 16 KiB at most: places hold that.
    cdef int64_t at = 0, first = out.done, done = 0, taken
    while at < stop:
        at = decode_codes(
            table.symbols, table.lengths, codes, at, stop, out.first + first, out.size - first, &done, places
        )
        places[at] = <uint16_t> done
        if at == stop:
            break
        out.done = first + done
        taken = _one_code(table, codes, at, end, out, places)
        if taken == 0:
            return at
        at, done = at + taken, out.done - first
        places[at] = <uint16_t> done
    out.done = first + done
    return at


cdef int64_t _end_values(
    const Offset *offsets, OutOffset *out_offsets, Values *values, const uint16_t *places,
    int64_t first, int64_t stop, int64_t base,
) except -2 nogil:
    # Ends of the values that end with the codes first .. stop. False if one of them ends after an escape.
    # bounds: offsets and out_offsets have count + 1 entries and no offset is below `first` from the next one
    # on, so places is read between 0 and stop - first, which _block has filled.
    cdef int64_t i = values.next, place = 0
    while i < values.count and offsets[i + 1] <= stop:
        place = places[offsets[i + 1] - first]
        if place == LITERAL:
            break
        out_offsets[i + 1] = <OutOffset> (base + place)
        i += 1
    values.next = i
    return place != LITERAL


cdef int64_t _decode(
    const Table *table, const Spans *spans, const Offset *offsets, OutOffset *out_offsets,
    Values *values, Output *out, Fault *fault,
) except -2 nogil:
    # bounds: _check has shown that spans are in memory and that offsets ascend within all their bytes; values
    # before the next one are done, so no code is decoded twice.
    cdef uint16_t places[BLOCK + 2]
    cdef int64_t at = offsets[values.next], wanted = offsets[values.count], start = 0, first, base, end, stop
    cdef const uint8_t *codes
    cdef Py_ssize_t s
    places[0] = 0
    _end_values(offsets, out_offsets, values, places, at, at, out.done)
    for s in range(spans.count):
        end = start + spans.lengths[s]
        while at < end and at < wanted:
            first, base = at, out.done
            codes = spans.memory + spans.positions[s] + (first - start)
            stop = min(min(end, wanted), first + BLOCK)
            at += _block(table, codes, stop - first, end - first, out, places)
            if not _end_values(offsets, out_offsets, values, places, first, at, base) or out.is_bad:
                fault.code, fault.index = FAULT_SYMBOL, values.next
                return -1
            if out.is_full:
                return values.next
        start = end
    return values.next


cdef int64_t _check(
    const Spans *spans, int64_t memory_size, const Offset *offsets, int64_t count, Fault *fault
) except -2 nogil:
    # Spans are in memory, and offsets ascend within all their bytes.
    # bounds: spans has `count` positions and lengths, offsets count + 1 entries.
    cdef int64_t total = 0
    cdef Py_ssize_t s
    for s in range(spans.count):
        fault.index = s
        if spans.lengths[s] < 0 or (spans.lengths[s] > 0 and spans.positions[s] < 0):
            fault.code = FAULT_NEGATIVE
            return -1
        if spans.lengths[s] == 0:
            continue
        if not has(spans.positions[s], spans.lengths[s], memory_size) or spans.lengths[s] > INT64_MAX - total:
            fault.code = FAULT_TRUNCATED
            return -1
        total += spans.lengths[s]
    if not in_order(offsets, count, total):
        fault.code, fault.index = FAULT_CODED_OFFSETS, first_astray(offsets, count, total)
    return 0


cdef Table _table(const uint64_t[::1] symbols, const uint8_t[::1] symbol_lengths) except *:
    cdef Table table
    cdef Py_ssize_t i
    if symbols.shape[0] != NUM_CODES or symbol_lengths.shape[0] != NUM_CODES:
        raise ValueError("symbols and symbol_lengths need 256 entries")
    for i in range(NUM_CODES):
        if symbol_lengths[i] > LONGEST:
            raise ValueError("a symbol has at most 8 bytes")
        table.symbols[i] = symbols[i]
        table.lengths[i] = symbol_lengths[i] if symbol_lengths[i] > 0 else NO_SYMBOL
    if symbol_lengths[ESCAPE] != 0:
        raise ValueError("code 255 is the escape and has no symbol")
    return table


def fsst_decode(
    const uint64_t[::1] symbols not None,
    const uint8_t[::1] symbol_lengths not None,
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    const Offset[::1] offsets not None,
    int64_t first,
    int64_t start,
    OutOffset[::1] out_offsets not None,
    uint8_t[::1] out not None,
):
    """Decode as many strings as fit.

    Parameters
    ----------
    symbols : (256,) uint64
        Text of each symbol, its first byte lowest.
    symbol_lengths : (256,) uint8, bytes
        Length of each symbol, at most 8; 0 for missing ones, and for code 255, the escape.
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_spans,) int64, bytes
        Spans of ``memory`` whose concatenation is the coded values, back to back. A span ends with a whole
        code.
    offsets : (num_values + 1,) int32 or int64
        Offsets of the coded values in all spans; the first may be above 0.
    first : int
        The first value to decode, at most ``num_values``.
    start : int, bytes
        Position of its text in ``out``.
    out_offsets : (num_values + 1,) int32 or int64
        Offsets of the decoded values. Only ``out_offsets[first : done + 1]`` is written, where ``done``
        is the result.
    out : (room,) uint8, at most 2^31-1 for int32 offsets
        Text of the values from ``start`` on. What follows the last value is undefined.

    Returns
    -------
    int
        Index of the first value whose text does not fit; ``num_values`` if all are decoded.

    Raises
    ------
    FormatError
        A span is negative (``position`` is the span); offsets descend or leave the spans, a value has a code
        without a symbol or ends in an escape (``position`` is the value).
    TruncatedError
        A span passes the end of ``memory``.
    ValueError
        An array does not have its size, the table other lengths, or ``first`` or ``start`` is out of range.

    Source: FSST, file versions 2.0 and later.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import fsst_decode
    >>> symbols, sizes = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    >>> symbols[0], sizes[0] = int.from_bytes(b"lance", "little"), 5
    >>> coded, out = np.array([0, 255, 33, 0], np.uint8), np.empty(11, np.uint8)
    >>> offsets, out_offsets = np.array([0, 3, 4]), np.empty(3, np.int32)
    >>> fsst_decode(symbols, sizes, coded, np.array([0]), np.array([4]), offsets, 0, 0, out_offsets, out)
    2
    >>> out.tobytes(), out_offsets.tolist()
    (b'lance!lance', [0, 6, 11])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Table table = _table(symbols, symbol_lengths)
    cdef Spans spans = Spans(NULL, NULL, NULL, positions.shape[0])
    cdef Values values = Values(first, offsets.shape[0] - 1)
    cdef Output output = Output(NULL, out.shape[0], start, False, False)
    cdef int64_t done = 0
    if lengths.shape[0] != spans.count:
        raise ValueError("positions and lengths differ in length")
    if values.count < 0 or out_offsets.shape[0] != offsets.shape[0]:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    if not 0 <= first <= values.count or not 0 <= start <= output.size:
        raise ValueError("first or start is out of range")
    if OutOffset is int32_t and output.size > INT32_MAX:
        raise ValueError("out is larger than 32-bit offsets can count")
    if memory.shape[0] > 0:
        spans.memory = &memory[0]
    if spans.count > 0:
        spans.positions, spans.lengths = &positions[0], &lengths[0]
    if output.size > 0:
        output.first = &out[0]
    with nogil:
        _check(&spans, memory.shape[0], &offsets[0], values.count, &fault)
        if fault.code == FAULT_NONE:
            out_offsets[first] = <OutOffset> start
            done = _decode(&table, &spans, &offsets[0], &out_offsets[0], &values, &output, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return done
