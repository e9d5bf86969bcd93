import numpy as np
from numpy.typing import NDArray

__all__ = ["copy_spans", "gather_fixed"]

def copy_spans(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int: ...
def gather_fixed(
    memory: NDArray[np.uint8], positions: NDArray[np.int64], width: int, out: NDArray[np.uint8]
) -> None: ...
