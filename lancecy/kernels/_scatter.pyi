import numpy as np
from numpy.typing import NDArray

__all__ = ["place_spans"]

def place_spans(
    memory: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None: ...
