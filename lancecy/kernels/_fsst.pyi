import numpy as np
from numpy.typing import NDArray

__all__ = ["fsst_decode"]

def fsst_decode(
    symbols: NDArray[np.uint64],
    symbol_lengths: NDArray[np.uint8],
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    offsets: NDArray[np.int32] | NDArray[np.int64],
    first: int,
    start: int,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int: ...
