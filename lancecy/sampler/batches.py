"""Samplers that divide a table into batches of consecutive rows, and share these among processes.

Batches are read by the numbers of their rows, several small ones together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.api.datasets import Dataset
from lancecy.expr.build import Filter
from lancecy.sampler.base import Sampler, Sharded, is_limited, torch_shard
from lancecy.scanning import threads
from lancecy.scanning.batches import one_batch
from lancecy.scanning.context import ScanContext
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ROW_OFFSET, Columns, ScanRequest
from lancecy.scanning.take import take_rows

__all__ = [
    "Rows",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "read_batches",
    "returns_all",
    "row_batches",
]


Rows: TypeAlias = "range | NDArray[np.int64]"
"""Ascending numbers of live rows in table order, as ``Dataset.take`` has them."""

# Small batches are read together up to this size.
_WINDOW_BYTES = 32 << 20


def returns_all(request: ScanRequest) -> bool:
    """Whether a scan returns all rows of the table."""
    return request.filter is None and not is_limited(request)


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


class ShardedBatchSampler(Sharded, Sampler):
    """Reads every ``world_size``-th batch, from batch ``rank`` on.

    The rows that pass the filter are divided into batches of ``batch_size`` rows in table order. A process reads its
    own batches only; with a filter it reads the filter's columns of the whole table first.

    Parameters
    ----------
    rank, world_size : int
        Number of this process, from 0, and number of processes.
    randomize : bool
        Shuffle the batches of each process, differently in each epoch. Rows keep their order within a batch.
    seed : int
        Of the random order.

    Raises
    ------
    ValueError
        ``rank`` is not in ``0 .. world_size - 1``, or ``seed`` is negative.

    Examples
    --------
    >>> import lancecy
    >>> from lancecy.sampler import ShardedBatchSampler
    >>> sampler = ShardedBatchSampler(rank=1, world_size=2)
    >>> batches = sampler(lancecy.dataset("example.lance"), batch_size=2, columns=["id"], filter="id < 7")
    >>> [batch["id"].to_pylist() for batch in batches]
    [[2, 3], [6]]
    """

    def __call__(
        self,
        dataset: Dataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: Filter = None,
        batch_readahead: int = 16,
        with_row_id: bool | None = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the batches of this process; arguments as for :class:`Sampler`."""
        request = dataset.scanner(columns, filter, batch_size=batch_size, with_row_id=with_row_id).request
        mine = islice(row_batches(dataset, request, batch_size), self._rank, None, self._world_size)
        if self._randomize:
            batches = list(mine)
            mine = (batches[i] for i in self._random().permutation(len(batches)))  # type: ignore[assignment]
        return read_batches(dataset.context, request, mine, batch_readahead)


class ShardedFixedBatchSampler(Sharded):
    """Row numbers by batch, as ``batch_sampler`` of a ``DataLoader`` over a map-style dataset.

    The rows are divided into ``world_size`` ranges of almost the same size, and each range into batches.

    Parameters
    ----------
    rank, world_size : int
        Number of this process, from 0, and number of processes.
    randomize : bool
        Shuffle the batches, differently in each epoch.
    seed : int
        Of the random order.
    batch_size : int
        Rows of a batch; the last of a process may have fewer.
    total_num_rows : int
        Rows of the dataset.

    Raises
    ------
    ValueError
        ``rank`` is not in ``0 .. world_size - 1``, ``seed`` is negative, ``batch_size`` is not positive, or there are fewer
        than no rows.

    Examples
    --------
    >>> from lancecy.sampler import ShardedFixedBatchSampler
    >>> list(ShardedFixedBatchSampler(rank=1, world_size=2, batch_size=3, total_num_rows=10))
    [[5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        super().__init__(rank, world_size, randomize, seed)
        if batch_size <= 0 or total_num_rows < 0:
            raise ValueError(
                f"batch_size={batch_size} must be positive, total_num_rows={total_num_rows} at least 0"
            )
        per_rank = -(-total_num_rows // world_size)
        start = min(rank * per_rank, total_num_rows)
        self._rows = range(start, min(start + per_rank, total_num_rows))
        self._batch_size = batch_size

    @classmethod
    def from_torch(  # type: ignore[override]  # the order of arguments is that of pylance
        cls, batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> Self:
        """The sampler of this process among those of ``torch.distributed``.

        Parameters
        ----------
        batch_size, total_num_rows : int
        randomize : bool
        seed : int

        Raises
        ------
        ImportError
            PyTorch is not installed.
        ValueError
            ``torch.distributed`` is not initialized.
        """
        return cls(*torch_shard(), randomize, seed, batch_size, total_num_rows)

    def __len__(self) -> int:
        return math.ceil(len(self._rows) / self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = self._random().permutation(len(self)) if self._randomize else range(len(self))
        for index in order:
            yield list(self._rows[index * self._batch_size : (index + 1) * self._batch_size])
