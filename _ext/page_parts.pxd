# Parts of the chunks of a page, written one after the other (header-only).
#
# A function returns the bytes it wrote, or -1 if `out` has no room for them.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset

from cursor cimport has, load_word, store_word
from packing cimport pack_block

cdef enum:
    BLOCK = 1024
    LONGEST_RUN = 255
    LEVELS_BLOCKS = 2
    LEVELS_RUNS = 3

cdef struct Levels:
    # Kind 0: none, 1: plain.
    const uint16_t *at
    int64_t kind
    int64_t width

cdef struct PageSink:
    # `size` bytes, of which the first `at` are written.
    uint8_t *out
    int64_t size
    int64_t at


cdef inline int64_t put_bytes(PageSink *sink, const uint8_t *memory, int64_t count) except -2 nogil:
    # bounds: the caller has checked that memory has `count` bytes; room is checked here.
    if not has(sink.at, count, sink.size):
        return -1
    if count > 0:
        memcpy(sink.out + sink.at, memory, count)
    sink.at += count
    return count


cdef inline int64_t put_zeros(PageSink *sink, int64_t count) except -2 nogil:
    # bounds: room is checked.
    if not has(sink.at, count, sink.size):
        return -1
    if count > 0:
        memset(sink.out + sink.at, 0, count)
    sink.at += count
    return count


cdef inline int64_t put_word(PageSink *sink, uint64_t value, int64_t width) except -2 nogil:
    # bounds: room is checked.
    if not has(sink.at, width, sink.size):
        return -1
    store_word(sink.out + sink.at, value, <uint64_t> width)
    sink.at += width
    return width


cdef inline int64_t run_length(
    const uint8_t *values, int64_t first, int64_t count, int64_t width
) except -2 nogil:
    # How many values from `first` on are equal, at most LONGEST_RUN. bounds: values has `count` values.
    cdef uint64_t value = load_word(values + first * width, <uint64_t> width)
    cdef int64_t end = first + 1, last = min(count, first + LONGEST_RUN)
    while end < last and load_word(values + end * width, <uint64_t> width) == value:
        end += 1
    return end - first


cdef inline int64_t put_run_values(
    PageSink *sink, const uint8_t *values, int64_t count, int64_t width
) except -2 nogil:
    # bounds: values has `count` values; room is checked by put_word.
    cdef int64_t first = 0, start = sink.at
    while first < count:
        if put_word(sink, load_word(values + first * width, <uint64_t> width), width) < 0:
            return -1
        first += run_length(values, first, count, width)
    return sink.at - start


cdef inline int64_t put_run_lengths(
    PageSink *sink, const uint8_t *values, int64_t count, int64_t width
) except -2 nogil:
    # bounds: as put_run_values.
    cdef int64_t first = 0, start = sink.at, length
    while first < count:
        length = run_length(values, first, count, width)
        if put_word(sink, <uint64_t> length, 1) < 0:
            return -1
        first += length
    return sink.at - start


cdef inline int64_t put_runs(
    PageSink *sink, const uint8_t *values, int64_t count, int64_t width
) except -2 nogil:
    # Runs in one buffer: the bytes of the values, the values, the lengths. bounds: as put_run_values.
    cdef int64_t start = sink.at, nbytes
    if put_zeros(sink, 8) < 0:
        return -1
    nbytes = put_run_values(sink, values, count, width)
    if nbytes < 0 or put_run_lengths(sink, values, count, width) < 0:
        return -1
    store_word(sink.out + start, <uint64_t> nbytes, 8)
    return sink.at - start


cdef inline int64_t put_block(
    PageSink *sink, const uint8_t *values, int64_t count, uint64_t shift, int64_t width
) except -2 nogil:
    # Up to 1,024 words of 1 << shift bits, packed to `width`.
    # bounds: values has `count` words, the copy 1,024.
    cdef uint8_t padded[8 * BLOCK]
    cdef int64_t nbytes = (count << shift) >> 3
    if not has(sink.at, 128 * width, sink.size):
        return -1
    if count < BLOCK:
        memcpy(padded, values, nbytes)
        memset(padded + nbytes, 0, (((<int64_t> BLOCK) << shift) >> 3) - nbytes)
        values = padded
    pack_block(values, shift, <uint64_t> width, sink.out + sink.at)
    sink.at += 128 * width
    return 128 * width


cdef inline int64_t put_levels(
    PageSink *sink, const uint16_t *levels, int64_t count, int64_t width
) except -2 nogil:
    # Levels packed to `width` bits in blocks of 1,024; the last, partial block stays as it is if that is
    # shorter. bounds: levels has `count` of them; room is checked by put_block and put_bytes.
    cdef int64_t start = sink.at, first = 0, rest
    while first < count:
        rest = min(count - first, <int64_t> BLOCK)
        if rest < BLOCK and width * (BLOCK - rest) >= (16 - width) * rest:
            if put_bytes(sink, <const uint8_t *> (levels + first), 2 * rest) < 0:
                return -1
        elif put_block(sink, <const uint8_t *> (levels + first), rest, 4, width) < 0:
            return -1
        first += rest
    return sink.at - start


cdef inline int64_t put_coded_levels(
    PageSink *sink, const Levels *levels, int64_t first, int64_t count
) except -2 nogil:
    # bounds: the caller's entries exist.
    cdef const uint16_t *at = levels.at + first
    if levels.kind == LEVELS_BLOCKS:
        return put_levels(sink, at, count, levels.width)
    if levels.kind == LEVELS_RUNS:
        return put_runs(sink, <const uint8_t *> at, count, 2)
    return put_bytes(sink, <const uint8_t *> at, 2 * count)
