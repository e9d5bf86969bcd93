"""Copies spans of bytes and fixed-width values.

These kernels move bytes and know no types. Inputs are checked before or while they are used; the
caller allocates ``out`` with exactly the size of the result. ``out`` must not overlap ``memory``.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_NEGATIVE,
    FAULT_NONE,
    FAULT_TRUNCATED,
    Fault,
    check_runs,
)

from lancecy.kernels._codes import fail

__all__ = ["copy_spans", "gather_fixed"]

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    /* As memcpy, but bypassing the caches where the processor can: memory that is overwritten whole need not
       be read first, and data larger than a cache would evict what is needed next. */
    static inline void lancecy_copy_past(uint8_t *out, const uint8_t *source, uint64_t size)
    {
    #if defined(__SSE2__)
        uint64_t head = (0 - (uint64_t) (uintptr_t) out) & 15;
        if (size < 256) { memcpy(out, source, size); return; }
        memcpy(out, source, head);
        out += head, source += head, size -= head;
        for (; size >= 64; size -= 64, source += 64, out += 64) {
            const __m128i *from = (const __m128i *) source;
            __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
            __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
            _mm_stream_si128((__m128i *) out, a), _mm_stream_si128((__m128i *) out + 1, b);
            _mm_stream_si128((__m128i *) out + 2, c), _mm_stream_si128((__m128i *) out + 3, d);
        }
    #endif
        memcpy(out, source, size);
    }

    /* Orders the copy that bypassed the caches before this thread's next writes. */
    static inline void lancecy_copied(void)
    {
    #if defined(__SSE2__)
        _mm_sfence();
    #endif
    }
    """
    void copy_past "lancecy_copy_past"(uint8_t *out, const uint8_t *source, uint64_t size) nogil
    void copied "lancecy_copied"() nogil

cdef enum:
    # Copies larger than this exceed a core's own cache.
    LARGE = 4194304


cdef int64_t _copy(
    const uint8_t *memory,
    const int64_t *positions,
    const int64_t *lengths,
    Py_ssize_t count,
    bint is_large,
    uint8_t *out,
) except -2 nogil:
    # bounds: check_runs has shown that every span that is not empty is in memory, and that the lengths add
    # up to that of out.
    cdef Py_ssize_t i
    cdef int64_t done = 0
    for i in range(count):
        if lengths[i] > 0:
            if is_large:
                copy_past(out + done, memory + positions[i], <uint64_t> lengths[i])
            else:
                memcpy(out + done, memory + positions[i], <size_t> lengths[i])
            done += lengths[i]
    if is_large:
        copied()
    return done


def copy_spans(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    uint8_t[::1] out not None,
):
    """Copy byte spans into ``out``, concatenated, and return the number of bytes written.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_spans,) int64, bytes
        Spans in ``memory``, in any order, overlapping or not. A span of length 0 may have any position.
    out : (sum(lengths),) uint8

    Returns
    -------
    int
        ``len(out)``.

    Raises
    ------
    FormatError
        A position or length is negative; ``position`` is the index of the span.
    TruncatedError
        A span passes the end of ``memory``; ``position`` is the index of the span.
    ValueError
        The arrays differ in length, or ``out`` is not as long as all spans together.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import copy_spans
    >>> out = np.empty(3, np.uint8)
    >>> copy_spans(np.arange(9, dtype=np.uint8), np.array([7, 2]), np.array([2, 1]), out)
    3
    >>> out.tolist()
    [7, 8, 2]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef const int64_t *first = &positions[0] if positions.shape[0] > 0 else NULL
    cdef const int64_t *sizes = &lengths[0] if lengths.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    cdef int64_t done = 0
    if lengths.shape[0] != positions.shape[0]:
        raise ValueError("positions and lengths differ in length")
    with nogil:
        check_runs(positions, lengths, memory.shape[0], 0, 0, out.shape[0], &fault)
        if fault.code == FAULT_NONE and target is not NULL:
            done = _copy(source, first, sizes, positions.shape[0], out.shape[0] >= LARGE, target)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return done


cdef inline uint64_t _gather(
    const uint8_t *memory,
    uint64_t last,
    const int64_t *positions,
    Py_ssize_t count,
    size_t width,
    uint8_t *out,
) except? 2 nogil:
    # bounds: a position beyond `last` (compared as unsigned, so negative ones too) becomes 0 before the load;
    # the caller has shown that memory has at least `width` bytes and out has count * width.
    # Called with literal widths, so that the copies become single moves.
    cdef Py_ssize_t i
    cdef uint64_t position, inside, bad = 0
    for i in range(count):
        position = <uint64_t> positions[i]
        inside = position <= last
        bad |= inside ^ 1
        memcpy(out + <size_t> i * width, memory + (position & (0 - inside)), width)
    return bad


cdef int64_t _first_outside(const int64_t[::1] positions, int64_t last) except -2 nogil:
    cdef Py_ssize_t i
    for i in range(positions.shape[0]):
        if positions[i] < 0 or positions[i] > last:
            return i
    return -1


def gather_fixed(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    Py_ssize_t width,
    uint8_t[::1] out not None,
):
    """Copy one value of ``width`` bytes from each position.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions : (num_values,) int64, bytes
        Where the values start, in any order and unaligned.
    width : int, bytes
        At least 1.
    out : (num_values * width,) uint8

    Raises
    ------
    FormatError
        A position is negative; ``position`` is its index.
    TruncatedError
        A value passes the end of ``memory``; ``position`` is the index of the value.
    ValueError
        ``width`` is below 1 or ``out`` has another size.

    Notes
    -----
    A bad position is read as 0, recorded, and raised after the loop, which keeps the loop free of branches.
    The content of ``out`` is then undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import gather_fixed
    >>> values = np.arange(5, dtype="<i4")
    >>> out = np.empty(2, "<i4")
    >>> gather_fixed(values.view(np.uint8), np.array([16, 4]), 4, out.view(np.uint8))
    >>> out.tolist()
    [4, 1]
    """
    cdef Py_ssize_t count = positions.shape[0]
    cdef int64_t last = memory.shape[0] - width
    cdef int64_t index = 0
    cdef uint64_t bad = 1
    cdef const uint8_t *source
    cdef const int64_t *first
    cdef uint8_t *target
    if width < 1:
        raise ValueError("width must be at least 1")
    if out.shape[0] % width != 0 or out.shape[0] // width != count:
        raise ValueError("out does not have one value per position")
    if count == 0:
        return
    if last >= 0:
        source = &memory[0]
        first = &positions[0]
        target = &out[0]
        with nogil:
            if width == 1:
                bad = _gather(source, last, first, count, 1, target)
            elif width == 2:
                bad = _gather(source, last, first, count, 2, target)
            elif width == 4:
                bad = _gather(source, last, first, count, 4, target)
            elif width == 8:
                bad = _gather(source, last, first, count, 8, target)
            elif width == 16:
                bad = _gather(source, last, first, count, 16, target)
            else:
                bad = _gather(source, last, first, count, width, target)
    if bad != 0:
        index = _first_outside(positions, last)
        fail(FAULT_NEGATIVE if positions[index] < 0 else FAULT_TRUNCATED, index)
