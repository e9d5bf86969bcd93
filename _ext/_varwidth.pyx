"""Checks and rebases offsets of variable-length values and lists, and derives validity from them.

A page holds ``count + 1`` offsets for ``count`` rows. Rows are checked without a branch each: one test per
page decides, and only a bad page is checked again row by row.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cursor cimport (
    FAULT_LIST_OFFSETS,
    FAULT_NONE,
    FAULT_TOO_MANY_BYTES,
    FAULT_TOO_MANY_ITEMS,
    FAULT_VALUE_OFFSETS,
    Fault,
    check_runs,
    ones64,
    pack64,
    store64,
)
from offsets cimport Offset, Raw, first_bad_offset, rebase_offsets, signed_offset

from lancecy.kernels._codes import fail

__all__ = ["list_offsets", "varwidth_offsets"]

cdef struct Pages:
    # The runs of one column, measured and checked; bounds[i * bound_step] is the largest offset of run i.
    const uint8_t *memory
    const int64_t *positions
    const int64_t *counts
    const int64_t *bounds
    Py_ssize_t bound_step
    Py_ssize_t num_runs
    int64_t *starts
    int64_t *lengths

cdef struct Bitmap:
    # Validity under construction; rows before `done`, a multiple of 64, are written. Nothing to do without
    # bits.
    uint8_t *bits
    Py_ssize_t done
    int64_t valid


cdef int64_t _pack(const Offset *offsets, Py_ssize_t stop, Bitmap *bitmap) except -2 nogil:
    # Write validity of whole groups of 64 rows before `stop`: a row is valid if its two offsets differ.
    # bounds: offsets 0..stop are written, and bits has ceil(rows / 8) bytes for at least `stop` rows.
    cdef uint8_t differs[64]
    cdef uint64_t word
    cdef Py_ssize_t j, row = bitmap.done
    while row + 64 <= stop:
        for j in range(64):
            differs[j] = offsets[row + j + 1] != offsets[row + j]
        word = pack64(differs)
        store64(bitmap.bits + (row >> 3), word)
        bitmap.valid += <int64_t> ones64(word)
        row += 64
    bitmap.done = row
    return 0


cdef int64_t _pack_rest(const Offset *offsets, Py_ssize_t stop, Bitmap *bitmap) except -2 nogil:
    # The last rows, bit by bit. bounds: as _pack; a byte is cleared before its first bit is set.
    cdef Py_ssize_t row
    _pack(offsets, stop, bitmap)
    for row in range(bitmap.done, stop):
        if row & 7 == 0:
            bitmap.bits[row >> 3] = 0
        if offsets[row + 1] != offsets[row]:
            bitmap.bits[row >> 3] |= <uint8_t> (1 << (row & 7))
            bitmap.valid += 1
    bitmap.done = stop
    return 0


cdef int64_t _fill(uint8_t *bits, Py_ssize_t rows) except -2 nogil:
    # bounds: bits has ceil(rows / 8) bytes.
    if rows >> 3:
        memset(bits, 0xFF, rows >> 3)
    if rows & 7:
        bits[rows >> 3] = <uint8_t> ((1 << (rows & 7)) - 1)
    return 0


cdef int64_t _rebase_pages(
    const Pages *pages, Raw kind, Offset *out, Bitmap *bitmap, Fault *fault
) except -2 nogil:
    # bounds: check_runs has shown that run i has counts[i] + 1 offsets in memory and that out, which has one
    # entry more than all counts together, holds them; `row` never passes that sum.
    cdef Py_ssize_t i, row = 0
    cdef int64_t first, last, bound, count, total = 0
    cdef int64_t most = INT32_MAX if Offset is int32_t else INT64_MAX
    cdef const uint8_t *run
    cdef uint64_t bad
    out[0] = 0
    for i in range(pages.num_runs):
        count = pages.counts[i]
        pages.starts[i] = 0
        pages.lengths[i] = 0
        if count == 0:
            continue
        run = pages.memory + pages.positions[i]
        bound = pages.bounds[i * pages.bound_step]
        first = signed_offset(run, 0, kind)
        last = signed_offset(run, count, kind)
        bad = rebase_offsets(run, count, <uint64_t> first - <uint64_t> total, kind, out + row + 1)
        if bad != 0 or last < first or last > bound:
            fault.code = FAULT_VALUE_OFFSETS
            fault.index = row + first_bad_offset(run, count, 0, bound, kind)
            return 0
        if last - first > most - total:
            fault.code = FAULT_TOO_MANY_BYTES
            fault.index = row
            return 0
        pages.starts[i] = first
        pages.lengths[i] = last - first
        total += last - first
        row += count
        if bitmap.bits is not NULL:
            _pack(out, row, bitmap)
    if bitmap.bits is not NULL:
        _pack_rest(out, row, bitmap)
    return total


cdef Pages _pages(
    const uint8_t[::1] memory,
    const int64_t[::1] positions,
    const int64_t[::1] counts,
    int64_t[::1] out_starts,
    int64_t[::1] out_lengths,
):
    # Raw pointers of the arrays; without runs the loops never read through them.
    cdef Pages pages
    cdef Py_ssize_t num_runs = positions.shape[0]
    if counts.shape[0] != num_runs or out_starts.shape[0] != num_runs or out_lengths.shape[0] != num_runs:
        raise ValueError("positions, counts, out_starts and out_lengths differ in length")
    pages.num_runs = num_runs
    pages.memory = &memory[0] if memory.shape[0] > 0 else NULL
    pages.positions = &positions[0] if num_runs > 0 else NULL
    pages.counts = &counts[0] if num_runs > 0 else NULL
    pages.starts = &out_starts[0] if num_runs > 0 else NULL
    pages.lengths = &out_lengths[0] if num_runs > 0 else NULL
    pages.bounds = NULL
    pages.bound_step = 0
    return pages


def varwidth_offsets(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] counts not None,
    int64_t file_size,
    bint nullable,
    Offset[::1] out_offsets not None,
    uint8_t[::1] out_validity not None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_lengths not None,
):
    """Check and rebase the offsets of strings or binaries, and find their nulls.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions : (num_runs,) int64, bytes
        Start in ``memory`` of the offsets of each run; unaligned.
    counts : (num_runs,) int64, rows
        Run ``i`` has ``counts[i] + 1`` little-endian int64 offsets, or none if ``counts[i]`` is 0.
    file_size : int, bytes
        Upper bound of every offset; offsets count from the start of the file.
    nullable : bool
        True if an empty row is null, False if it is an empty value.
    out_offsets : (num_rows + 1,) int32 or int64, num_rows = sum(counts)
        Offsets into the concatenated values of all runs; the first is 0.
    out_validity : (ceil(num_rows / 8),) uint8
        Bitmap, 1 = valid, unused bits are 0.
    out_starts, out_lengths : (num_runs,) int64, bytes
        Position and length of the values of each run in the file; 0 and 0 for an empty run.

    Returns
    -------
    total_bytes : int
        ``sum(out_lengths)``.
    null_count : int

    Raises
    ------
    FormatError
        A position or count is negative (``position`` is the run), or the offsets of a row are negative,
        descend or pass ``file_size``, or more than 2^31-1 bytes would need int32 offsets (``position``
        is the row, in the last case the first row of the run that exceeds the limit).
    TruncatedError
        A run passes the end of ``memory``; ``position`` is the run.
    ValueError
        ``file_size`` is negative or an array does not have its size.

    Source: legacy (0.1) files, VarBinary pages.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import varwidth_offsets
    >>> page = np.array([100, 103, 103, 105], "<i8").view(np.uint8)
    >>> offsets, validity = np.empty(4, np.int32), np.empty(1, np.uint8)
    >>> start, length = np.empty(1, np.int64), np.empty(1, np.int64)
    >>> varwidth_offsets(page, np.array([0]), np.array([3]), 500, True, offsets, validity, start, length)
    (5, 1)
    >>> offsets.tolist(), bin(validity[0]), start.tolist(), length.tolist()
    ([0, 3, 3, 5], '0b101', [100], [5])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Bitmap bitmap = Bitmap(NULL, 0, 0)
    cdef Py_ssize_t rows = out_offsets.shape[0] - 1
    cdef int64_t total = 0
    cdef Pages pages = _pages(memory, positions, counts, out_starts, out_lengths)
    cdef Offset *out
    cdef uint8_t *validity
    if file_size < 0:
        raise ValueError("file_size is negative")
    if rows < 0 or out_validity.shape[0] != (rows + 7) >> 3:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    pages.bounds = &file_size
    validity = &out_validity[0] if rows > 0 else NULL
    bitmap.bits = validity if nullable else NULL
    out = &out_offsets[0]
    with nogil:
        check_runs(positions, counts, memory.shape[0], 1, 3, rows, &fault)
        if fault.code == FAULT_NONE:
            total = _rebase_pages(&pages, <uint64_t> 0, out, &bitmap, &fault)
            if not nullable and rows > 0:
                _fill(validity, rows)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total, rows - bitmap.valid if nullable else 0


