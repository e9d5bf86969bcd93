from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["hamming_distances", "vector_distances"]

def vector_distances(
    metric: int,
    vectors: NDArray[np.floating[Any]],
    queries: NDArray[np.floating[Any]],
    dimension: int,
    out_norms: NDArray[np.floating[Any]],
    out: NDArray[np.float32],
) -> None: ...
def hamming_distances(
    vectors: NDArray[np.uint8],
    queries: NDArray[np.uint8],
    dimension: int,
    out: NDArray[np.float32],
) -> None: ...
