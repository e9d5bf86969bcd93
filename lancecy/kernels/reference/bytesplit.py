"""Twin of ``_bytesplit``: transposes the matrix whose rows are a chunk's streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_CHUNK_SHORT, FAULT_OUT_SIZE, fail
from lancecy.kernels.reference.checks import check_chunk_runs, require

__all__ = ["join_bytes"]

Int64 = NDArray[np.int64]


def join_bytes(
    memory: NDArray[np.uint8],
    positions: Int64,
    lengths: Int64,
    counts: Int64,
    width: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.join_bytes`."""
    require(out, np.uint8, writable=True)
    if width < 1:
        raise ValueError("width must be at least 1")
    if out.size % width:
        fail(FAULT_OUT_SIZE, 0)
    chunks, runs = (positions, lengths, counts), (run_chunks, run_starts, run_counts)
    done = 0
    for chunk, start, count in check_chunk_runs(memory, chunks, runs, out.size // width):
        stored, position = int(counts[chunk]), int(positions[chunk])
        if stored * width > lengths[chunk]:
            fail(FAULT_CHUNK_SHORT, chunk)
        streams = memory[position : position + stored * width].reshape(width, stored)
        part = streams[:, start : start + count].T.reshape(-1)
        out[done : done + part.size] = part
        done += part.size
