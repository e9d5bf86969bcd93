import numpy as np
from numpy.typing import NDArray

__all__ = ["json_select"]

def json_select(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    steps: NDArray[np.int64],
    names: NDArray[np.uint8],
    mode: int,
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
    out_found: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> int: ...
