"""Dates moved along the calendar, made of their parts, and put into bins.

Months and days are those of the clock of the time zone; a moved instant that its zone's clock shows twice or never is an
error, as in pylance. Numbers are checked: an overflow is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.instants import day_numbers, on_clock, on_zone
from lancecy.expr.evaluation.values import Data, add, minus, to_numpy
from lancecy.expr.periods import DAY_NS, PERIOD_TYPE
from lancecy.expr.times import nanos_per_unit

__all__ = ["make_date", "make_time", "month_starts", "negative", "plus", "take_away"]

_PARTS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
_YEARS = 262_142


def plus(left: Data, right: Data) -> Data:
    """``left + right`` of numbers, or of a date, timestamp or interval and an interval."""
    if PERIOD_TYPE not in (left.type, right.type):
        return add(left, right)
    if left.type == right.type:
        return _mixed(left, right, 1)
    return _moved(right, left, 1) if left.type == PERIOD_TYPE else _moved(left, right, 1)


def take_away(left: Data, right: Data) -> Data:
    """``left - right`` of numbers, or of a date, timestamp or interval and an interval."""
    if right.type != PERIOD_TYPE:
        return pc.subtract_checked(left, right)
    return _mixed(left, right, -1) if left.type == PERIOD_TYPE else _moved(left, right, -1)


def negative(values: Data) -> Data:
    """``-values`` of numbers and intervals."""
    return (
        _mixed(pa.scalar(pa.MonthDayNano([0, 0, 0])), values, -1)
        if values.type == PERIOD_TYPE
        else minus(values)
    )


def _parts(periods: Data) -> NDArray[Any]:
    """Months, days and nanoseconds of intervals; of one interval, an array of one; zeros for nulls."""
    if isinstance(periods, pa.Scalar):
        periods = pa.repeat(periods, 1)
    if isinstance(periods, pa.ChunkedArray):
        periods = periods.combine_chunks()
    data = periods.buffers()[1]
    if data is None or not len(periods):
        return np.zeros(len(periods), _PARTS)
    found = np.frombuffer(data, _PARTS, len(periods), periods.offset * _PARTS.itemsize).copy()
    if periods.null_count:
        found[periods.is_null().to_numpy(zero_copy_only=False)] = (0, 0, 0)
    return found


def _nulls(*sides: Data) -> Any:
    """Where a value of either side is null; None if none is."""
    found = []
    for side in sides:
        if isinstance(side, pa.Scalar):
            if not side.is_valid:
                return True
        elif side.null_count:
            found.append(to_numpy(pc.is_null(side)))
    return np.logical_or.reduce(found) if found else None


def _mixed(left: Data, right: Data, sign: int) -> Data:
    """The sum of two intervals, part by part."""
    one, two = _parts(left), _parts(right)
    found = np.empty(max(one.size, two.size) if min(one.size, two.size) else 0, _PARTS)
    for name in ("months", "days", "nanos"):
        whole = one[name].astype(object) + two[name].astype(object) * sign
        bits = 8 * _PARTS[name].itemsize - 1
        if any(not -(1 << bits) <= value < 1 << bits for value in whole):
            raise ExpressionError(f"the {name} of an interval are beyond {bits + 1} bits")
        found[name] = whole.astype(np.int64)
    nulls = _nulls(left, right)
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(None if nulls is True else pa.MonthDayNano(found[0].tolist()), PERIOD_TYPE)
    if nulls is True:
        return pa.nulls(found.size, PERIOD_TYPE)
    validity = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(PERIOD_TYPE, found.size, [validity, pa.py_buffer(found.tobytes())])


def month_starts(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days from 1970-01-01 to the first days of months counted from January 1970."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def add_months(days: NDArray[np.int64], months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days since 1970, so many months later: the same day of the month, or its last one.

    Examples
    --------
    >>> add_months(np.array([30]), np.array([1])).tolist()  # January 31
    [58]
    """
    place = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    of_month = days - month_starts(place)
    place = place + months
    start = month_starts(place)
    moved: NDArray[np.int64] = start + np.minimum(of_month, month_starts(place + 1) - start - 1)
    return moved