def list_offsets(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] counts not None,
    int64_t width,
    const int64_t[::1] child_lengths not None,
    Offset[::1] out_offsets not None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_lengths not None,
):
    """Check and rebase the offsets of lists.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions : (num_runs,) int64, bytes
        Start in ``memory`` of the offsets of each run; unaligned.
    counts : (num_runs,) int64, rows
        Run ``i`` has ``counts[i] + 1`` offsets, or none if ``counts[i]`` is 0.
    width : int, bytes
        4 or 8: size of one stored (signed, little-endian) offset.
    child_lengths : (num_runs,) int64, items
        Length of the child page that the offsets of a run point into; their upper bound.
    out_offsets : (num_rows + 1,) int32 or int64, num_rows = sum(counts)
        Offsets into the concatenated items of all runs; the first is 0.
    out_starts, out_lengths : (num_runs,) int64, items
        Range of the child page that a run uses; 0 and 0 for an empty run.

    Returns
    -------
    int
        Number of items of all runs, ``sum(out_lengths)``.

    Raises
    ------
    FormatError
        A position or count is negative (``position`` is the run), or the offsets of a row are negative,
        descend or pass the child page, or more than 2^31-1 items would need int32 offsets
        (``position`` is the row, in the last case the first row of the run that exceeds the limit).
    TruncatedError
        A run passes the end of ``memory``; ``position`` is the run.
    ValueError
        ``width`` is not 4 or 8, or an array does not have its size.

    Source: legacy (0.1) files, list pages. The first offset of a page is usually 0 but need not be.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import list_offsets
    >>> page = np.array([2, 3, 5], "<i4").view(np.uint8)
    >>> offsets, start, length = np.empty(3, np.int32), np.empty(1, np.int64), np.empty(1, np.int64)
    >>> list_offsets(page, np.array([0]), np.array([2]), 4, np.array([9]), offsets, start, length)
    3
    >>> offsets.tolist(), start.tolist(), length.tolist()
    ([0, 1, 3], [2], [3])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Bitmap bitmap = Bitmap(NULL, 0, 0)
    cdef Py_ssize_t rows = out_offsets.shape[0] - 1
    cdef int64_t total = 0
    cdef Pages pages = _pages(memory, positions, counts, out_starts, out_lengths)
    cdef Offset *out
    if width != 4 and width != 8:
        raise ValueError("width must be 4 or 8")
    if rows < 0 or child_lengths.shape[0] != pages.num_runs:
        raise ValueError("out_offsets needs one entry more than rows, and child_lengths one per run")
    pages.bounds = &child_lengths[0] if pages.num_runs > 0 else NULL
    pages.bound_step = 1
    out = &out_offsets[0]
    with nogil:
        check_runs(positions, counts, memory.shape[0], 1, 2 if width == 4 else 3, rows, &fault)
        if fault.code == FAULT_NONE and width == 4:
            total = _rebase_pages(&pages, <uint32_t> 0, out, &bitmap, &fault)
        elif fault.code == FAULT_NONE:
            total = _rebase_pages(&pages, <uint64_t> 0, out, &bitmap, &fault)
    if fault.code == FAULT_VALUE_OFFSETS:
        fail(FAULT_LIST_OFFSETS, fault.index)
    if fault.code == FAULT_TOO_MANY_BYTES:
        fail(FAULT_TOO_MANY_ITEMS, fault.index)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total
