"""Selects single rows of 2.0 strings through tables of their pages.

``ended_offsets`` does the same for long runs, for which arrays of positions cost little; here the arrays are
per page, and a run is three numbers.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from cursor cimport (
    FAULT_CHUNK_NEGATIVE,
    FAULT_CHUNK_TRUNCATED,
    FAULT_ENDS,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    FAULT_RUN,
    FAULT_TOO_MANY,
    Fault,
    has,
    load64,
)

from lancecy.kernels._codes import fail

__all__ = ["pick_ended"]

ctypedef fused Offset:
    int32_t
    int64_t

cdef struct Pages:
    const int64_t *ends
    const int64_t *values
    const int64_t *sizes
    const int64_t *adjustments
    const int64_t *counts
    Py_ssize_t size

cdef struct Runs:
    const int64_t *pages
    const int64_t *starts
    const int64_t *counts
    int64_t *positions
    int64_t *lengths
    Py_ssize_t size


cdef struct Text:
    # Ends of the rows of one run, and the bounds of its page.
    const uint8_t *ends
    int64_t count
    uint64_t first
    uint64_t adjustment
    uint64_t size


cdef inline uint64_t _end(const uint8_t *entry, uint64_t adjustment) except? 0xE5C1A9D3B7F08642 nogil:
    # bounds: eight bytes.
    cdef uint64_t end = load64(entry)
    return end if end < adjustment else end - adjustment


cdef int64_t _check_run(
    const Pages *pages, const Runs *runs, Py_ssize_t i, int64_t memory_size, Fault *fault
) except -2 nogil:
    # Whether a run is within the rows of an existing page, and its ends and all the page's text are in
    # memory; only the former for an empty run. bounds: i is below runs.size, and the page is checked before
    # its use.
    cdef int64_t page = runs.pages[i], rows
    fault.code, fault.index = FAULT_RUN, i
    if page < 0 or page >= pages.size or not has(runs.starts[i], runs.counts[i], pages.counts[page]):
        return -1
    fault.code = FAULT_NONE
    if runs.counts[i] == 0:
        return 0
    rows = runs.starts[i] + runs.counts[i]
    fault.index = page
    fault.code = FAULT_CHUNK_NEGATIVE
    if pages.ends[page] < 0 or pages.values[page] < 0 or pages.sizes[page] < 0:
        return -1
    fault.code = FAULT_CHUNK_TRUNCATED
    if pages.ends[page] > memory_size or rows > (memory_size - pages.ends[page]) // 8:
        return -1
    if not has(pages.values[page], pages.sizes[page], memory_size):
        return -1
    fault.code = FAULT_NONE
    return 0


cdef int64_t _rows(
    const Text *text, int64_t most, Py_ssize_t row, Offset *offsets, uint8_t *validity, Fault *fault
) except -2 nogil:
    # Offsets and validity of the rows of one run; returns the number of nulls. bounds: there are count
    # ends; offsets has room behind row + count and validity a bit for each, as the caller has checked.
    cdef Py_ssize_t j
    cdef int64_t nulls = 0, base = offsets[row]
    cdef uint64_t entry, before = text.first
    for j in range(text.count):
        entry = load64(text.ends + 8 * j)
        if entry < text.adjustment:
            validity[(row + j) >> 3] |= <uint8_t> (1 << ((row + j) & 7))
        else:
            entry -= text.adjustment
            nulls += 1
        fault.index = row + j
        if entry < before or entry > text.size:
            fault.code = FAULT_ENDS
            return -1
        if <int64_t> (entry - text.first) > most - base:
            fault.code = FAULT_TOO_MANY
            return -1
        offsets[row + j + 1] = <Offset> (base + <int64_t> (entry - text.first))
        before = entry
    return nulls


cdef int64_t _pick(
    const Pages *pages,
    const Runs *runs,
    const uint8_t *memory,
    int64_t memory_size,
    Offset *offsets,
    uint8_t *validity,
    Py_ssize_t num_rows,
    Fault *fault,
) except -2 nogil:
    # Returns the number of nulls. bounds: _check_run has checked a run before its ends are read, and
    # there is room in out for its rows.
    cdef Py_ssize_t i, row = 0
    cdef int64_t page, start, found, last_page = -1, nulls = 0
    cdef int64_t most = INT32_MAX if Offset is int32_t else INT64_MAX
    cdef uint64_t last_end = 0
    cdef Text text
    offsets[0] = 0
    for i in range(runs.size):
        page, start, text.count = runs.pages[i], runs.starts[i], runs.counts[i]
        runs.positions[i] = runs.lengths[i] = 0
        if _check_run(pages, runs, i, memory_size, fault) < 0:
            return -1
        if text.count == 0:
            continue
        if text.count > num_rows - row:
            fault.code = FAULT_OUT_SIZE
            return -1
        text.ends = memory + pages.ends[page] + 8 * start
        text.adjustment, text.size = <uint64_t> pages.adjustments[page], <uint64_t> pages.sizes[page]
        text.first = _end(text.ends - 8, text.adjustment) if start > 0 else 0
        if page == last_page and text.first < last_end:
            fault.code, fault.index = FAULT_ENDS, row
            return -1
        found = _rows(&text, most, row, offsets, validity, fault)
        if found < 0:
            return -1
        nulls += found
        runs.lengths[i] = <int64_t> (offsets[row + text.count] - offsets[row])
        runs.positions[i] = pages.values[page] + <int64_t> text.first
        last_page, last_end = page, text.first + <uint64_t> runs.lengths[i]
        row += text.count
    if row != num_rows:
        fault.code = FAULT_OUT_SIZE
        return -1
    return nulls


cdef Pages _pages(
    const int64_t[::1] ends,
    const int64_t[::1] values,
    const int64_t[::1] sizes,
    const int64_t[::1] adjustments,
    const int64_t[::1] counts,
):
    cdef Pages pages = Pages(NULL, NULL, NULL, NULL, NULL, ends.shape[0])
    if values.shape[0] != pages.size or sizes.shape[0] != pages.size:
        raise ValueError("the arrays of pages differ in length")
    if adjustments.shape[0] != pages.size or counts.shape[0] != pages.size:
        raise ValueError("the arrays of pages differ in length")
    if pages.size > 0:
        pages.ends, pages.values, pages.sizes = &ends[0], &values[0], &sizes[0]
        pages.adjustments, pages.counts = &adjustments[0], &counts[0]
    return pages


cdef Runs _runs(
    const int64_t[::1] pages,
    const int64_t[::1] starts,
    const int64_t[::1] counts,
    int64_t[::1] positions,
    int64_t[::1] lengths,
):
    cdef Runs runs = Runs(NULL, NULL, NULL, NULL, NULL, pages.shape[0])
    if starts.shape[0] != runs.size or counts.shape[0] != runs.size:
        raise ValueError("the arrays of runs differ in length")
    if positions.shape[0] != runs.size or lengths.shape[0] != runs.size:
        raise ValueError("the arrays of runs differ in length")
    if runs.size > 0:
        runs.pages, runs.starts, runs.counts = &pages[0], &starts[0], &counts[0]
        runs.positions, runs.lengths = &positions[0], &lengths[0]
    return runs


def pick_ended(
    const uint8_t[::1] memory not None,
    const int64_t[::1] end_positions not None,
    const int64_t[::1] value_positions not None,
    const int64_t[::1] value_sizes not None,
    const int64_t[::1] adjustments not None,
    const int64_t[::1] counts not None,
    const int64_t[::1] run_pages not None,
    const int64_t[::1] run_starts not None,
    const int64_t[::1] run_counts not None,
    Offset[::1] out_offsets not None,
    uint8_t[::1] out_validity not None,
    int64_t[::1] out_positions not None,
    int64_t[::1] out_lengths not None,
):
    """Offsets, validity and byte ranges of strings selected from pages with running ends.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    end_positions : (num_pages,) int64, bytes
        Start of the ends of each page: 64-bit numbers counted from the page's first byte of text.
    value_positions, value_sizes : (num_pages,) int64, bytes
        Position and size of the text of each page.
    adjustments : (num_pages,) int64
        Number added to the end of a null, unsigned.
    counts : (num_pages,) int64
        Rows of each page.
    run_pages, run_starts, run_counts : (num_runs,) int64
        Page, first row and rows of each run; runs of a page ascend and are adjacent.
    out_offsets : (num_rows + 1,) int32 or int64
        Offsets into the concatenated text of all runs; the first is 0.
    out_validity : (ceil(num_rows / 8),) uint8
        1 = valid; unused bits are 0.
    out_positions, out_lengths : (num_runs,) int64, bytes
        Position and length in ``memory`` of the text of each run; 0 and 0 for an empty run.

    Returns
    -------
    total : int, bytes
        Bytes of text.
    null_count : int

    Raises
    ------
    FormatError
        A run is not within the rows of its page (``position`` is the run); an end descends, also from one
        run of a page to the next, or passes the page's text, or there is more text than the offsets can hold
        (``position`` is the row).
    TruncatedError
        A page is not in memory; ``position`` is the page.
    ValueError
        Arrays differ in length, or do not have as many rows as the runs.

    Source: file sheet 2.0, section 4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import pick_ended
    >>> memory = np.array([2, 5, 99 + 5, 6], "<u8").view(np.uint8)
    >>> page = [np.array([n]) for n in (0, 10, 6, 99, 4)]
    >>> out = np.empty(3, np.int32), np.empty(1, np.uint8), *np.empty((2, 2), np.int64)
    >>> pick_ended(memory, *page, np.array([0, 0]), np.array([1, 2]), np.array([1, 1]), *out)
    (3, 1)
    >>> out[0].tolist(), out[1].tolist(), out[2].tolist(), out[3].tolist()
    ([0, 3, 3], [1], [12, 15], [3, 0])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Pages pages = _pages(end_positions, value_positions, value_sizes, adjustments, counts)
    cdef Runs runs = _runs(run_pages, run_starts, run_counts, out_positions, out_lengths)
    cdef Py_ssize_t rows = out_offsets.shape[0] - 1
    cdef int64_t nulls = 0
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *validity = &out_validity[0] if out_validity.shape[0] > 0 else NULL
    if rows < 0 or out_validity.shape[0] != (rows + 7) // 8:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    with nogil:
        out_validity[:] = 0
        nulls = _pick(&pages, &runs, source, memory.shape[0], &out_offsets[0], validity, rows, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return int(out_offsets[rows]), nulls
