"""One round of reading: few requests, every range in place, nothing allocated on a claim."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import pytest

from lancecy.errors import DatasetNotFoundError, StoreError, TruncatedError
from lancecy.session import Session
from lancecy.store.base import Memory, Store, StoreTraits
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.reads import Ranges, SourceFile, Span
from lancecy.store.wrap import CountingStore, Pairs, Request, WrappedStore
from tests.helpers.faults import Fault, FaultyStore

T = TypeVar("T")

DATA = np.random.default_rng(5).integers(0, 256, 200_000, dtype=np.uint8).tobytes()
TRAITS = StoreTraits(concurrency=4, merge_gap=100, merge_cap=1 << 20)


def memory_store(traits: StoreTraits = TRAITS, objects: dict[str, bytes] | None = None) -> MemoryStore:
    store = MemoryStore(traits=traits)
    for name, data in (objects or {"a": DATA}).items():
        store.put(name, data)
    return store


def ranges(store: Store, pairs: list[tuple[int, int]], path: str = "a", size: int = len(DATA)) -> Ranges:
    positions = np.array([position for position, _ in pairs], np.int64)
    lengths = np.array([length for _, length in pairs], np.int64)
    return Ranges(SourceFile(store, path, size), positions, lengths)


def check(request: Ranges, span: Span, data: bytes = DATA) -> None:
    triples = zip(request.positions.tolist(), request.lengths.tolist(), span.positions.tolist(), strict=True)
    for position, length, place in triples:
        assert place >= 0
        assert place + length <= span.memory.size
        assert span.memory[place : place + length].tobytes() == data[position : position + length]


@pytest.fixture
def session() -> Session:
    return Session(threads=2)


def test_mapped_file_is_its_own_answer(session: Session, tmp_path: Path) -> None:
    store = CountingStore(LocalStore(str(tmp_path)))
    store.put("a", DATA)
    first, second = ranges(store, [(5, 10), (0, 3)]), ranges(store, [(199_999, 1)])
    store.clear()
    spans = session.fetch([first, second])
    assert spans[0].positions is first.positions
    assert spans[0].memory is spans[1].memory
    assert np.shares_memory(spans[0].memory, store.inner.get("a"))
    assert store.count() == 1
    check(first, spans[0])


def test_near_ranges_are_one_request(session: Session) -> None:
    store = CountingStore(memory_store())
    request = ranges(store, [(1000, 50), (1060, 50), (1020, 10), (1115, 1), (1000, 50)])
    check(request, session.fetch([request])[0])
    assert [(r.start, r.stop) for r in store.requests] == [(1000, 1116)]


def test_holes_are_fetched_along_while_they_cost_less_than_what_is_wanted(session: Session) -> None:
    store = CountingStore(memory_store())
    request = ranges(store, [(0, 200), (260, 200), (560, 200), (960, 200)])
    check(request, session.fetch([request])[0])
    # One request more than the first is allowed: the smaller holes are closed, the largest is not.
    assert [(r.start, r.stop) for r in store.requests] == [(0, 760), (960, 1160)]


def test_one_part_in_seven_is_not_fetched_with_the_other_six(session: Session) -> None:
    store = CountingStore(memory_store(replace(TRAITS, concurrency=16)))
    request = ranges(store, [(start, 1000) for start in range(0, 42_000, 7000)])
    check(request, session.fetch([request])[0])
    assert store.nbytes == 6000


def test_ranges_that_would_queue_for_requests_are_joined(session: Session) -> None:
    store = CountingStore(memory_store())
    request = ranges(store, [(start, 10) for start in range(0, 2970, 99)])
    check(request, session.fetch([request])[0])
    assert store.count("get_many") <= TRAITS.concurrency


def test_ranges_without_number_are_not_joined_to_the_whole_file(session: Session) -> None:
    store = CountingStore(memory_store())
    request = ranges(store, [(start, 1) for start in range(0, 29_700, 99)])
    check(request, session.fetch([request])[0])
    assert store.nbytes < 4000


def test_far_ranges_are_several_requests(session: Session) -> None:
    store = CountingStore(memory_store())
    request = ranges(store, [(50_000, 10), (0, 10), (111, 10)])
    check(request, session.fetch([request])[0])
    assert sorted((r.start, r.stop) for r in store.requests) == [(0, 10), (111, 121), (50_000, 50_010)]


def test_requests_of_one_file_are_merged_together(session: Session) -> None:
    store = CountingStore(memory_store())
    columns = [ranges(store, [(start, 20), (start + 40, 20)]) for start in (0, 20, 10, 50)]
    spans = session.fetch(columns)
    assert [(r.start, r.stop) for r in store.requests] == [(0, 110)]
    assert len({id(span.memory) for span in spans}) == 1
    for request, span in zip(columns, spans, strict=True):
        check(request, span)


def test_large_ranges_are_fetched_in_parts(session: Session) -> None:
    store = CountingStore(memory_store(replace(TRAITS, merge_cap=30_000)))
    request = ranges(store, [(10, 100_000)])
    check(request, session.fetch([request])[0])
    assert store.count("get_many") == 4
    assert store.nbytes == 100_000


def test_single_request_is_not_copied(session: Session) -> None:
    store = memory_store()
    (span,) = session.fetch([ranges(store, [(100, 500)])])
    assert np.shares_memory(span.memory, store.get("a"))


def test_empty_ranges_cost_nothing(session: Session) -> None:
    store = CountingStore(memory_store())
    empty = ranges(store, [(0, 0), (len(DATA), 0), (77, 0)])
    none = ranges(store, [])
    spans = session.fetch([empty, none])
    assert store.requests == []
    check(empty, spans[0])
    assert spans[1].positions.size == 0
    assert session.fetch([]) == []


def test_files_are_fetched_side_by_side(session: Session) -> None:
    # Each request waits until all three are under way: one after the other they would wait for ever.
    together = threading.Barrier(3, timeout=60)

    class Waiting(WrappedStore):
        def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
            together.wait()
            return call()

    stores = [Waiting(memory_store()) for _ in range(3)]
    requests = [ranges(store, [(0, 10)]) for store in stores]
    spans = session.fetch(requests)
    for request, span in zip(requests, spans, strict=True):
        check(request, span)


@pytest.mark.parametrize("batches", [False, True])
def test_no_more_requests_at_once_than_the_store_wants(session: Session, batches: bool) -> None:
    class Watching(WrappedStore):
        now = most = 0
        changed = threading.Condition()

        def get_many(self, path: str, starts: object, stops: object) -> list:  # type: ignore[type-arg]
            with self.changed:
                self.now += 1
                self.most = max(self.most, self.now)
                self.changed.notify_all()
                # A busy machine may start threads late.
                self.changed.wait_for(lambda: self.most >= wanted, 30)
            time.sleep(0.01)
            try:
                return super().get_many(path, starts, stops)  # type: ignore[arg-type]
            finally:
                with self.changed:
                    self.now -= 1

    wanted = 1 if batches else 3
    store = Watching(memory_store(replace(TRAITS, concurrency=3, batches=batches)))
    request = ranges(store, [(start, 10) for start in range(0, 20_000, 1000)])
    check(request, session.fetch([request])[0])
    assert store.most == wanted


@pytest.mark.parametrize(
    "pair",
    [(200_000, 1), (199_999, 2), (0, 200_001), (-1, 5), (3, -1), (1 << 62, 1 << 62), ((1 << 63) - 1, 1)],
)
@pytest.mark.parametrize("others", [0, 40])
@pytest.mark.parametrize("mapped", [False, True])
def test_range_outside_the_file_is_refused_before_any_request(
    session: Session, pair: tuple[int, int], others: int, mapped: bool
) -> None:
    store = CountingStore(memory_store(replace(TRAITS, is_mapped=mapped)))
    good = ranges(store, [(0, 10)])
    with pytest.raises(TruncatedError) as caught:
        session.fetch([good, ranges(store, [(index, 1) for index in range(others)] + [pair])])
    assert store.requests == []
    assert (caught.value.path, caught.value.position) == ("a", pair[0])


def test_as_many_positions_as_lengths(session: Session) -> None:
    store = memory_store()
    with pytest.raises(ValueError, match="as many"):
        session.fetch([Ranges(SourceFile(store, "a", 10), np.zeros(2, np.int64), np.zeros(3, np.int64))])


def test_shrunken_file_is_noticed(session: Session, tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("a", DATA[:100])
    with pytest.raises(TruncatedError, match="shrunk"):
        session.fetch([ranges(store, [(0, 10)], size=200)])


def test_a_map_that_is_at_hand_is_used(session: Session, tmp_path: Path) -> None:
    store = CountingStore(LocalStore(str(tmp_path)))
    store.put("a", DATA)
    request, fetcher, memory = ranges(store, [(5, 10)]), session.fetcher(), store.inner.get("a")
    store.clear()
    fetcher.use(request.file, memory)
    assert fetcher([request])[0].memory is memory
    assert store.count() == 0
    fetcher.use(request.file, memory[:100])
    with pytest.raises(TruncatedError, match="shrunk"):
        fetcher([request])


@pytest.mark.parametrize("pairs", [[(0, 10)], [(0, 10), (9000, 10)]])
def test_short_answer_is_an_error(session: Session, pairs: list[tuple[int, int]]) -> None:
    store = FaultyStore(memory_store(), [Fault("get_many", short=1, sticky=True)])
    with pytest.raises(TruncatedError, match="returned 9 instead"):
        session.fetch([ranges(store, pairs)])


def test_first_error_ends_the_round(session: Session) -> None:
    store = FaultyStore(memory_store(), [Fault("get_many", nth=3, error=StoreError("broken"))])
    request = ranges(store, [(start, 10) for start in range(0, 50_000, 1000)])
    with pytest.raises(StoreError, match="broken"):
        session.fetch([request])
    check(request, session.fetch([request])[0])  # the fault is over, and the pool is in order


def test_small_files_are_read_by_one_call_and_again_where_it_has_no_answer(session: Session) -> None:
    class Joint(CountingStore):
        calls: ClassVar[list[int]] = []

        def get_each(self, wanted: Sequence[tuple[str, int, int]]) -> list[Memory | None]:
            self.calls.append(len(wanted))
            return [
                None if path == "7" else self.inner.get(path, start, stop) for path, start, stop in wanted
            ]

    objects = {str(number): DATA[number : number + 100] for number in range(20)}
    store = Joint(memory_store(replace(TRAITS, concurrency=2, batches=True), objects))
    requests = [ranges(store, [(5, 10), (20, 9)], name, 100) for name in objects]
    for request, span in zip(requests, session.fetch(requests), strict=True):
        check(request, span, objects[request.file.path])
    # Four times the store's concurrency at once.
    assert store.calls == [8, 8, 4]
    assert store.requests == [Request("get_many", "7", 5, 29)]
    store.calls.clear()
    large = [ranges(store, [(0, len(DATA) * 2)], name, 1 << 20) for name in objects]
    with pytest.raises(TruncatedError):  # from a request of its own
        session.fetch(large)
    assert store.calls == []
    store.inner.delete(["7"])
    with pytest.raises(DatasetNotFoundError, match="'7'"):
        session.fetch(requests)


@pytest.mark.parametrize("seed", range(40))
def test_any_requests_of_any_files(session: Session, seed: int) -> None:
    rng = random.Random(seed)
    objects = {name: DATA[: rng.randrange(1, 60_000)] for name in "abc"}
    traits = StoreTraits(
        concurrency=rng.choice([1, 3]),
        merge_gap=rng.choice([0, 50, 5000]),
        merge_cap=rng.choice([64, 1000, 1 << 20]),
        batches=rng.random() < 0.5,
    )
    store = memory_store(traits, objects)
    fetcher = session.fetcher(rng.choice([0, 10_000, 1 << 30]))
    for _ in range(6):
        requests = []
        for _ in range(rng.randrange(1, 6)):
            name = rng.choice("abc")
            size = len(objects[name])
            pairs = []
            for _ in range(rng.randrange(0, 30)):
                position = rng.randrange(size + 1)
                pairs.append((position, rng.randrange(min(500, size - position) + 1)))
            requests.append(ranges(store, pairs, name, size))
        for fetch in (session.fetch, fetcher):
            for request, span in zip(requests, fetch(requests), strict=True):
                check(request, span, objects[request.file.path])


# A fetch that remembers


def test_second_round_inside_fetched_bytes_costs_no_request(session: Session) -> None:
    store = CountingStore(memory_store(replace(TRAITS, concurrency=1, merge_gap=4000, merge_cap=1500)))
    fetcher = session.fetcher()
    offsets = ranges(store, [(start, 64) for start in range(1000, 40_000, 2000)])
    first = fetcher([offsets])
    made = store.count()
    values = [
        ranges(store, [(start + 64, 1900) for start in range(1000, 38_000, 2000)]),
        ranges(store, [(5000, 7)]),
    ]
    spans = fetcher(values)
    assert store.count() == made
    assert spans[0].memory is first[0].memory
    for request, span in zip([offsets, *values], [*first, *spans], strict=True):
        check(request, span)


def test_only_what_is_missing_is_fetched(session: Session) -> None:
    store = CountingStore(memory_store())
    fetcher = session.fetcher()
    fetcher([ranges(store, [(1000, 500)])])
    store.clear()
    request = ranges(store, [(1100, 50), (9000, 20), (1499, 1), (1499, 2), (0, 0)])
    check(request, fetcher([request])[0])
    assert sorted((r.start, r.stop) for r in store.requests) == [(1499, 1501), (9000, 9020)]
    store.clear()
    again = ranges(store, [(9001, 5), (1000, 500)])
    check(again, fetcher([again])[0])
    assert store.requests == []


def test_memory_of_a_fetcher_is_bounded(session: Session) -> None:
    objects = dict.fromkeys("abcd", DATA[:50_000])
    store = CountingStore(memory_store(objects=objects))
    fetcher = session.fetcher(limit=100_000)
    for name in "abcd":
        fetcher([ranges(store, [(0, 40_000)], name, 50_000)])
        assert fetcher.nbytes <= 100_000
    store.clear()
    fetcher([ranges(store, [(0, 10)], "d", 50_000), ranges(store, [(5, 10)], "c", 50_000)])
    assert store.requests == []
    fetcher([ranges(store, [(0, 10)], "a", 50_000)])
    assert store.count() == 1


def test_fetcher_of_mapped_files_keeps_nothing(session: Session, tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("a", DATA)
    fetcher = session.fetcher()
    request = ranges(store, [(4, 6)])
    check(request, fetcher([request])[0])
    assert fetcher.nbytes == 0
