# Values as text: numbers in decimal, and the parts of strings that need no escape (header-only).
#
# Floats are written with the fewest digits that read as the same number, by the method of R. Giulietti:
# digits are searched between the midpoints to the two neighbours, all scaled by a power of ten, of which 128
# bits are enough.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from cursor cimport load64, store64

cdef extern from *:
    """
    #if defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>
    #endif

    /* The product of two words; the lower half is returned, the upper one stored. */
    static inline uint64_t lancecy_multiply(uint64_t a, uint64_t b, uint64_t *high)
    {
    #if defined(__SIZEOF_INT128__)
        unsigned __int128 product = (unsigned __int128) a * b;
        *high = (uint64_t) (product >> 64);
        return (uint64_t) product;
    #elif defined(_M_X64)
        return _umul128(a, b, high);
    #else
        uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
        uint64_t one = (a >> 32) * (b & 0xFFFFFFFFu) + (low >> 32);
        uint64_t two = (a & 0xFFFFFFFFu) * (b >> 32) + (one & 0xFFFFFFFFu);
        *high = (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);
        return (two << 32) | (low & 0xFFFFFFFFu);
    #endif
    }
    """
    uint64_t multiply "lancecy_multiply"(uint64_t a, uint64_t b, uint64_t *high) nogil

cdef enum:
    # Words of the powers of ten from -292 to 324, as lancecy/kernels/_powers.py makes them.
    NUM_POWERS = 1234

cdef struct Decimal:
    uint64_t digits
    int64_t exponent


# -- strings ----------------------------------------------------------------------


cdef inline int64_t utf8_length(const uint8_t *text, int64_t size) except -2 nogil:
    # Bytes of the multi-byte UTF-8 character that text begins with; 0 if it is invalid.
    # bounds: text has `size` bytes, at least one.
    cdef uint8_t first = text[0], low = 0x80, high = 0xBF
    cdef int64_t length = 2 if first < 0xE0 else (3 if first < 0xF0 else 4), i
    if first < 0xC2 or first > 0xF4 or length > size:
        return 0
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if text[1] < low or text[1] > high:
        return 0
    for i in range(2, length):
        if text[i] & 0xC0 != 0x80:
            return 0
    return length


cdef inline int64_t clean_length(const uint8_t *text, int64_t size) except -2 nogil:
    # Bytes before the first that needs an escape or is not UTF-8.
    # bounds: text has `size` bytes; a word is loaded only if eight of them are left.
    cdef int64_t at = 0, length
    cdef uint64_t word, other
    while at < size:
        if size - at >= 8:
            # Set the top bit of each byte that is not ASCII, below a space, a quote or a backslash; a borrow
            # can only mark more bytes, and those are checked below.
            word = load64(text + at)
            other = word | (word - 0x2020202020202020u)
            other |= (word ^ 0x2222222222222222u) - 0x0101010101010101u
            other |= (word ^ 0x5C5C5C5C5C5C5C5Cu) - 0x0101010101010101u
            if other & 0x8080808080808080u == 0:
                at += 8
                continue
        if text[at] >= 0x80:
            length = utf8_length(text + at, size - at)
            if length == 0:
                return at
            at += length
        elif text[at] < 0x20 or text[at] == 0x22 or text[at] == 0x5C:
            return at
        else:
            at += 1
    return at


# -- numbers ----------------------------------------------------------------------


cdef inline uint64_t eight_digits(uint64_t number) except? 0xE5C1A9D3B7F08642 nogil:
    # The digits of a number below 10^8, the first in the lowest byte: split in halves three times, all parts
    # at once.
    cdef uint64_t upper, parts
    parts = number // 10000 | number % 10000 << 32
    upper = (parts * 10486 >> 20) & 0x0000007F0000007Fu
    parts = upper | (parts - 100 * upper) << 16
    upper = (parts * 103 >> 10) & 0x000F000F000F000Fu
    return 0x3030303030303030u + (upper | (parts - 10 * upper) << 8)


cdef inline int64_t put_digits(uint64_t number, uint8_t *out) except -2 nogil:
    # The decimal digits of a number, and how many. bounds: out has room for 20.
    cdef uint8_t digits[24]
    cdef int64_t first = 16
    cdef uint64_t rest
    if number < 10:
        out[0] = <uint8_t> (0x30 + number)
        return 1
    store64(digits + 16, eight_digits(number % 100000000))
    rest = number // 100000000
    if rest != 0:
        first = 8
        store64(digits + 8, eight_digits(rest % 100000000))
        rest = rest // 100000000
        if rest != 0:
            first = 0
            store64(digits, eight_digits(rest))
    while digits[first] == 0x30:
        first += 1
    memcpy(out, digits + first, 24 - first)
    return 24 - first


cdef inline uint64_t scaled(uint64_t high, uint64_t low, uint64_t number) except? 0xE5C1A9D3B7F08642 nogil:
    # The upper word of a product of 128 bits by 64, its lowest bit set if anything is below it.
    cdef uint64_t carry, upper = 0, middle
    multiply(low, number, &carry)
    middle = multiply(high, number, &upper) + carry
    if middle < carry:
        upper += 1
    return upper | (middle > 1)


