"""Samplers that divide a table into batches of consecutive rows, and share these among processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.expr.build import Filter
from lancecy.sampler.base import Sampler, Sharded, torch_shard
from lancecy.sampler.rows import read_batches, row_batches
from lancecy.scanning.request import Columns

__all__ = ["ShardedBatchSampler", "ShardedFixedBatchSampler"]


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
        ``rank`` is not in ``0 .. world_size - 1``.

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
        ``rank`` is not in ``0 .. world_size - 1``, ``batch_size`` is not positive, or there are fewer than no rows.

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
