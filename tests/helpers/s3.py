"""A real S3 server on the loopback interface, for as long as a test session.

``ministack`` runs as a process of its own, with everything in memory. It ends with
the context manager, or when this process ends in any other way: it watches a pipe
that the system closes then.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["SECRET", "S3Server", "s3_server", "start_s3"]

SECRET = "s3cr3t-that-must-not-leak"
_TIMEOUT_S = 60.0
_SERVER = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
sys.argv = ["ministack"]
from ministack.app import main
main()
"""


@dataclass(frozen=True)
class S3Server:
    """Where the server is, and what s3fs needs to talk to it."""

    endpoint: str

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options as a user of Dask or pandas would write them; a fresh copy."""
        return {
            "key": "test",
            "secret": SECRET,
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "us-east-1"},
        }

    def make_bucket(self, name: str) -> str:
        """Create a bucket and return its URI; no matter if it is there."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 409:
                    raise
        return f"s3://{name}"


@contextmanager
def start_s3() -> Iterator[S3Server]:
    """Run a server until the block ends.

    Raises
    ------
    RuntimeError
        It does not come up; the message has what it printed.
    """
    for _ in range(3):  # another process may take the free port first
        with tempfile.TemporaryDirectory(prefix="lancecy-s3-", ignore_cleanup_errors=True) as folder:
            process, port = _launch(folder)
            try:
                if _is_ready(process, port):
                    yield S3Server(f"http://127.0.0.1:{port}")
                    return
            finally:
                _end(process)
            said = Path(folder, "log").read_text(errors="replace")
    raise RuntimeError(f"ministack does not start: {said[-2000:]}")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The server of the test session, started by the first test that asks for it."""
    with start_s3() as server:
        yield server


def _launch(folder: str) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3,dynamodb",
        "LOG_LEVEL": "WARNING",
        "S3_PERSIST": "0",
        "TMPDIR": folder,
    }
    with Path(folder, "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
        )
    return process, port


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_ministack/health", timeout=2):
                return process.poll() is None
        except OSError:
            time.sleep(0.05)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
    if process.stdin is not None:
        process.stdin.close()
