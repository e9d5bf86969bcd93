"""CAST from every family of types to every other: extreme values against exact arithmetic."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import ExpressionError, LanceError
from lancecy.expr import bind, col, evaluate, lit, parse
from lancecy.expr.describe import describe
from lancecy.expr.evaluation import try_casts
from lancecy.expr.evaluation.casts import cast_values
from lancecy.expr.evaluation.try_casts import try_cast_values
from tests.expr.cast_model import FAILS, UNKNOWN, expected, family_of, stored
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

_INTEGERS = [
    0,
    1,
    -1,
    127,
    128,
    -128,
    -129,
    255,
    256,
    2049,
    65_504,
    65_519,
    65_520,
    86_399,
    86_400,
    2**24 + 1,
    2**25 + 3,
]
_INTEGERS += [
    2**31 - 1,
    2**31,
    -(2**31),
    -(2**31) - 1,
    2**32,
    86_400_000,
    86_400 * 10**6,
    86_400 * 10**9,
    2**53 + 1,
]
_INTEGERS += [
    -(2**53) - 1,
    2**54 + 2,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
    2**64 - 1024,
    10**18,
    10**18 + 64,
]
_FLOATS = [
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    0.1,
    0.005,
    0.125,
    2.675,
    1.005,
    1.115,
    1e15 + 0.3,
    9.5,
    99.5,
]
_FLOATS += [
    99.4999999,
    0.49999999999999994,
    4503599627370495.5,
    4503599627370497.5,
    1e22,
    1e23,
    9.99e37,
    1e38,
    1.7e38,
]
_FLOATS += [
    1e65,
    1e76,
    1e300,
    -1e300,
    5e-324,
    2.0**63,
    -(2.0**63),
    2.0**63 - 1024,
    2.0**64,
    65_519.999,
    65_520.0,
    3.5e38,
]
_FLOATS += [
    3.4028235677973366e38,
    1e-45,
    7e-46,
    -0.4,
    127.9,
    -128.9,
    255.9,
    -0.99,
    math.nan,
    math.inf,
    -math.inf,
]
_DECIMALS = [
    "0",
    "0.5",
    "1.5",
    "2.5",
    "-2.5",
    "0.005",
    "99.995",
    "-9007199254740993",
    "1.2345",
    "123.45678",
    "-0.9",
    "255.9",
]
_DECIMALS += [
    "2147483647.9",
    "1234567890123456789.1234",
    "0.1",
    "0.3",
    "65519.9999999999",
    "65520",
    "16777217.0000000001",
]
_BIG_DECIMALS = [
    "99999999999999999999999999.99",
    "1e60",
    "-1e60",
    "340282356779733661637539395458142568448",
    "1e-10",
]
_TEXTS = [
    "",
    "0",
    "1",
    "-1",
    "+5",
    " 5",
    "5 ",
    "0x10",
    "-0x1",
    "1.5",
    "-2.5",
    "2.5",
    "0.005",
    ".5",
    "5.",
    "1e2",
    "1E2",
    "1e-3",
]
_TEXTS += [
    "1e400",
    "1e-400",
    "1e999999999",
    "-1e-999999999",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "9223372036854775807",
]
_TEXTS += [
    "9223372036854775808",
    "1" * 40,
    "1" * 80,
    "-" + "9" * 38,
    "0." + "1" * 80,
    "0.5" + "0" * 80 + "1",
    "9" * 38 + ".5",
]
_TEXTS += [
    "1_000",
    "\u0661",
    "true",
    "TRUE",
    "yes",
    "7" * 5000,
    "2020-01-01",
    "2020-1-1",
    "9999-12-31",
    "0000-01-01",
]
_TEXTS += [
    "10000-01-01",
    "2020-13-01",
    "2020-02-30",
    "2020-01-01 10:00:00",
    "2020-01-01T10:00:00Z",
    "-0001-01-01",
]
_TEXTS += ["2020-01-01 10:00:00+02:00", "2020-01-01 10:00:00.123456789", "2020-01-01 10:00:00.1234567891"]
_TEXTS += [
    "2020-01-01 24:00:00",
    "2020-01-01 10:00:60",
    "1969-12-31 23:59:59.5",
    "1677-09-21 00:12:43",
    "1677-09-22 00:00:00",
]
_TEXTS += [
    "2262-04-11 23:47:16",
    "2262-04-11 23:47:17",
    "10:00:00",
    "10:00",
    "23:59:59.999999999",
    "24:00:00",
    "1:00:00",
]
_DAYS = [
    0,
    -1,
    1,
    -719_529,
    -719_528,
    -719_163,
    -719_162,
    2_932_896,
    2_932_897,
    106_751,
    106_752,
    -106_752,
    12_000_000,
]


def _ticks(kind: pa.DataType, per_day: int) -> pa.Array:
    second = per_day // 86_400
    ticks = [
        0,
        1,
        -1,
        second,
        -second,
        per_day - 1,
        -per_day - 1,
        2**62 + 1,
        2**63 - 1,
        -(2**63),
        -(2**63) + per_day // 2,
    ]
    ticks += [day * per_day + 7 for day in _DAYS if abs(day) * per_day < 2**62]
    return pa.array(ticks).view(kind)


def _decimals(kind: pa.DataType, texts: list[str]) -> pa.Array:
    with localcontext(prec=100):
        return pa.array([Decimal(t).quantize(Decimal((0, (1,), -kind.scale))) for t in texts], kind)


def _sources() -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    for bits in (8, 16, 32, 64):
        for kind, low, high in (
            (f"int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            (f"uint{bits}", 0, 2**bits - 1),
        ):
            found[kind] = pa.array([v for v in _INTEGERS if low <= v <= high], kind)
    with np.errstate(over="ignore"):
        found["half"] = pa.array(np.array(_FLOATS).astype(np.float16))
        found["float"] = pa.array(np.array(_FLOATS).astype(np.float32))
    found["double"] = pa.array(_FLOATS)
    for kind in (pa.decimal128(38, 4), pa.decimal128(38, 15), pa.decimal256(76, 10), pa.decimal256(76, 40)):
        found[str(kind)] = _decimals(kind, _DECIMALS)
    found["decimal256(76, 10) far"] = _decimals(pa.decimal256(76, 10), _BIG_DECIMALS)
    found["decimal256 whole"] = pa.array(
        [Decimal(10**75), Decimal(5), Decimal(-(10**37))], pa.decimal256(76, 0)
    )
    found["decimal of hundreds"] = pa.array([Decimal("1.2E+3"), Decimal("-5E+4")], pa.decimal128(5, -2))
    found["text"], found["long text"] = pa.array(_TEXTS), pa.array(_TEXTS, pa.large_string())
    found["bytes"] = pa.array([b"", b"abc", b"\xff", b"1", b"1.5", b"2.5", b"0x10", b"true"])
    found["two bytes"] = pa.array([b"ab", b"\xff\xfe", b"12"], pa.binary(2))
    found["boolean"] = pa.array([True, False])
    found["date32"] = pa.array([*_DAYS, 2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())
    found["date64"] = pa.array([d * 86_400_000 for d in (*_DAYS, 2**33, -(2**33))]).view(pa.date64())
    for unit, second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC", "America/New_York"):
            found[f"timestamp {unit} {zone}"] = _ticks(pa.timestamp(unit, zone), 86_400 * second)
        found[f"interval {unit}"] = _ticks(pa.duration(unit), 86_400 * second)
        kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        clock = [0, 1, 86_400 * second - 1, 3600 * second]
        found[f"time {unit}"] = pa.array(clock, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return found


SOURCES = _sources()
TARGETS = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal128(38, 0), pa.decimal128(20, 2), pa.decimal128(5, 3),
    pa.decimal128(38, 38), pa.decimal128(6, -2), pa.decimal256(76, 10), pa.decimal256(76, 60), pa.string(),
    pa.large_string(), pa.binary(), pa.binary(2), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"),
    pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("s", "UTC"), pa.time32("s"),
    pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("s"), pa.duration("ns"),
]  # fmt: skip


def _pairs() -> Iterator[tuple[str, pa.DataType]]:
    for name, values in SOURCES.items():
        yield from ((name, target) for target in TARGETS if target != values.type)


@folded("source, target", list(_pairs()), by=lambda pair: family_of(SOURCES[pair[0]].type), ids=str)
def test_values_are_exact_or_rounded_or_an_error_when_cast(source: str, target: pa.DataType) -> None:
    values = SOURCES[source]
    table = pa.table({"x": values})
    try:
        bound = bind(col("x").cast(target).expr, table.schema)
    except ExpressionError:
        # No conversion between the types; that there are enough of them is tested below.
        return
    wanted = [expected(v, values.type, target) for v in stored(values)]
    good = [row for row, want in enumerate(wanted) if want not in (FAILS, UNKNOWN)]
    for row, want in enumerate(wanted):
        if want != FAILS:
            continue
        try:
            found = evaluate(bound, table.slice(row, 1))
        except LanceError:
            continue
        raise AssertionError((values[row : row + 1], found))
    kept = table.take(pa.array(good, pa.int64()))
    check(evaluate(bound, kept), [wanted[row] for row in good], values.type)


@folded("source, target", list(_pairs()), by=lambda pair: family_of(SOURCES[pair[0]].type), ids=str)
def test_values_that_do_not_convert_are_null_when_tried(source: str, target: pa.DataType) -> None:
    values = SOURCES[source]
    table = pa.table({"x": values})
    try:
        bind(col("x").cast(target).expr, table.schema)
    except ExpressionError as error:
        with pytest.raises(ExpressionError, match=re.escape(str(error).split(" does not work: ")[-1])):
            bind(col("x").try_cast(target).expr, table.schema)
        return
    bound = bind(col("x").try_cast(target).expr, table.schema)
    wanted = [expected(v, values.type, target) for v in stored(values)]
    known = [row for row, want in enumerate(wanted) if want != UNKNOWN]
    kept = table.take(pa.array([*known, *known], pa.int64()))
    nulls = [None if wanted[row] == FAILS else wanted[row] for row in known]
    check(evaluate(bound, kept), [*nulls, *nulls], values.type)


def check(found: pa.ChunkedArray, wanted: list[Any], source: pa.DataType) -> None:
    if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
        got: list[Any] = [
            _reread(text, want, source) for text, want in zip(found.to_pylist(), wanted, strict=True)
        ]
    else:
        got = stored(found.combine_chunks())
    for one, other in zip(got, wanted, strict=True):
        assert one == other or (one != one and other != other), (one, other)
        # The sign of zero too.
        assert not isinstance(one, float) or one != one or math.copysign(1, one) == math.copysign(1, other)


def _reread(text: str, want: Any, source: pa.DataType) -> Any:
    """Text of a number as the number that it is read as: half floats have the text of floats."""
    if isinstance(want, float):
        return float(text) if source == pa.float64() else float(np.float32(text))
    return Fraction(text) if isinstance(want, Fraction) else text


CASTS = {
    "integer": "boolean date decimal float integer interval text time timestamp",
    "float": "boolean decimal float integer text timestamp",
    "decimal": "decimal float integer text",
    "text": "binary boolean date decimal float integer text time timestamp",
    "binary": "binary boolean decimal float integer text",
    "boolean": "float integer text",
    "date": "date integer text timestamp",
    "timestamp": "date integer text time timestamp",
    "interval": "integer interval text",
    "time": "integer text time",
}


def test_families_have_the_casts_that_are_compared_above() -> None:
    supported: dict[str, set[str]] = {}
    for source, target in _pairs():
        try:
            bind(col("x").cast(target).expr, pa.schema({"x": SOURCES[source].type}))
        except ExpressionError:
            continue
        supported.setdefault(family_of(SOURCES[source].type), set()).add(family_of(target))
    assert supported == {one: set(others.split()) for one, others in CASTS.items()}


@pytest.mark.parametrize(
    "scale", [0, 23, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 4, 15, 22, 38))]
)
def test_decimals_become_the_nearest_float(scale: int) -> None:
    # Seed 11: 1,500 decimals of 1 to 38 digits.
    random = np.random.default_rng(11)
    digits = ["".join(random.choice(list("0123456789"), size)) for size in random.integers(1, 39, 1500)]
    kind = pa.decimal128(38, scale)
    with localcontext(prec=100):
        numbers = [Decimal(text) * random.choice([-1, 1]).item() for text in digits]
        values = pa.array([number.scaleb(-scale) for number in numbers], kind)
    table = pa.table({"d": pa.chunked_array([values[:700], values[700:]])})
    for target in (pa.float64(), pa.float32()):
        found = evaluate(bind(col("d").cast(target).expr, table.schema), table).to_pylist()
        wanted = [expected(value, kind, target) for value in stored(values)]
        assert found == wanted
    found = evaluate(bind(col("d").cast(pa.float64()).expr, table.schema), table).to_pylist()
    assert found == [float(Fraction(value)) for value in values.to_pylist()]


def test_rows_are_found_by_the_double_nearest_to_their_decimal() -> None:
    table = pa.table({"d": pa.array([Decimal("1.2345"), Decimal("0.3000"), None], pa.decimal128(38, 4))})
    for text, rows in (
        ("CAST(d AS double) = 1.2345", [True, False, None]),
        ("d::double = 0.3", [False, True, None]),
    ):
        assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == rows
    floats = table.append_column("f", pa.array([1.2345, 0.3, 1.0]))
    assert evaluate(bind(parsed("d + f = f + d"), floats.schema), floats).to_pylist() == [True, True, None]
    assert evaluate(bind(parsed("d + 0.0 * f = f"), floats.schema), floats).to_pylist() == [True, True, None]


@pytest.mark.parametrize("scale", [9, *(pytest.param(s, marks=pytest.mark.slow) for s in (0, 2, 22, 30))])
def test_floats_become_the_nearest_decimal(scale: int) -> None:
    # Seed 12: 2,000 doubles over 30 magnitudes, and 500 that lie next to the middle of two decimals.
    random = np.random.default_rng(12)
    numbers = random.standard_normal(2000) * 10.0 ** random.integers(-20, 10, 2000)
    middles = (random.integers(-(10**9), 10**9, 500) + 0.5) / 10.0**scale
    numbers = np.concatenate([numbers, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)])
    kind = pa.decimal256(76, scale)
    for values in (pa.array(numbers), pa.array(numbers.astype(np.float32))):
        table = pa.table({"f": values})
        found = stored(evaluate(bind(col("f").cast(kind).expr, table.schema), table).combine_chunks())
        assert found == [expected(value, values.type, kind) for value in stored(values)]


@folded(
    "text",
    ["CAST(f AS decimal(20, 2)) = 0", "CAST(f AS decimal(20, 2)) < 1", "f::decimal(38, 0) IS NOT NULL"],
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e20, 1.01e38], ids=str)
def test_floats_without_a_decimal_are_an_error_that_names_them(text: str, value: float) -> None:
    table = pa.table({"f": [1.0, value]})
    bound = bind(parsed(text), table.schema)
    if value == -1e20 and "38" in text:
        assert evaluate(bound, table).to_pylist() == [True, True]
        return
    with pytest.raises(ExpressionError, match=r"does not fit in decimal128.*\(in .*CAST"):
        evaluate(bound, table)


CONSTANTS = {
    "CAST(2.5 AS decimal(38, 0)) = 3": True,
    "CAST('2.5' AS decimal(38, 0)) = 3": True,
    "CAST('1.5' AS decimal(38, 0)) = 2": True,
    "CAST('-0.005' AS decimal(20, 2)) = -0.01": True,
    "CAST(CAST('2.5' AS decimal(3, 1)) AS decimal(38, 0)) = 3": True,
    "CAST(CAST(2.5 AS double) AS decimal(38, 0)) = 3": True,
    "CAST(2.675 AS decimal(10, 2)) = 2.68": True,
    "CAST(s AS decimal(38, 0)) = 2": True,
    "CAST(s AS decimal(10, 4)) = 1.5": True,
}


@folded("text", list(CONSTANTS))
def test_constants_and_columns_are_rounded_alike(text: str) -> None:
    table = pa.table({"s": ["1.5"]})
    assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == [CONSTANTS[text]]


def test_an_instant_before_1970_is_cut_as_its_text_is() -> None:
    stamps = pa.array([-1, -(10**9), -(10**9) - 1, 10**9 + 1]).view(pa.timestamp("ns"))
    table = pa.table({"t": stamps})
    cut = evaluate(bind(parsed("CAST(t AS timestamp(0))"), table.schema), table)
    assert stored(cut.combine_chunks()) == [-1, -1, -2, 1]
    texts = evaluate(
        bind(parsed("left(CAST(t AS string), 19) = CAST(CAST(t AS timestamp(0)) AS string)"), table.schema),
        table,
    )
    assert texts.to_pylist() == [True] * 4


@folded(
    "text",
    [
        "CAST(d AS string) = ''",
        "CAST(t AS string) = ''",
        "CAST(z AS string) = ''",
        "CAST(i AS time) = '00:00:00'",
        "d || '' = ''",
    ],
)
def test_values_without_a_text_or_clock_are_an_error(text: str) -> None:
    table = pa.table(
        {
            "d": pa.array([2**31 - 1], pa.int32()).view(pa.date32()),
            "t": pa.array([2**63 - 1]).view(pa.timestamp("us")),
            "z": pa.array([-(2**63)]).view(pa.timestamp("ns", "America/New_York")),
            "i": pa.array([86_400 * 10**6]),
        }
    )
    with pytest.raises(ExpressionError, match=r"years|too close|is not a value of time64"):
        evaluate(bind(parsed(text), table.schema), table)


def test_the_smallest_interval_has_no_negative() -> None:
    table = pa.table({"d": pa.array([-(2**63)]).view(pa.duration("us"))})
    with pytest.raises(ExpressionError, match="overflow"):
        evaluate(bind(parsed("-d < d"), table.schema), table)


@folded("exponent", [-999_999_999, -2_147_483_648, 2_147_483_647, 999_999_999, -400, 400])
def test_any_exponent_in_text_is_read_or_refused(exponent: int) -> None:
    # Arrow's own conversion ends the process for some of them.
    table = pa.table({"s": pa.array([f"1e{exponent}", f"-1e{exponent}"])})
    for expression in (
        pc.field("s").cast(pa.decimal128(38, 4), safe=False),
        col("s").cast(pa.decimal128(38, 4)),
    ):
        expr = parse(expression)
        assert expr is not None
        bound = bind(expr, table.schema)
        if exponent > 0:
            with pytest.raises(ExpressionError, match="does not fit in|is not a number"):
                evaluate(bound, table)
        else:
            assert evaluate(bound, table).to_pylist() == [0, 0]


def test_a_delete_by_a_cast_that_fails_removes_no_row(tmp_path: Path) -> None:
    numbers = [0.0, 1.5, math.nan, math.inf, 1e300]
    dataset = lancecy.write_dataset(pa.table({"f": numbers}), tmp_path / "numbers.lance")
    with pytest.raises(ExpressionError, match="does not fit in decimal128"):
        dataset.delete("CAST(f AS decimal(20, 2)) = 0")
    assert lancecy.dataset(tmp_path / "numbers.lance").count_rows() == len(numbers)
    dataset.delete("f < 1e18 AND CAST(f AS decimal(20, 2)) = 0")
    assert lancecy.dataset(tmp_path / "numbers.lance").to_table()["f"].to_pylist()[0] == 1.5


@pytest.mark.parametrize(
    "text", ["CAST(s AS decimal(10, 2)) > 1", "CAST(repeat('1', 400000) || 'x' AS decimal(10, 2)) > 1"]
)
def test_long_text_that_is_no_number_is_refused_in_one_pass(text: str) -> None:
    table = pa.table({"s": ["1", "1" * 400_000 + "x"]})
    # Tried at every digit again, this would take hours.
    with pytest.raises(ExpressionError, match="is not a number"):
        evaluate(bind(parsed(text), table.schema), table)


DAYS = "2024-02-29 2023-02-29 1900-02-29 2000-02-29 2024-04-31 2024-00-01 2024-1-1 0000-01-01 10000-01-01".split()
CLOCKS = [
    "",
    "10",
    "10:20",
    "10:20:30",
    "10:20:30.123456789",
    "10:20:30.1234567891",
    "24:00",
    "10:60",
    "10:20:60",
]
ZONES = ["", "Z", "z", " Z", "+01", "+0100", "-23:59", "+24:00", "+1"]
_NUMBERS = [
    *"0 5 00 05 500 . 5. .5 1e2 1E+2 5e 1e99999999999 0x1 1_0 inf Infinity nan nan(1) nanx".split(),
    "",
    " 5",
]
LOOKS = [
    *(sign + number for sign in ("", "-", "+") for number in _NUMBERS),
    *("true TRUE t yes".split()),
    *(
        f"{day}{between}{clock}".strip() + zone
        for day in DAYS
        for between in " T"
        for clock in CLOCKS
        for zone in ZONES
    ),
    *(clock + zone for clock in CLOCKS for zone in ZONES),
    *(
        f"{day}{zone}"
        for day in ("1677-09-21 00:12:43.145224192", "2262-04-11 23:47:16.854775808")
        for zone in ("", "Z")
    ),
]
_MOMENTS = [
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Paris"),
]
_OF_LOOKS = [
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.decimal128(9, 2),
    pa.bool_(),
    pa.date32(),
    pa.time64("us"),
]


@folded("target", [*_OF_LOOKS, *_MOMENTS], ids=str)
def test_text_among_others_converts_as_it_does_alone(target: pa.DataType) -> None:
    alone = []
    for text in LOOKS:
        try:
            alone.append(cast_values(pa.array([text]), target))
        except ValueError:
            alone.append(pa.nulls(1, target))
    assert 0 < sum(value.null_count for value in alone) < len(LOOKS)
    wanted = pa.concat_arrays(alone)
    for values in (pa.array(LOOKS), pa.array(LOOKS, pa.large_string())):
        assert str(try_cast_values(values, target)) == str(wanted)  # NaN too


def test_bytes_that_are_no_text() -> None:
    values = [
        b"a",
        "é€😀".encode(),
        b"",
        None,
        b"\0\n",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
    ]
    found = try_cast_values(pa.array(values), pa.string())
    assert found.to_pylist() == ["a", "é€😀", "", None, "\0\n", None, None, None, None]
    assert try_cast_values(pa.array([b"5", b"\xff", "é".encode()]), pa.int8()).to_pylist() == [5, None, None]


def test_items_of_other_lists_do_not_matter() -> None:
    lists = pa.array([[1, 2], [300], None, [3]])
    assert try_cast_values(lists, pa.list_(pa.int8())).to_pylist() == [[1, 2], None, None, [3]]


_MANY = np.arange(3_000)
HOPELESS: dict[str, tuple[Any, pa.DataType]] = {
    "moments": (pa.array(_MANY + 10**11).cast(pa.timestamp("s")), pa.timestamp("ns")),
    "moments as text": (pa.array(_MANY + 10**12).cast(pa.timestamp("s")), pa.string()),
    "moments as dates": (pa.array(_MANY + 10**17).cast(pa.timestamp("s", "Europe/Paris")), pa.date32()),
    "dates": (pa.array((_MANY + 10**9).astype(np.int32)).cast(pa.date32()), pa.timestamp("ns")),
    "durations": (pa.array(_MANY + 10**11).cast(pa.duration("s")), pa.duration("ns")),
    "times": (pa.array(_MANY + 10**12), pa.time64("us")),
    "negative numbers": (pa.array(-1 - _MANY), pa.uint64()),
    "negative texts": (pa.array((-1 - _MANY).astype(str)), pa.uint64()),
    "signed texts": (pa.array([f"+{n}" for n in _MANY]), pa.int64()),
    "large texts": (pa.array([f"{n}{10**19}" for n in _MANY]), pa.int64()),
    "a limit": (pa.array([2.0**63] * len(_MANY)), pa.int64()),
    "decimals": (pa.array(_MANY + 10**9).cast(pa.decimal128(20, 0)), pa.int8()),
    "names": (pa.array([f"nan{n}" for n in _MANY]), pa.float64()),
    "days": (pa.array([f"{1000 + n}-02-30" for n in _MANY]), pa.date32()),
    "years": (pa.array([f"{3000 + n}-01-01" for n in _MANY]), pa.timestamp("ns")),
    "zones": (pa.array([f"2024-01-01 10:00:00.{n}+99:00" for n in _MANY]), pa.timestamp("us")),
    "clocks": (pa.array([f"25:00:00.{n}" for n in _MANY]), pa.time64("us")),
    "digests": (pa.array([b"\xff%d" % n for n in _MANY]), pa.string()),
}


@folded("what", list(HOPELESS))
def test_values_that_do_not_convert_are_not_looked_at_one_by_one(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    casts = []

    def counted(values: Any, target: pa.DataType) -> Any:
        casts.append(len(values))
        return cast_values(values, target)

    monkeypatch.setattr(try_casts, "cast_values", counted)
    values, target = HOPELESS[what]
    found = try_cast_values(values, target)
    assert found.equals(pa.nulls(len(values), target))
    assert len(casts) < 200


TRIED = {
    "TRY_CAST('12' AS int)": 12,
    "TRY_CAST('x' AS int)": None,
    "TRY_CAST('2024-02-30' AS date)": None,
    "TRY_CAST('1e3' AS int)": None,
    "TRY_CAST(1000 AS tinyint)": None,
    "TRY_CAST(-1 AS int unsigned)": None,
    "TRY_CAST(123456 AS decimal(5, 2))": None,
    "TRY_CAST(NULL AS int)": None,
    "coalesce(TRY_CAST('x' AS int), 7)": 7,
    "coalesce(TRY_CAST(s || 'x' AS int), 7)": 7,
}


@folded("text", list(TRIED))
def test_constants_are_tried_as_columns_are(text: str) -> None:
    table = pa.table({"s": ["1"]})
    assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == [TRIED[text]]


def test_an_error_within_what_is_tried_stays_an_error() -> None:
    table = pa.table({"n": [0, 1]})
    with pytest.raises(ExpressionError, match="divide by zero"):
        evaluate(bind(parsed("TRY_CAST(1 / n AS string)"), table.schema), table)


def test_text_described_and_read_again_tries_the_same() -> None:
    table = pa.table({"s": pa.array(["1", "x", None]).dictionary_encode()})
    bound = bind(parsed("try_cast(s AS bigint) IS NULL"), table.schema)
    assert describe(bound.expr) == "TRY_CAST(s AS bigint) IS NULL"
    assert evaluate(bound, table).to_pylist() == [False, True, True]


_OF_TEXT = "int bigint double date timestamp boolean string binary".split()
_OF_NUMBERS = "tinyint smallint int bigint float double boolean decimal(5,2)".split()
TRIES = [
    *(f"TRY_CAST(s AS {kind})" for kind in _OF_TEXT),
    *(f"TRY_CAST({name} AS {kind})" for name in "if" for kind in _OF_NUMBERS),
    *(
        "TRY_CAST(i AS int unsigned)",
        "TRY_CAST(i AS date)",
        "TRY_CAST(i AS string)",
        "TRY_CAST(s || '0' AS bigint) + 1",
    ),
]


@pytest.mark.interop
@folded("text", TRIES)
def test_what_is_tried_is_as_in_pylance(tmp_path: Path, text: str) -> None:
    lance = pytest.importorskip("lance")
    table = {
        "s": ["1", "x", None, "2.5", " 3 ", "1e3", "true", "2020-01-01", "300", ""],
        "i": [1, 300, None, -1, 2**40, 0, 2, 3, 4, 5],
        "f": [1.5, math.nan, None, 1e30, -1.0, 300.0, 0.0, math.inf, 2.0, 0.125],
    }
    theirs = lance.write_dataset(pa.table(table), tmp_path / "t", mode="overwrite")
    columns = {"x": text}
    found = lancecy.dataset(tmp_path / "t").to_table(columns)["x"]
    wanted = theirs.to_table(columns=columns)["x"]
    assert str(found) == str(wanted)  # NaN too
    assert found.type == wanted.type
    # A negation finds no row that does not convert.
    filters = [f"{text} IS NULL", f"NOT ({text} IS NULL)"]
    for text_filter in filters:
        mine = lancecy.dataset(tmp_path / "t").to_table(filter=text_filter)
        assert mine.to_pydict().keys() == table.keys()
        assert mine.num_rows == theirs.to_table(filter=text_filter).num_rows


@pytest.mark.interop
def test_text_of_values_is_as_in_pylance(tmp_path: Path) -> None:
    """Keys that both libraries make of values are the same."""
    lance = pytest.importorskip("lance")
    rng = np.random.default_rng(26)
    size = 20_000
    floats = rng.integers(0, 2**64, size, np.uint64).view(np.float64)
    near = rng.choice([-1, 1], size) * rng.random(size) * 10.0 ** rng.integers(-12, 25, size)
    round_ones = 10.0 ** rng.integers(-9, 25, size) * rng.integers(1, 99, size)
    moments = rng.integers(-62_135_596_800, 253_402_300_799, size) * 10**6
    moments += np.tile([0, 250_000, 123_456], size)[:size]
    recent = pa.array(np.abs(moments) % (2 * 10**15))
    rows: dict[str, Any] = {"bits": floats, "near": near, "round": round_ones}
    rows["whole"] = np.round(rng.choice([-1, 1], size) * 10.0 ** rng.uniform(0, 18, size))
    rows |= {f"{name}32": rows[name] for name in ("near", "round")}
    table = {name: pa.array(values) for name, values in rows.items()}
    table |= {name: table[name].cast(pa.float32()) for name in table if name.endswith("32")}
    table |= {
        "moment": pa.array(moments).cast(pa.timestamp("us")),
        "nanos": pa.array(rng.integers(-(2**62), 2**62, size) // 1000 * 1000).cast(pa.timestamp("ns")),
        "berlin": recent.cast(pa.timestamp("us", "Europe/Berlin")),
        "london": recent.cast(pa.timestamp("us", "Europe/London")),
        "utc": recent.cast(pa.timestamp("us", "UTC")),
        "offset": recent.cast(pa.timestamp("us", "-03:30")),
        "clock": pa.array(np.abs(moments) % (86_400 * 10**6)).cast(pa.time64("us")),
    }
    theirs = lance.write_dataset(pa.table(table), tmp_path / "t")
    columns = {name: f"CAST({name} AS string)" for name in table}
    found, wanted = lancecy.dataset(tmp_path / "t").to_table(columns), theirs.to_table(columns=columns)
    for name in table:
        differs = found.filter(pc.not_equal(found[name], wanted[name]))[name]
        assert not len(differs), (name, differs[:3])


def test_columns_are_added_and_updated_where_text_converts(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"s": ["1", "x", "300"], "n": [7, 8, 9]}, tmp_path / "t")
    ds.add_columns({"small": "TRY_CAST(s AS tinyint)"})
    ds.update({"n": "TRY_CAST(s AS bigint)"}, where="TRY_CAST(s AS bigint) IS NOT NULL")
    assert ds.to_table().sort_by("s").to_pydict() == {
        "s": ["1", "300", "x"],
        "n": [1, 300, 8],
        "small": [1, None, None],
    }


@folded("unit", ["s", "ms", "us", "ns"])
def test_the_last_moment_of_a_day_is_cut_in_constants_as_in_columns(unit: str) -> None:
    target = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    table = pa.table({"s": ["23:59:59.999999999"]})
    found = [
        evaluate(bind(term.cast(target).expr, table.schema), table)
        for term in (lit("23:59:59.999999999"), col("s"))
    ]
    assert found[0].to_pylist() == found[1].to_pylist()
    assert evaluate(
        bind(parsed("time '23:59:59.999999999' > time '23:59:59'"), table.schema), table
    ).to_pylist() == [True]
