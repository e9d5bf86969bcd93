"""Twin of ``_bits``: bitmaps are unpacked to one byte per bit and packed again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_NEGATIVE, FAULT_OUT_SIZE, FAULT_TRUNCATED, fail
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["copy_bits"]


def _check(runs: list[tuple[int, int, int]], memory_size: int, out_size: int) -> None:
    total = 0
    for i, (position, bit_offset, count) in enumerate(runs):
        total += count
        if count < 0:
            fail(FAULT_NEGATIVE, i)
        if total > 8 * out_size:
            fail(FAULT_OUT_SIZE, i)
        if count and (position < 0 or bit_offset < 0):
            fail(FAULT_NEGATIVE, i)
        if count and 8 * position + bit_offset + count > 8 * memory_size:
            fail(FAULT_TRUNCATED, i)
    if (total + 7) // 8 != out_size:
        fail(FAULT_OUT_SIZE, len(runs))


def copy_bits(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    bit_offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.copy_bits`."""
    require(memory, np.uint8)
    for numbers in (positions, bit_offsets, counts):
        require(numbers, np.int64)
    require(out, np.uint8, writable=True)
    same_length("positions, bit_offsets and counts differ in length", positions, bit_offsets, counts)
    runs = list(zip(positions.tolist(), bit_offsets.tolist(), counts.tolist(), strict=True))
    _check(runs, memory.size, out.size)
    pieces = [np.empty(0, np.uint8)]
    for position, bit_offset, count in runs:
        if count:
            first = position + bit_offset // 8
            skip = bit_offset % 8
            used = memory[first : first + (skip + count + 7) // 8]
            pieces.append(np.unpackbits(used, bitorder="little")[skip : skip + count])
    bits = np.concatenate(pieces)
    out[:] = np.packbits(bits, bitorder="little")
    return int(bits.sum())
