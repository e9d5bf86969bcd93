"""Conversions between decimals and other numbers, exact or correctly rounded.

Arrow converts a decimal to a float in two roundings, a float to a decimal by its own rule for ties, and text with
more digits than the type to a wrong number. Here a value becomes the nearest one of its target: floats round half to
even (IEEE 754), decimals round half away from zero (SQL). A value with too many digits before the point is an error.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.errors import ExpressionError, printable
from lancecy.expr.evaluation.values import Data, by_chunk

__all__ = ["decimal_to_decimal", "decimal_to_float", "float_to_decimal", "round_decimal", "text_to_decimal"]

# Integers and powers of ten up to these are exact in the type, so that one division rounds once.
_EXACT: dict[int, tuple[Any, int, int]] = {32: (np.float32, 2**24, 10), 64: (np.float64, 2**53, 22)}
_SPLITTER = 2.0**27 + 1
_MOST_DIGITS = 76
# Characters of a text in a message: longer text would cut off the reason.
_SHOWN = 100
# No two neighbouring parts match the same digits, so that long text is refused in one pass.
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,10})?", re.ASCII)
_EXACTLY = Context(prec=_MOST_DIGITS + 4, rounding=ROUND_HALF_UP, Emax=10**17, Emin=-(10**17))


def decimal_to_float(values: Data, target: pa.DataType) -> Data:
    """The nearest floating-point number to each decimal.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of decimal128 or decimal256
    target : pa.DataType
        float32 or float64. Values beyond its range become infinite, as IEEE 754 rounds.

    Returns
    -------
    pa.Array, pa.ChunkedArray or pa.Scalar of ``target``

    Examples
    --------
    >>> from decimal import Decimal
    >>> decimal_to_float(pa.array([Decimal("1.2345")]), pa.float64()).to_pylist()
    [1.2345]
    """

    def run(chunk: pa.Array) -> pa.Array:
        quick = _quotients(chunk, target)
        # Arrow writes all digits of a decimal and reads text correctly rounded.
        return pc.cast(pc.cast(chunk, pa.string()), target) if quick is None else quick

    return by_chunk(run, values)


def _quotients(chunk: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Divide the unscaled integers by the power of ten; None where either is not exact in the target."""
    make, largest, most = _EXACT[target.bit_width]
    if not 0 <= chunk.type.scale <= most:
        return None
    words = _words(chunk)
    unscaled = words[:, 0]
    nulls = chunk.is_null().to_numpy(zero_copy_only=False)
    small = (
        (unscaled >= -largest)
        & (unscaled <= largest)
        & (words[:, 1:] == (unscaled >> 63)[:, None]).all(axis=1)
    )
    if not (small | nulls).all():
        return None
    return pa.array(unscaled.astype(make) / make(10.0**chunk.type.scale), target, mask=nulls)


def _words(chunk: pa.Array) -> NDArray[np.int64]:
    """(n, 2) or (n, 4) int64: the unscaled integers of decimals, lowest word first."""
    width = chunk.type.byte_width // 8
    buffer = chunk.buffers()[1]
    held = np.frombuffer(buffer or b"", np.int64).reshape(-1, width)
    return held[chunk.offset : chunk.offset + len(chunk)]


