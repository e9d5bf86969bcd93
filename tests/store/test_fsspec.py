"""What is particular to stores behind fsspec: checked answers, translated errors, forks, caches."""

from __future__ import annotations

import http.server
import os
import socket
import threading
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pytest
from aiohttp import ClientPayloadError
from aiohttp.http_exceptions import ContentLengthError
from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import LocalFileSystem

import lancecy
from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    NotFoundError,
    PathPolicyError,
    StoreError,
    TruncatedError,
    UnsupportedError,
)
from lancecy.session import Session
from lancecy.store.base import PutMode
from lancecy.store.fsspec import FsspecStore
from lancecy.store.fsspec_parts import entries, error_code, metadata
from lancecy.store.reads import Ranges, SourceFile
from lancecy.store.uri import open_store
from tests.contracts.store import in_child

DATA = bytes(range(256)) * 8


def unlike(protocol: str, **methods: Any) -> Any:
    """A memory file system of its own, some of whose methods are others."""
    kind = type("Unlike", (MemoryFileSystem,), {"protocol": protocol, **methods})
    return kind(global_store=False, skip_instance_cache=True)


def store_of(fs: Any) -> FsspecStore:
    store = FsspecStore("/place", fs=fs)
    MemoryFileSystem.pipe_file(fs, "/place/a", DATA)
    return store


def test_data_put_with_fsspec_is_seen_and_the_other_way_round() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/seen/t/a", DATA)
    store = open_store("memory://seen/t")
    assert store.get("a").tobytes() == DATA
    store.put("b", b"back")
    assert memory.cat_file("/seen/t/b") == b"back"


def test_what_is_written_while_a_bucket_is_listed_is_found() -> None:
    """The folder is not there for the first request, and for the second it is."""
    asked: list[str] = []

    def late(self: Any, path: str, **options: Any) -> Any:
        asked.append(path)
        if len(asked) == 1:
            raise FileNotFoundError(path)
        return MemoryFileSystem.ls(self, path, **options)

    fs = unlike("gs", ls=late)
    for path in ("/bucket/t/a", "/bucket/t/b/c", "/bucket/t/b/d/e"):
        fs.pipe_file(path, DATA)
    assert entries(fs, "/bucket/t") == {"bucket/t/a": "file", "bucket/t/b": "directory"}


@pytest.mark.parametrize("missing", [1, 1000, len(DATA)])
def test_short_answers_are_noticed(missing: int) -> None:
    def short(self: Any, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
        data: bytes = MemoryFileSystem.cat_file(self, path, start, end)
        return data[: max(0, len(data) - missing)]

    store = store_of(unlike("short", cat_file=short))
    with pytest.raises(TruncatedError, match="it has fewer"):
        store.get("a", 5, 500)
    with pytest.raises(TruncatedError):
        store.get_many("a", [0, 5], [2, 500])
    with pytest.raises(TruncatedError):
        store.get("a", 5)


def test_store_that_ignores_ranges_is_noticed() -> None:
    store = store_of(unlike("whole", cat_file=lambda self, path, **_: DATA))
    assert store.get("a").tobytes() == DATA
    with pytest.raises(StoreError, match="ignores ranges"):
        store.get("a", 5, 500)


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (FileNotFoundError("x"), DatasetNotFoundError, "no object 'a'"),
        (IsADirectoryError("x"), DatasetNotFoundError, "no object 'a'"),
        (PermissionError(13, "Access Denied"), StoreError, "PermissionError: Access Denied"),
        (OSError(5, "Slow down"), StoreError, "Slow down"),
        (TimeoutError("late"), StoreError, "late"),
        (RuntimeError("library's own"), StoreError, "RuntimeError: library's own"),
        (ValueError(), StoreError, "ValueError"),
        (NotImplementedError("no"), StoreError, "NotImplementedError"),
    ],
)
def test_errors_are_translated(error: Exception, expected: type[Exception], text: str) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    store = store_of(unlike("failing", cat_file=fails, info=fails))
    for request in (lambda: store.get("a"), lambda: store.get("a", 2, 4), lambda: store.head("a")):
        with pytest.raises(expected, match=text) as caught:
            request()
        assert caught.value.__cause__ is error
    if isinstance(error, OSError) and expected is StoreError:
        assert getattr(caught.value, "errno", None) == error.errno
        assert caught.value.path == "a"  # type: ignore[attr-defined]
        assert caught.value.store == "failing://place"  # type: ignore[attr-defined]


