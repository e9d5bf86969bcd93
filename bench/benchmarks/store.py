"""Bytes by path: ranges merged and fetched, and how many requests a scan makes of a store far away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import lancecy
from lancecy.session import Session
from lancecy.store.base import StoreTraits
from lancecy.store.ranges import merge
from lancecy.store.reads import Ranges, SourceFile
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import CountingStore

from .scale import rows, table_path

RANGES = 5000


class Merge:
    """Planning alone: ranges in random order become few."""

    def setup(self) -> None:
        random = np.random.default_rng(11)
        self.positions = random.permutation(np.arange(RANGES, dtype=np.int64) * 10_000)
        self.lengths = random.integers(1, 8192, RANGES)

    def time_merge(self) -> None:
        merge(self.positions, self.lengths, gap=1 << 12, cap=1 << 24)


class Fetch:
    """One round of ranges out of one file."""

    params = ("mapped", "pread")
    param_names = ("local store",)

    def setup_cache(self) -> str:
        path = Path.cwd() / "bytes"
        path.write_bytes(bytes(RANGES * 10_000))
        return str(path.parent)

    def setup(self, folder: str, kind: str) -> None:
        self.session = Session()
        store = open_store(folder, mapped=kind == "mapped")
        meta = store.head("bytes")
        random = np.random.default_rng(12)
        positions = np.arange(RANGES, dtype=np.int64) * 10_000
        file = SourceFile(store, "bytes", meta.size, meta.identity)
        self.ranges = Ranges(file, positions, random.integers(1, 8192, RANGES))

    def time_fetch(self, folder: str, kind: str) -> None:
        self.session.fetch([self.ranges])


class Requests:
    """What a scan asks of a store that is not mapped, traits of an object store given."""

    params = ("one column", "all columns", "filter", "take")
    param_names = ("work",)
    timeout = 300

    def setup_cache(self) -> str:
        return table_path("scalars")

    def setup(self, path: str, work: str) -> None:
        self.stores: list[CountingStore] = []
        register_store("counted", self._open)

    def _open(self, uri: str, options: Any, *, mapped: bool, follow_symlinks: bool) -> CountingStore:
        store = CountingStore(
            open_store(uri.removeprefix("counted://"), mapped=False), uri=uri, traits=StoreTraits()
        )
        self.stores.append(store)
        return store

    def _work(self, path: str, work: str) -> None:
        dataset = lancecy.dataset(f"counted://{Path(path).resolve()}", session=Session())
        if work == "take":
            dataset.take(np.arange(0, rows(), max(1, rows() // 100)), columns=["x"])
        elif work == "filter":
            dataset.to_table(columns=["id", "x"], filter=f"id < {rows() // 100}")
        else:
            dataset.to_table(columns=["x"] if work == "one column" else None)

    def track_requests(self, path: str, work: str) -> int:
        self._work(path, work)
        return sum(store.count() for store in self.stores)

    track_requests.unit = "requests"  # type: ignore[attr-defined]

    def track_bytes_read(self, path: str, work: str) -> int:
        self._work(path, work)
        return sum(store.nbytes for store in self.stores)

    track_bytes_read.unit = "bytes"  # type: ignore[attr-defined]
