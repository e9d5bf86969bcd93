import numpy as np
from numpy.typing import NDArray

__all__ = ["join_bytes"]

def join_bytes(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    counts: NDArray[np.int64],
    width: int,
    run_chunks: NDArray[np.int64],
    run_starts: NDArray[np.int64],
    run_counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None: ...
