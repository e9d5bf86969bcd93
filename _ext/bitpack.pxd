# Unpacks runs of integers from FastLanes blocks (header-only); _bitpack.pyx describes the blocks.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from cursor cimport (
    FAULT_BIT_WIDTH, FAULT_CHUNK_COUNT, FAULT_CHUNK_SHORT, FAULT_NONE, load_word, store_word,
)
from fastlanes cimport ones, row_of, unpack_rows

cdef enum:
    BLOCK = 1024
    ROW_BYTES = 128
    LONGEST = 64
    # Blocks of this many rows of words exceed the hardware's prefetching.
    WIDE = 16
    # Fewer values than this are unpacked one by one instead of by the row.
    FEW = 4

cdef struct Packing:
    # T and log2 T, T / 8, values per row, w, the lowest w of T bits set, and one bit set in every T.
    uint64_t bits
    uint64_t shift
    uint64_t nbytes
    int64_t lanes
    uint64_t width
    uint64_t mask
    uint64_t unit


cdef inline Packing packing_of(int64_t bits) except *:
    cdef Packing packing
    if bits not in (8, 16, 32, 64):
        raise ValueError("bits must be 8, 16, 32 or 64")
    packing.bits = <uint64_t> bits
    packing.shift = 3 if bits == 8 else 4 if bits == 16 else 5 if bits == 32 else 6
    packing.nbytes = packing.bits >> 3
    packing.lanes = BLOCK >> packing.shift
    packing.unit = (
        0x0101010101010101 if bits == 8 else 0x0001000100010001 if bits == 16 else 0x100000001 if bits == 32
        else 1
    )
    packing.width = packing.mask = 0
    return packing


cdef inline uint64_t one_value(
    const uint8_t *block, int64_t place, const Packing *packing
) except? 0xE5C1A9D3B7F08642 nogil:
    # bounds: as unpack_rows, and place < 1024, so the lane lies within its row.
    cdef int64_t lane = place & (packing.lanes - 1)
    cdef uint64_t bit = row_of(<uint64_t> (place - lane)) * packing.width
    cdef uint64_t down = bit & (packing.bits - 1), kept = packing.bits - down, value
    block += ROW_BYTES * (bit >> packing.shift) + <uint64_t> lane * packing.nbytes
    value = load_word(block, packing.nbytes) >> down
    if kept < packing.width:
        value |= load_word(block + ROW_BYTES, packing.nbytes) << kept
    return value & packing.mask


cdef inline int64_t unpack_values(
    const uint8_t *block, int64_t place, int64_t count, const Packing *packing, uint8_t *out
) except -1 nogil:
    # Values place .. place + count of one block.
    # bounds: the caller has shown that the block has width rows of words, that place + count <= 1024, and
    # that out has count values; a partial row goes through a local buffer.
    cdef uint8_t row[ROW_BYTES]
    cdef uint8_t words[ROW_BYTES * LONGEST]
    cdef int64_t stop = place + count, lane, part
    if packing.width == 0:
        memset(out, 0, count * packing.nbytes)
        return 0
    if count == BLOCK and packing.width >= WIDE:
        # Rows are read out of order: uncached memory is read much faster sequentially.
        memcpy(words, block, ROW_BYTES * packing.width)
        unpack_rows(words, 0, <int64_t> packing.bits, packing.shift, packing.width, packing.unit, out)
        return 0
    while place < stop:
        lane = place & (packing.lanes - 1)
        part = min(packing.lanes - lane, stop - place)
        if part == packing.lanes:
            part = (stop - place) >> (10 - packing.shift)
            unpack_rows(block, place, part, packing.shift, packing.width, packing.unit, out)
            part <<= 10 - packing.shift
        elif part < FEW:
            store_word(out, one_value(block, place, packing), packing.nbytes)
            part = 1
        else:
            unpack_rows(block, place - lane, 1, packing.shift, packing.width, packing.unit, row)
            memcpy(out, row + lane * packing.nbytes, part * packing.nbytes)
        place += part
        out += part * packing.nbytes
    return 0


cdef inline int32_t inline_run(
    const uint8_t *chunk, int64_t length, int64_t stored, int64_t start, int64_t count, Packing *packing,
    uint8_t *out,
) except -1 nogil:
    # Values of a chunk that begins with their width; returns a fault.
    # bounds: the chunk has `length` bytes, start + count <= stored, and out holds count values.
    cdef uint64_t width
    if stored > BLOCK:
        return FAULT_CHUNK_COUNT
    if <uint64_t> length < packing.nbytes:
        return FAULT_CHUNK_SHORT
    width = load_word(chunk, packing.nbytes)
    if width > packing.bits:
        return FAULT_BIT_WIDTH
    if <uint64_t> length - packing.nbytes < ROW_BYTES * width:
        return FAULT_CHUNK_SHORT
    packing.width, packing.mask = width, ones(width)
    unpack_values(chunk + packing.nbytes, start, count, packing, out)
    return FAULT_NONE


cdef inline int64_t _blocks(
    const uint8_t *chunk, int64_t raw, int64_t place, int64_t count, const Packing *packing, uint8_t *out
) except -1 nogil:
    # Values place .. place + count of a chunk of many blocks, of which block number `raw` is not packed.
    # bounds: the caller has shown that the chunk has the bytes of all its values.
    cdef int64_t within, part
    cdef const uint8_t *block
    while count > 0:
        within = place & (BLOCK - 1)
        part = min(BLOCK - within, count)
        block = chunk + (place >> 10) * <int64_t> (ROW_BYTES * packing.width)
        if place >> 10 == raw:
            memcpy(out, block + within * packing.nbytes, part * packing.nbytes)
        else:
            unpack_values(block, within, part, packing, out)
        place += part
        count -= part
        out += part * packing.nbytes
    return 0


cdef inline int32_t blocks_run(
    const uint8_t *chunk, int64_t length, int64_t stored, int64_t start, int64_t count,
    const Packing *packing, bint raw_tail, uint8_t *out,
) except -1 nogil:
    # Values of a chunk of blocks of one known width; returns a fault.
    # bounds: as inline_run; a chunk may have any number of values; the bytes for `full` blocks are checked
    # before any multiplication.
    cdef int64_t full = stored >> 10, tail = stored & (BLOCK - 1), rest = length, raw
    cdef int64_t nbytes = <int64_t> (ROW_BYTES * packing.width)
    if nbytes > 0 and full > rest // nbytes:
        return FAULT_CHUNK_SHORT
    rest -= full * nbytes
    # A tail with one word per value is not packed; without a tail no block has that number.
    raw = full if raw_tail and rest >> (packing.shift - 3) == tail else -1
    if raw < 0 and tail > 0 and rest < nbytes:
        return FAULT_CHUNK_SHORT
    _blocks(chunk, raw, start, count, packing, out)
    return FAULT_NONE
