"""Hashes of keys, and lookups of many keys among others.

An index of words is a table of row numbers, of twice the number of words or more, with linear probing.
A bitmap in front of it answers most lookups of words that it does not hold. Before that, blocks of queries
are left out if no word lies between their least and their greatest, as in columns that are nearly in order.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, FAULT_TEXT_OFFSETS, Fault, load32, load64
from offsets cimport Offset, first_astray, in_order
from zones cimport Zones, ends_of, may_hold, zone

from lancecy.kernels._codes import fail

__all__ = ["find_words", "hash_rows", "index_words"]

cdef enum:
    BLOCK = 512
    # More words than that leave hardly a block out.
    QUERIES_PER_WORD = 8
    # After so many blocks it is known whether a look at their ends, a quarter of the lookups, is worth it.
    TRIED = 16

cdef extern from *:
    """
    #include <stdint.h>

    #define LANCECY_P1 0x9E3779B185EBCA87ULL
    #define LANCECY_P2 0xC2B2AE3D27D4EB4FULL
    #define LANCECY_P3 0x165667B19E3779F9ULL
    #define LANCECY_P4 0x85EBCA77C2B2AE63ULL
    #define LANCECY_P5 0x27D4EB2F165667C5ULL

    static inline uint64_t lancecy_rotated(uint64_t word, int64_t bits)
    {
        return (word << bits) | (word >> (64 - bits));
    }

    static inline uint64_t lancecy_round(uint64_t state, uint64_t word)
    {
        return lancecy_rotated(state + word * LANCECY_P2, 31) * LANCECY_P1;
    }

    /* The high bits are the place of a word in the table. */
    static inline uint64_t lancecy_mixed(uint64_t word)
    {
        word = (word ^ (word >> 32)) * LANCECY_P1;
        word = (word ^ (word >> 29)) * LANCECY_P2;
        return word ^ (word >> 32);
    }

    /* The place of a word in the bitmap: cheap, as it is asked of every word. */
    static inline uint64_t lancecy_mark(uint64_t word, int64_t shift)
    {
        return (word * LANCECY_P1) >> shift;
    }
    """
    uint64_t P1 "LANCECY_P1"
    uint64_t P2 "LANCECY_P2"
    uint64_t P3 "LANCECY_P3"
    uint64_t P4 "LANCECY_P4"
    uint64_t P5 "LANCECY_P5"
    uint64_t rotated "lancecy_rotated"(uint64_t word, int64_t bits) nogil
    uint64_t stirred "lancecy_round"(uint64_t state, uint64_t word) nogil
    uint64_t mixed_word "lancecy_mixed"(uint64_t word) nogil
    uint64_t mark_of "lancecy_mark"(uint64_t word, int64_t shift) nogil


cdef uint64_t _stripes(const uint8_t *text, int64_t size) except? 2 nogil:
    # The state after all whole stripes of 32 bytes. bounds: the text has size bytes.
    cdef uint64_t state[4]
    cdef uint64_t merged
    cdef int64_t at = 0
    cdef Py_ssize_t lane
    state[0], state[1], state[2], state[3] = P1 + P2, P2, 0, 0 - P1
    while size - at >= 32:
        for lane in range(4):
            state[lane] = stirred(state[lane], load64(text + at + 8 * lane))
        at += 32
    merged = rotated(state[0], 1) + rotated(state[1], 7) + rotated(state[2], 12) + rotated(state[3], 18)
    for lane in range(4):
        merged = (merged ^ stirred(0, state[lane])) * P1 + P4
    return merged


cdef uint64_t _hash(const uint8_t *text, int64_t size) except? 2 nogil:
    # XXH64 with seed 0. bounds: the text has size bytes, and each load ends within them.
    cdef uint64_t state = P5
    cdef int64_t at = 0
    if size >= 32:
        state = _stripes(text, size)
        at = size & ~<int64_t> 31
    state += <uint64_t> size
    while size - at >= 8:
        state = rotated(state ^ stirred(0, load64(text + at)), 27) * P1 + P4
        at += 8
    if size - at >= 4:
        state = rotated(state ^ (<uint64_t> load32(text + at) * P1), 23) * P2 + P3
        at += 4
    while at < size:
        state = rotated(state ^ (<uint64_t> text[at] * P5), 11) * P1
        at += 1
    state = (state ^ (state >> 33)) * P2
    state = (state ^ (state >> 29)) * P3
    return state ^ (state >> 32)


cdef int64_t _hash_rows(
    const uint8_t *text, int64_t size, const Offset *offsets, int64_t count, uint64_t *out, Fault *fault
) except -2 nogil:
    # bounds: offsets has count + 1 entries, checked before their bytes are read; out has count.
    cdef int64_t row
    if not in_order(offsets, count, size):
        fault.code, fault.index = FAULT_TEXT_OFFSETS, first_astray(offsets, count, size)
        return -1
    for row in range(count):
        out[row] = _hash(text + offsets[row], <int64_t> (offsets[row + 1] - offsets[row]))
    return 0


def hash_rows(
    const Offset[::1] offsets not None, const uint8_t[::1] values not None, uint64_t[::1] out not None
):
    """XXH64 with seed 0 of the bytes of each row.

    Parameters
    ----------
    offsets : (num_rows + 1,) int32 or int64, ascending
        Offsets of the rows in ``values``; the first may be above 0.
    values : (nbytes,) uint8, may be read-only
    out : (num_rows,) uint64

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; ``position`` is the row.
    ValueError
        ``offsets`` is empty or ``out`` does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import hash_rows
    >>> out = np.empty(2, np.uint64)
    >>> hash_rows(np.array([0, 0, 3]), np.frombuffer(b"abc", np.uint8), out)
    >>> [hex(word) for word in out]
    ['0xef46db3751d8e999', '0x44bc2cf5ad770999']
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef int64_t size = values.shape[0]
    cdef const uint8_t *text = NULL
    if count < 0:
        raise ValueError("offsets is empty")
    if out.shape[0] != count:
        fail(FAULT_OUT_SIZE, 0)
    if size > 0:
        text = &values[0]
    if count > 0:
        with nogil:
            _hash_rows(text, size, &offsets[0], count, &out[0], &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)


