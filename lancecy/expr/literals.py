"""Constants fitted to the types of the columns they are compared with.

A comparison casts the literal, never the column. A literal that its column's type cannot hold (1000 in an int8,
1.5 in an integer, half a second in a timestamp of seconds) lies in a :class:`Gap` between two values of the
type, and the comparison is rewritten with those; nothing wraps, rounds or fails.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow import conversions
from lancecy.errors import ExpressionError
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.kinds import family, int_limits, is_clock, is_number
from lancecy.expr.nodes import Constant, Literal
from lancecy.expr.periods import DAY_NS, PERIOD_TYPE, parse_interval, period_of
from lancecy.expr.times import Instant, nanos_per_unit, parse_instant, parse_time, to_local
from lancecy.records import dataclass

__all__ = ["Gap", "array_of", "cast_literal", "fit", "scalar_of", "settle", "smallest"]

_TEMPORAL = ("date", "timestamp", "time", "interval")
_PLAIN_DECIMAL = re.compile(r"[+-]?\d{1,76}(\.\d{0,76})?\Z")
# Exact arithmetic on 1e999999999 would need a gigabyte; no type reaches further than 1e308.
_MAX_EXPONENT = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of a constant among the values of a type that does not hold it.

    Attributes
    ----------
    below, above : Literal or None
        The nearest values of the type on either side; None where there is none.
    """

    below: Literal | None
    above: Literal | None


def fit(literal: Literal, target: pa.DataType) -> Literal | Gap:
    """Convert the constant to a value of ``target``, or find the gap it falls into.

    A literal without a stated type is rounded to the nearest value of a floating-point column's type, as in pylance
    (``f32 = 0.1`` finds values stored as 0.1); a literal with a stated type is compared exactly, as in Arrow.

    Raises
    ------
    ExpressionError
        Constants of this kind cannot be compared with the type; the message has both, and the remedy.
    """
    kind = family(target)
    # An interval in text may have more units than its type holds.
    if literal.value is None or (literal.type == target and kind != "interval"):
        return Literal(literal.value, target)
    if kind == "float":
        return _fit_float(literal, target)
    if kind in ("integer", "decimal"):
        return _fit_stored(_number(literal, target), target)
    if kind in _TEMPORAL:
        return _fit_stored(Fraction(_nanos(literal, target), nanos_per_unit(target)), target)
    if kind == "binary" and isinstance(literal.value, bytes) and pa.types.is_fixed_size_binary(target):
        # A value of another width equals none of the column's, but has a place in their order.
        fits = len(literal.value) == target.byte_width
        return Literal(literal.value, target if fits else pa.binary())
    natural = {"text": str, "binary": bytes, "boolean": bool}.get(kind)
    if (
        natural is not None
        and isinstance(literal.value, natural)
        and family(literal.type) in (kind, "constant")
    ):
        return Literal(literal.value, target)
    raise _mismatch(literal, target)


_REMEDIES = {
    "text": "put quotes around it, or CAST the column",
    "binary": "write bytes as X'00ff'",
    "boolean": "write TRUE or FALSE",
    "integer": "write it without quotes, or CAST one side",
    "float": "write it without quotes, or CAST one side",
    "decimal": "write it without quotes, or CAST one side",
    "date": "write it as date '2024-05-17'",
    "timestamp": "write it as timestamp '2024-05-17 12:30:00'",
    "time": "write it as time '12:30:00'",
    "interval": "write it as interval '2 days'",
}


_WORDS = {bool: "the boolean", int: "the number", float: "the number", Decimal: "the number", str: "the text"}


def _mismatch(literal: Literal, target: pa.DataType) -> ExpressionError:
    word = _WORDS.get(type(literal.value), "the bytes")
    stated = f"{describe(literal)} of type {describe_type(literal.type)}"
    remedy = _REMEDIES.get(family(target), f"values of type {target} have no order and no literals")
    if target == pa.binary(16) and isinstance(literal.value, str):
        with suppress(ValueError):
            remedy = f"write this UUID as X'{UUID(literal.value).hex}'"
    return ExpressionError(
        f"{stated if literal.type is not None else f'{word} {describe(literal)}'} "
        f"cannot be compared or combined with {describe_type(target)}; {remedy}"
    )


