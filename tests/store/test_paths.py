"""No path leads out of a store, and none that tries causes any IO."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import PathPolicyError
from lancecy.store.base import Store
from lancecy.store.fsspec import FsspecStore
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.paths import check_path, check_prefix, is_safe_path
from lancecy.store.wrap import CountingStore
from tests.contracts.store import HOSTILE, ODD_NAMES, READS, WRITES

EVIL = [
    "..",
    ".",
    "",
    "..\\x",
    "a\\b",
    "\0",
    "\n",
    "\x7f",
    "\x85",
    "\u2028",
    "\ud800",
    "%2e%2e",
    "%2E.",
    "..%2f..",
    "%00",
    "%5c",
]
PREFIXES = ["/", "//", "C:/", "file://", "s3://bucket/", "http://169.254.169.254/", "memory://", "%2f"]


def hostile_paths(count: int) -> list[str]:
    """Safe segments around at least one that is not, or after a beginning that is not."""
    rng = random.Random(20_261_121)
    safe = ["data", "_versions", "a b", "x.lance", "Ü", "100%"]
    paths: set[str] = set(HOSTILE)
    while len(paths) < count:
        segments = rng.choices(safe, k=rng.randrange(4))
        if rng.random() < 0.3:
            path = rng.choice(PREFIXES) + "/".join([*segments, "x"])
        else:
            segments.insert(rng.randrange(len(segments) + 1), rng.choice(EVIL))
            path = "/".join(segments)
        paths.add(path)
    return sorted(paths)


class RecordingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's memory file system, noting the name of every method that is used."""

    protocol = "recording"
    used: list[str] = []  # noqa: RUF012 - shared on purpose

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in ("used", "protocol", "async_impl", "root_marker"):
            RecordingFileSystem.used.append(name)
        return super().__getattribute__(name)


class Audit:
    """Audit hooks cannot be taken back: one stays, and listens when it is asked to."""

    heard: list[str] | None = None
    thread = 0
    is_hooked = False

    @classmethod
    def hook(cls, event: str, _: tuple[object, ...]) -> None:
        if cls.heard is None or threading.get_ident() != cls.thread:
            return
        if event.startswith(("open", "os.", "socket.", "shutil.", "mmap")):
            cls.heard.append(event)


@contextmanager
def system_calls() -> Iterator[list[str]]:
    """The file and network operations Python makes meanwhile, by the names of their audit events."""
    if not Audit.is_hooked:
        sys.addaudithook(Audit.hook)
        Audit.is_hooked = True
    heard: list[str] = []
    Audit.heard, Audit.thread = heard, threading.get_ident()
    try:
        yield heard
    finally:
        Audit.heard = None


@pytest.mark.parametrize("kind", ["local", "untrusted", "memory", "counting", "fsspec"])
def test_hostile_paths_are_refused_before_any_io(kind: str, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    root = str(tmp_path / "root")
    recording = RecordingFileSystem()
    stores: dict[str, Store] = {
        "local": LocalStore(root),
        "untrusted": LocalStore(root, mapped=False, follow_symlinks=False),
        "memory": MemoryStore(),
        "counting": CountingStore(MemoryStore()),
        "fsspec": FsspecStore("/place", fs=recording),
    }
    store = stores[kind]
    RecordingFileSystem.used.clear()
    paths = hostile_paths(230)
    assert len(paths) >= 200
    for method in {**READS, **WRITES}.values():  # imports what it needs, which opens files as well
        with pytest.raises(PathPolicyError):
            method(store, "..")
    with system_calls() as calls:
        for path, (name, method) in itertools.product(paths, {**READS, **WRITES}.items()):
            if name == "list" and check_free(path):
                continue
            with pytest.raises(PathPolicyError):
                method(store, path)
    assert calls == []
    assert not isinstance(store, CountingStore) or store.requests == []
    assert RecordingFileSystem.used == []


def check_free(path: str) -> bool:
    """Whether a listing takes the text, where a trailing slash and the root itself are allowed."""
    return path.removesuffix("/") == "" or is_safe_path(path.removesuffix("/"))


def test_recorders_do_record(tmp_path: Path) -> None:
    with system_calls() as calls:
        LocalStore(str(tmp_path)).put("a", b"x")
    assert calls
    FsspecStore("/place", fs=RecordingFileSystem()).put("a", b"x")
    assert "pipe_file" in RecordingFileSystem.used
    assert fsspec.get_filesystem_class("memory") is not RecordingFileSystem


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_but_harmless_names_are_accepted(name: str) -> None:
    assert check_path(name) == name
    assert check_path(f"data/{name}") == f"data/{name}"


@given(st.lists(st.sampled_from([".", "..", "a", "%2e", "%2f", "/", "%", "\\", "%252e"]), max_size=8))
def test_accepted_paths_stay_below_the_root(parts: list[str]) -> None:
    path = "".join(parts)
    if is_safe_path(path):
        from urllib.parse import unquote

        for form in (path, unquote(path)):
            assert not form.startswith("/")
            assert "\\" not in form
            assert all(segment not in ("", ".", "..") for segment in form.split("/"))


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=30))
def test_percent_encoding_a_refused_path_does_not_help(text: str) -> None:
    if not is_safe_path(text) and "%" not in text:
        assert not is_safe_path(quote(text, safe="")) or quote(text, safe="") == text


def test_fast_and_slow_road_agree() -> None:
    for path in [
        "a.b",
        "a/b.c",
        "_x/-y",
        "a..b",
        "a/..b",
        "..",
        "a/.b",
        ".a",
        "a/",
        "/a",
        "a//b",
        "a-b/c_d.e",
    ]:
        expected = all(s not in ("", ".", "..") for s in path.split("/"))
        assert is_safe_path(path) is expected, path


def test_error_names_the_path_and_escapes_it() -> None:
    with pytest.raises(PathPolicyError, match=r"has a control character") as caught:
        check_path("a\x1b[31m/b")
    assert "\x1b" not in str(caught.value)
    assert caught.value.path == "a\\x1b[31m/b"


def test_segments_have_a_longest() -> None:
    assert is_safe_path("n" * 4096)
    assert not is_safe_path("n" * 4097)
    assert not is_safe_path("a/" + "é" * 2049)


def test_prefixes() -> None:
    assert (check_prefix(""), check_prefix("a/"), check_prefix("a/b")) == ("", "a", "a/b")
    with pytest.raises(PathPolicyError):
        check_prefix("a//")
