"""The cache keeps its bound, under threads and across a fork."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.store.cache import ByteCache
from tests.contracts.store import in_child


def test_value_is_made_once() -> None:
    cache = ByteCache(100)
    made: list[str] = []
    for _ in range(3):
        assert cache.get(("k", 1), lambda: made.append("x") or "value", 10) == "value"  # type: ignore[func-returns-value]
    assert made == ["x"]
    assert (cache.nbytes, len(cache)) == (10, 1)


def test_least_recently_used_goes_first() -> None:
    cache = ByteCache(30)
    for name in "abc":
        cache.get((name,), name.upper, 10)
    cache.get(("a",), lambda: "again", 10)
    cache.get(("d",), lambda: "d", 10)
    assert [(key in cache) for key in (("a",), ("b",), ("c",), ("d",))] == [True, False, True, True]


def test_size_may_follow_from_the_value() -> None:
    cache = ByteCache(100)
    cache.get(("k",), lambda: b"12345", len)
    assert cache.nbytes == 5


def test_value_larger_than_the_bound_is_not_kept() -> None:
    cache = ByteCache(10)
    cache.get(("small",), lambda: 1, 10)
    assert cache.get(("large",), lambda: 2, 11) == 2
    assert [("small",) in cache, ("large",) in cache] == [True, False]


def test_nothing_is_kept_of_a_failure() -> None:
    cache = ByteCache(10)
    with pytest.raises(ZeroDivisionError):
        cache.get(("k",), lambda: 1 // 0, 1)
    assert cache.get(("k",), lambda: 3, 1) == 3


def test_making_may_use_the_cache() -> None:
    cache = ByteCache(10)
    assert cache.get(("outer",), lambda: cache.get(("inner",), lambda: 4, 1) + 1, 1) == 5
    assert len(cache) == 2


def test_forgetting() -> None:
    cache = ByteCache(10)
    cache.get(("a",), lambda: 1, 3)
    cache.get(("b",), lambda: 1, 4)
    cache.discard(("a",))
    cache.discard(("never",))
    assert cache.nbytes == 4
    cache.clear()
    assert (cache.nbytes, len(cache)) == (0, 0)
    with pytest.raises(ValueError, match="limit"):
        ByteCache(-1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60), st.integers(0, 90))
def test_bound_holds_after_every_step(steps: list[tuple[int, int]], limit: int) -> None:
    cache = ByteCache(limit)
    for key, size in steps:
        cache.get((key,), int, size)
        assert cache.nbytes <= limit
        assert cache.nbytes == sum(entry[1] for entry in cache._entries.values())


def test_bound_holds_under_threads() -> None:
    cache = ByteCache(1000)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(2000):
            key = rng.randrange(100)
            assert cache.get((key,), key.bit_length, 17) == key.bit_length()
            assert cache.nbytes <= 1000

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert cache.nbytes == 17 * len(cache)


def test_lock_held_at_the_fork_does_not_stop_the_child() -> None:
    cache = ByteCache(100)
    cache.get(("k",), lambda: 1, 10)

    def child() -> None:
        assert cache.get(("k",), lambda: 2, 10) == 1
        assert cache.nbytes == 10

    with cache._lock:
        in_child(child)
