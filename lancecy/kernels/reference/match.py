"""Twin of ``_match``: string by string."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_OUT_SIZE, FAULT_TEXT_OFFSETS, fail
from lancecy.kernels.reference.checks import require

__all__ = ["match_bytes"]


def match_bytes(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    value: bytes,
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.match_bytes`."""
    require(offsets, np.int32, np.int64)
    require(values, np.uint8)
    require(out, np.uint8, writable=True)
    if not isinstance(value, bytes):
        raise TypeError("value is not bytes")
    if offsets.size == 0:
        raise ValueError("offsets is empty")
    if out.size != (offsets.size + 6) >> 3:
        fail(FAULT_OUT_SIZE, 0)
    text = values.tobytes()
    is_equal = np.zeros(offsets.size - 1, np.bool_)
    for index, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= stop <= len(text):
            fail(FAULT_TEXT_OFFSETS, index)
        is_equal[index] = text[start:stop] == value
    out[:] = np.packbits(is_equal, bitorder="little")
    return int(np.count_nonzero(is_equal))