def _number(literal: Literal, target: pa.DataType) -> Fraction | float:
    """The exact number; infinities and NaN as floats."""
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise _mismatch(literal, target)
    if literal.type is not None and not is_number(literal.type):
        raise _mismatch(literal, target)
    if not (
        value.is_finite() if isinstance(value, Decimal) else isinstance(value, int) or math.isfinite(value)
    ):
        return float(value)
    if isinstance(value, Decimal) and abs(value.adjusted()) > _MAX_EXPONENT:
        raise ExpressionError(f"{value} is not a number that any column could hold")
    scale = 10**target.scale if family(target) == "decimal" and target.scale >= 0 else 1
    if family(target) == "decimal" and target.scale < 0:
        shifted: Fraction = Fraction(value) / 10**-target.scale
        return shifted
    exact: Fraction = Fraction(value) * scale
    return exact


def _fit_stored(number: Fraction | float, target: pa.DataType) -> Literal | Gap:
    """Fit a number, given in units of the type, into a type that stores integers."""
    low, high = _stored_limits(target)
    if isinstance(number, float):
        if math.isnan(number):
            return Gap(None, None)
        return Gap(_stored(high, target), None) if number > 0 else Gap(None, _stored(low, target))
    if number > high:
        return Gap(_stored(high, target), None)
    if number < low:
        return Gap(None, _stored(low, target))
    below = math.floor(number)
    if number == below:
        return _stored(below, target)
    return Gap(_stored(below, target), _stored(below + 1, target))


def _stored_limits(target: pa.DataType) -> tuple[int, int]:
    kind = family(target)
    if kind == "integer":
        return int_limits(target)
    if kind == "decimal":
        return -(10**target.precision) + 1, 10**target.precision - 1
    if kind == "time":
        return 0, DAY_NS // nanos_per_unit(target) - 1
    return int_limits(pa.int32() if pa.types.is_date32(target) else pa.int64())


def _stored(value: int, target: pa.DataType) -> Literal:
    if family(target) == "decimal":
        digits = tuple(int(d) for d in str(abs(value)))
        return Literal(Decimal((int(value < 0), digits, -target.scale)), target)
    return Literal(value, target)


def _fit_float(literal: Literal, target: pa.DataType) -> Literal | Gap:
    number = _number(literal, target)
    if isinstance(number, float):
        return Literal(number, target)
    make: Any = {16: np.float16, 32: np.float32}.get(target.bit_width, np.float64)
    largest = float(np.finfo(make).max)
    if number > Fraction(largest):
        return Gap(Literal(largest, target), Literal(math.inf, target))
    if number < -Fraction(largest):
        return Gap(Literal(-math.inf, target), Literal(-largest, target))
    # -0.0 keeps its sign, which only division and casts show.
    value = float(number)
    if not number and isinstance(literal.value, (float, Decimal)):
        value = math.copysign(0.0, literal.value)
    near = make(value)
    exact = Fraction(float(near)) if np.isfinite(near) else None
    if literal.type is None or exact == number:
        return Literal(float(near), target)
    away = make(math.inf if exact is not None and exact < number else -math.inf)
    sides = sorted((float(near), float(np.nextafter(near, away))))
    return Gap(Literal(sides[0], target), Literal(sides[1], target))


def _nanos(literal: Literal, target: pa.DataType) -> int:
    """Nanoseconds of a temporal constant on the clock of ``target``."""
    kind, own, value = family(target), family(literal.type), literal.value
    if isinstance(value, str):
        if kind == "time":
            return parse_time(value)
        if kind == "interval":
            return parse_interval(value)
        return _on_clock(parse_instant(value), literal, target)
    if isinstance(value, int) and literal.type is not None and own in (*_TEMPORAL, "period"):
        if own == "period" and kind == "interval":
            return period_of(value).length()
        nanos = value * nanos_per_unit(literal.type)
        if own == kind and kind in ("time", "interval"):
            return nanos
        if {own, kind} <= {"date", "timestamp"}:
            zoned = own == "timestamp" and literal.type.tz is not None
            return _on_clock(Instant(nanos, 0 if zoned else None), literal, target)
    raise _mismatch(literal, target)


def _on_clock(instant: Instant, literal: Literal, target: pa.DataType) -> int:
    zone = target.tz if pa.types.is_timestamp(target) else None
    if instant.offset is not None:
        if zone is None and not is_clock(literal.type):
            raise ExpressionError(
                f"{describe(literal)} is an instant, {describe_type(target)} has no time zone; "
                "write the time without zone or offset"
            )
        return instant.nanos - instant.offset * 10**9
    # A reading without a zone is taken on the column's own clock, as in DataFusion.
    return instant.nanos if zone is None else to_local(instant.nanos, zone)