cdef int64_t _shift_of(Py_ssize_t slots) except -1 nogil:
    # How far a word is shifted to be a place among so many.
    cdef int64_t bits = 0
    while (<Py_ssize_t> 1 << bits) < slots:
        bits += 1
    return 64 - bits


cdef int64_t _check_index(Py_ssize_t words, Py_ssize_t slots, Py_ssize_t chain, Py_ssize_t marks) except -2:
    if slots < 2 or slots & (slots - 1) or slots < 2 * words:
        raise ValueError("slots must be a power of two, of twice the words or more")
    if marks < 1 or marks & (marks - 1):
        raise ValueError("marks must be a power of two")
    if chain != words:
        raise ValueError("the chain must have as many rows as there are words")
    return 0


cdef int64_t _index(
    const uint64_t *words, int64_t count, int64_t *slots, int64_t most, int64_t shift, int64_t *chain,
    uint8_t *marks, int64_t mark_shift,
) except -2 nogil:
    # bounds: a place has as many bits as count the slots or the marks, and is masked when it moves; rows in
    # slots are below count. There are more slots than words, so that a probe ends.
    cdef int64_t row, place, repeated = 0
    cdef uint64_t mark
    for row in range(count):
        place = <int64_t> (mixed_word(words[row]) >> shift)
        mark = mark_of(words[row], mark_shift)
        marks[mark >> 3] |= <uint8_t> (1 << (mark & 7))
        while slots[place] >= 0 and words[slots[place]] != words[row]:
            place = (place + 1) & (most - 1)
        chain[row] = slots[place]
        repeated += slots[place] >= 0
        slots[place] = row
    return repeated


def index_words(
    const uint64_t[::1] words not None,
    int64_t[::1] out_slots not None,
    int64_t[::1] out_chain not None,
    uint8_t[::1] out_marks not None,
):
    """Make an index of words for :func:`find_words`; return how many words repeat an earlier one.

    Parameters
    ----------
    words : (num_words,) uint64
    out_slots : (num_slots,) int64
        The table; a power of two, of twice the words or more. Overwritten.
    out_chain : (num_words,) int64
        The row before each that has the same word, -1 if none. Overwritten.
    out_marks : (num_marks,) uint8
        The bitmap; a power of two. Overwritten.

    Raises
    ------
    ValueError
        An array does not have such a size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import index_words
    >>> chain = np.empty(3, np.int64)
    >>> index_words(np.array([7, 5, 7], np.uint64), np.empty(8, np.int64), chain, np.empty(4, np.uint8))
    1
    >>> chain.tolist()
    [-1, -1, 0]
    """
    cdef Py_ssize_t count = words.shape[0]
    cdef int64_t repeated = 0
    cdef int64_t shift
    _check_index(count, out_slots.shape[0], out_chain.shape[0], out_marks.shape[0])
    shift = _shift_of(out_slots.shape[0])
    out_slots[:] = -1
    out_marks[:] = 0
    if count > 0:
        with nogil:
            repeated = _index(
                &words[0], count, &out_slots[0], out_slots.shape[0], shift, &out_chain[0],
                &out_marks[0], _shift_of(out_marks.shape[0] * 8),
            )
    return repeated


