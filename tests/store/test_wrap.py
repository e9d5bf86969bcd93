"""Wrappers do what they say to requests, and nothing else."""

from __future__ import annotations

import pickle
import time

import pytest

from lancecy.errors import StoreError
from lancecy.store.base import PutMode, Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import CountingStore, LatencyStore, Request, WrappedStore
from tests.helpers.faults import Fault, FaultyStore

DATA = bytes(range(100))


def inner() -> MemoryStore:
    store = MemoryStore()
    store.put("t/a", DATA)
    return store


def use_everything(store: Store) -> None:
    store.head("t/a")
    store.get("t/a")
    store.get("t/a", 3, 8)
    store.get_many("t/a", [0, 50], [10, 60])
    store.put("t/b", b"x")
    with store.put_stream("t/c") as writer:
        writer.write(b"x")
    store.rename("t/b", "t/d")
    list(store.list("t"))
    store.delete(["t/c", "t/d"])


def test_every_request_is_counted() -> None:
    store = CountingStore(inner())
    use_everything(store)
    assert store.requests == [
        Request("head", "t/a"),
        Request("get", "t/a", 0, None),
        Request("get", "t/a", 3, 8),
        Request("get_many", "t/a", 0, 10),
        Request("get_many", "t/a", 50, 60),
        Request("put", "t/b"),
        Request("put_stream", "t/c"),
        Request("rename", "t/b"),
        Request("list", "t"),
        Request("delete", "t/c"),
    ]
    assert store.nbytes == 100 + 5 + 20
    assert (store.count(), store.count("get", "get_many")) == (10, 4)
    store.clear()
    assert (store.count(), store.nbytes) == (0, 0)


@pytest.mark.parametrize("kind", [WrappedStore, CountingStore])
def test_traits_and_uri_are_the_inner_ones_unless_given(kind: type[WrappedStore]) -> None:
    store = inner()
    assert (kind(store).uri, kind(store).traits) == (store.uri, store.traits)
    other = StoreTraits(concurrency=3)
    assert (kind(store, uri="delayed://x", traits=other).uri, kind(store, traits=other).traits) == (
        "delayed://x",
        other,
    )


def test_every_request_is_delayed() -> None:
    store = LatencyStore(inner(), 0.02)
    started = time.perf_counter()
    use_everything(store)
    assert time.perf_counter() - started >= 0.02 * 10


def test_batched_ranges_share_their_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    store = LatencyStore(inner(), 0.03, traits=StoreTraits(batches=True, concurrency=4))
    store.get_many("t/a", range(8), range(1, 9))
    assert sum(slept) == pytest.approx(0.06)


def test_delayed_and_broken_stores_are_never_mapped() -> None:
    mapped = MemoryStore(traits=StoreTraits(is_mapped=True))
    assert CountingStore(mapped).traits.is_mapped
    assert not LatencyStore(mapped, 0).traits.is_mapped
    assert not FaultyStore(mapped, []).traits.is_mapped


def test_nth_request_fails() -> None:
    store = FaultyStore(inner(), [Fault("get", nth=2, error=StoreError("broken"))])
    store.get("t/a")
    store.head("t/a")
    with pytest.raises(StoreError, match="broken"):
        store.get("t/a")
    assert store.get("t/a").tobytes() == DATA


def test_sticky_fault_stays() -> None:
    store = FaultyStore(inner(), [Fault(nth=2, sticky=True, error=TimeoutError("slow"))])
    store.head("t/a")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            store.head("t/a")


@pytest.mark.parametrize("applied", [False, True])
def test_lost_response(applied: bool) -> None:
    base = inner()
    store = FaultyStore(base, [Fault("put", error=StoreError("lost"), applied=applied)])
    with pytest.raises(StoreError):
        store.put("t/new", b"x", PutMode.CREATE)
    assert ("t/new" in [meta.path for meta in base.list("")]) is applied


def test_short_reads_and_flipped_bits() -> None:
    store = FaultyStore(
        inner(), [Fault("get", short=3), Fault("get", nth=2, flip=17), Fault("get_many", flip=1)]
    )
    assert store.get("t/a").tobytes() == DATA[:-3]
    assert store.get("t/a").tobytes() == DATA[:2] + bytes([2 ^ 2]) + DATA[3:]
    assert store.get("t/a").tobytes() == DATA
    assert [part.tobytes() for part in store.get_many("t/a", [5, 9], [6, 9])] == [bytes([5 ^ 2]), b""]


def test_wrappers_pickle_with_what_they_wrap() -> None:
    store = FaultyStore(
        LatencyStore(CountingStore(inner()), 0.0), [Fault("head", nth=2, error=StoreError("x"))]
    )
    store.head("t/a")
    again = pickle.loads(pickle.dumps(store))
    with pytest.raises(StoreError):
        again.head("t/a")
    assert again.get("t/a").tobytes() == DATA


def test_released_paths_reach_the_store_that_maps() -> None:
    released: list[str] = []

    class Mapping(MemoryStore):
        def release(self, path: str) -> None:
            released.append(path)

    CountingStore(Mapping()).release("t/a")
    CountingStore(MemoryStore()).release("t/a")
    assert released == ["t/a"]
