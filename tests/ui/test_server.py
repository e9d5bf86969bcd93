"""The command and its server: a real process, and bytes that no client library would send."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.shell import run
from tests.helpers.ui import Shown, shown
from tests.meta.example import EXAMPLE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Shown]:
    with shown(EXAMPLE) as running:
        yield running


def _asked(server: Shown, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to some bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        data = b""
        while part := connection.recv(65536):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]) if first.startswith("HTTP/1") else 0, headers, body


def _get(
    server: Shown, path: str, *lines: str, host: str | None = "localhost"
) -> tuple[int, dict[str, str], bytes]:
    named = [] if host is None else [f"Host: {host}"]
    text = "\r\n".join([f"GET {path} HTTP/1.1", *named, *lines, "Connection: close", "", ""])
    return _asked(server, text.encode("latin-1"))


def test_the_printed_address_lets_in(server: Shown) -> None:
    status, headers, _ = _get(server, server.url.removeprefix(server.base))
    assert (status, headers["location"], headers["server"]) == (303, "/", "lancecy")
    cookie = headers["set-cookie"].partition(";")[0]
    status, headers, body = _get(server, "/", f"Cookie: {cookie}")
    assert status == 200
    assert b"example.lance" in body
    assert _get(server, "/")[0] == 403


def test_hosts_and_lines_that_are_no_requests_for_this_server(server: Shown) -> None:
    token = server.url.removeprefix(server.base)
    for host in (None, "evil.example", f"evil.example:{server.port}", ""):
        assert _get(server, token, host=host)[0] == 400
    assert _get(server, token, "Host: evil.example")[0] in (303, 400)  # the first or both are looked at
    assert _get(server, token, "Host: localhost", host="evil.example")[0] == 400
    # A proxy's form of an address names no other host than the header.
    assert _get(server, f"http://evil.example{token}", host="evil.example")[0] == 400
    for line in (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        assert _asked(server, line)[0] == 405
    for line in (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / " + b"x" * 70_000 + b"\r\n\r\n",
    ):
        assert _asked(server, line)[0] in (0, 400, 403, 414, 505)
    assert _get(server, "/", *[f"X-{n}: 1" for n in range(300)])[0] in (0, 400, 431)


def test_nothing_is_put_into_headers(server: Shown) -> None:
    for path in (
        "/?token=a%0d%0aSet-Cookie:%20x=y",
        "//evil.example/%2e%2e",
        "/%0d%0aLocation:%20//evil.example",
        "/\\evil.example",
    ):
        status, headers, _ = _get(server, path)
        assert status in (403, 404)
        assert "location" not in headers
        assert "set-cookie" not in headers


def test_only_its_own_files_are_served(server: Shown) -> None:
    for path in (
        "/static/../pages.py",
        "/static/..%2fpages.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/../../etc/passwd",
        "/static/....//pages.py",
    ):
        status, _, body = _get(server, path)
        assert status in (403, 404)
        assert b"root:" not in body and b"import " not in body
    assert _get(server, "/static/style.css")[0] == 200


def test_a_busy_port_is_one_line(server: Shown) -> None:
    found = run("ui", EXAMPLE, "--port", server.port)
    assert found.exit_code == 2
    assert found.stderr.startswith("lancecy: ")
    assert found.stderr.count("\n") == 1


def test_other_hosts_need_a_flag(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
        found = run("ui", EXAMPLE, "--host", host)
        assert found.exit_code == 2
        assert "--expose" in found.stderr
    assert run("ui", tmp_path / "nothing").exit_code == 2


def test_an_exposed_page_warns_opens_a_browser_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    # A browser that writes down what it was called with, and what the file held.
    told, browser = tmp_path / "told", tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {told}.part\nfile="${{1#file://}}"\nls -l "$file" >> {told}.part\ncat "$file" >> {told}.part\nmv {told}.part {told}\n'
    )
    browser.chmod(0o755)
    options = ("--host", "0.0.0.0", "--expose", "--open")
    with shown(EXAMPLE, *options, environment={"BROWSER": f"{browser} %s"}) as running:
        assert "everyone who reaches 0.0.0.0" in running.said
        assert running.base == f"http://0.0.0.0:{running.port}"
        entry = running.url.removeprefix(running.base)
        assert _get(running, entry, host=f"127.0.0.1:{running.port}")[0] == 303
        assert _get(running, "/nothing", host="evil.example")[0] == 400
        for _ in range(1200):
            if told.exists():
                break
            time.sleep(0.05)
        address, listed, html = told.read_text().split("\n")[:3]
        # Arguments of programs are seen by everyone on a machine, so the address is in a file.
        token = running.url.rpartition("=")[2]
        assert address.startswith("file:///")
        assert token not in address
        assert token in html
        assert listed.startswith("-rw-------")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
        assert running.process.stdout is not None
        # Requests are not told of: their addresses have the token.
        assert running.process.stdout.read().split("\n") == ["", "Ctrl-C ends it.", "lancecy: ended", ""]
        assert not Path(address.removeprefix("file://")).exists()
