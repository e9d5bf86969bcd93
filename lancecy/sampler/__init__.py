"""Samplers: which rows of a table are read for training, in which order, and by which process.

==============================  ================================================================
``FullScanSampler``             all rows in table order (``fragments``)
``ShardedFragmentSampler``      the fragments of one of several processes (``fragments``)
``FragmentSampler``             base class of samplers that choose fragments (``fragments``)
``ShardedBatchSampler``         the batches of one of several processes (``batches``)
``ShardedFixedBatchSampler``    row numbers of such batches, for map-style datasets (``batches``)
``Sampler``                     base class of all that read a dataset (``base``)
``maybe_sample``                some rows at random (``samples``)
``reservoir_sampling``          some items of a stream at random (``samples``)
==============================  ================================================================

A sampler is called with a dataset and yields record batches. Names and arguments are those of ``lance.sampler``.
PyTorch is imported by ``from_torch`` only.

Examples
--------
>>> import lancecy
>>> from lancecy.sampler import ShardedBatchSampler
>>> sampler = ShardedBatchSampler(rank=0, world_size=2, randomize=True, seed=7)
>>> sum(batch.num_rows for batch in sampler(lancecy.dataset("example.lance"), batch_size=300))
600
"""

from __future__ import annotations

from lancecy.sampler.base import Sampler
from lancecy.sampler.batches import ShardedBatchSampler, ShardedFixedBatchSampler
from lancecy.sampler.fragments import FragmentSampler, FullScanSampler, ShardedFragmentSampler
from lancecy.sampler.samples import maybe_sample, reservoir_sampling

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
    "reservoir_sampling",
]
