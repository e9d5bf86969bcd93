import numpy as np
from numpy.typing import NDArray

__all__ = ["column_pages"]

def column_pages(
    memory: NDArray[np.uint8],
    out_edges: NDArray[np.int64],
    out_pages: NDArray[np.int64],
    out_buffers: NDArray[np.int64],
) -> tuple[int, int, int, int, bool, int, int]: ...
