"""The Polars source: same answers as over a frame in memory, with columns, predicates and limits pushed."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.interop import polars
from tests.interop import live
from tests.interop.doors import ROWS, every_type

pytestmark = pytest.mark.interop

Query = Callable[[Any], Any]


LEFT_TO_POLARS = {
    "text in categories",
    "time",
    "duration",
    "decimal",
    "part of an and",
    "prefix",
}
"""Of the queries with a filter, those whose rows Polars filters again."""


def _queries() -> dict[str, tuple[Query, str | None]]:
    """Queries by name, with the filter that is expected to reach the scan."""
    import polars as pl

    c, nan = pl.col, float("nan")
    day = dt.datetime(2020, 1, 20)
    conditions: dict[str, tuple[Any, str | None]] = {
        "above": (c("u16") > 3000, "u16 > 3000"),
        "mirrored": (pl.lit(5) > c("id"), "id < 5"),
        "float above": (c("f") > 0.5, "f > 0.5 OR isnan(f)"),
        "float below": (c("f") < 0.5, "f < 0.5"),
        "float unlike": (c("f") != 1.0, "f != 1.0"),
        "float between": (c("f").is_between(-0.5, 0.5), "(f >= -0.5 OR isnan(f)) AND f <= 0.5"),
        "is nan": (c("f") == nan, None),
        "at least nan": (c("f") >= nan, None),
        "text": (c("s") == "s3", "s = 's3'"),
        "text in categories": (c("kind") == "c3", "kind = 'c3'"),
        "or": (c("s").is_null() | (c("id") < 5), "s IS NULL OR id < 5"),
        "in": (c("id").is_in([1, 5, 99]), "id IN (1, 5, 99) IS TRUE"),
        "in with null": (c("i8").is_in([1, 2, None]), None),
        "timestamp": (c("ts") > day, "ts > timestamp '2020-01-20 00:00:00'"),
        "zoned": (c("tz") > day.replace(tzinfo=dt.UTC), "tz > timestamp '2020-01-20 00:00:00+00:00'"),
        "time": (c("t64") > dt.time(0, 0, 0, 500_000), "t64 > time '00:00:00.5'"),
        "duration": (c("dur") > dt.timedelta(milliseconds=300), None),
        "decimal": (c("d") > Decimal("3.5"), "d > decimal(38, 1) '3.5'"),
        "date": (c("day") >= dt.date(2020, 5, 1), "day >= date '2020-05-01'"),
        "flag": (c("flag"), "flag"),
        "no flag": (~c("flag"), None),
        "within a struct": (c("st").struct.field("a") > 690, None),
        "part of an and": ((c("id") % 2 == 0) & (c("u16") < 9000), "u16 < 9000"),
        "part of an or": ((c("id") % 2 == 0) | (c("u16") < 9000), None),
        "prefix": (c("s").str.starts_with("s1"), "starts_with(s, 's1')"),
        "cast": (c("id").cast(pl.Float64) > 1.5, None),
    }

    def kept(condition: Any) -> Query:
        return lambda frame: frame.filter(condition)

    return {name: (kept(condition), text) for name, (condition, text) in conditions.items()}


def _shapes() -> dict[str, Query]:
    import polars as pl

    c = pl.col
    return {
        "head": lambda f: f.head(7),
        "slice": lambda f: f.slice(430, 5),
        "tail": lambda f: f.tail(3),
        "filter and head": lambda f: f.filter(c("id") > 100).head(7).select("s"),
        "head and filter": lambda f: f.head(200).filter(c("id") > 100).select("s", "vec"),
        "count": lambda f: f.select(pl.len()),
        "sum": lambda f: f.select(c("id").sum()),
        "groups": lambda f: f.group_by("kind").agg(c("id").sum()).sort("kind"),
        "join": lambda f: f.select("id", "s").join(f.select("id", "i8"), on="id").sort("id"),
    }


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    path: Path = tmp_path_factory.mktemp("polars") / "t.lance"
    live.write(every_type(), path, data_storage_version="2.1", max_rows_per_file=200)
    return lancecy.dataset(path)


def test_predicates_are_answered_as_over_a_frame(
    ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars as pl

    scans: list[tuple[Any, Any]] = []
    plain = polars._Reader.scan

    def recorded(self: Any, *args: Any) -> tuple[Any, Any]:
        scans.append(plain(self, *args))
        return scans[-1]

    monkeypatch.setattr(polars._Reader, "scan", recorded)
    lazy, whole = ds.to_polars_lazy(), pl.from_arrow(ds.to_table()).lazy()  # type: ignore[union-attr]
    for name, (query, text) in _queries().items():
        scans.clear()
        expected = query(whole).collect()
        assert query(lazy).collect().equals(expected), name
        assert 0 < expected.height < ROWS, name
        ((scan, left),) = scans
        pushed = scan.request.filter
        assert (left is not None) == (pushed is None or name in LEFT_TO_POLARS), name
        if name == "duration":
            assert pushed is not None and "interval" in str(pushed), name
        else:
            assert (None if pushed is None else str(pushed).split(" ", 1)[1][:-1]) == text, name


def test_a_scan_alone_keeps_the_rows_that_polars_keeps(tmp_path: Path) -> None:
    import polars as pl

    nan, inf = float("nan"), float("inf")
    numbers = [0.0, -0.0, 1.5, -1.5, nan, inf, -inf, 5e-324, None]
    texts = ["", "a", "a\0", "A", "ab", "\U0001f600", "\uffee", "e\u0301", "\u00e9", None]
    days = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29), None]
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2000, 2, 29), None]
    rows = pa.table(
        {
            "f64": pa.array(numbers, pa.float64()),
            "f32": pa.array(numbers, pa.float32()),
            "i8": pa.array([-128, -1, 0, 1, 127, None, 5, 6, 7], pa.int8()),
            "u64": pa.array([0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1, None, 7, 8], pa.uint64()),
            "i64": pa.array([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0, -1, None, 7, 8], pa.int64()),
            "s": pa.array([*texts, "a"][:9], pa.string()),
            "s2": pa.array([*texts[5:], *texts[:4]], pa.large_string()),
            "b": pa.array([True, False, None] * 3),
            "day": pa.array(days * 2 + [None], pa.date32()),
            "at": pa.array(moments * 3, pa.timestamp("us")),
            "zoned": pa.array(
                [None if m is None else m.replace(tzinfo=dt.UTC, microsecond=0) for m in moments * 3],
                pa.timestamp("ms", "UTC"),
            ),
        }
    )
    ds = lancecy.dataset(lancecy.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.1").uri)
    ours, whole = ds.to_polars_lazy(), pl.from_arrow(rows).lazy()  # type: ignore[union-attr]
    exact = 0
    for name in rows.column_names:
        column, values = pl.col(name), [v for v in dict.fromkeys(rows[name].to_pylist()) if v is not None]
        kind = whole.collect_schema()[name]
        conditions = [column.is_null(), column.is_not_null(), column.is_in(pl.Series(values[:3], dtype=kind))]
        for value in values:
            literal = pl.lit(value, dtype=kind)
            conditions += [column == literal, column != literal, column < literal, column <= literal]
            conditions += [column > literal, column >= literal, column.is_between(literal, literal)]
            conditions += [(column < literal) | (pl.col("i8") > 0), (column >= literal) & pl.col("b")]
        for condition in conditions:
            found, expected = ours.filter(condition).collect(), whole.filter(condition).collect()
            assert found.equals(expected), str(condition)
            part = polars.pushed(condition, rows.schema)
            exact += part is not None and part.is_exact
    assert exact > 300


def test_integers_beside_floats_are_left_to_polars_which_rounds_them(tmp_path: Path) -> None:
    import polars as pl

    table = pa.table({"i": [2**53, 2**53 + 1, 7], "f": [2.0**53, 0.1, 7.0]})
    ours = lancecy.dataset(lancecy.write_dataset(table, tmp_path / "t.lance").uri).to_polars_lazy()
    for condition in (pl.col("i") == 2.0**53, pl.col("i") <= pl.col("f"), pl.col("f") == 2**53 + 1):
        whole: Any = pl.from_arrow(table)
        assert ours.filter(condition).collect().equals(whole.filter(condition)), condition
    # As an optimiser hands it over that has not made the conversion visible.
    for condition in (pl.col("i") == 2.0**53, pl.col("f") == 2**53 + 1):
        assert polars.pushed(condition, table.schema) is None


def test_shapes_of_queries(ds: lancecy.Dataset) -> None:
    import polars as pl

    whole = pl.from_arrow(ds.to_table()).lazy()  # type: ignore[union-attr]
    for name, query in _shapes().items():
        assert query(ds.to_polars_lazy()).collect().equals(query(whole).collect()), name


def test_own_filter_and_pushed_one_meet(ds: lancecy.Dataset) -> None:
    import polars as pl

    lazy = ds.to_polars_lazy("id >= 10").filter(pl.col("id") < 13).select("id")
    assert lazy.collect().to_series().to_list() == [10, 11, 12]


def test_reader_travels(ds: lancecy.Dataset) -> None:
    reader = pickle.loads(pickle.dumps(polars._Reader(ds, None)))
    assert sum(frame.height for frame in reader(["id"], None, None, None)) == ROWS


def test_polars_takes_the_pyarrow_dataset_too(ds: lancecy.Dataset) -> None:
    import polars as pl

    lazy = pl.scan_pyarrow_dataset(ds.to_pyarrow_dataset())
    assert lazy.filter(pl.col("id") > 690).select("id").collect().height == ROWS - 691


def test_frames_of_datasets_fragments_and_scans(tmp_path: Path) -> None:
    import polars as pl

    rows = every_type()
    live.write(rows, tmp_path / "t.lance", data_storage_version="2.1", max_rows_per_file=200)
    ds = lancecy.dataset(tmp_path / "t.lance")
    assert ds.to_polars().equals(pl.DataFrame(rows))
    expected = pl.DataFrame(rows.select(["id", "kind"])).filter(pl.col("id") > 650)
    assert ds.to_polars(columns=["id", "kind"], filter="id > 650").equals(expected)
    assert ds.scanner(columns=["id", "kind"], filter="id > 650").to_polars().equals(expected)
    assert ds.get_fragments()[1].to_polars(columns=["id"], limit=2)["id"].to_list() == [200, 201]


def test_frames_without_polars_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t.lance")
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "polars.io.plugins", None)
    for read in (ds.to_polars, ds.scanner().to_polars, ds.to_polars_lazy):
        with pytest.raises(ImportError, match=r"pip install 'lancecy\[polars\]'"):
            read()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_texts_that_files_store_with_a_dictionary_are_passed_as_views(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars as pl

    kinds = [None if n % 7 == 3 else "" if n % 7 == 5 else f"kind {n % 7} of several" for n in range(20_000)]
    rows = pa.table(
        {
            "id": range(20_000),
            "kind": kinds,
            "large": pa.array(kinds, pa.large_string()),
            "category": pa.array(kinds).dictionary_encode(),
            "unique": [f"text {n}" for n in range(20_000)],
        }
    )
    live.write(rows, tmp_path / "t.lance", data_storage_version=version, max_rows_per_file=9000)
    ds = lancecy.dataset(tmp_path / "t.lance")
    seen: list[int] = []
    as_views = polars.as_views

    def counted(coded: pa.DictionaryArray) -> pa.Array:
        seen.append(len(coded))
        return as_views(coded)

    monkeypatch.setattr(polars, "as_views", counted)
    lazy, whole = ds.to_polars_lazy(), pl.from_arrow(rows)
    assert isinstance(whole, pl.DataFrame)
    assert lazy.collect().equals(whole)
    assert lazy.collect().schema == whole.schema
    assert seen
    for condition in (
        pl.col("kind") == "kind 1 of several",
        pl.col("kind").is_null(),
        pl.col("id") % 100 == 3,
    ):
        assert lazy.filter(condition).collect().equals(whole.filter(condition))
    assert lazy.select("large").head(5).collect().equals(whole.select("large").head(5))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    "values", [["a", "b" * 20, None, ""], [None], ["é" * 50, "x"], [], ["only one, and long enough"]], ids=str
)
def test_views_of_a_dictionary_have_its_texts(kind: pa.DataType, values: list[str | None]) -> None:
    coded = pa.array(values * 30, kind).dictionary_encode()
    for part in (coded, coded[3:], coded[7:40], coded[:0]):
        found = polars.as_views(part)
        found.validate(full=True)
        assert found.to_pylist() == part.to_pylist()


def test_a_dictionary_with_a_null_among_its_texts_or_more_texts_than_rows_is_expanded() -> None:
    codes = pa.array([0, 1, None, 1], pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(["a", None, "c"]))
    assert polars.as_views(coded).to_pylist() == ["a", None, None, None]
    many = pa.DictionaryArray.from_arrays(codes, pa.array([str(n) for n in range(9)]))
    assert polars.as_views(many).to_pylist() == ["0", "1", None, "1"]
