"""Decompresses raw LZ4 blocks, all blocks of a column in one call.

A block is a series of sequences: a token with two lengths of four bits, literal bytes, and a
match, which repeats output from up to 65,535 bytes back::

    token | more of the literal length | literals | u16 distance | more of the match length

The last sequence ends after its literals. A length of 15 continues in further bytes, the last
of which is not 255. Matches may overlap their own output.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_CHUNK_NEGATIVE,
    FAULT_CHUNK_TRUNCATED,
    FAULT_LZ4,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    Fault,
    has,
    load16,
    load64,
    store64,
)

from lancecy.kernels._codes import fail

__all__ = ["lz4_blocks"]

cdef enum:
    MORE = 15
    MIN_MATCH = 4
    # Lengths up to this one are copied as two words if there is room.
    SHORT = 16

cdef struct Cursor:
    # One block: bytes from `at` to `end` are left to read, `out` to `out_end` to write; the output begins
    # at `first`.
    const uint8_t *at
    const uint8_t *end
    uint8_t *first
    uint8_t *out
    uint8_t *out_end


cdef inline int64_t _length(Cursor *cursor, int64_t nibble) except -2 nogil:
    # A length that may continue in further bytes; -1 if they pass the end. A byte adds at most 255: the
    # sum cannot overflow.
    # bounds: at is tested against end before each byte.
    cdef int64_t length = nibble
    cdef uint8_t more = 255
    if nibble < MORE:
        return length
    while more == 255:
        if cursor.at == cursor.end:
            return -1
        more = cursor.at[0]
        cursor.at += 1
        length += more
    return length


cdef inline int64_t _literals(Cursor *cursor, int64_t length) except -2 nogil:
    # bounds: both sides are tested for `length` bytes, and for two words where these are copied instead.
    cdef int64_t present = cursor.end - cursor.at, room = cursor.out_end - cursor.out
    if length > present or length > room:
        return -1
    if length <= SHORT and present >= SHORT and room >= SHORT:
        store64(cursor.out, load64(cursor.at))
        store64(cursor.out + 8, load64(cursor.at + 8))
    elif length > 0:
        memcpy(cursor.out, cursor.at, length)
    cursor.at += length
    cursor.out += length
    return 0


cdef inline int64_t _match(Cursor *cursor, int64_t distance, int64_t length) except -2 nogil:
    # bounds: the distance is tested against the output so far, the length against the room left. Whole words
    # are copied only where there is room for two beyond the length, and only from at least eight bytes back;
    # the rest goes in parts that do not overlap, each of which doubles the repeatable part.
    cdef int64_t done = 0, part, room = cursor.out_end - cursor.out
    cdef uint8_t *out = cursor.out
    if distance == 0 or distance > cursor.out - cursor.first or length > room:
        return -1
    cursor.out += length
    if distance >= 8 and room - length >= SHORT:
        while done < length:
            store64(out + done, load64(out + done - distance))
            store64(out + done + 8, load64(out + done + 8 - distance))
            done += 16
        return 0
    while done < length:
        part = min(distance + done, length - done)
        memcpy(out + done, out - distance, part)
        done += part
    return 0


cdef int64_t _block(Cursor *whole) except -2 nogil:
    # 0 if the block's last literals end exactly at the end of the output, else -1.
    # The output is bytes, which may alias anything in C: a local copy can stay in registers.
    # bounds: nothing is read at the end; every turn of the loop reads a token.
    cdef Cursor copy = whole[0]
    cdef Cursor *cursor = &copy
    cdef int64_t token, length, distance
    while cursor.at < cursor.end:
        token = cursor.at[0]
        cursor.at += 1
        length = _length(cursor, token >> 4)
        if length < 0 or _literals(cursor, length) < 0:
            return -1
        if cursor.at == cursor.end:
            return 0 if cursor.out == cursor.out_end else -1
        if cursor.end - cursor.at < 2:
            return -1
        distance = load16(cursor.at)
        cursor.at += 2
        length = _length(cursor, token & MORE)
        if length < 0 or _match(cursor, distance, length + MIN_MATCH) < 0:
            return -1
    return -1


cdef int64_t _check(
    const int64_t[::1] positions, const int64_t[::1] lengths, const int64_t[::1] sizes, int64_t memory_size,
    int64_t capacity, Fault *fault,
) except -2 nogil:
    # Every block is in memory and together they have the size of out. bounds: checked by Cython.
    cdef Py_ssize_t i
    for i in range(positions.shape[0]):
        fault.index = i
        if positions[i] < 0 or lengths[i] < 0 or sizes[i] < 0:
            fault.code = FAULT_CHUNK_NEGATIVE
            return -1
        if not has(positions[i], lengths[i], memory_size):
            fault.code = FAULT_CHUNK_TRUNCATED
            return -1
        if sizes[i] > capacity:
            fault.code = FAULT_OUT_SIZE
            return -1
        capacity -= sizes[i]
    fault.code = FAULT_NONE if capacity == 0 else FAULT_OUT_SIZE
    return 0


def lz4_blocks(
    const uint8_t[::1] memory not None,
    const int64_t[::1] positions not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] sizes not None,
    uint8_t[::1] out not None,
):
    """Decompress raw LZ4 blocks into one buffer.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    positions, lengths : (num_blocks,) int64, bytes
        Span of each block, without the length that is stored before it.
    sizes : (num_blocks,) int64, bytes
        Decompressed size of each block.
    out : (sum(sizes),) uint8

    Raises
    ------
    FormatError
        A position or length is negative, or a block is damaged or has another length; ``position`` is the
        block.
    TruncatedError
        A block passes the end of ``memory``; ``position`` is the block.
    ValueError
        The arrays differ in length, or ``out`` does not have the size of all blocks together.

    Notes
    -----
    Accepts every block that follows the format, also those whose last match ends closer to the end of the
    block than compressors leave it. Matches do not reach into the block before.

    Source: general compression, file versions 2.0 and later; LZ4 block format.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import lz4_blocks
    >>> block = np.frombuffer(b"\\x22ab\\x02\\x00\\x10c", np.uint8)
    >>> out = np.empty(9, np.uint8)
    >>> lz4_blocks(block, np.array([0]), np.array([7]), np.array([9]), out)
    >>> out.tobytes()
    b'ababababc'
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef Cursor cursor
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] > 0 else NULL
    cdef Py_ssize_t i
    if lengths.shape[0] != positions.shape[0] or sizes.shape[0] != positions.shape[0]:
        raise ValueError("positions, lengths and sizes differ in length")
    with nogil:
        _check(positions, lengths, sizes, memory.shape[0], out.shape[0], &fault)
        if fault.code == FAULT_NONE:
            for i in range(positions.shape[0]):
                cursor.at = source + positions[i]
                cursor.end = cursor.at + lengths[i]
                cursor.first = cursor.out = target
                cursor.out_end = target = target + sizes[i]
                if _block(&cursor) < 0:
                    fault.code, fault.index = FAULT_LZ4, i
                    break
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
