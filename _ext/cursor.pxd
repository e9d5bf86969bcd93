# Header-only helpers shared by every kernel: range tests, unaligned loads, the check of a list of runs.
#
# A "run" is `count` equal items that lie one after the other at a byte position of `memory`; positions and
# counts come from files and may be anything an int64 can be. Kernels first pass all runs through
# `check_runs`; only then may their inner loops walk raw pointers. Only little-endian hosts get this far
# (lancecy.kernels refuses others), so the loads below need no byte swap.
#
# `noexcept` stands only on helpers that compute with what they are given; whatever reads input has an error
# value.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint32_t lancecy_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, sizeof v); return v; }
    static inline uint64_t lancecy_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, sizeof v); return v; }
    static inline void lancecy_store64(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof v); }
    """
    uint32_t load32 "lancecy_load32"(const uint8_t *p) nogil
    uint64_t load64 "lancecy_load64"(const uint8_t *p) nogil
    void store64 "lancecy_store64"(uint8_t *p, uint64_t v) nogil


# Fault codes; lancecy/kernels/_codes.py holds the same numbers with their exception classes and texts.
cdef enum:
    FAULT_NONE = 0
    FAULT_NEGATIVE = 1
    FAULT_TRUNCATED = 2
    FAULT_OUT_SIZE = 3
    FAULT_VALUE_OFFSETS = 4
    FAULT_LIST_OFFSETS = 5
    FAULT_TOO_MANY_BYTES = 6
    FAULT_TOO_MANY_ITEMS = 7
    FAULT_CODE = 8
    FAULT_PAGE_STARTS = 9
    FAULT_ROW = 10
    FAULT_BOUND_OFFSETS = 11


cdef struct Fault:
    int32_t code
    Py_ssize_t index


cdef inline bint has(int64_t offset, int64_t length, int64_t size) noexcept nogil:
    # Does [offset, offset + length) lie in `size` bytes? Written without a sum, so nothing can overflow.
    return 0 <= offset <= size and 0 <= length <= size - offset


cdef inline uint64_t ones64(uint64_t word) noexcept nogil:
    # Number of set bits, by adding neighbours; the baseline x86-64 has no instruction for it.
    word = word - ((word >> 1) & 0x5555555555555555u)
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u)
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu
    return (word * 0x0101010101010101u) >> 56


cdef inline uint64_t pack64(const uint8_t *flags) noexcept nogil:
    # 64 flags, each a byte of 0 or 1, as the bits of one word. The product moves the lowest bit of each of
    # eight bytes into its top byte, first byte lowest; no two terms meet, so nothing carries.
    # bounds: the caller's array of 64.
    cdef uint64_t word = 0
    cdef Py_ssize_t j
    for j in range(8):
        word |= ((load64(flags + 8 * j) * 0x0102040810204080u) >> 56) << (8 * j)
    return word


cdef inline int32_t check_runs(
    const int64_t[::1] positions,
    const int64_t[::1] counts,
    int64_t memory_size,
    int64_t extra,
    int64_t item_shift,
    int64_t capacity,
    Fault *fault,
) except -2 nogil:
    # Every run has count >= 0, together they have exactly `capacity` items, and every run that is not empty
    # keeps its count + extra items of 1 << item_shift bytes inside memory. Empty runs demand nothing.
    # The caller has made sure that both arrays have the same length, and that capacity is the size of real
    # memory (so that count + extra cannot overflow). bounds: checked by Cython, this is no inner loop.
    cdef Py_ssize_t i
    cdef int64_t position, count
    for i in range(counts.shape[0]):
        position = positions[i]
        count = counts[i]
        fault.index = i
        if count < 0:
            fault.code = FAULT_NEGATIVE
            return -1
        if count > capacity:
            fault.code = FAULT_OUT_SIZE
            return -1
        capacity -= count
        if count == 0:
            continue
        if position < 0:
            fault.code = FAULT_NEGATIVE
            return -1
        if position > memory_size or count + extra > (memory_size - position) >> item_shift:
            fault.code = FAULT_TRUNCATED
            return -1
    fault.code = FAULT_NONE if capacity == 0 else FAULT_OUT_SIZE
    return 0 if capacity == 0 else -1
