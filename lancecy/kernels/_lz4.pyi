import numpy as np
from numpy.typing import NDArray

__all__ = ["lz4_blocks"]

def lz4_blocks(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None: ...
