"""Batches of rows by number: which rows a scan returns, and reading some of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.api.datasets import Dataset
from lancecy.scanning import threads
from lancecy.scanning.batches import one_batch
from lancecy.scanning.context import ScanContext
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ROW_OFFSET, ScanRequest
from lancecy.scanning.take import take_rows

__all__ = ["Rows", "read_batches", "returns_all", "row_batches"]

Rows: TypeAlias = "range | NDArray[np.int64]"
"""Ascending numbers of live rows in table order, as ``Dataset.take`` has them."""

# Small batches are read together up to this size.
_WINDOW_BYTES = 32 << 20


def returns_all(request: ScanRequest) -> bool:
    """Whether a scan returns all rows of the table."""
    return request.filter is None and request.limit is None and not request.offset


def row_batches(dataset: Dataset, request: ScanRequest, batch_size: int) -> Iterator[Rows]:
    """The numbers of the rows that a scan returns, ``batch_size`` at a time.

    With a filter its columns are read; without one nothing is.
    """
    if returns_all(request):
        total = dataset.count_rows()
        yield from (range(at, min(at + batch_size, total)) for at in range(0, total, batch_size))
        return
    numbers = dataset.scanner(
        [ROW_OFFSET],
        request.filter,
        request.limit,
        request.offset,
        batch_size=batch_size,
        strict_batch_size=True,
        with_row_id=False,
        with_row_address=False,
    )
    for batch in numbers.to_batches():
        yield batch.column(0).to_numpy().astype(np.int64)


def read_batches(
    context: ScanContext, request: ScanRequest, batches: Iterable[Rows], batch_readahead: int
) -> Iterator[pa.RecordBatch]:
    """Read batches of rows, in the given order, while the caller works on earlier ones.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
        For its columns.
    batches : iterable of Rows
        No row is in two of them.
    batch_readahead : int
        Most batches to read together; fewer if they are large.
    """
    reader = _Reader(context, context.projection(request), max(1, batch_readahead))
    for window, table in threads.read_ahead(context, reader.windows(batches), reader.read):
        yield from _in_order(window, table)


class _Reader:
    """Reads windows of batches, as many batches as the size of the rows seen so far allows."""

    def __init__(self, context: ScanContext, projection: Projection, most: int) -> None:
        self._context = context
        self._projection = projection
        self._most = most
        self._row_bytes: float | None = None

    def windows(self, batches: Iterable[Rows]) -> Iterator[list[Rows]]:
        window: list[Rows] = []
        rows = 0
        for batch in batches:
            if window and not self._has_room(len(window), rows + len(batch)):
                yield window
                window, rows = [], 0
            window.append(batch)
            rows += len(batch)
        if window:
            yield window

    def _has_room(self, batches: int, rows: int) -> bool:
        # The first batches are read alone: they come soon, and tell the size of a row.
        return (
            self._row_bytes is not None and batches < self._most and rows * self._row_bytes <= _WINDOW_BYTES
        )

    def read(self, window: Sequence[Rows]) -> pa.Table:
        """The rows of a window in table order."""
        numbers = np.concatenate([_as_array(window[i]) for i in _table_order(window)])
        table = take_rows(self._context, self._projection, numbers)
        if table.num_rows:
            self._row_bytes = table.nbytes / table.num_rows
        return table


def _table_order(window: Sequence[Rows]) -> list[int]:
    return sorted(range(len(window)), key=lambda i: int(window[i][0]))


def _in_order(window: Sequence[Rows], table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut the rows of a window, which are in table order, into its batches."""
    starts = dict.fromkeys(range(len(window)), 0)
    at = 0
    for index in _table_order(window):
        starts[index] = at
        at += len(window[index])
    for index, batch in enumerate(window):
        yield one_batch(table.slice(starts[index], len(batch)).to_batches())


def _as_array(rows: Rows) -> NDArray[np.int64]:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
