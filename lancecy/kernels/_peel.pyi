import numpy as np
from numpy.typing import NDArray

__all__ = ["peel_lists"]

def peel_lists(
    rep: NDArray[np.uint16],
    definition: NDArray[np.uint16] | None,
    null_level: int,
    empty_level: int,
    upper: int,
    visible_max: int,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_validity: NDArray[np.uint8],
    out_rep: NDArray[np.uint16],
    out_def: NDArray[np.uint16] | None,
) -> tuple[int, int, int, int]: ...
