"""Filters over many small files: what is told of each is found for all files at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.scanning import filtering
from lancecy.scanning.filtering import candidates
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.plan import kept_plan
from lancecy.scanning.request import ScanRequest, make_request
from lancecy.scanning.sources import concerned
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.scanning.units import CandidateUnit

FILES, ROWS = 24, 40
FILTERS = [
    "a < 10",
    "a is null",
    "a is not null",
    "NOT (a = 3)",
    "a < 10 OR b = 'x1'",
    "a is null AND b = 'x1'",
    "b is null",
    "s.x > 2",
    "s.x is null OR a is null",
    "a < 10 AND _rowid > 100",
]


def rows_of(number: int) -> pa.Table:
    """Forty rows; the numbers of every third file are null, the texts of every fifth, and neither in some."""
    values = np.arange(ROWS)
    a = [None if number % 3 == 0 or (number % 3 == 1 and v % 7 == 0) else int(v) for v in values]
    b = [None if number % 5 == 0 else f"x{v % 4}" for v in values]
    s = [{"x": None if number % 4 == 1 or (number % 4 == 2 and v % 2) else int(v), "y": 1} for v in values]
    types = pa.struct({"x": pa.int32(), "y": pa.int64()})
    return pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.string()), "s": pa.array(s, types)})


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    whole = pa.concat_tables(rows_of(number) for number in range(FILES))
    place = tmp_path_factory.mktemp("small") / "t.lance"
    return lancecy.write_dataset(whole, place, max_rows_per_file=ROWS, data_storage_version=request.param)


def opened(ds: lancecy.Dataset) -> lancecy.Dataset:
    return lancecy.dataset(ds.uri, session=lancecy.Session())


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[CandidateUnit]:
    """The candidates of all units of scans."""
    found: list[CandidateUnit] = []
    original = filtering.candidates

    def noted(*args: Any) -> CandidateUnit:
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(filtering, "candidates", noted)
    return found


@pytest.mark.parametrize("where", FILTERS)
def test_rows_are_left_out_as_if_each_file_were_asked(
    ds: lancecy.Dataset, chosen: list[CandidateUnit], where: str
) -> None:
    table = opened(ds)
    count = table.count_rows(where)
    expected = sum(
        lancecy.dataset(ds.uri).scanner(filter=where, fragments=[f]).count_rows() for f in ds.get_fragments()
    )
    assert count == expected
    assert opened(ds).to_table(filter=where).num_rows == expected
    context = table.context
    projection = context.projection(make_request(ds.schema, (), where))
    sources = concerned(context.sources, context.snapshot, projection)
    units = [ScanUnit(number, 0, ROWS, ROWS, ROWS * number) for number in range(FILES)]
    alone = [candidates(context, unit, projection, sources) for unit in units]
    told = {c.files.fragment.id: len(c.rows) for c in chosen[:FILES]}
    assert [told.get(number, 0) for number in range(FILES)] == [len(c.rows) for c in alone]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fragments that are asked for their own statistics or sizes."""
    found: list[int] = []
    for name in ("page_stats", "_field_bytes"):
        original = getattr(FragmentFiles, name)

        def noted(self: FragmentFiles, *args: Any, original: Any = original) -> Any:
            found.append(self.fragment.id)
            return original(self, *args)

        monkeypatch.setattr(FragmentFiles, name, noted)
    return found


def test_no_file_is_asked_for_its_own_statistics(ds: lancecy.Dataset, asked: list[int]) -> None:
    table = opened(ds)
    for where in ("a < 10 or b = 'x1' or s.y = 2", "a < 10"):
        expected = opened(ds).scanner(filter=where, use_stats=False).count_rows()
        asked.clear()
        assert table.count_rows(where) == expected
        assert asked == []


def spec_of(ds: lancecy.Dataset, request: ScanRequest, _: bool) -> ScanSpec:
    return ScanSpec(ds.context.snapshot.location, ds.version, request)


def plan_of(ds: lancecy.Dataset, where: str, blocksize: int = 64 << 20) -> Any:
    request = make_request(ds.schema, (), where)
    return kept_plan(ds.context, request, lambda *args: spec_of(ds, *args), blocksize, 8, exact=None)


def test_plans_of_small_files_ask_none_for_sizes(ds: lancecy.Dataset, asked: list[int]) -> None:
    table = opened(ds)
    planned = plan_of(table, "s.y < 2")
    assert len(planned.units) == FILES
    assert plan_of(table, "s.y < 2") is planned
    assert table.count_rows("s.y < 2") == FILES * ROWS
    assert asked == []


def test_small_files_with_large_texts_are_cut(tmp_path: Path) -> None:
    files, rows = 16, 500
    whole = pa.table({"b": pa.repeat("y" * 10_000, files * rows)})
    table = lancecy.write_dataset(
        whole, tmp_path / "t.lance", max_rows_per_file=rows, data_storage_version="2.2"
    )
    sizes = [file.size for fragment in table.context.fragments for file in fragment.files]
    assert max(size or 0 for size in sizes) < 100_000
    planned = plan_of(lancecy.dataset(table.uri, session=lancecy.Session()), "b > 'x'", 4 << 20)
    assert len(planned.units) >= 2 * files


def test_large_files_among_small_ones_are_cut_by_the_sizes_of_their_columns(tmp_path: Path) -> None:
    text = np.random.default_rng(1).bytes(500_000).hex()
    numbers = [1] * 20 + [20_000]
    for at, rows in enumerate(numbers):
        whole = pa.table({"b": [text[n * 40 : n * 40 + 1000] for n in range(rows)]})
        lancecy.write_dataset(whole, tmp_path / "t.lance", mode="append" if at else "create")
    table = lancecy.dataset(tmp_path / "t.lance", session=lancecy.Session())
    planned = plan_of(table, "b = 'x1'")
    units: Sequence[ScanUnit] = planned.units
    assert len(table.context._opened) == len(numbers)
    assert [unit.fragment for unit in units[:20]] == list(range(20))
    assert len(units) > len(numbers)


def test_pages_of_nulls_are_left_out_of_each_file(tmp_path: Path, chosen: list[CandidateUnit]) -> None:
    rows, files = 1 << 15, 16
    values = np.arange(rows * files)
    is_null = (values % rows < rows // 2) & (values // rows % 2 == 0)
    whole = pa.table({"a": pa.array(values, mask=is_null)})
    table = lancecy.write_dataset(
        whole, tmp_path / "t.lance", max_rows_per_file=rows, max_bytes_per_file=1 << 18
    )
    explained = table.scanner(filter="a >= 0").explain()
    assert (explained.pages, explained.kept_pages) == (4 * files, 3 * files)
    count = lancecy.dataset(table.uri, session=lancecy.Session()).count_rows("a >= 0")
    assert count == np.count_nonzero(~is_null)
    assert [len(c.rows) for c in chosen] == [line.kept_rows for line in explained.fragments]
    assert sum(len(c.rows) for c in chosen) < rows * files
