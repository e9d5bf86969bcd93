"""Converts the running ends of 2.0 strings and lists, which also encode nulls, to offsets.

Processes 64 rows at a time: offsets, a word of validity, and whether any offset descends. Only a bad run is
checked again row by row.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from cursor cimport (
    FAULT_ENDS,
    FAULT_NEGATIVE,
    FAULT_NONE,
    FAULT_TOO_MANY,
    FAULT_TRUNCATED,
    BitSink,
    Fault,
    check_runs,
    flush_bits,
    has,
    load64,
    pack64,
    push_bits,
)

from lancecy.kernels._codes import fail

__all__ = ["ended_offsets"]

ctypedef fused Offset:
    int32_t
    int64_t

cdef struct Ends:
    # The runs of ended_offsets.
    const int64_t *positions
    const int64_t *counts
    const int64_t *previous
    const int64_t *adjustments
    const int64_t *sizes
    int64_t *starts
    int64_t *lengths
    Py_ssize_t num_runs


cdef inline uint64_t _end_rows(
    const uint8_t *run,
    Py_ssize_t count,
    uint64_t before,
    uint64_t adjustment,
    uint64_t shift,
    Offset *out,
    BitSink *sink,
) except? 2 nogil:
    # Up to 64 rows: offsets and validity; 1 if an end descends, else 0. bounds: run and out have `count`.
    cdef uint8_t valid[64]
    cdef uint64_t entry, word = 0, bad = 0
    cdef Py_ssize_t j
    for j in range(count):
        entry = load64(run + 8 * j)
        valid[j] = entry < adjustment
        entry -= 0 if entry < adjustment else adjustment
        bad |= entry < before
        out[j] = <Offset> (entry - shift)
        before = entry
    if count == 64:
        word = pack64(valid)
    else:
        for j in range(count):
            word |= <uint64_t> valid[j] << j
    push_bits(sink, word, count)
    return bad


cdef inline uint64_t _end(const uint8_t *entry, uint64_t adjustment) except? 0xE5C1A9D3B7F08642 nogil:
    # bounds: eight bytes.
    cdef uint64_t end = load64(entry)
    return end if end < adjustment else end - adjustment


cdef int64_t _first_astray(
    const uint8_t *run, int64_t count, uint64_t before, uint64_t adjustment, int64_t size
) except -2 nogil:
    # bounds: run has count entries.
    cdef Py_ssize_t j
    cdef uint64_t end
    for j in range(count):
        end = _end(run + 8 * j, adjustment)
        if end < before or size < 0 or end > <uint64_t> size:
            return j
        before = end
    return -1


cdef int64_t _ended(
    const Ends *ends, const uint8_t *memory, int64_t memory_size, Offset *out, BitSink *sink, Fault *fault
) except -2 nogil:
    # Returns the number of values. bounds: check_runs has shown that run i has counts[i] entries in memory,
    # and that out has one more than all of them; the entry before a run is checked here.
    cdef Py_ssize_t i, j, row = 0
    cdef int64_t count, part, total = 0
    cdef int64_t most = INT32_MAX if Offset is int32_t else INT64_MAX
    cdef uint64_t adjustment, start, before, bad
    cdef const uint8_t *run
    out[0] = 0
    for i in range(ends.num_runs):
        ends.starts[i] = ends.lengths[i] = 0
        count = ends.counts[i]
        if count == 0:
            continue
        fault.index = i
        adjustment, start, bad = <uint64_t> ends.adjustments[i], 0, 0
        if ends.previous[i] != -1:
            if not has(ends.previous[i], 8, memory_size):
                fault.code = FAULT_NEGATIVE if ends.previous[i] < 0 else FAULT_TRUNCATED
                return -1
            start = _end(memory + ends.previous[i], adjustment)
        run, before, j = memory + ends.positions[i], start, 0
        while j < count:
            part = 64 if count - j > 64 else count - j
            bad |= _end_rows(
                run + 8 * j, part, before, adjustment, start - <uint64_t> total, out + row + j + 1, sink
            )
            before = _end(run + 8 * (j + part - 1), adjustment)
            j += part
        if bad != 0 or ends.sizes[i] < 0 or before > <uint64_t> ends.sizes[i]:
            fault.code, fault.index = FAULT_ENDS, row
            fault.index += _first_astray(run, count, start, adjustment, ends.sizes[i])
            return -1
        if <int64_t> (before - start) > most - total:
            fault.code, fault.index = FAULT_TOO_MANY, row
            return -1
        ends.starts[i], ends.lengths[i] = <int64_t> start, <int64_t> (before - start)
        total += ends.lengths[i]
        row += count
    return total


cdef Ends _ends(
    const int64_t[::1] positions,
    const int64_t[::1] counts,
    const int64_t[::1] previous,
    const int64_t[::1] adjustments,
    const int64_t[::1] sizes,
    int64_t[::1] starts,
    int64_t[::1] lengths,
):
    cdef Ends ends
    cdef Py_ssize_t count = positions.shape[0]
    if counts.shape[0] != count or previous.shape[0] != count or adjustments.shape[0] != count:
        raise ValueError("the arrays of runs differ in length")
    if sizes.shape[0] != count or starts.shape[0] != count or lengths.shape[0] != count:
        raise ValueError("the arrays of runs differ in length")
    ends.num_runs = count
    ends.positions = ends.counts = ends.previous = ends.adjustments = ends.sizes = NULL
    ends.starts = ends.lengths = NULL
    if count > 0:
        ends.positions, ends.counts, ends.previous = &positions[0], &counts[0], &previous[0]
        ends.adjustments, ends.sizes = &adjustments[0], &sizes[0]
        ends.starts, ends.lengths = &starts[0], &lengths[0]
    return ends


def ended_offsets(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] counts not None,
    const int64_t[::1] previous not None,
    const int64_t[::1] adjustments not None,
    const int64_t[::1] value_sizes not None,
    Offset[::1] out_offsets not None,
    uint8_t[::1] out_validity not None,
    int64_t[::1] out_starts not None,
    int64_t[::1] out_lengths not None,
):
    """Convert running ends, which also encode nulls, to offsets and validity.

    An entry at or above the adjustment of its page is a null, and its end is the entry minus the adjustment.
    A null may own values; they are kept.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions : (num_runs,) int64, bytes
        Start of each run of little-endian uint64 entries.
    counts : (num_runs,) int64, rows
    previous : (num_runs,) int64, bytes
        Position of the entry before the run; -1 if the run starts its page.
    adjustments : (num_runs,) int64
        The bits of a uint64: 0 makes every row null, -1 (which is 2^64-1) none.
    value_sizes : (num_runs,) int64, bytes or items
        Values of the page; the upper bound of each end.
    out_offsets : (num_rows + 1,) int32 or int64, num_rows = sum(counts)
        Offsets into the concatenated values of all runs; the first is 0.
    out_validity : (ceil(num_rows / 8),) uint8
        Bitmap, 1 = valid, unused bits are 0.
    out_starts, out_lengths : (num_runs,) int64
        Range of the page's values that a run uses; 0 and 0 for a run without rows.

    Returns
    -------
    total : int
        ``sum(out_lengths)``.
    null_count : int

    Raises
    ------
    FormatError
        A position or count is negative (``position`` is the run), or an end descends or passes the values,
        or there are more than 2^31-1 values for int32 offsets (the row).
    TruncatedError
        A run or the entry before it passes the end of ``memory`` (the run).
    ValueError
        An array does not have its size.

    Source: file sheet 2.0, sections 4.4 and 4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import ended_offsets
    >>> page = np.array([2, 8, 2, 5], "<u8").view(np.uint8)
    >>> offsets, bits, spans = np.empty(5, np.int32), np.empty(1, np.uint8), np.empty((2, 1), int)
    >>> one = np.array([1])
    >>> ended_offsets(page, one - 1, 4 * one, -one, 6 * one, 5 * one, offsets, bits, *spans)
    (5, 1)
    >>> offsets.tolist(), bin(bits[0])
    ([0, 2, 2, 2, 5], '0b1101')
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef BitSink sink = BitSink(NULL, 0, 0, 0, 0)
    cdef Py_ssize_t rows = out_offsets.shape[0] - 1
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef int64_t total = 0
    cdef Ends ends = _ends(positions, counts, previous, adjustments, value_sizes, out_starts, out_lengths)
    if rows < 0 or out_validity.shape[0] != (rows + 7) >> 3:
        raise ValueError("out_offsets needs one entry more than rows, and out_validity one bit per row")
    sink.bits = &out_validity[0] if rows > 0 else NULL
    with nogil:
        check_runs(positions, counts, memory.shape[0], 0, 3, rows, &fault)
        if fault.code == FAULT_NONE:
            total = _ended(&ends, source, memory.shape[0], &out_offsets[0], &sink, &fault)
            flush_bits(&sink, out_validity.shape[0])
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return total, rows - sink.ones
