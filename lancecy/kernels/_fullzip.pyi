import numpy as np
from numpy.typing import NDArray

__all__ = ["zip_fixed", "zip_variable"]

def zip_fixed(
    memory: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    word_bytes: int,
    def_bits: int,
    value_bytes: int,
    visible_max: int,
    max_rep: int,
    max_def: int,
    out_rep: NDArray[np.uint16] | None,
    out_def: NDArray[np.uint16] | None,
    out_values: NDArray[np.uint8],
) -> tuple[int, int]: ...
def zip_variable(
    memory: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    word_bytes: int,
    def_bits: int,
    length_bytes: int,
    visible_max: int,
    max_rep: int,
    max_def: int,
    out_rep: NDArray[np.uint16] | None,
    out_def: NDArray[np.uint16] | None,
    out_starts: NDArray[np.int64],
    out_lengths: NDArray[np.int64],
) -> tuple[int, int]: ...
