"""A proxy on the loopback interface that counts HTTP requests and delays them, in a process of its own.

Bytes pass unchanged. It understands as much of HTTP as is needed to count: heads of requests, and where their bodies
end. It ends with the context manager, or when the process that started it ends in any other way.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CountingProxy", "Traffic", "start_proxy"]

_HEAD_END = b"\r\n\r\n"
_FULL = 8 << 20


@dataclass
class Traffic:
    """What passed the proxy.

    Attributes
    ----------
    lines : list of str
        First lines of the requests, without the protocol.
    sent, received : int, bytes
        To the server and from it, heads included.
    connections : int
        Opened by clients.
    """

    lines: list[str] = field(default_factory=list)
    sent: int = 0
    received: int = 0
    connections: int = 0

    @property
    def requests(self) -> int:
        return len(self.lines)

    @property
    def nbytes(self) -> int:
        return self.sent + self.received


class CountingProxy:
    """A running proxy.

    Attributes
    ----------
    endpoint : str
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.endpoint = f"http://127.0.0.1:{self._ask('port')}"

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the proxy has ended")
        return answer.strip()

    def delay(self, seconds: float) -> None:
        """Let every request arrive at the server so much later."""
        self._ask(f"delay {seconds}")

    def traffic(self) -> Traffic:
        """What passed since the last call."""
        return Traffic(**json.loads(self._ask("traffic")))


@contextmanager
def start_proxy(server: str) -> Iterator[CountingProxy]:
    """Run a proxy before a server until the block ends.

    Parameters
    ----------
    server : str
        Its endpoint, such as ``http://127.0.0.1:9000``.
    """
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.helpers.counting_proxy", server.rpartition(":")[2].rstrip("/")]
    process = subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield CountingProxy(process)
    finally:
        process.terminate()
        process.communicate(timeout=10)


class _Requests:
    """Finds the requests in what a client sends over one connection."""

    def __init__(self) -> None:
        self._head = b""
        self._body = 0

    def feed(self, data: bytes) -> Iterator[str]:
        """First lines of the requests whose heads end in these bytes."""
        while data:
            if self._body:
                passed = min(self._body, len(data))
                self._body -= passed
                data = data[passed:]
                continue
            self._head += data
            end = self._head.find(_HEAD_END)
            if end < 0:
                return
            data = self._head[end + len(_HEAD_END) :]
            line, *headers = self._head[:end].decode("latin-1").split("\r\n")
            self._head = b""
            fields = {name.strip().lower(): value for name, _, value in (h.partition(":") for h in headers)}
            self._body = int(fields.get("content-length", 0))
            yield line.rpartition(" ")[0]


class _Proxy:
    def __init__(self, port: int) -> None:
        self.port = port
        self.delay = 0.0
        self.traffic = Traffic()

    def answer(self, command: str) -> str:
        word, _, value = command.partition(" ")
        if word == "delay":
            self.delay = float(value)
        if word == "traffic":
            passed, self.traffic = self.traffic, Traffic()
            return json.dumps(vars(passed))
        return "done"


class _Side(asyncio.Protocol):
    """One of the two connections; what it receives goes to the other."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_FULL)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class _Upstream(_Side):
    def __init__(self, proxy: _Proxy, client: _Client) -> None:
        super().__init__()
        self.other = client
        self._proxy = proxy

    def data_received(self, data: bytes) -> None:
        self._proxy.traffic.received += len(data)
        if self.other is not None:
            self.other.transport.write(data)


class _Client(_Side):
    def __init__(self, proxy: _Proxy) -> None:
        super().__init__()
        self._proxy = proxy
        self._early: list[bytes] = []
        self._requests = _Requests()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._proxy.traffic.connections += 1
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, self.other = await loop.create_connection(
            lambda: _Upstream(self._proxy, self), "127.0.0.1", self._proxy.port
        )
        for data in self._early:
            self.other.transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        self._proxy.traffic.sent += len(data)
        self._proxy.traffic.lines += self._requests.feed(data)
        if self._proxy.delay:
            asyncio.get_running_loop().call_later(self._proxy.delay, self._send, data)
        else:
            self._send(data)

    def _send(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)


async def _serve(port: int) -> None:
    proxy = _Proxy(port)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(proxy), "127.0.0.1", 0, backlog=256)
    over: asyncio.Future[None] = loop.create_future()

    def listen() -> None:
        command = sys.stdin.readline()
        if not command:
            loop.remove_reader(sys.stdin)
            over.set_result(None)
        elif command == "port\n":
            print(server.sockets[0].getsockname()[1], flush=True)
        else:
            print(proxy.answer(command.strip()), flush=True)

    loop.add_reader(sys.stdin, listen)
    await over


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