def test_running_out_of_memory_is_not_translated() -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        store_of(unlike("oom", cat_file=fails)).get("a")


@pytest.mark.parametrize(
    ("info", "text"), [({"size": None, "type": "file"}, "size"), ({"type": "file"}, "size")]
)
def test_unknown_size_is_an_error(info: dict[str, Any], text: str) -> None:
    with pytest.raises(StoreError, match=text):
        store_of(unlike("sizeless", info=lambda *_, **__: info)).head("a")


def test_identity_prefers_what_the_server_says() -> None:
    assert metadata("a", {"size": 1, "ETag": '"abc"', "mtime": 5.0}, "s", "").identity == '"abc"'
    assert metadata("a", {"size": 1, "generation": 77}, "s", "e1").identity == "77@e1"
    with_time = metadata("a", {"size": 1, "mtime": 5.0, "ino": 3}, "s", "")
    assert with_time.identity == "3-1-5.0"
    assert metadata("a", {"size": 1}, "s", "e1").identity == ""


def test_one_url_on_two_endpoints_has_two_identities() -> None:
    fsspec.filesystem("memory").pipe_file("/endpoints/a", DATA)
    stores = [
        FsspecStore("memory://endpoints", {"client_kwargs": {"endpoint_url": e}}) for e in ("x", "y", "x")
    ]
    first, second, third = (store.head("a").identity for store in stores)
    assert first == third != second


# Creating


class Conflict(Exception):
    """Looks like botocore's error for two creates at once."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


class FakeBucket(AsyncFileSystem):  # type: ignore[misc]
    """A bucket that answers a conditional put with the given codes before it gives in."""

    protocol = "s3"
    cachable = False

    def __init__(self, codes: list[str], **options: Any) -> None:
        super().__init__(**options)
        self.codes = list(codes)
        self.puts = 0

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        self.puts += 1
        if mode == "create" and self.codes:
            raise OSError("translated") from Conflict(self.codes.pop(0))


def test_conflict_of_two_creates_is_asked_again() -> None:
    fs = FakeBucket(["ConditionalRequestConflict", "409"])
    FsspecStore("bucket/t", fs=fs).put("a", b"x", PutMode.CREATE)
    assert fs.puts == 3


def test_lost_race_is_not_asked_again() -> None:
    fs = FakeBucket(["PreconditionFailed", "409"])
    with pytest.raises(ExistsError):
        FsspecStore("bucket/t", fs=fs).put("a", b"x", PutMode.CREATE)
    assert fs.puts == 1


def test_conflict_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(StoreError):
        FsspecStore("bucket/t", fs=FakeBucket(["409"] * 50)).put("a", b"x", PutMode.CREATE)


class SlowCopies(AsyncFileSystem):  # type: ignore[misc]
    """An Azure container whose copies go on after the answer."""

    protocol = "az"
    cachable = False

    def __init__(self, statuses: list[str], **options: Any) -> None:
        super().__init__(**options)
        self.statuses = list(statuses)
        self.removed: list[str] = []
        self.service_client = SimpleNamespace(get_blob_client=self._client)

    def split_path(self, path: str) -> tuple[str, str, None]:
        container, _, blob = path.partition("/")
        return container, blob, None

    @asynccontextmanager
    async def _client(self, **_: str) -> AsyncIterator[Any]:
        async def properties() -> Any:
            return SimpleNamespace(copy=SimpleNamespace(status=self.statuses.pop(0)))

        yield SimpleNamespace(get_blob_properties=properties)

    async def _cp_file(self, path1: str, path2: str, **_: object) -> None:
        pass

    async def _info(self, path: str, **_: object) -> dict[str, Any]:
        return {"name": path, "size": 1, "type": "file"}

    async def _rm_file(self, path: str, **_: object) -> None:
        self.removed.append(f"{path} with {len(self.statuses)} to come")


def test_object_is_removed_once_its_copy_is_whole() -> None:
    fs = SlowCopies(["pending", "pending", "success"])
    FsspecStore("container/t", fs=fs).rename("a", "b")
    assert fs.removed == ["container/t/a with 0 to come"]


def test_copy_that_azure_gives_up_is_an_error() -> None:
    fs = SlowCopies(["pending", "failed"])
    with pytest.raises(StoreError, match=r"az://container/t.*status failed"):
        FsspecStore("container/t", fs=fs).rename("a", "b")
    assert fs.removed == []


def test_error_codes_are_found_in_causes() -> None:
    assert error_code(None) == ""
    assert error_code(OSError("plain")) == ""
    outer = OSError("outer")
    outer.__cause__ = Conflict("InvalidRange")
    assert error_code(outer) == "InvalidRange"


def test_answer_that_is_cut_short_has_no_code() -> None:
    cut = ClientPayloadError("Response payload is not completed")
    cut.__cause__ = ContentLengthError("Not enough data")
    assert cut.__cause__.code == 400
    assert error_code(cut) == ""


def test_codes_of_google_and_azure_are_found() -> None:
    from azure.core.exceptions import HttpResponseError
    from gcsfs.retry import HttpError

    assert error_code(HttpError({"code": 416, "message": "no such range"})) == "416"
    refused = HttpResponseError("refused")
    refused.status_code = 403
    assert error_code(refused) == "403"


def test_unverified_file_systems_do_not_create() -> None:
    """fsspec's default looks and then writes, which two writers survive with one file lost."""
    fs = unlike("someftp")
    store = FsspecStore("/place", fs=fs)
    assert not store.traits.create_is_atomic
    with pytest.raises(UnsupportedError, match=r"someftp://place cannot put without replacing"):
        store.put("a", b"x", PutMode.CREATE)
    store.put("b", b"x")
    with pytest.raises(UnsupportedError, match="rename"):
        store.rename("b", "c", PutMode.CREATE)


