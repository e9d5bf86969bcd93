"""Twin of ``_scatter``: one slice after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_NEGATIVE, FAULT_OUT_SIZE, FAULT_TRUNCATED, fail
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["place_spans"]


def place_spans(
    memory: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None:
    """As :func:`lancecy.kernels.place_spans`."""
    require(memory, np.uint8)
    for numbers in (starts, lengths, positions):
        require(numbers, np.int64)
    require(out, np.uint8, writable=True)
    same_length("the arrays of the spans differ in length", starts, lengths, positions)
    spans = zip(starts.tolist(), lengths.tolist(), positions.tolist(), strict=True)
    for i, (start, length, position) in enumerate(spans):
        if length == 0:
            continue
        if start < 0 or length < 0:
            fail(FAULT_NEGATIVE, i)
        if start + length > memory.size:
            fail(FAULT_TRUNCATED, i)
        if position < 0 or position + length > out.size:
            fail(FAULT_OUT_SIZE, i)
        out[position : position + length] = memory[start : start + length]
