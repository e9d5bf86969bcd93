from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["take_fixed", "take_offsets", "take_values"]

def take_offsets(
    codes: NDArray[np.integer[Any]],
    dict_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    validity: NDArray[np.uint8] | None = None,
) -> int: ...
def take_values(
    codes: NDArray[np.integer[Any]],
    dict_offsets: NDArray[np.int32] | NDArray[np.int64],
    dict_values: NDArray[np.uint8],
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> None: ...
def take_fixed(
    codes: NDArray[np.integer[Any]],
    values: NDArray[np.uint8],
    width: int,
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> None: ...
