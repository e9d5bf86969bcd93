"""Unpacks integers from FastLanes blocks.

A FastLanes block holds 1,024 integers of T = 8, 16, 32 or 64 bits in w bits each. It is a
table of T rows and 1024 / T lanes; a row of T-bit words has 128 bytes for every T, and so has
a row of results::

    value (row r, lane l)  at place  order[r / 8] * 16 + r % 8 * 128 + l of the block
    its w bits             from bit  r * w of lane l on; word k of a lane is in row k of words

The lanes of a row are adjacent in the block and in the result, and shifted by the same number
of bits: one loop over 16 words of 64 bits serves every T, with masks that repeat every T
bits. Rows are independent, so unpacking some values reads only their rows.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from bitpack cimport Packing, blocks_run, inline_run, packing_of
from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, ChunkRuns, Fault, check_chunk_runs, chunk_runs
from fastlanes cimport ones

from lancecy.kernels._codes import fail

__all__ = ["unpack_blocks", "unpack_inline"]


cdef int64_t _inline(
    const uint8_t *memory, const ChunkRuns *runs, Packing *packing, uint8_t *out, Fault *fault
) except -1 nogil:
    # bounds: check_chunk_runs has shown that the chunks of runs are in memory, that runs are within the
    # counts of their chunks, and that out holds all.
    cdef Py_ssize_t r
    cdef int64_t chunk
    for r in range(runs.num_runs):
        if runs.run_counts[r] == 0:
            continue
        fault.index = chunk = runs.chunks[r]
        fault.code = inline_run(
            memory + runs.positions[chunk], runs.lengths[chunk], runs.counts[chunk], runs.starts[r],
            runs.run_counts[r], packing, out,
        )
        if fault.code != FAULT_NONE:
            return 0
        out += runs.run_counts[r] * packing.nbytes
    return 0


cdef int64_t _outline(
    const uint8_t *memory, const ChunkRuns *runs, const Packing *packing, bint raw_tail,
    uint8_t *out, Fault *fault,
) except -1 nogil:
    # bounds: as _inline.
    cdef Py_ssize_t r
    cdef int64_t chunk
    for r in range(runs.num_runs):
        if runs.run_counts[r] == 0:
            continue
        fault.index = chunk = runs.chunks[r]
        fault.code = blocks_run(
            memory + runs.positions[chunk], runs.lengths[chunk], runs.counts[chunk], runs.starts[r],
            runs.run_counts[r], packing, raw_tail, out,
        )
        if fault.code != FAULT_NONE:
            return 0
        out += runs.run_counts[r] * packing.nbytes
    return 0


def unpack_inline(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] counts not None,
    int64_t bits,
    const int64_t[::1] run_chunks not None,
    const int64_t[::1] run_starts not None,
    const int64_t[::1] run_counts not None,
    uint8_t[::1] out not None,
):
    """Unpack integers from blocks that begin with their width.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_chunks,) int64, bytes
        Each chunk is a word of ``bits`` that holds the width w, and one FastLanes block of ``128 * w`` bytes;
        what follows is ignored.
    counts : (num_chunks,) int64, values
        At most 1024 each.
    bits : int
        8, 16, 32 or 64: width of the unpacked integers.
    run_chunks, run_starts, run_counts : (num_runs,) int64
        Chunk, first value and number of values of each run. Other chunks are ignored.
    out : (sum(run_counts) * bits / 8,) uint8
        The values of all runs, little-endian.

    Raises
    ------
    FormatError
        A run is not within its chunk (``position`` is the run); a chunk has a negative position or length,
        more than 1024 values or a width beyond ``bits`` (the chunk).
    TruncatedError
        A chunk passes the end of ``memory`` or is too short for its width (the chunk).
    ValueError
        ``bits`` is another number or an array does not have its size.

    Source: inline bit-packing, file versions 2.1 and later.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import unpack_inline
    >>> chunk = np.concatenate(([np.uint8(1)], np.full(128, 2, np.uint8)))  # one bit each; only row 1 is set
    >>> out, zero = np.empty(3, np.uint8), np.array([0])
    >>> size, count, run = np.array([129]), np.array([1024]), np.array([3])
    >>> unpack_inline(chunk, zero, size, count, 8, zero, np.array([126]), run, out)
    >>> out.tolist()
    [0, 0, 1]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Packing packing = packing_of(bits)
    cdef ChunkRuns runs = chunk_runs(positions, lengths, counts, run_chunks, run_starts, run_counts)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    if <uint64_t> out.shape[0] & (packing.nbytes - 1):
        fail(FAULT_OUT_SIZE, 0)
    with nogil:
        check_chunk_runs(&runs, memory.shape[0], out.shape[0] >> (packing.shift - 3), &fault)
        if fault.code == FAULT_NONE and target is not NULL:
            _inline(source, &runs, &packing, target, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)


def unpack_blocks(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] counts not None,
    int64_t bits,
    int64_t packed_bits,
    bint raw_tail,
    const int64_t[::1] run_chunks not None,
    const int64_t[::1] run_starts not None,
    const int64_t[::1] run_counts not None,
    uint8_t[::1] out not None,
):
    """Unpack integers from rows of blocks of one known width.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_chunks,) int64, bytes
        Each chunk is a FastLanes block of ``128 * packed_bits`` bytes for every 1,024 values, then the rest
        of its values: as one more block, or unpacked.
    counts : (num_chunks,) int64, values
    bits : int
        8, 16, 32 or 64: width of the unpacked integers.
    packed_bits : int
        0 to ``bits``.
    raw_tail : bool
        Whether the rest may be unpacked: it is if the chunk's length is exactly that of whole integers.
    run_chunks, run_starts, run_counts : (num_runs,) int64
        Chunk, first value and number of values of each run. Other chunks are ignored.
    out : (sum(run_counts) * bits / 8,) uint8
        The values of all runs, little-endian.

    Raises
    ------
    FormatError
        A run is not within its chunk (``position`` is the run), or a chunk has a negative position or length
        (the chunk).
    TruncatedError
        A chunk passes the end of ``memory`` or is too short for its values (the chunk).
    ValueError
        ``bits`` or ``packed_bits`` is another number or an array does not have its size.

    Source: out-of-line bit-packing, file versions 2.1 and later (raw tail); bit-packing for non-negative
    numbers, file version 2.0 (the rest is always a block).

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import unpack_blocks
    >>> chunk = np.concatenate((np.full(128, 2, np.uint8), np.array([7, 8, 9], np.uint8)))
    >>> out, zero = np.empty(4, np.uint8), np.array([0])
    >>> size, count, start, run = np.array([131]), np.array([1027]), np.array([1023]), np.array([4])
    >>> unpack_blocks(chunk, zero, size, count, 8, 1, True, zero, start, run, out)
    >>> out.tolist()
    [0, 7, 8, 9]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Packing packing = packing_of(bits)
    cdef ChunkRuns runs
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    if not 0 <= packed_bits <= bits:
        raise ValueError("packed_bits must be in 0 .. bits")
    if <uint64_t> out.shape[0] & (packing.nbytes - 1):
        fail(FAULT_OUT_SIZE, 0)
    runs = chunk_runs(positions, lengths, counts, run_chunks, run_starts, run_counts)
    packing.width, packing.mask = <uint64_t> packed_bits, ones(<uint64_t> packed_bits)
    with nogil:
        check_chunk_runs(&runs, memory.shape[0], out.shape[0] >> (packing.shift - 3), &fault)
        if fault.code == FAULT_NONE and target is not NULL:
            _outline(source, &runs, &packing, raw_tail, target, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
