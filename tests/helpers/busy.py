"""Tables over three bases whose stores record which of them have requests under way at once."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import lancecy
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import LatencyStore, Pairs
from tests.helpers.datasets import write_table

__all__ = ["BusyStores", "busy_stores"]

T = TypeVar("T")

DELAY_S = 0.01
_numbers = itertools.count()


class BusyStores:
    """Memory stores of the scheme ``busy``; a request of a data file takes 10 ms.

    Attributes
    ----------
    root : str
        URI of the table, used once: the session of a process remembers what it opened.
    bases : list of str
        URIs of its three bases.
    served : list of str
        Base ("a", "b" or "c") of each request of a data file, in the order in which they began.
    most_bases : int
        Bases that had requests under way at the same moment.
    most_requests : int
        Requests of data files under way at the same moment.
    """

    def __init__(self) -> None:
        number = next(_numbers)
        self.root = f"busy://{number}/main/t"
        self.bases = [f"busy://{number}/{name}" for name in "abc"]
        self._memory: dict[str, MemoryStore] = {}
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget what was recorded."""
        self._working: Counter[str] = Counter()
        self.served: list[str] = []
        self.most_bases = self.most_requests = 0

    def memory(self, uri: str) -> MemoryStore:
        """The store without delay."""
        return self._memory.setdefault(uri, MemoryStore())

    def open(self, uri: str, options: object, **_: object) -> Store:
        """As ``register_store`` takes it."""
        return _Busy(self, uri)

    @contextmanager
    def working(self, base: str) -> Iterator[None]:
        """A request of this base being under way."""
        with self._lock:
            self.served.append(base)
            self._working[base] += 1
            self.most_bases = max(self.most_bases, sum(n > 0 for n in self._working.values()))
            self.most_requests = max(self.most_requests, self._working.total())
        try:
            yield
        finally:
            with self._lock:
                self._working[base] -= 1

    def write(self, **how: Any) -> None:
        """Write the table of ``tests.helpers.datasets``, by default 24 fragments of 10 rows, a third in each base."""
        wanted: dict[str, Any] = {"fragments": 24, "rows": 10, "round_robin": False, **how}
        write_table(self.root, bases=self.bases, opener=self.memory, **wanted)

    def dataset(self) -> lancecy.Dataset:
        """The table, opened with a session of its own: nothing is remembered."""
        return lancecy.dataset(self.root, allowed_bases=self.bases, session=lancecy.Session(threads=2))

    def scan(self, **how: Any) -> Any:
        """The table as a Dask frame."""
        return lancecy.scan(self.root, allowed_bases=self.bases, **how)


class _Busy(LatencyStore):
    def __init__(self, stores: BusyStores, uri: str) -> None:
        super().__init__(stores.memory(uri), DELAY_S, uri=uri)
        self._stores = stores

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        if not path.endswith(".lance"):
            return call()
        with self._stores.working(self.uri.rpartition("/")[2]):
            return super()._request(method, path, ranges, call)


def busy_stores() -> BusyStores:
    """Stores under the scheme ``busy``, empty and in place of those before."""
    stores = BusyStores()
    register_store("busy", stores.open)
    return stores