def settle(literal: Literal) -> Literal:
    """The literal with its default type, for want of an operand that gives it another.

    Integers are bigint (or, beyond that, bigint unsigned or double), other numbers double.
    """
    value = literal.value
    if literal.type is not None or isinstance(value, tuple):
        return literal
    if isinstance(value, bool):
        return Literal(value, pa.bool_())
    if isinstance(value, int):
        for kind in (pa.int64(), pa.uint64()):
            low, high = int_limits(kind)
            if low <= value <= high:
                return Literal(value, kind)
    if isinstance(value, (int, Decimal)):
        near = fit(Literal(value), pa.float64())
        return near if isinstance(near, Literal) else Literal(math.copysign(math.inf, value), pa.float64())
    natural = {float: pa.float64(), str: pa.string(), bytes: pa.binary()}
    return Literal(value, natural.get(type(value), pa.null()))


def cast_literal(literal: Literal, target: pa.DataType) -> Literal | None:
    """Convert text at once to a date, time, interval or decimal; None if that does not apply.

    ``date '2024-05-17'`` and ``CAST('…' AS timestamp)`` become typed literals; digits finer than the
    type are cut. A timestamp written with an offset is an instant, and its literal has zone UTC.

    Raises
    ------
    ExpressionError
        The text is not a valid date or time.
    """
    if not isinstance(literal.value, str):
        return None
    if family(target) == "decimal" and _PLAIN_DECIMAL.match(literal.value):
        exact = fit(Literal(Decimal(literal.value)), target)
        return exact if isinstance(exact, Literal) else None
    if family(target) not in _TEMPORAL:
        return None
    if (
        pa.types.is_timestamp(target)
        and target.tz is None
        and parse_instant(literal.value).offset is not None
    ):
        target = pa.timestamp(target.unit, tz="UTC")
    if family(target) == "date":
        instant = parse_instant(literal.value)
        if instant.offset is not None:
            # The day in UTC, as of a column of texts.
            day = (instant.nanos - instant.offset * 10**9) // DAY_NS
            return _stored(day * (DAY_NS // nanos_per_unit(target)), target)
    found = fit(Literal(literal.value), target)
    if isinstance(found, Gap):
        # A time of day in valid text is before midnight, where the type's last value may be earlier.
        is_last = found.above is None and family(target) == "time"
        if found.below is None or (found.above is None and not is_last):
            raise ExpressionError(f"{describe(literal)} is beyond the range of {describe_type(target)}")
        return found.below
    return found


@lru_cache(maxsize=4096)
def scalar_of(literal: Literal) -> pa.Scalar:
    """The Arrow scalar of a typed literal.

    Raises
    ------
    ExpressionError
        The value does not fit the literal's type.
    """
    value: Any = literal.value
    if value is not None and literal.type is not None and pa.types.is_float16(literal.type):
        value = np.float16(value)
    if value is not None and literal.type == PERIOD_TYPE:
        period = period_of(value)
        value = pa.MonthDayNano([period.months, period.days, period.nanos])
    try:
        return conversions.scalar_of(value, literal.type)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ExpressionError(
            f"{describe(literal)} is not a value of {describe_type(literal.type)}"
        ) from error


@lru_cache(maxsize=64)
def array_of(literal: Literal, with_null: bool = False) -> pa.Array:
    """The Arrow array of a typed list literal, without its nulls if they are not asked for.

    Raises
    ------
    ExpressionError
        A value does not fit the type.
    """
    values: tuple[Constant, ...] = literal.value if isinstance(literal.value, tuple) else (literal.value,)
    try:
        return conversions.values_of([v for v in values if v is not None or with_null], literal.type)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ExpressionError(
            f"{describe(literal, 10)} holds a value that is not of type {literal.type}"
        ) from error


def smallest(data_type: pa.DataType) -> Literal:
    """The smallest value of a type of numbers, times or bytes: ``x < smallest`` is never true.

    Bytes of a fixed width compare like bytes of any width.
    """
    if family(data_type) == "binary":
        return Literal(b"", data_type if not pa.types.is_fixed_size_binary(data_type) else pa.binary())
    if family(data_type) == "float":
        return Literal(-math.inf, data_type)
    return _stored(_stored_limits(data_type)[0], data_type)
