"""S3 through s3fs, with retries, renewed credentials and multi-part uploads that end.

s3fs and botocore each make failing requests again, one inside the other and without ``Retry-After``. Here one handler
decides for every request (:class:`RetryPolicy`), and it also asks for new credentials when the server refuses those
of a job that outlives them. A request is signed anew for each try.

Imported only by functions: it defines classes on top of s3fs and aiobotocore.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aiobotocore.credentials import AioCredentials
from botocore.credentials import ReadOnlyCredentials
from fsspec.asyn import sync_wrapper
from s3fs import S3FileSystem

from lancecy.store.credentials import Options
from lancecy.store.direct import PUT_MARK
from lancecy.store.retries import (
    EXPIRED,
    RetryPolicy,
    error_code,
    is_transient,
    is_transient_answer,
    mark_tries,
    tries_of,
    wait_asked,
)

__all__ = ["RetryingS3"]

_ID = "lancecy-retries"
# A try may last as long as its bytes take at this rate, and no longer: a server that sends a byte now and then is
# silent for no time-out.
_SLOWEST = 16 << 10
# Elements of an error that say what is wrong. Others quote the request, with the session token in it.
_SHOWN = frozenset({"Code", "Message", "Condition", "Endpoint", "Region", "Bucket", "BucketName", "Key"})
_UNEXPLAINED = frozenset({"400", "401", "403"})
_LOST_RACE = frozenset({"PreconditionFailed", "412"})
_DEFAULT = RetryPolicy()
# One of two may meet credentials that were fetched while the request was signed.
_RENEWALS = 3
# So long the same credentials are not doubted again by answers that do not say what was wrong.
_CONFIRMED_S = 60.0
# Credentials are fetched anew so long before they expire.
_AHEAD_S = 60.0


class RetryingS3(S3FileSystem):  # type: ignore[misc]
    """An S3 file system whose requests are made again by one policy.

    Parameters
    ----------
    policy : RetryPolicy
    credentials_provider : function, optional
        Returns storage options with the credentials; see ``services.for_fsspec``. With ``expires_at_millis`` in
        them it is called again before that time.

    Notes
    -----
    All other arguments are those of s3fs.
    """

    retries = 1
    makes_tries = True
    session: Any

    def __init__(
        self,
        *args: Any,
        policy: RetryPolicy = _DEFAULT,
        credentials_provider: Callable[[], Options] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.policy = policy
        self._handlers = _Handlers(policy)
        self._provider = credentials_provider
        self._parts: dict[str, set[asyncio.Task[Any]]] = {}

    @property
    def secret_texts(self) -> frozenset[str]:
        """The credentials used so far that the options do not hold."""
        credentials = self._handlers.credentials
        return credentials.texts if credentials is not None else frozenset()

    async def set_session(self, refresh: bool = False, kwargs: Mapping[str, Any] | None = None) -> Any:
        """Make the client, with the handlers of :class:`_Handlers`."""
        known = self._s3
        if self.session is None:
            self.session = self._new_session()
        client = await super().set_session(refresh, dict(kwargs or {}))
        if client is not known:
            self._handlers.install(client)
        return client

    def _new_session(self) -> Any:
        from aiobotocore.session import AioSession

        session = AioSession(**self.kwargs)
        has_keys = self.key or self.client_kwargs.get("aws_access_key_id")
        if self._provider is None and (self.anon or has_keys):
            return session
        resolver = session.get_component("credential_provider")
        source = _Source(self._provider, list(resolver.providers), self._handlers)
        resolver.providers = [source]
        return session

    def _prepare_config_kwargs(self) -> dict[str, Any]:
        found: dict[str, Any] = super()._prepare_config_kwargs()
        mine = {"socket_factory": partial(_socket, float(found["read_timeout"]))}
        return {**found, "connector_args": {**mine, **found.get("connector_args", {})}}

    async def _call_s3(self, method: str, *more: Any, **request: Any) -> Any:
        upload = request.get("UploadId", "")
        if method == "abort_multipart_upload":
            await self._end_parts(upload)
        mine = asyncio.current_task()
        if method == "upload_part" and mine is not None:
            self._parts.setdefault(upload, set()).add(mine)
        try:
            body = request.get("Body")
            async with asyncio.timeout(self._longest(len(body) if isinstance(body, bytes) else 0)):
                return await super()._call_s3(method, *more, **request)
        except Exception as error:
            if method == "abort_multipart_upload":
                return {}  # the error that led here matters, and the bucket's rules remove what is left
            if method == "complete_multipart_upload" and await self._was_completed(error, request):
                return {}
            if isinstance(error, TimeoutError):
                mark_tries(error, self.policy.retries + 1)
            raise
        finally:
            if method == "upload_part" and mine is not None:
                self._parts[upload].discard(mine)
            elif method == "complete_multipart_upload":
                self._parts.pop(upload, None)

    call_s3 = sync_wrapper(_call_s3)

    async def _pipe_file(
        self,
        path: str,
        data: bytes,
        chunksize: int = 50 << 20,
        max_concurrency: int | None = None,
        mode: str = "overwrite",
        **more: Any,
    ) -> Any:
        send = partial(super()._pipe_file, path, data, chunksize, max_concurrency, mode)
        if mode != "create":
            return await send(**more)
        # If the answer is lost, the next try finds the object and cannot tell whose it is. aiohttp makes such a try
        # itself, unseen, when the server closes a connection that was used before.
        metadata = {PUT_MARK: secrets.token_hex(8), **more.pop("Metadata", {})}
        try:
            return await send(Metadata=metadata, **more)
        except Exception as error:
            if error_code(error) in _LOST_RACE and await self._mark_of(path) == metadata[PUT_MARK]:
                return None
            raise

    async def _mark_of(self, path: str) -> str:
        bucket, key, _ = self.split_path(path)
        found = await self._call_s3("head_object", Bucket=bucket, Key=key)
        return str(found.get("Metadata", {}).get(PUT_MARK, ""))

    async def _cat_file(
        self, path: str, version_id: Any = None, start: int | None = None, end: int | None = None, **more: Any
    ) -> Any:
        if start is None or end is None:
            return await super()._cat_file(path, version_id, start, end, **more)
        async with asyncio.timeout(self._longest(max(0, end - start))):
            return await super()._cat_file(path, version_id, start, end, **more)

    def _longest(self, nbytes: int) -> float:
        return self.policy.limit_s + 60.0 + nbytes / _SLOWEST

    async def _end_parts(self, upload: str) -> None:
        """End the requests of an upload: a part that arrives after the upload is aborted is kept, and paid for."""
        parts = self._parts.pop(upload, set())
        for part in parts:
            part.cancel()
        self._parts[upload] = set()
        await asyncio.gather(*parts, return_exceptions=True)
        self._parts.pop(upload, None)

    async def _was_completed(self, error: Exception, request: Mapping[str, Any]) -> bool:
        """Whether an earlier try, whose answer was lost, made the object of these parts."""
        if not isinstance(error, FileNotFoundError) or tries_of(error) == 1:
            return False
        tags = [part["ETag"].strip('"') for part in request["MultipartUpload"]["Parts"]]
        try:
            joined = hashlib.md5(b"".join(map(bytes.fromhex, tags)), usedforsecurity=False).hexdigest()
            found = await super()._call_s3("head_object", Bucket=request["Bucket"], Key=request["Key"])
        except Exception:  # noqa: BLE001 - the error of the upload is raised instead
            return False
        return bool(found["ETag"].strip('"') == f"{joined}-{len(tags)}")


def _socket(silence_s: float, address: tuple[Any, ...]) -> socket.socket:
    """A socket that is closed when the server takes no bytes for so long; aiohttp has a time-out for answers only."""
    made = socket.socket(*address[:3])
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # of Linux
    if option is not None:
        made.setsockopt(socket.IPPROTO_TCP, option, max(1, int(silence_s * 1000)))
    return made


class _Handlers:
    """Handlers of a client's events; they must not hold the file system, which closes the client when it goes."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.credentials: _Renewed | None = None

    def install(self, client: Any) -> None:
        """Replace botocore's own retries of a client."""
        events = client.meta.events
        events.unregister("needs-retry.s3", unique_id="retry-config-s3")
        events.register("needs-retry.s3", self.needs_retry, unique_id=_ID)
        # An id stands for one handler: a second one of the same id would be left out.
        events.register_first("request-created.s3", self.request_created, unique_id=f"{_ID}-signed")

    def request_created(self, request: Any, **_: Any) -> None:
        """Note when a try is signed."""
        now = time.monotonic()
        request.context.setdefault("lancecy_began", now)
        request.context["lancecy_signed"] = now

    def needs_retry(
        self, attempts: int, response: Any, caught_exception: Exception | None, request_dict: Any, **_: Any
    ) -> float | None:
        """Seconds to wait before the next try; None if there is none."""
        context = request_dict["context"]
        asked = 0.0
        if caught_exception is not None:
            _forget_request(caught_exception)
            mark_tries(caught_exception, attempts)
            again = is_transient(caught_exception)
        else:
            http, parsed = response
            if http.status_code < 300:
                return None
            parsed["Error"] = {k: v for k, v in parsed.get("Error", {}).items() if k in _SHOWN}
            code = str(parsed["Error"].get("Code", ""))
            if self._is_renewed(code, context):
                return 0.0
            again = is_transient_answer(code, http.status_code)
            asked = wait_asked(http.headers.get("retry-after"))
        if not again:
            return None
        began = context.get("lancecy_began", time.monotonic())
        return self.policy.pause(attempts, time.monotonic() - began, asked)

    def _is_renewed(self, code: str, context: dict[str, Any]) -> bool:
        """Whether other credentials may help; they are looked for when the next try is signed."""
        # The answer to a HEAD has no body that says why: it may be the right that is missing.
        most = _RENEWALS if code in EXPIRED else 1 if code in _UNEXPLAINED else 0
        renewals = context.get("lancecy_renewals", 0)
        if self.credentials is None or renewals >= most:
            return False
        context["lancecy_renewals"] = renewals + 1
        return self.credentials.refuse(context.get("lancecy_signed", 0.0), is_certain=code in EXPIRED)


