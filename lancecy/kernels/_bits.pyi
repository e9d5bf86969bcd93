import numpy as np
from numpy.typing import NDArray

__all__ = ["copy_bits", "find_bits"]

def copy_bits(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    bit_offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int: ...
def find_bits(bits: NDArray[np.uint8], first: int, count: int, out: NDArray[np.int64]) -> int: ...
