"""Sessions: the stores, cache, limits and threads that tables share.

A :class:`Session` replaces globals. It opens each store once, runs the rounds
of Reads (merged, in parallel), keeps small immutable values in one bounded
cache, and owns the thread pools. Threads are started when needed; a forked child
starts new ones.

:func:`default` returns the session of the process, for workers that receive plain data.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from lancecy.errors import printable
from lancecy.keyword_options import checked_arguments
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Store
from lancecy.store.cache import ByteCache
from lancecy.store.credentials import CredentialMemory, Options, freeze
from lancecy.store.fetch import Block, FileKey, Job, RetainingFetch, fetch_round
from lancecy.store.pools import Level, Pools
from lancecy.store.reads import Ranges, Span
from lancecy.store.replicas import Outages
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
        Upper bounds for what files may claim.
    cache_bytes : int, bytes
        Bound of ``cache``.
    threads : int, optional
        Threads for work; by default as many as this process may use processors.

    Attributes
    ----------
    limits : Limits
    cache : ByteCache
        For immutable values, keyed by what they were made from.
    key : int
        Identifies the session within this process, for cache keys.
    outages : Outages
        Places that hold copies and did not answer lately.

    Notes
    -----
    Thread-safe and fork-safe. A pickle carries the settings only: no store, no cached value, no credentials.

    Examples
    --------
    >>> session = Session()
    >>> session.store("/data/table").uri
    '/data/table'
    >>> session.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    @checked_arguments(
        {
            **dict.fromkeys(
                ("index_cache_size_bytes", "metadata_cache_size_bytes"),
                "cache_bytes=… is the size of the one cache for both",
            ),
            **dict.fromkeys(
                ("index_cache_backend", "metadata_cache_backend", "store_registry"),
                "a session has a cache in memory, and stores by their URIs",
            ),
        }
    )
    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, cache_bytes: int = 256 << 20, threads: int | None = None
    ) -> None:
        self.limits = limits
        self.cache = ByteCache(cache_bytes)
        self._owner = _Owner(self.cache)
        self.key = next(_numbers)
        self.outages = Outages()
        self._pools = Pools(threads)
        self._credentials = CredentialMemory()
        self._stores: OrderedDict[tuple[object, ...], Store] = OrderedDict()
        # Sessions with other limits, without this one: an object that refers to itself is not freed with its last user.
        self._siblings: dict[Limits, Session] = {}

    def __repr__(self) -> str:
        return f"<Session with {len(self._stores)} stores, {self.cache.nbytes} bytes cached>"

    def __reduce__(self) -> tuple[type[Session], tuple[Limits, int, int | None]]:
        return Session, (self.limits, self.cache.limit, self._pools.wanted_threads)

    def with_limits(self, limits: Limits) -> Session:
        """The session that shares everything with this one except limits and cache.

        A value parsed under one set of limits must not be used under another, so each has its own cache. The same
        limits give the same session.

        Parameters
        ----------
        limits : Limits

        Returns
        -------
        Session
        """
        found = self if limits == self.limits else self._siblings.get(limits)
        if found is None:
            made = Session(limits, self.cache.limit, self._pools.wanted_threads)
            made._pools = self._pools
            made.outages = self.outages
            made._credentials = self._credentials
            made._stores = self._stores
            made._siblings = self._siblings
            self._siblings.setdefault(self.limits, self)
            found = self._siblings.setdefault(limits, made)
        return found

    def size_bytes(self) -> int:
        """Bytes of the cached values, as in pylance."""
        return self.cache.nbytes

    def is_same_as(self, other: Session) -> bool:
        """Whether two names are of one session, whose cache they share, as in pylance.

        Parameters
        ----------
        other : Session

        Examples
        --------
        >>> session = Session()
        >>> session.is_same_as(session), session.is_same_as(Session())
        (True, False)
        """
        return self is other

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
            As for ``lancecy.store.uri.open_store``. Options remembered for the root are *not* used here:
            a root named by a table's metadata must not get the caller's credentials.

        Returns
        -------
        Store

        Raises
        ------
        UnsupportedError
            No adapter for the scheme.
        ValueError
            Not the URI of a folder.
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
        # All spellings of one place share a store; user and password of a URI become options.
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
                break  # another thread emptied it
        return store

    def file_store(
        self, path: str | os.PathLike[str], storage_options: Options | None = None
    ) -> tuple[Store, str]:
        """The store of the folder of one file, and the file's name in it.

        Parameters
        ----------
        path : str or path
        storage_options : mapping, optional
            By default those remembered for the folder.

        Raises
        ------
        ValueError
            Not the path of a file.
        """
        root, name = _folder_and_name(canonical_uri(path))
        # Where a scheme has buckets, one is needed; memory has none.
        if not name or not root or (root.endswith("://") and root != "memory://"):
            raise ValueError(f"{printable(str(path))!r} is not the path of a file")
        given, _ = _folder_and_name(os.fspath(path).rstrip("/"))
        return self.store(given or root, storage_options or self.options_for(root) or None), name

    def remember_options(self, uri: str | os.PathLike[str], options: Options | None) -> None:
        """Remember the options of a root for :meth:`options_for`; None or empty options forget them.

        Parameters
        ----------
        uri : str or path
        options : mapping or None
            Stay in this process: they appear in no pickle, message or ``repr``.
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
            One per request, in order. Of a mapped file: the whole map with unchanged positions, nothing is copied.
            Of others: one arena per file with the merged ranges, shared by the requests of that file.

        Raises
        ------
        TruncatedError
            A range passes the end of its file, or the store returned fewer bytes.
        LanceError
            Any other error of the store.
        """
        return fetch_round(requests, self._run_io)

    def fetcher(self, limit: int = 256 << 20, known: Mapping[FileKey, Block] | None = None) -> RetainingFetch:
        """A ``fetch`` for work of several rounds, which keeps what it fetched.

        Parameters
        ----------
        limit : int, bytes
            Limit on what is kept.
        known : mapping, optional
            Blocks that earlier work fetched.

        Returns
        -------
        RetainingFetch
        """
        return RetainingFetch(self._run_io, limit, known)

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

    def map(self, function: Callable[[T], U], items: Iterable[T], blocking: bool = False) -> list[U]:
        """Apply a function to every item, in parallel.

        Parameters
        ----------
        function : function of an item
            Should release the GIL for most of its time.
        items : iterable
        blocking : bool
            The function mostly waits on the network: use more threads than processors. It may itself use ``map``
            without ``blocking``.

        Returns
        -------
        list
            Results in the order of the items.

        Raises
        ------
        Exception
            The error of the first failing item (in order), once no other is running.

        Notes
        -----
        A single item runs in the calling thread, and so does work that could end up waiting for itself (see
        ``lancecy.store.pools``).
        """
        return self._pools.map(Level.WAITING if blocking else Level.WORKING, function, items)

    def map_requests(self, function: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """:meth:`map` for a function that makes a request or two and little else; a function of ``map`` may use it.

        Parameters
        ----------
        function : function of an item
        items : iterable
        """
        return self._pools.map(Level.STORAGE, function, items)

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
        """End the threads and drop stores and cached values; the session stays usable."""
        self._pools.close()
        self._stores.clear()
        for session in (self, *self._siblings.values()):
            session.cache.clear()


class _Owner:
    """Empties a cache when no session uses it any more: cached values refer to the cache, and would wait for the collector."""

    __slots__ = ("_cache",)

    def __init__(self, cache: ByteCache) -> None:
        self._cache = cache

    def __del__(self) -> None:
        self._cache.clear()


def _folder_and_name(uri: str) -> tuple[str, str]:
    """The folder of a file, with its scheme, and the file's name."""
    scheme, mark, path = uri.rpartition("://")
    folder, _, name = path.rpartition("/")
    return f"{scheme}{mark}{folder}", name


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
