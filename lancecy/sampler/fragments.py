"""Samplers that choose fragments: the cheapest way to divide a large table, as each process opens its own files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from lancecy.api.datasets import Dataset, LanceFragment
from lancecy.expr.build import Filter
from lancecy.sampler.base import Sampler, Sharded, check_shard, is_limited
from lancecy.scanning.batches import exact_batches
from lancecy.scanning.request import Columns, ScanRequest

__all__ = ["FragmentSampler", "FullScanSampler", "ShardedFragmentSampler"]


class FragmentSampler(Sampler):
    """Reads the fragments that :meth:`iter_fragments` yields, in its order.

    Batches have exactly ``batch_size`` rows, across fragments; the last may have fewer. Columns and filters are
    pushed down to the scan.
    """

    @abstractmethod
    def iter_fragments(self, dataset: Dataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """The fragments to read.

        Parameters
        ----------
        dataset : Dataset
        *args, **kwargs
            Further arguments of the call.
        """

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
        """Read the fragments; arguments as for :class:`Sampler`."""

        def scanned() -> Iterator[pa.RecordBatch]:
            for group in _ascending(self.iter_fragments(dataset, *args, **kwargs)):
                scanner = dataset.scanner(
                    columns, filter, fragments=group, batch_size=batch_size, with_row_id=with_row_id
                )
                self._check(scanner.request)
                yield from scanner.to_batches()

        return exact_batches(scanned(), batch_size)

    def _check(self, request: ScanRequest) -> None:
        """Refuse a limit or offset that belongs to the whole table.

        Raises
        ------
        ValueError
        """
        if is_limited(request):
            raise ValueError(
                "readers of fragments do not see each other's rows, so limit and offset of default_scan_options cannot be "
                "applied: share batches (shard_granularity='batch', ShardedBatchSampler), or open the table without them"
            )

    def divided(self, index: int, count: int) -> Sampler:
        """The sampler of one of several workers: every ``count``-th of the fragments.

        Parameters
        ----------
        index, count : int
            Number of the worker, from 0, and number of workers.
        """
        check_shard(index, count)
        return _EveryNthFragment(self, index, count)


class _EveryNthFragment(FragmentSampler):
    def __init__(self, sampler: FragmentSampler, index: int, count: int) -> None:
        self._sampler = sampler
        self._index = index
        self._count = count

    def iter_fragments(self, dataset: Dataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        chosen = self._sampler.iter_fragments(dataset, *args, **kwargs)
        return islice(chosen, self._index, None, self._count)


class FullScanSampler(FragmentSampler):
    """Reads all rows in table order."""

    def iter_fragments(self, dataset: Dataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """All fragments.

        Parameters
        ----------
        dataset : Dataset
        *args, **kwargs
            Ignored.
        """
        return iter(dataset.get_fragments())

    def _check(self, request: ScanRequest) -> None:
        """One scan reads all fragments, and applies a limit or offset itself."""


class ShardedFragmentSampler(Sharded, FragmentSampler):
    """Reads every ``world_size``-th fragment, from fragment ``rank`` on.

    Parameters
    ----------
    rank, world_size : int
        Number of this process, from 0, and number of processes.
    randomize : bool
        Shuffle the fragments before they are divided, differently in each epoch.
    seed : int
        Of the random order; the same in all processes.

    Raises
    ------
    ValueError
        ``rank`` is not in ``0 .. world_size - 1``, or ``seed`` is negative.

    Examples
    --------
    >>> import lancecy
    >>> from lancecy.sampler import ShardedFragmentSampler
    >>> sampler = ShardedFragmentSampler(rank=1, world_size=2)
    >>> [fragment.fragment_id for fragment in sampler.iter_fragments(lancecy.dataset("example.lance"))]
    [1, 3]
    """

    def iter_fragments(self, dataset: Dataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """The fragments of this process.

        Parameters
        ----------
        dataset : Dataset
        *args, **kwargs
            Ignored.
        """
        fragments = dataset.get_fragments()
        if self._randomize:
            fragments = [fragments[i] for i in self._random().permutation(len(fragments))]
        return islice(fragments, self._rank, None, self._world_size)


def _ascending(fragments: Iterable[LanceFragment]) -> Iterator[list[LanceFragment]]:
    """Divide fragments into groups of ascending ids: a scan reads fragments in the order of the table."""
    group: list[LanceFragment] = []
    for fragment in fragments:
        if group and fragment.fragment_id <= group[-1].fragment_id:
            yield group
            group = []
        group.append(fragment)
    if group:
        yield group
