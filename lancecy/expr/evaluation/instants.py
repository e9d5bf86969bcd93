"""Calendar and clock of dates and timestamps, in the range where Arrow computes them correctly.

Arrow counts years in 16 bits and adds the offset of a time zone without a check: beyond that range it answers for
other days. Such values are an error here, shown as stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, nearest
from lancecy.expr.evaluation.values import Data, by_chunk
from lancecy.expr.kinds import is_utc
from lancecy.expr.periods import DAY_NS, unit_name
from lancecy.expr.times import day_number, nanos_per_unit
from lancecy.expr.zones import clock_of, instants_at

__all__ = ["check_years", "date_part", "date_trunc", "day_numbers", "on_clock", "on_zone", "whole_units"]

YEARS = (-32_000, 32_000)
"""Years for which Arrow's calendar is correct, including zone offsets and the steps of date_trunc."""


def _stored(values: Data) -> Data:
    """The stored integers of dates, times, timestamps and lengths."""
    stored = pa.int32() if values.type.bit_width == 32 else pa.int64()
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
    low, high = day_number(first) * DAY_NS // unit, day_number(last + 1) * DAY_NS // unit - 1
    _check_stored(on_clock(values), low, high, f"outside the years {first} to {last}, as {what} has them")


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
    day = DAY_NS // nanos_per_unit(values.type)
    _check_stored(
        values,
        -(2**63) + day,
        2**63 - 1 - day,
        f"too close to the ends of its type for zone {values.type.tz}",
    )
    return clock_of(values)


def on_zone(clock: Data, zone: str) -> Data:
    """The instants at which the clock of a zone shows these timestamps without a zone.

    Raises
    ------
    ExpressionError
        A clock shows one of them twice or never, or the zone is unknown.
    """
    if is_utc(zone):
        return pc.cast(clock, pa.timestamp(clock.type.unit, zone))
    try:
        return instants_at(clock, zone)
    except (pa.ArrowException, ValueError) as error:
        why = str(error).split("\n", maxsplit=1)[0]
        raise ExpressionError(f"a time in zone {zone}: {why}") from error


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
    return whole_units(_stored(values), DAY_NS // nanos_per_unit(values.type))


_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": pc.year,
    "isoyear": pc.iso_year,
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
    "millisecond": lambda values: _of_minute(values, 10**6),
    "microsecond": lambda values: _of_minute(values, 10**3),
    "nanosecond": lambda values: _of_minute(values, 1),
}
_CLOCK = frozenset(("hour", "minute", "second", "millisecond", "microsecond", "nanosecond"))
_TRUNC = frozenset(("year", "quarter", "month", "week", "day")) | (_CLOCK - {"nanosecond"})
_NS_OF = {
    "week": 7 * DAY_NS,
    "day": DAY_NS,
    "hour": 3600 * 10**9,
    "minute": 60 * 10**9,
    "second": 10**9,
    "millisecond": 10**6,
    "microsecond": 10**3,
    "nanosecond": 1,
}
_OTHER_NAMES = {"qtr": "quarter"}


