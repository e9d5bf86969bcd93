"""Filters: the same text selects the same rows as in pylance, except where pylance is known to be wrong.

pylance is asked without page statistics; with them it errs in the cases at the end (file sheet 0.1, section 6.7).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = pytest.mark.interop

TEXTS = [
    "id = 7", "id <> 7", "id < 7", "id <= 7", "id > 140", "id >= 140", "7 < id", "id > 50 AND id < 60",
    "id < 5 OR id > 145", "NOT (id > 10)", "NOT id > 10 AND NOT id < 5", "id IN (1, 2, 3, 500)", "id NOT IN (1, 2, 3)",
    "id BETWEEN 20 AND 25", "id NOT BETWEEN 5 AND 140", "id % 10 = 3", "id * 2 + 1 > 290", "id - 100 > k", "-id > -5",
    "id / 2 = 10", "k = 7 OR k = 8", "k IN (7) AND flag", "flag", "NOT flag", "flag = true", "flag IS TRUE",
    "flag IS NOT TRUE", "flag IS FALSE", "flag <> false", "word = 'abc'", "word <> 'abc'", "word > 'm'", "word <= 'b'",
    "word IS NULL", "word IS NOT NULL", "word LIKE 'a%'", "word LIKE '%b%'", "word NOT LIKE 'a%'", "word LIKE '_b_'",
    "word ILIKE 'A%'", "word IN ('abc', 'a', 'b')", "word = 'abc' OR word IS NULL", "NOT (word = 'abc')",
    "length(word) > 10", "lower(word) = 'abc'", "starts_with(word, 'a')", "word BETWEEN 'f' AND 'k'", "raw IS NULL",
    "point.a > 0", "point.a > 0 AND point.b IS NOT NULL", "point.b = 'abc'", "point.b IS NULL", "colour = 'red'",
    "colour <> 'red'", "colour IN ('green', 'blue')", "`when` > TIMESTAMP '2010-01-01 00:00:00'",
    "`when` <= TIMESTAMP '1980-06-01 12:30:00' OR id = 3", "CAST(id AS string) = '17'", "CAST(k AS double) > 24.5",
    "id < 10 AND (k < 25 OR flag) AND word IS NOT NULL", "true", "false", "id = id", "1 = 2", "id IS NULL",
    "`id` = 12", "word IS NOT NULL AND NOT (word < 'c' OR word > 's')",
]  # fmt: skip


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.1", "2.2"])
def table_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("filters") / "t"
    table = live.mixed_table(150, nulls=0.1)
    live.write(table, path, max_rows_per_file=65, data_storage_version=request.param)
    live.peer(path).delete("id % 17 = 4")
    return path


@pytest.mark.parametrize("text", TEXTS)
def test_sql_text(text: str, table_path: Path) -> None:
    # Columns whose nulls the format loses hold the lost values now; both readers see the same.
    live.assert_same_filter(lancecy.dataset(table_path), live.peer(table_path), text)


ELEMENTS = [
    "events[1].kind = 'b'", "events[-1].size > 40", "events[1].size IS NULL",
    "events[2].place.x % 3 = 1", "events[1]['place'].x > events[2].place.x", "EVENTS[1].size IN (1, 2, 3)",
    "trip.stops[1] = 4", "trip.stops[9] IS NOT NULL", "trip.stops[-1] > trip.stops[1]",
    "trip.grid[2][1] < 30", "trip.stops[id % 3] < 20", "events[id % 2 + 1].kind LIKE 'a%'",
    "array_has(trip.grid[1], 5)", "array_element(events, 1).tags[1] = 't3'",
]  # fmt: skip


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_elements_of_lists_and_their_fields(version: str, tmp_path: Path) -> None:
    """Positions count from 1, or from the end; what is not there is null."""
    theirs = live.write(
        nested_table(400), tmp_path / "t", max_rows_per_file=150, data_storage_version=version
    )
    mine = lancecy.dataset(tmp_path / "t")
    for text in ELEMENTS:
        found = live.assert_same_filter(mine, theirs, text)
        assert 0 < found.num_rows <= 399, text


def nested_table(rows: int) -> pa.Table:
    rng = np.random.default_rng(5)

    def some(least: int, most: int, share: float, item: Callable[[], Any]) -> Any:
        return None if rng.random() < share else [item() for _ in range(rng.integers(least, most))]

    def number() -> int | None:
        return None if rng.random() < 0.1 else int(rng.integers(60))

    def event() -> dict[str, Any] | None:
        place = None if rng.random() < 0.2 else {"x": number()}
        kind = str(rng.choice(["a", "b", "ab"]))
        tags = some(0, 3, 0.2, lambda: f"t{number()}")
        return None if rng.random() < 0.1 else {"kind": kind, "size": number(), "place": place, "tags": tags}

    def trip() -> dict[str, Any] | None:
        grid = some(0, 4, 0.2, lambda: some(0, 4, 0.1, number))
        return None if rng.random() < 0.1 else {"stops": some(0, 12, 0.2, number), "grid": grid}

    place = pa.struct({"x": pa.int64()})
    kind = {"kind": pa.string(), "size": pa.int32(), "place": place, "tags": pa.list_(pa.string())}
    grid = pa.list_(pa.list_(pa.int16()))
    return pa.table(
        {
            "id": np.arange(rows),
            "trip": pa.array(
                [trip() for _ in range(rows)], pa.struct({"stops": pa.list_(pa.int64()), "grid": grid})
            ),
            "events": pa.array([some(0, 4, 0.2, event) for _ in range(rows)], pa.list_(pa.struct(kind))),
        }
    )


EXPRESSIONS = {
    "comparison": pc.field("id") > 100,
    "and": (pc.field("id") > 20) & (pc.field("k") < 30),
    "or not": (pc.field("flag")) | ~(pc.field("id") > 5),
    "is in": pc.field("word").isin(["abc", "a"]),
    "is null": pc.field("word").is_null(),
    "valid": pc.field("word").is_valid(),
    "arithmetic": pc.field("id") * 2 > 250,
    "nested": pc.field("point", "a") > 0,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_pyarrow_expression(name: str, table_path: Path) -> None:
    mine = lancecy.dataset(table_path)
    expected = mine.to_table().filter(EXPRESSIONS[name])

    assert 0 < expected.num_rows < mine.count_rows()
    assert_tables_equal(mine.to_table(filter=EXPRESSIONS[name]), expected)


def test_filter_with_limit_offset_and_columns(table_path: Path) -> None:
    mine, theirs = lancecy.dataset(table_path), live.peer(table_path)
    whole = theirs.to_table(filter="k < 25 AND word IS NOT NULL", columns=["x", "id"], use_stats=False)

    for limit, offset in [(3, 0), (5, 4), (1000, 7), (0, 0), (2, 1000)]:
        got = mine.to_table(
            filter="k < 25 AND word IS NOT NULL", columns=["x", "id"], limit=limit, offset=offset
        )
        assert_tables_equal(got, whole.slice(offset, limit), hint=f"limit {limit} offset {offset}")


def test_filter_within_fragments(table_path: Path) -> None:
    for a, e in zip(
        lancecy.dataset(table_path).get_fragments(), live.peer(table_path).get_fragments(), strict=True
    ):
        assert_tables_equal(a.to_table(filter="k < 25"), e.to_table(filter="k < 25"))
        assert a.count_rows(filter="k < 25") == e.count_rows(filter="k < 25")


def test_computed_columns(table_path: Path) -> None:
    columns = {
        "twice": "id * 2",
        "loud": "upper(word)",
        "id": "id",
        "cheap": "k < 10 AND flag",
        "a": "point.a",
    }
    mine = lancecy.dataset(table_path).to_table(columns=columns, filter="id > 20")
    theirs = live.peer(table_path).to_table(columns=columns, filter="id > 20", use_stats=False)

    assert_tables_equal(mine, theirs, nullability=False)


def test_order_by(table_path: Path) -> None:
    mine = lancecy.dataset(table_path).to_table(
        columns=["k", "id"], order_by=[("k", "descending"), ("id", "ascending")]
    )
    theirs = live.peer(table_path).to_table(columns=["k", "id"])

    assert_tables_equal(mine, theirs.sort_by([("k", "descending"), ("id", "ascending")]))


@pytest.mark.parametrize("seed", range(8))
def test_random_conjunctions_over_sorted_data(seed: int, tmp_path: Path) -> None:
    """Sorted columns have pages that do and do not match: whatever is pruned must not be missed."""
    rng = np.random.default_rng(seed)
    rows = 400
    table = pa.table(
        {
            "i": np.sort(rng.integers(-100, 100, rows)).astype(np.int16),
            "u": np.sort(rng.integers(0, 2**63, rows).astype(np.uint64) * np.uint64(2)),
            "s": np.sort([f"{'k' * int(n)}{n}" for n in rng.integers(0, 90, rows)]),
            "b": np.sort(rng.random(rows) < 0.5),
            "d": pa.array(np.sort(rng.integers(0, 20_000, rows)).astype(np.int32)).cast(pa.date32()),
        }
    )
    live.write(table, tmp_path / "t", max_rows_per_file=117)
    mine, theirs = lancecy.dataset(tmp_path / "t"), live.peer(tmp_path / "t")
    for _ in range(6):
        live.assert_same_filter(mine, theirs, random_predicate(table, rng))


def random_predicate(table: pa.Table, rng: np.random.Generator) -> str:
    parts = []
    for name in rng.choice(["i", "u", "s", "b", "d"], rng.integers(1, 4), replace=False):
        value = table[name][int(rng.integers(0, table.num_rows))].as_py()
        text = {"s": f"'{value}'", "d": f"DATE '{value}'"}.get(name, str(value).lower())
        operator = rng.choice(["=", "<>"] if name == "b" else ["=", "<>", "<", "<=", ">", ">="])
        parts.append(f"{name} {operator} {text}")
    return str(rng.choice([" AND ", " OR "])).join(parts)


# --------------------------------------------------------------------------- where pylance is wrong


def counts(path: Path, text: str) -> tuple[int, int, int]:
    """Rows selected by lancecy, by pylance with statistics, and by pylance without."""
    theirs = live.peer(path)
    return (
        lancecy.dataset(path).count_rows(filter=text),
        theirs.to_table(filter=text).num_rows,
        theirs.to_table(filter=text, use_stats=False).num_rows,
    )


def test_empty_strings_that_read_as_null(tmp_path: Path) -> None:
    """pylance's statistics say that there is no null; its reader makes nulls of the empty strings."""
    live.write(pa.table({"s": ["", "a", "", "b"]}), tmp_path / "t")
    unfiltered = lancecy.dataset(tmp_path / "t").to_table()["s"]

    assert unfiltered.null_count == 2
    assert counts(tmp_path / "t", "s IS NULL") == (2, 0, 2)
    assert counts(tmp_path / "t", "s IS NOT NULL") == (2, 4, 2)


