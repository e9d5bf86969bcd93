"""``analyze`` and the texts of plans: a scan that is run, and what each step took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy import Session
from lancecy.store.base import StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import CountingStore
from tests.helpers.datasets import write_table


@pytest.fixture(params=["0.1", "2.1"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    write_table(str(tmp_path), fragments=3, rows=50, deleted={1: [3]}, data_version=request.param)
    return str(tmp_path)


def test_counting_reads_only_the_columns_of_the_filter(uri: str) -> None:
    ds = lancecy.dataset(uri)
    all_options: list[Any] = [{}, {"order_by": ["id"]}, {"with_row_id": True}]
    for options in all_options:
        scanner = ds.scanner(filter="id >= 120", **options)
        scanner.analyze()  # opens the files
        found = scanner.analyze(count_rows=True)
        assert found.rows == scanner.count_rows()
        assert found.nbytes < scanner.analyze().nbytes
        assert str(found.rows) in scanner.analyze_plan(count_rows=True)


@pytest.mark.parametrize("untrusted", [False, True])
def test_steps_have_the_rows_of_the_scan(uri: str, untrusted: bool) -> None:
    """Both for mapped files and for files that cost requests."""
    ds = lancecy.dataset(uri, untrusted=untrusted, session=Session(cache_bytes=0))
    scanner = ds.scanner(["id"], "id >= 120")
    found = scanner.analyze()
    steps = {step.name: step for step in found.steps}
    assert list(steps) == ["plan", "open", "candidates", "filter", "columns"]
    assert steps["plan"].rows_in == ds.count_rows() == 149
    assert steps["columns"].rows_out == found.rows == scanner.to_table().num_rows
    assert steps["filter"].nbytes > 0
    assert steps["candidates"].rows_out == steps["filter"].rows_in
    assert (found.requests > 0) == untrusted
    assert found.milliseconds == sum(step.milliseconds for step in found.steps) > 0
    assert found.explanation == scanner.explain()


def test_requests_and_bytes_are_those_that_the_store_sees(uri: str) -> None:
    inner = MemoryStore(traits=StoreTraits(merge_gap=1 << 10, merge_cap=1 << 20, concurrency=4))
    local = open_store(uri)
    for meta in local.list(""):
        inner.put(meta.path, bytes(local.get(meta.path)))
    store = CountingStore(inner, uri="analyzed://here/t")
    register_store("analyzed", lambda *_, **__: store)
    # A cache would keep such small files whole once they are opened.
    scanner = lancecy.dataset(store.uri, session=Session(cache_bytes=0)).scanner(["s"], "id >= 120")
    scanner.to_table()
    store.requests.clear()
    found = scanner.analyze()
    seen = [r for r in store.requests if r.method == "get_many"]
    assert (found.requests, found.nbytes) == (len(seen), sum((r.stop or 0) - r.start for r in seen))
    assert found.requests > 0


@pytest.mark.parametrize(
    ("limit", "offset", "order_by"), [(7, 2, None), (7, 2, ["id"]), (None, 5, None), (400, 0, ["id"])]
)
def test_result_has_the_rows_of_limit_offset_and_order(
    uri: str, limit: int | None, offset: int, order_by: list[str] | None
) -> None:
    scanner = lancecy.dataset(uri).scanner(
        ["id"], "id % 2 = 0", limit=limit, offset=offset, order_by=order_by
    )
    found = scanner.analyze()
    assert found.rows == scanner.to_table().num_rows
    assert [step.name for step in found.steps][-1] == ("columns" if order_by is None else "sort")


def test_scan_of_no_rows_is_analyzed(uri: str) -> None:
    ds = lancecy.dataset(uri)
    ds.delete("true")
    assert [step.name for step in ds.scanner().analyze().steps] == ["plan"]
    assert ds.scanner(filter="id > 3").analyze().rows == 0


def test_texts_of_plans_have_pylances_names(uri: str) -> None:
    scanner = lancecy.dataset(uri).scanner(filter="id >= 120")
    assert scanner.explain_plan() == str(scanner.explain())
    assert "statistics: " in scanner.explain_plan(verbose=True)
    text = scanner.analyze_plan()
    assert text.startswith(scanner.explain_plan())
    assert "rows out" in text
    assert text.splitlines()[-1].startswith("all")
    json.dumps(scanner.analyze().to_dict())
    assert scanner.projected_schema == scanner.schema
    assert scanner.dataset_schema == lancecy.dataset(uri).schema
