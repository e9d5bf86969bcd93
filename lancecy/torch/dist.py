"""The place of this process among those of ``torch.distributed`` and the workers of a ``DataLoader``.

Names are those of ``lance.torch.dist``. Beside them: a dataset that every process opens for itself.
"""

from __future__ import annotations

import os
from typing import Any

from lancecy.api.datasets import Dataset
from lancecy.torch.needed import torch

__all__ = [
    "Handle",
    "get_dist_rank",
    "get_dist_world_size",
    "get_global_rank",
    "get_global_world_size",
    "get_mp_rank",
    "get_mp_world_size",
    "is_dist_initialized",
    "is_worker",
]


def is_dist_initialized() -> bool:
    """Whether this process belongs to a group of ``torch.distributed``; a spawned worker of a ``DataLoader`` does not."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def get_dist_world_size() -> int:
    """Number of processes of ``torch.distributed``; 1 if it is not initialized."""
    return int(torch.distributed.get_world_size()) if is_dist_initialized() else 1


def get_dist_rank() -> int:
    """Rank of this process in ``torch.distributed``; 0 if it is not initialized."""
    return int(torch.distributed.get_rank()) if is_dist_initialized() else 0


def is_worker() -> bool:
    """Whether this process is a worker of a ``DataLoader``."""
    return torch.utils.data.get_worker_info() is not None


def get_mp_world_size() -> int:
    """Number of workers of the ``DataLoader`` that this process belongs to; 1 outside of workers."""
    worker = torch.utils.data.get_worker_info()
    return 1 if worker is None else int(worker.num_workers)


def get_mp_rank() -> int:
    """Number of this worker of a ``DataLoader``; 0 outside of workers."""
    worker = torch.utils.data.get_worker_info()
    return 0 if worker is None else int(worker.id)


def get_global_world_size() -> int:
    """Number of all workers of all processes."""
    return get_dist_world_size() * get_mp_world_size()


def get_global_rank() -> int:
    """Number of this worker among all workers of all processes."""
    return get_dist_rank() * get_mp_world_size() + get_mp_rank()


class Handle:
    """A dataset for use in this process and in its workers, forked or spawned; all read the same version.

    Parameters
    ----------
    dataset : Dataset
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._process = os.getpid()

    def dataset(self) -> Dataset:
        """The dataset, opened by this process."""
        if self._process != os.getpid():
            # When the process was forked, a thread of its parent may have held a lock of the parent's dataset.
            self._dataset = self._dataset.checkout_version(self._dataset.version)
            self._process = os.getpid()
        return self._dataset

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self._dataset,)
