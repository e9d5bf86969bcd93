"""Requests that generators make together, and the same requests one by one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lancecy.errors import DatasetNotFoundError, StoreError
from lancecy.session import Session
from lancecy.store.base import ObjectMeta, PutMode
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.table.answers import run, run_on
from lancecy.table.commit.driver import drive
from lancecy.table.location import TableLocation
from lancecy.table.requests import (
    Head,
    List,
    Put,
    RandomBits,
    Read,
    Request,
    Steps,
    Together,
    below,
    together,
)


def sizes(path: str, data: bytes) -> Steps[int]:
    """Write an object, and ask for its size."""
    yield RandomBits()
    yield Put(path, data)
    meta = yield Head(path)
    size: int = meta.size
    return size


def size_or_none(path: str) -> Steps[int | None]:
    try:
        memory = yield Read(path)
    except DatasetNotFoundError:
        return None
    return len(memory)


def writing(count: int) -> Steps[list[int]]:
    return together([sizes(f"{number:03d}.bin", b"x" * number) for number in range(count)])


@pytest.mark.parametrize("count", [0, 1, 2, 150])
def test_values_are_in_the_order_of_the_generators(count: int, tmp_path: Path) -> None:
    assert run_on(writing(count), LocalStore(str(tmp_path))) == list(range(count))
    place = TableLocation.of(str(tmp_path / "driven"))
    session = Session()
    assert drive(writing(count), place.open(session), session, place) == list(range(count))
    assert sorted(path.name for path in (tmp_path / "driven").glob("*")) == [
        f"{n:03d}.bin" for n in range(count)
    ]


def test_requests_of_a_round_are_one_request(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    asked: list[Together] = []

    def answer_of(request: Request) -> object:
        assert isinstance(request, Together)
        asked.append(request)
        return [run_on(_of(each), store) for each in request.requests]

    run(writing(3), answer_of)
    kinds = [[type(each) for each in several.requests] for several in asked]
    assert kinds == [[RandomBits] * 3, [Put] * 3, [Head] * 3]


def _of(request: Request) -> Steps[object]:
    return (yield request)


def test_an_error_reaches_the_generator_of_its_request(tmp_path: Path) -> None:
    (tmp_path / "there.bin").write_bytes(b"abc")

    def both() -> Steps[list[int | None]]:
        return together([size_or_none("there.bin"), size_or_none("missing.bin")])

    assert run_on(both(), LocalStore(str(tmp_path))) == [3, None]
    place, session = TableLocation.of(str(tmp_path)), Session()
    assert drive(both(), place.open(session), session, place) == [3, None]


def test_an_error_that_a_generator_does_not_handle_ends_all(tmp_path: Path) -> None:
    place, session = TableLocation.of(str(tmp_path)), Session()
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(StoreError, match=r"folder\.bin"):
        drive(
            together([sizes("a.bin", b"a"), sizes("folder.bin", b"b")]), place.open(session), session, place
        )


def test_requests_below_a_folder_stay_below_it(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    assert run_on(below("tree/b", writing(2)), store) == [0, 1]
    listed = run_on(_of(List("tree")), store)
    assert isinstance(listed, list)
    assert [meta.path for meta in listed] == ["tree/b/000.bin", "tree/b/001.bin"]


class _WaitsForTwo(MemoryStore):
    """Answers a write when another one came."""

    def __init__(self) -> None:
        super().__init__()
        self.two = threading.Barrier(2)

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        self.two.wait(timeout=30)
        return super().put(path, data, mode)


def test_requests_of_a_round_are_made_at_the_same_time() -> None:
    place = TableLocation.of("memory://table")
    assert drive(writing(2), _WaitsForTwo(), Session(), place) == [0, 1]
