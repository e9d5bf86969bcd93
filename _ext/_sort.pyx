"""Sorts words by some of their bits: least significant digits first, each pass by counting."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from cursor cimport FAULT_OUT_SIZE

from lancecy.kernels._codes import fail

__all__ = ["sort_words"]

cdef enum:
    DIGIT_BITS = 11
    DIGITS = 1 << 11


cdef int64_t _places(
    const uint64_t *words, int64_t count, int64_t bit, uint64_t mask, int64_t *places
) except -1 nogil:
    # Where the words of each digit begin; 1 if all have the same digit.
    # bounds: a digit is below DIGITS, the size of ``places``.
    cdef int64_t i, before = 0, mine
    for i in range(DIGITS):
        places[i] = 0
    for i in range(count):
        places[(words[i] >> bit) & mask] += 1
    if places[(words[0] >> bit) & mask] == count:
        return 1
    for i in range(DIGITS):
        mine = places[i]
        places[i] = before
        before += mine
    return 0


cdef const uint64_t *_sort(
    const uint64_t *words, uint64_t *out, uint64_t *room, int64_t count, int64_t bit, int64_t stop
) except NULL nogil:
    # Where the words are, sorted by their bits from ``bit`` on: one of the three.
    # bounds: all have ``count`` words; the places of all digits are a permutation of these.
    cdef int64_t places[DIGITS]
    cdef int64_t i, digit
    cdef uint64_t mask
    cdef uint64_t *sink = out
    while bit < stop:
        mask = (<uint64_t> 1 << min(DIGIT_BITS, stop - bit)) - 1
        if _places(words, count, bit, mask, places) == 0:
            for i in range(count):
                digit = (words[i] >> bit) & mask
                sink[places[digit]] = words[i]
                places[digit] += 1
            words = sink
            sink = room if sink is out else out
        bit += DIGIT_BITS
    return words


def sort_words(
    const uint64_t[::1] words not None,
    uint64_t[::1] out not None,
    uint64_t[::1] out_room not None,
    int64_t first_bit,
    int64_t stop_bit,
):
    """Sort words by some of their bits. Words that agree in these keep their order.

    Parameters
    ----------
    words : (n,) uint64, may be read-only
    out, out_room : (n,) uint64
        Both hold the sorted words afterwards; two are needed for the passes.
    first_bit, stop_bit : int
        ``0 <= first_bit <= stop_bit <= 64``: bits below the first and from the last on do not count.

    Raises
    ------
    ValueError
        An output does not have the size of ``words``, or there are no such bits.

    Notes
    -----
    Linear: one pass for each 11 bits in which words differ.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import sort_words
    >>> words = np.array([0x201, 0x102, 0x103], np.uint64)
    >>> out = np.empty_like(words)
    >>> sort_words(words, out, np.empty_like(words), 8, 16)
    >>> [hex(word) for word in out.tolist()]
    ['0x102', '0x103', '0x201']
    """
    cdef Py_ssize_t count = words.shape[0]
    cdef const uint64_t *found
    if not 0 <= first_bit <= stop_bit <= 64:
        raise ValueError("no such bits of a word")
    if out.shape[0] != count or out_room.shape[0] != count:
        fail(FAULT_OUT_SIZE, 0)
    if count == 0:
        return
    with nogil:
        found = _sort(&words[0], &out[0], &out_room[0], count, first_bit, stop_bit)
        if found is not &out[0]:
            memcpy(&out[0], found, count * sizeof(uint64_t))
        if found is not &out_room[0]:
            memcpy(&out_room[0], found, count * sizeof(uint64_t))
