# Definition and repetition levels of 16 bits (header-only).

from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t


cdef inline int32_t level_of(int64_t level, int64_t lowest) except -1:
    if level < lowest or level > 0xFFFF:
        raise ValueError(f"{level} is not a level")
    return <int32_t> level


cdef inline uint64_t largest_level(const uint16_t *levels, Py_ssize_t count) except? 0xFFFFF nogil:
    # bounds: levels has count entries.
    cdef Py_ssize_t i
    cdef uint16_t largest = 0
    for i in range(count):
        largest = levels[i] if levels[i] > largest else largest
    return largest
