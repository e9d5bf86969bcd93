import numpy as np
from numpy.typing import NDArray

__all__ = ["fsst_encode", "fsst_train"]

def fsst_train(
    values: NDArray[np.uint8],
    offsets: NDArray[np.uint8],
    width: int,
    out_table: NDArray[np.uint8],
) -> tuple[int, int]: ...
def fsst_encode(
    table: NDArray[np.uint8],
    values: NDArray[np.uint8],
    offsets: NDArray[np.uint8],
    width: int,
    out: NDArray[np.uint8],
    out_offsets: NDArray[np.uint8],
) -> int: ...
