"""Thread pools that cannot deadlock by waiting for each other.

Each pool has a level, and its threads may submit work only to pools of a higher
level; other work runs in the calling thread::

    0  ahead     whole windows of a stream, read ahead
    1  waiting   work that mostly waits on the network; more threads than processors
    2  working   decoding and filtering; as many threads as processors, the one that asks among them
    3  storage   single requests; wait for no other pool

Threads are started when needed. A forked child starts with new pools. Where no thread can be started, as at the end of
the interpreter or beyond the threads that the system allows, the calling thread does the work.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Generic, ParamSpec, TypeVar, cast

__all__ = ["Level", "Pools", "processors", "submit"]

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


class Level(IntEnum):
    """The levels of the pools; threads of one level may use higher levels."""

    AHEAD = 0
    WAITING = 1
    WORKING = 2
    STORAGE = 3


class Pools:
    """The thread pools of a session.

    Parameters
    ----------
    threads : int, optional
        Threads for work; by default as many as this process may use processors.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self.wanted_threads = threads
        self._renew()
        _LIVE.add(self)

    def _renew(self) -> None:
        """Drop threads and lock: initially, and in a forked child, where the threads do not exist."""
        self._lock = threading.Lock()
        self._part = threading.Lock()
        self._pools: dict[Level, ThreadPoolExecutor] = {}
        self._here = threading.local()

    @property
    def threads(self) -> int:
        """Threads for work."""
        return self.wanted_threads or processors()

    def pool(self, level: Level) -> ThreadPoolExecutor:
        """One of the pools, started on first use."""
        pool = self._pools.get(level)
        if pool is None:
            with self._lock:
                pool = self._pools.get(level) or self._made(level)
                self._pools[level] = pool
        return pool

    def _made(self, level: Level) -> ThreadPoolExecutor:
        name = f"lancecy-{level.name.lower()}"
        return ThreadPoolExecutor(
            self._size(level), name, initializer=_set_level, initargs=(self._here, level)
        )

    def _size(self, level: Level) -> int:
        return {
            Level.AHEAD: max(4, self.threads),
            # A worker of a cluster runs one task per processor, and the units of all of them wait here. Of many
            # small files most of the time is spent waiting.
            Level.WAITING: max(48, 2 * self.threads),
            Level.WORKING: self.threads,
        }.get(level, 64)

    def may_use(self, level: Level) -> bool:
        """Whether the current thread may wait for work submitted to the pool of that level."""
        current: int = getattr(self._here, "level", -1)
        return current < level

    def submit(self, level: Level, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have the pool call the function, or call it at once if this thread may not wait for the pool."""
        work = _Work(partial(function, *args, **kwargs))
        future = work.future
        if self.may_use(level):
            self._start(level, work)
        else:
            work.run()
        return future

    def _start(self, level: Level, work: _Work[T]) -> None:
        """Have the pool do the work."""
        pool = self.pool(level)
        try:
            _start(pool, work)
        except BaseException:
            # It is shut down now, and the next work needs another.
            if self._pools.get(level) is pool:
                del self._pools[level]
            raise

    def map(self, level: Level, function: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Results of the function for all items, in order.

        Raises
        ------
        Exception
            The error of the first failing item, once no other item is running.
        """
        todo = list(items)
        alone = level is Level.WORKING and self.threads == 1
        if len(todo) <= 1 or alone or not self.may_use(level):
            return [function(item) for item in todo]
        shared = _Shared(function, todo)
        with self._taking_part(level) as takes_part:
            works = [_Work(shared.run) for _ in range(min(len(todo), self._size(level)) - takes_part)]
            futures = [work.future for work in works]
            try:
                for work in works:
                    self._start(level, work)
                if takes_part:
                    shared.run()
                    for future in futures:
                        future.cancel()
                for future in futures:
                    if not future.cancelled():
                        future.result()
            except BaseException:
                shared.stop()
                wait([future for future in futures if not future.cancel()])
                raise
        return shared.results()

    @contextmanager
    def _taking_part(self, level: Level) -> Iterator[bool]:
        """Whether the current thread does a part of the work as well, as a thread of that level.

        A thread that is woken up may share the processor of the one that woke it for milliseconds, so one thread less
        is woken up. Where several threads ask for work at once, one of them takes part.
        """
        # A child that the work forks has others.
        part, here = self._part, self._here
        if level is not Level.WORKING or not part.acquire(blocking=False):
            yield False
            return
        before = getattr(here, "level", -1)
        here.level = level
        try:
            yield True
        finally:
            here.level = before
            part.release()

    def close(self) -> None:
        """End all threads once they are done; new ones start when needed."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.shutdown(wait=True)


def submit(
    pool: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> Future[T]:
    """Have a pool call the function, or call it at once if the pool can start no thread.

    Parameters
    ----------
    pool : ThreadPoolExecutor
        Not shut down by its owner.
    function : function
    *args, **kwargs
        For the function.

    Returns
    -------
    Future
        Already done if this thread called the function.

    Raises
    ------
    KeyboardInterrupt
        Ctrl+C was pressed meanwhile. The pool takes no more work.

    Notes
    -----
    Python lets no pool take work once the main thread has ended, while functions of ``atexit`` and threads that are no
    daemons still run.
    """
    work = _Work(partial(function, *args, **kwargs))
    future = work.future
    _start(pool, work)
    return future


def _start(pool: ThreadPoolExecutor, work: _Work[T]) -> None:
    try:
        pool.submit(work.run)
    except RuntimeError:
        work.run()
        # The pool may have queued the work before it failed to start a thread, and keeps it until there is one.
        work.future = Future()
    except BaseException:
        # Ctrl+C while a thread starts: the pool does not know the thread, and would not end it with the interpreter.
        work.future.cancel()
        pool.shutdown(wait=False)
        raise


class _Work(Generic[T]):
    """A call that is made once, by whichever thread comes first."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._calls = deque([call])
        self.future: Future[T] = Future()

    def run(self) -> None:
        """Make the call, unless it is cancelled or another thread has begun it; its outcome is that of the future."""
        future = self.future
        try:
            call = self._calls.pop()
        except IndexError:
            return
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise


def processors() -> int:
    """Processors this process may run on; in a container fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _set_level(here: threading.local, level: Level) -> None:
    here.level = level


class _Shared(Generic[T, U]):
    """Items that several threads take one after the other."""

    def __init__(self, function: Callable[[T], U], items: Sequence[T]) -> None:
        self._function = function
        self._left = deque(enumerate(items))
        self._results: list[U | None] = [None] * len(items)
        self._errors: dict[int, Exception] = {}

    def run(self) -> None:
        """Take items until none is left, or one fails."""
        while self._left:
            try:
                number, item = self._left.popleft()
            except IndexError:
                return
            try:
                self._results[number] = self._function(item)
            except Exception as error:  # noqa: BLE001 - raised where the results are wanted
                self._errors[number] = error
                self.stop()

    def stop(self) -> None:
        """Leave out items that no thread has taken."""
        self._left.clear()

    def results(self) -> list[U]:
        """The results in order, once no thread is running; the error of the first item that failed is raised."""
        if self._errors:
            errors, self._errors = self._errors, {}
            raise errors[min(errors)]
        return cast("list[U]", self._results)


_LIVE: weakref.WeakSet[Pools] = weakref.WeakSet()


def _after_fork() -> None:
    for pools in list(_LIVE):
        pools._renew()


os.register_at_fork(after_in_child=_after_fork)
