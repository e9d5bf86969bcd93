"""One scan has one time: ``now()`` in filters and computed columns is taken when the scan is described."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.changes import delete as deletes
from lancecy.expr.build import Filter
from lancecy.expr.nodes import Literal, walk
from lancecy.scanning.request import ScanRequest

NAIVE = pa.timestamp("us")


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    """Ten rows a day apart: five in the past, five in the future; three fragments."""
    today = datetime.now(UTC).replace(tzinfo=None)
    times = [today + timedelta(days=day, hours=1) for day in range(-5, 5)]
    rows = pa.table({"id": range(10), "t": pa.array(times, NAIVE)})
    return lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=4)


def instants(request: ScanRequest) -> set[Any]:
    exprs = [request.filter, *(expr for _, expr in request.columns or ())]
    nodes = [node for expr in exprs if expr is not None for node in walk(expr)]
    return {node.value for node in nodes if isinstance(node, Literal)}


def test_rows_of_the_past(ds: lancecy.Dataset) -> None:
    past = [0, 1, 2, 3, 4]
    assert ds.to_table(["id"], "t < now()")["id"].to_pylist() == past
    assert ds.count_rows("t >= current_timestamp") == 5
    assert lancecy.scan(ds.uri, filter="t < now()").compute()["id"].tolist() == past
    tables = [task.compute() for task in ds.to_delayed(["id"], "t < now()")]
    assert pa.concat_tables(tables)["id"].to_pylist() == past
    assert ds.to_table({"soon": "t > now()"})["soon"].to_pylist() == [False] * 5 + [True] * 5
    kept = lancecy.dataset(ds.uri, default_scan_options={"filter": "t < now()"})
    assert kept.to_table(["id"])["id"].to_pylist() == past


def test_all_tasks_and_runs_of_a_scan_agree(ds: lancecy.Dataset) -> None:
    scanner = ds.scanner({"id": "id", "now": "now()", "again": "current_timestamp()"}, "t < now()")
    tasks = scanner.plan().tasks
    assert len(tasks) == 3
    (instant,) = set().union(*(instants(task.spec.request) for task in tasks))
    later = pickle.loads(pickle.dumps(scanner.request))
    assert instants(later) == {instant} != instants(ds.scanner(filter="t < now()").request)
    for _ in range(2):
        found = scanner.to_table()
        assert set(found["now"].cast(pa.int64()).to_pylist()) == {instant}
        assert found["now"] == found["again"]


def test_explanation_shows_the_value(ds: lancecy.Dataset) -> None:
    scanner = ds.scanner(filter="t < now() AND id != 3")
    (instant,) = {value for value in instants(scanner.request) if value != 3}
    shown = pa.scalar(instant // 1000, NAIVE).as_py()
    assert scanner.explain().filter == f"t < timestamp '{str(shown).rstrip('0')}+00:00' AND id != 3"


def test_pages_are_pruned_by_the_time(tmp_path: Path) -> None:
    rows = pa.table({"t": pa.array([datetime(2020, 1, 1) + timedelta(days=n) for n in range(4000)], NAIVE)})
    ds = lancecy.write_dataset(rows, tmp_path / "t", data_storage_version="0.1", max_rows_per_group=500)
    explanation = ds.scanner(filter="t > now() - interval '1 day'").explain()
    assert 0 < explanation.kept_pages < explanation.pages


def test_a_column_named_like_a_function_is_read(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"current_date": [1, 2], "x": [3, 4]}, tmp_path / "t")
    assert ds.to_table(["x"], "current_date = 2")["x"].to_pylist() == [4]
    assert ds.to_table({"current_date": "current_date"})["current_date"].to_pylist() == [1, 2]


def test_a_delete_has_one_time_for_all_its_attempts(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    search = deletes.delete_of

    def spied(context: Any, predicate: Filter, instant: int) -> Any:
        taken.append(instant)
        return search(context, predicate, instant)

    monkeypatch.setattr(deletes, "delete_of", spied)
    other = lancecy.dataset(ds.uri)
    assert other.delete("id IN (1, 2)") == {"num_deleted_rows": 2}
    assert ds.delete("t < now()") == {"num_deleted_rows": 3}
    first, second, third = taken
    assert first < second == third
    assert ds.to_table(["id"])["id"].to_pylist() == [5, 6, 7, 8, 9]


def test_a_delete_by_an_expression_records_its_text(ds: lancecy.Dataset) -> None:
    operation, count = deletes.delete_of(ds.context, (lancecy.col("id") < 2).expr)
    assert (operation.predicate, count) == ("id < 2", 2)


@pytest.mark.interop
def test_polars_reads_a_frame_with_the_time_it_was_made(ds: lancecy.Dataset) -> None:
    from lancecy.interop.polars import _Reader

    assert ds.to_polars_lazy(filter="t < now()").collect()["id"].to_list() == [0, 1, 2, 3, 4]
    reader = pickle.loads(pickle.dumps(_Reader(ds, "t < now()")))
    scans = [reader.scan(None, None, None, None)[0].request for _ in range(2)]
    assert instants(scans[0]) == instants(scans[1])


@pytest.mark.interop
def test_pylance_finds_the_same_rows(ds: lancecy.Dataset) -> None:
    import lance

    theirs = lance.dataset(ds.uri)
    for text in (
        "t < now()",
        "t > current_timestamp",
        "t < current_date()",
        "t >= today()",
        "t < CURRENT_DATE",
    ):
        assert ds.to_table(["id"], text) == theirs.to_table(["id"], filter=text)
    columns = {"id": "id", "n": "now()", "d": "current_date", "c": "current_time()"}
    assert ds.to_table(columns).schema.types == theirs.to_table(columns).schema.types
