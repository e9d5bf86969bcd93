"""Splits rows and ranges at page boundaries; locates the chunks of a page.

"Pages" are pages of a column or chunks of a page. The results are runs that lie within one page each.
The caller allocates the result arrays; the number of entries filled is returned.
"""

from libc.stdint cimport int64_t, uint8_t

from cursor cimport FAULT_NONE, FAULT_PAGE_STARTS, FAULT_ROW, Fault, load16, load32
from pages cimport first_descent, page_of
from short_work cimport FEW_VALUES

from lancecy.kernels._codes import fail

__all__ = ["chunk_table", "cut_ranges", "cut_rows", "distinct_pages"]


# -- chunks of a page -------------------------------------------------------------------


cdef int64_t _sums(
    const uint8_t *words, Py_ssize_t count, Py_ssize_t width, int64_t *offsets, int64_t *starts
) except -2 nogil:
    # bounds: there are `count` words of `width` bytes, and count + 1 entries in both results. A word stands
    # for at most 2^31 bytes and 2^15 values, and takes at least two bytes: the sums stay far below 2^63.
    cdef Py_ssize_t i
    cdef int64_t word, offset = 0, start = 0
    for i in range(count):
        word = load16(words + 2 * i) if width == 2 else <int64_t> load32(words + 4 * i)
        offsets[i] = offset
        starts[i] = start
        offset += ((word >> 4) + 1) << 3
        start += <int64_t> 1 << (word & 15)
    offsets[count] = offset
    starts[count] = start
    return 0


def chunk_table(
    const uint8_t[::1] words not None,
    Py_ssize_t width,
    int64_t[::1] out_offsets not None,
    int64_t[::1] out_starts not None,
):
    """Decode the words of a mini-block page: the bytes and values of each chunk.

    Parameters
    ----------
    words : (num_chunks * width,) uint8, may be read-only
        Per chunk its bytes / 8 - 1 above 4 bits for the logarithm of its number of values.
    width : int, bytes
        Of a word: 2 or 4.
    out_offsets, out_starts : (num_chunks + 1,) int64
        Running sums, first 0, of the bytes and of the values. The word of the last chunk does not state how
        many values it has: the caller sets the last entry of ``out_starts``.

    Raises
    ------
    ValueError
        ``width`` is another number, or does not divide the bytes; a result has another length.

    Source: file sheet 2.1, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import chunk_table
    >>> words = np.array([0x12A, 0x0F0], np.uint16).view(np.uint8)
    >>> offsets, starts = np.empty((2, 3), np.int64)
    >>> chunk_table(words, 2, offsets, starts)
    >>> offsets.tolist(), starts.tolist()
    ([0, 152, 280], [0, 1024, 1025])
    """
    cdef Py_ssize_t count
    if (width != 2 and width != 4) or words.shape[0] % width != 0:
        raise ValueError("words are of 2 or of 4 bytes")
    count = words.shape[0] // width
    if out_offsets.shape[0] != count + 1 or out_starts.shape[0] != count + 1:
        raise ValueError("out_offsets and out_starts need one entry more than there are words")
    if count <= FEW_VALUES:
        _sums(&words[0] if count > 0 else NULL, count, width, &out_offsets[0], &out_starts[0])
    else:
        with nogil:
            _sums(&words[0], count, width, &out_offsets[0], &out_starts[0])


# -- rows and ranges --------------------------------------------------------------------


cdef struct Runs:
    # Result arrays and their number of entries.
    int64_t *pages
    int64_t *starts
    int64_t *counts
    Py_ssize_t size
    Py_ssize_t room


cdef int64_t _ranges(
    const int64_t *page_starts,
    Py_ssize_t num_pages,
    const int64_t[::1] starts,
    const int64_t[::1] stops,
    Runs *runs,
    Fault *fault,
) except -2 nogil:
    # bounds: page_starts has num_pages + 1 ascending entries from 0; a range outside them ends the loop, and
    # so does a run beyond the room; within a range the page's end is at most the last entry.
    cdef Py_ssize_t i, page = 0
    cdef int64_t row, stop, end
    for i in range(starts.shape[0]):
        row, stop = starts[i], stops[i]
        if row >= stop:
            continue
        if row < 0 or stop > page_starts[num_pages]:
            fault.code = FAULT_ROW
            fault.index = i
            return -1
        if row < page_starts[page] or row >= page_starts[page + 1]:
            page = page_of(page_starts, num_pages, page, row)
        while row < stop:
            while page_starts[page + 1] <= row:
                page += 1
            if runs.size == runs.room:
                return -1
            end = page_starts[page + 1] if page_starts[page + 1] < stop else stop
            runs.pages[runs.size] = page
            runs.starts[runs.size] = row - page_starts[page]
            runs.counts[runs.size] = end - row
            runs.size += 1
            row = end
    return 0


cdef int64_t _rows(
    const int64_t *page_starts,
    Py_ssize_t num_pages,
    const int64_t[::1] rows,
    Runs *runs,
    Fault *fault,
) except -2 nogil:
    # bounds: page_starts has num_pages + 1 ascending entries from 0; a row outside them ends the loop before
    # its use; there is room for a run per row.
    cdef Py_ssize_t i, page = 0
    cdef int64_t row, follows = -1
    for i in range(rows.shape[0]):
        row = rows[i]
        if runs.size > 0 and row == follows and row < page_starts[page + 1]:
            runs.counts[runs.size - 1] += 1
            follows += 1
            continue
        if row < 0 or row >= page_starts[num_pages]:
            fault.code = FAULT_ROW
            fault.index = i
            return -1
        if row < page_starts[page] or row >= page_starts[page + 1]:
            page = page_of(page_starts, num_pages, page, row)
        runs.pages[runs.size] = page
        runs.starts[runs.size] = row - page_starts[page]
        runs.counts[runs.size] = 1
        runs.size += 1
        follows = row + 1
    return 0


