"""Google Cloud Storage through gcsfs, with the retries of the other stores and with time-outs.

By itself gcsfs makes six tries, of pauses of up to half a minute, and waits for answers for ever.

Imported only by functions: it defines a class on top of gcsfs.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import aiohttp
from gcsfs.core import GCSFileSystem
from gcsfs.credentials import service_account
from gcsfs.retry import is_retriable

from lancecy.store.retries import RetryPolicy, is_transient, mark_tries

__all__ = ["RetryingGoogle", "check_key"]

_DEFAULT = RetryPolicy()
# A request that is never silent ends too; objects are written in parts of 50 MB.
_LONGEST_S = 300.0
_NAMED = "service_account, application_credentials or token"
_OF_USERS = frozenset(("refresh_token", "client_secret", "client_id"))
_ONE_TRY = GCSFileSystem._request.__wrapped__


def check_key(login: object) -> None:
    """Refuse a key that gives no login: gcsfs would say that it has no ``refresh_token``, whatever is wrong.

    Parameters
    ----------
    login : object
        The option ``token`` of gcsfs: the path of a key or its content; others are not looked at.

    Raises
    ------
    ValueError
        The file is no key, or the key of no user and no service account.
    """
    if isinstance(login, str) and login.lstrip().startswith("{"):
        raise ValueError(f"the key in {_NAMED} is not JSON")
    if isinstance(login, str) and os.path.isfile(login):
        with open(login, "rb") as file:
            try:
                login = json.load(file)
            except ValueError:
                raise ValueError(f"the key file that {_NAMED} says is not JSON") from None
        if not isinstance(login, dict):
            raise ValueError(f"the key file that {_NAMED} says has no JSON object")
    if not isinstance(login, dict) or login.keys() >= _OF_USERS:
        return
    if login.get("type") not in (None, "service_account"):
        missing = ", ".join(sorted(_OF_USERS - login.keys()))
        raise ValueError(
            f"the key in {_NAMED} is of type {login['type']!r} and lacks {missing}: give the key of a service account, or "
            "leave the option out for Google's usual search"
        )
    try:
        service_account.Credentials.from_service_account_info(login)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the key in {_NAMED} is not that of a service account: {type(error).__name__}: {error}"
        ) from None


class RetryingGoogle(GCSFileSystem):  # type: ignore[misc]
    """A Google file system whose requests are made again by one policy.

    Parameters
    ----------
    policy : RetryPolicy
    connect_timeout, read_timeout : float, seconds
        How long to wait for a connection, and for the next bytes of an answer.

    Notes
    -----
    All other arguments are those of gcsfs; its ``requests_timeout`` replaces both time-outs.
    """

    makes_tries = True
    requests_timeout: Any

    def __init__(
        self,
        *args: Any,
        policy: RetryPolicy = _DEFAULT,
        connect_timeout: float = 20.0,
        read_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.policy = policy
        if self.requests_timeout is None:
            self.requests_timeout = aiohttp.ClientTimeout(
                total=_LONGEST_S, sock_connect=connect_timeout, sock_read=read_timeout
            )

    async def _request(self, method: str, path: str, *args: Any, **more: Any) -> Any:
        began, tries = time.monotonic(), 1
        while True:
            try:
                return await _ONE_TRY(self, method, path, *args, **more)
            except Exception as error:
                may_repeat = is_retriable(error) or is_transient(error)
                pause = self.policy.pause(tries, time.monotonic() - began) if may_repeat else None
                if pause is None:
                    mark_tries(error, tries)
                    raise
            await asyncio.sleep(pause)
            tries += 1
