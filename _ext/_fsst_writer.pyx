"""Finds a table of symbols for texts, and codes texts with it: FSST, the inverse of ``_fsst``.

A table begins empty. In each round the sample is coded with the table so far, and how often each symbol, each
byte without one and each two in a row occur says which symbols and which two joined save most; these are the
next table. Each round codes more of the sample.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, FAULT_TEXT_OFFSETS, Fault, has, load_word, store_word
from symbols cimport ESCAPE, Symbols, add_symbol, encode_text, no_symbols, symbol_step, word_of

from lancecy.kernels._codes import fail

__all__ = ["fsst_encode", "fsst_train"]

cdef enum:
    ROUNDS = 5
    # Codes of symbols and, from BYTES on, of bytes without one.
    BYTES = 256
    CODES = 512
    # Bytes that are looked at, in pieces of texts, and bytes of a table.
    SAMPLE = 1 << 14
    PIECE = 512
    TABLE_BYTES = 2312
    # A single byte without a symbol takes two: a symbol for it saves more than its length says.
    BYTE_GAIN = 8

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>

    typedef struct { uint64_t symbol; int64_t length; int64_t gain; } LancecyCandidate;

    static int lancecy_same_first(const void *a, const void *b)
    {
        const LancecyCandidate *left = a, *right = b;
        if (left->length != right->length) return left->length > right->length ? -1 : 1;
        return left->symbol == right->symbol ? 0 : left->symbol < right->symbol ? -1 : 1;
    }

    static int lancecy_best_first(const void *a, const void *b)
    {
        const LancecyCandidate *left = a, *right = b;
        if (left->gain != right->gain) return left->gain > right->gain ? -1 : 1;
        return lancecy_same_first(a, b);
    }

    static void lancecy_sort(LancecyCandidate *candidates, int64_t count, int64_t by_gain)
    {
        qsort(candidates, (size_t) count, sizeof *candidates,
              by_gain ? lancecy_best_first : lancecy_same_first);
    }
    """
    ctypedef struct Candidate "LancecyCandidate":
        uint64_t symbol
        int64_t length
        int64_t gain
    # bounds: both are given candidates that exist.
    int64_t order_of "lancecy_same_first"(const Candidate *left, const Candidate *right) nogil
    void sort "lancecy_sort"(Candidate *candidates, int64_t count, bint by_gain) nogil


cdef struct Work:
    Symbols table
    uint32_t singles[CODES]
    uint32_t pairs[CODES * CODES]
    # One for each code, and one for each byte of the sample that may begin a pair.
    Candidate candidates[CODES + SAMPLE + PIECE]

cdef struct Texts:
    const uint8_t *values
    int64_t size
    const uint8_t *offsets
    int64_t unit
    int64_t count


cdef Texts _texts(const uint8_t[::1] values, const uint8_t[::1] offsets, int64_t width) except *:
    # bounds: checked by Cython.
    cdef Texts texts
    if width != 4 and width != 8:
        raise ValueError("offsets have 4 or 8 bytes")
    if offsets.shape[0] % width or offsets.shape[0] == 0:
        raise ValueError("offsets are one more than the values")
    texts.values, texts.size = NULL, values.shape[0]
    if values.shape[0] > 0:
        texts.values = &values[0]
    texts.offsets, texts.unit, texts.count = &offsets[0], width, offsets.shape[0] // width - 1
    return texts


cdef int64_t _span(const Texts *texts, int64_t row, int64_t *start, Fault *fault) except -2 nogil:
    # Start and length of a text; -1 if it is not in the values. bounds: row is below count.
    cdef int64_t stop
    start[0] = <int64_t> load_word(texts.offsets + row * texts.unit, <uint64_t> texts.unit)
    stop = <int64_t> load_word(texts.offsets + (row + 1) * texts.unit, <uint64_t> texts.unit)
    if stop < start[0] or not has(start[0], stop - start[0], texts.size):
        fault.code, fault.index = FAULT_TEXT_OFFSETS, row
        return -1
    return stop - start[0]


cdef int64_t _count(Work *work, const uint8_t *text, int64_t size) except -2 nogil:
    # Count codes, and two in a row, of one text; returns the bytes it would take.
    # bounds: codes are below CODES; a text is read up to its size.
    cdef int64_t at = 0, before = -1, code, step, nbytes = 0
    cdef uint64_t word
    while at < size:
        word = word_of(text + at, size - at)
        step = symbol_step(&work.table, word, size - at)
        code = step & 0xFF
        nbytes += step >> 12
        if code == ESCAPE:
            code = BYTES + <int64_t> (word & 0xFF)
        work.singles[code] += 1
        if before >= 0:
            work.pairs[before * CODES + code] += 1
        before = code
        at += step >> 8 & 15
    return nbytes


