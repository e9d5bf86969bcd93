"""What every store promises; a test module inherits the class and gives it a ``store``.

What a store cannot do it must refuse: the flags say which, and the suite checks the
refusal instead.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
import signal
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    LanceError,
    PathPolicyError,
    StoreError,
    TruncatedError,
    UnsupportedError,
)
from lancecy.store.base import ObjectMeta, PutMode, Store
from lancecy.store.folders import names_in

__all__ = ["ODD_NAMES", "StoreContract", "in_child"]

DATA = bytes(range(256)) * 300  # 76,800 bytes, no two positions of which look alike by accident

ODD_NAMES = [
    "plain.lance",
    "with space",
    "Ünïcödé-日本語-🦀",
    unicodedata.normalize("NFD", "é"),
    "100%",
    "a%20b",
    "star*",
    "[x]",
    "plus+and&'quotes'(1)",
    "-dash",
    ".hidden",
    "~tilde",
    "a=1,b=2;c",
    "n" * 200,
    "deep/er/and/deep/er",
]

READS: dict[str, Callable[[Store, str], object]] = {
    "head": lambda store, path: store.head(path),
    "get": lambda store, path: store.get(path),
    "range": lambda store, path: store.get(path, 1, 3),
    "many": lambda store, path: store.get_many(path, [0, 2], [1, 4]),
    "rename": lambda store, path: store.rename(path, "elsewhere"),
}
WRITES: dict[str, Callable[[Store, str], object]] = {
    "put": lambda store, path: store.put(path, b"x"),
    "put_stream": lambda store, path: store.put_stream(path),
    "rename to": lambda store, path: store.rename("plain", path),
    "delete": lambda store, path: store.delete([path]),
    "list": lambda store, path: list(store.list(path)),
}
HOSTILE = [
    "../x",
    "a/../../x",
    "/etc/passwd",
    "a//b",
    "a\\b",
    "a\0b",
    "a\nb",
    "%2e%2e/x",
    "s3://b/k",
    "./a",
    "a/.",
]


class StoreContract:
    """Tests over the fixture ``store``: an empty store, which the subclass defines."""

    creates = True
    """``put`` with CREATE is atomic; else it is refused."""
    renames_without_replacing = True
    replaces_identity = True
    """``identity`` tells a replaced object from the one before, even of the same size."""
    publishes_at_once = True
    """An object being replaced is seen whole, before or after."""
    refused_names: frozenset[str] = frozenset()
    """Odd names that mean something else to this kind of store."""

    # Writing and reading back

    @pytest.mark.parametrize("size", [0, 1, 5, len(DATA)])
    def test_get_returns_what_was_put(self, store: Store, size: int) -> None:
        meta = store.put("data/a.bin", DATA[:size])
        memory = store.get("data/a.bin")
        assert memory.tobytes() == DATA[:size]
        assert (memory.dtype, memory.ndim, memory.flags.c_contiguous) == (np.dtype("u1"), 1, True)
        assert (meta.path, meta.size) == ("data/a.bin", size)

    def test_put_takes_a_memoryview(self, store: Store) -> None:
        store.put("a", memoryview(DATA)[3:9])
        assert store.get("a").tobytes() == DATA[3:9]

    def test_put_replaces(self, store: Store) -> None:
        store.put("a", DATA)
        before = store.get("a")
        store.put("a", b"short")
        assert store.get("a").tobytes() == b"short"
        assert store.head("a").size == 5
        if self.publishes_at_once:
            assert before.tobytes() == DATA  # what was handed out stays as it was

    @pytest.mark.parametrize(
        ("start", "stop"),
        [(0, 1), (7, 19), (0, None), (300, None), (len(DATA) - 1, len(DATA)), (5, 5), (100, 70_000)],
    )
    def test_get_range(self, store: Store, start: int, stop: int | None) -> None:
        store.put("a", DATA)
        assert store.get("a", start, stop).tobytes() == DATA[start:stop]

    def test_get_from_the_very_end_is_empty(self, store: Store) -> None:
        store.put("a", DATA)
        assert store.get("a", len(DATA)).size == 0

    @pytest.mark.parametrize("size", [0, 1, 100])
    def test_get_start_needs_no_size(self, store: Store, size: int) -> None:
        store.put("a", DATA[:size])
        for most in (1, 99, 100, 101, 1 << 20):
            assert store.get_start("a", most).tobytes() == DATA[: min(size, most)]
        with pytest.raises(DatasetNotFoundError):
            store.get_start("b", 10)

    def test_get_many_keeps_the_order(self, store: Store) -> None:
        store.put("a", DATA)
        starts, stops = [500, 0, 10, 10, 66_000, 501], [777, 1, 10, 12, len(DATA), 600]
        parts = store.get_many("a", starts, stops)
        assert [part.tobytes() for part in parts] == [DATA[a:b] for a, b in zip(starts, stops, strict=True)]

    def test_get_many_of_nothing(self, store: Store) -> None:
        store.put("a", DATA)
        assert store.get_many("a", [], []) == []

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names(self, store: Store, name: str) -> None:
        if name in self.refused_names:
            with pytest.raises(PathPolicyError):
                store.put(f"folder/{name}", b"x")
            return
        store.put("folder/star-decoy", b"decoy")
        store.put("folder/x", b"decoy")
        store.put(f"folder/{name}", DATA[:11])
        assert store.get(f"folder/{name}").tobytes() == DATA[:11]
        assert store.get(f"folder/{name}", 2, 5).tobytes() == DATA[2:5]
        assert store.head(f"folder/{name}").size == 11
        listed = [meta.path for meta in store.list("folder")]
        assert listed == sorted(["folder/star-decoy", "folder/x", f"folder/{name}"])
        store.delete([f"folder/{name}"])
        assert [meta.path for meta in store.list("folder")] == ["folder/star-decoy", "folder/x"]

    def test_names_of_one_level(self, store: Store) -> None:
        for path in ("f/b/1", "f/b/2/3", "f/a", "f/c.lance/x", "fg/a", "f!"):
            store.put(path, b"x")
        assert sorted(names_in(store, "f")) == ["a", "b/", "c.lance/"]
        assert sorted(names_in(store, "f/b")) == ["1", "2/"]
        assert list(names_in(store, "f/missing")) == list(names_in(store, "f/a")) == []
        assert {"f/", "fg/", "f!"} <= set(names_in(store))

    # What is asked for wrongly

    @pytest.mark.parametrize(("start", "stop"), [(0, 101), (99, 101), (100, 101), (101, None), (5000, 5001)])
    def test_range_past_the_end(self, store: Store, start: int, stop: int | None) -> None:
        store.put("a", DATA[:100])
        with pytest.raises(TruncatedError) as caught:
            store.get("a", start, stop)
        assert caught.value.path is not None
        assert caught.value.path.endswith("a")
        if stop is not None:
            with pytest.raises(TruncatedError):
                store.get_many("a", [0, start], [10, stop])

    @pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
    def test_range_that_is_none(self, store: Store, start: int, stop: int) -> None:
        store.put("a", DATA)
        with pytest.raises(ValueError, match="range") as caught:
            store.get("a", start, stop)
        assert not isinstance(caught.value, LanceError)
        with pytest.raises(ValueError, match="range"):
            store.get_many("a", [start], [stop])

    @pytest.mark.parametrize("method", READS)
    def test_missing_object(self, store: Store, method: str) -> None:
        store.put("there/a", DATA)
        for path in ("nothing", "there/b", "nowhere/b", "there", "there/a/b"):
            with pytest.raises(DatasetNotFoundError) as caught:
                READS[method](store, path)
            assert isinstance(caught.value, FileNotFoundError)
            assert path in str(caught.value)
            assert caught.value.name.endswith(path)

    @pytest.mark.parametrize("method", [*READS, *WRITES])
    def test_hostile_path(self, store: Store, method: str) -> None:
        for path in HOSTILE:
            with pytest.raises(PathPolicyError):
                {**READS, **WRITES}[method](store, path)

    # Creating

    def test_create_only_once(self, store: Store) -> None:
        assert store.traits.create_is_atomic is self.creates
        if not self.creates:
            with pytest.raises(UnsupportedError, match=re.escape(store.uri)):
                store.put("v/1", b"first", PutMode.CREATE)
            assert list(store.list("")) == []
            return
        store.put("v/1", b"first", PutMode.CREATE)
        with pytest.raises(ExistsError) as caught:
            store.put("v/1", b"second", PutMode.CREATE)
        assert isinstance(caught.value, FileExistsError)
        assert store.get("v/1").tobytes() == b"first"

    def test_of_racing_creates_one_wins(self, store: Store) -> None:
        refusal = ExistsError if self.creates else UnsupportedError
        for round_number in range(4):
            path = f"race/{round_number}"
            barrier = threading.Barrier(6)

            def attempt(writer: int, path: str = path, barrier: threading.Barrier = barrier) -> int | None:
                barrier.wait(30)
                try:
                    store.put(path, f"writer {writer}".encode(), PutMode.CREATE)
                except refusal:
                    return None
                return writer

            with ThreadPoolExecutor(6) as threads:
                winners = [w for w in threads.map(attempt, range(6)) if w is not None]
            assert len(winners) == int(self.creates)
            for winner in winners:
                assert store.get(path).tobytes() == f"writer {winner}".encode()
        assert len(list(store.list("race"))) == 4 * self.creates  # and no temporary file stays behind

    # Streams

    def test_stream_is_published_by_close(self, store: Store) -> None:
        writer = store.put_stream("big/a")
        assert writer.write(DATA[:1000]) == 1000
        writer.write(memoryview(DATA)[1000:])
        assert writer.tell() == len(DATA)
        with pytest.raises(DatasetNotFoundError):
            store.head("big/a")
        writer.close()
        writer.close()
        assert store.get("big/a").tobytes() == DATA

    def test_stream_of_nothing(self, store: Store) -> None:
        with store.put_stream("big/empty"):
            pass
        assert store.get("big/empty").size == 0

    def test_stream_replaces(self, store: Store) -> None:
        store.put("a", b"before")
        with store.put_stream("a") as writer:
            writer.write(b"after")
            assert store.get("a").tobytes() == b"before"
        assert store.get("a").tobytes() == b"after"

    def test_stream_left_by_an_exception_leaves_nothing(self, store: Store) -> None:
        def interrupted() -> None:
            with store.put_stream("big/a") as writer:
                writer.write(DATA)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            interrupted()
        assert list(store.list("")) == []

    def test_forgotten_stream_leaves_nothing(self, store: Store) -> None:
        store.put_stream("big/a").write(DATA)
        gc.collect(1)  # the writer is new: no need to look at everything that other tests left
        assert list(store.list("")) == []

    def test_closed_stream_refuses_writes(self, store: Store) -> None:
        writer = store.put_stream("a")
        writer.close()
        with pytest.raises(ValueError, match="closed"):
            writer.write(b"x")

    # Moving and removing

    def test_rename(self, store: Store) -> None:
        store.put("from/a", DATA)
        store.put("to/b", b"old")
        store.get("to/b")
        store.rename("from/a", "to/b")
        store.put("from/a2", b"x")
        store.rename("from/a2", "new/folder/c")
        assert [meta.path for meta in store.list("")] == ["new/folder/c", "to/b"]
        assert store.get("to/b").tobytes() == DATA

    def test_rename_without_replacing(self, store: Store) -> None:
        store.put("a", b"new")
        store.put("b", b"old")
        refusal = ExistsError if self.renames_without_replacing else UnsupportedError
        with pytest.raises(refusal):
            store.rename("a", "b", PutMode.CREATE)
        assert (store.get("a").tobytes(), store.get("b").tobytes()) == (b"new", b"old")
        if self.renames_without_replacing:
            store.rename("a", "c", PutMode.CREATE)
            assert [meta.path for meta in store.list("")] == ["b", "c"]

    def test_delete(self, store: Store) -> None:
        names = [f"d/{index}" for index in range(5)]
        for name in names:
            store.put(name, b"x")
        store.delete([*names[:3], "never/there", "d/0"])
        assert [meta.path for meta in store.list("")] == names[3:]
        store.delete([])
        store.delete(["never/there"])

    # Listing

    def test_list_is_in_name_order(self, store: Store) -> None:
        names = ["a.txt", "a/b", "a/b.c/d", "a/b/c", "a0", "b", "a/Z", "ab/x"]
        names.remove("a/b")  # a file cannot be a folder as well on a disk
        for name in names:
            store.put(name, name.encode())
        metas = list(store.list(""))
        assert [meta.path for meta in metas] == sorted(names)
        assert all(isinstance(meta, ObjectMeta) and meta.size == len(meta.path) for meta in metas)
        assert [meta.path for meta in store.list("a")] == ["a/Z", "a/b.c/d", "a/b/c"]
        assert [meta.path for meta in store.list("a/")] == ["a/Z", "a/b.c/d", "a/b/c"]

    @pytest.mark.parametrize("index", range(7))
    def test_list_starts_after_a_name(self, store: Store, index: int) -> None:
        names = sorted(["a/1", "a/2", "a/2.x/y", "a/3/b", "a/3/c", "a/30", "b"])
        for name in names:
            store.put(name, b"x")
        assert [meta.path for meta in store.list("", start_after=names[index])] == names[index + 1 :]
        assert [meta.path for meta in store.list("", start_after=names[index] + "\x1f")] == names[index + 1 :]

    def test_list_of_nothing(self, store: Store) -> None:
        assert list(store.list("")) == []
        assert list(store.list("no/folder")) == []
        store.put("file", b"x")
        assert list(store.list("file")) == []

    # Identity

    def test_identity_belongs_to_the_bytes(self, store: Store) -> None:
        store.put("a", DATA[:50])
        store.put("b", DATA[1:51])
        first, other = store.head("a"), store.head("b")
        assert store.head("a").identity == first.identity
        assert first.identity != other.identity or not first.identity
        store.put("a", DATA[2:52])
        if self.replaces_identity:
            assert store.head("a").identity != first.identity

    def test_modified_is_aware_of_its_zone(self, store: Store) -> None:
        store.put("a", b"x")
        (listed,) = store.list("")
        for meta in (store.head("a"), listed):
            assert meta.modified is not None
            assert meta.modified.utcoffset() is not None
            assert meta.modified.utcoffset().total_seconds() == 0  # type: ignore[union-attr]

    # Life

    def test_uri_is_canonical(self, store: Store) -> None:
        assert not store.uri.endswith("/") or store.uri.endswith("://")
        assert "@" not in store.uri

    def test_pickled_store_reads_the_same(self, store: Store) -> None:
        store.put("a", DATA)
        store.head("a")
        again: Store = pickle.loads(pickle.dumps(store))
        assert again.uri == store.uri
        assert again.traits == store.traits
        assert again.get("a").tobytes() == DATA

    def test_threads_share_a_store(self, store: Store) -> None:
        store.put("a", DATA)

        def work(index: int) -> bool:
            start = index * 97
            return store.get("a", start, start + 50).tobytes() == DATA[start : start + 50]

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(work, range(64)))

    def test_store_survives_a_fork(self, store: Store) -> None:
        store.put("a", DATA)
        store.get("a")

        def child() -> None:
            assert store.get("a").tobytes() == DATA
            assert store.get("a", 3, 9).tobytes() == DATA[3:9]
            store.put("from-child", b"child")

        in_child(child)
        assert store.get("a", 5, 6).tobytes() == DATA[5:6]
        if store.uri.partition("://")[0] not in ("private-memory", "memory"):
            assert store.get("from-child").tobytes() == b"child"

    def test_errors_are_ours_and_pickle(self, store: Store) -> None:
        with pytest.raises(DatasetNotFoundError) as caught:
            store.get("missing")
        again: Any = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
        assert issubclass(StoreError, OSError)


def in_child(function: Callable[[], None]) -> None:
    """Run the function in a forked child and fail if it raises, dies or hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            function()
            code = 0
        except BaseException:  # a child must never return into the test runner
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the child failed"
