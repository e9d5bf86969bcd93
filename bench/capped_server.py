"""An S3 server on the loopback interface whose bandwidth is capped, for ``compare_buckets.py``.

usage: python bench/capped_server.py MEGABYTES_PER_SECOND

``ministack`` keeps the objects in memory; a relay in front of it passes so many bytes a second in each direction,
all connections together. The first line printed is its URL. The process ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 16 << 10
# What one connection may send ahead of the cap; the kernel's own buffers would hold megabytes.
_BUFFER = 64 << 10
_TIMEOUT_S = 60.0
_LAUNCH = (
    "import sys, os, threading\n"
    "threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()\n"
    "sys.argv = ['ministack']\n"
    "from ministack.app import main\n"
    "main()\n"
)


class Cap:
    """Passes so many bytes a second.

    Parameters
    ----------
    rate : float, bytes per second
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    async def passed(self, nbytes: int) -> None:
        """Wait until so many more bytes may pass."""
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + nbytes / self._rate
        await asyncio.sleep(self._free_at - now)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cap: Cap) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            await cap.passed(len(data))
            writer.write(data)
            await writer.drain()
    writer.close()


async def _relay(upstream: int, rate: float) -> None:
    up, down = Cap(rate), Cap(rate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", upstream, limit=_BUFFER)
        await asyncio.gather(_pass(reader, back, up), _pass(there, writer, down))

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        listening.bind(("127.0.0.1", 0))
        server = await asyncio.start_server(serve, sock=listening, limit=_BUFFER)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        await server.serve_forever()


def _wait_until_ready(port: int) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            with suppress(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def main() -> None:
    """Serve until standard input ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "LOG_LEVEL": "ERROR",
        "S3_PERSIST": "0",
    }
    server = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def end() -> None:
        sys.stdin.buffer.read()
        server.terminate()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    _wait_until_ready(port)
    asyncio.run(_relay(port, float(sys.argv[1]) * 1e6))


@contextmanager
def capped_server(megabytes_per_second: float) -> Iterator[str]:
    """A server process for as long as the block lasts; its URL.

    Parameters
    ----------
    megabytes_per_second : float
    """
    command = [sys.executable, __file__, str(megabytes_per_second)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process has no pipes")
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the S3 server does not start: is ministack installed?")
        yield url
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


if __name__ == "__main__":
    main()
