# A table of up to 255 symbols of 1 to 8 bytes, and the longest one that a text begins with (header-only).
#
# Symbols of three bytes and more are found by their first three, each at one place of its own; a symbol whose
# place is taken is not added. Shorter ones are found by their first two bytes. What is found is a step: the
# code, and how many bytes it stands for and takes.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #define LANCECY_PLACES 1024
    /* Code of a byte without a symbol. */
    #define LANCECY_ESCAPE 255
    #define LANCECY_STEP(code, length, written) ((uint16_t) ((code) | (length) << 8 | (written) << 12))
    #define LANCECY_NO_SYMBOL LANCECY_STEP(LANCECY_ESCAPE, 1, 2)

    typedef struct {
        uint64_t symbols[256];
        uint8_t lengths[256];
        int64_t count;
        /* A place without a symbol is never met: its mask leaves nothing of a word, its symbol is not 0. */
        struct { uint64_t symbol; uint64_t mask; int64_t length; uint16_t step; } places[LANCECY_PLACES];
        uint16_t pairs[65536];
        uint16_t singles[256];
    } LancecySymbols;

    static inline uint64_t lancecy_place(uint64_t word)
    {
        uint64_t three = word & 0xFFFFFF;
        return (three * 2971215073u ^ three * 2971215073u >> 15) & (LANCECY_PLACES - 1);
    }

    static void lancecy_no_symbols(LancecySymbols *table)
    {
        table->count = 0;
        for (int64_t i = 0; i < 65536; i++) table->pairs[i] = LANCECY_NO_SYMBOL;
        for (int64_t i = 0; i < 256; i++) table->singles[i] = LANCECY_NO_SYMBOL;
        for (int64_t i = 0; i < LANCECY_PLACES; i++) {
            table->places[i].symbol = 1;
            table->places[i].mask = 0;
            table->places[i].length = 0;
        }
    }

    /* Whether the symbol was added: the table is not full, and its place was free. */
    static int64_t lancecy_add_symbol(LancecySymbols *table, uint64_t symbol, int64_t length)
    {
        int64_t code = table->count;
        uint16_t step = LANCECY_STEP(code, length, 1);
        if (code >= LANCECY_ESCAPE || length < 1 || length > 8) return 0;
        if (length >= 3) {
            uint64_t place = lancecy_place(symbol);
            if (table->places[place].length) return 0;
            table->places[place].mask = ~(uint64_t) 0 >> (64 - 8 * length);
            table->places[place].symbol = symbol & table->places[place].mask;
            table->places[place].length = length;
            table->places[place].step = step;
        } else if (length == 2) {
            table->pairs[symbol & 0xFFFF] = step;
        } else {
            table->singles[symbol & 0xFF] = step;
            for (uint64_t next = 0; next < 256; next++) {
                uint16_t *pair = &table->pairs[(symbol & 0xFF) | next << 8];
                if ((*pair >> 8 & 15) == 1) *pair = step;
            }
        }
        table->symbols[code] = symbol;
        table->lengths[code] = (uint8_t) length;
        table->count++;
        return 1;
    }

    /* The step for the longest symbol that `left` (1 or more) bytes begin with. */
    static inline uint16_t lancecy_step(const LancecySymbols *table, uint64_t word, int64_t left)
    {
        uint64_t place = lancecy_place(word);
        uint16_t step = left > 1 ? table->pairs[word & 0xFFFF] : table->singles[word & 0xFF];
        int met = ((word & table->places[place].mask) == table->places[place].symbol)
            & (table->places[place].length <= left);
        return met ? table->places[place].step : step;
    }

    /* Up to eight bytes as a number, without reading past `left`. */
    static inline uint64_t lancecy_word_of(const uint8_t *text, int64_t left)
    {
        uint64_t word = 0;
        memcpy(&word, text, left < 8 ? (size_t) left : 8);
        return word;
    }

    /* The codes of a text, of whose memory `there` bytes can be read; returns how many there are, at most
       2 * size. */
    static int64_t lancecy_encode(
        const LancecySymbols *table, const uint8_t *text, int64_t size, int64_t there, uint8_t *out)
    {
        const uint8_t *at = text, *end = text + size, *last = there >= 8 ? text + (there - 8) : NULL;
        uint8_t *start = out, behind = 0;
        uint16_t step = LANCECY_NO_SYMBOL;
        while (at < end) {
            uint64_t word;
            if (last && at <= last) memcpy(&word, at, 8);
            else word = lancecy_word_of(at, end - at);
            step = lancecy_step(table, word, end - at);
            behind = out[1];
            out[0] = (uint8_t) step;
            out[1] = (uint8_t) word;
            out += step >> 12;
            at += step >> 8 & 15;
        }
        /* The second byte is written without a look at whether it counts. */
        if (step >> 12 == 1) *out = behind;
        return out - start;
    }
    """
    ctypedef struct Symbols "LancecySymbols":
        uint64_t symbols[256]
        uint8_t lengths[256]
        int64_t count
    enum:
        ESCAPE "LANCECY_ESCAPE"
    # bounds: codes are below 256, places and pairs are masked; a text is read up to `there`, which is not
    # less than its size. Two bytes are written for each step: out has two for each byte of the text.
    void no_symbols "lancecy_no_symbols"(Symbols *table) nogil
    int64_t add_symbol "lancecy_add_symbol"(Symbols *table, uint64_t symbol, int64_t length) nogil
    uint16_t symbol_step "lancecy_step"(const Symbols *table, uint64_t word, int64_t left) nogil
    uint64_t word_of "lancecy_word_of"(const uint8_t *text, int64_t left) nogil
    int64_t encode_text "lancecy_encode"(
        const Symbols *table, const uint8_t *text, int64_t size, int64_t there, uint8_t *out
    ) nogil
