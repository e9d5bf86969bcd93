import numpy as np
from numpy.typing import NDArray

__all__ = ["list_offsets", "varwidth_offsets"]

def varwidth_offsets(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
    file_size: int,
    nullable: bool,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_validity: NDArray[np.uint8],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> tuple[int, int]: ...
def list_offsets(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
    width: int,
    child_lengths: NDArray[np.int64],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> int: ...
