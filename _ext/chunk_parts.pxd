# Parses the headers of mini-block chunks (header-only); _structural.pyx describes the chunks.

from libc.stdint cimport int64_t, uint8_t

from cursor cimport has, load16, load32

cdef enum:
    MAX_BUFFERS = 0xFFFF

cdef struct Header:
    # What all headers of a page have in common.
    Py_ssize_t rep_bytes
    Py_ssize_t def_bytes
    Py_ssize_t num_buffers
    Py_ssize_t size_width
    Py_ssize_t nbytes

cdef struct Place:
    # State of the walk over the parts of a chunk: the next size is at `at`, the next bytes at `cursor`.
    const uint8_t *at
    int64_t cursor
    int64_t size


cdef inline int64_t _part(Place *place, Py_ssize_t width, int64_t length, int64_t *start) except -2 nogil:
    # Size of the next part, with its start within the chunk; -1 if it passes the end of the chunk.
    # bounds: the caller has checked that the whole header is present, and calls once for each size in it.
    cdef int64_t size = load16(place.at) if width == 2 else <int64_t> load32(place.at)
    if not has(place.cursor, size, length):
        return -1
    start[0] = place.cursor
    place.at += width
    place.cursor += (size + 7) & ~<int64_t> 7
    return size


cdef inline int64_t part_into(
    Place *place, Py_ssize_t width, int64_t length, int64_t base, int64_t *start, int64_t *size
) except -2 nogil:
    # A part, or an empty one if its size has width 0. bounds: as _part.
    cdef int64_t within = 0
    size[0] = _part(place, width, length, &within) if width > 0 else 0
    start[0] = base + within
    return 0 if size[0] >= 0 else -1


cdef inline Header header_of(
    bint has_rep, bint has_def, Py_ssize_t num_buffers, Py_ssize_t size_width
) except *:
    cdef Header header
    if size_width != 2 and size_width != 4:
        raise ValueError("size_width must be 2 or 4")
    if not 0 <= num_buffers <= MAX_BUFFERS:
        raise ValueError("num_buffers is negative or too large")
    header.rep_bytes = 2 if has_rep else 0
    header.def_bytes = 2 if has_def else 0
    header.num_buffers = num_buffers
    header.size_width = size_width
    header.nbytes = 2 + header.rep_bytes + header.def_bytes + num_buffers * size_width
    return header
