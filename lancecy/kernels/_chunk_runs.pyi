import numpy as np
from numpy.typing import NDArray

__all__ = ["find_chunks", "find_lists"]

def find_chunks(
    chunk_starts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    stops: NDArray[np.int64] | None,
    out_chunks: NDArray[np.int64],
    out_runs: NDArray[np.int64],
) -> tuple[int, int]: ...
def find_lists(
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    rows: NDArray[np.int64],
    stops: NDArray[np.int64] | None,
    out_chunks: NDArray[np.int64],
    out_groups: NDArray[np.int64],
    out_ranges: NDArray[np.int64],
) -> tuple[int, int, int]: ...