def _forget_request(error: Any) -> None:
    # The request has the session token in its headers, and pickles of the error would hold it.
    for name in ("request", "response"):
        if getattr(error, name, None) is not None and name in vars(error):
            setattr(error, name, None)


class _Source:
    """Where a session looks for credentials: a function of the user, or botocore's usual places.

    Parameters
    ----------
    provider : function or None
    places : list
        Botocore's sources of credentials: environment, files, services of the machine.
    handlers : _Handlers
        Told of the credentials.
    """

    METHOD = CANONICAL_NAME = _ID

    def __init__(
        self, provider: Callable[[], Options] | None, places: list[Any], handlers: _Handlers
    ) -> None:
        self._provider = provider
        self._places = places
        self._handlers = handlers

    async def load(self) -> Any:
        """The credentials; None if there are none."""
        first = await self.find()
        if first is None:
            return None
        self._handlers.credentials = _Renewed(first, self.find)
        return self._handlers.credentials

    async def find(self) -> Any:
        """Credentials of botocore, found now."""
        if self._provider is not None:
            return await _provided(self._provider)
        for place in self._places:
            found = await place.load()
            if found is not None:
                return found
        return None


async def _provided(provider: Callable[[], Options]) -> _Expiring:
    from lancecy.store.services import for_fsspec

    given = provider() if inspect.iscoroutinefunction(provider) else await asyncio.to_thread(provider)
    found = for_fsspec("s3", await given if inspect.isawaitable(given) else given)
    if not found.get("key") or not found.get("secret"):
        raise ValueError(
            "credentials_provider did not return a key and a secret (access_key_id, secret_access_key)"
        )
    expires = found.get("expires_at_millis")
    return _Expiring(found["key"], found["secret"], found.get("token"), expires)


