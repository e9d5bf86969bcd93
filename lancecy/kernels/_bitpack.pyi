import numpy as np
from numpy.typing import NDArray

__all__ = ["unpack_blocks", "unpack_inline"]

def unpack_inline(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    counts: NDArray[np.int64],
    bits: int,
    run_chunks: NDArray[np.int64],
    run_starts: NDArray[np.int64],
    run_counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None: ...
def unpack_blocks(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    counts: NDArray[np.int64],
    bits: int,
    packed_bits: int,
    raw_tail: bool,
    run_chunks: NDArray[np.int64],
    run_starts: NDArray[np.int64],
    run_counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None: ...
