"""Tables committed under a lock of the user's: pylance's ``commit_lock``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import lance
import pytest
from fsspec.implementations.local import LocalFileSystem
from lance.commit import CommitConflictError

import lancecy
from lancecy.errors import (
    CommitError,
    CommitUnknownError,
    ContentionError,
    RetryableConflictError,
    StoreError,
    UnsupportedError,
)
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.table.versions import Outcome
from lancecy.table.versions.locked import LockedPut
from tests.contracts.versions import Published, VersionStoreContract
from tests.helpers.faults import Fault, FaultyStore

Make = Callable[[], Published]


class Locks:
    """A lock of this process, which writes down what happened to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.log: list[str] = []

    @contextlib.contextmanager
    def __call__(self, version: int) -> Iterator[None]:
        with self._lock:
            self.log.append(f"lock {version}")
            try:
                yield
            except BaseException as error:
                self.log.append(f"failed with {error}")
                raise
            self.log.append("done")


class TestLocked(VersionStoreContract):
    """A store under a lock is a version store like any other."""

    @pytest.fixture
    def make_table(self) -> Make:
        locks = Locks()
        return lambda: Published(MemoryStore(), LockedPut(lock=locks))

    @pytest.fixture
    def table(self, make_table: Make) -> Published:
        return make_table()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def test_each_commit_is_made_under_the_lock_of_its_version(uri: str) -> None:
    locks = Locks()
    ds = lancecy.write_dataset({"a": [1]}, uri, commit_lock=locks)
    ds.append({"a": [2]})
    ds = lancecy.dataset(uri, commit_lock=locks)
    ds.delete("a = 1")
    operation = lancecy.LanceOperation.Append(lancecy.write_fragments({"a": [3]}, ds))
    lancecy.commit(uri, operation, read_version=3, commit_lock=locks)
    made = lancecy.Transaction(3, lancecy.LanceOperation.Append(lancecy.write_fragments({"a": [4]}, ds)))
    lancecy.LanceDataset.commit_batch(uri, [made], commit_lock=locks)
    assert locks.log == [text for version in range(1, 6) for text in (f"lock {version}", "done")]
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [2, 3, 4]


def test_lock_of_pylance_excludes_lancecy(uri: str) -> None:
    """Both libraries write one table, under one lock."""
    locks = Locks()
    lancecy.write_dataset({"n": [-1]}, uri, commit_lock=locks)

    def write(number: int) -> None:
        library: Any = lance if number % 2 else lancecy
        rows = lancecy.dataset(uri, version=1).to_table()
        library.write_dataset(rows, uri, mode="append", commit_lock=locks)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(20)))
    ds = lancecy.dataset(uri)
    assert [entry["version"] for entry in ds.versions()] == list(range(1, 22))
    assert [lancecy.dataset(uri, version=n).count_rows() for n in (1, 10, 21)] == [1, 10, 21]


def test_writer_that_was_outrun_leaves_the_lock_with_an_error_and_tries_the_next_version(uri: str) -> None:
    locks = Locks()
    ds = lancecy.write_dataset({"a": [1]}, uri)

    @contextlib.contextmanager
    def outrun(version: int) -> Iterator[None]:
        if version == 2:
            lancecy.write_dataset({"a": [2]}, uri, mode="append", commit_lock=locks)
        with locks(version):
            yield

    ds = lancecy.write_dataset({"a": [3]}, uri, mode="append", commit_lock=outrun)
    assert locks.log == [
        *("lock 2", "done"),
        *("lock 2", "failed with commit failed: version 2 exists"),
        *("lock 3", "done"),
    ]
    assert (ds.version, ds.to_table()["a"].to_pylist()) == (3, [1, 2, 3])


@pytest.mark.parametrize("kind", [CommitConflictError, RetryableConflictError])
def test_conflict_that_a_lock_reports_is_tried_again(uri: str, kind: type[Exception]) -> None:
    asked: list[int] = []

    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        asked.append(version)
        if len(asked) < 3:
            raise kind("somebody else is about to")
        yield

    assert lancecy.write_dataset({"a": [1]}, uri, commit_lock=lock).version == 1
    assert asked == [1, 1, 1]


def test_lock_that_always_reports_a_conflict_is_contention(uri: str) -> None:
    lancecy.write_dataset({"a": [1]}, uri)

    def lock(version: int) -> Any:
        raise CommitConflictError("never")

    with pytest.raises(ContentionError, match=r"said 10 times that another writer has it, .* \(never\)"):
        lancecy.write_dataset({"a": [2]}, uri, mode="append", commit_lock=lock)
    assert lancecy.dataset(uri).version == 1


