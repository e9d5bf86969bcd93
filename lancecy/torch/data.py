"""Datasets and loaders for ``torch.utils.data``; names and arguments are those of ``lance.torch.data``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from lancecy.api.datasets import Dataset, opened
from lancecy.errors import LanceError, UnsupportedError, WorkerError, printable
from lancecy.expr import Expr
from lancecy.expr.build import Filter
from lancecy.sampler import FullScanSampler, Sampler, ShardedBatchSampler, ShardedFragmentSampler
from lancecy.sampler.base import check_not_negative, check_shard, is_limited
from lancecy.sampler.samples import MAX_TAKES, sharded_sample
from lancecy.scanning.request import Columns
from lancecy.torch.cache import BatchCache
from lancecy.torch.dist import (
    Handle,
    get_dist_rank,
    get_dist_world_size,
    get_mp_rank,
    get_mp_world_size,
    is_dist_initialized,
    is_worker,
)
from lancecy.torch.needed import torch
from lancecy.torch.tensors import to_tensor

__all__ = ["LanceDataset", "SafeLanceDataset", "ToTensorFn", "get_safe_loader"]

ToTensorFn: TypeAlias = Callable[[Any], Any]
"""Makes of a record batch what the dataset yields; of a mapping of arrays if the table has blobs."""


class LanceDataset(torch.utils.data.IterableDataset[Any]):
    """Batches of a table as tensors.

    Processes of ``torch.distributed`` and workers of a ``DataLoader``, forked or spawned, share the rows: together they
    yield each row once. Give the loader ``batch_size=None``, as this dataset makes the batches.

    Parameters
    ----------
    dataset : Dataset, str or path
    batch_size : int
        Rows of a batch; the last one of each worker may have fewer.
    dataset_options : mapping, optional
        Arguments of :func:`lancecy.dataset`, if the table is given by its place.
    columns, filter, with_row_id
        As for :meth:`lancecy.Dataset.scanner`.
    samples : int, optional
        Read so many rows chosen at random, others in each epoch; 0 and None read all.
    cache : bool, str or path
        Keep the batches of the first epoch in a temporary file, in this folder if one is named, and read them from
        there in later epochs. Workers keep theirs as long as they live (``persistent_workers=True``).
    rank, world_size : int, optional
        Number of this process, from 0, and number of processes; those of ``torch.distributed`` if not given.
    shard_granularity : {"fragment", "batch"}, optional
        Share fragments, or batches of ``batch_size`` rows. By default fragments if there are enough of them, and batches
        if ``default_scan_options`` of the table have a limit or offset.
    batch_readahead : int
        Most small batches to read together, where batches are shared.
    to_tensor_fn : function of a RecordBatch, or None
        Makes what is yielded of each batch; None yields the record batch. If blob columns are read, the batch is a
        dict of arrays, with lists of :class:`lancecy.BlobFile` for these columns, and has ``_rowid``.
    sampler : Sampler, optional
        Which rows this process reads, and in which order. It is divided among workers (:meth:`Sampler.divided`).
    auto_detect_rank : bool
        False ignores ``torch.distributed`` and workers: then every worker of a loader yields the same rows.
    embed_credentials : bool
        Pickle with the storage options as given, secrets included, for spawned workers.

    Raises
    ------
    ValueError
        Arguments that do not go together or are out of range.
    UnsupportedError
        Blob columns are read without a ``to_tensor_fn`` for them.
    LanceError
        The table cannot be opened, or columns and filter do not fit it. In workers every error of lancecy is a
        :class:`lancecy.errors.WorkerError`, with the text of the original one.

    Examples
    --------
    >>> from lancecy.torch import LanceDataset
    >>> for batch in LanceDataset("example.lance", batch_size=600, columns=["id", "vec"]):
    ...     print(batch["id"].dtype, batch["vec"].shape)
    torch.int64 torch.Size([600, 4])
    torch.int64 torch.Size([400, 4])
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        batch_size: int,
        *,
        dataset_options: Mapping[str, Any] | None = None,
        columns: Columns = None,
        filter: Filter = None,
        samples: int | None = 0,
        cache: str | os.PathLike[str] | bool | None = None,
        with_row_id: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shard_granularity: Literal["fragment", "batch"] | None = None,
        batch_readahead: int = 16,
        to_tensor_fn: ToTensorFn | None = to_tensor,
        sampler: Sampler | None = None,
        auto_detect_rank: bool = True,
        embed_credentials: bool = False,
    ) -> None:
        super().__init__()
        _check_sharing(rank, world_size, shard_granularity, sampler, samples)
        source = _opened(dataset, dataset_options, embed_credentials)
        self._handle = Handle(source)
        self.batch_size = batch_size
        self.columns = columns
        self.filter = filter
        self.samples = samples or 0
        self.cache = cache
        self.rank = rank
        self.world_size = world_size
        self.shard_granularity = shard_granularity
        self.batch_readahead = batch_readahead
        self.sampler = sampler
        self._to_tensor_fn = to_tensor_fn
        self._auto_detect_rank = auto_detect_rank
        self._blobs = _blob_columns(source, columns)
        if self._blobs and to_tensor_fn is to_tensor:
            raise UnsupportedError(
                f"column {printable(self._blobs[0])!r} holds blobs, which are files and not tensors: leave it out "
                "with columns=[…], or read them with a to_tensor_fn of your own",
                feature="to_tensor",
            )
        self.with_row_id = with_row_id or bool(self._blobs)
        self._cache = None if cache is None or cache is False else BatchCache(cache)
        self._sent_by: _Shard | None = None
        # Workers that live for several epochs see the number of the epoch here.
        self._epoch = torch.full((1,), -1, dtype=torch.int64).share_memory_()
        _ = self.schema  # raises if columns and filter do not fit the table

    @property
    def dataset(self) -> Dataset:
        """The table."""
        return self._handle.dataset()

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the batches, blobs excepted."""
        return self.dataset.scanner(
            self._scanned(), self.filter, batch_size=self.batch_size, with_row_id=self.with_row_id
        ).schema

    def set_epoch(self, epoch: int) -> None:
        """Choose the random order of a sampler for the next epoch, in workers that are alive too.

        Parameters
        ----------
        epoch : int
            The same number in all processes, 0 or more.

        Raises
        ------
        ValueError
            The number is negative.
        """
        check_not_negative("epoch", epoch)
        self._epoch[0] = epoch

    def __iter__(self) -> Iterator[Any]:
        with _in_worker():
            yield from self._made()

    def _made(self) -> Iterator[Any]:
        process, worker = self._place()
        if self._cache is None:
            stream = self._batches(process, worker)
        else:
            stream = self._cache.batches((process, worker), lambda: self._batches(process, worker))
        for batch in stream:
            made = self._with_blobs(batch) if self._blobs else batch
            yield made if self._to_tensor_fn is None else self._to_tensor_fn(made)

    def _place(self) -> tuple[_Shard, _Shard]:
        """This process among all processes, and this worker among those of the process."""
        if not self._auto_detect_rank:
            return (self.rank or 0, self.world_size or 1), (0, 1)
        worker = get_mp_rank(), get_mp_world_size()
        if self.rank is not None and self.world_size is not None:
            return (self.rank, self.world_size), worker
        return self._process(), worker

    def _process(self) -> _Shard:
        """This process, or the one that this worker belongs to, in ``torch.distributed``."""
        if not is_dist_initialized() and self._sent_by is not None and is_worker():
            return self._sent_by
        return get_dist_rank(), get_dist_world_size()

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker is in no process group, so it is told which process it reads for.
        return {**self.__dict__, "_sent_by": self._process()}

    def _batches(self, process: _Shard, worker: _Shard) -> Iterator[pa.RecordBatch]:
        source = self.dataset
        rank, world_size = process[0] * worker[1] + worker[0], process[1] * worker[1]
        if self.samples:
            return sharded_sample(
                source,
                self.samples,
                self._scanned(),
                self.batch_size,
                MAX_TAKES,
                self.filter,
                self.with_row_id,
                self.batch_readahead,
                rank=rank,
                world_size=world_size,
            )
        sampler = self.sampler
        if sampler is None:
            sampler = _sampler(source, self.shard_granularity, rank, world_size)
        else:
            self._set_epoch_of(sampler)
            sampler = sampler.divided(*worker) if worker[1] > 1 else sampler
        return sampler(
            source,
            batch_size=self.batch_size,
            columns=self._scanned(),
            filter=self.filter,
            batch_readahead=self.batch_readahead,
            with_row_id=self.with_row_id,
        )

    def _set_epoch_of(self, sampler: Sampler) -> None:
        set_epoch = getattr(sampler, "set_epoch", None)
        epoch = int(self._epoch[0])
        if epoch >= 0 and set_epoch is not None:
            set_epoch(epoch)

    def _scanned(self) -> Columns:
        """The columns without blobs."""
        if not self._blobs:
            return self.columns
        rest = [(name, made) for name, made in _asked(self.dataset, self.columns) if name not in self._blobs]
        if all(made is None for _, made in rest):
            return [name for name, _ in rest]
        return {name: name if made is None else made for name, made in rest}

    def _with_blobs(self, batch: pa.RecordBatch) -> dict[str, Any]:
        ids = batch["_rowid"]
        found: dict[str, Any] = {name: batch[name] for name in batch.schema.names}
        for name in self._blobs:
            found[name] = self.dataset.take_blobs(name, ids=ids)
        return found

    def __repr__(self) -> str:
        return f"LanceDataset(uri={self.dataset.uri!r}, version={self.dataset.version}, batch_size={self.batch_size})"


_Shard: TypeAlias = tuple[int, int]
"""Number of a process or worker, from 0, and how many there are."""


class SafeLanceDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """Rows of a table by number, as dicts of Python values, for ``DataLoader`` and its samplers.

    Each worker, forked or spawned, opens the table for itself, at the same version.

    Parameters
    ----------
    uri : str, path or Dataset
    dataset_options : mapping, optional
        Arguments of :func:`lancecy.dataset`.
    columns : as for :meth:`lancecy.Dataset.take`, optional
        The default collation of a ``DataLoader`` has no times and no nulls.
    embed_credentials : bool
        Pickle with the storage options as given, secrets included, for spawned workers.

    Raises
    ------
    LanceError
        The table cannot be opened.

    Examples
    --------
    >>> from lancecy.torch import SafeLanceDataset
    >>> rows = SafeLanceDataset("example.lance")
    >>> len(rows), rows[7]["s"]
    (1000, 'banana')
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | Dataset,
        *,
        dataset_options: Mapping[str, Any] | None = None,
        columns: Columns = None,
        embed_credentials: bool = False,
    ) -> None:
        super().__init__()
        source = _opened(uri, dataset_options, embed_credentials)
        self.uri = source.uri
        self._handle = Handle(source)
        self._columns = columns
        self._len = source.count_rows()
        source.scanner(columns)  # raises if there is no such column

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several rows, read together; this is what a ``DataLoader`` calls.

        Parameters
        ----------
        indices : sequence of int

        Raises
        ------
        IndexError
            There is no such row.
        """
        with _in_worker():
            rows: list[dict[str, Any]] = self._handle.dataset().take(list(indices), self._columns).to_pylist()
        return rows


def get_safe_loader(
    dataset: torch.utils.data.Dataset[Any],
    batch_size: int | None = 32,
    num_workers: int = 4,
    **kwargs: Any,
) -> torch.utils.data.DataLoader[Any]:
    """A ``DataLoader`` whose workers are spawned, and stay for all epochs.

    Parameters
    ----------
    dataset : Dataset of PyTorch
        Such as :class:`SafeLanceDataset`.
    batch_size : int or None
    num_workers : int
        0 reads in this process.
    **kwargs
        Other arguments of ``DataLoader``; they override those set here.

    Returns
    -------
    torch.utils.data.DataLoader

    Examples
    --------
    >>> from lancecy.torch import SafeLanceDataset, get_safe_loader
    >>> loader = get_safe_loader(SafeLanceDataset("example.lance"), batch_size=300, num_workers=0)
    >>> len(loader)
    4
    """
    options: dict[str, Any] = {"batch_size": batch_size, "num_workers": num_workers}
    if num_workers:
        options |= {"persistent_workers": True, "multiprocessing_context": "spawn"}
    return torch.utils.data.DataLoader(dataset, **{**options, **kwargs})


def _opened(
    dataset: Dataset | str | os.PathLike[str], options: Mapping[str, Any] | None, embed_credentials: bool
) -> Dataset:
    source = opened(dataset, **(options or {}))
    defaults = {name: value for name, value in source._scan_defaults.items() if name != "blob_handling"}
    if len(defaults) < len(source._scan_defaults):
        source = Dataset(source._snapshot, defaults)  # Blobs are files here.
    return source.with_credentials() if embed_credentials else source


@contextmanager
def _in_worker() -> Iterator[None]:
    """In a worker, raise errors in the form that a loader hands on in full."""
    try:
        yield
    except LanceError as error:
        if torch.utils.data.get_worker_info() is None:
            raise
        raise WorkerError(f"{type(error).__name__}: {error}") from error


def _check_sharing(
    rank: int | None, world_size: int | None, granularity: str | None, sampler: object, samples: int | None
) -> None:
    if (rank is None) is not (world_size is None):
        raise ValueError("rank and world_size go together: give both, or neither")
    if rank is not None and world_size is not None:
        check_shard(rank, world_size)
    if granularity not in {None, "fragment", "batch"}:
        raise ValueError(f"shard_granularity is {granularity!r}, not 'fragment' or 'batch'")
    check_not_negative("samples", samples or 0)
    if sampler is not None and not isinstance(sampler, Sampler):
        raise TypeError(f"sampler is {type(sampler).__name__}, not a lancecy.sampler.Sampler")
    given = {"rank": rank, "shard_granularity": granularity, "samples": samples or None}
    others = [name for name, value in given.items() if value is not None]
    if sampler is not None and others:
        raise ValueError(f"a sampler decides what is read: give it without {', '.join(others)}")


def _sampler(source: Dataset, granularity: str | None, rank: int, world_size: int) -> Sampler:
    if granularity is None:
        is_divided = world_size > 1 and is_limited(source.scanner().request)
        has_enough = len(source.get_fragments()) >= world_size
        granularity = "fragment" if has_enough and not is_divided else "batch"
    if granularity == "batch":
        return ShardedBatchSampler(rank, world_size)
    return FullScanSampler() if world_size == 1 else ShardedFragmentSampler(rank, world_size)


def _blob_columns(source: Dataset, columns: Columns) -> list[str]:
    """Blob columns among those that are read under their own name."""
    named = {name for name, made in _asked(source, columns) if made is None}
    return [field.name for field in source.lance_schema.fields if field.is_blob and field.name in named]


def _asked(source: Dataset, columns: Columns) -> Sequence[tuple[str, Expr | None]]:
    """Names of the columns that are read, with the expressions of computed ones; those of the table's defaults if none are given."""
    asked = source.scanner(columns).request.columns
    return [(name, None) for name in source.lance_schema.names] if asked is None else asked
