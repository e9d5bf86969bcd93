import numpy as np
from numpy.typing import NDArray

__all__ = ["pack_blocks"]

def pack_blocks(
    values: NDArray[np.uint8],
    bits: int,
    widths: NDArray[np.int64],
    out: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None: ...
