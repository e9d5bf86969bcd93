"""Twins of ``_offsets``: offsets of one chunk at a time as a NumPy array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_CHUNK_OFFSETS, FAULT_CHUNK_SHORT, FAULT_LENGTH, FAULT_TOO_MANY, fail
from lancecy.kernels.reference.checks import check_chunk_runs, require, same_length

__all__ = ["chunk_offsets", "zipped_offsets"]

Int64 = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]


def chunk_offsets(
    memory: NDArray[np.uint8],
    positions: Int64,
    lengths: Int64,
    counts: Int64,
    width: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out_offsets: Offsets,
    out_starts: Int64,
    out_lengths: Int64,
) -> int:
    """As :func:`lancecy.kernels.chunk_offsets`."""
    require(run_chunks, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out_starts, np.int64, writable=True)
    require(out_lengths, np.int64, writable=True)
    if width not in {4, 8}:
        raise ValueError("width must be 4 or 8")
    same_length("out_starts and out_lengths need one entry per run", run_chunks, out_starts, out_lengths)
    if out_offsets.size < 1:
        raise ValueError("out_offsets needs one entry more than values")
    chunks = (positions, lengths, counts)
    check_chunk_runs(memory, chunks, (run_chunks, run_starts, run_counts), out_offsets.size - 1)
    most = int(np.iinfo(out_offsets.dtype).max)
    row = total = 0
    out_offsets[0] = 0
    for r, count in enumerate(run_counts.tolist()):
        out_starts[r] = out_lengths[r] = 0
        if not count:
            continue
        chunk, start = int(run_chunks[r]), int(run_starts[r])
        position, length, stored = (int(numbers[chunk]) for numbers in chunks)
        if stored + 1 > length // width:
            fail(FAULT_CHUNK_SHORT, chunk)
        first = position + start * width
        raw = memory[first : first + (count + 1) * width].tobytes()
        offsets = np.frombuffer(raw, f"<i{width}").astype(np.int64)
        before, after = offsets[:-1], offsets[1:]
        bad = np.flatnonzero((before < (stored + 1) * width) | (after < before) | (after > length))
        if bad.size:
            fail(FAULT_CHUNK_OFFSETS, row + int(bad[0]))
        nbytes = int(offsets[-1]) - int(offsets[0])
        if total + nbytes > most:
            fail(FAULT_TOO_MANY, row)
        out_offsets[row + 1 : row + count + 1] = after - offsets[0] + total
        out_starts[r] = position + int(offsets[0])
        out_lengths[r] = nbytes
        total += nbytes
        row += count
    return total


def zipped_offsets(lengths: Int64, out_offsets: NDArray[Any]) -> int:
    """As :func:`lancecy.kernels.zipped_offsets`."""
    require(lengths, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    if out_offsets.size != lengths.size + 1:
        raise ValueError("out_offsets needs one entry more than lengths")
    most = int(np.iinfo(out_offsets.dtype).max)
    offsets = [0]
    for i, length in enumerate(lengths.tolist()):
        if length < 0:
            fail(FAULT_LENGTH, i)
        if offsets[-1] + length > most:
            fail(FAULT_TOO_MANY, i)
        offsets.append(offsets[-1] + length)
    out_offsets[:] = offsets
    return offsets[-1]
