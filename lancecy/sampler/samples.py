"""Rows of a table, and items of a stream, chosen at random."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.api.datasets import Dataset, opened
from lancecy.expr.build import Filter
from lancecy.sampler.base import check_shard
from lancecy.sampler.batches import Rows, read_batches, returns_all, row_batches
from lancecy.scanning.request import Columns, ScanRequest

__all__ = ["MAX_TAKES", "maybe_sample", "reservoir_sampling", "sharded_sample"]

MAX_TAKES = 2048
"""Most places of a table that a sample is read from."""

# Row numbers that a filter lets pass are collected in pieces of this size.
_NUMBERS = 1 << 16

T = TypeVar("T")


def maybe_sample(
    dataset: str | os.PathLike[str] | Dataset,
    n: int,
    columns: Columns | str,
    batch_size: int = 10240,
    max_takes: int = MAX_TAKES,
    filt: Filter = None,
    *,
    seed: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read ``n`` rows chosen at random, or all rows if there are no more.

    Parameters
    ----------
    dataset : str, path or Dataset
    n : int
        Number of rows.
    columns : str, list of names or mapping
        A column, or columns as for :meth:`lancecy.Dataset.scanner`.
    batch_size : int
        Rows of a batch; the last may have fewer.
    max_takes : int
        A larger sample consists of so many runs of consecutive rows, one from each part of the table.
    filt : as the filter of :meth:`lancecy.Dataset.scanner`
        Choose among the rows for which it is true. Its columns are read first, of the whole table.
    seed : int, optional
        Makes the choice repeatable.

    Yields
    ------
    pyarrow.RecordBatch
        Rows in table order, none twice.

    Raises
    ------
    ValueError
        ``n`` is negative, or ``max_takes`` or ``batch_size`` is not positive.

    Examples
    --------
    >>> from lancecy.sampler import maybe_sample
    >>> sum(batch.num_rows for batch in maybe_sample("example.lance", 10, ["id", "vec"], filt="k < 50"))
    10
    """
    names = [columns] if isinstance(columns, str) else columns
    return sharded_sample(opened(dataset), n, names, batch_size, max_takes, filt, seed=seed)


def sharded_sample(
    dataset: Dataset,
    n: int,
    columns: Columns,
    batch_size: int,
    max_takes: int = MAX_TAKES,
    filter: Filter = None,
    with_row_id: bool = False,
    batch_readahead: int = 16,
    *,
    rank: int = 0,
    world_size: int = 1,
    seed: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The part of one process of a sample; processes need not know each other's random numbers.

    Parameters
    ----------
    dataset, n, columns, batch_size, max_takes, filter, seed
        As for :func:`maybe_sample`.
    with_row_id : bool
    batch_readahead : int
        Most batches to read together.
    rank, world_size : int
        Number of this process, from 0, and number of processes.
    """
    if n < 0 or max_takes <= 0:
        raise ValueError(f"n={n} must not be negative, and max_takes={max_takes} must be positive")
    check_shard(rank, world_size)
    request = dataset.scanner(columns, filter, batch_size=batch_size, with_row_id=with_row_id).request
    passing = _passing(dataset, request)
    random = np.random.default_rng(seed)
    if n <= max_takes and n < len(passing) and world_size == 1:
        chosen = np.sort(random.choice(len(passing), n, replace=False))
    else:
        chosen = _runs(len(passing), n, max_takes, random, rank, world_size)
    rows = chosen if isinstance(passing, range) else passing[chosen]
    batches = (rows[at : at + batch_size] for at in range(0, rows.size, batch_size))
    return read_batches(dataset.context, request, batches, batch_readahead)


def _passing(dataset: Dataset, request: ScanRequest) -> Rows:
    """Numbers of all rows that a scan returns."""
    if returns_all(request):
        return range(dataset.count_rows())
    found = [np.asarray(rows) for rows in row_batches(dataset, request, _NUMBERS)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _runs(
    total: int, n: int, max_takes: int, random: np.random.Generator, rank: int, world_size: int
) -> NDArray[np.int64]:
    """Ascending positions of one process: runs, each at a random place of its own part of ``0 .. total - 1``.

    Parts are as large as their run or larger, in proportion, so that no two runs overlap.
    """
    n = min(n, total)
    count = min(n, max_takes) if n < total else world_size
    numbers = range(count * rank // world_size, count * (rank + 1) // world_size)
    runs = [np.empty(0, np.int64)]
    for number in numbers:
        first, last = n * number // count, n * (number + 1) // count
        low, high = total * first // n if n else 0, total * last // n if n else 0
        start = low + int(random.integers(0, high - low - (last - first) + 1))
        runs.append(np.arange(start, start + last - first))
    return np.concatenate(runs)


def reservoir_sampling(stream: Iterable[T], k: int, *, seed: int | None = None) -> list[T]:
    """Choose ``k`` items of a stream at random, each with the same probability.

    Parameters
    ----------
    stream : iterable
        Of any length; read once, to its end.
    k : int
        Number of items.
    seed : int, optional
        Makes the choice repeatable.

    Returns
    -------
    list
        All items if the stream has no more than ``k``.

    Raises
    ------
    ValueError
        ``k`` is negative.

    Examples
    --------
    >>> from lancecy.sampler import reservoir_sampling
    >>> len(reservoir_sampling(range(1000), 10))
    10
    """
    if k < 0:
        raise ValueError(f"k must not be negative, got {k}")
    random = np.random.default_rng(seed)
    kept: list[T] = []
    for seen, item in enumerate(stream):
        if len(kept) < k:
            kept.append(item)
            continue
        place = int(random.integers(0, seen + 1))
        if place < k:
            kept[place] = item
    return kept
