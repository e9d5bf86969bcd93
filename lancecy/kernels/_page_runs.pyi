import numpy as np
from numpy.typing import NDArray

__all__ = ["chunk_table", "cut_ranges", "cut_rows", "distinct_pages"]

def chunk_table(
    words: NDArray[np.uint8],
    width: int,
    out_offsets: NDArray[np.int64],
    out_starts: NDArray[np.int64],
) -> None: ...
def cut_ranges(
    page_starts: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    out_pages: NDArray[np.int64],
    out_starts: NDArray[np.int64],
    out_counts: NDArray[np.int64],
) -> int: ...
def cut_rows(
    page_starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    out_pages: NDArray[np.int64],
    out_starts: NDArray[np.int64],
    out_counts: NDArray[np.int64],
) -> int: ...
def distinct_pages(
    pages: NDArray[np.int64], out_distinct: NDArray[np.int64], out_numbers: NDArray[np.int64]
) -> int: ...
