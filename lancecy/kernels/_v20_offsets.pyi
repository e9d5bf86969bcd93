import numpy as np
from numpy.typing import NDArray

__all__ = ["ended_offsets"]

def ended_offsets(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
    previous: NDArray[np.int64],
    adjustments: NDArray[np.int64],
    value_sizes: NDArray[np.int64],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_validity: NDArray[np.uint8],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> tuple[int, int]: ...
