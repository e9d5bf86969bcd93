"""Streams: the first rows come before large windows are read, and nothing is kept of a stream that is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.scanning import threads
from lancecy.scanning.plan import cut_unit
from lancecy.scanning.task import ScanUnit

ROWS = 1_400_000
"""Of 16 bytes: windows of 2, 16 and 3 MiB."""


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    random = np.random.default_rng(3)
    rows = pa.table({"x": random.random(ROWS), "y": random.random(ROWS)})
    place = str(tmp_path_factory.mktemp("streams") / "t.lance")
    return lancecy.write_dataset(rows, place, data_storage_version="2.1", durability="none")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the windows that were read."""
    found: list[int] = []
    read = threads.read_units

    def counted(context: Any, projection: Any, units: Sequence[ScanUnit], *others: Any) -> Any:
        found.append(sum(unit.rows for unit in units))
        return read(context, projection, units, *others)

    monkeypatch.setattr(threads, "read_units", counted)
    return found


@pytest.mark.parametrize("where", [None, "x < 2", "x < 0.5"])
def test_the_first_batch_comes_before_the_rest_is_read(
    ds: lancecy.Dataset, windows: list[int], where: str | None
) -> None:
    stream = ds.to_batches(filter=where)
    first = next(stream)
    assert len(windows) == 1
    assert 0 < first.num_rows <= windows[0] < ROWS // 8
    rest = list(stream)
    assert len(windows) == 3
    assert sum(windows) == ROWS
    assert (
        pa.Table.from_batches([first, *rest]).combine_chunks() == ds.to_table(filter=where).combine_chunks()
    )


def test_a_scanner_of_pyarrow_does_not_read_far_ahead(ds: lancecy.Dataset, windows: list[int]) -> None:
    scanner = ds.to_pyarrow_dataset().scanner(columns=["x", "y"], filter=pc.field("x") < 2)
    reader = scanner.to_reader()
    first = reader.read_next_batch()
    time.sleep(0.3)
    assert len(windows) == 1
    rest = list(reader)
    assert pa.Table.from_batches([first, *rest]).combine_chunks() == ds.to_table().combine_chunks()


@pytest.mark.parametrize(
    "gone", ["_rowoffset % 3 = 1", "_rowoffset < 1000000", "_rowoffset >= 1000", "x < 0.9"]
)
def test_rows_keep_their_numbers_around_deleted_ones(ds: lancecy.Dataset, gone: str, tmp_path: Path) -> None:
    left = ds.shallow_clone(str(tmp_path / "clone"), ds.version)
    left.delete(gone)
    numbers = {"columns": ["x"], "with_row_id": True, "with_row_address": True}
    found = pa.Table.from_batches(list(left.scanner(**numbers).to_batches()))
    assert found.combine_chunks() == left.scanner(**numbers).to_table().combine_chunks()
    some = left.scanner(["x", "_rowoffset"], offset=70_000, limit=90_000)
    assert (
        pa.Table.from_batches(list(some.to_batches()), some.schema).combine_chunks()
        == some.to_table().combine_chunks()
    )


def test_a_unit_is_cut_into_two_with_living_rows(ds: lancecy.Dataset, tmp_path: Path) -> None:
    left = ds.shallow_clone(str(tmp_path / "clone"), ds.version)
    left.delete("_rowoffset < 1000 OR _rowoffset = 5000")
    unit, *_ = left.scanner().plan().units
    cut = cut_unit(left.context, unit, 6000)
    assert cut == (
        ScanUnit(unit.fragment, 0, 6000, 4999, 0),
        ScanUnit(unit.fragment, 6000, unit.stop, unit.stop - 6000, 4999),
    )
    assert cut_unit(left.context, unit, 1000) is None
    assert cut_unit(left.context, unit, unit.stop) is None


def test_nothing_is_kept_of_streams_that_are_over(ds: lancecy.Dataset) -> None:
    def stream() -> int:
        return sum(batch.num_rows for batch in ds.to_batches(["x"], "y < 0.001"))

    stream()
    before = len(ds.context.plans)
    for _ in range(5):
        stream()
    assert len(ds.context.plans) == before


@pytest.mark.slow
def test_only_the_plans_of_few_scans_are_kept(ds: lancecy.Dataset) -> None:
    for number in range(300):
        ds.to_table(["x"], f"y < {number / 1e6}")
    assert len(ds.context.plans) <= 128


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_windows_shrink_if_rows_take_more_than_their_pages_tell(
    where: str | None,
    is_local: bool,
    windows: list[int],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    # The dictionary of each page is compressed: to a hundredth of its bytes, which only reading tells.
    texts = pa.array([f"{n}" + "y" * 3000 for n in range(1000)])
    rows = pa.RecordBatchReader.from_batches(
        pa.schema([("id", pa.int64()), ("t", pa.string())]),
        (pa.record_batch([range(n, n + 1000), texts], ["id", "t"]) for n in range(0, 80_000, 1000)),
    )
    place = tmp_path / "t.lance" if is_local else f"memory://{request.node.name}"
    ds = lancecy.write_dataset(rows, place, data_storage_version="2.2", durability="none")
    assert sum(batch.num_rows for batch in ds.to_batches(filter=where, memory_bytes=24 << 20)) == 80_000
    # Two windows were on their way before the first one was known.
    assert sum(windows) == 80_000
    assert max(windows[3:]) * 3000 < 10 << 20


CUTS: list[dict[str, Any]] = [{}, {"limit": 77}, {"offset": 40, "limit": 900, "batch_size": 100}]
FILTERS = [None, "k < 25", "s = 'kind 2'", "s != 'kind 2'", "s IS NULL", "id % 3 = 1", "_rowoffset > 100"]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_streams_of_tiny_windows_are_tables_in_pieces(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(8)
    kinds = random.integers(0, 9, 3000).tolist()
    rows = pa.table(
        {
            "id": range(3000),
            "k": pa.array(random.integers(0, 50, 3000), pa.int32()),
            "s": [None if kind == 4 else f"kind {kind}" for kind in kinds],
        }
    )
    ds = lancecy.write_dataset(rows, tmp_path / "t", data_storage_version=version, max_rows_per_file=1100)
    ds.delete("id BETWEEN 300 AND 1700 OR id % 7 = 3")
    for first, step, growth, on_demand in ((300, 1, 1, 0), (2000, 8, 2, 1), (900, 64, 8, 3)):
        monkeypatch.setattr(threads, "_FIRST_WINDOW_BYTES", first)
        monkeypatch.setattr(threads, "PAGE_ROWS", step)
        monkeypatch.setattr(threads, "_GROWTH", growth)
        monkeypatch.setattr(threads, "_ON_DEMAND", on_demand)
        for where in FILTERS:
            for cut in CUTS:
                scan = ds.scanner(["s", "_rowid", "id", "_rowoffset"], where, **cut)
                found = pa.Table.from_batches(list(scan.to_batches()), scan.schema)
                assert found.combine_chunks() == scan.to_table().combine_chunks(), (where, cut)
