# Packs FastLanes blocks of 1,024 words (header-only); the inverse of `fastlanes`.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint64_t lancecy_low_bits(uint64_t count)
    {
        return count ? ~(uint64_t) 0 >> (64 - count) : 0;
    }

    /* One row of lanes, 128 bytes, shifted into the row of words it begins in, and into the next one. */
    static inline void lancecy_pack_row(const uint8_t *__restrict values, uint8_t *__restrict words,
                                        unsigned up, unsigned down, uint64_t low, uint64_t high)
    {
        uint64_t value, word;
        for (int i = 0; i < 128; i += 8) {
            memcpy(&value, values + i, 8);
            memcpy(&word, words + i, 8);
            word |= (value & low) << up;
            memcpy(words + i, &word, 8);
        }
        if (high == 0) return;
        for (int i = 0; i < 128; i += 8) {
            memcpy(&value, values + i, 8);
            memcpy(&word, words + 128 + i, 8);
            word |= (value & high) >> down;
            memcpy(words + 128 + i, &word, 8);
        }
    }

    /* 1,024 values of 1 << shift bits; bits above `width` are dropped. */
    static void lancecy_pack_block(
        const uint8_t *values, uint64_t shift, uint64_t width, uint64_t unit, uint8_t *out)
    {
        static const uint64_t order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
        const uint64_t bits = (uint64_t) 1 << shift, all = lancecy_low_bits(width);
        if (width == 0) return;
        memset(out, 0, 128 * width);
        for (uint64_t row = 0; row < bits; row++) {
            uint64_t first = order[row >> 3] * 16 + (row & 7) * 128;
            uint64_t bit = row * width, up = bit & (bits - 1), kept = bits - up;
            uint64_t low = kept < width ? lancecy_low_bits(kept) : all;
            lancecy_pack_row(values + ((first << shift) >> 3), out + 128 * (bit >> shift), (unsigned) up,
                             (unsigned) (kept & 63), low * unit, (all ^ low) * unit);
        }
    }
    """
    # bounds: values has 1024 words, out `width` <= T rows of 128 bytes; a row that continues in the next one
    # is not the last, as the last bit of all is bit T * width - 1.
    void pack_words "lancecy_pack_block"(
        const uint8_t *values, uint64_t shift, uint64_t width, uint64_t unit, uint8_t *out
    ) nogil

cdef inline uint64_t word_ones(uint64_t count) except? 0xE5C1A9D3B7F08642 nogil:
    return ~<uint64_t> 0 if count >= 64 else (<uint64_t> 1 << count) - 1


cdef inline int64_t pack_block(
    const uint8_t *values, uint64_t shift, uint64_t width, uint8_t *out
) except -2 nogil:
    # Pack 1,024 words of 1 << shift bits to `width` bits each; higher bits are dropped. Returns the bytes
    # written.
    # bounds: as for pack_words.
    pack_words(values, shift, width, ~<uint64_t> 0 // word_ones(<uint64_t> 1 << shift), out)
    return <int64_t> (128 * width)
