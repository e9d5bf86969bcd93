"""Twin of ``_dictionary``: one comparison over the whole array of codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_CODE, fail
from lancecy.kernels.reference.checks import require

__all__ = ["check_codes"]

CODE_TYPES = (
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
)


def check_codes(
    codes: NDArray[np.integer[Any]], num_values: int, out_validity: NDArray[np.uint8] | None = None
) -> int:
    """As :func:`lancecy.kernels.check_codes`."""
    require(codes, *CODE_TYPES)
    if num_values < 0:
        raise ValueError("num_values is negative")
    # NumPy compares with Python integers exactly, whatever the dtype of the array.
    inside = (codes >= 0) & (codes < num_values)
    if out_validity is None:
        bad = np.flatnonzero(~inside)
        if bad.size:
            fail(FAULT_CODE, int(bad[0]))
        return 0
    require(out_validity, np.uint8, writable=True)
    if out_validity.size != (codes.size + 7) // 8:
        raise ValueError("out_validity needs one bit per row")
    out_validity[:] = np.packbits(inside, bitorder="little")
    return codes.size - int(inside.sum())
