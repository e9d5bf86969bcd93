"""Units of small fragments that a step takes together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.scanning import engine, filtering, outputs
from lancecy.scanning.filtering import spread_candidates
from lancecy.scanning.plan import plan
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec
from lancecy.scanning.units import CandidateUnit

FRAGMENTS, ROWS = 8, 100


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    """Eight fragments of a hundred rows; the texts take 50 KB of each, the numbers hardly anything."""
    place: Path = tmp_path_factory.mktemp("units") / "t.lance"
    texts = np.random.default_rng(1).bytes(FRAGMENTS * ROWS * 500).hex()
    table = pa.table(
        {"id": range(FRAGMENTS * ROWS), "text": [texts[at : at + 1000] for at in range(0, len(texts), 1000)]}
    )
    return lancecy.write_dataset(table, str(place), max_rows_per_file=ROWS, data_storage_version="2.1")


def groups_of(ds: lancecy.Dataset, columns: list[str], row_ns: float = 0.0) -> list[list[int]]:
    """The fragments that the step takes at once."""
    context = ds.context
    request = make_request(ds.schema, columns, lancecy.col("id") >= 0)
    planned = plan(context, request, ScanSpec(context.snapshot.location, ds.version, request), 1 << 20)
    found = []

    def step(units: Sequence[CandidateUnit]) -> list[int]:
        found.append([c.files.fragment.id for c in units])
        return [len(c.rows) for c in units]

    assert (
        spread_candidates(context, planned.units, planned.projection, (), step, row_ns) == [ROWS] * FRAGMENTS
    )
    return sorted(found)


def test_small_fragments_are_taken_at_once(ds: lancecy.Dataset) -> None:
    assert groups_of(ds, ["id"]) == [list(range(FRAGMENTS))]


def test_rows_of_a_group_are_bounded(ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "_ROWS_TOGETHER", 3 * ROWS)
    assert groups_of(ds, ["id"]) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_bytes_of_a_group_are_bounded_by_all_columns_that_are_read(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtering, "_BYTES_TOGETHER", 80_000)
    assert groups_of(ds, ["id"]) == [list(range(FRAGMENTS))]
    assert groups_of(ds, ["text"]) == [[number] for number in range(FRAGMENTS)]


def test_threads_take_equal_groups_where_the_work_is_worth_them(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_WORTH_NANOSECONDS", 1000.0)
    with_threads = lancecy.dataset(ds.uri, session=lancecy.Session(threads=4))
    assert groups_of(with_threads, ["id"], row_ns=1000.0) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups_of(with_threads, ["id"], row_ns=0.0) == [list(range(FRAGMENTS))]


@pytest.mark.parametrize(
    ("rows", "small", "tiny", "groups"),
    [
        (ROWS + 1, 1 << 20, 1 << 20, [FRAGMENTS]),
        (ROWS + 1, 1 << 20, 0, [FRAGMENTS // 4] * 4),
        (ROWS, 1 << 20, 0, []),
        (ROWS + 1, 1 << 10, 0, []),
    ],
)
def test_columns_of_small_fragments_are_read_together(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch, rows: int, small: int, tiny: int, groups: list[int]
) -> None:
    seen: list[int] = []
    original = outputs.outputs_joined

    def noted(context: Any, units: Any, fields: Any) -> Any:
        seen.append(len(units))
        return original(context, units, fields)

    monkeypatch.setattr(engine, "outputs_joined", noted)
    monkeypatch.setattr(engine, "INLINE_BYTES", 1)
    monkeypatch.setattr(engine, "_SMALL_UNIT_ROWS", rows)
    monkeypatch.setattr(engine, "_SMALL_UNIT_BYTES", small)
    monkeypatch.setattr(engine, "_TINY_UNIT_BYTES", tiny)
    with_threads = lancecy.dataset(ds.uri, session=lancecy.Session(threads=4))
    whole = ds.take(range(FRAGMENTS * ROWS))
    for where in (None, "id % 3 != 1", "id >= 250 and id < 620 or id = 7"):
        seen.clear()
        found = with_threads.to_table(columns=["text", "id"], filter=where)
        expected = whole if where is None else whole.filter(_chosen(where))
        if where is None or "%" in where:
            assert seen == groups
        assert found["id"].to_pylist() == expected["id"].to_pylist()
        assert found["text"].to_pylist() == expected["text"].to_pylist()


def _chosen(where: str) -> pa.Array:
    numbers = np.arange(FRAGMENTS * ROWS)
    return pa.array(numbers % 3 != 1 if "%" in where else (numbers >= 250) & (numbers < 620) | (numbers == 7))


def test_texts_with_dictionaries_are_divided_by_the_time_that_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table(
        {"k": pa.array([n % 7 for n in range(80_000)]), "s": [f"word {n % 50}" for n in range(80_000)]}
    )
    ds = lancecy.write_dataset(
        table, tmp_path / "t.lance", max_rows_per_file=40_000, data_storage_version="2.1"
    )
    decided: list[bool] = []
    original = outputs.map_sized

    def noted(context: Any, function: Any, items: Any, use_threads: bool) -> Any:
        decided.append(use_threads)
        return original(context, function, items, use_threads)

    monkeypatch.setattr(engine, "map_sized", noted)
    monkeypatch.setattr(engine, "_SMALL_UNIT_ROWS", 0)
    for worth, expected in ((1e3, True), (1e12, False)):
        monkeypatch.setattr(outputs, "_WORTH_NANOSECONDS", worth)
        decided.clear()
        found = ds.to_table(columns=["s"], filter="k < 3")
        assert any(decided) == expected
        assert found.equals(table.filter(pc.less(table["k"], 3)).select(["s"]))
