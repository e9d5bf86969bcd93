"""Stores: merging and fetching ranges, and requests to a remote store."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lancecy.session import Session
from lancecy.store.ranges import merge
from lancecy.store.reads import Ranges, SourceFile
from lancecy.store.uri import open_store

from .far import Far, _Counted
from .scale import VERSIONS, rows

RANGES = 5000


class Merge:
    """Merging ranges in random order, without reading."""

    def setup(self) -> None:
        random = np.random.default_rng(11)
        self.positions = random.permutation(np.arange(RANGES, dtype=np.int64) * 10_000)
        self.lengths = random.integers(1, 8192, RANGES)

    def time_merge(self) -> None:
        merge(self.positions, self.lengths, gap=1 << 12, cap=1 << 24)


class Fetch:
    """One round of ranges of one file."""

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


class Requests(_Counted):
    """Requests to a store that is not mapped and has the traits of an object store."""

    params = (VERSIONS, ("open", "one column", "all columns", "filter", "count", "take"))

    def setup(self, paths: dict[str, str], version: str, work: str) -> None:
        self.far = Far()
        dataset = self.far.dataset(paths[version])
        if work == "take":
            dataset.take(np.arange(0, rows(), max(1, rows() // 100)), columns=["x"])
        elif work == "filter":
            dataset.to_table(columns=["id", "x"], filter=f"id < {rows() // 100}")
        elif work == "count":
            dataset.count_rows("k < 10")
        elif work != "open":
            dataset.to_table(columns=["x"] if work == "one column" else None)
