import numpy as np
from numpy.typing import NDArray

__all__ = ["write_chunks"]

def write_chunks(
    values: NDArray[np.uint8],
    program: NDArray[np.int64],
    offsets: NDArray[np.uint8] | None,
    rep: NDArray[np.uint16] | None,
    definition: NDArray[np.uint16] | None,
    out: NDArray[np.uint8],
    out_words: NDArray[np.uint8],
    out_index: NDArray[np.int64] | None,
) -> int: ...
