import numpy as np
from numpy.typing import NDArray

__all__ = ["read_chunks"]

def read_chunks(
    memory: NDArray[np.uint8],
    chunks: NDArray[np.int64],
    num_chunks: int,
    runs: NDArray[np.int64],
    num_runs: int,
    programs: NDArray[np.int64],
    program_numbers: NDArray[np.int64] | None,
    out_levels: NDArray[np.uint16] | None,
    out_values: NDArray[np.uint8],
    out_spans: NDArray[np.int64] | None,
) -> None: ...
