"""Split block Bloom filters: in each of the eight words of a block of 32 bytes a hash has one bit."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from cursor cimport FAULT_OUT_SIZE

from lancecy.kernels._codes import fail

__all__ = ["set_filter_bits"]

cdef extern from *:
    """
    static const uint32_t lancecy_salts[8] = {
        0x47B6137BU, 0x44974D91U, 0x8824AD5BU, 0xA2B7289DU,
        0x705495C7U, 0x2DF1424BU, 0x9EFC4947U, 0x5C6BFB31U};

    /* One bit in each of the eight words of a block, little-endian as bytes. */
    static inline void lancecy_set_bits(uint8_t *block, uint32_t key)
    {
        for (int word = 0; word < 8; word++) {
            uint32_t bit = (key * lancecy_salts[word]) >> 27;
            block[4 * word + (bit >> 3)] |= (uint8_t)(1U << (bit & 7));
        }
    }
    """
    void set_bits "lancecy_set_bits"(uint8_t *block, uint32_t key) nogil


def set_filter_bits(const uint64_t[::1] hashes not None, uint8_t[::1] out not None):
    """Add hashes to a split block Bloom filter.

    The upper half of a hash chooses one block of 32 bytes, the lower half one bit in each of its eight words.

    Parameters
    ----------
    hashes : (n,) uint64, may be read-only
    out : (num_blocks * 32,) uint8
        The filter; bits that are set already stay so.

    Raises
    ------
    ValueError
        ``out`` is not made of blocks of 32 bytes.

    Notes
    -----
    Source: sheet of indices, section B7.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import set_filter_bits
    >>> out = np.zeros(64, np.uint8)
    >>> set_filter_bits(np.array([5, 1 << 63], np.uint64), out)
    >>> int(np.unpackbits(out).sum())
    16
    """
    cdef uint64_t blocks = <uint64_t> (out.shape[0] // 32)
    cdef Py_ssize_t row
    if out.shape[0] % 32 or (blocks == 0 and hashes.shape[0]):
        fail(FAULT_OUT_SIZE, 0)
    with nogil:
        # The block is below ``blocks``, as the upper half of a hash is below 2**32.
        for row in range(hashes.shape[0]):
            set_bits(&out[<Py_ssize_t> (((hashes[row] >> 32) * blocks) >> 32) * 32], <uint32_t> hashes[row])
