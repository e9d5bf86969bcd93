import numpy as np
from numpy.typing import NDArray

__all__ = ["chunk_offsets", "zipped_offsets"]

def chunk_offsets(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    counts: NDArray[np.int64],
    width: int,
    run_chunks: NDArray[np.int64],
    run_starts: NDArray[np.int64],
    run_counts: NDArray[np.int64],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> int: ...
def zipped_offsets(lengths: NDArray[np.int64], out_offsets: NDArray[np.int32] | NDArray[np.int64]) -> int: ...
