"""Pruning never drops a matching row, whatever legal statistics say and whatever the condition is.

The statistics are built here, naively and adversarially: bounds may be exact, loose, cut short, absent, or, of
pages where nothing binds them (all null, all NaN), plain nonsense. Rows are judged by the package's evaluation and
by the plain-Python oracle; the two must agree as well.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancecy.expr import bind, evaluate, falsify
from lancecy.expr.build import Term, as_expr, col
from lancecy.expr.nodes import Call, Expr, negate
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds, StatsTable
from tests.expr.oracle import answers

NAN, INF = float("nan"), float("inf")
NEGATIVE_NAN = float(np.copysign(np.nan, -1.0))
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 5e-324, 1.5, 2.0**53, 1e308, INF, -INF, NAN, NEGATIVE_NAN]
FLOATS32 = [0.0, -0.0, 1.0, -1.5, float(np.float32(0.1)), INF, -INF, NAN, float(np.finfo(np.float32).max)]
INTS = [0, 1, -1, 2, 7, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
UNSIGNED = [0, 1, 7, 2**53 + 1, 2**63, 2**64 - 1]
STRINGS = ["", "a", "ab", "abc", "abd", "b", "Z", "é", "x" * 70, "x" * 69 + "y", "\U0010ffff" * 2, "a\x00"]
BYTES = [b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff", b"\xff\x00", b"b" * 66]
DAYS = [
    dt.date(1970, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(2020, 2, 29),
    dt.date(9999, 12, 31),
    dt.date(1, 1, 1),
]
DECIMALS = [Decimal(t) for t in ("0.00", "1.10", "-1.10", "99999999.99", "-99999999.99", "7.77")]

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "f": (pa.float64(), FLOATS),
    "g": (pa.float32(), FLOATS32),
    "i": (pa.int64(), INTS),
    "k": (pa.int8(), [0, 1, -1, 127, -128, 5]),
    "u": (pa.uint64(), UNSIGNED),
    "s": (pa.string(), STRINGS),
    "y": (pa.binary(), BYTES),
    "b": (pa.bool_(), [True, False]),
    "d": (pa.date32(), DAYS),
    "n": (pa.decimal128(10, 2), DECIMALS),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in POOLS.items()])
# Constants that a column's type may be unable to hold are part of the game.
CONSTANTS: dict[str, list[Any]] = {
    "f": [*FLOATS, 0, 1, 2**53 + 1, -(2**53) - 1, 10**400, Decimal("0.1"), 2**64],
    "g": [*FLOATS32, 0, 0.1, 1e300, -1e300, 2**24 + 1, Decimal("0.1")],
    "i": [*INTS, 0.5, -0.5, 2.0**53, 1e300, INF, -INF, NAN, 2**64, -(2**70), Decimal("1.5")],
    "k": [0, 1, -1, 127, 128, -128, -129, 1000, 0.5, NAN, INF],
    "u": [*UNSIGNED, -1, 0.5, 2.0**63, 2**64, INF],
    "s": STRINGS,
    "y": BYTES,
    "b": [True, False],
    "d": [*DAYS, dt.datetime(1969, 12, 31, 12), dt.datetime(2020, 2, 29), "2020-02-29"],
    "n": [*DECIMALS, Decimal("1.105"), 1, 1.1, 10**12, -(10**12), 0.5],
}
# Members of long lists: they lie between, below and above the values of the pools.
LONG: dict[str, list[Any]] = {
    "f": [v / 2 for v in range(-30, 30)],
    "i": [*range(3, 40), 2**53 - 1, 2**53 + 2],
    "k": list(range(-100, 100, 3)),
    "u": [*range(2, 40), 2**63 - 1, 2**64 - 2],
    "s": [f"a{c}" for c in "cdefghijklmnopqrstuvwxyz"],
    "n": [Decimal(v) / 100 for v in range(-50, 50)],
}


# Statistics


def table_stats(pages: list[pa.Table], rng: random.Random) -> StatsTable:
    """Legal statistics of the pages: sometimes tight, sometimes loose, sometimes silent."""
    columns: dict[tuple[str, ...], ColumnStats] = {}
    for name, (kind, pool) in POOLS.items():
        if rng.random() < 0.9:
            values = [page.column(name).to_pylist() for page in pages]
            columns[(name,)] = column_stats(values, kind, pool, rng)
    return StatsTable(np.array([page.num_rows for page in pages], np.int64), columns)


def column_stats(
    pages: list[list[Any]], kind: pa.DataType, pool: list[Any], rng: random.Random
) -> ColumnStats:
    present = [[v for v in page if v is not None] for page in pages]
    no_nulls = np.array([len(p) == len(v) and rng.random() < 0.8 for p, v in zip(pages, present)])
    all_null = np.array([not v and rng.random() < 0.8 for v in present])
    has_nan = any(v != v for page in present for v in page)
    may_have_nan = has_nan or (pa.types.is_floating(kind) and rng.random() < 0.5)
    if rng.random() < 0.05:
        return ColumnStats(None, no_nulls, all_null, may_have_nan)
    binding = [[v for v in page if v == v] for page in present]
    make: Callable[..., Any] = (
        byte_bounds if pa.types.is_string(kind) or pa.types.is_binary(kind) else number_bounds
    )
    return ColumnStats(make(binding, kind, pool, rng), no_nulls, all_null, may_have_nan)


def stored(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_date(kind):
        return value.toordinal() - dt.date(1970, 1, 1).toordinal()
    return (
        int(value.scaleb(2))
        if isinstance(value, Decimal)
        else int(value)
        if isinstance(value, bool)
        else value
    )


def number_bounds(
    pages: list[list[Any]], kind: pa.DataType, pool: list[Any], rng: random.Random
) -> NumericBounds:
    every = sorted(stored(v, kind) for v in pool if v == v)
    lows, highs, known = [], [], []
    for page in pages:
        values = [stored(v, kind) for v in page]
        if not values:
            # Nothing is bound by these: any pair is legal, the wrong way round included.
            low, high = rng.choice(every), rng.choice(every)
        else:
            low, high = min(values), max(values)
            if rng.random() < 0.4:
                low = rng.choice([v for v in every if v <= low])
            if rng.random() < 0.4:
                high = rng.choice([v for v in every if v >= high])
            if low == 0 and pa.types.is_floating(kind):
                low = rng.choice([0.0, -0.0])
            if high == 0 and pa.types.is_floating(kind):
                high = rng.choice([0.0, -0.0])
        usable = rng.random() < 0.9
        lows.append(low if usable else rng.choice(every))
        highs.append(high if usable else rng.choice(every))
        known.append(usable)
    dtype: Any = object if pa.types.is_decimal(kind) else np.uint64 if kind == pa.uint64() else np.int64
    dtype = np.float64 if pa.types.is_floating(kind) else dtype
    if dtype is np.float64:
        # What is not known may be NaN as well.
        lows = [NAN if not k and rng.random() < 0.5 else v for v, k in zip(lows, known)]
    return NumericBounds(np.array(lows, dtype), np.array(highs, dtype), np.array(known))


def byte_bounds(pages: list[list[Any]], kind: pa.DataType, pool: list[Any], rng: random.Random) -> ByteBounds:
    every = sorted(v.encode() if isinstance(v, str) else v for v in pool)
    lows: list[bytes | None] = []
    highs: list[bytes | None] = []
    for page in pages:
        values = [v.encode() if isinstance(v, str) else v for v in page]
        if not values:
            low: bytes | None = rng.choice(every)
            high: bytes | None = rng.choice(every)
        else:
            low, high = cut_low(min(values), rng), cut_high(max(values), rng)
        lows.append(low if rng.random() < 0.9 else None)
        highs.append(high if rng.random() < 0.9 else None)
    sides: list[Any] = []
    for bounds in (lows, highs):
        # An absent bound may still occupy bytes.
        parts = [b if b is not None else rng.choice(every) for b in bounds]
        offsets = np.cumsum([0, *(len(p) for p in parts)]).astype(np.int64)
        sides += [
            offsets,
            np.frombuffer(b"".join(parts), np.uint8),
            np.array([b is not None for b in bounds]),
        ]
    return ByteBounds(*sides)


def cut_low(value: bytes, rng: random.Random) -> bytes:
    return value[: rng.randrange(len(value) + 1)] if rng.random() < 0.5 else value


def cut_high(value: bytes, rng: random.Random) -> bytes | None:
    """A prefix made larger than everything that begins with it, or nothing if there is no such string."""
    if rng.random() < 0.5:
        return value
    prefix = value[: rng.randrange(len(value) + 1)].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


# Conditions


def condition(rng: random.Random, depth: int = 3) -> Expr:
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        return leaf(rng)
    if kind < 0.5:
        return negate(condition(rng, depth - 1))
    if kind < 0.6:
        return Call("is_true", (condition(rng, depth - 1),))
    if kind < 0.65:
        return Call("is_null", (condition(rng, depth - 1),))
    parts = [Term(condition(rng, depth - 1)) for _ in range(rng.randrange(2, 4))]
    joined = parts[0]
    for part in parts[1:]:
        joined = (joined & part) if kind < 0.85 else (joined | part)
    return joined.expr


def leaf(rng: random.Random) -> Expr:
    name = rng.choice(list(POOLS))
    column, pool = col(name), CONSTANTS[name]
    kind = rng.random()
    if kind < 0.1:
        return column.is_null().expr
    if kind < 0.3:
        values = rng.choices(pool, k=rng.choice([1, 2, 3])) + ([None] if rng.random() < 0.2 else [])
        if name in LONG and rng.random() < 0.3:
            # Long enough to be searched instead of tested one by one.
            values += rng.sample(LONG[name], 20)
        return column.isin(values).expr
    if kind < 0.4:
        return column.between(rng.choice(pool), rng.choice(pool)).expr
    if kind < 0.45:
        return Call("is_not_distinct", (column.expr, as_expr(rng.choice([*pool, None]))))
    if name == "b" and kind < 0.7:
        return column.expr
    if name in ("f", "g") and kind < 0.55:
        return column.is_nan().expr
    if name == "s" and kind < 0.75:
        text = rng.choice(
            ["a%", "ab%", "%", "x%", "x" * 66 + "%", "abc", "a_c%", "%b", "\U0010ffff%", "é%", ""]
        )
        pattern = column.like(text) if rng.random() < 0.8 else column.starts_with(text.rstrip("%"))
        return pattern.expr
    op = rng.choice(["=", "!=", "<", "<=", ">", ">="])
    sides = (column.expr, as_expr(rng.choice(pool)))
    return Call(op, sides if rng.random() < 0.9 else sides[::-1])


# Pages


def page(rng: random.Random) -> pa.Table:
    rows = rng.choice([0, 1, 1, 2, 3, 5])
    columns = {}
    for name, (kind, pool) in POOLS.items():
        mode = rng.random()
        if mode < 0.15:
            values: list[Any] = [None] * rows
        elif mode < 0.3:
            values = [rng.choice(pool)] * rows
        elif mode < 0.4:
            values = [{"f": NAN, "g": NAN, "s": "", "y": b""}.get(name, pool[0])] * rows
        else:
            part = rng.choices(pool, k=2)
            values = [rng.choice([*part, None] if mode < 0.7 else part) for _ in range(rows)]
        columns[name] = pa.array(values, kind)
    return pa.table(columns, schema=SCHEMA)


def assert_no_matching_row_is_dropped(
    pages: list[pa.Table], stats: StatsTable, expr: Expr, oracle: bool
) -> int:
    bound = bind(expr, SCHEMA, boolean=True)
    dropped = falsify(bound, stats)
    assert dropped.dtype == np.bool_
    assert dropped.shape == (len(pages),)
    table = pa.concat_tables(pages)
    found = evaluate(bound, table).to_pylist()
    if oracle:
        assert found == answers(expr, table), expr
    starts = np.cumsum([0, *(p.num_rows for p in pages)])
    for number in np.flatnonzero(dropped):
        kept = found[starts[number] : starts[number + 1]]
        assert True not in kept, (expr, pages[number].to_pylist(), stats.columns)
    return int(dropped.sum())


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_rows_are_the_same_with_and_without_pruning(seed: int) -> None:
    rng = random.Random(seed)
    pages = [page(rng) for _ in range(8)]
    stats = table_stats(pages, rng)
    for _ in range(10):
        assert_no_matching_row_is_dropped(pages, stats, condition(rng), oracle=True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_many_conditions_over_many_pages_lose_nothing_and_prune_much(seed: int) -> None:
    rng = random.Random(1000 + seed)
    pages = [page(rng) for _ in range(120)]
    stats = table_stats(pages, rng)
    dropped = sum(
        assert_no_matching_row_is_dropped(pages, stats, condition(rng), oracle=False) for _ in range(600)
    )
    # A falsify that proves nothing would pass all else.
    assert dropped > 600 * len(pages) * 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", POOLS)
def test_exact_bounds_drop_every_page_that_a_comparison_cannot_match(name: str) -> None:
    """With tight statistics and no nulls or NaN, comparisons of one column are decided exactly."""
    kind, pool = POOLS[name]
    values = [v for v in pool if v == v]
    pages = [pa.table({name: pa.array([v, v], kind)}) for v in values]
    sure = np.ones(len(pages), bool)
    bounds = exact_bounds(values, kind)
    stats = StatsTable(np.full(len(pages), 2, np.int64), {(name,): ColumnStats(bounds, sure, ~sure)})
    for op in ("=", "!=", "<", "<=", ">", ">="):
        for constant in CONSTANTS[name]:
            for expr in (
                Call(op, (col(name).expr, as_expr(constant))),
                col(name).isin([constant, pool[0]]).expr,
            ):
                for tested in (expr, negate(expr)):
                    bound = bind(tested, pages[0].schema)
                    matches = [True in evaluate(bound, one).to_pylist() for one in pages]
                    assert (~falsify(bound, stats)).tolist() == matches, tested


def exact_bounds(values: list[Any], kind: pa.DataType) -> NumericBounds | ByteBounds:
    known = np.ones(len(values), bool)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        parts = [v.encode() if isinstance(v, str) else v for v in values]
        offsets = np.cumsum([0, *(len(p) for p in parts)]).astype(np.int64)
        data = np.frombuffer(b"".join(parts), np.uint8)
        return ByteBounds(offsets, data, known, offsets, data, known)
    numbers = [stored(v, kind) for v in values]
    dtype: Any = object if pa.types.is_decimal(kind) else np.uint64 if kind == pa.uint64() else np.int64
    array = np.array(numbers, np.float64 if pa.types.is_floating(kind) else dtype)
    return NumericBounds(array, array, known)
