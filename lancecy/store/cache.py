"""A cache of immutable values with a limit in bytes and least-recently-used eviction.

Keys are tuples of what the value was made from (store, path, size,
identity), so no entry is ever invalidated. Values are made outside the lock: two
threads may make the same value at once, but neither waits for the other.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["ByteCache"]

T = TypeVar("T")


class ByteCache:
    """Values by key, with a limit on their total size in bytes.

    Parameters
    ----------
    limit : int, bytes
        A single value larger than this is returned but not kept.

    Notes
    -----
    Thread-safe. In a forked child the lock is renewed and cached values stay usable.

    Examples
    --------
    >>> cache = ByteCache(100)
    >>> cache.get(("a",), lambda: "value", nbytes=60)
    'value'
    >>> cache.nbytes, len(cache)
    (60, 1)
    """

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"the limit of a cache cannot be {limit}")
        self.limit = limit
        self._entries: OrderedDict[tuple[Hashable, ...], tuple[Any, int]] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        _LIVE.add(self)

    @property
    def nbytes(self) -> int:
        """Bytes kept at present, as declared when they were added."""
        # A value is added before others are evicted.
        with self._lock:
            return self._nbytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: tuple[Hashable, ...]) -> bool:
        return key in self._entries

    def get(self, key: tuple[Hashable, ...], make: Callable[[], T], nbytes: int | Callable[[T], int]) -> T:
        """The value of ``key``, made and kept if absent.

        Parameters
        ----------
        key : tuple
        make : function without arguments
            May raise, and then nothing is kept. May use this cache.
        nbytes : int or function of the value, bytes

        Returns
        -------
        object
            Shared by all callers: must not be changed.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                kept: T = entry[0]
                return kept
        value = make()
        self._keep(key, value, nbytes if isinstance(nbytes, int) else nbytes(value))
        return value

    def find(self, key: tuple[Hashable, ...]) -> Any:
        """The value of ``key``, None if absent."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def keep(self, key: tuple[Hashable, ...], value: object, nbytes: int) -> None:
        """Keep a value under ``key``, replacing any other, if it is no larger than the limit."""
        self._keep(key, value, nbytes)

    def discard(self, key: tuple[Hashable, ...]) -> None:
        """Remove one value, if present."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._nbytes -= entry[1]

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            released, self._entries = self._entries, OrderedDict()
            self._nbytes = 0
        released.clear()

    def _keep(self, key: tuple[Hashable, ...], value: object, size: int) -> None:
        if size > self.limit:
            return
        released = []  # finalisers of evicted values run after the lock is given back
        with self._lock:
            replaced = self._entries.pop(key, None)
            if replaced is not None:
                self._nbytes -= replaced[1]
                released.append(replaced)
            self._entries[key] = (value, size)
            self._nbytes += size
            while self._nbytes > self.limit:
                _, evicted = self._entries.popitem(last=False)
                self._nbytes -= evicted[1]
                released.append(evicted)
        released.clear()

    def _renew(self) -> None:
        """Replace the lock after a fork: another thread may have held it, in the middle of a change."""
        self._lock = threading.Lock()
        self._nbytes = sum(size for _, size in self._entries.values())


_LIVE: weakref.WeakSet[ByteCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_LIVE):
        cache._renew()


os.register_at_fork(after_in_child=_after_fork)
