"""Finds the tables in the last bytes of a 2.x file: one pass, nothing but numbers.

It answers for sound files whose tables lie in these bytes; what is wrong with any other is the caller's to
find.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint16_t, uint64_t

from cursor cimport load16, load32, load64
from short_work cimport FEW_VALUES

__all__ = ["file_frame"]

cdef enum:
    FOOTER_BYTES = 40
    ENTRY_BYTES = 16
    # "LANC", as a number.
    MAGIC = 0x434E414C
    # Numbers that are returned of a file.
    COUNTS = 10
    # A number of rows of at most nine bytes, and before them the byte that says so.
    ROWS_TAG = 0x10
    ROWS_BYTES = 9


cdef struct Tail:
    # The bytes of a file from `start` on, and where its footer begins.
    const uint8_t *bytes
    uint64_t start
    uint64_t end


cdef struct Total:
    # The least position and the furthest end of ranges, and how many bytes they have.
    uint64_t first
    uint64_t last
    uint64_t nbytes


cdef bint _has(const Tail *tail, uint64_t at, uint64_t nbytes) except -2 nogil:
    # Whether a part of the file lies before its footer and in the tail.
    return tail.start <= at <= tail.end and nbytes <= tail.end - at


cdef bint _ranges(
    const Tail *tail,
    uint64_t table,
    Py_ssize_t count,
    int64_t *positions,
    int64_t *lengths,
    Py_ssize_t room,
    Total *total,
) except -2 nogil:
    # bounds: the table is in the tail, and no more than `room` positions and lengths are stored.
    cdef Py_ssize_t i
    cdef uint64_t at, nbytes
    cdef const uint8_t *entry = tail.bytes + (table - tail.start)
    total.first, total.last, total.nbytes = tail.end, 0, 0
    for i in range(count):
        at, nbytes = load64(entry), load64(entry + 8)
        entry += ENTRY_BYTES
        if at > tail.end or nbytes > tail.end - at:
            return False
        total.first, total.last = min(total.first, at), max(total.last, at + nbytes)
        total.nbytes += nbytes
        if total.nbytes > tail.end + FOOTER_BYTES:
            return False
        if i < room:
            positions[i], lengths[i] = <int64_t> at, <int64_t> nbytes
    return True


cdef int64_t _last_rows(const uint8_t *bytes, int64_t size, int64_t *before) except -2 nogil:
    # The number of rows, if it is the last field of a FileDescriptor, and how many bytes precede the
    # field; else -1.
    # bounds: at is not negative and below size; before is one number of the caller's.
    cdef int64_t at = size - 1, rows = 0
    if size < 2 or bytes[at] >= 0x80:
        return -1
    while at > 0 and size - at <= ROWS_BYTES:
        rows = rows << 7 | (bytes[at] & 0x7F)
        at -= 1
        if bytes[at] < 0x80:
            if bytes[at] != ROWS_TAG:
                return -1
            before[0] = at
            return rows
    return -1


cdef bint _frame(
    const Tail *tail, int64_t most_columns, int64_t *ranges, Py_ssize_t room, int64_t *counts
) except -2 nogil:
    # bounds: the tail has the footer; there are two rows of ranges with that room, and COUNTS counts.
    cdef const uint8_t *footer = tail.bytes + (tail.end - tail.start)
    cdef uint64_t column_table = load64(footer + 8), buffer_table = load64(footer + 16)
    cdef uint64_t num_buffers = load32(footer + 24), num_columns = load32(footer + 28)
    cdef uint16_t major = load16(footer + 32), minor = load16(footer + 34)
    cdef int64_t at, nbytes
    cdef Total total
    if load32(footer + 36) != MAGIC or not (major >= 2 or (major == 0 and minor == 3)):
        return False
    if num_buffers == 0 or <int64_t> num_columns > most_columns:
        return False
    if not _has(tail, buffer_table, num_buffers * ENTRY_BYTES):
        return False
    if not _has(tail, column_table, num_columns * ENTRY_BYTES):
        return False
    if not _ranges(tail, buffer_table, 1, &at, &nbytes, 1, &total) or not _has(tail, at, nbytes):
        return False
    if not _ranges(tail, column_table, num_columns, ranges, ranges + room, room, &total):
        return False
    counts[0], counts[1], counts[2], counts[3], counts[4] = major, minor, num_columns, at, nbytes
    counts[5], counts[6], counts[7] = total.first, total.last, total.nbytes
    counts[9] = 0
    counts[8] = _last_rows(tail.bytes + (<uint64_t> at - tail.start), nbytes, &counts[9])
    return True


def file_frame(
    const uint8_t[::1] memory not None,
    int64_t start,
    int64_t most_columns,
    int64_t[:, ::1] out_ranges not None,
    int64_t[::1] out_counts not None,
):
    """Where the metadata of a 2.x file is, from its last bytes.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
        The end of the file.
    start : int, bytes
        Where ``memory`` begins in the file.
    most_columns : int
    out_ranges : (2, room) int64, bytes
        Position and length of the metadata of each column; only of the first ones if there are more columns
        than room.
    out_counts : (10,) int64
        Major and minor version as written; columns; position and length of the FileDescriptor; of the
        metadata of all columns: the least position, the furthest end (the footer's position and 0 without
        columns) and the bytes; the number with which the FileDescriptor ends, its rows if the bytes before
        are a message too, and how many bytes these are, or -1 and any number.

    Returns
    -------
    bool
        False: both results mean nothing. The file is damaged or of another version, has more than
        ``most_columns`` columns, or its tables or its FileDescriptor do not lie in ``memory``.

    Raises
    ------
    ValueError
        A result has another form.

    Source: file sheet 2.0, section 2.

    Examples
    --------
    >>> import struct
    >>> import numpy as np
    >>> from lancecy.kernels import file_frame
    >>> tables = struct.pack("<QQQQ", 2, 4, 0, 2)  # one column of 4 bytes, after the descriptor: 7 rows
    >>> end = tables + struct.pack("<QQQIIHH4s", 2, 6, 22, 1, 1, 2, 1, b"LANC")
    >>> ranges, counts = np.zeros((2, 1), np.int64), np.zeros(10, np.int64)
    >>> file_frame(np.frombuffer(bytes([16, 7]) + bytes(4) + end, np.uint8), 0, 100, ranges, counts)
    True
    >>> ranges[:, 0].tolist(), counts.tolist()
    ([2, 4], [2, 1, 1, 0, 2, 2, 6, 4, 7, 0])
    """
    cdef Tail tail
    cdef bint is_found
    cdef Py_ssize_t room = out_ranges.shape[1], size = memory.shape[0]
    cdef int64_t *ranges = NULL
    if out_ranges.shape[0] != 2 or out_counts.shape[0] != COUNTS:
        raise ValueError("out_ranges needs 2 rows and out_counts 10 numbers")
    if size < FOOTER_BYTES or start < 0 or start > INT64_MAX - size:
        return False
    if room > 0:
        ranges = &out_ranges[0, 0]
    tail.bytes, tail.start, tail.end = &memory[0], start, start + size - FOOTER_BYTES
    # bounds: the footer is in memory; its number of columns is the work there is.
    if load32(&memory[size - FOOTER_BYTES] + 28) <= FEW_VALUES:
        return _frame(&tail, most_columns, ranges, room, &out_counts[0])
    with nogil:
        is_found = _frame(&tail, most_columns, ranges, room, &out_counts[0])
    return is_found
