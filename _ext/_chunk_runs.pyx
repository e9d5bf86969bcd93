"""Finds the mini-block chunks that hold rows, and the rows in them.

A row of lists may begin in one chunk and end in a later one. Chunks that follow each other in the page form a
group; rows are counted from the first that begins in their group.
"""

from libc.stdint cimport int64_t

from cursor cimport FAULT_NONE, FAULT_PAGE_STARTS, FAULT_ROW, Fault
from pages cimport first_descent, page_of

from lancecy.kernels._codes import fail

__all__ = ["find_chunks", "find_lists"]


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


# -- rows of lists ----------------------------------------------------------------------


cdef struct Sizes:
    # Entries of the results so far.
    Py_ssize_t chunks
    Py_ssize_t groups
    Py_ssize_t ranges


cdef int64_t _find_lists(
    const int64_t[::1] begins,
    const int64_t[::1] ends,
    const int64_t[::1] rows,
    const int64_t[::1] stops,
    int64_t[::1] chunks,
    int64_t[::1] groups,
    int64_t[:, ::1] ranges,
    Sizes *sizes,
) except -2 nogil:
    # Index of the first row that is not in the chunks, or -1. bounds: checked by Cython; both walks end at
    # the last chunk.
    cdef Py_ssize_t i, first = 0, last = 0
    cdef int64_t row, stop, before = 0, follows = -1
    for i in range(rows.shape[0]):
        row = rows[i]
        stop = row + 1 if stops is None else stops[i]
        if row < 0 or row >= stop or stop > begins[ends.shape[0]] or ends.shape[0] == 0:
            return i
        while first + 1 < ends.shape[0] and begins[first + 1] <= row:
            first += 1
        while last + 1 < ends.shape[0] and ends[last] < stop:
            last += 1
        if stop > ends[last] or last < first:
            return i
        if stops is None and row == follows:
            ranges[2, sizes.ranges - 1] += 1
        else:
            if sizes.groups == 0 or first > chunks[sizes.chunks - 1] + 1:
                groups[sizes.groups] = sizes.chunks
                before = begins[first]
                sizes.groups += 1
            ranges[0, sizes.ranges] = sizes.groups - 1
            ranges[1, sizes.ranges], ranges[2, sizes.ranges] = row - before, stop - before
            sizes.ranges += 1
        follows = stop
        while sizes.chunks == 0 or chunks[sizes.chunks - 1] < last:
            if sizes.chunks == 0 or chunks[sizes.chunks - 1] < first:
                chunks[sizes.chunks] = first
            else:
                chunks[sizes.chunks] = chunks[sizes.chunks - 1] + 1
            sizes.chunks += 1
    return -1


def find_lists(
    const int64_t[::1] begins not None,
    const int64_t[::1] ends not None,
    const int64_t[::1] rows not None,
    const int64_t[::1] stops or None,
    int64_t[::1] out_chunks not None,
    int64_t[::1] out_groups not None,
    int64_t[:, ::1] out_ranges not None,
):
    """Find the chunks of rows of lists, in groups that follow each other in the page.

    Parameters
    ----------
    begins : (num_chunks + 1,) int64, ascending
        Rows that begin before each chunk, then the number of all rows.
    ends : (num_chunks,) int64, ascending
        Rows that end in each chunk or before it; the last is the number of all rows.
    rows : (num_rows,) int64, ascending
        Single rows, or with ``stops`` the first row of each range.
    stops : (num_rows,) int64 or None
        Row after the last one of each range; no range is empty.
    out_chunks : (num_chunks,) int64
        Numbers of the chunks that hold a row.
    out_groups : (num_rows + 1,) int64
        Where in ``out_chunks`` each group begins, then how many there are.
    out_ranges : (3, num_rows) int64
        Group, first row and row after the last one of each range, counted from the first row that begins in
        its group. Single rows that follow each other are one range.

    Returns
    -------
    num_chunks, num_groups, num_ranges : int

    Raises
    ------
    FormatError
        A row is beyond the chunks or a range is empty; ``position`` is its index.
    ValueError
        An array does not have its size.

    Source: file sheet 2.1, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import find_lists
    >>> chunks, groups, ranges = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros((3, 2), np.int64)
    >>> begins, ends = np.array([0, 3, 4, 9]), np.array([2, 4, 9])
    >>> find_lists(begins, ends, np.array([2, 8]), None, chunks, groups, ranges)
    (3, 1, 2)
    >>> ranges.tolist()
    [[0, 0], [2, 8], [3, 9]]
    """
    cdef Sizes sizes = Sizes(0, 0, 0)
    cdef Py_ssize_t bad = -1
    if begins.shape[0] != ends.shape[0] + 1 or out_chunks.shape[0] != ends.shape[0]:
        raise ValueError("arrays of chunks differ in length")
    if stops is not None and stops.shape[0] != rows.shape[0]:
        raise ValueError("arrays of ranges differ in length")
    if (
        out_groups.shape[0] != rows.shape[0] + 1
        or out_ranges.shape[0] != 3
        or out_ranges.shape[1] != rows.shape[0]
    ):
        raise ValueError("out_groups and out_ranges need one entry per row")
    with nogil:
        bad = _find_lists(begins, ends, rows, stops, out_chunks, out_groups, out_ranges, &sizes)
        out_groups[sizes.groups] = sizes.chunks
    if bad >= 0:
        fail(FAULT_ROW, bad)
    return sizes.chunks, sizes.groups, sizes.ranges
