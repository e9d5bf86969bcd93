"""Types of arithmetic.

Results have the types pylance gives them: an untyped number takes the type of the column it meets, integers divide
to integers (truncating), a float wins over an integer. A result that only feeds a comparison is computed as bigint
(``wide``), so that the sum of small integers does not overflow on the way.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.kinds import common_type, family, is_number
from lancecy.expr.literals import fit, settle
from lancecy.expr.nodes import Call, Expr, Literal
from lancecy.expr.periods import PERIOD_TYPE, Period, period_of
from lancecy.expr.times import nanos_per_unit

__all__ = ["as_length", "as_period", "cast_to", "operands", "same_intervals"]

_TEMPORAL = frozenset(("date", "timestamp", "time", "interval", "period"))


def cast_to(expr: Expr, target: pa.DataType) -> Expr:
    """Cast the operand to another type; literals are converted at once where that is exact."""
    if expr.type == target:
        return expr
    if isinstance(expr, Literal):
        if expr.value is None:
            return Literal(None, target)
        if is_number(expr.type) and is_number(target):
            found = fit(expr, target)
            if isinstance(found, Literal):
                return found
    return Call("cast", (expr, Literal(None, target)), target)


def operands(op: str, left: Expr, right: Expr, wide: bool) -> tuple[Expr, Expr]:
    """Both sides of ``left op right`` in the types for the kernel.

    Parameters
    ----------
    op : str
        One of ``+ - * / %``.
    wide : bool
        Whether integers may be computed as bigint.

    Raises
    ------
    ExpressionError
        The types have no such arithmetic; the message names both.
    """
    if isinstance(left, Literal) and isinstance(right, Literal):
        left, right = settle(left), settle(right)
    if _TEMPORAL & {family(left.type), family(right.type)}:
        return _temporal(op, left, right)
    if op in ("/", "%") and pa.uint64() in (left.type, right.type):
        # A constant becomes unsigned too: no bigint holds all values of the other side.
        wide = False
    left, right = _meet(left, right, wide), _meet(right, left, wide)
    if not (is_number(left.type) and is_number(right.type)):
        raise _no_arithmetic(op, left, right)
    target = _number_type(op, left, right, wide)
    if family(target) == "decimal" and "decimal" in (family(left.type), family(right.type)):
        # Each keeps its own precision and scale; Arrow derives those of the result from both.
        return _as_decimal(left), _as_decimal(right)
    return cast_to(left, target), cast_to(right, target)


def _no_arithmetic(op: str, left: Expr, right: Expr) -> ExpressionError:
    return ExpressionError(
        f"there is no {describe_type(left.type)} {op} {describe_type(right.type)} "
        f"(in {describe(Call(op, (left, right)), 10)}); CAST one side"
    )


def _meet(side: Expr, other: Expr, wide: bool) -> Expr:
    """Give an untyped number the type of the operand it meets."""
    if not isinstance(side, Literal) or side.type is not None:
        return side
    kind = family(other.type)
    if kind == "integer" and isinstance(side.value, int) and not wide:
        found = fit(side, other.type)
        return found if isinstance(found, Literal) else settle(side)
    if kind == "float" and isinstance(side.value, (int, float, Decimal)):
        found = fit(side, other.type)
        return found if isinstance(found, Literal) else settle(side)
    if kind == "decimal" and isinstance(side.value, (int, Decimal)) and not isinstance(side.value, bool):
        return _decimal_literal(side)
    return settle(side)


def _decimal_literal(literal: Literal) -> Literal:
    value = literal.value if isinstance(literal.value, Decimal) else Decimal(str(literal.value))
    digits, exponent = len(value.as_tuple().digits), value.as_tuple().exponent
    scale = max(0, -int(exponent))
    precision = max(digits + max(0, int(exponent)), scale, 1)
    if precision > 38:
        return settle(literal)
    found = fit(literal, pa.decimal128(precision, scale))
    return found if isinstance(found, Literal) else settle(literal)


def _number_type(op: str, left: Expr, right: Expr, wide: bool) -> pa.DataType:
    kinds = family(left.type), family(right.type)
    if "float" in kinds:
        if "integer" in kinds:
            return left.type if kinds[0] == "float" else right.type
        return common_type(left.type, right.type)
    target = common_type(left.type, right.type)
    if (
        op in ("/", "%")
        and "decimal" in (family(target), *kinds)
        and (op == "%" or kinds == ("integer", "integer"))
    ):
        raise _no_arithmetic(op, left, right)
    if not wide or kinds != ("integer", "integer"):
        return target
    if target == pa.uint64():
        # The difference of unsigned numbers may be negative.
        return pa.decimal128(20, 0) if op == "-" else target
    if family(target) == "decimal":
        return pa.decimal256(20, 0) if op == "*" else target
    return pa.int64()


def _as_decimal(side: Expr) -> Expr:
    if side.type is None or family(side.type) == "decimal":
        return side
    return cast_to(side, pa.decimal128({8: 3, 16: 5, 32: 10}.get(side.type.bit_width, 20), 0))


def _temporal(op: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    left, right = _read_text(left, right), _read_text(right, left)
    if op in ("+", "-") and _moves(op, left, right):
        return _shift(left, right)
    if op in ("+", "-"):
        left, right = same_intervals([left, right])
    else:
        left, right = as_length(left), as_length(right)
    one, two = family(left.type), family(right.type)
    pair = {one, two}
    if op == "-" and pair == {"date"}:
        return _days(left), _days(right)
    if op in ("+", "-") and pair == {"period"}:
        return left, right
    if (op == "-" and pair <= {"date", "timestamp"}) or (op in ("+", "-") and pair == {"interval"}):
        target = common_type(left.type, right.type)
        if target is not None:
            return cast_to(left, target), cast_to(right, target)
    if op == "*" and pair == {"interval", "integer"}:
        return _count(left), _count(right)
    if pair in ({"date", "integer"}, {"timestamp", "integer"}):
        raise ExpressionError(
            f"a number of what? In {describe(Call(op, (left, right)), 10)} write an interval, such as interval '1 day'"
        )
    raise _no_arithmetic(op, left, right)


def as_length(side: Expr) -> Expr:
    """An interval with days as a length, days of 24 hours; other expressions unchanged.

    Raises
    ------
    ExpressionError
        It has months.
    """
    if not isinstance(side, Literal) or family(side.type) != "period" or not isinstance(side.value, int):
        return side
    nanos = period_of(side.value).length()
    return Literal(nanos, pa.duration("ns")) if nanos % 1000 else Literal(nanos // 1000, pa.duration("us"))


def as_period(side: Expr) -> Expr:
    """A constant interval as one of the calendar; other expressions, and lengths that it cannot hold, unchanged."""
    if not isinstance(side, Literal) or family(side.type) != "interval" or not isinstance(side.value, int):
        return side
    period = Period(nanos=side.value * nanos_per_unit(side.type))
    return Literal(period.stored, PERIOD_TYPE) if period.is_stored else side


def same_intervals(sides: list[Expr]) -> list[Expr]:
    """Constant intervals all as ones of the calendar, or all as lengths if others are lengths.

    Raises
    ------
    ExpressionError
        One has months, and another is a column of lengths.
    """
    if "period" not in {family(side.type) for side in sides}:
        return sides
    found = [as_period(side) for side in sides]
    if {family(side.type) for side in found} <= {"period", "null"}:
        return found
    return [as_length(side) for side in sides]


def _moves(op: str, left: Expr, right: Expr) -> bool:
    """Whether an interval moves a date or timestamp."""
    one, two = family(left.type), family(right.type)
    dates, lengths = ("date", "timestamp"), ("interval", "period")
    return (one in dates and two in lengths) or (op == "+" and one in lengths and two in dates)


def _shift(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """A date or timestamp and an interval: the interval in the unit of the other, which is finer only if it must be."""
    if family(right.type) not in ("interval", "period"):
        right, left = _shift(right, left)
        return left, right
    is_date = family(left.type) == "date"
    if family(right.type) == "period":
        nanos = (
            period_of(right.value).nanos if isinstance(right, Literal) and isinstance(right.value, int) else 0
        )
        if is_date and not nanos:
            return left, right
        left = _instant(left)
        kind = left.type or pa.timestamp("us")
        return cast_to(left, pa.timestamp(_unit_for(nanos, kind), kind.tz)), right
    left = _instant(left)
    if isinstance(right, Literal) and isinstance(right.value, int):
        nanos = right.value * nanos_per_unit(right.type)
        unit = _unit_for(nanos, left.type)
        shorter = nanos // nanos_per_unit(pa.duration(unit))
        if -(2**63) <= shorter < 2**63:
            right = Literal(shorter, pa.duration(unit))
    return left, right


def _unit_for(nanos: int, data_type: pa.DataType) -> str:
    """The unit of a timestamp, or the nearest finer one that holds so many nanoseconds."""
    units = ("s", "ms", "us", "ns")
    fine = units[units.index(data_type.unit) :]
    return next(unit for unit in fine if nanos % nanos_per_unit(pa.timestamp(unit)) == 0)


def _read_text(side: Expr, other: Expr) -> Expr:
    if not isinstance(side, Literal) or side.type is not None:
        return side
    if isinstance(side.value, str):
        found = fit(side, other.type)
        return found if isinstance(found, Literal) else settle(side)
    return settle(side)


def _count(side: Expr) -> Expr:
    return side if family(side.type) == "interval" else cast_to(side, pa.int64())


def _days(side: Expr) -> Expr:
    return cast_to(cast_to(cast_to(side, pa.date32()), pa.int32()), pa.int64())


def _instant(side: Expr) -> Expr:
    return cast_to(side, pa.timestamp("us")) if family(side.type) == "date" else side
