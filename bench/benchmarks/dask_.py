"""Dask: what planning costs, and what each partition costs beyond reading it."""

from __future__ import annotations

import dask

import lancecy

from .scale import rows, table_path


class Partitions:
    """A frame of about a hundred partitions."""

    timeout = 300

    def setup_cache(self) -> str:
        return table_path("scalars")

    def setup(self, path: str) -> None:
        self.blocksize = max(1 << 12, rows() * 8 // 100)
        self.frame = lancecy.scan(path, columns=["x"], blocksize=self.blocksize)

    def time_plan(self, path: str) -> None:
        lancecy.scan(path, columns=["x"], blocksize=self.blocksize)

    def time_sum(self, path: str) -> None:
        with dask.config.set(scheduler="synchronous"):
            self.frame.x.sum().compute()

    def track_partitions(self, path: str) -> int:
        return int(self.frame.npartitions)

    track_partitions.unit = "partitions"  # type: ignore[attr-defined]

    def time_filtered_groupby(self, path: str) -> None:
        frame = lancecy.scan(path, filter="k < 10", columns=["k", "x"])
        with dask.config.set(scheduler="threads"):
            frame.groupby("k").x.mean().compute()
