"""Clients of DynamoDB with the retries, time-outs and renewed credentials of S3.

Imported only by functions: it imports botocore.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import threading
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import botocore.config
import botocore.loaders
import botocore.session
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.parsers import ResponseParserError

from lancecy.store.aws import HANDLER_ID, Handlers, Renewal, ends_at, given_login
from lancecy.store.credentials import Options

__all__ = ["DynamoHandlers", "make_client"]

T = TypeVar("T")

# Of ``config_kwargs``; others are for S3.
_CONFIG = ("connect_timeout", "read_timeout", "max_pool_connections", "proxies", "proxies_config")
# As of s3fs, which are documented.
_DEFAULTS = {"connect_timeout": 5, "read_timeout": 15, "max_pool_connections": 16}


class DynamoHandlers(Handlers):
    """Handlers that also ask again if an answer is cut short.

    botocore reads half of an answer as one without items.
    """

    def needs_retry(
        self, attempts: int, response: Any, caught_exception: Exception | None, request_dict: Any, **_: Any
    ) -> float | None:
        """Seconds to wait before the next try; None if there is none.

        Raises
        ------
        ResponseParserError
            The answer to the last try is damaged.
        """
        if response is None or not _is_damaged(response[0]):
            return super().needs_retry(attempts, response, caught_exception, request_dict)
        damage = ResponseParserError("the answer is cut short or damaged")
        pause = super().needs_retry(attempts, None, damage, request_dict)
        if pause is None:
            raise damage
        return pause


def _is_damaged(http: Any) -> bool:
    """Whether an answer is not what the server sent; errors of others on the way are no JSON."""
    if http.status_code not in (200, 400):
        return False
    said, body = http.headers.get("x-amz-crc32", ""), http.content
    if said.isdigit() and int(said) != zlib.crc32(body):
        return True
    try:
        json.loads(body)
    except ValueError:
        return True
    return False


def make_client(options: Mapping[str, Any], endpoint: str | None, handlers: Handlers) -> Any:
    """A client for storage options in the form of s3fs.

    Parameters
    ----------
    options : mapping
    endpoint : str or None
        URL of another server than AWS's.
    handlers : Handlers
        Decide on retries, and are told of the credentials.
    """
    inner = dict(options.get("client_kwargs") or {})
    session = botocore.session.Session(profile=options.get("profile"))
    session.register_component("data_loader", _models(session.get_config_variable("data_path")))
    login = {
        "aws_access_key_id": options.get("key") or inner.get("aws_access_key_id"),
        "aws_secret_access_key": options.get("secret") or inner.get("aws_secret_access_key"),
        "aws_session_token": options.get("token") or inner.get("aws_session_token"),
    }
    provider = options.get("credentials_provider")
    if provider is not None or not login["aws_access_key_id"]:
        login = {}
        resolver = session.get_component("credential_provider")
        resolver.providers = [_Source(provider, list(resolver.providers), handlers)]
    region = inner.get("region_name") or session.get_config_variable("region") or os.environ.get("AWS_REGION")
    given = options.get("config_kwargs") or {}
    client = session.create_client(
        "dynamodb",
        region_name=region or ("us-east-1" if endpoint else None),
        endpoint_url=endpoint,
        config=botocore.config.Config(
            retries={"mode": "standard"},
            **_DEFAULTS | {name: given[name] for name in _CONFIG if name in given},
        ),
        **{name: value for name, value in login.items() if value},
    )
    handlers.install(client)
    return client


@functools.cache
def _models(place: str | None) -> Any:
    """The descriptions of services, which take longer to read than any request."""
    return botocore.loaders.create_loader(place)


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

    def __init__(self, provider: Callable[[], Any] | None, places: list[Any], handlers: Handlers) -> None:
        self._provider = provider
        self._places = places
        self._handlers = handlers

    def load(self) -> Any:
        """The credentials; None if there are none."""
        first = self.find()
        if first is None:
            return None
        self._handlers.credentials = made = _Renewed(first, self.find)
        return made

    def find(self) -> Any:
        """Credentials of botocore, found now."""
        if self._provider is not None:
            given = self._provider()
            return _Expiring(given_login(_awaited(given) if inspect.isawaitable(given) else given))
        return next((found for place in self._places if (found := place.load()) is not None), None)


def _awaited(given: Awaitable[T]) -> T:
    """What a coroutine returns; this thread may have an event loop that is running."""

    async def wait() -> None:
        answer.append(await given)

    answer: list[T] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(wait())
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            problem.append(error)

    thread = threading.Thread(target=run, name="lancecy-credentials")
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return answer[0]


class _Expiring(Credentials):  # type: ignore[misc]
    """Credentials with the time when they end."""

    def __init__(self, login: Options) -> None:
        super().__init__(login["key"], login["secret"], login.get("token"), method=HANDLER_ID)
        self.ends_at = ends_at(login)


class _Renewed(Renewal, Credentials):  # type: ignore[misc]
    """Credentials that are looked for again when they end or a server refuses them.

    Parameters
    ----------
    first : botocore credentials
    find : function
        Looks for the credentials that are valid now.
    """

    def __init__(self, first: Any, find: Callable[[], Any]) -> None:
        # A request is signed with what get_frozen_credentials returns.
        Credentials.__init__(self, "", "", method=HANDLER_ID)
        Renewal.__init__(self, first)
        self._find = find
        self._lock = threading.Lock()

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        with self._lock:
            is_new = self.is_due
            if is_new:
                self.replace(self._find())
            return self.use(self.inner.get_frozen_credentials(), is_new)
