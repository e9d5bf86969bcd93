"""Twin of ``_lz4``: sequence by sequence, matches byte by byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import (
    FAULT_CHUNK_NEGATIVE,
    FAULT_CHUNK_TRUNCATED,
    FAULT_LZ4,
    FAULT_OUT_SIZE,
    fail,
)
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["lz4_blocks"]


def _length(block: bytes, at: int, nibble: int) -> tuple[int, int]:
    """A length that may continue in further bytes, and the position after them; IndexError if they do not end."""
    length = nibble
    while nibble == 15:
        length += block[at]
        at += 1
        if block[at - 1] != 255:
            break
    return length, at


def _decompressed(block: bytes, size: int) -> bytes | None:
    """The ``size`` decompressed bytes of a block; None if it is damaged."""
    out = bytearray()
    at = 0
    try:
        while True:
            token = block[at]
            literals, at = _length(block, at + 1, token >> 4)
            if literals > min(len(block) - at, size - len(out)):
                return None
            out += block[at : at + literals]
            at += literals
            if at == len(block):
                return bytes(out) if len(out) == size else None
            distance = block[at] | block[at + 1] << 8
            length, at = _length(block, at + 2, token & 15)
            if not 1 <= distance <= len(out) or length + 4 > size - len(out):
                return None
            for _ in range(length + 4):
                out.append(out[-distance])
    except IndexError:
        return None


def lz4_blocks(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.lz4_blocks`."""
    require(memory, np.uint8)
    for numbers in (positions, lengths, sizes):
        require(numbers, np.int64)
    require(out, np.uint8, writable=True)
    same_length("positions, lengths and sizes differ in length", positions, lengths, sizes)
    blocks = list(zip(positions.tolist(), lengths.tolist(), sizes.tolist(), strict=True))
    capacity = out.size
    for i, (position, length, size) in enumerate(blocks):
        if position < 0 or length < 0 or size < 0:
            fail(FAULT_CHUNK_NEGATIVE, i)
        if position + length > memory.size:
            fail(FAULT_CHUNK_TRUNCATED, i)
        if size > capacity:
            fail(FAULT_OUT_SIZE, i)
        capacity -= size
    if capacity:
        fail(FAULT_OUT_SIZE, len(blocks))
    done = 0
    for i, (position, length, size) in enumerate(blocks):
        text = _decompressed(memory[position : position + length].tobytes(), size)
        if text is None:
            fail(FAULT_LZ4, i)
        out[done : done + size] = np.frombuffer(text, np.uint8)
        done += size
