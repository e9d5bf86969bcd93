import numpy as np
from numpy.typing import NDArray

__all__ = ["json_texts"]

def json_texts(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
    plain: bool = False,
) -> int: ...
