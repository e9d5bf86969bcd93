"""The functions that make dates, times and timestamps of numbers and texts, and the reverse.

Timestamps with a time zone become their reading in UTC, but ``to_date``, ``to_time`` and ``to_local_time`` take the clock
of their zone, as in pylance. Digits that a unit lacks are cut downwards, as in CAST.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow import conversions
from lancecy.errors import ExpressionError, printable
from lancecy.expr.evaluation.calendar import add_months
from lancecy.expr.evaluation.casts import cast_values
from lancecy.expr.evaluation.chrono_formats import formatted, read_instant, read_time
from lancecy.expr.evaluation.instants import day_numbers, on_clock, on_zone, whole_units
from lancecy.expr.evaluation.texts import duration_to_text
from lancecy.expr.evaluation.values import Data, by_chunk, to_numpy
from lancecy.expr.kinds import family, is_clock, is_utc
from lancecy.expr.periods import DAY_NS, Period, parse_period
from lancecy.expr.times import nanos_per_unit

__all__ = [
    "as_instants",
    "at_time_zone",
    "date_bin",
    "from_unixtime",
    "to_char",
    "to_date",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_unixtime",
    "unix_reader",
]

_NS = pa.timestamp("ns")


def _unmarked(values: Data) -> Data:
    """Timestamps of the time now as their reading in UTC."""
    return pc.cast(values, pa.timestamp(values.type.unit)) if is_clock(values.type) else values


def as_instants(values: Data) -> Data:
    """Texts as timestamp[ns]; other values unchanged."""
    return cast_values(values, _NS) if family(values.type) == "text" else values


def _in_utc(values: Data) -> Data:
    """Timestamps without their zone, as their reading in UTC."""
    return pc.cast(values, pa.timestamp(values.type.unit)) if values.type.tz is not None else values


def _as_unit(values: Data, unit: str) -> Data:
    return cast_values(values, pa.timestamp(unit, values.type.tz))


def _no_function(name: str, values: Data, wanted: str) -> ExpressionError:
    return ExpressionError(f"{name}() needs {wanted}, not {values.type}; CAST it")


# -- texts ------------------------------------------------------------------------------------


def _read(
    values: Data, formats: tuple[Data, ...], read: Callable[[str, tuple[str, ...]], int], name: str
) -> Data:
    """Texts read by formats, each a constant or a column: int64, null where the text or a format is null."""
    if all(isinstance(one, pa.Scalar) for one in formats):
        layouts = tuple(one.as_py() for one in formats)
        if None in layouts:
            raise ExpressionError(f"a format of {name}() is null; write it as text such as '%Y-%m-%d'")

        def of_chunk(chunk: pa.Array) -> pa.Array:
            coded = chunk.dictionary_encode()
            found = [None if text is None else read(text, layouts) for text in coded.dictionary.to_pylist()]
            return pa.array(found, pa.int64()).take(coded.indices)

        return by_chunk(of_chunk, values)
    size = next(len(one) for one in (values, *formats) if not isinstance(one, pa.Scalar))
    rows = [
        [one.as_py()] * size if isinstance(one, pa.Scalar) else one.to_pylist() for one in (values, *formats)
    ]
    found = []
    for text, *layouts_of_row in zip(*rows, strict=True):
        known = tuple(layout for layout in layouts_of_row if layout is not None)
        found.append(None if text is None or not known else read(text, known))
    return pa.array(found, pa.int64())


def _texts_to(values: Data, formats: tuple[Data, ...], unit: str, name: str) -> Data:
    """Texts as timestamps without a zone: as CAST reads them, or by formats."""
    if not formats:
        return cast_values(values, pa.timestamp(unit))
    stored = _read(values, formats, read_instant, name)
    per = nanos_per_unit(pa.timestamp(unit))
    try:
        return pc.cast(
            pc.cast(stored if per == 1 else whole_units(stored, per), pa.int64()), pa.timestamp(unit)
        )
    except (OverflowError, pa.ArrowInvalid) as error:
        raise ExpressionError(f"{name}(): a time is beyond timestamp[{unit}]") from error


# -- timestamps -------------------------------------------------------------------------------


def to_timestamp(values: Data, *formats: Data) -> Data:
    """Seconds since 1970, or text, as timestamp[ns]; fractions of seconds count.

    Raises
    ------
    ExpressionError
        A value is beyond the type or cannot be read.
    """
    kind = family(values.type)
    if kind in ("float", "decimal"):
        seconds = pc.cast(values, pa.float64())
        whole = pc.multiply(seconds, 1e9)
        beyond = pc.or_(pc.is_nan(whole), pc.greater_equal(pc.abs(whole), 2.0**63))
        if pc.any(pa.array([beyond.as_py()]) if isinstance(beyond, pa.Scalar) else beyond).as_py():
            raise ExpressionError(
                "to_timestamp(): NaN and numbers beyond 9223372036 seconds have no timestamp"
            )
        return pc.cast(pc.cast(pc.trunc(whole), pa.int64(), safe=False), _NS)
    if kind == "integer":
        return _as_unit(pc.cast(pc.cast(values, pa.int64()), pa.timestamp("s")), "ns")
    return unix_reader("to_timestamp", "ns")(values, *formats)


def unix_reader(name: str, unit: str) -> Callable[..., Data]:
    """The function that takes numbers as so many seconds, milliseconds, ... since 1970; fractions are dropped."""

    def run(values: Data, *formats: Data) -> Data:
        kind = family(values.type)
        if kind in ("integer", "float", "decimal"):
            return pc.cast(cast_values(values, pa.int64()), pa.timestamp(unit))
        if kind == "timestamp":
            return _as_unit(_in_utc(values), unit)
        if kind == "null":
            return pc.cast(values, pa.timestamp(unit))
        if kind != "text":
            raise _no_function(name, values, "a number, text or timestamp")
        return _texts_to(values, formats, unit, name)

    return run


def to_date(values: Data, *formats: Data) -> Data:
    """Days since 1970, text or the day of a timestamp as date32.

    Raises
    ------
    ExpressionError
    """
    kind = family(values.type)
    if kind == "time":
        raise _no_function("to_date", values, "a number, text, date or timestamp")
    if kind in ("integer", "float", "decimal"):
        return pc.cast(pc.cast(cast_values(values, pa.int64()), pa.int32()), pa.date32())
    if kind == "text" and formats:
        return pc.cast(
            pc.cast(whole_units(_read(values, formats, read_instant, "to_date"), DAY_NS), pa.int32()),
            pa.date32(),
        )
    return cast_values(values, pa.date32())


_TIME_FORMATS = ("%H:%M:%S%.f", "%H:%M")


def to_time(values: Data, *formats: Data) -> Data:
    """Text, or the time of day of a timestamp on the clock of its zone, as time64[ns].

    Raises
    ------
    ExpressionError
    """
    kind = family(values.type)
    if kind == "null":
        return pc.cast(values, pa.time64("ns"))
    if kind == "timestamp":
        return cast_values(values, pa.time64("ns"))
    if kind != "text":
        raise _no_function("to_time", values, "text or a timestamp")
    layouts = formats or tuple(pa.scalar(layout) for layout in _TIME_FORMATS)
    return pc.cast(_read(values, layouts, read_time, "to_time"), pa.time64("ns"))


def to_unixtime(values: Data, *formats: Data) -> Data:
    """Whole seconds since 1970 in UTC: int64.

    Raises
    ------
    ExpressionError
    """
    kind = family(values.type)
    if kind in ("integer", "float", "decimal"):
        return cast_values(values, pa.int64())
    if kind == "date":
        return pc.multiply(day_numbers(values), 86_400)
    return pc.cast(unix_reader("to_unixtime", "s")(values, *formats), pa.int64())


def from_unixtime(values: Data, zone: str | None = None) -> Data:
    """Seconds since 1970 as timestamp[s], with a time zone if one is given."""
    if zone is not None:
        at_time_zone(pa.scalar(0, pa.timestamp("s")), zone)  # an unknown zone is an error here
    return pc.cast(pc.cast(values, pa.int64()), pa.timestamp("s", zone))


def to_local_time(values: Data) -> Data:
    """The reading of timestamps on the clock of their zone, without the zone."""
    values = _unmarked(values)
    return pc.cast(values, _NS) if family(values.type) == "null" else on_clock(values)


def at_time_zone(values: Data, zone: str, unit: str = "ns") -> Data:
    """Timestamps in a time zone: readings without a zone are on its clock, others keep their instant.

    Raises
    ------
    ExpressionError
        The zone is unknown, or its clock shows a reading twice or never.
    """
    if unit not in ("s", "ms", "us", "ns"):
        raise ExpressionError(f"at_time_zone() has no unit {printable(unit)!r}; write s, ms, us or ns")
    if not is_utc(zone):
        try:
            pc.local_timestamp(pa.scalar(0, pa.timestamp("s", zone)))
        except (pa.ArrowException, ValueError) as error:
            raise ExpressionError(
                f"the time zone {printable(zone)!r} is not known; write a name such as 'Europe/Berlin' or '+02:00'"
            ) from error
    if family(values.type) in ("text", "integer", "float"):
        # Text with an offset is an instant, and numbers count from 1970 in UTC.
        return cast_values(values, pa.timestamp(unit, zone))
    values = _unmarked(values)
    clock = cast_values(values, pa.timestamp(unit, getattr(values.type, "tz", None)))
    return pc.cast(clock, pa.timestamp(unit, zone)) if clock.type.tz is not None else on_zone(clock, zone)


# -- bins -------------------------------------------------------------------------------------


def date_bin(stride: Data, values: Data, origin: Data | None = None) -> Data:
    """Start of the bin of each timestamp or time; bins are as long as ``stride`` and one starts at ``origin``.

    Raises
    ------
    ExpressionError
        The stride is no constant, zero, or mixes months with days.
    """
    if not isinstance(stride, pa.Scalar) or not (origin is None or isinstance(origin, pa.Scalar)):
        raise ExpressionError("date_bin() needs constants as its interval and its origin")
    is_text = (
        "text" in (family(stride.type), None if origin is None else family(origin.type))
        or not stride.is_valid
    )
    values = _unmarked(values)
    kind = values.type
    if family(kind) != "time" and (
        is_text or family(kind) in ("text", "date", "null") or kind.tz is not None
    ):
        values = cast_values(values, pa.timestamp("ns", getattr(kind, "tz", None)))
        kind = values.type
    if not stride.is_valid:
        return pa.scalar(None, kind) if isinstance(values, pa.Scalar) else pa.nulls(len(values), kind)
    period, start = _stride(stride), _origin(origin, kind)
    if not isinstance(values, pa.Scalar) and len(values) == 0:
        return values
    stored = pc.cast(pc.cast(values, pa.int32() if kind.bit_width == 32 else pa.int64()), pa.int64())
    if period.months:
        if family(kind) == "time" or period.days or period.nanos:
            raise ExpressionError(
                f"date_bin() cannot count in {period}: write months, or days and smaller units"
            )
        found = by_chunk(lambda chunk: _month_bins(chunk, kind, period.months, start), stored)
    else:
        length = period.length()
        if length == 0:
            raise ExpressionError("date_bin() needs an interval that is not zero")
        if family(kind) == "time" and abs(length) >= DAY_NS:
            raise ExpressionError("date_bin() of times needs an interval shorter than a day")
        found = by_chunk(lambda chunk: _bins(chunk, nanos_per_unit(kind), length, start), stored)
    return pc.cast(pc.cast(found, pa.int32()) if kind.bit_width == 32 else found, kind)


def _stride(stride: pa.Scalar) -> Period:
    if family(stride.type) == "text":
        return parse_period(stride.as_py())
    if family(stride.type) == "period":
        return Period(*stride.as_py())
    return Period(nanos=stride.value * nanos_per_unit(stride.type))


def _origin(origin: Data | None, kind: pa.DataType) -> int:
    """Nanoseconds of the origin."""
    if origin is None:
        return 0
    if not origin.is_valid:
        raise ExpressionError("the origin of date_bin() is null; leave it out for 1970-01-01")
    if family(kind) == "time":
        found = origin if family(origin.type) == "time" else cast_values(origin, pa.time64("ns"))
    else:
        found = _unmarked(origin) if family(origin.type) == "timestamp" else cast_values(origin, _NS)
    return int(found.value) * nanos_per_unit(found.type)


def _bins(stored: pa.Array, unit: int, length: int, start: int) -> pa.Array:
    if length % unit or start % unit:
        fine = gcd(unit, length, start)
        return whole_units(
            _bins(pc.multiply_checked(stored, unit // fine), fine, length, start), unit // fine
        )
    stride, since = length // unit, pc.subtract_checked(stored, pa.scalar(start // unit, pa.int64()))
    if abs(stride) >= 2**63:
        raise ExpressionError("the interval of date_bin() is longer than any column could hold")
    whole = pc.multiply(pc.divide(since, pa.scalar(stride, pa.int64())), pa.scalar(stride, pa.int64()))
    if stride > 1:
        before = pc.less(since, whole)
        whole = pc.if_else(before, pc.subtract_checked(whole, pc.if_else(before, stride, 0)), whole)
    return pc.add_checked(whole, pa.scalar(start // unit, pa.int64()))


def _month_bins(stored: pa.Array, kind: pa.DataType, stride: int, start: int) -> pa.Array:
    per_day = DAY_NS // nanos_per_unit(kind)
    unit = nanos_per_unit(kind)
    if start % unit:
        raise ExpressionError(
            f"the origin of date_bin() has digits that {kind} lacks; CAST to timestamp(9) first"
        )
    nulls = stored.is_null()
    values = to_numpy(pc.fill_null(stored, 0))
    days = values // per_day
    first_day, rest = divmod(start // unit, per_day)
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    first = int(np.datetime64(first_day, "D").astype("M8[M]").astype(np.int64))
    since = months - first
    delta = np.trunc(since / stride).astype(np.int64) * stride
    delta = np.where((since < 0) & (stride > 1) & (delta != since), delta - stride, delta)

    def at(months_since: Any) -> Any:
        return add_months(np.full(values.shape, first_day), months_since) * per_day + rest

    found = at(delta)
    found = np.where(found > values, at(delta - stride), found)
    return pc.if_else(nulls, pa.scalar(None, pa.int64()), pa.array(found))


# -- text of dates ----------------------------------------------------------------------------


def to_char(values: Data, layouts: Data) -> Data:
    """Dates, times, timestamps and lengths of time as text, by a format or a column of formats.

    Raises
    ------
    ExpressionError
    """
    values = _unmarked(as_instants(values))
    if family(values.type) == "period":
        raise ExpressionError(
            "to_char() writes no interval of the calendar; add it to a date, or write it in hours"
        )
    if isinstance(layouts, pa.Scalar):
        if not layouts.is_valid or family(values.type) == "null":
            return (
                pa.scalar(None, pa.string())
                if isinstance(values, pa.Scalar)
                else pa.nulls(len(values), pa.string())
            )
        return _in_format(values, layouts.as_py())
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, len(layouts))
    return _by_rows(values, layouts)


def _in_format(values: Data, layout: str) -> Data:
    if pa.types.is_duration(values.type):
        return duration_to_text(values, pa.string(), iso=layout == "iso8601")
    return formatted(values, layout)


def _by_rows(values: Data, layouts: Data) -> pa.Array:
    """The texts of all rows that share a format at once, put back in their order."""
    values, layouts = (
        one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in (values, layouts)
    )
    coded = layouts.dictionary_encode()
    codes = to_numpy(pc.fill_null(coded.indices, -1))
    parts, rows = [pa.nulls(1, pa.string())], np.zeros(len(values), np.int64)
    filled = 1
    for code, layout in enumerate(coded.dictionary.to_pylist()):
        places = np.flatnonzero(codes == code)
        if layout is None:
            continue
        parts.append(_in_format(values.take(conversions.array_of(places)), layout))
        rows[places] = filled + np.arange(places.size)
        filled += places.size
    whole = pa.chunked_array(parts, pa.string()).combine_chunks()
    return whole.take(pa.array(rows))
