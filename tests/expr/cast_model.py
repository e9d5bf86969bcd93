"""What CAST gives, by Python's exact numbers: one value at a time, without the package.

A value is what is stored: an int for integers and everything temporal, a Fraction for decimals, a float for floats.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

__all__ = ["FAILS", "UNKNOWN", "expected", "family_of", "stored"]

FAILS, UNKNOWN = "fails", "unknown"
"""There is no right value; this model does not know it (zones in years that Python does not have)."""

DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LARGEST = {
    16: (65_520, np.float16),
    32: ((2**25 - 1) * 2**103, np.float32),
    64: ((2**54 - 1) * 2**970, np.float64),
}
_NUMBER = re.compile(r"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d+))?")
_MOMENT = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9})\d{0,21})?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def family_of(kind: pa.DataType) -> str:
    """One word for a type."""
    types = pa.types
    tests = {
        "boolean": types.is_boolean, "integer": types.is_integer, "float": types.is_floating, "decimal": types.is_decimal,
        "date": types.is_date, "timestamp": types.is_timestamp, "time": types.is_time, "interval": types.is_duration,
    }  # fmt: skip
    found = next((name for name, test in tests.items() if test(kind)), None)
    return found or ("text" if types.is_string(kind) or types.is_large_string(kind) else "binary")


def stored(values: pa.Array) -> list[Any]:
    """Values of an array as this module has them."""
    kind = values.type
    if pa.types.is_temporal(kind):
        return list(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist())
    if pa.types.is_decimal(kind):
        return [None if v is None else Fraction(v) for v in values.to_pylist()]
    return [None if v is None else float(v) if pa.types.is_floating(kind) else v for v in values.to_pylist()]


def expected(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """The stored value after CAST, FAILS or UNKNOWN."""
    one, two = family_of(source), family_of(target)
    if one == "binary" and two != "binary":
        try:
            return expected(value.decode(), pa.string(), target)
        except UnicodeDecodeError:
            return FAILS
    if two == "text":
        return _text(value, source)
    if one == "text":
        return _of_text(value, target)
    if one == "boolean":
        return _number(Fraction(value), target)
    if one in ("integer", "float", "decimal"):
        return _of_number(value, source, target)
    if one == two == "binary":
        return (
            value if not pa.types.is_fixed_size_binary(target) or len(value) == target.byte_width else FAILS
        )
    return _of_moment(value, source, target)


# Numbers


def _of_number(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    two = family_of(target)
    if isinstance(value, float) and not math.isfinite(value):
        return value if two == "float" else FAILS if two != "boolean" else True
    if two in ("date", "time", "timestamp", "interval"):
        return _ticks(math.trunc(value), target)
    if two == "float" and value == 0:
        return float(value)
    return _number(Fraction(value), target)


def _ticks(value: int, target: pa.DataType) -> Any:
    low, high = _limits(target)
    if value >= 2**63:
        return FAILS
    if pa.types.is_date64(target):
        value = value // (DAY * 1000) * DAY * 1000
    return value if low <= value <= high else FAILS


def _number(exact: Fraction, target: pa.DataType) -> Any:
    kind = family_of(target)
    if kind == "boolean":
        return exact != 0
    if kind == "float":
        return _nearest(exact, target)
    if kind == "decimal":
        scaled = exact * Fraction(10) ** target.scale
        whole = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
        return Fraction(whole) / Fraction(10) ** target.scale if abs(whole) < 10**target.precision else FAILS
    if kind != "integer":
        return UNKNOWN
    whole = math.trunc(exact)
    low, high = _limits(target)
    return whole if low <= whole <= high else FAILS


def _nearest(exact: Fraction, target: pa.DataType) -> float:
    """The nearest number of a floating-point type, ties to even, infinite beyond the middle after the largest."""
    most, make = _LARGEST[target.bit_width]
    if abs(exact) >= most:
        return math.inf if exact > 0 else -math.inf
    info: Any = np.finfo(make)
    size = abs(exact)
    exponent = max(int(info.minexp), _magnitude(size)) - int(info.nmant)
    units = size / Fraction(2) ** exponent
    below = math.floor(units)
    rest = units - below
    below += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    return math.copysign(float(below * Fraction(2) ** exponent), -1.0 if exact < 0 else 1.0)


def _magnitude(size: Fraction) -> int:
    """The power of two at or below a number; any small number for zero."""
    if size == 0:
        return -5000
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if Fraction(2) ** guess <= size else guess - 1


def _limits(target: pa.DataType) -> tuple[int, int]:
    bits: int = target.bit_width
    if pa.types.is_time(target):
        return 0, DAY * _PER_SECOND[target.unit] - 1
    if pa.types.is_unsigned_integer(target):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


# Moments


def _second(kind: pa.DataType) -> Fraction:
    """Stored units in a second."""
    if pa.types.is_date(kind):
        return Fraction(1, DAY) if kind.bit_width == 32 else Fraction(1000)
    return Fraction(_PER_SECOND[kind.unit])


def _of_moment(value: int, source: pa.DataType, target: pa.DataType) -> Any:
    one, two = family_of(source), family_of(target)
    if two == "integer":
        return _number(Fraction(value), target)
    seconds = Fraction(value) / _second(source)
    if one == "timestamp" and two in ("date", "time") and _beyond(value, source):
        return FAILS
    if one == "timestamp" and source.tz and two in ("date", "time"):
        offset = _offset(math.floor(seconds), source.tz)
        if offset is None:
            return UNKNOWN
        seconds += offset
    if two == "date":
        ticks = math.floor(seconds / DAY) * DAY * _second(target)
    elif two == "time":
        ticks = Fraction(math.floor(seconds % DAY * _second(target)))
    else:
        ticks = seconds * _second(target)
        ticks = Fraction(math.trunc(ticks) if two == "interval" else math.floor(ticks))
    low, high = _limits(target)
    return int(ticks) if low <= ticks <= high else FAILS


def _beyond(value: int, kind: pa.DataType) -> bool:
    """Whether the clock of a zone may lie outside 64 bits: within a day of the ends."""
    return kind.tz not in (None, "UTC") and not -(2**63) + DAY * _second(
        kind
    ) <= value < 2**63 - DAY * _second(kind)


def _offset(seconds: int, zone: str) -> int | None:
    """Seconds that a zone's clock is ahead of UTC; None for years that Python does not have."""
    if zone == "UTC":
        return 0
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
        offset = moment.astimezone(ZoneInfo(zone)).utcoffset()
    except OverflowError:
        return None
    return None if offset is None else int(offset.total_seconds())