cdef int64_t _sample(
    Work *work, const Texts *texts, int64_t most, int64_t *coded, Fault *fault
) except -2 nogil:
    # Count the codes of pieces of texts, about `most` bytes, from all parts of the values; returns their
    # bytes.
    # bounds: spans are checked, a piece lies in its span.
    cdef int64_t row = 0, seen = 0, start = 0, length
    cdef int64_t step = texts.count * min(PIECE, texts.size // texts.count)
    step = max(<int64_t> 1, step // SAMPLE)
    coded[0] = 0
    memset(work.singles, 0, sizeof(work.singles))
    memset(work.pairs, 0, sizeof(work.pairs))
    while row < texts.count and seen < most:
        length = _span(texts, row, &start, fault)
        if length < 0:
            return -1
        if length > PIECE:
            start += (row * 7919) % (length - PIECE + 1)
            length = PIECE
        coded[0] += _count(work, texts.values + start, length)
        seen += length
        row += step
    return seen


cdef int64_t _add_candidate(const Work *work, int64_t code, Candidate *found) except -2 nogil:
    # The symbol of a code. bounds: a code below CODES.
    if code < BYTES:
        found.symbol, found.length = work.table.symbols[code], work.table.lengths[code]
    else:
        found.symbol, found.length = <uint64_t> (code - BYTES), 1
    return 0


cdef int64_t _candidates(Work *work, uint32_t least) except -2 nogil:
    # All symbols that occur `least` times, and two in a row joined, with what they save; returns their
    # number.
    # bounds: codes are below CODES; there are no more pairs than bytes of the sample.
    cdef int64_t left, right, count = 0
    cdef Candidate one, other
    for left in range(CODES):
        if work.singles[left] < least:
            continue
        _add_candidate(work, left, &one)
        one.gain = <int64_t> work.singles[left] * one.length * (BYTE_GAIN if one.length == 1 else 1)
        work.candidates[count] = one
        count += 1
        for right in range(CODES if one.length < 8 else 0):
            if work.pairs[left * CODES + right] < least:
                continue
            _add_candidate(work, right, &other)
            other.symbol = one.symbol | other.symbol << (8 * one.length)
            other.length = min(<int64_t> 8, one.length + other.length)
            other.gain = <int64_t> work.pairs[left * CODES + right] * other.length
            work.candidates[count] = other
            count += 1
    return count


cdef int64_t _next_table(Work *work, uint32_t least) except -2 nogil:
    # Replace the table by the candidates that save most. bounds: candidates has room for `count`.
    cdef int64_t i, kept = 0, count = _candidates(work, least)
    sort(work.candidates, count, False)
    for i in range(count):
        if kept > 0 and order_of(&work.candidates[kept - 1], &work.candidates[i]) == 0:
            work.candidates[kept - 1].gain += work.candidates[i].gain
        else:
            work.candidates[kept] = work.candidates[i]
            kept += 1
    sort(work.candidates, kept, True)
    no_symbols(&work.table)
    for i in range(kept):
        add_symbol(&work.table, work.candidates[i].symbol, work.candidates[i].length)
    return work.table.count


cdef int64_t _train(Work *work, const Texts *texts, int64_t *coded, Fault *fault) except -2 nogil:
    # bounds: as the parts.
    cdef int64_t turn
    no_symbols(&work.table)
    for turn in range(ROUNDS):
        if _sample(work, texts, SAMPLE * (turn + 1) // ROUNDS, coded, fault) < 0:
            return -1
        _next_table(work, <uint32_t> (turn + 1))
    return _sample(work, texts, SAMPLE, coded, fault)


def fsst_train(
    const uint8_t[::1] values not None,
    const uint8_t[::1] offsets not None,
    Py_ssize_t width,
    uint8_t[::1] out_table not None,
):
    """Find symbols for texts.

    Parameters
    ----------
    values : (nbytes,) uint8, may be read-only
    offsets : ((num_values + 1) * width,) uint8
        Ascending offsets in ``values``.
    width : 4 or 8, bytes
        Of an offset.
    out_table : (2312,) uint8
        The table as pages have it.

    Returns
    -------
    sampled, coded : int, bytes
        Bytes of the texts that were looked at, and of their codes.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; ``position`` is the value.
    ValueError
        The arrays do not fit each other.

    Source: file sheet 2.1, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import fsst_train
    >>> text, table = np.frombuffer(b"tattoo" * 100, np.uint8), np.empty(2312, np.uint8)
    >>> fsst_train(text, np.array([0, 600], np.int32).view(np.uint8), 4, table)[0]
    512
    """
    cdef Texts texts = _texts(values, offsets, width)
    cdef Fault fault
    cdef int64_t seen = 0, coded = 0, i
    if out_table.shape[0] != TABLE_BYTES:
        raise ValueError("a table of symbols has 2312 bytes")
    # Python owns what is counted in, 1.6 MB.
    cdef uint8_t[::1] scratch = bytearray(sizeof(Work))
    # bounds: it was made of this size.
    cdef Work *work = <Work *> &scratch[0]
    fault.code = FAULT_NONE
    with nogil:
        no_symbols(&work.table)
        if texts.count > 0:
            seen = _train(work, &texts, &coded, &fault)
    if seen < 0:
        fail(fault.code, fault.index)
    out_table[:] = 0
    store_word(&out_table[0], <uint64_t> 0x46535354 << 32 | 1 << 24 | <uint64_t> work.table.count, 8)
    for i in range(work.table.count):
        store_word(&out_table[8 + 8 * i], work.table.symbols[i], 8)
        out_table[8 + 8 * work.table.count + i] = work.table.lengths[i]
    return seen, coded


cdef int64_t _encode(
    const Symbols *table, const Texts *texts, uint8_t *out, int64_t out_size, uint8_t *out_offsets,
    Fault *fault,
) except -2 nogil:
    # bounds: spans are checked; a text takes at most twice its bytes, which are there.
    cdef int64_t row, start = 0, length, done = 0
    for row in range(texts.count):
        store_word(out_offsets + row * texts.unit, <uint64_t> done, <uint64_t> texts.unit)
        length = _span(texts, row, &start, fault)
        if length < 0:
            return -1
        if 2 * length > out_size - done:
            fault.code = FAULT_OUT_SIZE
            return -1
        done += encode_text(table, texts.values + start, length, texts.size - start, out + done)
    store_word(out_offsets + texts.count * texts.unit, <uint64_t> done, <uint64_t> texts.unit)
    return done


def fsst_encode(
    const uint8_t[::1] table not None,
    const uint8_t[::1] values not None,
    const uint8_t[::1] offsets not None,
    Py_ssize_t width,
    uint8_t[::1] out not None,
    uint8_t[::1] out_offsets not None,
):
    """Code texts with a table of symbols.

    Parameters
    ----------
    table : (2312,) uint8
        From :func:`fsst_train`.
    values, offsets, width
        As there.
    out : (size,) uint8
        Each text must find twice its bytes left.
    out_offsets : of the size of ``offsets``

    Returns
    -------
    int
        Bytes of all codes.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; ``position`` is the value.
    ValueError
        The arrays do not fit each other, ``out`` is too small, or two symbols of the table begin alike.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import fsst_encode
    >>> table, out = np.zeros(2312, np.uint8), np.empty(4, np.uint8)
    >>> offsets = np.array([0, 2], np.int32).view(np.uint8)
    >>> fsst_encode(table, np.frombuffer(b"ab", np.uint8), offsets, 4, out, np.empty_like(offsets))
    4
    >>> out.tolist()
    [255, 97, 255, 98]
    """
    cdef Texts texts = _texts(values, offsets, width)
    cdef Symbols symbols
    cdef Fault fault
    cdef int64_t i, count, done = 0
    if table.shape[0] != TABLE_BYTES or out_offsets.shape[0] != offsets.shape[0]:
        raise ValueError("a table of symbols has 2312 bytes, and there are as many offsets as before")
    no_symbols(&symbols)
    count = table[0]
    for i in range(count):
        if add_symbol(&symbols, load_word(&table[8 + 8 * i], 8), table[8 + 8 * count + i]) == 0:
            raise ValueError("two symbols of a table begin alike, or one has an impossible length")
    fault.code = FAULT_NONE
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    with nogil:
        done = _encode(&symbols, &texts, target, out.shape[0], &out_offsets[0], &fault)
    if done < 0:
        fail(fault.code, fault.index)
    return done
