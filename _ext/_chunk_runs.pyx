"""Finds the mini-block chunks that hold rows, and the rows in them."""

from libc.stdint cimport int64_t

from cursor cimport FAULT_NONE, FAULT_PAGE_STARTS, FAULT_ROW, Fault
from pages cimport first_descent, page_of

from lancecy.kernels._codes import fail

__all__ = ["find_chunks"]


cdef struct Found:
    # Chunks and runs in the order of the rows, and how many there are.
    int64_t *positions
    int64_t *lengths
    int64_t *counts
    Py_ssize_t num_chunks
    Py_ssize_t chunk_room
    int64_t *chunks
    int64_t *starts
    int64_t *run_counts
    Py_ssize_t num_runs
    Py_ssize_t run_room


cdef int64_t _find(
    const int64_t *chunk_starts,
    Py_ssize_t num_chunks,
    const int64_t[::1] offsets,
    const int64_t[::1] rows,
    const int64_t[::1] stops,
    Found *found,
    Fault *fault,
) except -2 nogil:
    # 0, or -1 for a fault or if there is no room. bounds: chunk_starts has num_chunks + 1 ascending entries
    # from 0 and offsets as many; a row outside them ends the loop; rooms are tested before each entry.
    cdef Py_ssize_t i, chunk = 0, last = -1
    cdef int64_t row, stop, end, follows = -1
    for i in range(rows.shape[0]):
        row = rows[i]
        if row < 0 or row >= chunk_starts[num_chunks]:
            fault.code, fault.index = FAULT_ROW, i
            return -1
        stop = row + 1 if stops is None else stops[i]
        if stop <= row or stop > chunk_starts[num_chunks]:
            fault.code, fault.index = FAULT_ROW, i
            return -1
        if row < chunk_starts[chunk] or row >= chunk_starts[chunk + 1]:
            chunk = page_of(chunk_starts, num_chunks, chunk, row)
        while row < stop:
            while chunk_starts[chunk + 1] <= row:
                chunk += 1
            end = chunk_starts[chunk + 1] if chunk_starts[chunk + 1] < stop else stop
            if chunk != last:
                if found.num_chunks == found.chunk_room:
                    return -1
                found.positions[found.num_chunks] = offsets[chunk]
                found.lengths[found.num_chunks] = offsets[chunk + 1] - offsets[chunk]
                found.counts[found.num_chunks] = chunk_starts[chunk + 1] - chunk_starts[chunk]
                found.num_chunks += 1
            if chunk == last and row == follows:
                found.run_counts[found.num_runs - 1] += end - row
            elif found.num_runs == found.run_room:
                return -1
            else:
                found.chunks[found.num_runs] = found.num_chunks - 1
                found.starts[found.num_runs] = row - chunk_starts[chunk]
                found.run_counts[found.num_runs] = end - row
                found.num_runs += 1
            row = follows = end
            last = chunk
    return 0


def find_chunks(
    const int64_t[::1] chunk_starts not None,
    const int64_t[::1] offsets not None,
    const int64_t[::1] rows not None,
    const int64_t[::1] stops or None,
    int64_t[:, ::1] out_chunks not None,
    int64_t[:, ::1] out_runs not None,
):
    """Find the chunks of rows, and the rows as runs in these chunks.

    Parameters
    ----------
    chunk_starts : (num_chunks + 1,) int64, ascending, first is 0
        First row of each chunk, then the number of all rows. Chunks may be empty.
    offsets : (num_chunks + 1,) int64, bytes
        Start of each chunk, then the end of the last one.
    rows : (num_rows,) int64, ascending
        Single rows, or with ``stops`` the first row of each range.
    stops : (num_rows,) int64 or None
        Row after the last one of each range; no range is empty.
    out_chunks : (3, room) int64
        Start, bytes and rows of each chunk that holds a row. A chunk is listed once if rows ascend.
    out_runs : (3, room) int64
        Chunk (a column of ``out_chunks``) of each run, its first row within the chunk, its rows.

    Returns
    -------
    num_chunks, num_runs : int

    Raises
    ------
    FormatError
        ``chunk_starts`` descends or does not begin at 0 (``position`` is the chunk), or a row is outside or a
        range empty (``position`` is its index).
    ValueError
        Arrays differ in length, or there is no room for all chunks or runs.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import find_chunks
    >>> chunks, runs = np.zeros((2, 3, 3), np.int64)
    >>> find_chunks(np.array([0, 4, 9]), np.array([0, 64, 80]), np.array([5, 6, 8]), None, chunks, runs)
    (1, 2)
    >>> chunks[:, 0].tolist(), runs[:, :2].tolist()
    ([64, 16, 5], [[0, 0], [1, 4], [2, 1]])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Found found = Found(NULL, NULL, NULL, 0, out_chunks.shape[1], NULL, NULL, NULL, 0, out_runs.shape[1])
    cdef Py_ssize_t descent = -1
    cdef int64_t done = 0
    if chunk_starts.shape[0] < 1:
        raise ValueError("chunk_starts is empty")
    if offsets.shape[0] != chunk_starts.shape[0] or (stops is not None and stops.shape[0] != rows.shape[0]):
        raise ValueError("arrays of chunks or of ranges differ in length")
    if out_chunks.shape[0] != 3 or out_runs.shape[0] != 3:
        raise ValueError("out_chunks and out_runs need three rows")
    if found.chunk_room > 0 and found.run_room > 0:
        found.positions, found.lengths, found.counts = &out_chunks[0, 0], &out_chunks[1, 0], &out_chunks[2, 0]
        found.chunks, found.starts, found.run_counts = &out_runs[0, 0], &out_runs[1, 0], &out_runs[2, 0]
    else:
        found.chunk_room = 0
    with nogil:
        descent = first_descent(chunk_starts)
        if descent < 0:
            done = _find(&chunk_starts[0], chunk_starts.shape[0] - 1, offsets, rows, stops, &found, &fault)
    if descent >= 0:
        fail(FAULT_PAGE_STARTS, descent)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    if done < 0:
        raise ValueError("there is no room for all chunks and runs")
    return found.num_chunks, found.num_runs
