"""Reads the metadata of columns of a 2.x file: one pass over protobuf messages, no object for a page.

Fields that are not known are skipped. Numbers above 2^63 - 1 become that number: no position, size or
count of a file is as large, so the caller's checks refuse it.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from cursor cimport FAULT_BUFFERS, FAULT_MESSAGE, FAULT_NONE, FAULT_TRUNCATED, Fault
from short_work cimport FEW_BYTES

from lancecy.kernels._codes import fail

__all__ = ["column_pages"]

# Of an encoding that is absent, or stored elsewhere, instead of its number of bytes.
cdef enum:
    ABSENT = -1
    ELSEWHERE = -2

# Numbers that are returned of each column.
cdef enum:
    COUNTS = 7


cdef struct Reader:
    # Bytes of a message from `at` to `end`.
    const uint8_t *bytes
    Py_ssize_t at
    Py_ssize_t end


cdef struct Item:
    # A field of a message: its tag, its number or number of bytes, and where its bytes begin.
    uint64_t tag
    uint64_t value
    Py_ssize_t at


cdef struct Encoding:
    int64_t at
    int64_t nbytes


cdef struct Room:
    # What is left of the result arrays for one column: its first entries, how long a row is, and for how many
    # pages and buffers there is room; then how many there are, the values of all pages and the bytes of all
    # buffers.
    int64_t *edges
    int64_t *pages
    int64_t *buffers
    Py_ssize_t edge_row
    Py_ssize_t page_row
    Py_ssize_t buffer_row
    Py_ssize_t page_room
    Py_ssize_t buffer_room
    Py_ssize_t num_pages
    Py_ssize_t num_buffers
    int64_t num_values
    int64_t nbytes


cdef bint _number(Reader *r, uint64_t *value) except -2 nogil:
    # A number of at most ten bytes; false if it does not end.
    cdef uint64_t found = 0
    cdef Py_ssize_t shift = 0
    cdef uint8_t byte
    while r.at < r.end and shift < 70:
        # bounds: at is below end, which is within the bytes present.
        byte = r.bytes[r.at]
        r.at += 1
        if shift < 64:
            found |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = found
            return True
        shift += 7
    return False


cdef bint _next(Reader *r, Item *item) except -2 nogil:
    # The next field of a message that has one; false if it is none.
    cdef uint64_t skipped
    if not _number(r, &item.tag) or item.tag < 8 or item.tag >> 32:
        return False
    item.at = r.at
    if item.tag & 7 == 0:
        return _number(r, &item.value)
    if item.tag & 7 == 2:
        if not _number(r, &item.value) or item.value > <uint64_t> (r.end - r.at):
            return False
        item.at = r.at
        r.at += <Py_ssize_t> item.value
        return True
    if item.tag & 7 == 1:
        skipped = 8
    elif item.tag & 7 == 5:
        skipped = 4
    else:
        return False
    if skipped > <uint64_t> (r.end - r.at):
        return False
    r.at += <Py_ssize_t> skipped
    return True


cdef bint _within(Reader *r, Item *item, Reader *inner) except -2 nogil:
    # The bytes of a field, whose length has been checked.
    inner.bytes, inner.at, inner.end = r.bytes, item.at, item.at + <Py_ssize_t> item.value
    return True


cdef int64_t _capped(uint64_t value) except -2 nogil:
    return INT64_MAX if value > <uint64_t> INT64_MAX else <int64_t> value


cdef int64_t _sum(int64_t one, int64_t other) except -2 nogil:
    # Of numbers that are not negative.
    return INT64_MAX if one > INT64_MAX - other else one + other


cdef bint _encoding(Reader r, Encoding *found) except -2 nogil:
    cdef Item item
    cdef Reader inner
    while r.at < r.end:
        if not _next(&r, &item):
            return False
        if item.tag == 10:
            found.nbytes = ELSEWHERE
        elif item.tag == 26:
            found.nbytes = ABSENT
        elif item.tag == 18:
            found.nbytes = found.at = 0
            _within(&r, &item, &inner)
            while inner.at < inner.end:
                if not _next(&inner, &item):
                    return False
                if item.tag == 10:
                    found.at, found.nbytes = item.at, <int64_t> item.value
    return True


cdef bint _numbers(Reader r, Room *room, Py_ssize_t row, Py_ssize_t *count) except -2 nogil:
    # Packed numbers, added to those of a page.
    cdef uint64_t value
    while r.at < r.end:
        if not _number(&r, &value):
            return False
        _add(room, row, count, value)
    return True


cdef bint _add(Room *room, Py_ssize_t row, Py_ssize_t *count, uint64_t value) except -2 nogil:
    cdef Py_ssize_t place = room.num_buffers + count[0]
    if place < room.buffer_room:
        # bounds: there are two rows of that room.
        room.buffers[row * room.buffer_row + place] = _capped(value)
    if row == 1:
        room.nbytes = _sum(room.nbytes, _capped(value))
    count[0] += 1
    return True


cdef int64_t _furthest(const Room *room) except -2 nogil:
    # bounds: there is room for all buffers, in two rows.
    cdef Py_ssize_t i
    cdef int64_t end, furthest = 0
    for i in range(room.num_buffers):
        end = _sum(room.buffers[i], room.buffers[room.buffer_row + i])
        furthest = end if end > furthest else furthest
    return furthest


cdef bint _page(Reader r, Room *room, Fault *fault) except -2 nogil:
    cdef Item item
    cdef Reader inner
    cdef Encoding encoding
    cdef Py_ssize_t positions = 0, sizes = 0
    cdef int64_t length = 0, first_row = 0
    cdef int64_t *out
    encoding.at, encoding.nbytes = 0, ABSENT
    fault.index, fault.code = room.num_pages, FAULT_MESSAGE
    while r.at < r.end:
        if not _next(&r, &item):
            return False
        if item.tag & 7 == 2:
            _within(&r, &item, &inner)
        if item.tag == 10 and not _numbers(inner, room, 0, &positions):
            return False
        elif item.tag == 18 and not _numbers(inner, room, 1, &sizes):
            return False
        elif item.tag == 34 and not _encoding(inner, &encoding):
            return False
        elif item.tag == 8:
            _add(room, 0, &positions, item.value)
        elif item.tag == 16:
            _add(room, 1, &sizes, item.value)
        elif item.tag == 24:
            length = _capped(item.value)
        elif item.tag == 40:
            first_row = _capped(item.value)
    if positions != sizes:
        fault.code = FAULT_BUFFERS
        return False
    room.num_buffers += positions
    room.num_values = _sum(room.num_values, length)
    if room.num_pages < room.page_room:
        # bounds: there are four rows of that room, and two with room for one more, which is the first.
        out = room.pages + room.num_pages
        out[0] = length
        out[room.page_row] = first_row
        out[2 * room.page_row] = encoding.at
        out[3 * room.page_row] = encoding.nbytes
        out = room.edges + room.num_pages + 1
        out[0] = room.num_values
        out[room.edge_row] = room.num_buffers
    room.num_pages += 1
    return True


cdef bint _column(Reader r, Room *room, Encoding *encoding, bint *has_own, Fault *fault) except -2 nogil:
    # bounds: each pointer is to one value of the caller's.
    cdef Item item
    cdef Reader inner
    while r.at < r.end:
        fault.index, fault.code = room.num_pages, FAULT_MESSAGE
        if not _next(&r, &item):
            return False
        if item.tag & 7 == 2:
            _within(&r, &item, &inner)
        if item.tag == 18:
            if not _page(inner, room, fault):
                return False
        elif item.tag == 10:
            if not _encoding(inner, encoding):
                return False
        elif item.tag == 24 or (item.tag == 26 and item.value > 0):
            has_own[0] = True
    fault.code = FAULT_NONE
    return True


cdef bint _columns(
    Reader whole,
    const int64_t *starts,
    const int64_t *sizes,
    Py_ssize_t num_columns,
    Room *room,
    int64_t *counts,
    Fault *fault,
) except -2 nogil:
    # bounds: there are COUNTS numbers for each column, and an edge for each besides those of pages.
    cdef Py_ssize_t i, pages, buffers
    cdef Reader r
    cdef Encoding encoding
    cdef bint has_own
    cdef int64_t *out
    for i in range(num_columns):
        if starts[i] < 0 or sizes[i] < 0 or starts[i] > whole.end - sizes[i]:
            fault.index, fault.code = i, FAULT_TRUNCATED
            return False
        room.num_pages = room.num_buffers = 0
        room.num_values = room.nbytes = 0
        room.edges[0] = room.edges[room.edge_row] = 0
        encoding.at, encoding.nbytes, has_own = 0, ABSENT, False
        r.bytes, r.at, r.end = whole.bytes, starts[i], starts[i] + sizes[i]
        if not _column(r, room, &encoding, &has_own, fault):
            return False
        out = counts + i * COUNTS
        out[0], out[1] = room.num_pages, room.num_buffers
        out[2], out[3], out[4] = encoding.at, encoding.nbytes, has_own
        out[5] = room.nbytes
        out[6] = _furthest(room) if room.num_buffers <= room.buffer_room else -1
        pages, buffers = min(room.num_pages, room.page_room), min(room.num_buffers, room.buffer_room)
        room.edges += pages + 1
        room.pages += pages
        room.page_room -= pages
        room.buffers += buffers
        room.buffer_room -= buffers
    return True


def column_pages(
    const uint8_t[::1] memory not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] sizes not None,
    int64_t[:, ::1] out_edges not None,
    int64_t[:, ::1] out_pages not None,
    int64_t[:, ::1] out_buffers not None,
    int64_t[:, ::1] out_counts not None,
):
    """Pages and buffers in the metadata of columns.

    Those of all columns follow each other. If there is less room, the arrays have the first ones only, and
    what they have of later columns means nothing.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    starts, sizes : (num_columns,) int64, bytes
        Where the ColumnMetadata message of each column is in ``memory``.
    out_edges : (2, page_room + num_columns) int64
        Of each column: its values and buffers before each page, then of all its pages.
    out_pages : (4, page_room) int64
        Of each page: its values, its first row, where the bytes of its encoding begin in ``memory`` and how
        many they are (-1: it has none, -2: they are elsewhere in the file).
    out_buffers : (2, buffer_room) int64, bytes
        Position and size of each buffer.
    out_counts : (num_columns, 7) int64
        Of each column: its pages; its buffers; where its encoding begins and how many bytes it has, as for a
        page; 1 if it has buffers of its own, otherwise 0; the bytes of all its buffers; the furthest byte at
        which one ends, -1 if there is less room than buffers.

    Raises
    ------
    TruncatedError
        A message passes the end of the memory; ``position`` is the column.
    FormatError
        Bytes are no such message, or a page has not as many positions as sizes; ``position`` is the page.
    ValueError
        A result has another form.

    Source: file sheet 2.0, section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import column_pages
    >>> message = bytes([18, 8, 10, 1, 64, 18, 1, 16, 24, 3])  # one page: 3 values, 16 bytes at 64
    >>> memory = np.frombuffer(message, np.uint8)
    >>> edges, pages, buffers = (np.zeros(shape, np.int64) for shape in ((2, 2), (4, 1), (2, 1)))
    >>> counts = np.zeros((1, 7), np.int64)
    >>> column_pages(memory, np.array([0]), np.array([10]), edges, pages, buffers, counts)
    >>> counts.tolist()
    [[1, 1, 0, -1, 0, 16, 80]]
    >>> edges.tolist(), pages[:, 0].tolist(), buffers[:, 0].tolist()
    ([[0, 3], [0, 1]], [3, 0, 0, -1], [64, 16])
    """
    cdef Room room
    cdef Reader whole
    cdef Fault fault
    cdef bint is_good
    cdef Py_ssize_t num_columns = starts.shape[0]
    if sizes.shape[0] != num_columns:
        raise ValueError("starts and sizes need the same length")
    if out_edges.shape[0] != 2 or out_pages.shape[0] != 4 or out_buffers.shape[0] != 2:
        raise ValueError("out_edges needs 2 rows, out_pages 4 and out_buffers 2")
    if out_edges.shape[1] != out_pages.shape[1] + num_columns:
        raise ValueError("out_edges needs one entry for each column more than out_pages")
    if out_counts.shape[0] != num_columns or out_counts.shape[1] != COUNTS:
        raise ValueError("out_counts needs 7 numbers for each column")
    if num_columns == 0:
        return
    room.page_room = room.page_row = out_pages.shape[1]
    room.buffer_room = room.buffer_row = out_buffers.shape[1]
    room.edge_row = out_edges.shape[1]
    room.edges = &out_edges[0, 0]
    room.pages = &out_pages[0, 0] if room.page_room > 0 else NULL
    room.buffers = &out_buffers[0, 0] if room.buffer_room > 0 else NULL
    whole.bytes, whole.at, whole.end = NULL, 0, memory.shape[0]
    if memory.shape[0] > 0:
        whole.bytes = &memory[0]
    if memory.shape[0] <= FEW_BYTES:
        is_good = _columns(whole, &starts[0], &sizes[0], num_columns, &room, &out_counts[0, 0], &fault)
    else:
        with nogil:
            is_good = _columns(whole, &starts[0], &sizes[0], num_columns, &room, &out_counts[0, 0], &fault)
    if not is_good:
        fail(fault.code, fault.index)
