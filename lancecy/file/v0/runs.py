"""From rows of a file to runs within its pages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.chunks import runs_within
from lancecy.rows import PageRuns, RowSelection

__all__ = ["page_runs"]

Int64 = NDArray[np.int64]


def page_runs(page_starts: Int64, selection: RowSelection) -> PageRuns:
    """The selection as runs that each lie in one page, in the selection's order and none of them empty.

    Parameters
    ----------
    page_starts : (num_pages + 1,) int64, ascending, first is 0
        Pages may be empty; the last entry is the number of rows.
    selection : RowSelection
        Over that many rows.

    Raises
    ------
    ValueError
        The selection is over another number of rows.

    Examples
    --------
    >>> runs = page_runs(np.array([0, 4, 4, 9]), RowSelection.range(9, 2, 6))
    >>> runs.pages.tolist(), runs.starts.tolist(), runs.counts.tolist()
    ([0, 2], [2, 0], [2, 2])
    """
    num_rows = int(page_starts[-1])
    if selection.num_rows != num_rows:
        raise ValueError(f"a selection over {selection.num_rows} rows cannot choose from {num_rows}")
    if selection.indices is not None:
        return _runs_of_indices(page_starts, selection.indices)
    if selection.starts is None or selection.stops is None or selection.starts.size == 0:
        nothing = np.empty(0, np.int64)
        return PageRuns(nothing, nothing, nothing)
    return runs_within(page_starts, selection.starts, selection.stops)


def _runs_of_indices(page_starts: Int64, rows: Int64) -> PageRuns:
    pages, offsets = np.empty_like(rows), np.empty_like(rows)
    if rows.size:
        kernels.rows_to_pages(page_starts, rows, pages, offsets)
    return PageRuns(pages, offsets, np.ones_like(rows))
