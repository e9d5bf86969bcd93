"""Stores around stores: counting, latency.

Each passes every request through one method, which a subclass overrides. A wrapper
has the traits of the store it wraps unless given others, and pickles with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

from lancecy.store.base import Memory, ObjectMeta, PutMode, Store, StoreTraits
from lancecy.store.paths import check_path, check_prefix

__all__ = ["CountingStore", "LatencyStore", "Pairs", "Request", "WrappedStore"]

T = TypeVar("T")
Pairs: TypeAlias = Sequence[tuple[int, int | None]]


class WrappedStore:
    """A store that passes every request to another; subclasses override ``_request``.

    Parameters
    ----------
    inner : Store
    uri : str, optional
        Replaces the inner store's, for a wrapper opened by its own scheme.
    traits : StoreTraits, optional
        Replaces the inner store's.
    """

    def __init__(self, inner: Store, *, uri: str | None = None, traits: StoreTraits | None = None) -> None:
        self.inner = inner
        self._uri = uri
        self._own_traits = traits

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def uri(self) -> str:
        return self._uri or self.inner.uri

    @property
    def traits(self) -> StoreTraits:
        return self._own_traits or self.inner.traits

    @property
    def keyed_table(self) -> Any:
        """That of the inner store (``key_values.keyed_table``)."""
        return getattr(self.inner, "keyed_table", None)

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        """Make the request; a subclass may do something else instead.

        Parameters
        ----------
        method : str
            Of the store.
        path : str
        ranges : sequence of (start, stop)
            Requested bytes; empty for requests that read nothing.
        call : function
            Makes the request of the inner store.
        """
        return call()

    def head(self, path: str) -> ObjectMeta:
        check_path(path)
        return self._request("head", path, (), lambda: self.inner.head(path))

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Memory:
        check_path(path)
        return self._request("get", path, ((start, stop),), lambda: self.inner.get(path, start, stop))

    def get_start(self, path: str, most: int) -> Memory:
        check_path(path)
        return self._request("get", path, ((0, most),), lambda: self.inner.get_start(path, most))

    def get_many(self, path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        check_path(path)
        ranges = tuple(zip(starts, stops, strict=True))
        return self._request("get_many", path, ranges, lambda: self.inner.get_many(path, starts, stops))

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        check_path(path)
        return self._request("put", path, (), lambda: self.inner.put(path, data, mode))

    def put_stream(self, path: str) -> BinaryIO:
        check_path(path)
        return self._request("put_stream", path, (), lambda: self.inner.put_stream(path))

    def rename(self, source: str, target: str, mode: PutMode = PutMode.OVERWRITE) -> None:
        check_path(source)
        check_path(target)
        self._request("rename", source, (), lambda: self.inner.rename(source, target, mode))

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            check_path(path)
        self._request("delete", paths[0] if paths else "", (), lambda: self.inner.delete(paths))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        check_prefix(prefix)
        return self._request("list", prefix, (), lambda: self.inner.list(prefix, start_after))

    def release(self, path: str) -> None:
        """Pass on to a store that caches maps; makes no request."""
        _release(self.inner, path)


class Request(NamedTuple):
    """One request recorded by :class:`CountingStore`; ``stop`` is None for the end of the object."""

    method: str
    path: str
    start: int = 0
    stop: int | None = None


class CountingStore(WrappedStore):
    """Records every request; each range of ``get_many`` counts as one.

    Attributes
    ----------
    requests : list of Request
        In the order made; refused paths are not among them.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> store = CountingStore(MemoryStore())
    >>> _ = store.put("a", b"hello")
    >>> _ = store.get_many("a", [0, 3], [2, 5])
    >>> store.count("get_many"), store.nbytes, store.requests[-1]
    (2, 4, Request(method='get_many', path='a', start=3, stop=5))
    """

    def __init__(self, inner: Store, *, uri: str | None = None, traits: StoreTraits | None = None) -> None:
        super().__init__(inner, uri=uri, traits=traits)
        self.requests: list[Request] = []
        self._read: list[int] = []

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        self.requests.extend([Request(method, path, *pair) for pair in ranges] or [Request(method, path)])
        answer = call()
        if ranges:
            self._read.append(_nbytes(answer))
        return answer

    def count(self, *methods: str) -> int:
        """Number of requests of the named methods, or of all."""
        return sum(1 for request in self.requests if not methods or request.method in methods)

    @property
    def nbytes(self) -> int:
        """Bytes read."""
        return sum(self._read)

    def clear(self) -> None:
        """Forget the recorded requests."""
        self.requests.clear()
        self._read.clear()


class LatencyStore(WrappedStore):
    """Delays every request, as a network would.

    Parameters
    ----------
    inner : Store
    delay_s : float, seconds
        Per request. If the traits say that the store batches, the ranges of one ``get_many`` share a delay up to
        the traits' concurrency; otherwise each has its own.
    uri, traits : optional
        Default traits: the inner store's, but not mapped, since a map makes no requests.
    """

    def __init__(
        self, inner: Store, delay_s: float, *, uri: str | None = None, traits: StoreTraits | None = None
    ) -> None:
        super().__init__(inner, uri=uri, traits=traits or replace(inner.traits, is_mapped=False))
        self.delay_s = delay_s

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        together = self.traits.concurrency if self.traits.batches else 1
        time.sleep(self.delay_s * max(1, -(-len(ranges) // together)))
        return call()


def _release(store: Store, path: str) -> None:
    release = getattr(store, "release", None)
    if release is not None:
        release(path)


def _nbytes(answer: Any) -> int:
    return sum(memory.size for memory in answer) if isinstance(answer, list) else int(answer.size)
