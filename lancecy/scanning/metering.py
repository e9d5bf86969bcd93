"""A session that counts what is read through it, for the analysis of one scan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.fetch import RetainingFetch
from lancecy.store.reads import Ranges, Span
from lancecy.store.wrap import Pairs, WrappedStore

__all__ = ["MeteredSession"]

T = TypeVar("T")


class MeteredSession(Session):
    """A session that shares everything with another and counts its reads.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    requests : int
        Requests to stores; none for memory-mapped files.
    nbytes : int, bytes
        Of the requests; of memory-mapped files, the ranges that were asked for.

    Examples
    --------
    >>> metered = MeteredSession(Session())
    >>> metered.requests, metered.nbytes
    (0, 0)
    """

    def __init__(self, session: Session) -> None:
        self.__dict__.update(session.__dict__)
        self.requests = 0
        self.nbytes = 0
        self._counting = threading.Lock()
        self._counted: dict[int, _MeteredStore] = {}

    def fetch(self, requests: Sequence[Ranges]) -> list[Span]:
        """See :meth:`Session.fetch`."""
        return super().fetch(self.counted(requests))

    def fetcher(self, limit: int = 256 << 20) -> RetainingFetch:
        """See :meth:`Session.fetcher`."""
        return _MeteredFetch(self, limit)

    def counted(self, requests: Sequence[Ranges]) -> list[Ranges]:
        """The same ranges, of stores that count their requests.

        Parameters
        ----------
        requests : sequence of Ranges
        """
        return [
            replace(request, file=replace(request.file, store=self._store_of(request)))
            for request in requests
        ]

    def _store_of(self, request: Ranges) -> Store:
        store = request.file.store
        if store.traits.is_mapped:
            self.add(0, int(request.lengths.sum()))
            return store
        with self._counting:
            return self._counted.setdefault(id(store), _MeteredStore(store, self))

    def add(self, requests: int, nbytes: int) -> None:
        """Count some requests.

        Parameters
        ----------
        requests : int
        nbytes : int, bytes
        """
        with self._counting:
            self.requests += requests
            self.nbytes += nbytes


class _MeteredStore(WrappedStore):
    def __init__(self, inner: Store, meter: MeteredSession) -> None:
        super().__init__(inner)
        self._meter = meter

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        self._meter.add(max(1, len(ranges)), sum((stop or start) - start for start, stop in ranges))
        return call()


class _MeteredFetch(RetainingFetch):
    def __init__(self, meter: MeteredSession, limit: int) -> None:
        super().__init__(meter._run_io, limit)
        self._meter = meter

    def __call__(self, requests: Sequence[Ranges]) -> list[Span]:
        return super().__call__(self._meter.counted(requests))
