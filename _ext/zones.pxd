# Tells where among numbers some words lie, so that blocks of other numbers are left out (header-only).
#
# In C, so that the look at the ends of a block is compiled for several processors.

from libc.stdint cimport int64_t, uint64_t

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

    typedef struct {
        uint64_t least, greatest;
    } lancecy_ends_t;

    /* The ends of at least one word. */
    LANCECY_CLONES
    static lancecy_ends_t lancecy_ends(const uint64_t *words, int64_t count)
    {
        uint64_t least = words[0], greatest = words[0];
        for (int64_t i = 1; i < count; i++) {
            least = words[i] < least ? words[i] : least;
            greatest = words[i] > greatest ? words[i] : greatest;
        }
        lancecy_ends_t ends = {least, greatest};
        return ends;
    }

    /* Which parts of the range of some words hold a word: a bit for each of 1 << 14 parts of one size. */
    typedef struct {
        lancecy_ends_t ends;
        int shift;
        uint64_t parts[256];
    } lancecy_zones_t;

    static void lancecy_zone(lancecy_zones_t *zones, const uint64_t *words, int64_t count)
    {
        uint64_t part;
        memset(zones->parts, 0, sizeof zones->parts);
        zones->ends = lancecy_ends(words, count);
        zones->shift = 0;
        while ((zones->ends.greatest - zones->ends.least) >> zones->shift >> 14)
            zones->shift++;
        for (int64_t i = 0; i < count; i++) {
            part = (words[i] - zones->ends.least) >> zones->shift;
            zones->parts[part >> 6] |= (uint64_t) 1 << (part & 63);
        }
    }

    /* Whether a word may lie between the ends. */
    static int lancecy_may_hold(const lancecy_zones_t *zones, lancecy_ends_t ends)
    {
        const uint64_t low = zones->ends.least, high = zones->ends.greatest;
        if (ends.greatest < low || ends.least > high)
            return 0;
        uint64_t first = ((ends.least < low ? low : ends.least) - low) >> zones->shift;
        uint64_t last = ((ends.greatest > high ? high : ends.greatest) - low) >> zones->shift;
        uint64_t head = ~(uint64_t) 0 << (first & 63), tail = ~(uint64_t) 0 >> (63 - (last & 63));
        first >>= 6, last >>= 6;
        if (first == last)
            return (zones->parts[first] & head & tail) != 0;
        if (zones->parts[first] & head)
            return 1;
        while (++first < last)
            if (zones->parts[first])
                return 1;
        return (zones->parts[last] & tail) != 0;
    }
    """
    ctypedef struct Ends "lancecy_ends_t":
        pass
    ctypedef struct Zones "lancecy_zones_t":
        pass
    # bounds: words has count words, one or more.
    Ends ends_of "lancecy_ends"(const uint64_t *words, int64_t count) nogil
    void zone "lancecy_zone"(Zones *zones, const uint64_t *words, int64_t count) nogil
    bint may_hold "lancecy_may_hold"(const Zones *zones, Ends ends) nogil