cdef inline int64_t shortest(
    const uint64_t *powers, uint64_t fraction, int64_t exponent, Decimal *found
) except -2 nogil:
    # The shortest decimal number, and of those the nearest, that reads as a float of this fraction and
    # (biased) exponent; the float is neither zero nor of the highest exponent. bounds: powers has two words
    # for each power of ten that a finite exponent needs, from -292 to 324.
    cdef uint64_t c = fraction | (0x10000000000000u if exponent else 0)
    cdef int64_t q = (exponent if exponent else 1) - 1075
    cdef uint64_t is_closer = fraction == 0 and exponent > 1  # the next lower float is half as far away
    cdef int64_t k = (q * 1262611 - (524031 if is_closer else 0)) >> 22
    cdef int64_t h = q + (-k * 1741647 >> 19) + 1
    cdef uint64_t high = powers[2 * (292 - k)], low = powers[2 * (292 - k) + 1]
    cdef uint64_t lower, value, upper, s, tens
    cdef bint down, up
    found.exponent = 0
    if -52 <= q <= 0 and c & ((<uint64_t> 1 << -q) - 1) == 0:
        found.digits = c >> -q
        return 0
    lower = scaled(high, low, (4 * c - 2 + is_closer) << h) + (c & 1)
    value = scaled(high, low, (4 * c) << h)
    upper = scaled(high, low, (4 * c + 2) << h) - (c & 1)
    s = value >> 2
    tens = s // 10
    if s >= 10:
        down, up = lower <= 40 * tens, 40 * tens + 40 <= upper
        if down != up:
            found.digits, found.exponent = tens + up, k + 1
            return 0
    down, up = lower <= 4 * s, 4 * s + 4 <= upper
    if down == up:
        up = value > 4 * s + 2 or (value == 4 * s + 2 and s & 1 == 1)
    found.digits, found.exponent = s + up, k
    return 0


cdef inline int64_t put_dotted(
    const uint8_t *digits, int64_t count, int64_t first, uint8_t *out
) except -2 nogil:
    # Write digits, the first of which stands for 10^first, with a decimal point.
    # bounds: out has room for 17 digits, a dot and 5 zeros, as first is -5 to 15.
    cdef int64_t at = 0, i
    if first < 0:
        memcpy(out, b"0.00000", 7)
        memcpy(out + 1 - first, digits, count)
        return 1 - first + count
    for i in range(max(count, first + 2)):
        out[at] = digits[i] if i < count else 0x30
        at += 1
        if i == first:
            out[at] = 0x2E
            at += 1
    return at


cdef inline int64_t put_scientific(
    const uint8_t *digits, int64_t count, int64_t first, uint8_t *out
) except -2 nogil:
    # Write digits, the first of which stands for 10^first, with an exponent.
    # bounds: out has room for 17 digits, a dot and an exponent of 5 characters.
    cdef int64_t at = 1
    out[0] = digits[0]
    if count > 1:
        out[1] = 0x2E
        memcpy(out + 2, digits + 1, count - 1)
        at = count + 1
    out[at] = 0x65
    out[at + 1] = 0x2D if first < 0 else 0x2B
    return at + 2 + put_digits(<uint64_t> (-first if first < 0 else first), out + at + 2)


cdef inline int64_t put_float(const uint64_t *powers, uint64_t bits, uint8_t *out) except -2 nogil:
    # The text of a float and its length: with a dot up to 16 digits before it and down to 0.00001.
    # bounds: out has room for 32 characters.
    cdef uint8_t digits[20]
    cdef uint64_t fraction = bits & 0xFFFFFFFFFFFFFu
    cdef int64_t exponent = <int64_t> (bits >> 52 & 0x7FF), at = <int64_t> (bits >> 63), count, first
    cdef Decimal found = Decimal(0, 0)
    if exponent == 0x7FF:
        memcpy(out, b"null", 4)
        return 4
    if exponent != 0 or fraction != 0:
        shortest(powers, fraction, exponent, &found)
    count = put_digits(found.digits, digits)
    first = found.exponent + count - 1
    while count > 1 and digits[count - 1] == 0x30:
        count -= 1
    out[0] = 0x2D
    if -5 <= first < 16:
        return at + put_dotted(digits, count, first, out + at)
    return at + put_scientific(digits, count, first, out + at)


cdef inline int64_t put_integer(bint is_signed, uint64_t word, int64_t size, uint8_t *out) except -2 nogil:
    # The text of an integer of `size` bytes, the lowest of word.
    # bounds: out has room for 21 characters.
    if is_signed:
        if size == 1:
            word = <uint64_t> <int64_t> <int8_t> word
        elif size == 2:
            word = <uint64_t> <int64_t> <int16_t> word
        elif size == 4:
            word = <uint64_t> <int64_t> <int32_t> word
        if word >> 63:
            out[0] = 0x2D
            return 1 + put_digits(0 - word, out + 1)
    return put_digits(word, out)
