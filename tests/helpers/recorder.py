"""HTTP servers on the loopback interface that keep every request, with what it said of who asks."""

from __future__ import annotations

import http.client
import http.server
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

__all__ = ["Recorder", "heard_of", "running"]

_KEY_NAME = re.compile(r"Credential=([^/,\s]+)/")
# Of one connection, not of the message.
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade"})


class Recorder(http.server.ThreadingHTTPServer):
    """Keeps each request and passes it on, or answers 404.

    Parameters
    ----------
    upstream : str
        URL of the server that answers; nothing is found without one.
    moved : sequence of (str, str)
        Beginnings of paths, and the URLs to which a redirect (307) sends those who ask for them.
    """

    daemon_threads = True

    def __init__(self, upstream: str = "", moved: Sequence[tuple[str, str]] = ()) -> None:
        self.requests: list[str] = []
        self.upstream = urlsplit(upstream).netloc
        self.moved = list(moved)
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Without a trailing slash."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.server.requests.append(f"{self.requestline}\n{self.headers}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = next((to for start, to in self.server.moved if self.path.startswith(start)), "")
        if target:
            self._reply(307, [("Location", target + self.path)])
        elif self.server.upstream:
            self._pass_on(body)
        else:
            self._reply(404)

    def _pass_on(self, body: bytes) -> None:
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = upstream.getresponse()
            content = answer.read()
            self._reply(answer.status, answer.getheaders(), content)
        finally:
            upstream.close()

    def _reply(self, status: int, headers: Sequence[tuple[str, str]] = (), content: bytes = b"") -> None:
        self.send_response(status)
        said = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if "content-length" not in said:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


@contextmanager
def running(server: Recorder) -> Iterator[Recorder]:
    """Serve until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def heard_of(requests: Sequence[str]) -> dict[str, set[tuple[str, str]]]:
    """By bucket, who asked for something in it: names of access keys ("" for an unsigned request) and session tokens.

    Parameters
    ----------
    requests : sequence of str
        As a :class:`Recorder` keeps them.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    for text in requests:
        line, _, headers = text.partition("\n")
        bucket = urlsplit(line.split(" ")[1]).path.strip("/").partition("/")[0]
        key = _KEY_NAME.search(headers)
        token = re.search(r"(?im)^x-amz-security-token:\s*(.*?)\s*$", headers)
        found.setdefault(bucket, set()).add((key[1] if key else "", token[1] if token else ""))
    return found
