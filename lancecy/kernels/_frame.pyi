import numpy as np
from numpy.typing import NDArray

__all__ = ["file_frame"]

def file_frame(
    memory: NDArray[np.uint8],
    start: int,
    most_columns: int,
    out_ranges: NDArray[np.int64],
    out_counts: NDArray[np.int64],
) -> bool: ...
