import numpy as np
from numpy.typing import NDArray

__all__ = ["filter_fixed"]

def filter_fixed(
    values: NDArray[np.uint8],
    width: int,
    bits: NDArray[np.uint8],
    first: int,
    count: int,
    out: NDArray[np.uint8],
) -> int: ...
