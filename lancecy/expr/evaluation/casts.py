"""CAST: conversion of values to another type, exact, rounded as stated here, or an error.

===============  ==========================================================================
to integers      fractions are dropped; values out of range are an error
to floats        the nearest one, infinite beyond the range of the type
to decimals      rounded half away from zero; NaN, infinities and too many digits are an error
to text          as pylance writes it, see ``texts``; years outside 0 to 9999 are an error
to timestamps    digits that the type lacks are cut from the clock, also before 1970
to times         of integers: a time of day in the unit of the type
===============  ==========================================================================

Arrow's own conversion is called where it follows these rules; this module implements the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, printable
from lancecy.expr.evaluation.decimals import (
    decimal_to_decimal,
    decimal_to_float,
    float_to_decimal,
    text_to_decimal,
)
from lancecy.expr.evaluation.instants import check_years, day_numbers, on_clock, whole_units
from lancecy.expr.evaluation.texts import duration_to_text, float_to_text, time_to_text, timestamp_to_text
from lancecy.expr.evaluation.values import Data, by_chunk
from lancecy.expr.kinds import family
from lancecy.expr.periods import DAY_NS
from lancecy.expr.times import nanos_per_unit, parse_instant, to_local

__all__ = ["cast_values", "read_instants"]


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
    for zone in (target.tz, "UTC") if target.tz is None else (target.tz,):
        with suppress(pa.ArrowInvalid):
            return pc.cast(pc.cast(values, pa.timestamp(target.unit, zone)), target)
    # Forms that Arrow does not read, and texts of which some have an offset.
    return by_chunk(lambda chunk: read_instants(chunk, target), values)


def read_instants(values: pa.Array, target: pa.DataType, is_tried: bool = False) -> pa.Array:
    """Texts as timestamps or dates, as constants are read: an offset is applied, a reading without one is on the clock.

    Parameters
    ----------
    values : pa.Array of text
    target : pa.DataType
    is_tried : bool
        Whether texts that cannot be read are null, and no error.

    Raises
    ------
    ExpressionError

    Examples
    --------
    >>> read_instants(pa.array(["1970-01-01 01:00:00+01:00"]), pa.timestamp("s"))[0].value
    0
    """
    coded = values.dictionary_encode()
    found: list[int | None] = []
    for text in coded.dictionary.to_pylist():
        try:
            found.append(None if text is None else _read_instant(text, target))
        except ExpressionError:
            if not is_tried:
                raise
            found.append(None)
    stored = pa.int32() if target.bit_width == 32 else pa.int64()
    return pa.array(found, stored).view(target).take(coded.indices)


def _read_instant(text: str, target: pa.DataType) -> int:
    instant, zone = parse_instant(text), getattr(target, "tz", None)
    nanos = instant.nanos - (instant.offset or 0) * 10**9
    if zone is not None and instant.offset is None:
        nanos = to_local(nanos, zone)
    per = nanos_per_unit(target)
    value = nanos // DAY_NS * (DAY_NS // per) if pa.types.is_date(target) else nanos // per
    if not -(2**63) <= value < 2**63:
        raise ExpressionError(f"{printable(text)!r} is beyond the range of {target}")
    return value


def _text_to_date(values: Data, target: pa.DataType) -> Data:
    return _timestamp_to_date(_text_to_timestamp(values, pa.timestamp("s")), target)


def _binary_to(values: Data, target: pa.DataType) -> Data:
    """Read bytes as text."""
    return cast_values(pc.cast(values, pa.large_string()), target)


def _date_to_text(values: Data, target: pa.DataType) -> Data:
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
    return pa.scalar(DAY_NS // nanos_per_unit(data_type), pa.int64())


def _float_to_timestamp(values: Data, target: pa.DataType) -> Data:
    return pc.cast(_float_to_integer(values, pa.int64()), target)


def _stored_to_integer(values: Data, target: pa.DataType) -> Data:
    return pc.cast(pc.cast(values, pa.int32() if values.type.bit_width == 32 else pa.int64()), target)


def _timestamp_to_timestamp(values: Data, target: pa.DataType) -> Data:
    per = nanos_per_unit(target) // nanos_per_unit(values.type)
    if per > 1:
        # Arrow divides and so rounds instants before 1970 up.
        values = pc.cast(
            whole_units(pc.cast(values, pa.int64()), per), pa.timestamp(target.unit, values.type.tz)
        )
    return pc.cast(values, target)


def _integer_to_time(values: Data, target: pa.DataType) -> Data:
    _check_range(values, 0, DAY_NS // nanos_per_unit(target) - 1, target)
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
    ("float", "text"): float_to_text,
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
    ("date", "text"): _date_to_text,
    ("date", "integer"): _stored_to_integer,
    ("time", "integer"): _stored_to_integer,
    ("interval", "text"): duration_to_text,
    ("float", "timestamp"): _float_to_timestamp,
    ("date", "date"): _date_to_date,
    ("time", "text"): time_to_text,
    ("timestamp", "text"): timestamp_to_text,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "time"): _timestamp_to_time,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
}
