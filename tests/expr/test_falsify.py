"""What statistics prove, case by case. That they never prove too much is a property, tested in tests/properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import FormatError
from lancecy.expr import bind, falsify, parse
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds, StatsTable
from tests.helpers.folded import folded

NAN, INF = float("nan"), float("inf")
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "k": (pa.int64(), np.int64),
    "u": (pa.uint64(), np.uint64),
    "f": (pa.float64(), np.float64),
    "b": (pa.bool_(), np.int64),
    "d": (pa.date32(), np.int64),
    "n": (pa.decimal128(10, 2), object),
    "st": (pa.struct({"x": pa.int32()}), np.int64),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()] + [("s", pa.string())])


def numbers(bounds: list[tuple[Any, Any] | None], dtype: Any, **claims: Any) -> ColumnStats:
    """Statistics of pages with these bounds; None is unknown."""
    filler = (0, 0)
    lows, highs = (np.array([(b or filler)[side] for b in bounds], dtype) for side in (0, 1))
    known = np.array([b is not None for b in bounds])
    return column(NumericBounds(lows, highs, known), len(bounds), **claims)


def texts(bounds: list[tuple[bytes | None, bytes | None]], **claims: Any) -> ColumnStats:
    sides: list[Any] = []
    for side in (0, 1):
        parts = [b[side] or b"" for b in bounds]
        offsets = np.cumsum([0, *map(len, parts)]).astype(np.int64)
        sides += [
            offsets,
            np.frombuffer(b"".join(parts), np.uint8),
            np.array([b[side] is not None for b in bounds]),
        ]
    return column(ByteBounds(*sides), len(bounds), **claims)


def column(
    bounds: Any, count: int, no_nulls: bool = True, all_null: bool = False, nan: bool = False
) -> ColumnStats:
    return ColumnStats(bounds, np.full(count, no_nulls), np.full(count, all_null), nan)


def dropped(text: str, path: str | tuple[str, ...], stats: ColumnStats) -> list[int]:
    count = stats.no_nulls.size
    table = StatsTable(np.full(count, 10, np.int64), {(path,) if isinstance(path, str) else path: stats})
    expr = parse(text)
    assert expr is not None
    return np.flatnonzero(falsify(bind(expr, SCHEMA), table)).tolist()


PAGES = [(0, 9), (10, 19), (20, 29), None]


@folded(
    ("text", "pages"),
    [
        ("k < 10", [1, 2]), ("k <= 10", [2]), ("k > 19", [0, 1]), ("k >= 19", [0]), ("k = 15", [0, 2]),
        ("k = 100", [0, 1, 2]), ("k != 15", []), ("NOT (k < 10)", [0]), ("NOT (k >= 10)", [1, 2]),
        ("k < 10 AND k > 5", [1, 2]), ("k < 10 OR k > 25", [1]), ("NOT (k < 10 OR k > 25)", [0]),
        ("NOT (k >= 10 AND k <= 19)", [1]), ("k IN (5, 25)", [1]), ("k NOT IN (5, 25)", []), ("k IN (100, 200)", [0, 1, 2]),
        ("k BETWEEN 12 AND 22", [0]), ("k NOT BETWEEN 0 AND 19", [0, 1]), ("k IS NULL", [0, 1, 2, 3]), ("k IS NOT NULL", []),
        ("k < 9.5", [1, 2]), ("k > 1e300", [0, 1, 2]), ("k < -9223372036854775809", [0, 1, 2]), ("k = 10.5", [0, 1, 2]),
        ("(k < 10) IS TRUE", [1, 2]), ("(k < 10) IS NOT TRUE", [0]), ("(k < 10) IS FALSE", [0]), ("(k < 10) IS NULL", [0, 1, 2, 3]),
        ("k IS NOT DISTINCT FROM 15", [0, 2]), ("k IS DISTINCT FROM 15", []), ("FALSE", [0, 1, 2, 3]), ("NULL", [0, 1, 2, 3]),
        ("TRUE", []), ("k + 1 < 0", []), ("k = u", []), ("u > 5 OR k < 0", []), ("u > 5 AND k < 0", [0, 1, 2]),
        ("CASE WHEN k < 0 THEN TRUE END", []), ("k < 0 AND (CASE WHEN k < 0 THEN TRUE END)", [0, 1, 2]), ("15 = k", [0, 2]),
    ],
)  # fmt: skip
def test_page_is_dropped_if_its_range_cannot_match(text: str, pages: list[int]) -> None:
    assert dropped(text, "k", numbers(PAGES, np.int64)) == pages


@folded(
    ("text", "path", "stats", "pages"),
    [
        ("u > 18446744073709551614", "u", numbers([(0, 2**63), (2**63, 2**64 - 1)], np.uint64), [0]),
        ("u = -1", "u", numbers([(0, 2**64 - 1)], np.uint64), [0]),
        ("k = 9007199254740993", "k", numbers([(0, 2**53), (2**53 + 2, 2**60)], np.int64), [0, 1]),
        ("b", "b", numbers([(0, 0), (0, 1), (1, 1)], np.int64), [0]),
        ("NOT b", "b", numbers([(0, 0), (0, 1), (1, 1)], np.int64), [2]),
        ("b = FALSE", "b", numbers([(0, 0), (0, 1), (1, 1)], np.int64), [2]),
        ("d >= date '1970-01-11'", "d", numbers([(0, 9), (10, 19)], np.int64), [0]),
        ("d > '1970-01-10 12:00:00'", "d", numbers([(0, 9), (10, 19)], np.int64), [0]),
        ("n < 1.5", "n", numbers([(0, 149), (150, 200)], object), [1]),
        ("n = 1.505", "n", numbers([(0, 149), (150, 200)], object), [0, 1]),
        ("st.x > 5", ("st", "x"), numbers([(0, 5), (0, 6)], np.int64), [0]),
        ("f > 1", "f", numbers([(-5.0, 1.0), (0.0, 2.0)], np.float64), [0]),
        ("f = 0", "f", numbers([(-0.0, -0.0), (1.0, INF)], np.float64), [1]),
        ("f < -1e308", "f", numbers([(-INF, 0.0), (0.0, INF)], np.float64), [1]),
    ],
)
def test_other_types_are_compared_in_their_own_unit(
    text: str, path: Any, stats: ColumnStats, pages: list[int]
) -> None:
    assert dropped(text, path, stats) == pages


@folded(
    ("text", "without", "with_nan"),
    [
        ("f > 100", [0], [0]), ("f < 0", [0], [0]), ("f = 100", [0], [0]), ("f != 5", [], []), ("NOT (f < 100)", [0], []),
        ("NOT (f > 0)", [], []), ("NOT (f >= 0)", [0], []), ("f = f", [], []), ("isnan(f)", [0], []), ("NOT isnan(f)", [], []),
        ("NOT (f > 100)", [], []), ("f IN (50, 60)", [0], [0]), ("f NOT IN (50)", [], []), ("f BETWEEN 50 AND 60", [0], [0]),
        ("f NOT BETWEEN -1 AND 60", [0], []), ("f IS NULL", [0], [0]), ("f = CAST('nan' AS double)", [0], [0]),
        ("f != CAST('nan' AS double)", [], []), ("NOT (f != CAST('nan' AS double))", [0], [0]),
    ],
)  # fmt: skip
def test_nan_may_be_anywhere_in_a_float_column(text: str, without: list[int], with_nan: list[int]) -> None:
    assert dropped(text, "f", numbers([(0.0, 10.0)], np.float64)) == without
    assert dropped(text, "f", numbers([(0.0, 10.0)], np.float64, nan=True)) == with_nan


def test_constant_page_falsifies_inequality_only_without_nan() -> None:
    assert dropped("f != 5", "f", numbers([(5.0, 5.0)], np.float64)) == [0]
    assert dropped("f != 5", "f", numbers([(5.0, 5.0)], np.float64, nan=True)) == []
    assert dropped("f NOT IN (5, 6)", "f", numbers([(5.0, 5.0)], np.float64)) == [0]
    assert dropped("f NOT IN (5, 6)", "f", numbers([(5.0, 5.0)], np.float64, nan=True)) == []


def test_nulls_are_never_true_and_may_be_null() -> None:
    some = numbers([(0, 9)], np.int64, no_nulls=False)
    assert dropped("k > 9", "k", some) == [0]
    assert dropped("k IS NULL", "k", some) == []
    assert dropped("(k > 9) IS NULL", "k", some) == []
    assert dropped("(k > 9) IS NOT TRUE", "k", some) == []
    assert dropped("(k < 100) IS NOT TRUE", "k", some) == []
    assert dropped("(k < 100) IS NOT TRUE", "k", numbers([(0, 9)], np.int64)) == [0]
    nothing = column(None, 1, no_nulls=False, all_null=True)
    for text in (
        "k = 1",
        "k != 1",
        "NOT (k = 1)",
        "k IN (1)",
        "k NOT IN (1)",
        "k IS NOT NULL",
        "k IS NOT NULL AND k > 0",
    ):
        assert dropped(text, "k", nothing) == [0], text
    assert dropped("k IS NULL", "k", nothing) == []
    assert dropped("(k = 1) IS NULL", "k", nothing) == []


@folded(
    ("text", "pages"),
    [
        ("s = 'b'", [0, 2]), ("s < 'b'", [1, 2]), ("s > 'c'", [0, 1]), ("s LIKE 'b%'", [0, 2]), ("s LIKE 'az_x'", [1, 2]),
        ("s LIKE 'z%'", [0, 1]), ("NOT starts_with(s, 'z')", []), ("s NOT LIKE 'b%'", []), ("s IN ('b', 'bb')", [0, 2]),
        ("s >= 'x'", [0, 1]), ("s ILIKE 'b%'", []), ("s LIKE '%b'", []), ("s = ''", [0, 1, 2]), ("s LIKE 'b'", [0, 2]),
    ],
)  # fmt: skip
def test_text_is_compared_byte_by_byte_and_prefixes_are_ranges(text: str, pages: list[int]) -> None:
    pages_of = [(b"a", b"az\x7f"), (b"b", b"c"), (b"x", None), (None, None)]
    assert dropped(text, "s", texts(pages_of)) == pages


def test_prefix_that_all_values_have_falsifies_its_negation() -> None:
    bounds: list[tuple[bytes | None, bytes | None]] = [
        (b"ab", b"abz"),
        (b"ab", b"ac"),
        (b"aa", b"abz"),
        (b"ab", None),
    ]
    assert dropped("s NOT LIKE 'ab%'", "s", texts(bounds)) == [0]
    assert dropped("NOT starts_with(s, 'ab')", "s", texts(bounds)) == [0]
    assert dropped("s NOT LIKE 'ab%c'", "s", texts(bounds)) == []


def test_prefix_at_the_end_of_the_order_has_no_upper_end() -> None:
    top = "\U0010ffff"
    stats = texts([(b"a", b"b"), (top.encode(), (top * 2).encode()), (b"\xf5", b"\xff")])
    assert dropped(f"s LIKE '{top}%'", "s", stats) == [0, 2]


def test_long_lists_are_searched() -> None:
    members = ", ".join(str(v) for v in range(100, 200, 2))
    stats = numbers(
        [(0, 99), (100, 100), (101, 101), (198, 500), (199, 500), (50, 150), None, (7, 3)], np.int64
    )
    assert dropped(f"k IN ({members})", "k", stats) == [0, 2, 4]
    assert dropped(f"k IN ({members}, NULL)", "k", stats) == [0, 2, 4]
    assert dropped(f"k NOT IN ({members})", "k", stats) == [1]
    decimals = numbers([(0, 9_999), (10_100, 10_150), (20_000, 30_000)], object)
    assert dropped(f"n IN ({members})", "n", decimals) == [0, 2]
    words = ", ".join(f"'m{v:03}'" for v in range(50))
    assert dropped(f"s IN ({words})", "s", texts([(b"a", b"b"), (b"m010x", b"m010y"), (b"n", b"z")])) == [
        0,
        2,
    ]


@pytest.mark.parametrize("text", ["k < 5", "k = 5", "k != 5", "NOT (k < 5)", "k IN (1, 2)"])
def test_bounds_the_wrong_way_round_prove_nothing(text: str) -> None:
    assert dropped(text, "k", numbers([(9, 0)], np.int64)) == []
    assert dropped(text.replace("k", "n", 1), "n", numbers([(900, 0)], object)) == []
    assert dropped(text.replace("k", "f", 1), "f", numbers([(9.0, 0.0)], np.float64)) == []


@pytest.mark.parametrize("bounds", [(NAN, 1.0), (1.0, NAN), (NAN, NAN)])
def test_nan_as_a_bound_proves_nothing(bounds: tuple[float, float]) -> None:
    for text in ("f < -5", "f > 5", "f = 5", "NOT (f < 5)", "f IN (7, 8)"):
        assert dropped(text, "f", numbers([bounds], np.float64)) == []


def test_statistics_of_other_types_than_the_column_are_compared_as_numbers() -> None:
    assert dropped("k > 100", "k", numbers([(0, 9)], np.int32)) == [0]
    assert dropped("k > 100", "k", numbers([(0.0, 9.5)], np.float64)) == [0]
    assert dropped("k < 9007199254740993", "k", numbers([(2.0**53, 2.0**53)], np.float64)) == []
    assert dropped("s > 'a'", "s", numbers([(0, 9)], np.int64)) == []


def test_empty_units_are_dropped_and_unknown_columns_are_not() -> None:
    stats = StatsTable(np.array([0, 5], np.int64), {})
    expr = parse("k > 5")
    assert expr is not None
    assert falsify(bind(expr, SCHEMA), stats).tolist() == [True, False]
    assert falsify(bind(expr, SCHEMA), StatsTable(np.array([], np.int64), {})).tolist() == []


def test_offsets_that_do_not_fit_are_a_format_error() -> None:
    bounds = ByteBounds(
        np.array([0, 50], np.int64), np.zeros(3, np.uint8), np.array([True]),
        np.array([0, 1], np.int64), np.zeros(3, np.uint8), np.array([True]),
    )  # fmt: skip
    with pytest.raises(FormatError):
        dropped("s = 'a'", "s", column(bounds, 1))


def empty_pages(text: str, schema: pa.Schema, table: StatsTable) -> Any:
    expr = parse(text)
    assert expr is not None
    return falsify(bind(expr, schema), table)


@folded(
    ("text", "pages"),
    [
        ("c = 'm'", [0, 2]),
        ("c != 'b'", []),
        ("c in ('a', 'd')", [1, 2]),
        ("c like 'x%'", [0, 1]),
        ("c is null", [0, 1, 2]),
        ("not (c < 'm')", [0]),
        ("c > 'd' or c is null", [0]),
    ],
)
def test_dictionaries_are_known_by_the_bounds_of_their_values(text: str, pages: list[int]) -> None:
    stats = texts([(b"a", b"d"), (b"g", b"p"), (b"x", b"z")])
    table = StatsTable(np.full(3, 10, np.int64), {("c",): stats})
    schema = pa.schema([("c", pa.dictionary(pa.int8(), pa.string()))])
    assert np.flatnonzero(empty_pages(text, schema, table)).tolist() == pages


def test_codes_without_nulls_prove_nothing_of_values_that_may_be_null() -> None:
    # Pages of 2.x have no bounds, and a code that is no null may name a null.
    table = StatsTable(np.full(1, 10, np.int64), {("c",): column(None, 1)})
    schema = pa.schema([("c", pa.dictionary(pa.int8(), pa.string()))])
    for text in ("c = 'm'", "(c = 'm') is null", "length(c) is null"):
        assert not empty_pages(text, schema, table).any()


def test_half_floats_are_compared_as_what_they_are_widened_to() -> None:
    stats = numbers([(0.5, 1.5), (2, 3)], np.float64, nan=True)
    table = StatsTable(np.full(2, 10, np.int64), {("h",): stats})
    schema = pa.schema([("h", pa.float16())])
    for text, expected in (("h > 1.5", [True, False]), ("h = 2.5", [True, False]), ("h < 2", [False, True])):
        assert empty_pages(text, schema, table).tolist() == expected
    assert not empty_pages("h != 1", schema, table).any()
