"""Twin of ``_runs``: every chunk repeated in full, then cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import (
    FAULT_CHUNK_NEGATIVE,
    FAULT_CHUNK_TRUNCATED,
    FAULT_OUT_SIZE,
    FAULT_RUN_LENGTHS,
    fail,
)
from lancecy.kernels.reference.checks import check_chunk_runs, require, same_length

__all__ = ["expand_runs"]

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def _lengths(memory: Bytes, chunk: int, position: int, nbytes: int, width: int) -> list[int]:
    if position < 0 or nbytes < 0:
        fail(FAULT_CHUNK_NEGATIVE, chunk)
    if position + nbytes > memory.size:
        fail(FAULT_CHUNK_TRUNCATED, chunk)
    raw = memory[position : position + nbytes // width * width].tobytes()
    lengths: list[int] = np.frombuffer(raw, f"<u{width}").tolist()
    return lengths


def expand_runs(
    memory: Bytes,
    value_positions: Int64,
    value_lengths: Int64,
    length_positions: Int64,
    length_lengths: Int64,
    counts: Int64,
    width: int,
    length_width: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out: Bytes,
) -> None:
    """As :func:`lancecy.kernels.expand_runs`."""
    require(out, np.uint8, writable=True)
    for numbers in (length_positions, length_lengths, counts):
        require(numbers, np.int64)
    if width < 1:
        raise ValueError("width must be at least 1")
    if length_width not in (1, 2, 4, 8):
        raise ValueError("length_width must be 1, 2, 4 or 8")
    same_length("the arrays of the chunks differ in length", length_positions, length_lengths, counts)
    if out.size % width:
        fail(FAULT_OUT_SIZE, 0)
    chunks, runs = (value_positions, value_lengths, counts), (run_chunks, run_starts, run_counts)
    done = 0
    for chunk, start, count in check_chunk_runs(memory, chunks, runs, out.size // width):
        position, nbytes = int(length_positions[chunk]), int(length_lengths[chunk])
        lengths = _lengths(memory, chunk, position, nbytes, length_width)
        first, num_values = int(value_positions[chunk]), int(value_lengths[chunk]) // width
        if num_values != len(lengths):
            fail(FAULT_RUN_LENGTHS, chunk)
        for value, length in enumerate(lengths):
            if count == 0:
                break
            copies = min(max(0, length - start), count)
            source = first + value * width
            out[done : done + copies * width] = np.tile(memory[source : source + width], copies)
            done += copies * width
            count -= copies
            start = max(0, start - length)
        if count:
            fail(FAULT_RUN_LENGTHS, chunk)
