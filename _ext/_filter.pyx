"""Copies the values whose bit in a bitmap is set, and finds the elements of such lists.

Bits are looked at 64 at a time: a loop over those that are set has one branch for each word
and not one for each value.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from bitwords cimport BitWords, bit_words, next_word
from cursor cimport FAULT_LIST_OFFSETS, FAULT_NONE, FAULT_OUT_SIZE, Fault, lowest64, ones64
from offsets cimport Offset

from lancecy.kernels._codes import fail

__all__ = ["filter_fixed", "filter_lists"]


cdef Py_ssize_t _move(
    const uint8_t *values, int64_t width, uint64_t word, uint8_t *out
) except -2 nogil:
    # Copy the values of a word that is not 0. The widths of most columns are known here, so that a copy is
    # one move.
    # bounds: there is a value for each bit up to the highest one set, and room for those of all set bits.
    cdef uint8_t *start = out
    if width == 8:
        while word != 0:
            memcpy(out, values + 8 * lowest64(word), 8)
            out += 8
            word &= word - 1
    elif width == 4:
        while word != 0:
            memcpy(out, values + 4 * lowest64(word), 4)
            out += 4
            word &= word - 1
    elif width == 2:
        while word != 0:
            memcpy(out, values + 2 * lowest64(word), 2)
            out += 2
            word &= word - 1
    elif width == 1:
        while word != 0:
            out[0] = values[lowest64(word)]
            out += 1
            word &= word - 1
    else:
        while word != 0:
            memcpy(out, values + width * lowest64(word), width)
            out += width
            word &= word - 1
    return out - start


cdef Py_ssize_t _filter(
    const uint8_t *values, int64_t width, BitWords *words, uint8_t *out, Py_ssize_t room
) except -2 nogil:
    # The bytes written; -1 if there are more set bits than room for values.
    # bounds: values has one for each bit; every word is tested to have room.
    cdef Py_ssize_t done = 0
    cdef int64_t part
    cdef uint64_t word = 0
    while words.left > 0:
        part = next_word(words, &word)
        if word != 0:
            if room - done < <Py_ssize_t> (width * <int64_t> ones64(word)):
                return -1
            if word == 0xFFFFFFFFFFFFFFFFu:
                memcpy(out + done, values, 64 * width)
                done += 64 * width
            else:
                done += _move(values, width, word, out + done)
        values += part * width
    return done


def filter_fixed(
    const uint8_t[::1] values not None,
    int64_t width,
    const uint8_t[::1] bits not None,
    int64_t first,
    int64_t count,
    uint8_t[::1] out not None,
):
    """Copy the values whose bit is set, and return their number.

    Parameters
    ----------
    values : (count * width,) uint8, may be read-only
    width : int, bytes
        Of a value; at least 1.
    bits : (nbytes,) uint8, may be read-only
    first, count : int, bits
        The bit of the first value, and the number of values.
    out : (num_set * width,) uint8
        May be larger; the rest is not written.

    Returns
    -------
    int
        Number of set bits.

    Raises
    ------
    FormatError
        ``first`` or ``count`` is negative; ``position`` is 0.
    TruncatedError
        The bits pass the end of ``bits``; ``position`` is 0.
    ValueError
        ``width`` is less than 1, ``values`` does not have its size, or ``out`` is too small.

    Source: Arrow columnar format, bitmaps.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import filter_fixed
    >>> out = np.empty(2, np.uint8)
    >>> filter_fixed(np.array([5, 6, 7], np.uint8), 1, np.array([0b1010], np.uint8), 1, 3, out), out.tolist()
    (2, [5, 7])
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Py_ssize_t done = 0
    if width < 1:
        raise ValueError("values have one byte or more")
    cdef BitWords words = bit_words(bits, first, count, &fault)
    if fault.code == FAULT_NONE and (values.shape[0] % width != 0 or values.shape[0] // width != count):
        raise ValueError("values need `width` bytes for each of `count` bits")
    if words.left > 0:
        with nogil:
            done = _filter(&values[0], width, &words, &out[0] if out.shape[0] > 0 else NULL, out.shape[0])
        if done < 0:
            fault.code = FAULT_OUT_SIZE
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return done // width


cdef int64_t _mark(uint8_t *marks, int64_t first, int64_t stop) except -2 nogil:
    # Set the bits from `first` to before `stop`. bounds: the caller has tested that they are in marks.
    cdef int64_t at = first >> 3, last = stop >> 3
    if first >= stop:
        return 0
    if at == last:
        marks[at] |= <uint8_t> ((0xFF << (first & 7)) & ~(0xFF << (stop & 7)))
        return 0
    marks[at] |= <uint8_t> (0xFF << (first & 7))
    if last - at > 1:
        memset(marks + at + 1, 0xFF, last - at - 1)
    if stop & 7:
        marks[last] |= <uint8_t> ~(0xFF << (stop & 7))
    return 0


cdef int64_t _num_set(BitWords words) except -2 nogil:
    cdef int64_t total = 0
    cdef uint64_t word = 0
    while words.left > 0:
        next_word(&words, &word)
        total += <int64_t> ones64(word)
    return total


cdef Py_ssize_t _filter_lists(
    const Offset *offsets, BitWords *words, Offset *out, uint8_t *marks, int64_t size, Fault *fault
) except -2 nogil:
    # The number of kept lists. Neighbours are marked together.
    # bounds: offsets has one more than there are bits, out one more than bits that are set; ranges are tested
    # to ascend within `size`.
    cdef Py_ssize_t found = 0
    cdef int64_t row = 0, first = 0, stop = 0, begin, end, index, part
    cdef uint64_t word = 0, base = <uint64_t> offsets[0]
    out[0] = 0
    while words.left > 0:
        part = next_word(words, &word)
        while word != 0:
            index = row + lowest64(word)
            word &= word - 1
            # Unsigned, so that nothing overflows: what wraps around is tested like any other range.
            begin = <int64_t> (<uint64_t> offsets[index] - base)
            end = <int64_t> (<uint64_t> offsets[index + 1] - base)
            if begin < stop or end < begin or end > size:
                fault.code, fault.index = FAULT_LIST_OFFSETS, index
                return 0
            if begin != stop:
                _mark(marks, first, stop)
                first = begin
            stop = end
            found += 1
            out[found] = <Offset> (out[found - 1] + (end - begin))
        row += part
    _mark(marks, first, stop)
    return found


def filter_lists(
    const Offset[::1] offsets not None,
    const uint8_t[::1] bits not None,
    int64_t first,
    Offset[::1] out_offsets not None,
    uint8_t[::1] out_bits not None,
):
    """Find the elements of the lists whose bit is set, and return the number of these lists.

    Parameters
    ----------
    offsets : (num_lists + 1,) int32 or int64, may be read-only
        Start of each list, and the end of the last one; the first may be any.
    bits : (nbytes,) uint8, may be read-only
    first : int, bits
        The bit of the first list.
    out_offsets : (num_set + 1,) as ``offsets``
        From 0 on. May be larger; the rest is not written.
    out_bits : (ceil(num_elements / 8),) uint8
        One bit for each element between the first and the last offset, all 0 before; those of the lists are
        set.

    Returns
    -------
    int
        Number of set bits.

    Raises
    ------
    FormatError
        ``first`` is negative (``position`` is 0), or the offsets of a list that is kept do not ascend, or its
        elements have no bits (``position`` is the list).
    TruncatedError
        The bits pass the end of ``bits``; ``position`` is 0.
    ValueError
        There is no offset or no room for one, or ``out_offsets`` is too small.

    Source: Arrow columnar format, lists and bitmaps.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import filter_lists
    >>> offsets, out, bits = np.array([4, 6, 6, 9], np.int32), np.empty(3, np.int32), np.zeros(1, np.uint8)
    >>> filter_lists(offsets, np.array([0b110], np.uint8), 0, out, bits), out.tolist(), bin(bits[0])
    (2, [0, 0, 3], '0b11100')
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Py_ssize_t found = 0
    if offsets.shape[0] < 1 or out_offsets.shape[0] < 1:
        raise ValueError("offsets and out_offsets have one entry or more")
    cdef BitWords words = bit_words(bits, first, offsets.shape[0] - 1, &fault)
    if fault.code == FAULT_NONE:
        with nogil:
            if _num_set(words) >= out_offsets.shape[0]:
                fault.code = FAULT_OUT_SIZE
            else:
                found = _filter_lists(
                    &offsets[0], &words, &out_offsets[0], &out_bits[0] if out_bits.shape[0] > 0 else NULL,
                    8 * out_bits.shape[0], &fault,
                )
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return found