def test_lock_that_is_not_given_fails_the_commit_and_leaves_the_table(uri: str) -> None:
    lancecy.write_dataset({"a": [1]}, uri)

    def lock(version: int) -> Any:
        raise RuntimeError("the lock server is away")

    with pytest.raises(CommitError, match="version 2 was not given: RuntimeError: the lock server is away"):
        lancecy.write_dataset({"a": [2]}, uri, mode="append", commit_lock=lock)
    assert lance.dataset(uri).version == 1


def test_lock_that_was_lost_before_its_end_does_not_hide_the_commit(uri: str) -> None:
    """The lease ran out as the manifest was written: what is there tells who won."""

    @contextlib.contextmanager
    def lease(version: int) -> Iterator[None]:
        yield
        raise CommitConflictError("the lease ran out")

    ds = lancecy.write_dataset({"a": [1]}, uri, commit_lock=lease)
    ds.append({"a": [2]})
    assert lancecy.dataset(uri).to_table()["a"].to_pylist() == [1, 2]


def test_writer_that_is_interrupted_releases_the_lock(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = Locks()
    ds = lancecy.write_dataset({"a": [1]}, uri, commit_lock=locks)
    put = LocalStore.put

    def interrupted(store: LocalStore, path: str, *rest: Any) -> Any:
        if path.endswith(".manifest"):
            raise KeyboardInterrupt
        return put(store, path, *rest)

    monkeypatch.setattr(LocalStore, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ds.append({"a": [2]})
    monkeypatch.undo()
    assert locks.log[2:] == ["lock 2", "failed with "]
    ds.append({"a": [2]})
    assert lancecy.dataset(uri).version == 2


@pytest.mark.parametrize("applied", [False, True])
def test_write_that_fails_once_is_repeated_under_the_lock(applied: bool) -> None:
    locks, memory = Locks(), MemoryStore()
    fault = Fault("put", 1, error=StoreError("the network is slow"), applied=applied)
    table = Published(FaultyStore(memory, [fault]), LockedPut(lock=locks))
    assert table.publish(1, b"one") is Outcome.UNKNOWN
    assert locks.log == ["lock 1", "done"]
    assert Published(memory, LockedPut(lock=locks)).all() == [1]


def test_write_that_always_fails_leaves_the_lock_with_its_error() -> None:
    locks = Locks()
    fault = Fault("put", 1, sticky=True, error=StoreError("the network is away"))
    table = Published(FaultyStore(MemoryStore(), [fault]), LockedPut(lock=locks))
    with pytest.raises(CommitUnknownError, match="may or may not have been written"):
        table.publish(1, b"one")
    assert [text.partition("manifest")[0][:12] for text in locks.log] == ["lock 1", "failed with "]


def test_lock_is_a_function_and_excludes_a_manifest_store(uri: str) -> None:
    wrong: Any = "lock"
    with pytest.raises(TypeError, match="commit_lock is a function of a version"):
        lancecy.write_dataset({"a": [1]}, uri, commit_lock=wrong)
    options = {"manifest_store": f"sqlite:///{uri}.db"}
    with pytest.raises(ValueError, match="through a manifest store or under a commit_lock, not both"):
        lancecy.write_dataset({"a": [1]}, uri, commit_lock=Locks(), storage_options=options)
    ds = lancecy.write_dataset({"a": [1]}, uri)
    with pytest.raises(ValueError, match="a Dataset is open already"):
        lancecy.write_dataset({"a": [1]}, ds, mode="append", commit_lock=Locks())


def test_store_that_cannot_create_conditionally_takes_a_lock(tmp_path: Path) -> None:
    """A file system that fsspec knows and that has no way to create a file only if it is absent."""

    class PlainFileSystem(LocalFileSystem):  # type: ignore[misc]
        protocol = "plain"

    fsspec.register_implementation("plain", PlainFileSystem, clobber=True)
    uri = f"plain://{tmp_path}/t.lance"
    with pytest.raises(UnsupportedError):
        lancecy.write_dataset({"a": [1]}, uri)
    ds = lancecy.write_dataset({"a": [1]}, uri, commit_lock=Locks())
    ds.append({"a": [2]})
    assert lancecy.dataset(uri).to_table()["a"].to_pylist() == [1, 2]
    through = {"manifest_store": f"sqlite:///{tmp_path}/m.db"}
    ds = lancecy.write_dataset({"a": [1]}, f"{uri}2", storage_options=through)
    ds.append({"a": [2]})
    assert lancecy.dataset(f"{uri}2").to_table()["a"].to_pylist() == [1, 2]
