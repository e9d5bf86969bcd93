"""``now()`` and the like: values of one instant, on the clock of whatever they meet."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lancecy.errors import ColumnNotFoundError, LanceError
from lancecy.expr import bind, describe, evaluate, fix_clock, time_now
from tests.expr.test_answers import parsed

NOON = dt.datetime(2024, 5, 17, 12, 0, 0, 250_000)
INSTANT = int(NOON.replace(tzinfo=dt.UTC).timestamp() * 1_000_000) * 1000
HOURS = [NOON + dt.timedelta(hours=hours) for hours in (-30, -10, -3, 0, 3, 10, 30)]
_NAIVE = pa.array(HOURS, pa.timestamp("us"))
TABLE = pa.table(
    {
        "id": list(range(7)),
        "s": _NAIVE.cast(pa.timestamp("s"), safe=False),
        "us": _NAIVE,
        "ns": _NAIVE.cast(pa.timestamp("ns")),
        "utc": _NAIVE.cast(pa.timestamp("us", "UTC")),
        "zoned": _NAIVE.cast(pa.timestamp("ms", "America/New_York")),
        "day": pa.array([hour.date() for hour in HOURS]),
        "clock": pa.array([hour.time() for hour in HOURS], pa.time64("us")),
        "wait": pa.array([dt.timedelta(hours=4)] * 7, pa.duration("ms")),
    }
)


def fixed(text: str, table: pa.Table = TABLE) -> Any:
    return bind(fix_clock(parsed(text), table.schema, INSTANT), table.schema)


def ids(text: str) -> list[int]:
    return [row for row, holds in enumerate(evaluate(fixed(text), TABLE).to_pylist()) if holds]


ROWS = {
    # A column without a zone is read in UTC, a column with a zone as the instants it holds.
    "us < now()": [0, 1, 2],
    "now() = us": [3],
    "ns = now()": [3],
    "s < now()": [0, 1, 2, 3],
    "s = now()": [],
    "utc = now()": [3],
    "zoned <= now()": [0, 1, 2, 3],
    "NOW() < us": [4, 5, 6],
    "us < current_timestamp": [0, 1, 2],
    "us < Current_Timestamp()": [0, 1, 2],
    "us BETWEEN now() - interval '5 hours' AND now()": [2, 3],
    "zoned > now() - interval '5 hours'": [2, 3, 4, 5, 6],
    "us < now() - wait": [0, 1],
    "zoned < now() - wait": [0, 1],
    "day < now() - wait": [0, 1, 2, 3, 4, 5],
    "now() - us > interval '4 hours'": [0, 1],
    "zoned - now() > interval '4 hours'": [5, 6],
    "us IN (now(), timestamp '2024-05-18 18:00:00.25')": [3, 6],
    "coalesce(us, now()) < now()": [0, 1, 2],
    "greatest(zoned, now()) = now()": [0, 1, 2, 3],
    "CASE WHEN id < 2 THEN now() ELSE us END = now()": [0, 1, 3],
    "us IS NOT DISTINCT FROM now()": [3],
    "day < now()": [0, 1, 2, 3, 4, 5],
    "day = current_date": [1, 2, 3, 4, 5],
    "day = today()": [1, 2, 3, 4, 5],
    "day > current_date() - interval '1 day'": [1, 2, 3, 4, 5, 6],
    "us < CURRENT_DATE": [0],
    "clock < current_time": [0, 1, 2],
    "clock = current_time()": [3],
    "date_trunc('hour', now()) = date_trunc('hour', us)": [3],
    "date_trunc('day', now()) <= zoned": [1, 2, 3, 4, 5, 6],
    "date_part('hour', now()) = 12 AND id = 1": [1],
    "CAST(now() AS date) = day": [1, 2, 3, 4, 5],
    "CAST(now() AS string) = CAST(us AS string)": [3],
    "CAST(now() AS string) = CAST(ns AS string)": [3],
    "now() > '2024-05-17' AND now() < timestamp '2024-05-18 00:00:00'": list(range(7)),
    "now() = now()": list(range(7)),
}


@pytest.mark.parametrize("text", ROWS)
def test_rows_by_the_time(text: str) -> None:
    assert ids(text) == ROWS[text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("now()", pa.scalar(INSTANT, pa.timestamp("ns"))),
        ("current_timestamp", pa.scalar(INSTANT, pa.timestamp("ns"))),
        ("now() - wait", pa.scalar(INSTANT - 4 * 3600 * 10**9, pa.timestamp("ns"))),
        ("current_date", pa.scalar(NOON.date(), pa.date32())),
        ("today()", pa.scalar(NOON.date(), pa.date32())),
        ("current_time", pa.scalar(NOON.time(), pa.time64("ns"))),
        ("coalesce(utc, now())", pa.scalar(HOURS[0], pa.timestamp("ns", "UTC"))),
    ],
)
def test_values_have_the_types_of_pylance(text: str, value: pa.Scalar) -> None:
    found = evaluate(fixed(text), TABLE)
    assert (found.type, found[0]) == (value.type, value)


def test_a_column_of_the_name_comes_first() -> None:
    table = pa.table({"Current_Date": [1, 2], "now": [3, 4]})
    assert evaluate(fixed("current_date = 2 AND now = 4", table), table).to_pylist() == [False, True]
    days = pa.table({"current_date": [NOON.date(), None]})
    assert evaluate(fixed("current_date = current_date()", days), days).to_pylist() == [True, None]
    with pytest.raises(ColumnNotFoundError, match="no column 'current_date'"):
        fixed("`current_date` = day")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("us > now", r"no column 'now'; the function is written now\(\)"),
        ("us > now(3)", r"now\(\) takes no arguments, not 1"),
        ("us > current_timestamp(3)", r"current_timestamp\(\) takes no arguments, not 1"),
        ("us > localtime", "no column 'localtime'"),
        ("us > nwo()", r"no function 'nwo'; did you mean now\?"),
        ("id > now()", r"2024-05-17 12:00:00.25\+00:00' of type timestamp\(9\) cannot be compared .* bigint"),
    ],
)
def test_mistakes_name_the_remedy(text: str, message: str) -> None:
    with pytest.raises(LanceError, match=message):
        fixed(text)


def test_text_shows_the_value() -> None:
    found = fix_clock(parsed("us > now() AND day = current_date"), TABLE.schema, INSTANT)
    shown = "us > timestamp '2024-05-17 12:00:00.25+00:00' AND day = date '2024-05-17'"
    assert describe(found) == shown


def test_without_an_instant_it_is_the_present() -> None:
    before = time_now()
    found = evaluate(bind(fix_clock(parsed("now()"), TABLE.schema), TABLE.schema), TABLE)[0].value
    assert before <= found <= time_now()
    assert found % 1000 == 0
