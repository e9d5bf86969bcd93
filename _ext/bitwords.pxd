# The bits of a bitmap word by word, from any bit on (header-only).

from libc.stdint cimport int64_t, uint8_t, uint64_t

from cursor cimport FAULT_NEGATIVE, FAULT_TRUNCATED, Fault, has, load64


cdef struct BitWords:
    # `left` bits are not taken yet, from bit `shift` of byte `at` on.
    const uint8_t *at
    int64_t shift
    int64_t left


cdef inline BitWords bit_words(const uint8_t[::1] bits, int64_t first, int64_t count, Fault *fault) except *:
    # `count` bits from `first` on; none, and a fault, if they are not all in memory.
    # bounds: the bits are tested to be in memory.
    if first < 0 or count < 0:
        fault.code = FAULT_NEGATIVE
    elif not has(first, count, 8 * bits.shape[0]):
        fault.code = FAULT_TRUNCATED
    elif count > 0:
        return BitWords(&bits[0] + (first >> 3), first & 7, count)
    return BitWords(NULL, 0, 0)


cdef inline int64_t next_word(BitWords *words, uint64_t *word) except -2 nogil:
    # Take up to 64 bits, and return how many; 0 at the end. Bits that were not taken are 0 in the word.
    # bounds: words are loaded whole while 64 bits are left, single bytes only where one of their bits is
    # wanted.
    cdef int64_t part
    if words.shift == 0 and words.left >= 64:
        part = 64
        word[0] = load64(words.at)
        words.at += 8
    else:
        part = min(8 - words.shift, words.left)
        word[0] = (<uint64_t> words.at[0] >> words.shift) & ((<uint64_t> 1 << part) - 1) if part > 0 else 0
        words.at += part > 0
        words.shift = 0
    words.left -= part
    return part
