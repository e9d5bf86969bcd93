"""Computes offsets of byte strings from chunks of 2.1 and later, or from lengths.

Values are checked without a branch each: one test per run decides, and only a bad run is checked again value
by value.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cursor cimport (
    FAULT_CHUNK_OFFSETS,
    FAULT_CHUNK_SHORT,
    FAULT_LENGTH,
    FAULT_NONE,
    FAULT_TOO_MANY,
    ChunkRuns,
    Fault,
    check_chunk_runs,
    chunk_runs,
)
from offsets cimport Offset, Raw, first_bad_offset, rebase_offsets, signed_offset

from lancecy.kernels._codes import fail

__all__ = ["chunk_offsets", "zipped_offsets"]

cdef int64_t _chunks(
    const ChunkRuns *runs,
    const uint8_t *memory,
    Raw kind,
    Offset *out,
    int64_t *starts,
    int64_t *lengths,
    Fault *fault,
) except -2 nogil:
    # Returns the number of bytes. bounds: check_chunk_runs has shown that chunks are in memory, that runs are
    # within their chunks, and that out has one entry more than all runs; the number of offsets is checked
    # before they are read.
    cdef Py_ssize_t r, row = 0
    cdef int64_t position, length, stored, count, first, last, bad, total = 0
    cdef int64_t most = INT32_MAX if Offset is int32_t else INT64_MAX
    cdef int64_t width = sizeof(Raw)
    cdef const uint8_t *run
    out[0] = 0
    for r in range(runs.num_runs):
        starts[r] = lengths[r] = 0
        count = runs.run_counts[r]
        if count == 0:
            continue
        position, length = runs.positions[runs.chunks[r]], runs.lengths[runs.chunks[r]]
        stored = runs.counts[runs.chunks[r]]
        if stored >= length // width:
            fault.code, fault.index = FAULT_CHUNK_SHORT, runs.chunks[r]
            return -1
        run = memory + position + runs.starts[r] * width
        first, last = signed_offset(run, 0, kind), signed_offset(run, count, kind)
        bad = rebase_offsets(run, count, <uint64_t> first - <uint64_t> total, kind, out + row + 1)
        if bad != 0 or first < (stored + 1) * width or last < first or last > length:
            fault.code, fault.index = FAULT_CHUNK_OFFSETS, row
            fault.index += first_bad_offset(run, count, (stored + 1) * width, length, kind)
            return -1
        if last - first > most - total:
            fault.code, fault.index = FAULT_TOO_MANY, row
            return -1
        starts[r], lengths[r] = position + first, last - first
        total += last - first
        row += count
    return total


def chunk_offsets(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] counts not None,
    int64_t width,
    const int64_t[::1] run_chunks not None,
    const int64_t[::1] run_starts not None,
    const int64_t[::1] run_counts not None,
    Offset[::1] out_offsets not None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_lengths not None,
):
    """Check and rebase the offsets of byte strings in mini-block chunks.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_chunks,) int64, bytes
        The value buffer of each chunk: ``counts[i] + 1`` offsets from the buffer's start, then the bytes.
    counts : (num_chunks,) int64, values
    width : int, bytes
        4 or 8: width of one stored offset.
    run_chunks, run_starts, run_counts : (num_runs,) int64
        Chunk, first value and number of values of each run. Other chunks are ignored.
    out_offsets : (num_values + 1,) int32 or int64, num_values = sum(run_counts)
        Offsets into the concatenated bytes of all runs; the first is 0.
    out_starts, out_lengths : (num_runs,) int64, bytes
        Position and length in ``memory`` of the bytes of each run; 0 and 0 for an empty run.

    Returns
    -------
    int
        ``sum(out_lengths)``.

    Raises
    ------
    FormatError
        A run is not within its chunk (``position`` is the run); a chunk has a negative position or length
        (the chunk); offsets descend, point into the offsets or leave the buffer, or there are more than
        2^31-1 bytes for int32 offsets (the value).
    TruncatedError
        A chunk passes the end of ``memory`` or is too short for its offsets (the chunk).
    ValueError
        ``width`` is not 4 or 8 or an array does not have its size.

    Source: file sheet 2.1, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import chunk_offsets
    >>> chunk = np.frombuffer(np.array([12, 14, 15], "<u4").tobytes() + b"abc", np.uint8)
    >>> offsets, spans, one = np.empty(2, np.int32), np.empty((2, 1), np.int64), np.array([1])
    >>> chunk_offsets(chunk, one - 1, np.array([15]), np.array([2]), 4, one - 1, one, one, offsets, *spans)
    1
    >>> offsets.tolist(), spans.tolist()
    ([0, 1], [[14], [1]])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef ChunkRuns runs
    cdef Py_ssize_t num_runs = run_chunks.shape[0]
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef int64_t *starts = NULL
    cdef int64_t *sizes = NULL
    cdef int64_t total = 0
    if width != 4 and width != 8:
        raise ValueError("width must be 4 or 8")
    if out_starts.shape[0] != num_runs or out_lengths.shape[0] != num_runs:
        raise ValueError("out_starts and out_lengths need one entry per run")
    if out_offsets.shape[0] < 1:
        raise ValueError("out_offsets needs one entry more than values")
    runs = chunk_runs(positions, lengths, counts, run_chunks, run_starts, run_counts)
    if num_runs > 0:
        starts, sizes = &out_starts[0], &out_lengths[0]
    with nogil:
        check_chunk_runs(&runs, memory.shape[0], out_offsets.shape[0] - 1, &fault)
        if fault.code == FAULT_NONE and width == 4:
            total = _chunks(&runs, source, <uint32_t> 0, &out_offsets[0], starts, sizes, &fault)
        elif fault.code == FAULT_NONE:
            total = _chunks(&runs, source, <uint64_t> 0, &out_offsets[0], starts, sizes, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total


cdef int64_t _running(const int64_t[::1] lengths, Offset[::1] out, Fault *fault) except -2 nogil:
    # Returns the sum of all lengths. bounds: checked by Cython; the caller has compared the sizes.
    cdef Py_ssize_t i
    cdef int64_t total = 0, most = INT32_MAX if Offset is int32_t else INT64_MAX
    out[0] = 0
    for i in range(lengths.shape[0]):
        if lengths[i] < 0 or lengths[i] > most - total:
            fault.code = FAULT_LENGTH if lengths[i] < 0 else FAULT_TOO_MANY
            fault.index = i
            return -1
        total += lengths[i]
        out[i + 1] = <Offset> total
    return total


def zipped_offsets(const int64_t[::1] lengths not None, Offset[::1] out_offsets not None):
    """Convert lengths to offsets.

    Parameters
    ----------
    lengths : (num_values,) int64, bytes
    out_offsets : (num_values + 1,) int32 or int64
        Running sum; the first is 0.

    Returns
    -------
    int
        Sum of all lengths.

    Raises
    ------
    FormatError
        A length is negative, or the sum passes 2^31-1 (int32) or 2^63-1; ``position`` is the value.
    ValueError
        ``out_offsets`` does not have its size.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import zipped_offsets
    >>> offsets = np.empty(3, np.int32)
    >>> zipped_offsets(np.array([3, 4]), offsets), offsets.tolist()
    (7, [0, 3, 7])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef int64_t total = 0
    if out_offsets.shape[0] != lengths.shape[0] + 1:
        raise ValueError("out_offsets needs one entry more than lengths")
    with nogil:
        total = _running(lengths, out_offsets, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total
