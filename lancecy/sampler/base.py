"""What all samplers have: the call, and the division among processes and workers."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.expr.build import Filter
from lancecy.scanning.request import Columns, ScanRequest

__all__ = ["Sampler", "Sharded", "check_not_negative", "check_shard", "is_limited", "torch_shard"]


class Sampler(ABC):
    """Yields the record batches of a dataset that are to be read, in the order in which they are to be read."""

    @abstractmethod
    def __call__(
        self,
        dataset: Dataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: Filter = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the dataset.

        Parameters
        ----------
        dataset : Dataset
        batch_size : int
            Rows of a batch.
        columns, filter, with_row_id
            As for :meth:`lancecy.Dataset.scanner`.
        batch_readahead : int
            Most batches to read together.
        *args, **kwargs
            For samplers that need more.
        """

    def divided(self, index: int, count: int) -> Sampler:
        """The sampler of one of several workers, which together yield every batch once.

        Without a better way, which subclasses have, each worker reads everything and yields every ``count``-th batch.
        The sampler must then yield the same batches in all workers.

        Parameters
        ----------
        index, count : int
            Number of the worker, from 0, and number of workers.

        Raises
        ------
        ValueError
            There is no such worker.
        """
        check_shard(index, count)
        return _EveryNth(self, index, count)


class _EveryNth(Sampler):
    def __init__(self, sampler: Sampler, index: int, count: int) -> None:
        self._sampler = sampler
        self._index = index
        self._count = count

    def __call__(self, dataset: Dataset, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        return islice(self._sampler(dataset, *args, **kwargs), self._index, None, self._count)


class Sharded:
    """Rank, number of processes, and random order, which all samplers named ``Sharded…`` have."""

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        check_shard(rank, world_size)
        check_not_negative("seed", seed)
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    @classmethod
    def from_torch(cls, randomize: bool = False, seed: int = 0) -> Self:
        """The sampler of this process among those of ``torch.distributed``.

        Parameters
        ----------
        randomize : bool
        seed : int
            The same in all processes.

        Raises
        ------
        ImportError
            PyTorch is not installed.
        ValueError
            ``torch.distributed`` is not initialized.
        """
        return cls(*torch_shard(), randomize, seed)

    def set_epoch(self, epoch: int) -> None:
        """Choose the random order of an epoch; call it before each epoch, with the same number in all processes.

        Parameters
        ----------
        epoch : int

        Raises
        ------
        ValueError
            The number is negative.
        """
        check_not_negative("epoch", epoch)
        self._epoch = epoch

    def divided(self, index: int, count: int) -> Self:
        """The sampler of one of several workers of this process; see :meth:`Sampler.divided`."""
        check_shard(index, count)
        part = copy.copy(self)
        part._rank = self._rank * count + index
        part._world_size = self._world_size * count
        return part

    def _random(self) -> np.random.Generator:
        """Random numbers of this epoch, the same ones in all processes."""
        return np.random.default_rng([self._seed, self._epoch])


def is_limited(request: ScanRequest) -> bool:
    """Whether a scan has a limit or an offset, which several scans together would apply several times."""
    return request.limit is not None or bool(request.offset)


def check_not_negative(name: str, number: int) -> None:
    """Refuse a negative number.

    Raises
    ------
    ValueError
    """
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {number}")


def check_shard(rank: int, world_size: int) -> None:
    """Refuse a rank outside ``0 .. world_size - 1``.

    Raises
    ------
    ValueError
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not one of world_size={world_size} processes, counted from 0")


def torch_shard() -> tuple[int, int]:
    """Rank of this process in ``torch.distributed``, and number of processes.

    Raises
    ------
    ImportError
        PyTorch is not installed.
    ValueError
        ``torch.distributed`` is not initialized.
    """
    try:
        from torch import distributed
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install 'lancecy[torch]'") from error
    return distributed.get_rank(), distributed.get_world_size()
