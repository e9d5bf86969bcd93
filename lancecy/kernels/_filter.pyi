import numpy as np
from numpy.typing import NDArray

__all__ = ["filter_fixed", "filter_lists"]

def filter_fixed(
    values: NDArray[np.uint8],
    width: int,
    bits: NDArray[np.uint8],
    first: int,
    count: int,
    out: NDArray[np.uint8],
) -> int: ...
def filter_lists(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    bits: NDArray[np.uint8],
    first: int,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_bits: NDArray[np.uint8],
) -> int: ...
