"""Calendar and clock of dates and timestamps, in the range where Arrow computes them correctly.

Arrow counts years in 16 bits and adds the offset of a time zone without a check: beyond that range it answers for
other days. Such values are an error here, shown as stored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, nearest
from lancecy.expr.evaluation.values import Data
from lancecy.expr.times import nanos_per_unit

__all__ = ["check_years", "date_part", "date_trunc", "day_numbers", "on_clock", "whole_units"]

_DAY_NS = 86_400 * 10**9
_YEARS = (-32_000, 32_000)
"""Years for which Arrow's calendar is correct, including zone offsets and the steps of date_trunc."""


def _stored(values: Data) -> Data:
    """The stored integers of dates and timestamps."""
    stored = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    return pc.cast(pc.cast(values, stored), pa.int64())


def _check_stored(values: Data, low: int, high: int, what: str) -> None:
    bounds = pc.min_max(_stored(values))
    for value in (bounds["min"].as_py(), bounds["max"].as_py()):
        if value is not None and not low <= value <= high:
            raise ExpressionError(f"{values.type}({value}) is {what}")


def check_years(values: Data, first: int, last: int, what: str) -> None:
    """Refuse dates and timestamps outside some years of their calendar.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of dates or timestamps
    first, last : int
        Years, both allowed. With a time zone, the year in that zone.
    what : str
        The function or form with this range, for the error.

    Raises
    ------
    ExpressionError
        A value lies outside; the message has it as stored.
    """
    unit = nanos_per_unit(values.type)
    low, high = _january(first) * _DAY_NS // unit, _january(last + 1) * _DAY_NS // unit - 1
    _check_stored(on_clock(values), low, high, f"outside the years {first} to {last}, as {what} has them")


def _january(year: int) -> int:
    """Days from 1970-01-01 to the first day of a year of the Gregorian calendar, which repeats every 400 years."""
    cycles, rest = divmod(year, 400)
    return dt.date(rest + 400, 1, 1).toordinal() - dt.date(1970, 1, 1).toordinal() + (cycles - 1) * 146_097


def on_clock(values: Data) -> Data:
    """Convert timestamps with a zone to the clock of that zone, without a zone; others are unchanged.

    Raises
    ------
    ExpressionError
        A value is so near the ends of 64 bits that the clock may lie beyond; the message has it as stored.
    """
    if not pa.types.is_timestamp(values.type) or values.type.tz is None:
        return values
    if values.type.tz == "UTC":
        return pc.cast(values, pa.timestamp(values.type.unit))
    day = _DAY_NS // nanos_per_unit(values.type)
    _check_stored(
        values,
        -(2**63) + day,
        2**63 - 1 - day,
        f"too close to the ends of its type for zone {values.type.tz}",
    )
    return pc.local_timestamp(values)


def whole_units(stored: Data, per: int) -> Data:
    """Divide ``stored`` (int64) by ``per``, rounded down.

    Examples
    --------
    >>> whole_units(pa.array([-1, 0, 1500]), 1000).to_pylist()
    [-1, 0, 1]
    """
    quotient = pc.divide(stored, pa.scalar(per, pa.int64()))
    above = pc.greater(pc.multiply(quotient, pa.scalar(per, pa.int64())), stored)
    return pc.subtract(quotient, pc.cast(above, pa.int64()))


def day_numbers(values: Data) -> Data:
    """Days since 1970-01-01 (int64) of dates and timestamps without a zone."""
    return whole_units(_stored(values), _DAY_NS // nanos_per_unit(values.type))


_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "doy": pc.day_of_year,
    "dow": lambda values: pc.day_of_week(values, count_from_zero=True, week_start=7),
    "isodow": lambda values: pc.day_of_week(values, count_from_zero=False, week_start=1),
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_CLOCK = frozenset(("hour", "minute", "second", "millisecond", "microsecond"))
_TRUNC = frozenset(("year", "quarter", "month", "week", "day")) | _CLOCK


def date_part(part: str, values: Data) -> Data:
    """Part of each date as int32; "epoch" gives the seconds since 1970 as float64.

    Raises
    ------
    ExpressionError
        The part is unknown, or a date is outside the years it is defined for.
    """
    name = part.lower()
    if name == "epoch":
        per_second = 10**9 / nanos_per_unit(values.type)
        return pc.divide(pc.cast(_stored(values), pa.float64(), safe=False), per_second)
    if name not in _PARTS:
        raise _unknown_part(part, [*_PARTS, "epoch"])
    check_years(values, *_YEARS, "date_part()")
    if name in _CLOCK and pa.types.is_date(values.type):
        values = pc.cast(values, pa.timestamp("s"))
    return pc.cast(_PARTS[name](values), pa.int32())


def date_trunc(part: str, values: Data) -> Data:
    """Start of the year, month, ... of each date, in the same type.

    Raises
    ------
    ExpressionError
        The part is unknown, or a date or the result is outside the range of the type.
    """
    name = part.lower()
    if name not in _TRUNC:
        raise _unknown_part(part, sorted(_TRUNC))
    if name in _CLOCK and pa.types.is_date(values.type):
        return values
    check_years(values, *_YEARS, "date_trunc()")
    found = pc.floor_temporal(values, unit=name)
    # Below the first value of the type, Arrow wraps around to the last one.
    wrapped = pc.and_(pc.less(_stored(values), -(2**62)), pc.greater(_stored(found), 0))
    if pc.any(_as_array(wrapped)).as_py():
        raise ExpressionError(f"date_trunc({name!r}) goes below the first value of {values.type}")
    return found


def _as_array(values: Data) -> Data:
    return pa.repeat(values, 1) if isinstance(values, pa.Scalar) else values


def _unknown_part(part: str, known: list[str]) -> ExpressionError:
    close = nearest(part.lower(), known) or known
    return ExpressionError(f"a date has no part {part!r}; did you mean {', '.join(close)}?")
