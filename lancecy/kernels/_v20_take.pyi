import numpy as np
from numpy.typing import NDArray

__all__ = ["pick_ended"]

def pick_ended(
    memory: NDArray[np.uint8],
    end_positions: NDArray[np.int64],
    value_positions: NDArray[np.int64],
    value_sizes: NDArray[np.int64],
    adjustments: NDArray[np.int64],
    counts: NDArray[np.int64],
    run_pages: NDArray[np.int64],
    run_starts: NDArray[np.int64],
    run_counts: NDArray[np.int64],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_validity: NDArray[np.uint8],
    out_positions: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> tuple[int, int]: ...
