"""Packs integers into FastLanes blocks of 1,024, each with its own width.

The inverse of ``_bitpack``: in a block of 1,024 words of T bits, row r holds one value of each
of the 1024 / T lanes, and its bits follow those of row r - 1 in the words of the lane.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from cursor cimport FAULT_BIT_WIDTH, FAULT_NEGATIVE, FAULT_NONE, FAULT_OUT_SIZE, FAULT_TRUNCATED, Fault, has

from lancecy.kernels._codes import fail

__all__ = ["pack_blocks"]

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
    void pack_block "lancecy_pack_block"(
        const uint8_t *values, uint64_t shift, uint64_t width, uint64_t unit, uint8_t *out
    ) nogil


cdef uint64_t _ones(uint64_t count) except? 0 nogil:
    return ~<uint64_t> 0 if count >= 64 else (<uint64_t> 1 << count) - 1


cdef int64_t _pack(
    const uint8_t *values,
    uint64_t shift,
    const int64_t *widths,
    const int64_t *positions,
    Py_ssize_t num_blocks,
    uint8_t *out,
    int64_t out_size,
    Fault *fault,
) except -2 nogil:
    # bounds: values has num_blocks blocks of 128 << shift bytes; each is written once it is known to fit.
    cdef Py_ssize_t i
    cdef uint64_t unit = ~<uint64_t> 0 // _ones(<uint64_t> 1 << shift)
    fault.code = FAULT_NONE
    for i in range(num_blocks):
        fault.index = i
        if widths[i] < 0 or widths[i] > <int64_t> 1 << shift:
            fault.code = FAULT_BIT_WIDTH
            return -1
        if positions[i] < 0:
            fault.code = FAULT_NEGATIVE
            return -1
        if not has(positions[i], 128 * widths[i], out_size):
            fault.code = FAULT_OUT_SIZE
            return -1
        pack_block(values + (i << (shift + 7)), shift, <uint64_t> widths[i], unit, out + positions[i])
    return 0


def pack_blocks(
    const uint8_t[::1] values not None,
    Py_ssize_t bits,
    const int64_t[::1] widths not None,
    uint8_t[::1] out not None,
    const int64_t[::1] positions not None,
):
    """Pack blocks of 1,024 integers to fewer bits.

    Parameters
    ----------
    values : (num_blocks * 128 * ``bits``,) uint8, may be read-only
        Words of ``bits`` bits, little-endian; an incomplete block is padded with zeros.
    bits : 8, 16, 32 or 64
    widths : (num_blocks,) int64, 0 to ``bits``
        Width to which the values of each block are packed; higher bits are dropped.
    out : (size,) uint8
        Bytes that no block covers are unchanged.
    positions : (num_blocks,) int64, bytes
        Position of each block, which has 128 bytes per bit of its width.

    Raises
    ------
    FormatError
        A width or a position is invalid; ``position`` is the block.
    TruncatedError
        ``values`` has fewer or more blocks than there are widths.
    ValueError
        ``bits`` is another number, the arrays differ in length, or a block passes the end of ``out``.

    Source: file sheet 2.1, section 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import pack_blocks
    >>> out = np.empty(128, np.uint8)
    >>> pack_blocks(np.ones(1024, np.uint8), 8, np.array([1]), out, np.array([0]))
    >>> set(out.tolist())
    {255}
    """
    cdef Fault fault
    cdef int64_t done = 0
    cdef uint64_t shift
    cdef Py_ssize_t num_blocks = widths.shape[0]
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"words of {bits} bits")
    shift = {8: 3, 16: 4, 32: 5, 64: 6}[bits]
    if positions.shape[0] != num_blocks:
        raise ValueError("the arrays of the blocks differ in length")
    if values.shape[0] // (128 * bits) != num_blocks or values.shape[0] % (128 * bits):
        fail(FAULT_TRUNCATED, values.shape[0] // (128 * bits))
    if num_blocks == 0:
        return
    # An empty array has no first byte; nothing is written then, because blocks of width 0 are empty.
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    with nogil:
        done = _pack(
            &values[0], shift, &widths[0], &positions[0], num_blocks, target, out.shape[0], &fault
        )
    if done < 0:
        fail(fault.code, fault.index)
