"""What a process keeps while it works with tables: stores, caches, limits, threads.

A :class:`Session` replaces globals. It opens each store once, drives the rounds
of Reads (merged, side by side), keeps small immutable things in one bounded
cache, and owns the thread pools. No thread exists before it is needed, and a
forked child starts with fresh ones.

:func:`default` is the one process-wide session, for workers that are handed plain data.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Store
from lancecy.store.cache import ByteCache
from lancecy.store.credentials import CredentialMemory, Options, freeze
from lancecy.store.fetch import Job, RetainingFetch, fetch_round
from lancecy.store.pools import Level, Pools
from lancecy.store.reads import Ranges, Span
from lancecy.store.uri import canonical_uri, open_store, split_credentials

__all__ = ["RetainingFetch", "Session", "default"]

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")

_STORES = 256
_numbers = itertools.count(1)


class Session:
    """Stores, caches, limits and threads shared by the tables opened with it.

    Parameters
    ----------
    limits : Limits
        Caps on what files may claim.
    cache_bytes : int, bytes
        Bound of ``cache``.
    threads : int, optional
        Threads for work; as many as this process may use processors if not given.

    Attributes
    ----------
    limits : Limits
    cache : ByteCache
        For immutable values, keyed by what they were made from.
    key : int
        Tells sessions of this process apart, in caches of others.

    Notes
    -----
    Safe to share between threads and across a fork. A pickle carries the settings and nothing else: no store,
    no cached value, no credentials.

    Examples
    --------
    >>> session = Session()
    >>> session.store("/data/table").uri
    '/data/table'
    >>> session.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, cache_bytes: int = 256 << 20, threads: int | None = None
    ) -> None:
        self.limits = limits
        self.cache = ByteCache(cache_bytes)
        self.key = next(_numbers)
        self._pools = Pools(threads)
        self._credentials = CredentialMemory()
        self._stores: OrderedDict[tuple[object, ...], Store] = OrderedDict()
        self._siblings: dict[Limits, Session] = {limits: self}

    def __repr__(self) -> str:
        return f"<Session with {len(self._stores)} stores, {self.cache.nbytes} bytes cached>"

    def __reduce__(self) -> tuple[type[Session], tuple[Limits, int, int | None]]:
        return Session, (self.limits, self.cache.limit, self._pools.wanted_threads)

    def with_limits(self, limits: Limits) -> Session:
        """The session that shares everything with this one except limits and cache.

        What was parsed under one set of limits must not satisfy another, so each has its own cache. The same limits
        give the same session.

        Parameters
        ----------
        limits : Limits

        Returns
        -------
        Session
        """
        found = self._siblings.get(limits)
        if found is None:
            made = Session(limits, self.cache.limit, self._pools.wanted_threads)
            made._pools = self._pools
            made._credentials = self._credentials
            made._stores = self._stores
            made._siblings = self._siblings
            found = self._siblings.setdefault(limits, made)
        return found

    # Stores

    def store(
        self,
        uri: str | os.PathLike[str],
        storage_options: Options | None = None,
        mapped: bool = True,
        follow_symlinks: bool = True,
    ) -> Store:
        """The store of a root, opened once per URI and options.

        Parameters
        ----------
        uri, storage_options, mapped, follow_symlinks
            As for ``lancecy.store.uri.open_store``. Options remembered for the root are *not* looked up here:
            a root named by a table's metadata must not find the caller's credentials by itself.

        Returns
        -------
        Store

        Raises
        ------
        UnsupportedError
            No adapter for the scheme.
        ValueError
            Not a URI a folder can have.
        """
        text = os.fspath(uri)
        if text[:1] != "/" and "://" not in text:
            text = canonical_uri(text)  # the meaning of a relative path changes with the working directory
        options = freeze(storage_options) if storage_options else None
        key = (text, options, mapped, follow_symlinks)
        store = self._stores.get(key)
        if store is None:
            store = self._open(key, text, storage_options, mapped, follow_symlinks)
        return store

    def _open(
        self, key: tuple[object, ...], text: str, options: Options | None, mapped: bool, follow: bool
    ) -> Store:
        # Other spellings of one place share a store; what a URI says of user and password is an option.
        canonical, found = split_credentials(text)
        given = {**found, **(options or {})}
        same = (canonical, freeze(given) if given else None, mapped, follow)
        store = self._stores.get(same)
        if store is None:
            store = open_store(canonical, given, mapped=mapped, follow_symlinks=follow)
            store = self._stores.setdefault(same, store)
        self._stores[key] = store
        while len(self._stores) > _STORES:
            try:
                self._stores.popitem(last=False)
            except KeyError:
                break  # emptied by another thread meanwhile
        return store

    def remember_options(self, uri: str | os.PathLike[str], options: Options | None) -> None:
        """Keep the options given for a root, for :meth:`options_for`; None or empty ones forget them.

        Parameters
        ----------
        uri : str or path
        options : mapping or None
            Stay in this process: no pickle, message or ``repr`` has them.
        """
        self._credentials.remember(canonical_uri(uri), options)

    def options_for(self, uri: str | os.PathLike[str]) -> dict[str, Any]:
        """The options remembered in this process for a root or the nearest folder above it.

        Parameters
        ----------
        uri : str or path

        Returns
        -------
        dict
            Empty if there are none. Never those given for another bucket or host.
        """
        return self._credentials.find(canonical_uri(uri))

    # Reading

    def fetch(self, requests: Sequence[Ranges]) -> list[Span]:
        """Fetch one round of ranges.

        Parameters
        ----------
        requests : sequence of Ranges

        Returns
        -------
        list of Span
            One per request, in order. Of a mapped file: the whole map and the positions unchanged, nothing copied.
            Of others: an arena per file with the merged ranges, shared by the requests of that file.

        Raises
        ------
        TruncatedError
            A range passes the end of its file, or the store gave fewer bytes.
        LanceError
            Whatever else the store raises.
        """
        return fetch_round(requests, self._run_io)

    def fetcher(self, limit: int = 256 << 20) -> RetainingFetch:
        """A ``fetch`` for a piece of work of several rounds, that remembers what it fetched.

        Parameters
        ----------
        limit : int, bytes
            Remembered at most.

        Returns
        -------
        RetainingFetch
        """
        return RetainingFetch(self._run_io, limit)

    def _run_io(self, jobs: Sequence[Job]) -> None:
        self._pools.map(Level.STORAGE, _call, jobs)

    # Threads

    @property
    def threads(self) -> int:
        """Threads for work."""
        return self._pools.threads

    def pool(self) -> ThreadPoolExecutor:
        """The threads for work, started on first use."""
        return self._pools.pool(Level.WORKING)

    def io_pool(self) -> ThreadPoolExecutor:
        """The threads that make single storage requests, started on first use; they wait for nobody."""
        return self._pools.pool(Level.STORAGE)

    def map(self, function: Callable[[T], U], items: Iterable[T], blocking: bool = False) -> list[U]:
        """Apply a function to every item, side by side.

        Parameters
        ----------
        function : function of an item
            Should release the GIL for most of its time.
        items : iterable
        blocking : bool
            The function mostly waits on the network; more threads are used than there are processors. It may
            itself use ``map`` without ``blocking``.

        Returns
        -------
        list
            Results in the order of the items.

        Raises
        ------
        Exception
            What the first failing item (in order) raised, once no other is running.

        Notes
        -----
        Runs here and now for a single item, and in a thread that could end up waiting for itself (see
        ``lancecy.store.pools``).
        """
        return self._pools.map(Level.WAITING if blocking else Level.WORKING, function, items)

    def submit_ahead(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a large piece of work before its result is needed.

        Parameters
        ----------
        function : function
            May use :meth:`map` and :meth:`fetch`.
        *args, **kwargs
            For the function.

        Returns
        -------
        Future
            Already done when called from one of the session's own threads.
        """
        return self._pools.submit(Level.AHEAD, function, *args, **kwargs)

    def close(self) -> None:
        """End the threads and let go of stores and cached values; the session can be used again."""
        self._pools.close()
        self._stores.clear()
        for sibling in list(self._siblings.values()):
            sibling.cache.clear()


def _call(job: Job) -> None:
    job()


class _Default:
    lock = threading.Lock()
    session: Session | None = None


def default() -> Session:
    """The session of this process, made on first use."""
    session = _Default.session
    if session is None:
        with _Default.lock:
            session = _Default.session = _Default.session or Session()
    return session


def _after_fork() -> None:
    _Default.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