def test_one_distinct_string_beside_nulls(tmp_path: Path) -> None:
    """pylance takes equal bounds for the value of every row, nulls included."""
    live.write(pa.table({"s": ["b", None, "b"]}), tmp_path / "t")

    assert counts(tmp_path / "t", "s IS NULL") == (1, 0, 1)
    assert counts(tmp_path / "t", "s >= 'b'") == (2, 3, 2)


def test_nulls_that_are_stored_as_values(tmp_path: Path) -> None:
    """The file holds zeros under the nulls, its statistics count nulls: the scan decides."""
    live.write(pa.table({"n": pa.array([5, None, 6, None], pa.int32())}), tmp_path / "t")

    assert lancecy.dataset(tmp_path / "t").to_table()["n"].to_pylist() == [5, 0, 6, 0]
    assert counts(tmp_path / "t", "n IS NULL")[::2] == (0, 0)
    assert counts(tmp_path / "t", "n = 0")[::2] == (2, 2)


@pytest.mark.parametrize(
    ("values", "text", "right"),
    [
        ([1.0, np.nan, 2.0], "f > 100", 0),
        ([1.0, np.nan, 1.0], "f = 1", 2),
        ([1.0, np.nan, 1.0], "f <> 1", 1),
        ([1.0, np.nan, 1.0], "NOT (f = 1)", 1),
        ([1.0, np.nan, 2.0], "NOT (f <= 100)", 1),
        ([np.nan, np.nan], "f = f", 0),
        ([np.nan, np.nan], "f <> f", 2),
        ([np.nan, -np.nan, np.inf], "f > 1.7976931348623157e308", 1),
        ([0.0, -0.0, 1.0], "f = 0", 2),
        ([0.0, -0.0, 1.0], "f < 0", 0),
        ([-0.0, -0.0], "f >= 0", 2),
        ([np.inf, -np.inf, 3.0], "f > 3", 1),
        ([np.inf, -np.inf, 3.0], "f < 1.7976931348623157e308", 2),
        ([np.nan, 5.0, 7.0], "f BETWEEN 5 AND 6", 1),
        ([np.nan, 5.0, 7.0], "f IN (5, 7)", 2),
        ([np.nan, 5.0, 7.0], "f NOT IN (5, 7)", 1),
    ],
)
def test_floats_follow_arrow(values: list[float], text: str, right: int, tmp_path: Path) -> None:
    """A NaN satisfies only ``<>`` and negations; pylance ranks it above all numbers, and with statistics misses it."""
    table = pa.table({"f": pa.array(values, pa.float64(), from_pandas=False)})
    live.write(table, tmp_path / "t")
    dataset = lancecy.dataset(tmp_path / "t")

    assert dataset.count_rows(filter=text) == right
    assert dataset.to_table(filter=text, use_stats=False).num_rows == right


