import numpy as np
from numpy.typing import NDArray

__all__ = ["measure_bitmap", "read_bitmap"]

def measure_bitmap(memory: NDArray[np.uint8]) -> tuple[int, int]: ...
def read_bitmap(memory: NDArray[np.uint8], out: NDArray[np.int64]) -> None: ...
