import numpy as np
from numpy.typing import NDArray

__all__ = ["measure_numbers", "measure_texts"]

def measure_numbers(
    values: NDArray[np.uint8],
    width: int,
    definition: NDArray[np.uint16] | None,
    visible_max: int,
    step: int,
) -> tuple[int, int, int, int]: ...
def measure_texts(
    values: NDArray[np.uint8],
    offsets: NDArray[np.uint8],
    width: int,
    definition: NDArray[np.uint16] | None,
    visible_max: int,
) -> tuple[int, int]: ...
