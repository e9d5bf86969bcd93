import numpy as np
from numpy.typing import NDArray

__all__ = ["read_lists"]

def read_lists(
    memory: NDArray[np.uint8],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
    begun: NDArray[np.int64] | None,
    groups: NDArray[np.int64],
    ranges: NDArray[np.int64],
    program: NDArray[np.int64],
    out_rep: NDArray[np.uint16],
    out_def: NDArray[np.uint16] | None,
    out_runs: NDArray[np.int64],
) -> tuple[int, int]: ...