cdef Runs _into(int64_t[::1] pages, int64_t[::1] starts, int64_t[::1] counts):
    cdef Runs runs = Runs(NULL, NULL, NULL, 0, pages.shape[0])
    if starts.shape[0] != runs.room or counts.shape[0] != runs.room:
        raise ValueError("the arrays for runs differ in length")
    if runs.room > 0:
        runs.pages = &pages[0]
        runs.starts = &starts[0]
        runs.counts = &counts[0]
    return runs


def cut_ranges(
    const int64_t[::1] page_starts not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] stops not None,
    int64_t[::1] out_pages not None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_counts not None,
):
    """Split ranges of rows at page boundaries.

    Parameters
    ----------
    page_starts : (num_pages + 1,) int64, ascending, first is 0
        First row of each page, then the number of all rows. Pages may be empty.
    starts, stops : (num_ranges,) int64
        Empty ranges (stop not above start) are skipped.
    out_pages, out_starts, out_counts : (room,) int64
        Page of each run, its first row within the page, its rows; none is empty. For ascending disjoint
        ranges ``num_ranges + num_pages`` entries are enough.

    Returns
    -------
    int
        Number of runs.

    Raises
    ------
    FormatError
        ``page_starts`` descends or does not begin at 0 (``position`` is the page), or a range leaves the
        pages (``position`` is the range).
    ValueError
        ``page_starts`` is empty, arrays differ in length, or there is no room for all runs.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import cut_ranges
    >>> runs = np.empty((3, 4), np.int64)
    >>> count = cut_ranges(np.array([0, 4, 4, 9]), np.array([2]), np.array([6]), *runs)
    >>> runs[:, :count].tolist()
    [[0, 2], [2, 0], [2, 2]]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Runs runs = _into(out_pages, out_starts, out_counts)
    cdef Py_ssize_t descent = -1
    cdef int64_t done = 0
    if page_starts.shape[0] < 1:
        raise ValueError("page_starts is empty")
    if stops.shape[0] != starts.shape[0]:
        raise ValueError("starts and stops differ in length")
    with nogil:
        descent = first_descent(page_starts)
        if descent < 0:
            done = _ranges(&page_starts[0], page_starts.shape[0] - 1, starts, stops, &runs, &fault)
    if descent >= 0:
        fail(FAULT_PAGE_STARTS, descent)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    if done < 0:
        raise ValueError("there is no room for all runs")
    return runs.size


def cut_rows(
    const int64_t[::1] page_starts not None,
    const int64_t[::1] rows not None,
    int64_t[::1] out_pages not None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_counts not None,
):
    """Group rows into runs within pages: a row extends a run if it follows the run's last row.

    Parameters
    ----------
    page_starts : (num_pages + 1,) int64, ascending, first is 0
        First row of each page, then the number of all rows. Pages may be empty.
    rows : (num_rows,) int64, any order, duplicates allowed
    out_pages, out_starts, out_counts : (num_rows,) int64
        Page of each run, its first row within the page, its rows.

    Returns
    -------
    int
        Number of runs.

    Raises
    ------
    FormatError
        ``page_starts`` descends or does not begin at 0 (``position`` is the page), or a row is outside
        (``position`` is its index in ``rows``).
    ValueError
        ``page_starts`` is empty, or arrays differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import cut_rows
    >>> runs = np.empty((3, 4), np.int64)
    >>> count = cut_rows(np.array([0, 4, 9]), np.array([1, 3, 4, 5]), *runs)
    >>> runs[:, :count].tolist()
    [[0, 0, 1], [1, 3, 0], [1, 1, 2]]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Runs runs = _into(out_pages, out_starts, out_counts)
    cdef Py_ssize_t descent = -1
    if page_starts.shape[0] < 1:
        raise ValueError("page_starts is empty")
    if rows.shape[0] != runs.room:
        raise ValueError("the arrays for runs differ in length")
    with nogil:
        descent = first_descent(page_starts)
        if descent < 0:
            _rows(&page_starts[0], page_starts.shape[0] - 1, rows, &runs, &fault)
    if descent >= 0:
        fail(FAULT_PAGE_STARTS, descent)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return runs.size


def distinct_pages(
    const int64_t[::1] pages not None,
    int64_t[::1] out_distinct not None,
    int64_t[::1] out_numbers not None,
):
    """The distinct pages of runs, and the index of each run's page among them.

    Parameters
    ----------
    pages : (num_runs,) int64
        Equal pages are adjacent.
    out_distinct : (num_runs,) int64
        The distinct pages, in order.
    out_numbers : (num_runs,) int64
        Index of each run's page among them.

    Returns
    -------
    int
        Number of pages in ``out_distinct``.

    Raises
    ------
    ValueError
        The arrays differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import distinct_pages
    >>> distinct, numbers = np.empty((2, 3), np.int64)
    >>> distinct_pages(np.array([4, 4, 7]), distinct, numbers), numbers.tolist()
    (2, [0, 0, 1])
    """
    cdef Py_ssize_t i, size = 0
    if out_distinct.shape[0] != pages.shape[0] or out_numbers.shape[0] != pages.shape[0]:
        raise ValueError("the arrays differ in length")
    with nogil:
        for i in range(pages.shape[0]):
            if i == 0 or pages[i] != pages[i - 1]:
                out_distinct[size] = pages[i]
                size += 1
            out_numbers[i] = size - 1
    return size
