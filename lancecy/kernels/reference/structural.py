"""Twin of ``_structural``: chunk headers one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import require, require_table, same_length

__all__ = ["chunk_headers"]

Int64 = NDArray[np.int64]


def parts_of(chunk: bytes, has_rep: bool, has_def: bool, sizes: int, width: int) -> list[tuple[int, int]]:
    """(position, length) of rep, def and value buffers in a chunk; fewer where they pass its end."""
    widths = [2] * (1 + has_rep + has_def) + [width] * sizes
    if sum(widths) > len(chunk):
        return []
    parts, at = [], 2
    cursor = -(-sum(widths) // 8) * 8
    for size_width in widths[1:]:
        size = int.from_bytes(chunk[at : at + size_width], "little")
        at += size_width
        if cursor + size > len(chunk):
            return []
        parts.append((cursor, size))
        cursor += -(-size // 8) * 8
    return parts


def chunk_headers(
    memory: NDArray[np.uint8],
    positions: Int64,
    lengths: Int64,
    has_rep: bool,
    has_def: bool,
    num_buffers: int,
    size_width: int,
    out: NDArray[np.int64],
) -> None:
    """As :func:`lancecy.kernels.chunk_headers`."""
    require(memory, np.uint8)
    require(positions, np.int64)
    require(lengths, np.int64)
    if size_width not in {2, 4}:
        raise ValueError("size_width must be 2 or 4")
    if not 0 <= num_buffers <= 0xFFFF:
        raise ValueError("num_buffers is negative or too large")
    same_length("arrays of chunks differ in length", positions, lengths)
    require_table(out, writable=True)
    if out.shape != (5 + 2 * num_buffers, positions.size):
        raise ValueError("out needs 5 rows and two per value buffer, of one entry per chunk")
    wanted = has_rep + has_def + num_buffers
    for i, (position, length) in enumerate(zip(positions.tolist(), lengths.tolist(), strict=True)):
        if position < 0 or length < 0:
            fail(Fault.NEGATIVE, i)
        if position + length > memory.size:
            fail(Fault.TRUNCATED, i)
        chunk = memory[position : position + length].tobytes()
        parts = parts_of(chunk, has_rep, has_def, num_buffers, size_width)
        if len(parts) != wanted or length < 2:
            fail(Fault.CHUNK_PARTS, i)
        placed = [(position + start, size) for start, size in parts]
        rep = placed.pop(0) if has_rep else (position, 0)
        definition = placed.pop(0) if has_def else (position, 0)
        numbers = [number for part in (rep, definition, *placed) for number in part]
        out[:, i] = [int.from_bytes(chunk[:2], "little"), *numbers]
