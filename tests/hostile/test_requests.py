"""What a stranger's table makes this process send, and to whom: seen by a server that keeps every request."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lancecy
from lancecy.errors import LanceError, PathPolicyError
from lancecy.proto import table_pb2
from tests.helpers.datasets import write_table
from tests.helpers.mutate import tail_message, with_tail

OURS = {"key": "KEY-of-the-root", "secret": "SECRET-of-the-root", "base_7.secret": "SECRET-of-base-7"}
AMBIENT = {"AWS_ACCESS_KEY_ID": "KEY-from-around", "AWS_SECRET_ACCESS_KEY": "SECRET-from-around"}


class Recorder(http.server.ThreadingHTTPServer):
    """Answers everything with 404 and remembers who asked for what."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder

    def _answer(self) -> None:
        self.server.requests.append(f"{self.requestline}\n{self.headers}")
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_POST = _answer

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """The server that everybody who asks for no other one would turn to, with credentials lying about."""
    with _running(Recorder()) as server:
        for name, value in {**AMBIENT, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        yield server


@contextmanager
def _running(server: Recorder) -> Iterator[Recorder]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def table_over(root: Path, place: str) -> str:
    """A table whose manifest says that its data is in ``place``."""
    write_table(str(root), fragments=1, rows=8, data_version="2.1")
    [path] = root.glob("_versions/*.manifest")
    data = path.read_bytes()
    position, message = tail_message(data, table_pb2.Manifest)
    message.base_paths.add(id=1, path=place, is_dataset_root=True)
    message.reader_feature_flags |= 16
    message.writer_feature_flags |= 16
    for fragment in message.fragments:
        for file in fragment.files:
            file.base_id = 1
    path.write_bytes(with_tail(data, position, message))
    return str(root)


@pytest.mark.s3
@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("place", ["s3://attacker/x", "http", "http://169.254.169.254/latest/meta-data"])
def test_nobody_hears_of_a_base_that_was_not_granted(
    place: str, untrusted: bool, recorder: Recorder, tmp_path: Path
) -> None:
    root = table_over(tmp_path / "t.lance", f"{recorder.url}/x" if place == "http" else place)
    ds = lancecy.dataset(root, storage_options=OURS, untrusted=untrusted)
    for read in (
        ds.to_table,
        lambda: ds.take([0]),
        lambda: ds.count_rows("id > 3"),
        lambda: list(ds.to_batches()),
    ):
        with pytest.raises(PathPolicyError):
            read()
    assert not ds.verify()
    assert recorder.requests == []


@pytest.mark.s3
@pytest.mark.parametrize("untrusted", [False, True])
def test_a_granted_base_gets_its_own_credentials_and_no_others(
    untrusted: bool, recorder: Recorder, tmp_path: Path
) -> None:
    root = table_over(tmp_path / "t.lance", "s3://attacker/x")
    where = {"base_1.client_kwargs": {"endpoint_url": recorder.url}}
    options = {**OURS, **where, "base_1.key": "KEY-of-base-1", "base_1.secret": "SECRET-of-base-1"}
    ds = lancecy.dataset(root, storage_options=options, untrusted=untrusted, allowed_bases=["s3://attacker"])
    with pytest.raises(LanceError):
        ds.to_table()
    assert recorder.requests
    for said in recorder.requests:
        assert "/attacker" in said.partition("\n")[0]
        assert "Credential=KEY-of-base-1" in said
        assert "of-the-root" not in said and "from-around" not in said and "base-7" not in said
        assert "SECRET" not in said
