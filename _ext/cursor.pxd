# Header-only helpers shared by every kernel: range tests, unaligned loads, the check of a list of runs.
#
# A "run" is `count` consecutive items of one size at a byte position of `memory`; positions and
# counts come from files and may be anything an int64 can be. Kernels first pass all runs through
# `check_runs`; only then may their inner loops walk raw pointers. Only little-endian hosts run this
# (lancecy.kernels refuses others), so the loads below need no byte swap.
#
# Only helpers that compute with their arguments are `noexcept`; functions that read input have an error
# value. Where every number may be a result, it is one that files hardly hold: each time a function returns
# the value of its `except?`, Cython takes the interpreter's lock to see whether there is an error, and
# threads then wait for each other.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint16_t lancecy_load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, sizeof v); return v; }
    static inline uint32_t lancecy_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, sizeof v); return v; }
    static inline uint64_t lancecy_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, sizeof v); return v; }
    static inline void lancecy_store64(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof v); }

    /* Prefetch memory that is read soon, if the compiler supports it. */
    static inline void lancecy_prefetch(const uint8_t *p)
    {
    #if defined(__GNUC__)
        __builtin_prefetch(p);
    #else
        (void) p;
    #endif
    }

    /* Number of the lowest bit of a word that has one. */
    static inline int64_t lancecy_lowest64(uint64_t word)
    {
    #if defined(__GNUC__)
        return __builtin_ctzll(word);
    #else
        int64_t bit = 0;
        while (!(word & 1)) { word >>= 1; bit++; }
        return bit;
    #endif
    }

    /* A little-endian integer of 1, 2, 4 or 8 bytes. */
    static inline uint64_t lancecy_load_word(const uint8_t *p, uint64_t nbytes)
    {
        switch (nbytes) {
            case 1: return *p;
            case 2: return lancecy_load16(p);
            case 4: return lancecy_load32(p);
            default: return lancecy_load64(p);
        }
    }

    static inline void lancecy_store_word(uint8_t *p, uint64_t v, uint64_t nbytes)
    {
        switch (nbytes) {
            case 1: memcpy(p, &v, 1); return;
            case 2: memcpy(p, &v, 2); return;
            case 4: memcpy(p, &v, 4); return;
            default: memcpy(p, &v, 8);
        }
    }
    """
    uint16_t load16 "lancecy_load16"(const uint8_t *p) nogil
    uint32_t load32 "lancecy_load32"(const uint8_t *p) nogil
    uint64_t load64 "lancecy_load64"(const uint8_t *p) nogil
    void store64 "lancecy_store64"(uint8_t *p, uint64_t v) nogil
    void prefetch "lancecy_prefetch"(const uint8_t *p) nogil
    int64_t lowest64 "lancecy_lowest64"(uint64_t word) nogil
    uint64_t load_word "lancecy_load_word"(const uint8_t *p, uint64_t nbytes) nogil
    void store_word "lancecy_store_word"(uint8_t *p, uint64_t v, uint64_t nbytes) nogil


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
    FAULT_RUN = 12
    FAULT_CHUNK_NEGATIVE = 13
    FAULT_CHUNK_TRUNCATED = 14
    FAULT_CHUNK_SHORT = 15
    FAULT_CHUNK_COUNT = 16
    FAULT_BIT_WIDTH = 17
    FAULT_RUN_LENGTHS = 18
    FAULT_CODED_OFFSETS = 19
    FAULT_SYMBOL = 20
    FAULT_LZ4 = 21
    FAULT_TEXT_OFFSETS = 22
    FAULT_CHUNK_OFFSETS = 30
    FAULT_ENDS = 31
    FAULT_TOO_MANY = 32
    FAULT_LENGTH = 33
    FAULT_CHUNK_PARTS = 34
    FAULT_LEVEL = 35
    FAULT_LEVEL_ORDER = 36
    FAULT_GROUP_ROW = 37
    FAULT_ENTRY = 38
    FAULT_ENTRIES = 39
    FAULT_JSON = 40
    FAULT_JSON_TEXT = 41
    FAULT_JSON_DEPTH = 42
    FAULT_JSON_WALK = 43
    FAULT_LEVEL_COUNT = 44
    FAULT_MESSAGE = 45
    FAULT_BUFFERS = 46
    FAULT_ROW_COUNT = 47


cdef struct Fault:
    int32_t code
    Py_ssize_t index


cdef inline bint has(int64_t offset, int64_t length, int64_t size) noexcept nogil:
    # Whether [offset, offset + length) lies in `size` bytes. Written without a sum, so nothing can overflow.
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
    # keeps its count + extra items of 1 << item_shift bytes inside memory. Empty runs need nothing.
    # The caller has checked that both arrays have the same length, and that capacity is the size of real
    # memory (so that count + extra cannot overflow). bounds: checked by Cython, not an inner loop.
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


cdef struct ChunkRuns:
    # One buffer of every chunk, and runs of values within chunks.
    const int64_t *positions
    const int64_t *lengths
    const int64_t *counts
    Py_ssize_t num_chunks
    const int64_t *chunks
    const int64_t *starts
    const int64_t *run_counts
    Py_ssize_t num_runs


cdef inline ChunkRuns chunk_runs(
    const int64_t[::1] positions,
    const int64_t[::1] lengths,
    const int64_t[::1] counts,
    const int64_t[::1] chunks,
    const int64_t[::1] starts,
    const int64_t[::1] run_counts,
) except *:
    # Raw pointers of the arrays; without chunks or runs nothing is read through them.
    cdef ChunkRuns runs
    if lengths.shape[0] != positions.shape[0] or counts.shape[0] != positions.shape[0]:
        raise ValueError("the arrays of the chunks differ in length")
    if starts.shape[0] != chunks.shape[0] or run_counts.shape[0] != chunks.shape[0]:
        raise ValueError("the arrays of the runs differ in length")
    runs.num_chunks, runs.num_runs = positions.shape[0], chunks.shape[0]
    runs.positions = runs.lengths = runs.counts = runs.chunks = runs.starts = runs.run_counts = NULL
    if runs.num_chunks > 0:
        runs.positions, runs.lengths, runs.counts = &positions[0], &lengths[0], &counts[0]
    if runs.num_runs > 0:
        runs.chunks, runs.starts, runs.run_counts = &chunks[0], &starts[0], &run_counts[0]
    return runs


cdef inline int32_t check_chunk_runs(
    const ChunkRuns *runs, int64_t memory_size, int64_t capacity, Fault *fault
) except -2 nogil:
    # Every run has count >= 0, together they have exactly `capacity` values, and every run that is not empty
    # lies within the values of a chunk whose bytes are in memory. Chunks that no run names are ignored.
    # bounds: the arrays have num_chunks and num_runs entries; a chunk number is checked before its use.
    cdef Py_ssize_t i
    cdef int64_t chunk, start, count
    for i in range(runs.num_runs):
        chunk, start, count = runs.chunks[i], runs.starts[i], runs.run_counts[i]
        fault.index = i
        if count < 0 or count > capacity:
            fault.code = FAULT_RUN if count < 0 else FAULT_OUT_SIZE
            return -1
        capacity -= count
        if count == 0:
            continue
        if not 0 <= chunk < runs.num_chunks or not has(start, count, runs.counts[chunk]):
            fault.code = FAULT_RUN
            return -1
        fault.index = chunk
        if runs.positions[chunk] < 0 or runs.lengths[chunk] < 0:
            fault.code = FAULT_CHUNK_NEGATIVE
            return -1
        if not has(runs.positions[chunk], runs.lengths[chunk], memory_size):
            fault.code = FAULT_CHUNK_TRUNCATED
            return -1
    fault.index = runs.num_runs
    fault.code = FAULT_NONE if capacity == 0 else FAULT_OUT_SIZE
    return 0 if capacity == 0 else -1


cdef struct BitSink:
    # A bitmap written from its first bit: `done` bytes are written, `filled` bits (0..63) are in word.
    uint8_t *bits
    Py_ssize_t done
    uint64_t word
    int64_t filled
    int64_t ones


cdef inline int64_t push_bits(BitSink *sink, uint64_t word, int64_t count) except -2 nogil:
    # Append the lowest `count` (0..64) bits of word, which has no others set.
    # bounds: the caller has room for every bit it pushes, so also for eight bytes once there are 64 bits.
    sink.ones += <int64_t> ones64(word)
    sink.word |= word << sink.filled
    sink.filled += count
    if sink.filled >= 64:
        store64(sink.bits + sink.done, sink.word)
        sink.done += 8
        sink.filled -= 64
        # The bits that did not fit; a shift by 64 would be undefined.
        sink.word = 0 if sink.filled == 0 else word >> (count - sink.filled)
    return 0


cdef inline int64_t flush_bits(BitSink *sink, Py_ssize_t nbytes) except -2 nogil:
    # Write the remaining bits, and zeros up to `nbytes`. bounds: the bitmap has nbytes for all its bits.
    while sink.done < nbytes:
        sink.bits[sink.done] = <uint8_t> (sink.word & 0xFF)
        sink.word >>= 8
        sink.done += 1
    return 0
