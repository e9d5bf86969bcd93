import numpy as np
from numpy.typing import NDArray

__all__ = ["search_bytes"]

def search_bytes(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    value: bytes,
    out: NDArray[np.uint8],
) -> int: ...
