from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["compare_bounds", "compare_bytes_bounds"]

def compare_bounds(
    op: int,
    lows: NDArray[np.number[Any]],
    highs: NDArray[np.number[Any]],
    value: float,
    out_empty: NDArray[np.uint8],
) -> None: ...
def compare_bytes_bounds(
    op: int,
    low_offsets: NDArray[np.int64],
    low_bytes: NDArray[np.uint8],
    high_offsets: NDArray[np.int64],
    high_bytes: NDArray[np.uint8],
    has_low: NDArray[np.bool_] | NDArray[np.uint8],
    has_high: NDArray[np.bool_] | NDArray[np.uint8],
    value: bytes,
    out_empty: NDArray[np.uint8],
) -> None: ...
