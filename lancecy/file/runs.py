"""From rows of a file to runs within its pages.

Imports ``rows`` and ``kernels``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
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
    return _runs_of_ranges(page_starts, selection.starts, selection.stops)


def _runs_of_indices(page_starts: Int64, rows: Int64) -> PageRuns:
    pages, offsets = np.empty_like(rows), np.empty_like(rows)
    if rows.size:
        kernels.rows_to_pages(page_starts, rows, pages, offsets)
    return PageRuns(pages, offsets, np.ones_like(rows))


def _runs_of_ranges(page_starts: Int64, starts: Int64, stops: Int64) -> PageRuns:
    first = np.searchsorted(page_starts, starts, side="right") - 1
    last = np.searchsorted(page_starts, stops, side="left")
    pieces = last - first
    # Pages of range i are first[i] .. last[i]; all of them, one range after the other:
    shift = first - (np.cumsum(pieces) - pieces)
    pages = np.arange(int(pieces.sum()), dtype=np.int64) + np.repeat(shift, pieces)
    begin = page_starts[pages]
    run_starts = np.maximum(begin, np.repeat(starts, pieces))
    counts = np.minimum(page_starts[pages + 1], np.repeat(stops, pieces)) - run_starts
    run_starts -= begin
    if counts.all():
        return PageRuns(pages, run_starts, counts)
    keep = np.flatnonzero(counts)  # pages without rows
    return PageRuns(pages[keep], run_starts[keep], counts[keep])