# Threads, forks, caches


def test_unknown_synchronous_file_systems_get_one_call_at_a_time() -> None:
    inside = threading.Semaphore(1)

    def fussy(self: Any, path: str, **options: Any) -> bytes:
        assert inside.acquire(blocking=False), "two calls at once"
        time.sleep(0.001)
        inside.release()
        data: bytes = MemoryFileSystem.cat_file(self, path, **options)
        return data

    store = store_of(unlike("fussy", cat_file=fussy))
    assert store.traits.concurrency == 1
    request = Ranges(SourceFile(store, "a", len(DATA)), np.arange(0, 2000, 40), np.full(50, 3))
    session = Session(threads=4)
    session.map(lambda _: session.fetch([request]), range(8))


def test_asynchronous_file_systems_batch() -> None:
    traits = FsspecStore("bucket/t", fs=FakeBucket([])).traits
    assert traits.batches
    assert traits.concurrency > 4
    assert traits.create_is_atomic


def test_file_system_is_made_on_first_use_and_again_in_a_child() -> None:
    store = FsspecStore("memory://lazy/t")
    assert store._built is None
    store.put("a", DATA)
    parent = store._built
    assert parent is not None

    def child() -> None:
        assert store.get("a").tobytes() == DATA
        assert store._built is not None
        assert store._built.process == os.getpid() != parent.process

    in_child(child)
    assert store._built is parent


def test_callers_own_asynchronous_file_system_is_rebuilt_in_a_child() -> None:
    fs = FakeBucket([])
    store = FsspecStore("bucket/t", fs=fs)
    store.put("a", b"x")

    def child() -> None:
        store.put("a", b"x")
        assert store._open().fs is not fs

    fs.storage_args, fs.storage_options = ([],), {}
    in_child(child)


def test_listings_are_never_stale(tmp_path: Path) -> None:
    class Remembering(MemoryFileSystem):  # type: ignore[misc]
        protocol = "remembering"
        cachable = False

        def find(self, path: str, **options: Any) -> Any:
            if path not in self.dircache:
                self.dircache[path] = super().find(path, **options)
            return self.dircache[path]

        def invalidate_cache(self, path: str | None = None) -> None:
            self.dircache.clear()

    store = FsspecStore("/place", fs=Remembering(global_store=False))
    store.put("v/1", b"x")
    assert [meta.path for meta in store.list("v")] == ["v/1"]
    store.put("v/2", b"x")
    assert [meta.path for meta in store.list("v")] == ["v/1", "v/2"]


