"""Packs integers into FastLanes blocks of 1,024, each with its own width.

The inverse of ``_bitpack``: in a block of 1,024 words of T bits, row r holds one value of each
of the 1024 / T lanes, and its bits follow those of row r - 1 in the words of the lane.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from cursor cimport FAULT_BIT_WIDTH, FAULT_NEGATIVE, FAULT_NONE, FAULT_OUT_SIZE, FAULT_TRUNCATED, Fault, has
from packing cimport pack_block

from lancecy.kernels._codes import fail

__all__ = ["pack_blocks"]

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
        pack_block(values + (i << (shift + 7)), shift, <uint64_t> widths[i], out + positions[i])
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
