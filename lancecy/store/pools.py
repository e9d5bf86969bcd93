"""Thread pools that can use each other without ever waiting in a circle.

Each pool has a level, and its threads may hand work to pools of a higher level
only; anything else runs where it is asked for::

    0  ahead     whole windows of a stream, read before they are asked for
    1  waiting   pieces of work that mostly wait on the network, more than there are processors
    2  working   decoding and filtering, as many as there are processors
    3  storage   single requests; wait for nobody

No thread exists before it is needed. In a forked child the pools start over.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from enum import IntEnum
from typing import Any, ParamSpec, TypeVar

__all__ = ["Level", "Pools", "processors"]

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


class Level(IntEnum):
    """The pools, in the order in which they may use each other."""

    AHEAD = 0
    WAITING = 1
    WORKING = 2
    STORAGE = 3


class Pools:
    """The thread pools of a session.

    Parameters
    ----------
    threads : int, optional
        Threads for work; as many as this process may use processors if not given.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"nothing can be done with {threads} threads")
        self.wanted_threads = threads
        self._renew()
        _LIVE.add(self)

    def _renew(self) -> None:
        """Forget threads and lock: at the start, and in a forked child, where the threads do not exist."""
        self._lock = threading.Lock()
        self._pools: dict[Level, ThreadPoolExecutor] = {}
        self._here = threading.local()

    @property
    def threads(self) -> int:
        """Threads for work."""
        return self.wanted_threads or processors()

    def pool(self, level: Level) -> ThreadPoolExecutor:
        """One of the pools, made on first use."""
        pool = self._pools.get(level)
        if pool is None:
            with self._lock:
                pool = self._pools.get(level) or self._made(level)
                self._pools[level] = pool
        return pool

    def _made(self, level: Level) -> ThreadPoolExecutor:
        size = {
            Level.AHEAD: max(4, self.threads),
            # A cluster's worker runs a task per processor, and their units all wait here.
            Level.WAITING: max(16, 2 * self.threads),
            Level.WORKING: self.threads,
        }.get(level, 64)
        name = f"lancecy-{level.name.lower()}"
        return ThreadPoolExecutor(size, name, initializer=_set_level, initargs=(self._here, level))

    def may_use(self, level: Level) -> bool:
        """Whether the current thread may wait for work it hands to the pool of that level."""
        current: int = getattr(self._here, "level", -1)
        return current < level

    def submit(self, level: Level, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have the pool call the function; without the right to wait for it, it is called at once."""
        if self.may_use(level):
            return self.pool(level).submit(function, *args, **kwargs)
        done: Future[T] = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - handed to whoever asks for the result, as a pool does
            done.set_exception(error)
        return done

    def map(self, level: Level, function: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Results of the function for all items, in order.

        Raises
        ------
        Exception
            What the first failing item raised, once none of the others is running.
        """
        todo = list(items)
        alone = level is Level.WORKING and self.threads == 1
        if len(todo) <= 1 or alone or not self.may_use(level):
            return [function(item) for item in todo]
        pool = self.pool(level)
        return _finish([pool.submit(function, item) for item in todo])

    def close(self) -> None:
        """End all threads once they are done; they come back when needed."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.shutdown(wait=True)


def processors() -> int:
    """Processors this process may run on; in a container they are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _set_level(here: threading.local, level: Level) -> None:
    here.level = level


def _finish(futures: Sequence[Future[Any]]) -> list[Any]:
    """All results in order; after an error nothing of the batch runs on behind the caller's back."""
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


_LIVE: weakref.WeakSet[Pools] = weakref.WeakSet()


def _after_fork() -> None:
    for pools in list(_LIVE):
        pools._renew()


os.register_at_fork(after_in_child=_after_fork)
