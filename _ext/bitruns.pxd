# Runs of values of some bits each, which may begin at any bit of a byte (header-only).

from libc.stdint cimport int64_t

from cursor cimport FAULT_NEGATIVE, FAULT_NONE, FAULT_OUT_SIZE, FAULT_TRUNCATED, Fault, has


cdef struct BitRuns:
    # Run i has counts[i] values, starting at bit bit_offsets[i], which may exceed 7, of byte positions[i].
    const int64_t *positions
    const int64_t *bit_offsets
    const int64_t *counts
    Py_ssize_t num_runs


cdef inline BitRuns bit_runs(
    const int64_t[::1] positions, const int64_t[::1] bit_offsets, const int64_t[::1] counts
) except *:
    # Raw pointers of the arrays; without runs nothing is read through them.
    cdef BitRuns runs = BitRuns(NULL, NULL, NULL, positions.shape[0])
    if bit_offsets.shape[0] != runs.num_runs or counts.shape[0] != runs.num_runs:
        raise ValueError("positions, bit_offsets and counts differ in length")
    if runs.num_runs > 0:
        runs.positions, runs.bit_offsets, runs.counts = &positions[0], &bit_offsets[0], &counts[0]
    return runs


cdef inline int64_t check_bit_runs(
    const BitRuns *runs, int64_t width, int64_t memory_size, int64_t capacity, Fault *fault
) except -2 nogil:
    # Every run that is not empty is in memory, and together they have no more than `capacity` values of
    # `width` bits, which is the size of real memory: so no multiplication here overflows. Returns
    # the number of values. bounds: the arrays have num_runs entries.
    cdef Py_ssize_t i
    cdef int64_t position, offset, count, total = 0
    fault.code = FAULT_NONE
    for i in range(runs.num_runs):
        position, offset, count = runs.positions[i], runs.bit_offsets[i], runs.counts[i]
        fault.index = i
        if count < 0 or count > capacity - total:
            fault.code = FAULT_NEGATIVE if count < 0 else FAULT_OUT_SIZE
            return -1
        total += count
        if count == 0:
            continue
        if position < 0 or offset < 0:
            fault.code = FAULT_NEGATIVE
            return -1
        if not has(position, offset >> 3, memory_size) or not has(
            position + (offset >> 3), ((offset & 7) + count * width + 7) >> 3, memory_size
        ):
            fault.code = FAULT_TRUNCATED
            return -1
    fault.index = runs.num_runs
    return total
