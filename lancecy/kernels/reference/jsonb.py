"""Twin of ``_jsonb``: value by value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.reference.checks import require
from lancecy.kernels.reference.json_nodes import rows_of, text_of

__all__ = ["json_texts"]


def json_texts(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
    plain: bool = False,
) -> int:
    """As :func:`lancecy.kernels.json_texts`."""
    require(offsets, np.int64)
    require(values, np.uint8)
    require(out_offsets, np.int64, writable=True)
    require(out, np.uint8, writable=True)
    if offsets.size < 1 or out_offsets.size != offsets.size:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    text = bytearray()
    out_offsets[0] = 0
    for row, data in rows_of(offsets, values, validity):
        if data is not None:
            text += text_of(data, row, plain)
        out_offsets[row + 1] = len(text)
    if len(text) <= out.size:
        out[: len(text)] = np.frombuffer(bytes(text), np.uint8)
    return len(text)
