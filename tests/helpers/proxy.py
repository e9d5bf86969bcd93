"""A proxy on the loopback interface that breaks chosen requests to S3, DynamoDB, Google Cloud Storage or Azure Blob.

Every request is passed on to the server behind it, except those that a plan names: their answer is an error, comes late or
never, or ends early. So the real client meets the fault on a real socket.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.helpers.s3 import S3Server

__all__ = ["FaultProxy", "Plan", "Seen", "WireFault", "running_proxy", "s3_proxy", "start_proxy"]

Guard = Callable[[Mapping[str, str]], "WireFault | None"]


@dataclass(frozen=True, slots=True)
class WireFault:
    """What happens to a request.

    Attributes
    ----------
    what : str
        ``status``: an error is answered. ``stall``: nothing is answered, and the connection stays open. ``cut``: the
        connection is closed without an answer. ``cut_body``: it is closed after half of the body. ``short_body``: half
        of the body is answered as if it were all. ``deaf``: the request is not read, and the connection stays open.
    status : int
    code : str
        The error code, of S3 unless another service is asked.
    applied : bool
        The server carries the request out first, so that only its answer is lost.
    retry_after : str
        Header of that name; "" for none.
    detail : str
        XML elements added to the error.
    """

    what: Literal["status", "stall", "cut", "cut_body", "short_body", "deaf"] = "status"
    status: int = 503
    code: str = "SlowDown"
    applied: bool = False
    retry_after: str = ""
    detail: str = ""


@dataclass(slots=True)
class Plan:
    """A fault, and the requests that meet it.

    Attributes
    ----------
    fault : WireFault
    nth : int
        The first of them, counted from 1.
    times : int or None
        How many; None for all later ones.
    kind : str
        Only requests of that kind are counted (:attr:`Seen.kind`); "*" for all.
    met : int
        How many requests have met it.
    """

    fault: WireFault
    nth: int = 1
    times: int | None = 1
    kind: str = "*"
    met: int = 0
    counted: int = field(default=0, repr=False)

    def is_due(self, kind: str) -> bool:
        """Count a request, and tell whether it meets the fault."""
        if self.kind not in ("*", kind):
            return False
        self.counted += 1
        due = self.counted >= self.nth and (self.times is None or self.counted < self.nth + self.times)
        self.met += due
        return due


@dataclass(frozen=True, slots=True)
class Seen:
    """One request.

    Attributes
    ----------
    kind : str
        ``get``, ``head``, ``list``, ``put``, ``copy``, ``delete``, ``delete_many``, and of multi-part uploads ``start_upload``,
        ``part``, ``finish_upload``, ``abort_upload``. Of Google and Azure also ``create``, a put that must not replace. Of
        DynamoDB the name of the operation.
    path : str
    headers : dict
    """

    kind: str
    path: str
    headers: dict[str, str] = field(repr=False)


class FaultProxy(ThreadingHTTPServer):
    """The running proxy.

    Parameters
    ----------
    endpoint : str
        Of the server that requests are passed on to, as ``http://host:port``.

    Attributes
    ----------
    endpoint : str
        Of the proxy.
    s3 : S3Server
        The server as seen through the proxy, if it speaks S3.
    seen : list of Seen
        Requests since the last :meth:`reset`.
    plans : list of Plan
    guard : function or None
        Given the headers of every request; answers a fault or None.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        place = urlsplit(endpoint)
        self.upstream = (str(place.hostname), int(place.port or 80))
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.s3 = S3Server(self.endpoint)
        self.seen: list[Seen] = []
        self.plans: list[Plan] = []
        self.guard: Guard | None = None
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    @property
    def open_connections(self) -> int:
        """Connections of clients."""
        return len(self._open)

    def options(self, **more: Any) -> dict[str, Any]:
        """Storage options of a client that asks the proxy; a fresh copy."""
        return {**self.s3.storage_options, **more}

    def fail(self, fault: WireFault, nth: int = 1, times: int | None = 1, kind: str = "*") -> Plan:
        """Have requests from now on meet a fault; see :class:`Plan`."""
        plan = Plan(fault, nth, times, kind)
        with self._lock:
            self.plans.append(plan)
        return plan

    def reset(self) -> None:
        """Pass on every request again, and forget those seen."""
        with self._lock:
            self.plans.clear()
            self.seen.clear()
            self.guard = None

    def kinds(self) -> list[str]:
        """The kind of each request seen."""
        return [seen.kind for seen in self.seen]

    def fault_of(self, seen: Seen) -> WireFault | None:
        """Record a request, and tell which fault it meets."""
        with self._lock:
            self.seen.append(seen)
            due = [plan.fault for plan in self.plans if plan.is_due(seen.kind)]
            guard = self.guard
        return due[0] if due else guard(seen.headers) if guard else None

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the proxy."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Answers are written in two parts, and a client would wait for the second.
    disable_nagle_algorithm = True
    server: FaultProxy
    upstream: http.client.HTTPConnection | None = None

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        if self.upstream is not None:
            self.upstream.close()

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(_kind(self.command, self.path, headers), urlsplit(self.path).path, headers)
        fault = self.server.fault_of(seen)
        if fault is not None and fault.what == "deaf":
            self._wait()
            return
        body = self._body()
        if fault is None:
            self._answer(*self._pass_on(body))
            return
        answered = self._pass_on(body) if fault.applied or fault.what.endswith("_body") else None
        if fault.what == "status":
            self._answer(*_error(fault, seen))
        elif fault.what == "stall":
            self._wait()
        elif fault.what == "short_body" and answered is not None:
            status, sent, data = answered
            self._answer(status, sent, data[: len(data) // 2])
        elif fault.what == "cut_body" and answered is not None:
            status, sent, data = answered
            self._answer(status, sent, data[: len(data) // 2], size=len(data))
            self._cut()
        else:
            self._cut()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection(*self.server.upstream, timeout=60)
        left_out = ("transfer-encoding", "content-length", "connection", "expect")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
        if self.command in ("PUT", "POST"):
            headers["Content-Length"] = str(len(body))
        self.upstream.request(self.command, self.path, body or None, headers)
        answer = self.upstream.getresponse()
        data = answer.read()
        sent = [(name, value) for name, value in answer.getheaders() if name.lower() not in left_out]
        if self.command == "HEAD":
            sent.append(("Content-Length", answer.headers.get("Content-Length") or "0"))
        return answer.status, sent, data

    def _answer(
        self, status: int, headers: list[tuple[str, str]], data: bytes, size: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data) if size is None else size))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _wait(self) -> None:
        """Say nothing until the client or the proxy closes the connection."""
        gone = select.poll()
        gone.register(self.connection, select.POLLRDHUP)
        while not self.server.closing.is_set() and not gone.poll(50):
            pass
        self._cut()

    def _cut(self) -> None:
        """Reset the connection, as a crashed server or a router does."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


# Paths of Google Cloud Storage.
_GOOGLE = ("/storage/", "/upload/", "/batch/")


def _kind(method: str, target: str, headers: Mapping[str, str]) -> str:
    place = urlsplit(target)
    query = parse_qs(place.query, keep_blank_values=True)
    if "x-amz-target" in headers:
        return headers["x-amz-target"].rpartition(".")[2]
    is_azure = "x-ms-version" in headers
    if "ifGenerationMatch" in query or (is_azure and headers.get("if-none-match") == "*"):
        return "create"
    if method == "POST" and place.path.startswith(_GOOGLE):
        is_copy = "/rewriteTo/" in place.path or "/copyTo/" in place.path
        return "copy" if is_copy else "put" if place.path.startswith("/upload/") else "delete_many"
    if method == "GET":
        is_list = {"list-type", "prefix", "uploads"} & query.keys() or query.get("comp") == ["list"]
        return "list" if is_list else "get"
    if method == "PUT":
        return "part" if "partNumber" in query else "copy" if "x-amz-copy-source" in headers else "put"
    if method == "POST":
        is_delete, is_start = "delete" in query, "uploads" in query
        return "delete_many" if is_delete else "start_upload" if is_start else "finish_upload"
    if method == "DELETE":
        return "abort_upload" if "uploadId" in query else "delete"
    return method.lower()


def _error(fault: WireFault, seen: Seen) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of an error, in the form of the service that was asked."""
    said = "broken by plan"
    headers = [("Content-Type", "application/xml"), ("x-ms-error-code", fault.code)]
    if "x-amz-target" in seen.headers:
        kind = f"com.amazonaws.dynamodb.v20120810#{fault.code}"
        text = json.dumps({"__type": kind, "message": f"{said}{fault.detail}"})
        headers = [("Content-Type", "application/x-amz-json-1.0")]
    elif seen.path.startswith(_GOOGLE):
        text = json.dumps({"error": {"code": fault.status, "message": said}})
        headers = [("Content-Type", "application/json")]
    else:
        text = (
            f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{fault.code}</Code><Message>{said}</Message>"
            f"{fault.detail}</Error>"
        )
    if fault.retry_after:
        headers.append(("Retry-After", fault.retry_after))
    return fault.status, headers, text.encode()


@contextmanager
def start_proxy(endpoint: str) -> Iterator[FaultProxy]:
    """Run a proxy before the server at an endpoint until the block ends."""
    with FaultProxy(endpoint) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), name="fault-proxy")
        thread.start()
        try:
            yield proxy
        finally:
            proxy.closing.set()
            proxy.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def running_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    """The proxy of the test session, before its S3 server."""
    with start_proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def s3_proxy(running_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """The proxy, which breaks nothing before and after the test."""
    running_proxy.reset()
    yield running_proxy
    running_proxy.reset()
