import numpy as np
from numpy.typing import NDArray

__all__ = ["chunk_headers"]

def chunk_headers(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    has_rep: bool,
    has_def: bool,
    num_buffers: int,
    size_width: int,
    out: NDArray[np.int64],
) -> None: ...
