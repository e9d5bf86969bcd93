"""A local store with the traits of a remote one, which counts requests: for ``track_`` requests and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancecy
from lancecy.session import Session
from lancecy.store.base import StoreTraits
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import CountingStore

from .scale import table_paths

__all__ = ["Far"]


class Far:
    """Opens tables over stores that are not mapped and have the traits of an object store."""

    def __init__(self) -> None:
        self._stores: list[CountingStore] = []
        register_store("counted", self._open)

    def _open(self, uri: str, options: Any, *, mapped: bool, follow_symlinks: bool) -> CountingStore:
        store = CountingStore(
            open_store(uri.removeprefix("counted://"), mapped=False), uri=uri, traits=StoreTraits()
        )
        self._stores.append(store)
        return store

    def uri(self, path: str) -> str:
        """URI of the table at this path."""
        return f"counted://{Path(path).resolve()}"

    def dataset(self, path: str) -> lancecy.Dataset:
        """The table, opened with a new session, so that nothing is cached."""
        return lancecy.dataset(self.uri(path), session=Session())

    @property
    def requests(self) -> int:
        """Requests made so far."""
        return sum(store.count() for store in self._stores)

    @property
    def nbytes(self) -> int:
        """Bytes returned so far."""
        return sum(store.nbytes for store in self._stores)


class _Counted:
    """A class of benchmarks whose ``setup`` does the counted work, for each version of data files."""

    param_names = ("version", "work")
    timeout = 300
    far: Far

    def setup_cache(self) -> dict[str, str]:
        return table_paths("scalars")

    def track_requests(self, paths: dict[str, str], version: str, work: str) -> int:
        return self.far.requests

    track_requests.unit = "requests"  # type: ignore[attr-defined]

    def track_bytes_read(self, paths: dict[str, str], version: str, work: str) -> int:
        return self.far.nbytes

    track_bytes_read.unit = "bytes"  # type: ignore[attr-defined]
