"""Parts of dates and rounding, of numbers and dates, at the ends of their types."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import ExpressionError
from lancecy.expr import bind, evaluate
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
PARTS = ("year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "hour", "minute", "second")
STEPS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def rows(text: str, **columns: Any) -> list[Any]:
    table = pa.table(columns)
    found: list[Any] = evaluate(bind(parsed(text), table.schema), table).to_pylist()
    return found


def part_of(moment: dt.datetime, part: str) -> int:
    special = {
        "quarter": (moment.month + 2) // 3,
        "week": moment.isocalendar().week,
        "doy": moment.timetuple().tm_yday,
        "dow": moment.isoweekday() % 7,
        "isodow": moment.isoweekday(),
    }
    return special[part] if part in special else int(getattr(moment, part))


@folded("part", PARTS)
@pytest.mark.parametrize("unit", UNITS)
def test_parts_of_dates_are_those_of_python(unit: str, part: str) -> None:
    # Seed 5: 300 instants of the years 1 to 9999, or of those that nanoseconds reach.
    reach = (-62_135_596_800, 253_402_300_799) if unit != "ns" else (-9_223_372_036, 9_223_372_036)
    seconds = np.random.default_rng(5).integers(*reach, 300, endpoint=True)
    seconds[:2] = reach
    moments = [dt.datetime(1970, 1, 1) + dt.timedelta(seconds=int(s)) for s in seconds]
    stamps = pa.array(seconds * UNITS[unit]).view(pa.timestamp(unit))
    assert rows(f"date_part('{part}', t)", t=stamps) == [part_of(m, part) for m in moments]
    if part not in ("hour", "minute", "second"):
        dates = pa.array([m.date() for m in moments], pa.date32())
        assert rows(f"date_part('{part}', d)", d=dates) == [part_of(m, part) for m in moments]


@folded(
    "call", [*(f"date_part('{part}', t)" for part in PARTS), *(f"date_trunc('{step}', t)" for step in STEPS)]
)
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_dates_beyond_the_calendar_are_an_error(zone: str | None, call: str) -> None:
    for unit in ("s", "ms", "us"):
        for value in (
            2**63 - 1,
            -(2**63),
            32_001 * 31_556_952 * UNITS[unit],
            -36_000 * 31_556_952 * UNITS[unit],
        ):
            if abs(value) < 2**63:
                with pytest.raises(ExpressionError, match=r"outside the years -32000 to 32000|too close"):
                    rows(call, t=pa.array([0, value]).view(pa.timestamp(unit, zone)))


@folded(
    "call", ["date_part('year', d)", "date_part('dow', d)", "date_trunc('week', d)", "date_trunc('year', d)"]
)
def test_days_beyond_the_calendar_are_an_error(call: str) -> None:
    for value in (2**31 - 1, -(2**31), 11_000_000, -13_000_000):
        with pytest.raises(ExpressionError, match="outside the years -32000 to 32000"):
            rows(call, d=pa.array([0, value], pa.int32()).view(pa.date32()))


@folded("part", ["date_part('year', d) = 1970", "date_trunc('year', d) = date '1970-01-01'"])
def test_rows_that_another_condition_decides_are_not_asked_for_their_parts(part: str) -> None:
    days = pa.array([0, 2**31 - 1, 365], pa.int32()).view(pa.date32())
    for text in (f"d < date '2100-01-01' AND {part}", f"{part} AND d < date '2100-01-01'"):
        assert rows(text, d=days) == [True, False, False]
    assert rows(f"{part} OR d > date '2100-01-01'", d=days) == [True, True, False]
    assert rows(f"CASE WHEN d > date '2100-01-01' THEN NULL ELSE {part} END", d=days) == [True, None, False]


@folded("step", STEPS)
def test_the_first_instant_of_nanoseconds_has_no_beginning_of_its_year(step: str) -> None:
    first = pa.array([-(2**63)]).view(pa.timestamp("ns"))
    with pytest.raises(ExpressionError, match="below the first value"):
        rows(f"date_trunc('{step}', t)", t=first)
    later = pa.array([-(2**63) + 10**9 * 86_400 * 366]).view(pa.timestamp("ns"))
    assert len(rows(f"date_trunc('{step}', t) <= t", t=later)) == 1


def test_seconds_since_1970_are_right_at_the_ends() -> None:
    for unit, second in UNITS.items():
        for zone in (None, "America/New_York"):
            values = [0, 3 * second // 2, -1, 2**63 - 1, -(2**63)]
            stamps = pa.array(values).view(pa.timestamp(unit, zone))
            assert rows("date_part('epoch', t)", t=stamps) == [value / second for value in values]


FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.49999999999999994,
    1234.5678,
    -99.995,
    1e-320,
    1.23456e-305,
    1e15,
    1e16 + 2,
]
FLOATS += [4503599627370497.5, 1e300, -1.7e308, math.inf, -math.inf, math.nan]


@folded(
    "digits",
    [-(2**31), -400, -309, -308, -16, -2, -1, 0, 1, 2, 3, 15, 22, 23, 300, 308, 310, 323, 330, 400, 2**31],
)
def test_numbers_are_rounded_whatever_the_digits(digits: int) -> None:
    for kind in (pa.float64(), pa.float32()):
        with np.errstate(all="ignore"):
            numbers = np.array(FLOATS, kind.to_pandas_dtype())
        found = rows(f"round(f, {digits})", f=pa.array(numbers))
        for number, one in zip(numbers.tolist(), found, strict=True):
            assert same(one, rounded(number, digits), kind), (number, one)


def rounded(number: float, digits: int) -> float:
    """Rounded as a decimal of 17 digits, the shortest that tells doubles apart."""
    if not math.isfinite(number) or digits > 400:
        return number
    if digits < -400:
        return math.copysign(0.0, number)
    with localcontext(prec=2000, rounding=ROUND_HALF_UP):
        return float(Decimal(repr(number)).quantize(Decimal((0, (1,), -digits))))


def same(one: float, other: float, kind: pa.DataType) -> bool:
    if one != one or other != other:
        return one != one and other != other
    if kind == pa.float32():
        other = float(np.float32(other))
    return math.isclose(one, other, rel_tol=1e-15, abs_tol=5e-324) and math.copysign(1, one) == math.copysign(
        1, other
    )


def test_ties_are_rounded_away_from_zero() -> None:
    numbers = pa.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999999999999994, 2.675, 1.005])
    assert rows("round(f)", f=numbers)[:6] == [1.0, 2.0, 3.0, -1.0, -3.0, 0.0]
    assert rows("round(f, 1)", f=pa.array([0.25, -0.25, 0.35])) == [0.3, -0.3, 0.4]


@pytest.mark.interop
@folded("digits", [-3, -1, 0, 1, 2, 5, 9])
def test_numbers_are_rounded_as_pylance_does(digits: int, tmp_path: Path) -> None:
    lance: Any = pytest.importorskip("lance")
    # Seed 6: 2,000 doubles of some magnitudes, and 500 next to ties.
    random = np.random.default_rng(6)
    numbers = np.concatenate(
        [
            random.standard_normal(2000) * 10.0 ** random.integers(-6, 9, 2000),
            (random.integers(-5000, 5000, 500) + 0.5) / 100,
        ]
    )
    table = pa.table({"f": numbers})
    theirs = lance.write_dataset(table, str(tmp_path / f"{digits}.lance")).scanner(
        columns={"y": f"round(f, {digits})", "f": "f"}
    )
    # pylance changes numbers that have no such digits.
    small = np.abs(numbers) * 10.0**digits < 2.0**52
    ours = np.array(rows(f"round(f, {digits})", f=pa.array(numbers)))
    assert (ours[small] == theirs.to_table()["y"].to_numpy()[small]).all()
    assert (ours[~small] == numbers[~small]).all()


@pytest.mark.parametrize("zone", ["Mars/Base", "+25:99", "UTC+3"])
def test_an_unknown_zone_is_refused_for_times_without_an_offset(zone: str) -> None:
    stamps = pa.array([0, 10**6, None]).view(pa.timestamp("us", zone))
    with pytest.raises(
        ExpressionError, match=rf"the time zone {re.escape(zone)} is not known here; write the"
    ):
        rows("t = timestamp '1970-01-01 00:00:01'", t=stamps)
    assert rows("t >= timestamp '1970-01-01 00:00:01+00:00'", t=stamps) == [False, True, None]
    assert rows("CAST(t AS timestamp) < timestamp '1970-01-01 00:00:01'", t=stamps) == [True, False, None]