@pytest.mark.parametrize("operator", ["<", "<=", "=", "<>", ">", ">="])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_float_comparisons_equal_the_filtered_scan(operator: str, kind: pa.DataType, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-45, 3.4e38])
    values = np.where(rng.random(200) < 0.3, rng.choice(special, 200), np.sort(rng.standard_normal(200)))
    live.write(pa.table({"f": pa.array(values, from_pandas=False).cast(kind)}), tmp_path / "t")
    dataset = lancecy.dataset(tmp_path / "t")
    whole = dataset.to_table()
    compare = {
        "<": pc.less,
        "<=": pc.less_equal,
        "=": pc.equal,
        "<>": pc.not_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }

    for bound in (-0.5, 0.0, 1.25, 99.0):
        expected = whole.filter(compare[operator](whole["f"], pa.scalar(bound, kind)))
        assert_tables_equal(
            dataset.to_table(filter=f"f {operator} {bound}"), expected, hint=f"{operator} {bound}"
        )


def test_pylance_misses_nan_rows_only_with_statistics(tmp_path: Path) -> None:
    """What makes the difference above worth having: pylance contradicts itself."""
    live.write(pa.table({"f": pa.array([1.0, float("nan"), 2.0], from_pandas=False)}), tmp_path / "t")
    theirs = live.peer(tmp_path / "t")

    assert theirs.to_table(filter="f > 100").num_rows == 0
    assert theirs.to_table(filter="f > 100", use_stats=False).num_rows == 1
