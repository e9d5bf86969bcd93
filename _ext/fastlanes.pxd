# Unpacks rows of FastLanes blocks: 128 bytes of results from one or two rows of words (header-only).
#
# In C, to tell the compiler that arrays do not overlap, so that it vectorises the loops.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Compiled for several processors, of which the loader chooses. */
    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
        !defined(__SANITIZE_ADDRESS__)
    #define LANCECY_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
    #else
    #define LANCECY_CLONES
    #endif

    /* Before a loop to be vectorised: unrolled first, only half of it would be. */
    #if defined(__GNUC__) && !defined(__clang__)
    #define LANCECY_KEEP_LOOP _Pragma("GCC unroll 1")
    #else
    #define LANCECY_KEEP_LOOP
    #endif

    /* The lowest `count` (0..64) bits; C has no shift by 64. */
    static inline uint64_t lancecy_ones(uint64_t count) { return count ? ~(uint64_t) 0 >> (64 - count) : 0; }

    /* The row whose lanes are the values from place `first`, a multiple of the number of lanes. The order of
       groups, 0 4 2 6 1 5 3 7, reverses the three bits of their numbers and is its own inverse. */
    static inline uint64_t lancecy_row_of(uint64_t first)
    {
        uint64_t group = (first & 127) >> 4;
        return ((group & 1) << 5 | (group & 2) << 3 | (group & 4) << 1) + (first >> 7);
    }

    /* One row of results from one row of words, or from two if values cross from one to the next. */
    static inline void lancecy_unpack_row(const uint8_t *__restrict words, uint8_t *__restrict out,
                                          unsigned down, unsigned up, uint64_t low, uint64_t high)
    {
        uint64_t word, next;
        if (high == 0) {
            LANCECY_KEEP_LOOP
            for (int i = 0; i < 128; i += 8) {
                memcpy(&word, words + i, 8);
                word = (word >> down) & low;
                memcpy(out + i, &word, 8);
            }
            return;
        }
        LANCECY_KEEP_LOOP
        for (int i = 0; i < 128; i += 8) {
            memcpy(&word, words + i, 8);
            memcpy(&next, words + 128 + i, 8);
            word = ((word >> down) & low) | ((next << up) & high);
            memcpy(out + i, &word, 8);
        }
    }

    /* `rows` rows of results from the row of place `first` on: values of `width` > 0 of 1 << shift bits. */
    LANCECY_CLONES
    static void lancecy_unpack_rows(const uint8_t *block, int64_t first, int64_t rows, uint64_t shift,
                                    uint64_t width, uint64_t unit, uint8_t *out)
    {
        const uint64_t bits = (uint64_t) 1 << shift, all = lancecy_ones(width);
        for (; rows > 0; rows--) {
            uint64_t bit = lancecy_row_of((uint64_t) first) * width;
            uint64_t down = bit & (bits - 1), kept = bits - down;
            uint64_t low = kept < width ? lancecy_ones(kept) : all;
            lancecy_unpack_row(block + 128 * (bit >> shift), out, (unsigned) down, (unsigned) (kept & 63),
                               low * unit, (all ^ low) * unit);
            first += 1024 >> shift, out += 128;
        }
    }
    """
    uint64_t row_of "lancecy_row_of"(uint64_t first) nogil
    uint64_t ones "lancecy_ones"(uint64_t count) nogil
    # bounds: block has `width` rows of words, 1 <= width <= T; the last bit of row r is r * width + width - 1
    # < T * width, so the word that holds it is in a row below width. out has 128 bytes for every row.
    void unpack_rows "lancecy_unpack_rows"(
        const uint8_t *block, int64_t first, int64_t rows, uint64_t shift, uint64_t width, uint64_t unit,
        uint8_t *out,
    ) nogil
