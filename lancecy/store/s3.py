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
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore.credentials import ReadOnlyCredentials
from fsspec.asyn import sync_wrapper
from s3fs import S3FileSystem

from lancecy.errors import nearest
from lancecy.store.aws import HANDLER_ID, Handlers, Renewal, ends_at, given_login
from lancecy.store.credentials import Options
from lancecy.store.direct import PUT_MARK
from lancecy.store.retries import RetryPolicy, error_code, mark_tries, tries_of
from lancecy.store.services import S3_NAMES

__all__ = ["RetryingS3"]

# A try may last as long as its bytes take at this rate, and no longer: a server that sends a byte now and then is
# silent for no time-out.
_SLOWEST = 16 << 10
_LOST_RACE = frozenset({"PreconditionFailed", "412"})
_DEFAULT = RetryPolicy()


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
        self._handlers = Handlers(policy)
        self._provider = credentials_provider
        self._parts: dict[str, set[asyncio.Task[Any]]] = {}

    @property
    def secret_texts(self) -> frozenset[str]:
        """The credentials used so far that the options do not hold."""
        return self._handlers.secret_texts

    async def set_session(self, refresh: bool = False, kwargs: Mapping[str, Any] | None = None) -> Any:
        """Make the client, with the handlers of :class:`Handlers`."""
        known = self._s3
        if self.session is None:
            self.session = self._new_session()
        client = await super().set_session(refresh, dict(kwargs or {}))
        if client is not known:
            self._handlers.install(client)
        return client

    def _new_session(self) -> Any:
        _check_known(self.kwargs)
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


def _check_known(left: Mapping[str, Any]) -> None:
    """Refuse storage options that neither s3fs nor lancecy takes; botocore's session gets what is left of them."""
    unknown = sorted(left.keys() - inspect.signature(AioSession.__init__).parameters.keys())
    if unknown:
        known = [*S3_NAMES, *inspect.signature(S3FileSystem.__init__).parameters]
        close = nearest(unknown[0], known)
        hint = f"; did you mean {', '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"no storage option {unknown[0]!r} is known for s3://{hint}")


def _socket(silence_s: float, address: tuple[Any, ...]) -> socket.socket:
    """A socket that is closed when the server takes no bytes for so long; aiohttp has a time-out for answers only."""
    made = socket.socket(*address[:3])
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # of Linux
    if option is not None:
        made.setsockopt(socket.IPPROTO_TCP, option, max(1, int(silence_s * 1000)))
    return made


class _Source:
    """Where a session looks for credentials: a function of the user, or botocore's usual places.

    Parameters
    ----------
    provider : function or None
    places : list
        Botocore's sources of credentials: environment, files, services of the machine.
    handlers : Handlers
        Told of the credentials.
    """

    METHOD = CANONICAL_NAME = HANDLER_ID

    def __init__(self, provider: Callable[[], Options] | None, places: list[Any], handlers: Handlers) -> None:
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
    given = provider() if inspect.iscoroutinefunction(provider) else await asyncio.to_thread(provider)
    return _Expiring(given_login(await given if inspect.isawaitable(given) else given))


class _Expiring(AioCredentials):  # type: ignore[misc]
    """Credentials with the time when they end."""

    def __init__(self, login: Options) -> None:
        super().__init__(login["key"], login["secret"], login.get("token"), method=HANDLER_ID)
        self.ends_at = ends_at(login)


class _Renewed(Renewal, AioCredentials):  # type: ignore[misc]
    """Credentials that are looked for again when they end or a server refuses them.

    Parameters
    ----------
    first : botocore credentials
    find : coroutine function
        Looks for the credentials that are valid now.
    """

    def __init__(self, first: Any, find: Callable[[], Any]) -> None:
        # A request is signed with what get_frozen_credentials returns.
        AioCredentials.__init__(self, "", "", method=HANDLER_ID)
        Renewal.__init__(self, first)
        self._find = find
        self._lock = asyncio.Lock()

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        async with self._lock:
            is_new = self.is_due
            if is_new:
                self.replace(await self._find())
            return self.use(await self.inner.get_frozen_credentials(), is_new)
