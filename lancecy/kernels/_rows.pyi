import numpy as np
from numpy.typing import NDArray

__all__ = ["select_rows"]

def select_rows(
    rep: NDArray[np.uint16],
    definition: NDArray[np.uint16] | None,
    max_rep: int,
    visible_max: int,
    group_stops: NDArray[np.int64],
    range_groups: NDArray[np.int64],
    range_starts: NDArray[np.int64],
    range_stops: NDArray[np.int64],
    out_level_starts: NDArray[np.int64],
    out_level_stops: NDArray[np.int64],
    out_slot_starts: NDArray[np.int64],
    out_slot_stops: NDArray[np.int64],
) -> None: ...