# Text


def _text(value: Any, source: pa.DataType) -> Any:
    kind = family_of(source)
    if kind == "boolean":
        return "true" if value else "false"
    if kind in ("text", "binary", "integer"):
        return str(value)
    if kind == "interval":
        return _span(value, _PER_SECOND[source.unit])
    if kind in ("float", "decimal"):
        # What is asked of such text is that it reads back as the value.
        return value
    seconds = Fraction(value) / _second(source)
    if kind == "time":
        return _clock(seconds)
    if kind == "timestamp" and _beyond(value, source):
        return FAILS
    zone = source.tz if kind == "timestamp" else None
    offset = _offset(math.floor(seconds), zone) if zone else 0
    if offset is None:
        return UNKNOWN
    day = _calendar(math.floor((seconds + offset) / DAY))
    if day is None or kind == "date":
        return FAILS if day is None else day
    sign, minutes = "-" if offset < 0 else "+", abs(offset) // 60
    written = "" if zone is None else f"{sign}{minutes // 60:02}:{minutes % 60:02}" if minutes else "Z"
    return f"{day}T{_clock((seconds + offset) % DAY)}{written}"


def _span(value: int, per: int) -> str:
    sign, (seconds, below) = -1 if value < 0 else 1, divmod(abs(value), per)
    parts = (seconds // DAY, seconds // 3600 % 24, seconds // 60 % 60)
    digits = len(str(per)) - 1
    last = f"{seconds % 60}.{below:0{digits}}" if digits else str(seconds % 60)
    last = f"-{last}" if sign < 0 and float(last) else last
    return "{} days {} hours {} mins {} secs".format(*(sign * part for part in parts), last)


def _clock(seconds: Fraction) -> str:
    whole = int(seconds)
    text, rest = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}", seconds - whole
    digits = next(n for n in (0, 3, 6, 9) if (rest * 10**n).denominator == 1)
    return f"{text}.{int(rest * 10**digits):0{digits}}" if digits else text