def _moved(values: Data, periods: Data, sign: int) -> Data:
    if isinstance(values, pa.Scalar) and isinstance(periods, pa.Scalar):
        return _moved(pa.repeat(values, 1), periods, sign)[0]
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, len(periods))
    kind, unit = values.type, nanos_per_unit(values.type)
    nulls = _nulls(values, periods)
    if nulls is True:
        return pa.nulls(len(values), kind)
    parts = _parts(periods)
    months, more, nanos = (parts[name].astype(np.int64) for name in ("months", "days", "nanos"))
    if np.any(nanos % unit) and not pa.types.is_date(kind):
        raise ExpressionError(f"an interval has digits that {kind} lacks; CAST to timestamp(9) first")
    clock = on_clock(values) if months.any() or more.any() else values
    found = to_numpy(pc.fill_null(pc.cast(clock, pa.int32() if pa.types.is_date32(kind) else pa.int64()), 0))
    if clock is not values or pa.types.is_date(kind) or not pa.types.is_timestamp(kind) or kind.tz is None:
        days = to_numpy(pc.fill_null(day_numbers(clock), 0))
        rest = found - days * (DAY_NS // unit)
        days = add_months(days, months * sign) if months.any() else days
        days = _sum(days, more * sign)
        if pa.types.is_date(kind):
            days = _sum(days, np.trunc(nanos * sign / DAY_NS).astype(np.int64))
        found = _checked(pc.multiply_checked(pa.array(days), DAY_NS // unit), pa.array(rest))
    else:
        found = pa.array(found)
    if clock is not values:
        found = pc.cast(on_zone(pc.cast(found, clock.type), kind.tz), pa.int64())
    if not pa.types.is_date(kind):
        found = _checked(found, pa.array(np.broadcast_to(nanos // unit * sign, len(found))))
    if nulls is not None:
        found = pc.if_else(pa.array(nulls), None, found)
    if pa.types.is_date32(kind):
        found = pc.cast(found, pa.int32())
    return pc.cast(found, kind)


def _sum(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.int64]:
    return to_numpy(_checked(pa.array(one), pa.array(np.broadcast_to(two, one.shape))))  # type: ignore[no-any-return]


def _checked(one: pa.Array, two: pa.Array) -> pa.Array:
    return pc.add_checked(one, two)


def make_date(years: Data, months: Data, days: Data) -> Data:
    """Dates (date32) of their years, months and days.

    Raises
    ------
    ExpressionError
        There is no such day.
    """
    (year, month, day), nulls, is_scalar = _numbers(years, months, days)
    valid = (np.abs(year) <= _YEARS) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    place = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    start = month_starts(place)
    valid &= day <= month_starts(place + 1) - start
    _refuse(~valid & ~nulls, "make_date()", "a day", year, month, day)
    found = pa.array(np.where(valid, start + day - 1, 0).astype(np.int32), mask=nulls).cast(pa.date32())
    return found[0] if is_scalar else found


def make_time(hours: Data, minutes: Data, seconds: Data) -> Data:
    """Times of day (time32[s]) of their hours, minutes and seconds.

    Raises
    ------
    ExpressionError
        There is no such time.
    """
    (hour, minute, second), nulls, is_scalar = _numbers(hours, minutes, seconds)
    valid = (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    _refuse(~valid & ~nulls, "make_time()", "a time of day", hour, minute, second)
    made = np.where(valid, hour * 3600 + minute * 60 + second, 0)
    found = pa.array(made.astype(np.int32), mask=nulls).cast(pa.time32("s"))
    return found[0] if is_scalar else found


def _numbers(*sides: Data) -> tuple[list[NDArray[np.int64]], NDArray[np.bool_], bool]:
    """Numbers of equal length, zeros for nulls; where one is null; whether all are constants."""
    is_scalar = all(isinstance(side, pa.Scalar) for side in sides)
    size = 1 if is_scalar else next(len(side) for side in sides if not isinstance(side, pa.Scalar))
    found, nulls = [], np.zeros(size, bool)
    for side in sides:
        whole = pa.repeat(side, size) if isinstance(side, pa.Scalar) else side
        nulls |= to_numpy(pc.is_null(whole))
        found.append(to_numpy(pc.fill_null(pc.cast(whole, pa.int64()), 0)))
    return found, nulls, is_scalar


def _refuse(wrong: NDArray[np.bool_], name: str, what: str, *numbers: NDArray[np.int64]) -> None:
    if wrong.any():
        place = int(np.argmax(wrong))
        shown = ", ".join(str(int(part[place])) for part in numbers)
        raise ExpressionError(f"{name}: {shown} is not {what}")