cdef int64_t _marked(
    const uint64_t *queries, int64_t start, int64_t stop, const uint8_t *marks, int64_t mark_shift,
    int64_t *out,
) except -2 nogil:
    # The queries that have a mark. Without branches: a tenth has one by chance.
    # bounds: a mark has as many bits as count the marks; out has an entry for each of the queries, and each
    # adds one or none.
    cdef int64_t query, found = 0
    cdef uint64_t mark
    for query in range(start, stop):
        mark = mark_of(queries[query], mark_shift)
        out[found] = query
        found += (marks[mark >> 3] >> (mark & 7)) & 1
    return found


cdef int64_t _find(
    const uint64_t *queries, int64_t count, const uint8_t *marks, int64_t mark_shift,
    const uint64_t *words, int64_t known, const int64_t *slots, int64_t most, int64_t shift,
    int64_t *out_queries, int64_t *out_rows,
) except -2 nogil:
    # Block by block, so that the marked queries stay in the processor's cache.
    # bounds: places are masked as in _index; a row in slots is compared with the number of words before it is
    # used, and no more slots are visited than there are. Each query adds one pair or none; a block has BLOCK
    # queries or fewer, and one or more.
    cdef int64_t marked[BLOCK]
    cdef int64_t start = 0, stop, num_marked, at, query, place, row, _, found = 0, kept = 0
    cdef bint is_zoned = known < count // QUERIES_PER_WORD
    cdef Zones zones
    if is_zoned:
        zone(&zones, words, known)
    while start < count:
        stop = min(start + <int64_t> BLOCK, count)
        if is_zoned:
            if not may_hold(&zones, ends_of(queries + start, stop - start)):
                start = stop
                continue
            kept += 1
            is_zoned = kept < TRIED or 4 * kept * BLOCK < 3 * stop
        num_marked = _marked(queries, start, stop, marks, mark_shift, marked)
        for at in range(num_marked):
            query = marked[at]
            place = <int64_t> (mixed_word(queries[query]) >> shift)
            for _ in range(most):
                row = slots[place]
                if row < 0 or row >= known:
                    break
                if words[row] == queries[query]:
                    out_queries[found] = query
                    out_rows[found] = row
                    found += 1
                    break
                place = (place + 1) & (most - 1)
        start = stop
    return found


def find_words(
    const uint64_t[::1] queries not None,
    const uint64_t[::1] words not None,
    const int64_t[::1] slots not None,
    const uint8_t[::1] marks not None,
    int64_t[::1] out_queries not None,
    int64_t[::1] out_rows not None,
):
    """Find words in an index of :func:`index_words`; return how many are there.

    Parameters
    ----------
    queries : (num_queries,) uint64
    words, slots, marks : arrays
        The index.
    out_queries, out_rows : (num_queries,) int64
        Each query that is there, ascending, and the last row of the index with the same word. What follows
        them is undefined.

    Raises
    ------
    ValueError
        An array does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import find_words, index_words
    >>> words, slots, marks = np.array([7, 5], np.uint64), np.empty(4, np.int64), np.empty(4, np.uint8)
    >>> index_words(words, slots, np.empty(2, np.int64), marks)
    0
    >>> at, rows = np.empty((2, 3), np.int64)
    >>> find_words(np.array([1, 5, 7], np.uint64), words, slots, marks, at, rows)
    2
    >>> at[:2].tolist(), rows[:2].tolist()
    ([1, 2], [1, 0])
    """
    cdef Py_ssize_t count = queries.shape[0]
    cdef int64_t found = 0
    cdef int64_t shift
    _check_index(words.shape[0], slots.shape[0], words.shape[0], marks.shape[0])
    shift = _shift_of(slots.shape[0])
    if out_queries.shape[0] != count or out_rows.shape[0] != count:
        fail(FAULT_OUT_SIZE, 0)
    if count > 0 and words.shape[0] > 0:
        with nogil:
            found = _find(
                &queries[0], count, &marks[0], _shift_of(marks.shape[0] * 8), &words[0], words.shape[0],
                &slots[0], slots.shape[0], shift, &out_queries[0], &out_rows[0],
            )
    return found
