"""Dates, times and intervals between text and the integers Arrow stores.

Instants are exact integers of nanoseconds, so that a literal finer than its column is compared exactly instead of
being cut. Text follows ISO 8601, with a space or a T between date and time, up to nine digits of a second and an
optional zone offset.
"""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa

from lancecy.errors import ExpressionError, printable
from lancecy.expr.periods import DAY_NS, period_of

__all__ = [
    "Instant",
    "day_number",
    "nanos_per_unit",
    "parse_instant",
    "parse_time",
    "parse_zone",
    "text_of",
    "to_local",
]

_UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DIGITS = re.compile(r"(\d{4})(\d{2})(\d{2})\Z")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9})\d{0,21})?)?")
_ZONE = re.compile(r"(Z|[+-]\d{2}(?::?\d{2})?)\Z", re.IGNORECASE)
_ZONE_NAME = re.compile(r"(?<=\d) *([A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*)\Z")


class Instant:
    """A point in time as written.

    Attributes
    ----------
    nanos : int
        Nanoseconds since 1970-01-01T00:00 on the clock as written.
    offset : int or None, seconds
        East of UTC; None when no zone was written.
    """

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int | None) -> None:
        self.nanos = nanos
        self.offset = offset


def nanos_per_unit(data_type: pa.DataType) -> int:
    """Nanoseconds in one stored unit of a date, time, timestamp or duration type."""
    if pa.types.is_date32(data_type):
        return DAY_NS
    if pa.types.is_date64(data_type):
        return 10**6
    return _UNIT_NS[data_type.unit]


def parse_instant(text: str) -> Instant:
    """Parse a date with an optional time of day and zone offset.

    Raises
    ------
    ExpressionError
        The text is not one.

    Examples
    --------
    >>> parse_instant("1970-01-02 00:00:00.5").nanos
    86400500000000
    """
    rest = text.strip()
    date = _DATE.match(rest) or _DIGITS.match(rest)
    if date is None:
        raise _bad(text, "a date such as 2024-05-17 or 2024-05-17 12:30:00")
    rest = rest[date.end() :]
    nanos, offset, name = 0, None, None
    if rest[:1] in ("T", "t", " "):
        rest = rest[1:].lstrip()
        zone = _ZONE.search(rest)
        if zone is not None:
            offset, rest = _zone_seconds(zone.group(1), text), rest[: zone.start()].rstrip()
        elif (name := _ZONE_NAME.search(rest)) is not None:
            rest = rest[: name.start()].rstrip()
        nanos = _clock(rest, text)
    elif rest:
        raise _bad(text, "a date such as 2024-05-17")
    try:
        day = day_number(*(int(part) for part in date.groups()))
    except ValueError as error:
        raise _bad(text, "a day that exists") from error
    nanos += day * DAY_NS
    return Instant(nanos, offset) if name is None else Instant(to_local(nanos, name.group(1)), 0)


def day_number(year: int, month: int = 1, day: int = 1) -> int:
    """Days from 1970-01-01 to a day of the Gregorian calendar, which repeats every 400 years.

    Raises
    ------
    ValueError
        There is no such day.

    Examples
    --------
    >>> day_number(1970, 2), day_number(0)
    (31, -719528)
    """
    cycles, rest = divmod(year, 400)
    return dt.date(rest + 400, month, day).toordinal() - _EPOCH_DAY + (cycles - 1) * 146_097


def parse_time(text: str) -> int:
    """Parse a time of day to nanoseconds since midnight.

    Raises
    ------
    ExpressionError
    """
    return _clock(text.strip(), text)


def _clock(rest: str, text: str) -> int:
    match = _TIME.fullmatch(rest)
    if match is None:
        raise _bad(text, "a time of day such as 12:30:00")
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise _bad(text, "a time of day that exists")
    fraction = (match.group(4) or "").ljust(9, "0")
    return (hour * 3600 + minute * 60 + second) * 10**9 + int(fraction)


def parse_zone(text: str) -> int | None:
    """Seconds east of UTC of ``Z``, ``+02`` or ``-0530``; None for the name of a time zone.

    Examples
    --------
    >>> parse_zone("+05:30"), parse_zone("Europe/Berlin")
    (19800, None)
    """
    return _zone_seconds(text, text) if _ZONE.fullmatch(text) else None


def _zone_seconds(zone: str, text: str) -> int:
    if zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise _bad(text, "a zone offset that exists")
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _bad(text: str, wanted: str) -> ExpressionError:
    return ExpressionError(f"{printable(text)!r} is not {wanted}")


def to_local(nanos: int, zone: str) -> int:
    """UTC nanoseconds of a wall-clock reading in a time zone.

    Raises
    ------
    ExpressionError
        The zone is unknown, or its clock shows that reading twice or never.
    """
    import pyarrow.compute as pc

    from lancecy.expr.zones import instants_at

    seconds, below = divmod(nanos, 10**9)
    reading = pa.scalar(seconds, pa.timestamp("s"))
    try:
        instant = instants_at(reading, zone)
    except (pa.ArrowException, ValueError) as error:
        what = f"{text_of(nanos, pa.timestamp('ns'))} is not one instant in zone {printable(zone)}"
        try:
            pc.assume_timezone(reading, timezone=zone, ambiguous="earliest", nonexistent="earliest")
        except (pa.ArrowException, ValueError):
            what = f"the time zone {printable(zone)} is not known here"
        raise ExpressionError(
            f"{what}; write the offset from UTC, as in '2024-10-27 02:30:00+02:00'"
        ) from error
    return int(instant.value) * 10**9 + below


def text_of(value: int, data_type: pa.DataType) -> str:
    """SQL text of a stored temporal value.

    Examples
    --------
    >>> text_of(1, pa.date32())
    "date '1970-01-02'"
    """
    types = pa.types
    if types.is_interval(data_type):
        return str(period_of(value))
    nanos = value * nanos_per_unit(data_type)
    if types.is_duration(data_type):
        return f"interval '{_decimal_text(nanos, 10**9)} seconds'"
    if types.is_time(data_type):
        return f"time '{_clock_text(nanos % DAY_NS)}'"
    day, rest = divmod(nanos, DAY_NS)
    ordinal = day + _EPOCH_DAY
    if not 1 <= ordinal <= dt.date.max.toordinal():
        return f"{data_type}({value})"
    date = dt.date.fromordinal(ordinal).isoformat()
    if types.is_date(data_type):
        return f"date '{date}'"
    zone = "+00:00" if data_type.tz else ""
    return f"timestamp '{date} {_clock_text(rest)}{zone}'"


def _clock_text(nanos: int) -> str:
    seconds, below = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{below:09}".rstrip("0") if below else text


def _decimal_text(value: int, scale: int) -> str:
    whole, below = divmod(abs(value), scale)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{below:09}".rstrip("0") if below else f"{sign}{whole}"
