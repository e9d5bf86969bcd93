"""Changes that meet others of the same rows begin again from the newest version."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lancecy
from lancecy.changes import base
from lancecy.errors import ConflictError, RetryableConflictError
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import LatencyStore
from lancecy.table import answers
from lancecy.table.requests import Steps
from lancecy.table.versions import LocalLink

LONG = timedelta(minutes=1)


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    return lancecy.write_dataset({"n": [1, 2]}, tmp_path / "t")


def attempts(ds: lancecy.Dataset, conflicts: int, retries: int, timeout: timedelta = LONG) -> list[int]:
    """The versions that attempts began with; the first ``conflicts`` attempts lose to another writer."""
    seen: list[int] = []

    def attempt() -> list[int]:
        seen.append(ds.version)
        if len(seen) <= conflicts:
            lancecy.write_dataset({"n": [3]}, ds.uri, mode="append")
            raise RetryableConflictError("another writer was faster")
        return seen

    try:
        return ds._retried(attempt, retries, timeout)
    except RetryableConflictError:
        return [*seen, -1]


def test_each_attempt_begins_with_the_newest_version(ds: lancecy.Dataset) -> None:
    assert attempts(ds, 2, 10) == [1, 2, 3]


@pytest.mark.parametrize(("retries", "timeout", "versions"), [(1, LONG, [1, 2, -1]), (9, LONG * 0, [1, -1])])
def test_attempts_end(ds: lancecy.Dataset, retries: int, timeout: timedelta, versions: list[int]) -> None:
    assert attempts(ds, 99, retries, timeout) == versions


class Clock:
    """Time that passes in attempts and pauses only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pauses = 0.0, list[float]()
        monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_pauses_between_long_attempts_differ(ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one length lose together; a number that a program gave to ``random.seed`` does not make them equal."""
    clock = Clock(monkeypatch)

    def attempt() -> None:
        clock.now += 30
        raise RetryableConflictError("another writer was faster")

    for _ in range(2):
        random.seed(0)
        with pytest.raises(RetryableConflictError):
            ds._retried(attempt, 9, LONG * 60)
    assert len(set(clock.pauses)) == 18
    assert max(clock.pauses) <= 5


def test_no_attempt_begins_after_the_time_is_over(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, begun = Clock(monkeypatch), list[float]()

    def attempt() -> None:
        begun.append(clock.now)
        clock.now += 0.9
        raise RetryableConflictError("another writer was faster")

    for _ in range(20):
        clock.now = 0.0
        with pytest.raises(RetryableConflictError):
            ds._retried(attempt, 99, timedelta(seconds=1))
    assert len(begun) == 40
    assert max(begun) <= 1


def test_other_conflicts_are_not_repeated(ds: lancecy.Dataset) -> None:
    def attempt() -> None:
        raise ConflictError("they exclude each other")

    with pytest.raises(ConflictError):
        ds._retried(attempt, 9, LONG)


def test_a_computed_change_is_not_lost_to_twenty_five_appends(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another race costs less than finding the rows again, which an attempt that is repeated does."""
    real, appended, turns = LocalLink.publish, {"n": [3]}, iter([True, False] * 25)

    def overtaken(self: LocalLink, *arguments: Any) -> Steps[Any]:
        # Every second call is that of the append itself.
        if next(turns, False):
            lancecy.dataset(ds.uri).append(appended)
        return (yield from real(self, *arguments))

    monkeypatch.setattr(LocalLink, "publish", overtaken)
    monkeypatch.setattr(answers, "_LONGEST_PAUSE", 0.0)
    ds.delete("n = 1", conflict_retries=0)
    assert ds.to_table()["n"].to_pylist() == [2] + [3] * 25


@pytest.mark.slow
def test_many_writers_of_the_same_rows_all_succeed() -> None:
    """Pauses of one length made writers lose together, up to the last of their attempts."""
    store = LatencyStore(MemoryStore(), 0.01)
    register_store("contended", lambda uri, options, **_: store)
    uri, count = "contended://here/t", 24
    lancecy.write_dataset({"n": [0] * 4}, uri)
    together = threading.Barrier(count)

    def work(_: int) -> None:
        together.wait()
        for _ in range(2):
            lancecy.dataset(uri).update({"n": "n + 1"})

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))
    assert lancecy.dataset(uri).to_table()["n"].to_pylist() == [2 * count] * 4
