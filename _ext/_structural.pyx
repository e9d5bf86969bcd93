"""Reads the headers of mini-block chunks.

A chunk of a page of 2.1 and later begins with a header of sizes; its parts follow, each padded to 8 bytes.
"""

from libc.stdint cimport int64_t, uint8_t

from chunk_parts cimport Header, Place, header_of, part_into
from cursor cimport (
    FAULT_CHUNK_PARTS,
    FAULT_NEGATIVE,
    FAULT_NONE,
    FAULT_TRUNCATED,
    Fault,
    has,
    load16,
    prefetch,
)

from lancecy.kernels._codes import fail

__all__ = ["chunk_headers"]

cdef enum:
    # Chunks to prefetch ahead: for scattered rows every header is on its own page of memory.
    AHEAD = 16


cdef int64_t _headers(
    const uint8_t[::1] memory,
    const int64_t[::1] positions,
    const int64_t[::1] lengths,
    const Header *header,
    int64_t[:, ::1] out,
    Fault *fault,
) except -2 nogil:
    # bounds: a chunk is in memory and holds its header before any size is read; Cython checks the rest.
    cdef Py_ssize_t i, b
    cdef int64_t position, length
    cdef Place place
    for i in range(positions.shape[0]):
        if i + AHEAD < positions.shape[0] and 0 <= positions[i + AHEAD] < memory.shape[0]:
            prefetch(&memory[positions[i + AHEAD]])
        position, length = positions[i], lengths[i]
        fault.index = i
        if position < 0 or length < 0:
            fault.code = FAULT_NEGATIVE
            return -1
        if not has(position, length, memory.shape[0]):
            fault.code = FAULT_TRUNCATED
            return -1
        fault.code = FAULT_CHUNK_PARTS
        if length < header.nbytes:
            return -1
        place.at = &memory[position]
        place.cursor = (header.nbytes + 7) & ~<int64_t> 7
        out[0, i] = load16(place.at)
        place.at += 2
        if part_into(&place, header.rep_bytes, length, position, &out[1, i], &out[2, i]) < 0:
            return -1
        if part_into(&place, header.def_bytes, length, position, &out[3, i], &out[4, i]) < 0:
            return -1
        for b in range(5, 5 + 2 * header.num_buffers, 2):
            if part_into(&place, header.size_width, length, position, &out[b, i], &out[b + 1, i]) < 0:
                return -1
        fault.code = FAULT_NONE
    return 0


def chunk_headers(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    bint has_rep,
    bint has_def,
    Py_ssize_t num_buffers,
    Py_ssize_t size_width,
    int64_t[:, ::1] out not None,
):
    """Read the headers of mini-block chunks: the position and length of each part.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_chunks,) int64, bytes
        The chunks.
    has_rep, has_def : bool
        Whether chunks have repetition and definition levels.
    num_buffers : int
        Value buffers of each chunk.
    size_width : int, bytes
        2 or 4: width of the size of a value buffer.
    out : (5 + 2 * num_buffers, num_chunks) int64
        Number of levels; position and length of the repetition and of the definition levels, length 0 if
        there are none; position and length of each value buffer. Positions are counted from the start of
        ``memory``, all but the first are in bytes.

    Raises
    ------
    FormatError
        A position or length is negative, or a header or part passes the end of its chunk; ``position`` is
        the chunk.
    TruncatedError
        A chunk passes the end of ``memory``.
    ValueError
        ``size_width`` or ``num_buffers`` is impossible, or an array does not have its size.

    Source: file sheet 2.1, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import chunk_headers
    >>> chunk = np.array([2, 4, 0, 0, 0, 1, 0, 0, 7, 7, 0, 0], np.uint16).view(np.uint8)
    >>> out = np.empty((5, 1), np.int64)
    >>> chunk_headers(chunk, np.array([0]), np.array([24]), False, True, 0, 2, out)
    >>> out.ravel().tolist()
    [2, 0, 0, 8, 4]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Header header = header_of(has_rep, has_def, num_buffers, size_width)
    if lengths.shape[0] != positions.shape[0]:
        raise ValueError("arrays of chunks differ in length")
    if out.shape[0] != 5 + 2 * num_buffers or out.shape[1] != positions.shape[0]:
        raise ValueError("out needs 5 rows and two per value buffer, of one entry per chunk")
    with nogil:
        _headers(memory, positions, lengths, &header, out, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
