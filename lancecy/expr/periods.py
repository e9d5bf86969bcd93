"""Intervals of the calendar: months, days and a time, as SQL text and as the 128 bits that Arrow stores.

An interval of hours and smaller units is a length. One that has months or days moves a date or a timestamp along the
calendar: a month later is the same day of the next month, a day later the same time of the next day, in the time zone
of the column. Text and rounding are those of pylance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa

from lancecy.errors import ExpressionError, printable
from lancecy.records import dataclass

__all__ = ["DAY_NS", "PERIOD_TYPE", "Period", "parse_interval", "parse_period", "period_of", "unit_name"]

PERIOD_TYPE = pa.month_day_nano_interval()

DAY_NS = 86_400 * 10**9
"""Nanoseconds of a day of 24 hours."""
_DAYS_OF_MONTH = 30
_AMOUNT = re.compile(r"\s*([+-]?(?:[0-9]{1,40}(?:\.[0-9]{1,40})?|\.[0-9]{1,40}))\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Period:
    """Months, days and nanoseconds, which may differ in sign."""

    months: int = 0
    days: int = 0
    nanos: int = 0

    @property
    def stored(self) -> int:
        """The 16 bytes of Arrow, low end first, as one integer."""
        parts = (self.months, 4), (self.days, 4), (self.nanos, 8)
        return int.from_bytes(
            b"".join(v.to_bytes(size, "little", signed=True) for v, size in parts), "little"
        )

    @property
    def is_stored(self) -> bool:
        """Whether Arrow's integers hold the parts."""
        return all(
            -(1 << bits) <= part < 1 << bits
            for part, bits in ((self.months, 31), (self.days, 31), (self.nanos, 63))
        )

    def length(self) -> int:
        """Nanoseconds, with days of 24 hours.

        Raises
        ------
        ExpressionError
            It has months.
        """
        if self.months:
            raise ExpressionError(
                f"{self} has no fixed length, as months differ: add it to a date or timestamp, or write days"
            )
        return self.days * DAY_NS + self.nanos

    def __str__(self) -> str:
        """SQL text that reads back as the same parts."""
        sign, nanos = "-" * (self.nanos < 0), abs(self.nanos)
        below = f".{nanos % 10**9:09}".rstrip("0") if nanos % 10**9 else ""
        parts = [f"{self.months} months"] * bool(self.months) + [f"{self.days} days"] * bool(self.days)
        if nanos or not parts:
            parts.append(f"{sign}{nanos // 10**9}{below} seconds")
        return f"interval '{' '.join(parts)}'"


def period_of(stored: int) -> Period:
    """The parts of a stored interval.

    Examples
    --------
    >>> period_of(Period(1, -2, 3).stored)
    Period(months=1, days=-2, nanos=3)
    """
    raw = stored.to_bytes(16, "little")
    months, days, nanos = (
        int.from_bytes(raw[a:b], "little", signed=True) for a, b in ((0, 4), (4, 8), (8, 16))
    )
    return Period(months, days, nanos)


def parse_interval(text: str, unit: str = "") -> int:
    """Parse an interval to its length in nanoseconds.

    Parameters
    ----------
    text : str
        ``"2 days 3 hours"``, or a number when ``unit`` is given.
    unit : str
        Such as ``"day"``.

    Raises
    ------
    ExpressionError
        Not an interval, or months and years, whose length depends on the calendar.

    Examples
    --------
    >>> parse_interval("1.5", "second")
    1500000000
    """
    return parse_period(text, unit).length()


def parse_period(text: str, unit: str = "") -> Period:
    """Parse an interval to its parts.

    A last number without a unit counts seconds. Fractions of years are whole months, those of months whole days of a
    month of 30, those of smaller units a time; what is left is cut off.

    Parameters
    ----------
    text : str
        ``"1 month 2 days"``, or a number when ``unit`` is given.
    unit : str
        Such as ``"month"``.

    Raises
    ------
    ExpressionError
        Not an interval.

    Examples
    --------
    >>> parse_period("1 year 1.5 months"), parse_period("-1.5", "day")
    (Period(months=13, days=15, nanos=0), Period(months=0, days=-1, nanos=-43200000000000))
    """
    rest = f"{text} {unit}".strip()
    months = days = nanos = position = 0
    seen: set[str] = set()
    while position < len(rest) or not seen:
        match = _AMOUNT.match(rest, position)
        name = None if match is None else _NAMES.get(match[2].lower())
        if match is None or (not match[2] and match.end() < len(rest)):
            raise ExpressionError(
                f"{printable(text)!r} is not an interval such as '2 days' or '1 month 12 hours'"
            )
        if name is None:
            raise ExpressionError(
                f"an interval has no {printable(match[2])!r}; there are {', '.join(_UNITS)}"
            )
        if name in seen:
            raise ExpressionError(f"the interval {printable(text)!r} has {name} twice; add them up")
        seen.add(name)
        amount = Fraction(match[1])
        more = _UNITS[name](int(amount), amount - int(amount))
        months, days, nanos = months + more[0], days + more[1], nanos + more[2]
        position = match.end()
    return Period(months, days, nanos)


def unit_name(text: str) -> str | None:
    """The name of a unit of intervals, None if there is no such unit.

    Examples
    --------
    >>> unit_name("hrs"), unit_name("MONTHS"), unit_name("epoch")
    ('hour', 'month', None)
    """
    return _NAMES.get(text.lower()) if text else None


_Parts = Callable[[int, Fraction], tuple[int, int, int]]


def _years(count: int) -> _Parts:
    return lambda whole, rest: (whole * count * 12 + int(rest * count * 12), 0, 0)


def _days(count: int) -> _Parts:
    return lambda whole, rest: (0, whole * count, int(rest * count * DAY_NS))


def _length(size: int) -> _Parts:
    return lambda whole, rest: (0, 0, whole * size + int(rest * size))


_UNITS: dict[str, _Parts] = {
    "nanosecond": _length(1),
    "microsecond": _length(10**3),
    "millisecond": _length(10**6),
    "second": _length(10**9),
    "minute": _length(60 * 10**9),
    "hour": _length(3600 * 10**9),
    "day": _days(1),
    "week": _days(7),
    "month": lambda whole, rest: (whole, int(rest * _DAYS_OF_MONTH), 0),
    "year": _years(1),
    "decade": _years(10),
    "century": _years(100),
}
_SHORT = {
    "microsecond": "us usec usecs usecond useconds",
    "millisecond": "ms msec msecs msecond mseconds",
    "second": "s sec secs",
    "minute": "m min mins",
    "hour": "h hr hrs",
    "day": "d",
    "week": "w",
    "month": "mon mons",
    "year": "y yr yrs",
    "decade": "dec decs",
    "century": "c cent cents centuries",
}
_NAMES = {
    "": "second",
    **{name: name for name in _UNITS},
    **{f"{name}s": name for name in _UNITS if name != "century"},
    **{short: name for name, shorts in _SHORT.items() for short in shorts.split()},
}
