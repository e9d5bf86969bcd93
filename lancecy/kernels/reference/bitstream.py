"""Twin of ``_bitstream``: a stream is split into bits, which are joined value by value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_NEGATIVE, FAULT_OUT_SIZE, FAULT_TRUNCATED, fail
from lancecy.kernels.reference.bitpack import integers, word_type
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["unpack_stream"]

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def _check_streams(memory: Bytes, runs: list[tuple[int, int, int]], packed_bits: int, capacity: int) -> None:
    for i, (position, offset, count) in enumerate(runs):
        if count < 0:
            fail(FAULT_NEGATIVE, i)
        if count > capacity:
            fail(FAULT_OUT_SIZE, i)
        capacity -= count
        if count and (position < 0 or offset < 0):
            fail(FAULT_NEGATIVE, i)
        if count and position + (offset + count * packed_bits + 7) // 8 > memory.size:
            fail(FAULT_TRUNCATED, i)
    if capacity:
        fail(FAULT_OUT_SIZE, len(runs))


def unpack_stream(
    memory: Bytes,
    positions: Int64,
    bit_offsets: Int64,
    counts: Int64,
    packed_bits: int,
    bits: int,
    signed: bool,
    out: Bytes,
) -> None:
    """As :func:`lancecy.kernels.unpack_stream`."""
    require(memory, np.uint8)
    for numbers in (positions, bit_offsets, counts):
        require(numbers, np.int64)
    word = word_type(bits, out)
    if not 1 <= packed_bits <= bits:
        raise ValueError("packed_bits must be in 1 .. bits")
    same_length("positions, bit_offsets and counts differ in length", positions, bit_offsets, counts)
    runs = list(zip(positions.tolist(), bit_offsets.tolist(), counts.tolist(), strict=True))
    _check_streams(memory, runs, packed_bits, out.size // word.itemsize)
    done = 0
    for position, offset, count in runs:
        if not count:
            continue
        first, size = position + offset // 8, count * packed_bits
        stream = np.unpackbits(memory[first : first + (offset % 8 + size + 7) // 8], bitorder="little")
        rows = stream[offset % 8 : offset % 8 + size].reshape(count, packed_bits)
        if signed:
            sign = np.repeat(rows[:, -1:], bits - packed_bits, axis=1)
            rows = np.concatenate([rows, sign], axis=1)
        part = integers(rows, bits)
        out[done : done + part.nbytes] = part.view(np.uint8)
        done += part.nbytes
