"""Requests to S3 through obstore, past the layers of s3fs, which take most of a small request's time.

Only what is certain is done here: reads of ranges, and puts. For everything else, and whenever a request fails in a way
that is not certain, s3fs is asked, so that retries and errors are s3fs's. A login is asked of s3fs too, each time it
may have expired. Options that obstore may understand in another way leave all to s3fs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["PUT_MARK", "Direct", "direct_requests"]

PUT_MARK = "lancecy-put"
"""Metadata of an object made by a conditional put. It tells a try whose answer was lost from another writer's put."""

# Options that mean the same to both, or nothing to single requests.
_OPTIONS = frozenset(
    {"key", "secret", "token", "anon", "endpoint_url", "client_kwargs", "use_listings_cache"}
)
_CLIENT_OPTIONS = frozenset({"endpoint_url", "region_name"})
# Settings of botocore that change what is asked, or whom.
_SETTINGS = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
# Of a whole request, body included: so many large ones share a slow link that each takes minutes.
_TIMEOUT, _LARGE_TIMEOUT = timedelta(seconds=30), timedelta(minutes=5)
_LARGE = 1 << 20
# Of many small objects as many are asked for at once: with fewer idle connections, most of them connect anew each time.
_IDLE, _IDLE_CONNECTIONS = timedelta(seconds=15), "128"
_LOGIN_VALID = timedelta(minutes=2)
# After so many failures in a row, such as of a wrong region, every request would be made twice. A server that was only
# busy is asked again after a while.
_FAILURES = 4
_REST_S = 60.0


# Of each file system, with connections that all stores in its buckets share.
_KNOWN: WeakKeyDictionary[Any, dict[str, Direct | None]] = WeakKeyDictionary()


class _Process:
    # The threads of obstore do not survive a fork, and it refuses to start new ones.
    used = False
    is_forked = False


def _after_fork() -> None:
    _Process.is_forked = _Process.used


os.register_at_fork(after_in_child=_after_fork)


