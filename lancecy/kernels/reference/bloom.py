"""Twin of ``_bloom``: bit by bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked

__all__ = ["set_filter_bits"]

_SALTS = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)


@checked
def set_filter_bits(hashes: NDArray[np.uint64], out: NDArray[np.uint8]) -> None:
    """As :func:`lancecy.kernels.set_filter_bits`."""
    blocks = out.size // 32
    if out.size % 32 or (not blocks and hashes.size):
        fail(Fault.OUT_SIZE, 0)
    for number in hashes.tolist():
        block = ((number >> 32) * blocks) >> 32
        for word, salt in enumerate(_SALTS):
            bit = ((number & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27
            out[32 * block + 4 * word + bit // 8] |= np.uint8(1 << bit % 8)
