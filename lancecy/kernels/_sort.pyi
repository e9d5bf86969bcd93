import numpy as np
from numpy.typing import NDArray

__all__ = ["sort_words"]

def sort_words(
    words: NDArray[np.uint64],
    out: NDArray[np.uint64],
    out_room: NDArray[np.uint64],
    first_bit: int,
    stop_bit: int,
) -> None: ...
