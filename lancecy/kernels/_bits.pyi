import numpy as np
from numpy.typing import NDArray

__all__ = ["copy_bits"]

def copy_bits(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    bit_offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int: ...
