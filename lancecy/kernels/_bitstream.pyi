import numpy as np
from numpy.typing import NDArray

__all__ = ["unpack_stream"]

def unpack_stream(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    bit_offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    packed_bits: int,
    bits: int,
    signed: bool,
    out: NDArray[np.uint8],
) -> None: ...
