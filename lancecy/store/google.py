"""Google Cloud Storage through gcsfs, with the retries of the other stores and with time-outs.

By itself gcsfs makes six tries, of pauses of up to half a minute, and waits for answers for ever.

Imported only by functions: it defines a class on top of gcsfs.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from gcsfs.core import GCSFileSystem
from gcsfs.retry import is_retriable

from lancecy.store.retries import RetryPolicy, is_transient, mark_tries

__all__ = ["RetryingGoogle"]

_DEFAULT = RetryPolicy()
# A request that is never silent ends too; objects are written in parts of 50 MB.
_LONGEST_S = 300.0
_ONE_TRY = GCSFileSystem._request.__wrapped__


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
