import numpy as np
from numpy.typing import NDArray

__all__ = ["expand_runs"]

def expand_runs(
    memory: NDArray[np.uint8],
    value_positions: NDArray[np.int64],
    value_lengths: NDArray[np.int64],
    length_positions: NDArray[np.int64],
    length_lengths: NDArray[np.int64],
    counts: NDArray[np.int64],
    width: int,
    length_width: int,
    run_chunks: NDArray[np.int64],
    run_starts: NDArray[np.int64],
    run_counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None: ...
