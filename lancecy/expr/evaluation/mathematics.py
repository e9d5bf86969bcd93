"""Functions of numbers: of angles, hyperbolic ones, roots, digits and common divisors.

Floats keep their type; what has no value is NaN, as in C. Integers that overflow are an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import values_of
from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.rows import by_group, is_data, rows_of
from lancecy.expr.evaluation.values import Data, by_chunk, rounded, truncated

__all__ = [
    "cbrt",
    "cot",
    "factorial",
    "gcd",
    "is_zero",
    "lcm",
    "log",
    "nan_value",
    "round_to",
    "scaled",
    "trunc_to",
]

_LAST = 20
_FACTORIALS = values_of([math.factorial(number) for number in range(_LAST + 1)], pa.int64())
_MOST = np.uint64(2**63 - 1)


def cbrt(values: Data) -> Data:
    """The cube root.

    Examples
    --------
    >>> cbrt(pa.array([8.0, -27.0, None])).to_pylist()
    [2.0, -3.0, None]
    """

    def run(chunk: pa.Array) -> pa.Array:
        numbers = pc.fill_null(chunk, 0.0).to_numpy(zero_copy_only=False)
        return pa.array(np.cbrt(numbers), chunk.type, mask=_nulls(chunk))

    return by_chunk(run, values)


def cot(values: Data) -> Data:
    """The cotangent; of zero it is infinite."""
    return pc.divide(pa.scalar(1.0, values.type), pc.tan(values))


def scaled(factor: float) -> Callable[[Data], Data]:
    """The kernel that multiplies by a constant, in the type of the values."""
    return lambda values: pc.multiply(values, pa.scalar(factor, values.type))


def log(first: Data, second: Data | None = None) -> Data:
    """The logarithm to base 10, or of the second argument to the base of the first: a quotient of natural ones.

    Examples
    --------
    >>> log(pa.scalar(2.0), pa.array([8.0, 1.0])).to_pylist()
    [3.0, 0.0]
    """
    base, values = (pa.scalar(10.0, first.type), first) if second is None else (first, second)
    return pc.divide(pc.ln(values), pc.ln(pc.cast(base, values.type)))


def nan_value(values: Data, other: Data) -> Data:
    """The value, or the other one where it is NaN.

    Examples
    --------
    >>> nan_value(pa.array([1.0, math.nan, None]), pa.scalar(9.0)).to_pylist()
    [1.0, 9.0, None]
    """
    return pc.if_else(pc.fill_null(pc.is_nan(values), False), other, values)


def is_zero(values: Data) -> Data:
    """Whether a number is zero; NaN is not."""
    return pc.equal(values, _zero(values.type))


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


def round_to(values: Data, digits: Any = 0) -> Data:
    """Round to so many digits after the point, half away from zero; decimals stay decimals.

    Examples
    --------
    >>> round_to(pa.array([2.25, 15.0]), pa.array([1, -1])).to_pylist()
    [2.3, 20.0]
    """
    if not pa.types.is_decimal(values.type):
        return _with_digits(rounded, values, digits)
    kind = values.type
    if is_data(digits):
        target = _decimal(kind, kind.precision + 1, kind.scale)
        return by_group(
            lambda part, count: pc.cast(_round_decimals(part, count), target), target, values, digits
        )
    target = _decimal(kind, kind.precision, max(0, min(digits, kind.scale)))
    return pc.cast(_round_decimals(values, digits), target)


def _decimal(kind: pa.DataType, precision: int, scale: int) -> pa.DataType:
    """A decimal type of the same width."""
    if pa.types.is_decimal256(kind):
        return pa.decimal256(min(precision, 76), scale)
    return pa.decimal128(min(precision, 38), scale)


def _round_decimals(values: Data, digits: int) -> Data:
    kind = values.type
    if digits >= kind.scale:
        return values
    # One digit more, as 9.9 becomes 10.
    wide = pa.decimal256(min(kind.precision + 1, 76), kind.scale)
    if digits < kind.scale - kind.precision:
        return pc.if_else(pc.is_valid(values), _zero(wide), pa.scalar(None, wide))
    return pc.round(pc.cast(values, wide), digits, round_mode="half_towards_infinity")


def trunc_to(values: Data, digits: Any = 0) -> Data:
    """Drop the digits behind the first ones after the point.

    Examples
    --------
    >>> trunc_to(pa.array([2.29, -15.0]), pa.array([1, -1])).to_pylist()
    [2.2, -10.0]
    """
    if not is_data(digits) and digits == 0:
        return pc.trunc(values)
    return _with_digits(truncated, values, digits)


def _with_digits(run: Callable[..., Data], values: Data, digits: Any) -> Data:
    return by_group(run, values.type, values, digits) if is_data(digits) else run(values, digits)


def factorial(values: Data) -> Data:
    """The factorial: bigint.

    Raises
    ------
    ExpressionError
        A number is negative, or larger than 20.

    Examples
    --------
    >>> factorial(pa.array([0, 5, None])).to_pylist()
    [1, 120, None]
    """

    def run(chunk: pa.Array) -> pa.Array:
        if pc.any(pc.or_(pc.less(chunk, 0), pc.greater(chunk, _LAST))).as_py():
            raise ExpressionError(
                f"factorial() of a number below 0 or above {_LAST} is no bigint; leave such rows out by a condition"
            )
        return _FACTORIALS.take(chunk)

    return by_chunk(run, values)


def gcd(left: Data, right: Data) -> Data:
    """The greatest common divisor: bigint.

    Raises
    ------
    ExpressionError
        It is 2^63.

    Examples
    --------
    >>> gcd(pa.array([12, -9, 0]), pa.scalar(6)).to_pylist()
    [6, 3, 6]
    """
    return _of_magnitudes("gcd()", np.gcd, left, right)


def lcm(left: Data, right: Data) -> Data:
    """The least common multiple: bigint.

    Raises
    ------
    ExpressionError
        It is beyond bigint.

    Examples
    --------
    >>> lcm(pa.array([12, -9, 0]), pa.scalar(6)).to_pylist()
    [12, 18, 0]
    """
    return _of_magnitudes("lcm()", _multiples, left, right)


def _multiples(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    factor = left // np.maximum(np.gcd(left, right), 1)
    beyond = factor > _MOST // np.maximum(right, np.uint64(1))
    found: NDArray[np.uint64] = np.where(beyond & (right > 0), _MOST + np.uint64(1), factor * right)
    return found


def _of_magnitudes(name: str, run: Callable[..., NDArray[np.uint64]], left: Data, right: Data) -> Data:
    rows = rows_of(left, right)
    sides = [pa.repeat(side, rows or 1) if isinstance(side, pa.Scalar) else side for side in (left, right)]
    if rows == 0:
        return pa.array([], pa.int64())
    # The smallest bigint has no counterpart; as an unsigned number its magnitude is right.
    numbers = [np.abs(np.asarray(pc.fill_null(side, 1), np.int64)).view(np.uint64) for side in sides]
    nulls = np.asarray(pc.or_(*(pc.is_null(side) for side in sides)))
    found = run(*numbers)
    if (found > _MOST)[~nulls].any():
        raise ExpressionError(f"{name} of these numbers is beyond bigint; leave such rows out by a condition")
    made = pa.array(found.view(np.int64), mask=nulls)
    return made[0] if rows is None else made


def _nulls(chunk: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = chunk.is_null().to_numpy(zero_copy_only=False)
    return nulls
