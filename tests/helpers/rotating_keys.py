"""Credentials of AWS that expire whenever a test says so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tests.helpers.proxy import FaultProxy, WireFault
from tests.helpers.s3 import SECRET

__all__ = ["RotatingKeys"]


class RotatingKeys:
    """Credentials by number, of which the server behind a proxy takes only the newest.

    Parameters
    ----------
    proxy : FaultProxy

    Attributes
    ----------
    newest : int
    given : int
        How often :meth:`provide` was called.
    """

    def __init__(self, proxy: FaultProxy) -> None:
        self.newest = 1
        self.given = 0
        proxy.guard = self._guard

    def _guard(self, headers: Mapping[str, str]) -> WireFault | None:
        shown = headers.get("x-amz-security-token")
        if shown == self.token:
            return None
        if "x-amz-target" in headers:
            return WireFault("status", 400, "ExpiredTokenException")
        # As S3 does, with the token in the answer.
        return WireFault("status", 400, "ExpiredToken", detail=f"<Token-0>{shown}</Token-0>")

    @property
    def token(self) -> str:
        """The newest session token."""
        return f"t0ken-that-must-not-leak-{self.newest}"

    def provide(self) -> dict[str, Any]:
        """What a user's function returns, in pylance's words."""
        self.given += 1
        return {
            "aws_access_key_id": "test",
            "aws_secret_access_key": SECRET,
            "aws_session_token": self.token,
            "expires_at_millis": int((time.time() + 3600) * 1000),
        }
