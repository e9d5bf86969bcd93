import numpy as np
from numpy.typing import NDArray

__all__ = ["find_words", "hash_rows", "index_words"]

def hash_rows(
    offsets: NDArray[np.int32] | NDArray[np.int64], values: NDArray[np.uint8], out: NDArray[np.uint64]
) -> None: ...
def index_words(
    words: NDArray[np.uint64],
    out_slots: NDArray[np.int64],
    out_chain: NDArray[np.int64],
    out_marks: NDArray[np.uint8],
) -> int: ...
def find_words(
    queries: NDArray[np.uint64],
    words: NDArray[np.uint64],
    slots: NDArray[np.int64],
    marks: NDArray[np.uint8],
    out_queries: NDArray[np.int64],
    out_rows: NDArray[np.int64],
) -> int: ...