def _calendar(days: int) -> str | None:
    """A day as text; years before 1 are counted in the cycle of 400 years."""
    ordinal = days + dt.date(1970, 1, 1).toordinal()
    if -365 <= ordinal <= 0:
        # 366 days of year 0, which is a leap year as 400 is.
        return f"0000{(dt.date.fromordinal(ordinal + 146_097)).isoformat()[4:]}"
    return dt.date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= dt.date.max.toordinal() else None


def _of_text(text: str, target: pa.DataType) -> Any:
    kind = family_of(target)
    if kind == "binary":
        return expected(text.encode(), pa.binary(), target)
    if kind == "boolean":
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), FAILS)
    if kind in ("integer", "decimal", "float"):
        match = re.fullmatch(_NUMBER, text) if text.isascii() else None
        if match is None:
            special = {"nan": math.nan, "inf": math.inf, "-infinity": -math.inf}
            return special.get(text.lower(), FAILS) if kind == "float" else FAILS
        if kind == "integer" and not re.fullmatch(r"-?\d+", text):
            return FAILS
        return _of_digits(match, target)
    return _of_instant_text(text, target)


def _of_digits(match: re.Match[str], target: pa.DataType) -> Any:
    sign, whole, fraction, bare, power = match.groups()
    digits = bare or fraction or ""
    exponent = int(power or 0)
    if abs(exponent) > 1000:
        far = math.copysign(math.inf if exponent > 0 else 0.0, -1.0 if sign == "-" else 1.0)
        return far if family_of(target) == "float" else FAILS if exponent > 0 else Fraction(0)
    # Python reads integers of at most 4,300 digits; decimals have no such bound.
    exact = Fraction(Decimal((whole or "") + digits)) * Fraction(10) ** (exponent - len(digits))
    return _number(-exact if sign == "-" else exact, target)


def _of_instant_text(text: str, target: pa.DataType) -> Any:
    kind = family_of(target)
    if kind == "time":
        match = re.fullmatch(_MOMENT, f"1970-01-01 {text}")
        text = f"1970-01-01 {text}" if match and match.group(8) is None and match.group(5) else ""
    if kind != "time":
        text = re.sub(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3", text.strip())
    match = re.fullmatch(_MOMENT, text)
    if match is None or kind == "interval":
        return FAILS
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    zone = match.group(8)
    named = pa.types.is_timestamp(target) and target.tz is not None
    if hour > 23 or minute > 59 or second > 59:
        return FAILS
    if named and zone is None and target.tz != "UTC":
        return UNKNOWN
    try:
        date = dt.date(year or 400, month, day).toordinal() - (0 if year else 146_097)
    except ValueError:
        return FAILS
    seconds = Fraction((date - dt.date(1970, 1, 1).toordinal()) * DAY + hour * 3600 + minute * 60 + second)
    seconds += Fraction(int((match.group(7) or "").ljust(9, "0") or 0), 10**9)
    if zone not in (None, "Z"):
        digits = str(zone)[1:].replace(":", "").ljust(4, "0")
        seconds -= (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if str(zone)[0] == "-" else 1)
    if kind == "time":
        seconds %= DAY
    if kind == "date":
        seconds = Fraction(math.floor(seconds / DAY) * DAY)
    ticks = math.floor(seconds * _second(target))
    low, high = _limits(target)
    return ticks if low <= ticks <= high else FAILS
