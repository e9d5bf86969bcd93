import numpy as np
from numpy.typing import NDArray

__all__ = ["level_validity"]

def level_validity(
    levels: NDArray[np.uint16], valid_max: int, visible_max: int, out_validity: NDArray[np.uint8]
) -> tuple[int, int]: ...
