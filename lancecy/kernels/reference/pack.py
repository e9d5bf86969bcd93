"""Twin of ``_pack``: lays out the bits of every value one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_BIT_WIDTH, FAULT_NEGATIVE, FAULT_OUT_SIZE, FAULT_TRUNCATED, fail
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["pack_blocks"]

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def pack_blocks(
    values: NDArray[np.uint8],
    bits: int,
    widths: NDArray[np.int64],
    out: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None:
    """As :func:`lancecy.kernels.pack_blocks`."""
    require(values, np.uint8)
    require(out, np.uint8, writable=True)
    for numbers in (widths, positions):
        require(numbers, np.int64)
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"words of {bits} bits")
    same_length("the arrays of the blocks differ in length", widths, positions)
    num_blocks, rest = divmod(values.size, 128 * bits)
    if num_blocks != widths.size or rest:
        fail(FAULT_TRUNCATED, num_blocks)
    blocks = values.reshape(num_blocks, 1024, bits // 8)
    for i, (width, position) in enumerate(zip(widths.tolist(), positions.tolist(), strict=True)):
        if not 0 <= width <= bits:
            fail(FAULT_BIT_WIDTH, i)
        if position < 0:
            fail(FAULT_NEGATIVE, i)
        if position + 128 * width > out.size:
            fail(FAULT_OUT_SIZE, i)
        out[position : position + 128 * width] = _packed(blocks[i], bits, width)


def _packed(block: NDArray[np.uint8], bits: int, width: int) -> NDArray[np.uint8]:
    lanes = 1024 // bits
    rows, lane = np.meshgrid(np.arange(bits), np.arange(lanes), indexing="ij")
    index = np.array(_ORDER)[rows // 8] * 16 + rows % 8 * 128 + lane
    # (rows, lanes, width) bits become (lanes, rows * width) bits: the stream of each lane, T bits to a word.
    kept = np.unpackbits(block, axis=1, bitorder="little")[index][:, :, :width]
    streams = kept.transpose(1, 0, 2).reshape(lanes, width, bits)
    words = np.packbits(streams, axis=2, bitorder="little")
    packed: NDArray[np.uint8] = words.transpose(1, 0, 2).ravel()
    return packed
