import numpy as np
from numpy.typing import NDArray

__all__ = ["fsst_decode", "fsst_offsets"]

def fsst_offsets(
    symbol_lengths: NDArray[np.uint8],
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
) -> int: ...
def fsst_decode(
    symbols: NDArray[np.uint64],
    symbol_lengths: NDArray[np.uint8],
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None: ...
