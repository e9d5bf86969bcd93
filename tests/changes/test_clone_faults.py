"""Each request of a clone fails once: nothing half is visible, the same call continues, and a tag outlives no failed clone."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lancecy
from lancecy.errors import CommitUnknownError, DatasetNotFoundError, LanceError, StoreError
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from tests.helpers.faults import FaultyStore

_numbers = itertools.count()
_MOST = 400


class Stores:
    """Memory stores of one scheme, whose requests are numbered together.

    Attributes
    ----------
    requests : list of (method, URI, path)
    failing : (int, bool) or None
        Which request fails, and whether it takes effect all the same.
    most : int
        Data files that were written to a copy at the same moment.
    """

    def __init__(self) -> None:
        self.memory: dict[str, MemoryStore] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.failing: tuple[int, bool] | None = None
        self.active = self.most = 0
        self.lock = threading.Lock()

    @contextmanager
    def working(self) -> Iterator[None]:
        with self.lock:
            self.active += 1
            self.most = max(self.most, self.active)
        try:
            yield
        finally:
            with self.lock:
                self.active -= 1

    def open(self, uri: str, options: object, **_: object) -> Store:
        memory = self.memory.setdefault(uri, MemoryStore(traits=StoreTraits(create_is_atomic=True)))
        return Recorded(self, memory, uri)

    def start(self, failing: tuple[int, bool] | None = None) -> None:
        self.requests, self.failing = [], failing

    def names(self, uri: str) -> set[str]:
        return {meta.path for meta in self.memory[uri].list("")} if uri in self.memory else set()


class Recorded(FaultyStore):
    """A store whose requests are recorded, and one fails."""

    def __init__(self, stores: Stores, inner: Store, uri: str) -> None:
        super().__init__(inner, [], uri=uri)
        self.stores = stores

    def _request(self, method: str, path: str, ranges: Any, call: Any) -> Any:
        self.stores.requests.append((method, self.uri, path))
        if self.stores.failing is not None and len(self.stores.requests) == self.stores.failing[0]:
            if self.stores.failing[1]:
                call()
            raise StoreError("the network is out", path=path, store=self.uri)
        if method != "put" or not path.startswith("data/") or "/copy" not in self.uri:
            return call()
        with self.stores.working():
            time.sleep(0.01)
            return call()


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    register_store("faulty", made.open)
    yield made
    made.start()


@pytest.fixture
def source(stores: Stores) -> str:
    """A table of three files, one of them with a deletion."""
    uri = f"faulty://{next(_numbers)}/t"
    ds = lancecy.write_dataset({"a": range(6)}, uri, max_rows_per_file=2)
    ds.delete("a = 1")
    return uri


def attempt(stores: Stores, failing: tuple[int, bool], work: Any) -> LanceError | None:
    """Run some work in which one request fails; None if it did without noticing."""
    stores.start(failing)
    try:
        work()
    except LanceError as error:
        return error
    finally:
        stores.failing = None
    return None


def opened(uri: str) -> lancecy.Dataset | None:
    try:
        return lancecy.dataset(uri, session=lancecy.Session(threads=1))
    except DatasetNotFoundError:
        return None


@pytest.mark.slow
def test_a_deep_clone_survives_the_failure_of_each_request(stores: Stores, source: str) -> None:
    rows = [0, 2, 3, 4, 5]
    for applied in (False, True):
        for number in range(1, _MOST):
            target = f"faulty://{next(_numbers)}/copy"
            ds = lancecy.dataset(source, session=lancecy.Session(threads=1))
            error = attempt(stores, (number, applied), lambda: ds.deep_clone(target, verify=True))  # noqa: B023
            done = opened(target)
            if error is None or done is not None:
                assert done is not None, (number, applied)
                assert done.to_table()["a"].to_pylist() == rows, (number, applied)
            if error is not None:
                assert isinstance(error, StoreError | CommitUnknownError), (number, applied, error)
                has_plan = "_versions/.tmp_clone.json" in stores.names(target)
                if done is None or has_plan:
                    again = ds.deep_clone(target)
                    assert again.to_table()["a"].to_pylist() == rows, (number, applied)
                    assert len(again.versions()) == 1
            if len(stores.requests) < number:
                break
        else:
            pytest.fail("the clone takes more requests than are tried")


def test_a_tag_is_there_before_its_clone_and_goes_with_it(stores: Stores, source: str) -> None:
    ds = lancecy.dataset(source)
    stores.start()
    ds.shallow_clone(f"faulty://{next(_numbers)}/c", protect="kept")
    written = [
        path.partition("/")[0] + "/" + path.partition("/")[2].partition("/")[0]
        for method, _, path in stores.requests
        if method == "put" and ("tags" in path or path.endswith(".manifest"))
    ]
    assert [path for path in written if path == "_refs/tags"], written
    assert written[0] == "_refs/tags"
    assert written[-1] != "_refs/tags"


def test_after_each_failure_a_clone_that_exists_is_protected(stores: Stores, source: str) -> None:
    for applied in (False, True):
        for number in range(1, _MOST):
            target = f"faulty://{next(_numbers)}/c"
            name = f"tag-{applied}-{number}"
            ds = lancecy.dataset(source, session=lancecy.Session(threads=1))
            error = attempt(stores, (number, applied), lambda: ds.shallow_clone(target, protect=name))  # noqa: B023
            requests = stores.requests
            has_tag = f"_refs/tags/{name}.json" in stores.names(source)
            if opened(target) is not None:
                assert has_tag, (number, applied, error)
            elif not isinstance(error, CommitUnknownError):
                # One request fails, so the removal of the tag does not.
                assert error is not None
                assert not has_tag, (number, applied, error)
            if len(requests) < number:
                break
        else:
            pytest.fail("the clone takes more requests than are tried")


def test_several_files_are_copied_at_once(stores: Stores) -> None:
    uri = f"faulty://{next(_numbers)}/t"
    ds = lancecy.write_dataset({"a": range(64)}, uri, max_rows_per_file=1)
    ds.deep_clone(f"faulty://{next(_numbers)}/copy")
    assert 1 < stores.most <= 64