def float_to_decimal(values: Data, target: pa.DataType) -> Data:
    """Round each floating-point number, taken exactly, to a decimal.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of float16, float32 or float64
    target : pa.DataType
        decimal128 or decimal256.

    Raises
    ------
    ExpressionError
        A value is NaN, infinite, or has more digits before the point than the decimal; the message has it.

    Examples
    --------
    >>> float_to_decimal(pa.array([2.5, -0.125]), pa.decimal128(10, 2)).to_pylist()
    [Decimal('2.50'), Decimal('-0.13')]
    """

    def run(chunk: pa.Array) -> pa.Array:
        exact = pc.fill_null(pc.cast(chunk, pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        nulls = chunk.is_null().to_numpy(zero_copy_only=False)
        unscaled = _scaled(exact, target)
        if unscaled is None:
            numbers = zip(exact.tolist(), nulls, strict=True)
            return _rounded([None if null else Decimal(number) for number, null in numbers], target)
        whole = pc.cast(pa.array(unscaled, mask=nulls), pa.decimal128(19, 0))
        return pc.cast(whole.view(pa.decimal128(19, target.scale)), target)

    return by_chunk(run, values)


def _scaled(exact: NDArray[np.float64], target: pa.DataType) -> NDArray[np.int64] | None:
    """The numbers times 10^scale, rounded half away from zero; None where doubles do not suffice.

    The product of a double and an exact power of ten is the sum of two doubles (Dekker's product): the rounded
    product and its error. The error decides apparent ties.
    """
    if not 0 <= target.scale <= 22:
        return None
    power = 10.0**target.scale
    with np.errstate(all="ignore"):
        product = exact * power
        if not (np.abs(product) < min(2.0**52, 10.0 ** min(target.precision, 18) - 1)).all():
            return None
        high = exact * _SPLITTER - (exact * _SPLITTER - exact)
        power_high = power * _SPLITTER - (power * _SPLITTER - power)
        low, power_low = exact - high, power - power_high
        error = ((high * power_high - product) + high * power_low + low * power_high) + low * power_low
    whole = np.floor(np.abs(product))
    below = np.abs(product) - whole
    up = (below > 0.5) | ((below == 0.5) & (error * np.sign(product) >= 0))
    found: NDArray[np.int64] = (np.sign(product) * (whole + up)).astype(np.int64)
    return found


def text_to_decimal(values: Data, target: pa.DataType) -> Data:
    """Read numbers in text, with or without an exponent, and round them to a decimal.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of text
    target : pa.DataType
        decimal128 or decimal256.

    Raises
    ------
    ExpressionError
        A text is not a number or has more digits before the point than the decimal; the message has it.

    Examples
    --------
    >>> text_to_decimal(pa.array(["1.5", "-2e-1"]), pa.decimal128(38, 0)).to_pylist()
    [Decimal('2'), Decimal('0')]
    """
    # Arrow reads text correctly that has no more digits than the type on either side of the point.
    whole = target.precision - target.scale
    fraction = rf"(\.[0-9]{{1,{target.scale}}})?" if target.scale else ""
    plain = f"^[+-]?[0-9]{{1,{whole}}}{fraction}$" if target.scale >= 0 and whole > 0 else "^[+-]?0$"

    def run(chunk: pa.Array) -> pa.Array:
        if pc.all(pc.match_substring_regex(chunk, pattern=plain)).as_py() is not False:
            return pc.cast(chunk, target)
        return _rounded([None if text is None else _number(text) for text in chunk.to_pylist()], target)

    return by_chunk(run, values)


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise ExpressionError(f"{printable(shown)!r} is not a number")
    return Decimal(text)


def decimal_to_decimal(values: Data, target: pa.DataType) -> Data:
    """Round decimals to the digits of another decimal type.

    Raises
    ------
    ExpressionError
        A value has more digits before the point than the target; the message has it.

    Examples
    --------
    >>> from decimal import Decimal
    >>> decimal_to_decimal(pa.array([Decimal("2.50")]), pa.decimal128(4, 0)).to_pylist()
    [Decimal('3')]
    """
    if target.scale < values.type.scale:
        wide = pc.cast(values, pa.decimal256(_MOST_DIGITS, values.type.scale))
        rounded = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        options = pc.CastOptions(pa.decimal256(_MOST_DIGITS, target.scale), allow_decimal_truncate=True)
        values = pc.cast(rounded, options=options)
    # Arrow misses some overflows of a decimal that gets more digits after the point.
    for extreme in pc.min_max(values).as_py().values():
        if extreme and extreme.adjusted() >= target.precision - target.scale:
            raise _does_not_fit(extreme, target)
    return pc.cast(values, target)


def _does_not_fit(number: Decimal, target: pa.DataType) -> ExpressionError:
    return ExpressionError(f"{number:.10g} does not fit in {target}")


def _rounded(numbers: list[Decimal | None], target: pa.DataType) -> pa.Array:
    return pa.array([None if number is None else round_decimal(number, target) for number in numbers], target)


def round_decimal(number: Decimal, target: pa.DataType) -> Decimal:
    """Round a number half away from zero to the digits of a decimal type after the point.

    Raises
    ------
    ExpressionError
        It is NaN, infinite, or has more digits before the point than the type.

    Examples
    --------
    >>> round_decimal(Decimal("2.675"), pa.decimal128(10, 2))
    Decimal('2.68')
    """
    unit = Decimal((0, (1,), -target.scale))
    try:
        found = number.quantize(unit, context=_EXACTLY) if number.is_finite() else None
    except InvalidOperation:
        found = None
    # adjusted() is the place of the first digit.
    if found is None or (found and found.adjusted() >= target.precision - target.scale):
        raise _does_not_fit(number, target)
    return found
