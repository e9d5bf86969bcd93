import numpy as np
from numpy.typing import NDArray

__all__ = ["set_filter_bits"]

def set_filter_bits(hashes: NDArray[np.uint64], out: NDArray[np.uint8]) -> None: ...
