"""Tasks run in this process: units side by side over all bases, rows in their order, limits, bounded windows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.inspection.sizes import layout
from lancecy.scanning import run_task as tasks
from lancecy.scanning import threads
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.task import ScanTask
from tests.helpers.busy import BusyStores, busy_stores
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected, write_table

ALIVE = [n for n in range(240) if n not in (33, 34, 200)]
DELETED = {3: [3, 4], 20: [0]}


@pytest.fixture(params=[pytest.param("0.1", marks=pytest.mark.slow), "mixed"])
def stores(request: pytest.FixtureRequest) -> BusyStores:
    """A table of 24 fragments of 10 rows, a third in each base, three rows deleted."""
    found = busy_stores()
    found.write(deleted=DELETED, data_version=request.param)
    return found


def whole(ds: lancecy.Dataset, **how: Any) -> ScanTask:
    """The only task of a scan."""
    (task,) = ds.scanner(**how).plan(1 << 20).tasks
    return task


def session() -> lancecy.Session:
    return lancecy.Session(threads=2)


def test_units_of_one_task_are_read_from_all_bases_at_once(stores: BusyStores) -> None:
    task = whole(stores.dataset())
    assert len(task.units) == 24
    for filtered in (task, whole(stores.dataset(), filter="id >= 0")):
        stores.clear()
        assert_tables_equal(tasks.read(filtered, session=session()), expected(ALIVE))
        assert stores.most_bases == 3 and stores.most_requests > 3


def test_task_without_columns_has_as_many_rows_as_pass(stores: BusyStores) -> None:
    task = whole(stores.dataset(), columns=[], filter="id >= 35")
    found = tasks.read(task, session=session())
    assert (found.num_rows, found.num_columns) == (204, 0)
    assert stores.most_bases == 3


def test_batches_of_a_task_are_read_from_all_bases_at_once(stores: BusyStores) -> None:
    for text in (None, "id >= 0"):
        stores.clear()
        found = list(tasks.batches(whole(stores.dataset(), filter=text), session()))
        assert_tables_equal(pa.Table.from_batches(found), expected(ALIVE))
        assert stores.most_bases == 3


@pytest.mark.parametrize("text", [None, "id >= 7", "id % 50 = 49", "id < 0"])
def test_first_rows_of_a_task_are_those_of_the_table(stores: BusyStores, text: str | None) -> None:
    ds, mine = stores.dataset(), session()
    task = whole(ds, filter=text)
    every = ds.to_table(["x", "id"], filter=text)
    for limit in (0, 1, 9, 25, 10_000):
        found, picked = tasks.read_rows(task.spec, task.units, ["x", "id"], limit, mine)
        assert_tables_equal(found, every.slice(0, limit))
        assert sum(len(rows) for _, rows in picked) == found.num_rows
        assert [files.fragment.id for files, _ in picked] == [u.fragment for u in task.units[: len(picked)]]


def test_fragments_behind_a_limit_are_not_opened(stores: BusyStores) -> None:
    task = whole(stores.dataset())
    for limit, fragments in ((5, 1), (10, 1), (37, 4), (39, 5)):
        mine = session()
        tasks.read_rows(task.spec, task.units, ["id"], limit, mine)
        assert len(context_for(task.spec, mine)._opened) == fragments


def test_rows_read_for_a_filter_are_not_read_again_for_a_limit(data_version: str) -> None:
    stores = busy_stores()
    stores.write(fragments=1, rows=100, data_version=data_version)
    requests = []
    for how in ({"filter": "id >= 0"}, {"filter": "id >= 0", "limit": 10}):
        ds = stores.dataset()
        stores.clear()
        ds.to_table(["id"], **how)
        requests.append(len(stores.served))
    assert requests[0] == requests[1]


def test_first_rows_that_pass_are_cut_across_units_and_masks(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(
        write_table(str(tmp_path / "t"), fragments=5, deleted={1: [3, 30]}, data_version=data_version)
    )
    for text in ("id % 3 = 1", "id >= 40", "s IS NULL AND id > 10"):
        every = ds.to_table(filter=text)
        for offset, limit in ((0, 1), (3, 30), (10, 1000)):
            found = ds.to_table(filter=text, limit=limit, offset=offset)
            assert_tables_equal(found, every.slice(offset, limit))


@pytest.mark.parametrize(
    "look",
    [
        lambda ds: ds.scanner(filter="id >= 0").explain(),
        lambda ds: ds.stats.data_stats(),
        lambda ds: layout(ds.context),
        lambda ds: next(ds.to_batches()),
        lambda ds: ds.take(range(0, 230, 10)),
        lambda ds: ds.count_rows("id >= 0"),
    ],
    ids=["explain", "data_stats", "layout", "to_batches", "take", "count_rows"],
)
def test_files_are_opened_on_all_bases_at_once(
    stores: BusyStores, look: Callable[[lancecy.Dataset], object]
) -> None:
    look(stores.dataset())
    assert stores.most_bases == 3 and stores.most_requests > 3


def test_stream_without_order_takes_bases_in_turn(stores: BusyStores) -> None:
    ds = stores.dataset()
    for ordered in (True, False):
        found = pa.Table.from_batches(ds.to_batches(["id"], scan_in_order=ordered))["id"].to_pylist()
        assert sorted(found) == ALIVE
        assert (found == ALIVE) == ordered
    limited = ds.to_batches(["id"], filter="id >= 5", limit=12, scan_in_order=False)
    assert pa.Table.from_batches(limited)["id"].to_pylist() == list(range(5, 17))


def test_tasks_of_one_process_share_its_threads(stores: BusyStores) -> None:
    task, mine = whole(stores.dataset(), filter="id >= 0"), session()
    found: list[pa.Table] = []
    workers = [
        threading.Thread(target=lambda: found.append(tasks.read(task, session=mine))) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [table.num_rows for table in found] == [len(ALIVE)] * 8
    # The 192 units of eight tasks wait for their requests on the session's 48 threads.
    assert stores.most_requests <= 48


def test_one_thread_reads_mapped_files_where_it_is_asked(
    tmp_path: Path, data_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: set[str] = set()
    opened = ScanContext.files

    def noted(context: ScanContext, fragment_id: int) -> Any:
        readers.add(threading.current_thread().name)
        return opened(context, fragment_id)

    root = write_table(str(tmp_path / "t"), fragments=9, data_version=data_version)
    (task,) = lancecy.dataset(root).scanner().plan(1 << 20).tasks
    monkeypatch.setattr(ScanContext, "files", noted)
    found = pa.Table.from_batches(tasks.batches(task, lancecy.Session(threads=1)))
    assert_tables_equal(found, expected(range(450)))
    assert readers == {threading.current_thread().name}


def test_what_waits_to_be_read_ahead_is_not_read_after_an_error(tmp_path: Path) -> None:
    mine = session()
    ds = lancecy.dataset(write_table(str(tmp_path / "t")), session=mine)
    leave, readers = threading.Event(), max(4, mine.threads)
    started: list[int] = []

    def items() -> Iterator[int]:
        yield 0
        # The reader of the first item comes to the second one only after this.
        blocked.append(mine.submit_ahead(leave.wait, 60))
        yield 1

    def read(item: int) -> pa.Table:
        started.append(item)
        raise lancecy.errors.FormatError(f"item {item}")

    blocked = [mine.submit_ahead(leave.wait, 60) for _ in range(readers - 1)]
    try:
        with pytest.raises(lancecy.errors.FormatError, match="item 0"):
            list(threads.read_ahead(ds.context, items(), read))
    finally:
        leave.set()
    mine.close()
    assert started == [0]


def test_several_items_are_read_ahead_at_the_same_time(tmp_path: Path) -> None:
    mine = session()
    ds = lancecy.dataset(write_table(str(tmp_path / "t")), session=mine)
    together = threading.Barrier(3)

    def read(item: int) -> int:
        together.wait(60)
        return item * 10

    found = list(threads.read_ahead(ds.context, range(6), read, ahead=2))
    mine.close()
    assert found == [(item, item * 10) for item in range(6)]


def test_windows_grow_up_to_the_budget() -> None:
    sizes = [((number,), 1 << 20) for number in range(40)]
    found: list[int] = [len(window) for window in threads.windows(sizes, 16 << 20)]  # type: ignore[arg-type]
    assert found == [2, 16, 16, 6]
    assert [len(w) for w in threads.windows([((0,), 1 << 40), ((1,), 5)], 1 << 20)] == [1, 1]  # type: ignore[list-item]
