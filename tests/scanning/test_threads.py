"""Scans over threads: bases working at once, bounded memory."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, TypeVar

import pyarrow as pa
import pytest

import lancecy
from lancecy.scanning import engine, threads
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import LatencyStore, Pairs
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import VERSIONS, expected, write_table

pytestmark = pytest.mark.slow

T = TypeVar("T")

PLACES: dict[str, MemoryStore] = {}
DELAY_S = 0.03


class OneAtATime(LatencyStore):
    """A bucket that serves one request after the other, each taking a while, and says who works when."""

    working: ClassVar[set[str]] = set()
    most_at_once = 0

    def __init__(self, inner: MemoryStore, uri: str) -> None:
        super().__init__(inner, DELAY_S, uri=uri)
        self._turn = threading.Lock()

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        with self._turn:
            OneAtATime.working.add(self.uri)
            OneAtATime.most_at_once = max(OneAtATime.most_at_once, len(OneAtATime.working))
            try:
                return super()._request(method, path, ranges, call)
            finally:
                OneAtATime.working.discard(self.uri)


@pytest.fixture
def buckets() -> Iterator[None]:
    def open_bucket(uri: str, options: object, *, mapped: bool = True, follow_symlinks: bool = True) -> Store:
        return OneAtATime(PLACES.setdefault(uri, MemoryStore()), uri)

    register_store("bucket", open_bucket)
    yield
    PLACES.clear()


def scan_over(buckets: int, name: str, version: str) -> tuple[int, float]:
    """Buckets at work at the same moment in a scan of 18 fragments, and the seconds it took."""
    uris = [f"bucket://{name}-{i}/data" for i in range(buckets)]
    root = f"bucket://{name}-root/t"
    # The first bucket has the first fragments, and so on: in table order one would work after the other.
    write_table(root, fragments=18, rows=40, bases=uris, round_robin=False, data_version=version)
    # A cache would keep such small files whole once they are opened.
    ds = lancecy.dataset(root, allowed_bases=uris, session=lancecy.Session(cache_bytes=0, threads=2))
    ds.scanner().explain()
    OneAtATime.most_at_once = 0
    started = time.monotonic()
    table = ds.to_table()
    elapsed = time.monotonic() - started
    assert_tables_equal(table, expected(range(18 * 40)))
    return OneAtATime.most_at_once, elapsed


@pytest.mark.usefixtures("buckets")
def test_three_bases_work_at_once(data_version: str) -> None:
    one, three = scan_over(1, "one", data_version), scan_over(3, "three", data_version)
    # `pytest -rP` shows the times: three buckets of equal delay take about a third.
    print(f"one bucket {one[1]:.3f} s, three buckets {three[1]:.3f} s")
    assert (one[0], three[0]) == (1, 3)


STREAM = """
import sys
import lancecy
budget = int(sys.argv[2])
ds = lancecy.dataset(sys.argv[1])
rows = 0
for batch in ds.scanner(memory_bytes=budget).to_batches():
    rows += batch.num_rows
assert rows == int(sys.argv[3]), rows
# Not ru_maxrss: that of a new process starts at what its parent held when it was forked.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_of_a_stream_stays_within_its_budget(tmp_path: Path, version: str) -> None:
    budget, rows = 6 << 20, 1_600_000
    root = write_table(
        str(tmp_path / "large"), fragments=4, rows=rows // 4, rows_per_page=20_000, data_version=version
    )
    size = sum(p.stat().st_size for p in (tmp_path / "large").rglob("*.lance"))
    assert size > 9 * budget
    done = subprocess.run(
        [sys.executable, "-c", STREAM, root, str(budget), str(rows)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < budget + (200 << 20)


def _resident(root: str) -> int:
    """Bytes of the maps of a table's files that count as this process's memory."""
    blocks = Path("/proc/self/smaps").read_text().split("VmFlags")
    lines = [line for block in blocks if root in block for line in block.splitlines()]
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Rss:"))


def test_small_streams_leave_few_pages_in_memory(tmp_path: Path, data_version: str) -> None:
    root = write_table(str(tmp_path / "t"), fragments=12, rows=6_000, data_version=data_version)
    size = sum(p.stat().st_size for p in (tmp_path / "t").rglob("*.lance"))
    ds, largest = lancecy.dataset(root), 0
    for fragment in ds.get_fragments():
        rows = sum(batch.num_rows for batch in ds.to_batches(fragments=[fragment], memory_bytes=size // 2))
        assert rows == 6_000
        largest = max(largest, _resident(root))
    # Half of the budget is for the pages that were left, and the stream that goes beyond it gives them back.
    assert size // 12 < largest < size // 2


def test_a_stream_of_many_small_windows_has_every_row(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), fragments=6, data_version=data_version))
    scanner = ds.scanner()
    plan = scanner.plan(blocksize=1000)
    assert len(plan.units) > 1
    batches = list(threads.stream(ds.context, plan, scanner.request, 3000))
    assert pa.Table.from_batches(batches).num_rows == 300


def test_a_stream_can_be_left_early(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), fragments=6, data_version=data_version))
    stream = ds.to_batches(batch_size=10)
    assert next(stream).num_rows == 10
    del stream
    assert ds.to_table().num_rows == 300


def test_scans_in_several_threads_do_not_disturb_each_other(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), deleted={1: [3]}, data_version=data_version))
    results: list[int] = []

    def work(first: int) -> None:
        for _ in range(10):
            table = ds.to_table(filter=f"id >= {first}")
            assert_tables_equal(table, expected([n for n in range(first, 150) if n != 53]))
        results.append(first)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(0, 80, 10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(results) == list(range(0, 80, 10))


@pytest.mark.parametrize("text", ["id >= 0", "id % 3 = 1", "id > 40 AND id < 90", "x > 1000", "s LIKE '%7'"])
def test_rows_that_passed_a_filter_are_spread_over_jobs(
    text: str, tmp_path: Path, data_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_table(str(tmp_path / "t"), deleted={1: [3, 30]}, data_version=data_version)
    whole = lancecy.dataset(root).to_table(filter=text)
    monkeypatch.setattr(engine, "_JOB_BYTES", 1)
    monkeypatch.setattr(engine, "_JOB_ROWS", 7)
    found = lancecy.dataset(root, session=lancecy.Session(threads=2)).to_table(filter=text)
    assert_tables_equal(found, whole)
    assert text != "id >= 0" or found["id"].num_chunks > whole["id"].num_chunks
