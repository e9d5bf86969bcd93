"""Unpacks integers from streams of bits.

Value i of width w has the bits ``i * w`` to ``(i + 1) * w`` of the stream, lowest first, counted
from the lowest bit of the first byte. If the values that fill a word of results always lie within
eight bytes, these are loaded at once and spread over the word by halving the groups until each
value has its own lane; other widths are unpacked one value at a time.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from bitruns cimport BitRuns, bit_runs, check_bit_runs
from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, Fault, load64, store_word

from lancecy.kernels._codes import fail

__all__ = ["unpack_stream"]

cdef extern from *:
    """
    /* In every lane of 2 * half bits, move the upper one of two groups of `bits` bits to the upper half.
       `mask` has a group of ones in each lane: bits from the lane above are masked out. */
    static inline uint64_t lancecy_split(uint64_t word, int64_t bits, int64_t half, uint64_t mask)
    {
        return (word & mask) | (((word >> bits) & mask) << half);
    }

    /* Spread words of 64 / lane values over lanes of 8, 16 or 32 bits. In C, so that the masks stay in
       registers. Sign bits are moved to the bottom of their lanes and multiplied by the bits to set. */
    static inline void lancecy_spread(const uint8_t *in, uint64_t bit, int64_t width, int64_t lane,
                                      uint64_t signs, uint64_t above, int64_t words, uint8_t *out)
    {
        const uint64_t one = 1, all = ~(uint64_t) 0;
        const uint64_t halves = ((one << (32 / lane * width)) - 1);
        const uint64_t quarters = lane < 32 ? ((one << (16 / lane * width)) - 1) * (all / 0xFFFFFFFFu) : 0;
        const uint64_t eighths = lane < 16 ? ((one << width) - 1) * (all / 0xFFFFu) : 0;
        int64_t i;
        for (i = 0; i < words; i++) {
            uint64_t word = lancecy_load64(in + (bit >> 3)) >> (bit & 7);
            word = lancecy_split(word, 32 / lane * width, 32, halves);
            if (lane < 32) word = lancecy_split(word, 16 / lane * width, 16, quarters);
            if (lane < 16) word = lancecy_split(word, width, 8, eighths);
            if (signs) word |= ((word & signs) >> (width - 1)) * above;
            lancecy_store64(out + 8 * i, word);
            bit += (uint64_t) (64 / lane * width);
        }
    }

    static void lancecy_spread_lanes(const uint8_t *in, uint64_t bit, int64_t width, int64_t lane,
                                     uint64_t signs, uint64_t above, int64_t words, uint8_t *out)
    {
        if (lane == 8) lancecy_spread(in, bit, width, 8, signs, above, words, out);
        else if (lane == 16) lancecy_spread(in, bit, width, 16, signs, above, words, out);
        else lancecy_spread(in, bit, width, 32, signs, above, words, out);
    }
    """
    void spread_lanes "lancecy_spread_lanes"(
        const uint8_t *source, uint64_t bit, int64_t width, int64_t lane, uint64_t signs, uint64_t above,
        int64_t words, uint8_t *out,
    ) nogil

cdef struct Stream:
    # w and T.
    int64_t width
    int64_t lane
    # The lowest w bits; the sign bit of each lane (none if there are no signs); the bits of a lane above w.
    uint64_t mask
    uint64_t signs
    uint64_t above


cdef inline uint64_t _extend(uint64_t word, const Stream *stream) except? 0xE5C1A9D3B7F08642 nogil:
    # Sign extension: 0 or 1 in each lane, times the bits to set there.
    return word | ((word & stream.signs) >> (stream.width - 1)) * stream.above


cdef inline uint64_t _value(
    const uint8_t *source, int64_t available, int64_t bit, int64_t width
) except? 0xE5C1A9D3B7F08642 nogil:
    # bounds: bit + width bits, at most 64 of them in up to nine bytes, are among the `available` bytes; the
    # last eight of these are loaded byte by byte where a whole word would pass their end.
    cdef int64_t byte = bit >> 3, shift = bit & 7, i
    cdef uint64_t word = 0
    if available - byte >= 8:
        word = load64(source + byte)
    else:
        for i in range(available - byte):
            word |= <uint64_t> source[byte + i] << (8 * i)
    word >>= shift
    if shift + width > 64:
        word |= <uint64_t> source[byte + 8] << (64 - shift)
    return word


cdef inline int64_t _group(const Stream *stream, int64_t bit) except -1 nogil:
    # Number of values to spread over a word at once: as many as fill it if they end within eight bytes from
    # any bit of a byte at which the groups begin; otherwise 1.
    cdef int64_t group = 64 // stream.lane, _turn
    for _turn in range(8):
        if (bit & 7) + group * stream.width > 64:
            return 1
        bit += group * stream.width
    return group


cdef int64_t _unpack(
    const Stream *stream, const uint8_t *source, int64_t available, int64_t bit, int64_t count, uint8_t *out
) except -2 nogil:
    # bounds: check_bit_runs has shown that source has all bits of the run and out its values; a word is
    # used only if eight bytes can be loaded and there are values to fill it.
    cdef int64_t width = stream.width, nbytes = stream.lane >> 3, group = 1, words
    cdef uint64_t word
    if width == stream.lane and bit == 0:
        memcpy(out, source, count * nbytes)
        return 0
    if available >= 8 and count >= 64 // stream.lane:
        group = _group(stream, bit)
    if group > 1:
        # Number of words such that the last begins at least eight bytes before the end.
        words = min(count // group, ((available - 8) * 8 + 7 - bit) // (group * width) + 1)
        spread_lanes(source, bit, width, stream.lane, stream.signs, stream.above, words, out)
        bit += words * group * width
        count -= words * group
        out += 8 * words
    while count > 0:
        word = _value(source, available, bit, width) & stream.mask
        store_word(out, _extend(word, stream), nbytes)
        bit += width
        count -= 1
        out += nbytes
    return 0


cdef int64_t _unpack_runs(
    const Stream *stream, const uint8_t *memory, int64_t memory_size, const BitRuns *runs, uint8_t *out
) except -2 nogil:
    # bounds: as _unpack.
    cdef Py_ssize_t i
    cdef int64_t first, offset
    for i in range(runs.num_runs):
        offset = runs.bit_offsets[i]
        if runs.counts[i] > 0:
            first = runs.positions[i] + (offset >> 3)
            _unpack(stream, memory + first, memory_size - first, offset & 7, runs.counts[i], out)
            out += runs.counts[i] * (stream.lane >> 3)
    return 0


cdef Stream _stream(int64_t width, int64_t bits, bint is_signed) except *:
    cdef Stream stream
    if bits not in (8, 16, 32, 64):
        raise ValueError("bits must be 8, 16, 32 or 64")
    if not 1 <= width <= bits:
        raise ValueError("packed_bits must be in 1 .. bits")
    stream.width, stream.lane = width, bits
    stream.mask = <uint64_t> -1 >> (64 - width)
    stream.above = (<uint64_t> -1 >> (64 - bits)) ^ stream.mask
    stream.signs = 0
    if is_signed:
        stream.signs = {8: 0x0101010101010101, 16: 0x0001000100010001, 32: 0x0000000100000001, 64: 1}[bits]
        stream.signs <<= width - 1
    return stream


def unpack_stream(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] bit_offsets not None,
    const int64_t[::1] counts not None,
    int64_t packed_bits,
    int64_t bits,
    bint signed,
    uint8_t[::1] out not None,
):
    """Unpack integers from streams of bits.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions : (num_runs,) int64, bytes
        Start of the stream of each run.
    bit_offsets : (num_runs,) int64, bits
        First bit of the run in its stream; at least 0, may exceed 7.
    counts : (num_runs,) int64, values
        An empty run may have any position and offset.
    packed_bits : int
        Width of the packed integers, 1 to ``bits``.
    bits : int
        8, 16, 32 or 64: width of the unpacked integers.
    signed : bool
        Whether the highest bit of a packed integer is its sign.
    out : (sum(counts) * bits / 8,) uint8
        The values of all runs, little-endian.

    Raises
    ------
    FormatError
        A position, offset or count is negative; ``position`` is the run.
    TruncatedError
        A run passes the end of ``memory``; ``position`` is the run.
    ValueError
        ``bits`` or ``packed_bits`` is another number or an array does not have its size.

    Source: bit-packing of file version 2.0.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import unpack_stream
    >>> out, zero = np.empty(4, np.int8), np.array([0])
    >>> stream = np.array([0b11_01_00_10], np.uint8)
    >>> unpack_stream(stream, zero, zero, np.array([4]), 2, 8, True, out.view(np.uint8))
    >>> out.tolist()
    [-2, 0, 1, -1]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Stream stream = _stream(packed_bits, bits, signed)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    cdef BitRuns runs
    cdef int64_t total, capacity = out.shape[0] // (bits >> 3)
    if out.shape[0] % (bits >> 3):
        fail(FAULT_OUT_SIZE, 0)
    runs = bit_runs(positions, bit_offsets, counts)
    with nogil:
        total = check_bit_runs(&runs, packed_bits, memory.shape[0], capacity, &fault)
        if fault.code == FAULT_NONE and total != capacity:
            fault.code = FAULT_OUT_SIZE
        if fault.code == FAULT_NONE and target is not NULL:
            _unpack_runs(&stream, source, memory.shape[0], &runs, target)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
