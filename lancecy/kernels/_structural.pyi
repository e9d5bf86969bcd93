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
    out_levels: NDArray[np.int64],
    out_rep: NDArray[np.int64],
    out_rep_lengths: NDArray[np.int64],
    out_def: NDArray[np.int64],
    out_def_lengths: NDArray[np.int64],
    out_buffers: NDArray[np.int64],
    out_buffer_lengths: NDArray[np.int64],
) -> None: ...