def _of_minute(values: Data, per: int) -> Data:
    """What the second's hand shows, in units of so many nanoseconds: whole seconds and below."""
    clock = on_clock(values)
    unit = nanos_per_unit(clock.type)
    stored = _stored(clock)
    rest = pc.subtract(stored, pc.multiply(whole_units(stored, 60 * 10**9 // unit), 60 * 10**9 // unit))
    return pc.multiply(rest, unit // per) if unit >= per else pc.divide(rest, per // unit)


def date_part(part: str, values: Data) -> Data:
    """Part of each date, time or interval as int32, nanoseconds as int64; "epoch" gives seconds as float64.

    Of a length of time, all whole hours, minutes and so on.

    Raises
    ------
    ExpressionError
        The part is unknown, the values have none, or a date is outside the years it is defined for.
    """
    name = _OTHER_NAMES.get(part.lower()) or unit_name(part) or part.lower()
    kind = values.type
    if name not in _PARTS and name != "epoch":
        raise _unknown_part(part, [*_PARTS, "epoch"])
    if pa.types.is_interval(kind):
        return by_chunk(lambda chunk: _part_of_periods(name, chunk), values)
    if name == "epoch":
        per_second = 10**9 / nanos_per_unit(kind)
        return pc.divide(pc.cast(_stored(values), pa.float64(), safe=False), per_second)
    result = pa.int64() if name == "nanosecond" else pa.int32()
    if pa.types.is_duration(kind):
        return _cast_part(_part_of_lengths(name, values), result, name)
    if pa.types.is_time(kind):
        if name not in _CLOCK:
            raise _no_part(name, kind, sorted(_CLOCK))
        return pc.cast(_PARTS[name](values), result)
    values = on_clock(values)
    check_years(values, *YEARS, "date_part()")
    if name in _CLOCK and pa.types.is_date(kind):
        values = pc.cast(values, pa.timestamp("s"))
    return pc.cast(_PARTS[name](values), result)


def _part_of_lengths(name: str, values: Data) -> Data:
    if name not in _NS_OF:
        raise _no_part(name, values.type, list(_NS_OF))
    unit, stored = nanos_per_unit(values.type), _stored(values)
    size = _NS_OF[name]
    return pc.divide(stored, size // unit) if size >= unit else pc.multiply_checked(stored, unit // size)


def _part_of_periods(name: str, values: pa.Array) -> pa.Array:
    """Parts of calendar intervals, each with its sign: years and months, weeks and days, hours, minutes and below."""
    if name not in _OF_PERIODS:
        raise _no_part(name, values.type, list(_OF_PERIODS))
    found = [None if value is None else _part_of_period(name, *value) for value in values.to_pylist()]
    if name == "epoch":
        return pa.array(found, pa.float64())
    return _cast_part(pa.array(found, pa.int64()), pa.int64() if name == "nanosecond" else pa.int32(), name)


_OF_PERIODS = ("year", "month", *_NS_OF, "epoch")


def _part_of_period(name: str, months: int, days: int, nanos: int) -> float:
    if name == "epoch":
        return (months * 30 + days) * 86_400 + nanos / 10**9
    if name in ("year", "month"):
        return _cut(months, 12) if name == "year" else _rest(months, 12)
    if name in ("week", "day"):
        return _cut(days, 7) if name == "week" else days
    whole = {"hour": 0, "minute": _NS_OF["hour"]}.get(name, _NS_OF["minute"])
    return _cut(_rest(nanos, whole) if whole else nanos, _NS_OF[name])


def _cut(value: int, size: int) -> int:
    """Divided, rounded towards zero."""
    return abs(value) // size * (-1 if value < 0 else 1)


def _rest(value: int, size: int) -> int:
    return value - _cut(value, size) * size


def _cast_part(found: Data, kind: pa.DataType, name: str) -> Data:
    try:
        return pc.cast(found, kind)
    except pa.ArrowInvalid as error:
        raise ExpressionError(
            f"date_part({name!r}) of an interval is beyond {kind}; ask for a larger unit"
        ) from error


def date_trunc(part: str, values: Data) -> Data:
    """Start of the year, month, ... of each date or time, in the same type.

    Raises
    ------
    ExpressionError
        The part is unknown, or a date or the result is outside the range of the type.
    """
    name = part.lower()
    if name not in _TRUNC:
        raise _unknown_part(part, sorted(_TRUNC))
    if pa.types.is_time(values.type):
        if name not in _CLOCK:
            raise _no_part(name, values.type, sorted(_CLOCK & _TRUNC))
        return _trunc_times(name, values)
    if name in _CLOCK and pa.types.is_date(values.type):
        return values
    clock = on_clock(values)
    check_years(clock, *YEARS, "date_trunc()")
    start = pc.floor_temporal(clock, unit=name)
    # Below the first value of the type, Arrow wraps around to the last one.
    wrapped = pc.and_(pc.less(_stored(clock), -(2**62)), pc.greater(_stored(start), 0))
    if pc.any(_as_array(wrapped)).as_py():
        raise ExpressionError(f"date_trunc({name!r}) goes below the first value of {values.type}")
    return start if clock is values else _start_in_zone(values, clock, start)


def _start_in_zone(values: Data, clock: Data, start: Data) -> Data:
    """The instants of ``start``, which the clock shows up to ``clock``; of two, the one with the offset of the value."""
    zone = values.type.tz
    if is_utc(zone):
        return on_zone(start, zone)
    ahead = pc.subtract(_stored(clock), _stored(values))
    found = pc.cast(pc.subtract(_stored(start), ahead), values.type)
    is_shown = pc.equal(on_clock(found), start)
    if pc.all(_as_array(is_shown)).as_py():
        return found
    return pc.if_else(is_shown, found, on_zone(pc.if_else(is_shown, None, start), zone))


def _trunc_times(name: str, values: Data) -> Data:
    per = max(_NS_OF[name] // nanos_per_unit(values.type), 1)
    stored = _stored(values)
    found = pc.subtract(stored, pc.subtract(stored, pc.multiply(whole_units(stored, per), per)))
    return pc.cast(pc.cast(found, pa.int32() if values.type.bit_width == 32 else pa.int64()), values.type)


def _as_array(values: Data) -> Data:
    return pa.repeat(values, 1) if isinstance(values, pa.Scalar) else values


def _unknown_part(part: str, known: list[str]) -> ExpressionError:
    close = nearest(part.lower(), known) or known
    return ExpressionError(f"a date has no part {part!r}; did you mean {', '.join(close)}?")


def _no_part(name: str, kind: pa.DataType, known: list[str]) -> ExpressionError:
    return ExpressionError(f"{kind} has no part {name!r}; it has {', '.join(known)}")
