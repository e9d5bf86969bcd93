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
from libc.string cimport memcpy, memset

from cursor cimport (
    FAULT_BIT_WIDTH, FAULT_CHUNK_COUNT, FAULT_CHUNK_SHORT, FAULT_NONE, FAULT_OUT_SIZE,
    ChunkRuns, Fault, check_chunk_runs, chunk_runs, load_word, store_word,
)
from fastlanes cimport ones, row_of, unpack_rows

from lancecy.kernels._codes import fail

__all__ = ["unpack_blocks", "unpack_inline"]

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


cdef Packing _packing(int64_t bits) except *:
    cdef Packing packing
    if bits not in (8, 16, 32, 64):
        raise ValueError("bits must be 8, 16, 32 or 64")
    packing.bits = <uint64_t> bits
    packing.shift = {8: 3, 16: 4, 32: 5, 64: 6}[bits]
    packing.nbytes = <uint64_t> bits >> 3
    packing.lanes = BLOCK >> packing.shift
    packing.unit = {8: 0x0101010101010101, 16: 0x0001000100010001, 32: 0x0000000100000001, 64: 1}[bits]
    packing.width = packing.mask = 0
    return packing


cdef inline uint64_t _one_value(const uint8_t *block, int64_t place, const Packing *packing) except? 2 nogil:
    # bounds: as unpack_rows, and place < 1024, so the lane lies within its row.
    cdef int64_t lane = place & (packing.lanes - 1)
    cdef uint64_t bit = row_of(<uint64_t> (place - lane)) * packing.width
    cdef uint64_t down = bit & (packing.bits - 1), kept = packing.bits - down, value
    block += ROW_BYTES * (bit >> packing.shift) + <uint64_t> lane * packing.nbytes
    value = load_word(block, packing.nbytes) >> down
    if kept < packing.width:
        value |= load_word(block + ROW_BYTES, packing.nbytes) << kept
    return value & packing.mask


cdef int64_t _unpack(
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
            store_word(out, _one_value(block, place, packing), packing.nbytes)
            part = 1
        else:
            unpack_rows(block, place - lane, 1, packing.shift, packing.width, packing.unit, row)
            memcpy(out, row + lane * packing.nbytes, part * packing.nbytes)
        place += part
        out += part * packing.nbytes
    return 0


cdef int64_t _inline(
    const uint8_t *memory, const ChunkRuns *runs, Packing *packing, uint8_t *out, Fault *fault
) except -1 nogil:
    # bounds: check_chunk_runs has shown that the chunks of runs are in memory, that runs are within the
    # counts of their chunks, here at most 1024, and that out holds all.
    cdef Py_ssize_t r
    cdef const uint8_t *chunk
    cdef uint64_t length, width
    for r in range(runs.num_runs):
        if runs.run_counts[r] == 0:
            continue
        fault.index = runs.chunks[r]
        chunk = memory + runs.positions[fault.index]
        length = <uint64_t> runs.lengths[fault.index]
        if runs.counts[fault.index] > BLOCK or length < packing.nbytes:
            fault.code = FAULT_CHUNK_COUNT if runs.counts[fault.index] > BLOCK else FAULT_CHUNK_SHORT
            return 0
        width = load_word(chunk, packing.nbytes)
        if width > packing.bits or length - packing.nbytes < ROW_BYTES * width:
            fault.code = FAULT_BIT_WIDTH if width > packing.bits else FAULT_CHUNK_SHORT
            return 0
        packing.width, packing.mask = width, ones(width)
        _unpack(chunk + packing.nbytes, runs.starts[r], runs.run_counts[r], packing, out)
        out += runs.run_counts[r] * packing.nbytes
    return 0


cdef int64_t _blocks(
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
            _unpack(block, within, part, packing, out)
        place += part
        count -= part
        out += part * packing.nbytes
    return 0


cdef int64_t _outline(
    const uint8_t *memory, const ChunkRuns *runs, const Packing *packing, bint raw_tail,
    uint8_t *out, Fault *fault,
) except -1 nogil:
    # bounds: as _inline; a chunk may have any number of values; the bytes for `full` blocks are checked
    # before any multiplication.
    cdef Py_ssize_t r
    cdef const uint8_t *chunk
    cdef int64_t full, tail, rest, raw, nbytes = <int64_t> (ROW_BYTES * packing.width)
    for r in range(runs.num_runs):
        if runs.run_counts[r] == 0:
            continue
        fault.index = runs.chunks[r]
        full, tail = runs.counts[fault.index] >> 10, runs.counts[fault.index] & (BLOCK - 1)
        rest = runs.lengths[fault.index]
        if nbytes > 0 and full > rest // nbytes:
            fault.code = FAULT_CHUNK_SHORT
            return 0
        rest -= full * nbytes
        # A tail with one word per value is not packed; without a tail no block has that number.
        raw = full if raw_tail and rest >> (packing.shift - 3) == tail else -1
        if raw < 0 and tail > 0 and rest < nbytes:
            fault.code = FAULT_CHUNK_SHORT
            return 0
        chunk = memory + runs.positions[fault.index]
        _blocks(chunk, raw, runs.starts[r], runs.run_counts[r], packing, out)
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
    cdef Packing packing = _packing(bits)
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
    cdef Packing packing = _packing(bits)
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
