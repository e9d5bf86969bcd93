"""Tables over several bases: consecutive partitions read from different ones, so that all work at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.session import Session, default
from lancecy.store.local import open_local
from lancecy.store.uri import register_store
from lancecy.store.wrap import LatencyStore
from tests.helpers.buckets import spread_over_buckets
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.interop

FRAGMENTS = 12
ROWS = 64


class OneAtATime(LatencyStore):
    """A bucket that serves one request of a data file at a time, each taking a while."""

    locks: ClassVar[dict[str, threading.Lock]] = {}
    served: ClassVar[list[str]] = []
    working: ClassVar[set[str]] = set()
    most_at_once = 0

    def _request(self, method: str, path: str, ranges: Any, call: Any) -> Any:
        if not path.endswith(".lance"):
            return call()
        with self.locks.setdefault(self.uri, threading.Lock()):
            self.served.append(Path(self.uri).name)
            self.working.add(self.uri)
            OneAtATime.most_at_once = max(OneAtATime.most_at_once, len(self.working))
            try:
                return super()._request(method, path, ranges, call)
            finally:
                self.working.discard(self.uri)


def _write(place: Path, names: list[str], version: Any) -> str:
    """A table whose fragments lie in the named bases, one base after the other."""
    import lance

    bases = [lance.DatasetBasePath(str(place / name), name=name) for name in dict.fromkeys(names)]
    root = str(place / "t.lance")
    for number, name in enumerate(names):
        (place / name).mkdir(exist_ok=True)
        rows = pa.table({"id": np.arange(number * ROWS, (number + 1) * ROWS)})
        mode: dict[str, Any] = {"mode": "append"} if number else {"mode": "create", "initial_bases": bases}
        lance.write_dataset(rows, root, data_storage_version=version, target_bases=[name], **mode)
    return root


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    """Of the data files."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, version: str) -> str:
    """The first third of the rows in base "a", the next in "b", the rest in "c"."""
    names = [name for name in "abc" for _ in range(FRAGMENTS // 3)]
    return _write(tmp_path_factory.mktemp("three"), names, version)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, version: str) -> str:
    """The same rows in one base."""
    return _write(tmp_path_factory.mktemp("one"), ["a"] * FRAGMENTS, version)


@pytest.fixture
def slow() -> Iterator[list[str]]:
    """Every base takes 30 ms per request; gives the bases in the order they were asked."""
    OneAtATime.locks, OneAtATime.served = {}, []
    register_store("file", lambda uri, options, **how: OneAtATime(open_local(uri, options, **how), 0.03))
    try:
        yield OneAtATime.served
    finally:
        register_store("file", open_local)


def _bases(ddf: dd.DataFrame, slow: list[str]) -> list[str]:
    """The base that each partition reads from, in the order of partitions."""
    found = []
    for part in ddf.partitions:
        slow.clear()
        default().cache.clear()  # it keeps small files
        part.compute(scheduler="sync")
        assert len(set(slow)) == 1
        found.append(slow[0])
    return found


@pytest.mark.parametrize("how", [{"index": None}, {"interleave": True}, {"filter": "id >= 0"}], ids=str)
def test_consecutive_partitions_read_from_different_bases(
    three: str, slow: list[str], how: dict[str, Any]
) -> None:
    ddf = lancecy.scan(lancecy.dataset(three, session=Session()), blocksize=1, **how)
    assert _bases(ddf, slow) == ["a", "b", "c"] * (FRAGMENTS // 3)
    assert sorted(ddf.compute(scheduler="sync")["id"]) == list(range(FRAGMENTS * ROWS))


def test_known_divisions_keep_the_order_of_the_table(three: str, slow: list[str]) -> None:
    ddf = lancecy.scan(lancecy.dataset(three, session=Session()), blocksize=1)
    assert ddf.known_divisions
    assert _bases(ddf, slow) == [name for name in "abc" for _ in range(FRAGMENTS // 3)]
    assert ddf.compute(scheduler="sync")["id"].tolist() == list(range(FRAGMENTS * ROWS))


def _at_once(uri: str) -> tuple[int, float]:
    """Bases at work at the same moment, and the seconds of the whole scan."""
    ddf = lancecy.scan(lancecy.dataset(uri, session=Session()), blocksize=1, index=None)
    OneAtATime.most_at_once = 0
    default().cache.clear()
    start = time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=6):
        assert len(ddf.compute()) == FRAGMENTS * ROWS
    return OneAtATime.most_at_once, time.perf_counter() - start


def test_three_bases_work_at_once(one: str, three: str, slow: list[str]) -> None:
    in_one, in_three = _at_once(one), _at_once(three)
    # `pytest -rP` shows the times: three bases of equal delay take about a third.
    print(f"one base {in_one[1]:.3f} s, three bases {in_three[1]:.3f} s")
    assert (in_one[0], in_three[0]) == (1, 3)


@pytest.mark.s3
@pytest.mark.slow
def test_workers_read_and_write_the_buckets_of_the_roots_service(
    process_client: Client, s3_server: S3Server
) -> None:
    uri = spread_over_buckets(s3_server)
    how: dict[str, Any] = {"storage_options": s3_server.storage_options, "embed_credentials": True}
    ddf = lancecy.scan(uri, blocksize=1, **how)
    assert ddf.npartitions == 4
    assert process_client.compute(ddf["id"].sum()).result() == 4000 * 3999 // 2
    with process_client.as_current():
        lancecy.write_dask(ddf, uri, mode="append", target_bases=["b2", "b3", "b4"], **how)
    again = lancecy.dataset(uri, storage_options=s3_server.storage_options)
    assert again.count_rows() == 8000
    assert {file.base_id for f in again.get_fragments()[4:] for file in f.data_files()} == {1, 2, 3}
