import numpy as np
from numpy.typing import NDArray

__all__ = ["match_bytes"]

def match_bytes(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    value: bytes,
    out: NDArray[np.uint8],
) -> int: ...
