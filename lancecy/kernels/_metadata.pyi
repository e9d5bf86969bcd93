import numpy as np
from numpy.typing import NDArray

__all__ = ["column_pages"]

def column_pages(
    memory: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out_edges: NDArray[np.int64],
    out_pages: NDArray[np.int64],
    out_buffers: NDArray[np.int64],
    out_counts: NDArray[np.int64],
) -> None: ...
