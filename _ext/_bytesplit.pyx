"""Byte-stream-split: byte j of all values together, for each j.

A chunk of n values of k bytes is k streams of n bytes. Widths of 2, 4 and 8 bytes use
loops of that constant width, which the compiler vectorises.
"""

from libc.stdint cimport int64_t, uint8_t

from cursor cimport (
    FAULT_CHUNK_SHORT,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    ChunkRuns,
    Fault,
    check_chunk_runs,
    chunk_runs,
)

from lancecy.kernels._codes import fail

__all__ = ["join_bytes"]

cdef extern from *:
    """
    /* In C, to tell the compiler that the arrays do not overlap. Called with literal widths. */
    static inline void lancecy_join(const uint8_t *__restrict streams, int64_t stride, int64_t count,
                                    int64_t width, uint8_t *__restrict out)
    {
        int64_t i, j;
        for (i = 0; i < count; i++)
            for (j = 0; j < width; j++)
                out[i * width + j] = streams[j * stride + i];
    }

    static void lancecy_join_bytes(const uint8_t *streams, int64_t stride, int64_t count, int64_t width,
                                   uint8_t *out)
    {
        int64_t j, i;
        if (width == 1) lancecy_join(streams, stride, count, 1, out);
        else if (width == 2) lancecy_join(streams, stride, count, 2, out);
        else if (width == 4) lancecy_join(streams, stride, count, 4, out);
        else if (width == 8) lancecy_join(streams, stride, count, 8, out);
        else
            for (j = 0; j < width; j++)
                for (i = 0; i < count; i++)
                    out[i * width + j] = streams[j * stride + i];
    }
    """
    void join "lancecy_join_bytes"(
        const uint8_t *streams, int64_t stride, int64_t count, int64_t width, uint8_t *out
    ) nogil


cdef int64_t _join_runs(
    const uint8_t *memory, const ChunkRuns *runs, int64_t width, uint8_t *out, Fault *fault
) except -1 nogil:
    # bounds: check_chunk_runs has shown that chunks of runs are in memory, that runs are within the counts of
    # their chunks, and that out holds all; tested here: a chunk has the bytes of its count.
    cdef Py_ssize_t r
    cdef int64_t chunk, stored
    for r in range(runs.num_runs):
        if runs.run_counts[r] == 0:
            continue
        chunk = runs.chunks[r]
        stored = runs.counts[chunk]
        if stored > runs.lengths[chunk] // width:
            fault.code, fault.index = FAULT_CHUNK_SHORT, chunk
            return 0
        join(memory + runs.positions[chunk] + runs.starts[r], stored, runs.run_counts[r], width, out)
        out += runs.run_counts[r] * width
    return 0


def join_bytes(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] counts not None,
    int64_t width,
    const int64_t[::1] run_chunks not None,
    const int64_t[::1] run_starts not None,
    const int64_t[::1] run_counts not None,
    uint8_t[::1] out not None,
):
    """Join values whose bytes are in separate streams.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_chunks,) int64, bytes
        Each chunk begins with ``width`` streams of ``counts[i]`` bytes.
    counts : (num_chunks,) int64, values
    width : int, bytes
        Width of one value, at least 1.
    run_chunks, run_starts, run_counts : (num_runs,) int64
        Chunk, first value and number of values of each run. Other chunks are ignored.
    out : (sum(run_counts) * width,) uint8
        The values of all runs.

    Raises
    ------
    FormatError
        A run is not within its chunk (``position`` is the run), or a chunk has a negative position or length
        (the chunk).
    TruncatedError
        A chunk passes the end of ``memory`` or is too short for its values (the chunk).
    ValueError
        ``width`` is below 1 or an array does not have its size.

    Source: byte-stream-split, file versions 2.1 and later.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import join_bytes
    >>> chunk, out, zero = np.array([1, 2, 3, 10, 20, 30], np.uint8), np.empty(4, np.uint8), np.array([0])
    >>> one, two, three, six = (np.array([n]) for n in (1, 2, 3, 6))
    >>> join_bytes(chunk, zero, six, three, 2, zero, one, two, out)
    >>> out.tolist()
    [2, 20, 3, 30]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef ChunkRuns runs
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    if width < 1:
        raise ValueError("width must be at least 1")
    if out.shape[0] % width:
        fail(FAULT_OUT_SIZE, 0)
    runs = chunk_runs(positions, lengths, counts, run_chunks, run_starts, run_counts)
    with nogil:
        check_chunk_runs(&runs, memory.shape[0], out.shape[0] // width, &fault)
        if fault.code == FAULT_NONE and target is not NULL:
            _join_runs(source, &runs, width, target, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
