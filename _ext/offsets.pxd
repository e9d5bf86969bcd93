# Checks stored offsets of variable-length values and rebases them (header-only).
#
# Values are checked without a branch each: `before | (after - before)` has its sign bit set if `before` is
# negative, or if neither is and they descend. One test of all these combined decides; a negative last offset
# is below the first, which the caller checks.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cursor cimport load32, load64

ctypedef fused Offset:
    int32_t
    int64_t

# Stored offsets are signed; unsigned numbers can be subtracted without overflow.
ctypedef fused Raw:
    uint32_t
    uint64_t


cdef inline int64_t signed_offset(const uint8_t *run, Py_ssize_t j, Raw kind) except? -1 nogil:
    # bounds: the caller stays within the offsets of a checked run.
    if Raw is uint32_t:
        return <int32_t> load32(run + 4 * j)
    else:
        return <int64_t> load64(run + 8 * j)


cdef inline uint64_t rebase_offsets(
    const uint8_t *run, Py_ssize_t count, uint64_t shift, Raw kind, Offset *out
) except? 2 nogil:
    # Write offset j + 1 minus `shift` to out[j]; 1 if an offset descends or is negative, else 0.
    # bounds: run has count + 1 offsets, out has room for count.
    cdef Py_ssize_t j
    cdef Raw before, after, bad = 0
    for j in range(count):
        if Raw is uint32_t:
            before = load32(run + 4 * j)
            after = load32(run + 4 * j + 4)
        else:
            before = load64(run + 8 * j)
            after = load64(run + 8 * j + 8)
        bad |= before | (after - before)
        out[j] = <Offset> (<uint64_t> after - shift)
    return bad >> (8 * sizeof(Raw) - 1)


cdef inline int64_t first_bad_offset(
    const uint8_t *run, int64_t count, int64_t lowest, int64_t highest, Raw kind
) except -2 nogil:
    # Index of the first value whose offsets descend or are not in lowest .. highest, or -1. bounds: as
    # rebase_offsets.
    cdef Py_ssize_t j
    cdef int64_t before, after
    for j in range(count):
        before = signed_offset(run, j, kind)
        after = signed_offset(run, j + 1, kind)
        if before < lowest or after < before or after > highest:
            return j
    return -1


cdef inline bint in_order(const Offset *offsets, int64_t count, int64_t size) except -1 nogil:
    # Whether count + 1 offsets ascend within `size` bytes. bounds: there are that many.
    cdef int64_t j
    cdef uint32_t narrow = 0
    cdef uint64_t wide = 0
    for j in range(count):
        if Offset is int32_t:
            narrow |= <uint32_t> offsets[j] | (<uint32_t> offsets[j + 1] - <uint32_t> offsets[j])
        else:
            wide |= <uint64_t> offsets[j] | (<uint64_t> offsets[j + 1] - <uint64_t> offsets[j])
    return narrow >> 31 == 0 and wide >> 63 == 0 and 0 <= offsets[count] <= size


cdef inline int64_t first_astray(const Offset *offsets, int64_t count, int64_t size) except -2 nogil:
    # Index of the first value whose offsets descend or leave `size` bytes; 0 if only a lone offset does.
    # bounds: as in_order.
    cdef int64_t j
    for j in range(count):
        if offsets[j] < 0 or offsets[j + 1] < offsets[j] or offsets[j + 1] > size:
            return j
    return 0
