"""Programs that serve on the loopback interface, for as long as a block runs.

Each runs under a guard process that watches a pipe: the system closes the pipe
whenever this process ends, and the guard then ends the program.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["free_port", "serving"]

_TIMEOUT_S = 60.0
_GUARD = """
import os, subprocess, sys, threading
served = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def end():
    sys.stdin.buffer.read()
    served.kill()
threading.Thread(target=end, daemon=True).start()
code = served.wait()
os._exit(code if code >= 0 else 1)
"""

Command = Callable[[int, Path], list[str]]
"""The command line of a server on a port, with an empty folder for its files."""


def free_port() -> int:
    """A port that nobody listens to at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def serving(
    command: Command, ready: str = "/", environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a server until the block ends; gives its address, ``http://127.0.0.1:PORT``.

    Parameters
    ----------
    command : function of port and folder
    ready : str
        A path that the server answers once it is up, with any status; servers of other protocols than HTTP answer something.
    environment : mapping, optional
        Added to this process's own.

    Raises
    ------
    RuntimeError
        It does not come up; the message has what it printed.
    """
    for _ in range(3):  # another process may take the free port first
        with tempfile.TemporaryDirectory(prefix="lancecy-server-", ignore_cleanup_errors=True) as name:
            folder = Path(name, "files")
            folder.mkdir()
            port = free_port()
            process = _launch(command(port, folder), folder, environment or {})
            address = f"http://127.0.0.1:{port}"
            try:
                if _is_ready(process, address + ready):
                    yield address
                    return
            finally:
                _end(process)
            said = Path(name, "log").read_text(errors="replace")
    raise RuntimeError(f"the server does not start: {said[-2000:]}")


def _launch(line: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (folder.parent / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", _GUARD, *line],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=folder,
        )


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    deadline = time.monotonic() + _TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError as error:
            error.close()
        except http.client.HTTPException:
            pass  # it speaks another protocol
        except OSError:
            time.sleep(0.05)
            continue
        return process.poll() is None
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
