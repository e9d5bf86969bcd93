"""Dask: the costs of planning and of partitions, and the savings of the optimiser."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancecy

from .far import Far, _Counted
from .scale import VERSIONS, rows, table_path, table_paths


class Sum:
    """One column of seven: through Dask, and with ``to_table``. The target is 1.5 times the latter."""

    params = (VERSIONS,)
    param_names = ("version",)
    timeout = 300

    def setup_cache(self) -> dict[str, str]:
        return table_paths("scalars")

    def setup(self, paths: dict[str, str], version: str) -> None:
        self.frame = lancecy.scan(paths[version])
        self.dataset = lancecy.dataset(paths[version])

    def time_threads(self, paths: dict[str, str], version: str) -> None:
        self.frame.x.sum().compute(scheduler="threads")

    def time_sync(self, paths: dict[str, str], version: str) -> None:
        self.frame.x.sum().compute(scheduler="synchronous")

    def time_table(self, paths: dict[str, str], version: str) -> None:
        pc.sum(self.dataset.to_table(columns=["x"])["x"])

    def peakmem_threads(self, paths: dict[str, str], version: str) -> None:
        self.frame.x.sum().compute(scheduler="threads")


class Remote(_Counted):
    """Requests of a scan's partitions to a remote store, planning included."""

    params = (VERSIONS, ("one column", "filter", "head"))

    def setup(self, paths: dict[str, str], version: str, work: str) -> None:
        self.far = Far()
        frame = lancecy.scan(self.far.uri(paths[version]), blocksize=max(1 << 12, rows() * 60 // 10))
        if work == "head":
            frame[["x"]].head()
        else:
            wanted = frame[frame.id < rows() // 100] if work == "filter" else frame
            wanted.x.sum().compute(scheduler="threads")


class Plan:
    """One fragment, and partition, per hundred rows: 10,000 by default."""

    timeout = 600

    def setup_cache(self) -> str:
        import lance

        path = Path.cwd() / f"fragments-{rows()}.lance"
        if not path.exists():
            count = max(1, rows() // 100)
            table = pa.table({"id": np.arange(count), "x": np.arange(count) / 7})
            lance.write_dataset(table, str(path), max_rows_per_file=1, data_storage_version="2.0")
        return str(path)

    def setup(self, path: str) -> None:
        self.frame = lancecy.scan(path, blocksize=None)

    def _graph(self) -> Any:
        return self.frame[["x"]].optimize().__dask_graph__()

    def time_scan(self, path: str) -> None:
        lancecy.scan(path, blocksize=None)

    def time_graph(self, path: str) -> None:
        self._graph()

    def track_pickled(self, path: str) -> int:
        return len(pickle.dumps(self._graph()))

    track_pickled.unit = "bytes"  # type: ignore[attr-defined]

    def track_partitions(self, path: str) -> int:
        return int(self.frame.npartitions)

    track_partitions.unit = "partitions"  # type: ignore[attr-defined]

    def track_tasks_of_a_sum(self, path: str) -> int:
        return len(self.frame.x.sum().optimize().__dask_graph__())

    track_tasks_of_a_sum.unit = "tasks"  # type: ignore[attr-defined]


class Optimiser:
    """The same queries with the optimiser and without."""

    params = ((True, False),)
    param_names = ("optimiser",)
    timeout = 300

    def setup_cache(self) -> str:
        return table_path("scalars")

    def setup(self, path: str, optimiser: bool) -> None:
        with dask.config.set({"lancecy.dask-expr": optimiser}):
            self.frame = lancecy.scan(path, blocksize=max(1 << 12, rows() * 60 // 100))

    def time_length(self, path: str, optimiser: bool) -> None:
        len(self.frame)

    def time_head(self, path: str, optimiser: bool) -> None:
        self.frame.head()

    def time_filter_on_sorted(self, path: str, optimiser: bool) -> None:
        frame = self.frame
        frame[frame.id < rows() // 1000].x.sum().compute(scheduler="threads")

    def time_filter_on_random(self, path: str, optimiser: bool) -> None:
        frame = self.frame
        frame[frame.k < 10].x.sum().compute(scheduler="threads")

    def time_sum(self, path: str, optimiser: bool) -> None:
        self.frame.x.sum().compute(scheduler="threads")

    def time_filtered_groupby(self, path: str, optimiser: bool) -> None:
        frame = self.frame
        frame[frame.k < 10].groupby("k").x.mean().compute(scheduler="threads")


class Vectors:
    """Embeddings as an array."""

    params = (VERSIONS,)
    param_names = ("version",)
    timeout = 300

    def setup_cache(self) -> dict[str, str]:
        return table_paths("vectors")

    def setup(self, paths: dict[str, str], version: str) -> None:
        self.array = lancecy.to_dask_array(paths[version], "vec", blocksize="16MiB")

    def time_plan(self, paths: dict[str, str], version: str) -> None:
        lancecy.to_dask_array(paths[version], "vec", blocksize="16MiB")

    def time_mean(self, paths: dict[str, str], version: str) -> None:
        self.array.mean(axis=0).compute(scheduler="threads")

    def peakmem_mean(self, paths: dict[str, str], version: str) -> None:
        self.array.mean(axis=0).compute(scheduler="threads")

    def time_ten_rows(self, paths: dict[str, str], version: str) -> None:
        middle = self.array.shape[0] // 2
        self.array[middle : middle + 10].compute(scheduler="threads")
