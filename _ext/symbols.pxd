# A table of up to 255 symbols of 1 to 8 bytes, and the longest one that a text begins with (header-only).
#
# Symbols of three bytes and more are found by their first three, each at one place of its own; a symbol whose place is
# taken is not added. Shorter ones are found by their first two bytes.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #define LANCECY_PLACES 1024
    /* Code of a byte without a symbol, and of a place without one. */
    #define LANCECY_ESCAPE 255

    typedef struct {
        uint64_t symbols[256];
        uint8_t lengths[256];
        int64_t count;
        struct { uint64_t symbol; uint64_t mask; uint8_t length; uint8_t code; } places[LANCECY_PLACES];
        uint8_t pairs[65536];
        uint8_t singles[256];
    } LancecySymbols;

    static inline uint64_t lancecy_place(uint64_t word)
    {
        uint64_t three = word & 0xFFFFFF;
        return (three * 2971215073u ^ three * 2971215073u >> 15) & (LANCECY_PLACES - 1);
    }

    static void lancecy_no_symbols(LancecySymbols *table)
    {
        table->count = 0;
        memset(table->pairs, LANCECY_ESCAPE, sizeof table->pairs);
        memset(table->singles, LANCECY_ESCAPE, sizeof table->singles);
        memset(table->places, 0, sizeof table->places);
    }

    /* Whether the symbol was added: the table is not full, and its place was free. */
    static int64_t lancecy_add_symbol(LancecySymbols *table, uint64_t symbol, int64_t length)
    {
        uint8_t code = (uint8_t) table->count;
        if (table->count >= LANCECY_ESCAPE || length < 1 || length > 8) return 0;
        if (length >= 3) {
            uint64_t place = lancecy_place(symbol);
            if (table->places[place].length) return 0;
            table->places[place].symbol = symbol;
            table->places[place].mask = ~(uint64_t) 0 >> (64 - 8 * length);
            table->places[place].length = (uint8_t) length;
            table->places[place].code = code;
        } else if (length == 2) {
            table->pairs[symbol & 0xFFFF] = code;
        } else {
            table->singles[symbol & 0xFF] = code;
        }
        table->symbols[code] = symbol;
        table->lengths[code] = (uint8_t) length;
        table->count++;
        return 1;
    }

    /* The code of the longest symbol that `left` (1 or more) bytes begin with, LANCECY_ESCAPE if there is none. */
    static inline uint8_t lancecy_find_symbol(const LancecySymbols *table, uint64_t word, int64_t left)
    {
        uint64_t place = lancecy_place(word);
        if ((word & table->places[place].mask) == table->places[place].symbol
            && table->places[place].length <= left && table->places[place].length) return table->places[place].code;
        if (left > 1 && table->pairs[word & 0xFFFF] != LANCECY_ESCAPE) return table->pairs[word & 0xFFFF];
        return table->singles[word & 0xFF];
    }

    /* Up to eight bytes as a number, without reading past `left`. */
    static inline uint64_t lancecy_word_of(const uint8_t *text, int64_t left)
    {
        uint64_t word = 0;
        memcpy(&word, text, left < 8 ? (size_t) left : 8);
        return word;
    }

    /* The codes of a text; returns how many there are, at most 2 * size. */
    static int64_t lancecy_encode(const LancecySymbols *table, const uint8_t *text, int64_t size, uint8_t *out)
    {
        const uint8_t *at = text, *end = text + size;
        uint8_t *start = out;
        while (at < end) {
            int64_t left = end - at;
            uint64_t word;
            if (left >= 8) memcpy(&word, at, 8);
            else word = lancecy_word_of(at, left);
            uint8_t code = lancecy_find_symbol(table, word, left);
            *out++ = code;
            if (code == LANCECY_ESCAPE) *out++ = *at++;
            else at += table->lengths[code];
        }
        return out - start;
    }
    """
    ctypedef struct Symbols "LancecySymbols":
        uint64_t symbols[256]
        uint8_t lengths[256]
        int64_t count
    enum:
        ESCAPE "LANCECY_ESCAPE"
    # bounds: codes are below 256, places and pairs are masked; a text is read up to its size, out has twice as many.
    void no_symbols "lancecy_no_symbols"(Symbols *table) nogil
    int64_t add_symbol "lancecy_add_symbol"(Symbols *table, uint64_t symbol, int64_t length) nogil
    uint8_t find_symbol "lancecy_find_symbol"(const Symbols *table, uint64_t word, int64_t left) nogil
    uint64_t word_of "lancecy_word_of"(const uint8_t *text, int64_t left) nogil
    int64_t encode_text "lancecy_encode"(
        const Symbols *table, const uint8_t *text, int64_t size, uint8_t *out
    ) nogil
