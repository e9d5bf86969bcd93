"""A dataset that every process opens for itself."""

from __future__ import annotations

import os
from typing import Any

from lancecy.api.datasets import Dataset

__all__ = ["Handle"]


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
