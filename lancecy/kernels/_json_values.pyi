import numpy as np
from numpy.typing import NDArray

__all__ = ["json_array_has", "json_scalars"]

def json_array_has(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    text: NDArray[np.uint8],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> None: ...
def json_scalars(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    out_kinds: NDArray[np.uint8],
    out_integers: NDArray[np.int64],
    out_floats: NDArray[np.float64],
    validity: NDArray[np.uint8] | None = None,
) -> None: ...