def test_wildcards_in_names_remove_nothing_else() -> None:
    store = FsspecStore("memory://wild/t")
    for name in ("a*", "ab", "a[b]", "a?"):
        store.put(name, b"x")
    store.delete(["a*", "a?"])
    assert [meta.path for meta in store.list("")] == ["a[b]", "ab"]


def test_wildcards_in_the_place_of_a_store_remove_nothing_else() -> None:
    class Expanding(MemoryFileSystem):  # type: ignore[misc]
        protocol = "gs"
        cachable = False

    fs = Expanding(global_store=False)
    for folder in ("run?", "run1"):
        for name in ("1", "2"):
            fs.pipe_file(f"/b/{folder}/{name}", b"x")
    FsspecStore("/b/run?", fs=fs).delete(["1", "2"])
    assert sorted(fs.find("/b")) == ["/b/run1/1", "/b/run1/2"]


def test_a_folder_that_another_process_fills_meanwhile_stays() -> None:
    class Busy(MemoryFileSystem):  # type: ignore[misc]
        cachable = False
        lists_itself = True

        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            found = super().ls(path, detail=detail, **kwargs)
            # As some file systems do.
            own = [{"name": path, "size": 0, "type": "directory"}] if self.lists_itself else []
            return [*own, *found]

        def rmdir(self, path: str) -> None:
            self.lists_itself = False
            if path.endswith("/t"):
                self.pipe_file(f"{path}/_versions/1", b"x")
            super().rmdir(path)

    fs = Busy(global_store=False)
    fs.makedirs("/place/t/data")
    FsspecStore("/place", fs=fs).remove_empty_folder("t")
    assert sorted(fs.store) == ["/place/t/_versions/1"] and "/place/t/data" not in fs.pseudo_dirs


@pytest.mark.parametrize("name", ["*", "a?", "[ab]", "a[b]"])
def test_empty_folders_are_removed_and_no_others(name: str) -> None:
    fs = MemoryFileSystem(global_store=False, skip_instance_cache=True)
    store = FsspecStore("/place", fs=fs)
    for folder in (name, "a", "b", "ab"):
        fs.makedirs(f"/place/{folder}/data/deep")
        fs.pipe_file(f"/place/{folder}/_versions/1", b"x")
    store.remove_empty_folder(name)
    assert [meta.path for meta in store.list(name)] == [f"{name}/_versions/1"]
    store.delete([f"{name}/_versions/1"])
    store.remove_empty_folder(name)
    store.remove_empty_folder(name)
    assert sorted(store.names("")) == ["a/", "ab/", "b/"]
    assert [meta.path for meta in store.list("")] == [f"{folder}/_versions/1" for folder in ("a", "ab", "b")]


def test_chain_separator_is_refused() -> None:
    with pytest.raises(PathPolicyError, match="URL"):
        FsspecStore("memory://chain/t").put("a::b", b"x")


# Chained URLs and other real file systems


def test_archive_of_a_table(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("t/data/a", DATA)
        archive.writestr("t/b", b"b")
        archive.writestr("other", b"o")
    store = open_store(f"zip://t::file://{tmp_path}/x.zip")
    assert [meta.path for meta in store.list("")] == ["b", "data/a"]
    assert store.get("data/a", 5, 90).tobytes() == DATA[5:90]
    assert store.head("data/a").size == len(DATA)


def test_cached_copy_of_another_store(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe_file("/cached/t/a", DATA)
    store = open_store("simplecache::memory://cached/t", {"simplecache": {"cache_storage": str(tmp_path)}})
    assert store.get("a", 7, 700).tobytes() == DATA[7:700]
    assert [part.tobytes() for part in store.get_many("a", [0, 10], [3, 15])] == [DATA[:3], DATA[10:15]]
    assert [meta.path for meta in store.list("")] == ["a"]
    assert list(tmp_path.iterdir())


class RangeHandler(http.server.BaseHTTPRequestHandler):
    """Serves one object, ranges included, as object stores do over plain HTTP."""

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, with_body: bool) -> None:
        if self.path == "/private/data/a":
            known = self.headers.get("Authorization") == "Basic bWU6cCB3"
            self.send_error(404 if known else 401)
            return
        if self.path != "/t/data/a%20b":
            self.send_error(404)
            return
        body, code = DATA, 200
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if wanted:
            first, _, last = wanted.partition("-")
            if int(first) >= len(DATA):
                self.send_error(416)
                return
            body, code = DATA[int(first) : int(last) + 1 if last else None], 206
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"tag"')
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), RangeHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/t"
        server.shutdown()
        thread.join()


