"""Who may ask, and the headers of every answer.

A page on another site can make a visitor's browser send requests to this machine, and other users of the machine can
connect to its ports. So

- the first request has a random token in its address. The answer sets a cookie that only this server is sent
  (``HttpOnly``, ``SameSite=Strict``), and the token leaves the address bar;
- the host named by a request is this one: a name that an attacker makes point here (DNS rebinding) is refused;
- only GET and HEAD are answered;
- requests that another site caused are refused, as far as the browser tells (``Sec-Fetch-Site``);
- the browser runs no script and loads nothing but this server's files, and shows no page within another one.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request, Response

from lancecy.ui.options import LONGEST_QUERY

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["PICTURE_POLICY", "Guard", "is_loopback"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
PICTURE_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Content security policy of bytes that a table holds."""

_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
}
_METHODS = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?", re.ASCII)
_OWN_SITE = frozenset({"", "none", "same-origin"})
_STATIC = "/static/"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine as no other one sees it.

    Parameters
    ----------
    host : str
        A name or an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


class Guard:
    """Passes requests to an application, or refuses them.

    Parameters
    ----------
    application : WSGI application
    token : str
        That of the first address.
    refusal : function of (int, str, bool)
        The page that says why a request is refused: status, reason, and whether going on to ``/`` helps.
    host : str
        The address that is listened to. Another than loopback is also reached by every other address of the machine.
    """

    def __init__(
        self,
        application: WSGIApplication,
        token: str,
        refusal: Callable[[int, str, bool], str],
        host: str = "127.0.0.1",
    ) -> None:
        self._application = application
        self._token = token
        self._refusal = refusal
        self._host = host.lower()
        # Cookies do not tell ports apart: two servers on this machine need two names.
        self._cookie = f"lancecy_ui_{secrets.token_hex(4)}"
        self._visitor = secrets.token_urlsafe(32)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        answer = self._answer(Request(environ)) or self._application

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            named = {name.lower() for name, _ in headers}
            own = [(name, value) for name, value in _HEADERS.items() if name.lower() not in named]
            return start_response(status, [*headers, *own], exc_info)

        return answer(environ, start)

    def _answer(self, request: Request) -> Response | None:
        """The answer of the guard itself; None if the application may answer."""
        if request.environ.get("REQUEST_METHOD") not in _METHODS:
            refused = self._refused(405, "this page only shows tables: it answers GET and HEAD")
            refused.headers["Allow"] = ", ".join(_METHODS)
            return refused
        if not self._is_known_host(request.environ.get("HTTP_HOST", "")):
            return self._refused(400, "the request names another host than this one")
        if len(request.environ.get("QUERY_STRING", "")) > LONGEST_QUERY:
            return self._refused(414, f"the address has more than {LONGEST_QUERY:,} characters")
        is_own = request.headers.get("Sec-Fetch-Site", "") in _OWN_SITE
        if "token" in request.args:
            return self._entered(request, is_own)
        if not is_own:
            return self._refused(403, "another site asked for this page", goes_on=True)
        if request.path.startswith(_STATIC):
            return None
        if not self._matches(request.cookies.get(self._cookie, ""), self._visitor):
            return self._refused(403, "open the address that `lancecy ui` printed when it started")
        return None

    def _is_known_host(self, text: str) -> bool:
        found = _HOST.fullmatch(text)
        if found is None or int(found[2] or 0) > 65535:
            return False
        host = found[1].lower().strip("[]")
        if host in ("localhost", self._host) or (found[1].startswith("[") and host == "::1"):
            return True
        address = _address(host)
        # No name that an attacker owns is an address.
        return address is not None and (not is_loopback(self._host) or address.is_loopback)

    def _entered(self, request: Request, is_own: bool) -> Response:
        """Let a visitor in who has the token."""
        if request.path != "/" or not self._matches(request.args["token"], self._token):
            return self._refused(403, "the token is not the one that `lancecy ui` printed when it started")
        if is_own:
            answer = Response(status=303, headers={"Location": "/"})
        else:
            # A browser keeps a strict cookie back from a redirection that another site began.
            answer = Response(self._refusal(200, "", True), mimetype="text/html")
        answer.set_cookie(self._cookie, self._visitor, httponly=True, samesite="Strict", path="/")
        return answer

    @staticmethod
    def _matches(given: str, wanted: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())

    def _refused(self, status: int, reason: str, goes_on: bool = False) -> Response:
        return Response(self._refusal(status, reason, goes_on), status, mimetype="text/html")
