"""CAST: conversion of values to another type, exact, rounded as stated here, or an error.

===============  ==========================================================================
to integers      fractions are dropped; values out of range are an error
to floats        the nearest one, infinite beyond the range of the type
to decimals      rounded half away from zero; NaN, infinities and too many digits are an error
to text          text that reads back as the same value; years outside 0 to 9999 are an error
to timestamps    digits that the type lacks are cut from the clock, also before 1970
to times         of integers: a time of day in the unit of the type
===============  ==========================================================================

Arrow's own conversion is called where it follows these rules; this module implements the others.

Arrow counts years in 16 bits and adds the offset of a time zone without a check: beyond that range it answers for
other days. Such values are an error here, shown as stored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, nearest
from lancecy.expr.evaluation.decimals import (
    decimal_to_decimal,
    decimal_to_float,
    float_to_decimal,
    text_to_decimal,
)
from lancecy.expr.evaluation.values import Data
from lancecy.expr.kinds import family
from lancecy.expr.times import nanos_per_unit

__all__ = ["cast_values", "check_years", "date_part", "date_trunc", "day_numbers", "on_clock", "whole_units"]


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


def cast_values(values: Data, target: pa.DataType) -> Data:
    """Convert values to another type, by the rules of this module.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar
    target : pa.DataType

    Returns
    -------
    pa.Array, pa.ChunkedArray or pa.Scalar of ``target``

    Raises
    ------
    ExpressionError, ValueError
        A value is out of range or cannot be read; ``pa.ArrowInvalid`` if Arrow raises it.
    NotImplementedError
        There is no such conversion.

    Examples
    --------
    >>> cast_values(pa.array([2.5, -2.5]), pa.decimal128(4, 0)).to_pylist()
    [Decimal('3'), Decimal('-3')]
    """
    rule = _RULES.get((family(values.type), family(target)), _cut)
    return rule(values, target)


def _cut(values: Data, target: pa.DataType) -> Data:
    options = pc.CastOptions(target, allow_time_truncate=True, allow_decimal_truncate=True)
    return pc.cast(values, options=options)


def _float_to_integer(values: Data, target: pa.DataType) -> Data:
    return pc.cast(pc.trunc(values), target)


def _integer_to_float(values: Data, target: pa.DataType) -> Data:
    return pc.cast(values, target, safe=False)


def _integer_to_decimal(values: Data, target: pa.DataType) -> Data:
    # Arrow refuses unless the target has room for every value of the type; only the actual values matter.
    return decimal_to_decimal(pc.cast(values, pa.decimal128(20, 0)), target)


def _decimal_to_float(values: Data, target: pa.DataType) -> Data:
    return _cut(values, target) if pa.types.is_float16(target) else decimal_to_float(values, target)


def _text_to_integer(values: Data, target: pa.DataType) -> Data:
    found = pc.match_substring_regex(values, pattern="^[+-]?0[xX]")
    if pc.any(found if not isinstance(found, pa.Scalar) else pa.array([found.as_py()])).as_py():
        # Arrow reads hexadecimal digits too.
        raise ExpressionError("text that starts with 0x is not a number")
    return pc.cast(values, target)


def _text_to_time(values: Data, target: pa.DataType) -> Data:
    # There is no such cast; a timestamp of that day has the same clock.
    stamp = pc.cast(
        pc.binary_join_element_wise("1970-01-01 ", pc.cast(values, pa.string()), ""), pa.timestamp("ns")
    )
    return _cut(pc.cast(stamp, pa.time64("ns")), target)


def _text_to_timestamp(values: Data, target: pa.DataType) -> Data:
    # Arrow refuses digits of a second that the type lacks; they are cut, as for timestamps.
    kept = {"s": 0, "ms": 3, "us": 6, "ns": 9}[target.unit]
    fraction = rf"(\.[0-9]{{{kept}}})[0-9]{{1,{9 - kept}}}" if kept else r"()\.[0-9]{1,9}"
    if kept < 9:
        pattern = rf"(:[0-9]{{2}}:[0-9]{{2}}){fraction}(Z?|[+-][0-9:]+)$"
        values = pc.replace_substring_regex(values, pattern=pattern, replacement=r"\1\2\3")
    return pc.cast(values, target)


def _text_to_date(values: Data, target: pa.DataType) -> Data:
    return _timestamp_to_date(_text_to_timestamp(values, pa.timestamp("s")), target)


def _binary_to(values: Data, target: pa.DataType) -> Data:
    """Read bytes as text."""
    return cast_values(pc.cast(values, pa.large_string()), target)


def _instant_to_text(values: Data, target: pa.DataType) -> Data:
    check_years(values, 0, 9999, "text")
    return pc.cast(values, target)


def _date_to_date(values: Data, target: pa.DataType) -> Data:
    return _whole_days(day_numbers(values), target)


def _timestamp_to_date(values: Data, target: pa.DataType) -> Data:
    days = day_numbers(on_clock(values))
    return _whole_days(days, target)


def _whole_days(days: Data, target: pa.DataType) -> Data:
    """Dates from their number of days since 1970-01-01."""
    if pa.types.is_date64(target):
        return pc.cast(pc.multiply_checked(days, pa.scalar(86_400_000, pa.int64())), target)
    return pc.cast(pc.cast(days, pa.int32()), target)


def _timestamp_to_time(values: Data, target: pa.DataType) -> Data:
    clock = on_clock(values)
    since_midnight = pc.subtract(
        pc.cast(clock, pa.int64()), pc.multiply(day_numbers(clock), _per_day(clock.type))
    )
    unit = values.type.unit
    if unit in ("s", "ms"):
        return _cut(pc.cast(pc.cast(since_midnight, pa.int32()), pa.time32(unit)), target)
    return _cut(pc.cast(since_midnight, pa.time64(unit)), target)


def _per_day(data_type: pa.DataType) -> pa.Scalar:
    return pa.scalar(_DAY_NS // nanos_per_unit(data_type), pa.int64())


def _timestamp_to_timestamp(values: Data, target: pa.DataType) -> Data:
    per = nanos_per_unit(target) // nanos_per_unit(values.type)
    if per > 1:
        # Arrow divides and so rounds instants before 1970 up.
        values = pc.cast(
            whole_units(pc.cast(values, pa.int64()), per), pa.timestamp(target.unit, values.type.tz)
        )
    return pc.cast(values, target)


def _integer_to_time(values: Data, target: pa.DataType) -> Data:
    _check_range(values, 0, _DAY_NS // nanos_per_unit(target) - 1, target)
    return pc.cast(values, target)


def _integer_to_date(values: Data, target: pa.DataType) -> Data:
    stored = pc.cast(values, pa.int64())
    return _whole_days(whole_units(stored, 86_400_000) if pa.types.is_date64(target) else stored, target)


def _check_range(values: Data, low: int, high: int, target: pa.DataType) -> None:
    least, most = (pc.min_max(values)[name].as_py() for name in ("min", "max"))
    for value in (least, most):
        if value is not None and not low <= value <= high:
            raise ExpressionError(f"{value} is not a value of {target}: its values are {low} to {high}")


_Rule: TypeAlias = Callable[[Data, pa.DataType], Data]

_RULES: dict[tuple[str, str], _Rule] = {
    ("float", "integer"): _float_to_integer,
    ("float", "decimal"): float_to_decimal,
    ("integer", "float"): _integer_to_float,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "time"): _integer_to_time,
    ("integer", "date"): _integer_to_date,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): decimal_to_decimal,
    ("text", "integer"): _text_to_integer,
    ("text", "decimal"): text_to_decimal,
    ("text", "time"): _text_to_time,
    ("text", "date"): _text_to_date,
    ("text", "timestamp"): _text_to_timestamp,
    **{("binary", kind): _binary_to for kind in ("boolean", "integer", "float", "decimal")},
    ("date", "text"): _instant_to_text,
    ("date", "date"): _date_to_date,
    ("timestamp", "text"): _instant_to_text,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "time"): _timestamp_to_time,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
}
