"""Scatters spans of bytes to given positions, for writers that assemble pages."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from cursor cimport FAULT_NEGATIVE, FAULT_NONE, FAULT_OUT_SIZE, FAULT_TRUNCATED, Fault, has
from short_work cimport FEW_BYTES, FEW_VALUES

from lancecy.kernels._codes import fail

__all__ = ["place_spans"]


cdef int64_t _place(
    const uint8_t *memory,
    int64_t memory_size,
    const int64_t *starts,
    const int64_t *lengths,
    const int64_t *positions,
    Py_ssize_t num_spans,
    uint8_t *out,
    int64_t out_size,
    Fault *fault,
) except -2 nogil:
    # bounds: the three arrays have num_spans entries; a span is copied only if it fits on both sides.
    cdef Py_ssize_t i
    fault.code = FAULT_NONE
    for i in range(num_spans):
        if lengths[i] == 0:
            continue
        fault.index = i
        if starts[i] < 0 or lengths[i] < 0:
            fault.code = FAULT_NEGATIVE
            return -1
        if not has(starts[i], lengths[i], memory_size):
            fault.code = FAULT_TRUNCATED
            return -1
        if not has(positions[i], lengths[i], out_size):
            fault.code = FAULT_OUT_SIZE
            return -1
        memcpy(out + positions[i], memory + starts[i], lengths[i])
    return 0


cdef bint _is_short(const int64_t *lengths, Py_ssize_t num_spans) except -2 nogil:
    # bounds: the array has num_spans entries; the sum stays below FEW_BYTES * (FEW_VALUES + 1).
    cdef Py_ssize_t i
    cdef int64_t nbytes = 0
    if num_spans > FEW_VALUES:
        return False
    for i in range(num_spans):
        if lengths[i] < 0 or lengths[i] > FEW_BYTES:
            return False
        nbytes += lengths[i]
    return nbytes <= FEW_BYTES


def place_spans(
    const uint8_t[::1] memory not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    uint8_t[::1] out not None,
    const int64_t[::1] positions not None,
):
    """Copy each span of bytes to its own position; other bytes of ``out`` are unchanged.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    starts, lengths : (num_spans,) int64, bytes
        Spans of ``memory``; an empty one may start anywhere.
    out : (size,) uint8
        Must not overlap ``memory``.
    positions : (num_spans,) int64, bytes
        Position in ``out`` of each span.

    Raises
    ------
    FormatError
        A start or a length is negative; ``position`` is the index of the span.
    TruncatedError
        A span passes the end of ``memory``.
    ValueError
        A span passes the end of ``out``, or the arrays differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import place_spans
    >>> out = np.zeros(5, np.uint8)
    >>> place_spans(np.array([7, 8, 9], np.uint8), np.array([0, 2]), np.array([2, 1]), out, np.array([3, 0]))
    >>> out.tolist()
    [9, 0, 0, 7, 8]
    """
    cdef Fault fault
    cdef int64_t done = 0
    if lengths.shape[0] != starts.shape[0] or positions.shape[0] != starts.shape[0]:
        raise ValueError("the arrays of the spans differ in length")
    if starts.shape[0] == 0:
        return
    # An empty array has no first byte to point at; nothing is then read or written through NULL.
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    if _is_short(&lengths[0], lengths.shape[0]):
        done = _place(
            source, memory.shape[0], &starts[0], &lengths[0], &positions[0], starts.shape[0],
            target, out.shape[0], &fault,
        )
    else:
        with nogil:
            done = _place(
                source, memory.shape[0], &starts[0], &lengths[0], &positions[0], starts.shape[0],
                target, out.shape[0], &fault,
            )
    if done < 0:
        fail(fault.code, fault.index)