class _Expiring(AioCredentials):  # type: ignore[misc]
    """Credentials with the time when they end."""

    def __init__(self, key: str, secret: str, token: str | None, expires_at_millis: Any) -> None:
        super().__init__(key, secret, token, method=_ID)
        self._ends = None if expires_at_millis is None else float(expires_at_millis) / 1000 - _AHEAD_S

    @property
    def is_over(self) -> bool:
        """Whether they end soon."""
        return self._ends is not None and time.time() >= self._ends


class _Renewed(AioCredentials):  # type: ignore[misc]
    """Credentials that are looked for again when they end or a server refuses them.

    Parameters
    ----------
    first : botocore credentials
    find : coroutine function
        Looks for the credentials that are valid now.

    Attributes
    ----------
    texts : frozenset of str
        All of them so far, to be masked in messages.
    """

    def __init__(self, first: Any, find: Callable[[], Any]) -> None:
        super().__init__("", "", method=_ID)  # a request is signed with what get_frozen_credentials returns
        self.texts: frozenset[str] = frozenset()
        self._inner = first
        self._frozen: ReadOnlyCredentials | None = None
        self._find = find
        self._lock = asyncio.Lock()
        self._found = time.monotonic()
        self._refused = False
        self._confirmed = -_CONFIRMED_S

    def refuse(self, signed: float, is_certain: bool) -> bool:
        """Look for others before the next request, unless that was done after the refused one was signed.

        Parameters
        ----------
        signed : float
            When the refused request was signed.
        is_certain : bool
            Whether the server said that it is the credentials.

        Returns
        -------
        bool
            Whether another try may help: not if the server said nothing and the last look found the same ones.
        """
        if not is_certain and time.monotonic() < self._confirmed + _CONFIRMED_S:
            return False
        if signed >= self._found:
            self._refused = True
        return True

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        async with self._lock:
            if self._refused or getattr(self._inner, "is_over", False):
                await self._look_again()
            frozen: ReadOnlyCredentials = await self._inner.get_frozen_credentials()
        self._frozen = frozen
        known = {frozen.access_key, frozen.secret_key, frozen.token or ""}
        if not known <= self.texts:
            self.texts |= {text for text in known if len(text) >= 4}
        return frozen

    async def _look_again(self) -> None:
        before = self._frozen
        self._inner = await self._find() or self._inner
        self._found = time.monotonic()
        self._refused = False
        if await self._inner.get_frozen_credentials() == before:
            self._confirmed = self._found