class Direct:
    """Requests to the objects of one bucket.

    Methods return None if s3fs has to be asked. Safe to share between threads.

    Parameters
    ----------
    store, large : obstore.store.S3Store
        For requests below a megabyte, which are soon found to hang, and for others.
    bucket : str
    loop : asyncio.AbstractEventLoop
        Runs in a thread of its own.
    """

    def __init__(self, store: Any, large: Any, bucket: str, loop: asyncio.AbstractEventLoop) -> None:
        self._store, self._large = store, large
        self._inside = f"{bucket}/"
        self._loop = loop
        self._failures = 0
        self._rests_until = 0.0
        self._library = import_module("obstore")

    def ranges(self, name: str, pairs: Sequence[tuple[int, int]]) -> list[Any] | None:
        """Buffers with ranges of an object.

        Parameters
        ----------
        name : str
            Bucket and key.
        pairs : sequence of (start, stop)
            None empty.

        Raises
        ------
        FileNotFoundError
        """
        if len(pairs) == 1:
            ((start, stop),) = pairs
            read = self._library.get_range
            store = self._store_for(stop - start)
            answer = self._ask(name, lambda key: read(store, key, start=start, end=stop))
            return None if answer is None else [answer]
        order = sorted(range(len(pairs)), key=lambda index: pairs[index])
        found: list[Any] = [None] * len(pairs)
        # Parts of one large range touch, and obstore would make one request of them again.
        is_touching = any(pairs[b][0] <= pairs[a][1] for a, b in pairwise(order))
        for wave in (order[::2], order[1::2]) if is_touching else (order,):
            answers = self._ask(name, partial(self._together, pairs=[pairs[index] for index in wave]))
            if answers is None:
                return None
            for index, answer in zip(wave, answers, strict=True):
                found[index] = answer
        return found

    def _together(self, key: str, pairs: Sequence[tuple[int, int]]) -> list[Any]:
        """Several ranges at a time, by threads that need no lock of Python."""
        starts, stops = [start for start, _ in pairs], [stop for _, stop in pairs]
        store = self._store_for(max(stop - start for start, stop in pairs))
        found: list[Any] = self._library.get_ranges(store, key, starts=starts, ends=stops, coalesce=0)
        return found

    def each(self, wanted: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Buffers with one range each of several objects, requested at once.

        One thread waits for all of them: threads that wait for one each take turns to hold the lock of Python.

        Parameters
        ----------
        wanted : sequence of (str, int, int)
            Bucket and key, start and stop; no range is empty.

        Returns
        -------
        list of buffer or None
            None where s3fs has to be asked.
        """
        if self._rests:
            return [None] * len(wanted)
        _Process.used = True
        answers: list[Any] = import_module("fsspec.asyn").sync(self._loop, self._each, wanted)
        failed = [isinstance(answer, BaseException) for answer in answers]
        self._note(any(failed))
        return [None if is_failed else answer for answer, is_failed in zip(answers, failed, strict=True)]

    async def _each(self, wanted: Sequence[tuple[str, int, int]]) -> list[Any]:
        read, bucket = self._library.get_range_async, len(self._inside)
        asked = [read(self._store, name[bucket:], start=start, end=stop) for name, start, stop in wanted]
        return await asyncio.gather(*asked, return_exceptions=True)

    def whole(self, name: str) -> Any:
        """A buffer with a whole object.

        Raises
        ------
        FileNotFoundError
        """
        return self._ask(name, lambda key: self._library.get(self._store, key).bytes())

    def put(self, name: str, value: bytes, *, mark: str = "") -> bool:
        """Write an object in one request; False if s3fs has to write it.

        Parameters
        ----------
        name : str
        value : bytes
        mark : str
            If it is given, the object is written only if it is absent, and the mark becomes part of its metadata.

        Raises
        ------
        FileExistsError
        """
        mode = "create" if mark else "overwrite"
        attributes = {PUT_MARK: mark} if mark else None

        def write(key: str) -> bool:
            self._library.put(
                self._store_for(len(value)), key, value, mode=mode, attributes=attributes, use_multipart=False
            )
            return True

        return bool(self._ask(name, write))

    def _store_for(self, nbytes: int) -> Any:
        return self._store if nbytes < _LARGE else self._large

    def _ask(self, name: str, request: Callable[[str], Any]) -> Any:
        if self._rests:
            return None
        _Process.used = True
        try:
            answer = request(name.removeprefix(self._inside))
        except Exception as error:  # noqa: BLE001 - s3fs is asked, and tells what is wrong
            kind = type(error).__name__
            if kind == "NotFoundError":
                raise FileNotFoundError(name) from None
            # Only this status says that the object is there: two writers at once may both be refused.
            if kind == "AlreadyExistsError" and "412" in str(error):
                raise FileExistsError(name) from None
            self._note(True)
            return None
        self._note(False)
        return answer

    @property
    def _rests(self) -> bool:
        """Whether s3fs makes all requests at present."""
        return _Process.is_forked or time.monotonic() < self._rests_until

    def _note(self, failed: bool) -> None:
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= _FAILURES:
            self._rests_until = time.monotonic() + _REST_S


def direct_requests(fs: Any, root: str, options: Mapping[str, Any]) -> Direct | None:
    """Requests to the bucket of a folder, None if they have to be left to s3fs.

    Parameters
    ----------
    fs : s3fs.S3FileSystem
    root : str
        Bucket and key of the folder.
    options : mapping
        What ``fs`` was made with.
    """
    client = options.get("client_kwargs") or {}
    is_known = _OPTIONS.issuperset(options) and _CLIENT_OPTIONS.issuperset(client)
    if not is_known or _Process.is_forked or any(map(os.environ.get, _SETTINGS)):
        return None
    bucket = root.partition("/")[0]
    if find_spec("obstore") is None or not _is_plain(bucket):
        return None
    known = _KNOWN.setdefault(fs, {})
    if bucket not in known:
        try:
            known[bucket] = Direct(*_stores(fs, bucket, options), bucket, fs.loop)
        except Exception:  # noqa: BLE001 - a bad endpoint is reported by s3fs
            known[bucket] = None
    return known[bucket]


def _is_plain(bucket: str) -> bool:
    """Whether a name is that of a general bucket: no access point, directory bucket or name with dots."""
    return bucket.replace("-", "").isalnum() and not bucket.endswith("--x-s3")


def _stores(fs: Any, bucket: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    sync = import_module("fsspec.asyn").sync
    sync(fs.loop, fs.set_session)
    known = fs.s3.meta
    region, endpoint = known.region_name, str(known.endpoint_url)
    config: dict[str, Any] = {"region": region, "endpoint": endpoint, "virtual_hosted_style_request": False}
    if region in (None, "aws-global"):
        raise ValueError("the region of the bucket is not known")
    if fs.anon:
        config["skip_signature"] = True

    def login() -> dict[str, Any]:
        if fs.key and fs.secret:
            given = {"access_key_id": fs.key, "secret_access_key": fs.secret}
            return {**given, "token": fs.token, "expires_at": None}
        found: dict[str, Any] = sync(fs.loop, _login, fs)
        return found

    def store(timeout: timedelta) -> Any:
        return import_module("obstore.store").S3Store(
            bucket,
            config=config,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "timeout": timeout,
                "pool_idle_timeout": _IDLE,
                "pool_max_idle_per_host": _IDLE_CONNECTIONS,
            },
            retry_config={"max_retries": 0, "retry_timeout": timeout},
            # Without one, variables of the environment would be mixed with a login that was given.
            credential_provider=None if fs.anon else login,
        )

    return store(_TIMEOUT), store(_LARGE_TIMEOUT)


async def _login(fs: Any) -> dict[str, Any]:
    """The login that s3fs has found, for a short time."""
    login = await (await fs.session.get_credentials()).get_frozen_credentials()
    return {
        "access_key_id": login.access_key,
        "secret_access_key": login.secret_key,
        "token": login.token,
        "expires_at": datetime.now(UTC) + _LOGIN_VALID,
    }