def test_login_in_a_web_address_is_basic_authentication(web: str) -> None:
    place = web.removesuffix("/t") + "/private"
    known = open_store(place.replace("://", "://me:p%20w@"))
    assert "p%20w" not in repr(known)
    with pytest.raises(NotFoundError):
        known.get("data/a")
    for stranger in (place, place.replace("://", "://me:wrong@")):
        with pytest.raises(StoreError, match="401") as caught:
            open_store(stranger).get("data/a")
        assert not isinstance(caught.value, NotFoundError)


def test_web_server_that_cannot_be_reached_is_no_empty_one() -> None:
    """fsspec says that a folder is empty, and that there is no object, when a connection fails."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        store = open_store(f"http://127.0.0.1:{taken.getsockname()[1]}/t", {"client_max_retries": 1})
        asks: list[Callable[[], object]] = [
            lambda: list(store.list("_versions")),
            lambda: store.head("data/a"),
            lambda: lancecy.dataset(store.uri, storage_options={"client_max_retries": 0}),
        ]
        for ask in asks:
            with pytest.raises(StoreError, match="Connect call failed") as caught:
                ask()
            assert not isinstance(caught.value, NotFoundError)


def test_folders_that_cannot_be_listed_are_not_left_out() -> None:
    def ls(fs: MemoryFileSystem, path: str, detail: bool = True, **options: Any) -> Any:
        if path.endswith("/deep"):
            raise ConnectionResetError(104, "reset by peer")
        return MemoryFileSystem.ls(fs, path, detail, **options)

    fs = unlike("unlike", ls=ls, find=AbstractFileSystem.find, makes_tries=True)
    fs.pipe_file("/place/data/b", DATA)
    store = store_of(fs)
    assert [meta.path for meta in store.list("")] == ["a", "data/b"]
    assert [meta.path for meta in store.list("none")] == []
    fs.pipe_file("/place/data/deep/c", DATA)
    for folder in ("", "data"):
        with pytest.raises(StoreError, match="reset by peer"):
            list(store.list(folder))


def test_web_server(web: str) -> None:
    store = open_store(web)
    assert store.head("data/a b").size == len(DATA)
    assert store.get("data/a b").tobytes() == DATA
    assert store.get("data/a b", 7, 300).tobytes() == DATA[7:300]
    parts = store.get_many("data/a b", [5, 900], [6, 1900])
    assert [part.tobytes() for part in parts] == [DATA[5:6], DATA[900:1900]]
    with pytest.raises(DatasetNotFoundError):
        store.get("data/none")
    for start, stop in ((2000, 3000), (5000, 6000)):
        with pytest.raises(TruncatedError):
            store.get("data/a b", start, stop)
    with pytest.raises(PathPolicyError):
        store.get("data/a?versionId=1")
    with pytest.raises(PathPolicyError):
        store.get("%2e%2e/secret")


def test_folders_in_a_circle_are_an_error_and_no_endless_walk(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.lance").write_bytes(b"x")
    store = FsspecStore(str(tmp_path), fs=ArrowFSWrapper(LocalFileSystem()))
    assert [meta.path for meta in store.list("data")] == ["data/a.lance"]
    for name in ("one", "two"):
        (tmp_path / "data" / name).symlink_to(tmp_path / "data")
    with pytest.raises(StoreError, match="symbolic link that leads to a folder above it"):
        list(store.list("data"))
