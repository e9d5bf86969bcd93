"""Values of every type as cells, and the shapes of charts."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.inspection.lanes import Lanes
from lancecy.ui.cells import Cell, columns_of
from lancecy.ui.charts import graph_row, line_points, strips
from lancecy.ui.deadline import Deadline, TooSlowError
from lancecy.ui.found_rows import column_page, explained, read_rows
from lancecy.ui.options import Bounds
from tests.helpers.folded import folded
from tests.helpers.ui import png

DAY = dt.datetime(2024, 5, 1, 12, 30)
CASES: list[tuple[str, pa.Array, list[tuple[str, str]]]] = [
    ("int64", pa.array([1, None, -5]), [("number", "1"), ("null", "null"), ("number", "-5")]),
    ("uint64", pa.array([1 << 63], pa.uint64()), [("number", str(1 << 63))]),
    ("float32", pa.array([0.1, float("nan")], pa.float32()), [("number", "0.1"), ("number", "nan")]),
    ("float16", pa.array(np.array([0.1], np.float16)), [("number", "0.1")]),
    ("double", pa.array([1e300]), [("number", "1e+300")]),
    ("bool", pa.array([True, False]), [("text", "true"), ("text", "false")]),
    ("null", pa.nulls(1), [("null", "null")]),
    ("text", pa.array(["a\nb", ""]), [("text", "a\\nb"), ("text", "")]),
    ("large text", pa.array(["é"], pa.large_string()), [("text", "é")]),
    ("bytes", pa.array([b"\1\2", b""]), [("bytes", "2 bytes: 01 02"), ("bytes", "0 bytes")]),
    ("fixed bytes", pa.array([b"abc"], pa.binary(3)), [("bytes", "3 bytes: 61 62 63")]),
    ("png", pa.array([png()]), [("image", "PNG, 71 B")]),
    ("date", pa.array([DAY.date()]), [("text", "2024-05-01")]),
    ("far date", pa.array([1 << 30], pa.int32()).cast(pa.date32()), [("text", "")]),
    ("timestamp", pa.array([DAY], pa.timestamp("ns")), [("text", "2024-05-01 12:30:00")]),
    ("zone", pa.array([DAY], pa.timestamp("us", "UTC")), [("text", "2024-05-01 12:30:00+00:00")]),
    ("duration", pa.array([90], pa.duration("s")), [("text", "0:01:30")]),
    ("decimal", pa.array([Decimal("1.50")]), [("text", "1.50")]),
    ("dictionary", pa.array(["x", "y", None]).dictionary_encode(), [("text", "x"), ("text", "y"), ("null", "null")]),
    ("short struct", pa.array([{"a": 1, "b": "x"}, None]), [("text", '{a: 1, b: "x"}'), ("null", "null")]),
    ("short list", pa.array([[1, 2], [], None]), [("text", "[1, 2]"), ("text", "[]"), ("null", "null")]),
    ("map", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [("text", '{"k": 1}')]),
    ("short vector", pa.array([[0.5, 1.5]], pa.list_(pa.float32(), 2)), [("text", "[0.5, 1.5]")]),
    ("vector", pa.array([[0.5] * 8, None], pa.list_(pa.float32(), 8)), [("vector", "8 × float"), ("null", "null")]),
    ("list of floats", pa.array([[1.0, None, 3.0, 4.0]]), [("vector", "4 × double")]),
]  # fmt: skip


def _cells(folder: Path, column: pa.Array, bounds: Bounds | None = None) -> list[Cell]:
    ds = lancecy.write_dataset(pa.table({"c": column}), folder, mode="overwrite", data_storage_version="2.2")
    limits = bounds or Bounds()
    fields = column_page(ds, limits).fields
    page = read_rows(ds, fields, None, 0, limits, Deadline(60))
    return columns_of(ds, fields, page, limits)[0].cells


@folded(("name", "column", "wanted"), CASES)
def test_values_are_shown(name: str, column: pa.Array, wanted: list[tuple[str, str]], tmp_path: Path) -> None:
    found = [(cell.kind, cell.text) for cell in _cells(tmp_path / re.sub(r"\W", "", name), column)]
    if name == "far date":  # Python has none; any text will do
        assert found[0][0] == "text" and found[0][1]
        return
    assert found == wanted


def test_long_values_are_shortened_and_can_be_opened(tmp_path: Path) -> None:
    bounds = Bounds(text=10, details=50, items=3, depth=2)
    deep: Any = {"a": {"b": {"c": 1}}, "d": list(range(10)), "e": "z" * 500, "f": b"1234"}
    (nested,) = _cells(tmp_path / "n", pa.array([deep]), Bounds(text=10, items=3, depth=2))
    assert nested.kind == "nested"
    assert nested.text == "struct of 4 members"
    assert nested.details.splitlines() == [
        "{",
        "  a: {",
        "    b: …",
        "  }",
        "  d: [",
        "    0",
        "    1",
        "    2",
        "    … 7 more",
        "  ]",
        '  e: "zzzzzzzzz…"',
        "  … 1 more",
        "}",
    ]
    text, short = _cells(tmp_path / "t", pa.array(["ab\u202e" * 100 + "\nx", "short"]), bounds)
    assert len(text.text) == 10 and text.text.endswith("…")
    assert text.details.endswith("… 302 characters in all")
    assert "\u202e" not in text.text + text.details
    assert short == Cell("text", "short")
    (vector,) = _cells(tmp_path / "v", pa.array([list(np.arange(1000.0))]), bounds)
    assert (vector.text, len(vector.points.split())) == ("1,000 × double", 96)
    assert vector.details == "1,000 × double\n[0.0, 1.0, 2.0 …]"


def test_blobs_are_shown_by_size_and_first_bytes(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([png(), b"x" * 100, None, b""], pa.large_binary())], schema=pa.schema([field]))
    ds = lancecy.write_dataset(rows, tmp_path / "t")
    bounds = Bounds()
    page = read_rows(ds, list(ds.lance_schema.fields), None, 0, bounds, Deadline(60))
    cells = columns_of(ds, ds.lance_schema.fields, page, bounds)[0].cells
    assert [cell.kind for cell in cells] == ["image", "bytes", "null", "bytes"]
    assert cells[1].text == "100 bytes as blob: " + "78 " * 16 + "…"


@pytest.mark.interop
def test_a_blob_that_cannot_be_opened_hides_no_other(tmp_path: Path) -> None:
    import lance

    (tmp_path / "outside.bin").write_bytes(b"out")
    values = [b"in", f"file://{tmp_path}/outside.bin", None, b"too"]
    rows = pa.table({"b": lance.blob_array(values)})
    options: Any = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    lance.write_dataset(rows, str(tmp_path / "t"), **options)
    ds, bounds = lancecy.dataset(tmp_path / "t", untrusted=True), Bounds(text=300)
    page = read_rows(ds, list(ds.lance_schema.fields), None, 0, bounds, Deadline(60))
    cells = columns_of(ds, ds.lance_schema.fields, page, bounds)[0].cells
    folder = f"cannot be read: the folder of a blob of this table is {tmp_path}, outside of {tmp_path}/t"
    assert [cells[0].text, cells[2].text, cells[3].text] == [
        "2 bytes as blob: 69 6e",
        "null",
        "3 bytes as blob: 74 6f 6f",
    ]
    assert cells[1].text.startswith(folder)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_rows_come_from_all_versions_of_files_with_deletions(tmp_path: Path, version: str) -> None:
    ds = lancecy.write_dataset(
        {"x": list(range(1000))}, tmp_path / "t", data_storage_version=version, max_rows_per_file=100
    )
    ds.delete("x % 2 = 0")
    bounds = Bounds(rows=10)
    for condition, first, wanted in (
        (None, 0, 1),
        ("x > 500", 0, 501),
        ("x > 500", 200, 901),
        (None, 499, 999),
    ):
        page = read_rows(ds, list(ds.lance_schema.fields), condition, first, bounds, Deadline(60))
        assert page.rows["x"][0].as_py() == wanted
        assert page.has_more is (wanted < 980)
    assert read_rows(ds, list(ds.lance_schema.fields), "x < 0", 0, bounds, Deadline(60)).ids == []


@folded(
    "values",
    [
        [],
        [np.nan],
        [np.inf, -np.inf],
        [1.0],
        [5.0] * 300,
        [1e308, -1e308],
        [np.nan, 1, 2, np.inf],
        list(range(5000)),
    ],
)
def test_lines_stay_in_their_box(values: list[float]) -> None:
    points = [
        tuple(map(float, one.split(","))) for one in line_points(np.asarray(values, np.float64)).split()
    ]
    assert len(points) <= 96
    assert all(0 <= x <= 120 and 0 <= y <= 24 for x, y in points)


def test_strips_of_many_values_show_the_greatest_of_neighbours() -> None:
    values = [1.0] * 10_000
    values[7777] = 9.0
    found = strips(values, [0] * 10_000, [0] * 10_000, [""] * 10_000)
    assert len(found) == 240
    assert max(one.height for one in found) == 100.0
    assert strips([], [], [], []) == []
    assert [one.height for one in strips([0, 0], [0, 0], [0, 0], ["", ""])] == [0.0, 0.0]


def test_every_character_of_a_picture_of_branches_is_drawn() -> None:
    lanes = Lanes("main")
    drawn = [lanes.row(name) for name in ("main", "a", "b", "c", "main")]
    drawn += [
        lanes.joined("main", ["a", "c"]),
        lanes.row("b"),
        lanes.joined("main", ["b"]),
        lanes.row("main"),
    ]
    for text in drawn:
        row = graph_row(text, 34)
        assert row.width == 9 * (len(text) + 1)
        assert row.path.count("M") >= len(text.replace(" ", "")) - ("●" not in text)


def test_a_filter_over_many_fragments_stops_between_them(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"x": list(range(500))}, tmp_path / "t", max_rows_per_file=1)
    fields, asked = list(ds.lance_schema.fields), 0

    class Ending(Deadline):
        """Is over when it is asked for the third time."""

        def check(self) -> None:
            nonlocal asked
            asked += 1
            if asked == 3:
                raise self.error()

    with pytest.raises(TooSlowError, match="more than 60 s"):
        read_rows(ds, fields, "x < 0", 0, Bounds(), Ending(60))
    assert asked == 3


def test_an_explanation_of_many_fragments_ends_with_its_time(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"x": list(range(250))}, tmp_path / "t", max_rows_per_file=1)
    fields = list(ds.lance_schema.fields)
    found = explained(ds, fields, "x = 249", Bounds(), Deadline(0))
    assert (len(found.fragments), found.num_fragments) == (100, 100)
    whole = explained(ds, fields, "x = 249", Bounds(), Deadline(60))
    assert whole == ds.scanner(filter="x = 249").explain()
    assert found.fragments == whole.fragments[:100]
    empty = lancecy.write_dataset({"x": pa.array([], pa.int64())}, tmp_path / "empty")
    assert explained(empty, list(empty.lance_schema.fields), "x = 1", Bounds(), Deadline(60)).fragments == ()
