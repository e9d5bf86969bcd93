"""Exact comparison of values of two different types.

Integers, decimals and floats are compared as numbers, and instants, times and intervals of different units as
moments and spans: neither side is rounded to the type of the other. A value of every such type is
``stored * factor / 10**scale``, where ``stored`` is an integer or a float, so the order of two values is the sign of
a difference of products.

Error-free transformations over whole arrays find the sign: each stored value and each power of ten is a sum of
doubles, their products are sums of doubles (Dekker 1971), and all of these are added into one expansion without
rounding, whose last nonzero part has the sign of the whole (Shewchuk 1997, "Adaptive Precision Floating-Point
Arithmetic", theorem 10).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.errors import ExpressionError
from lancecy.expr.kinds import common_type, family, int_limits, is_clock

__all__ = ["can_compare", "compare", "share_type"]

Data: TypeAlias = Any
"""pa.Array, pa.ChunkedArray or pa.Scalar."""
Floats: TypeAlias = NDArray[np.float64]

_OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[..., Any]]] = {
    "=": (operator.eq, pc.equal),
    "!=": (operator.ne, pc.not_equal),
    "<": (operator.lt, pc.less),
    "<=": (operator.le, pc.less_equal),
    ">": (operator.gt, pc.greater),
    ">=": (operator.ge, pc.greater_equal),
}
_NUMBERS = ("integer", "float", "decimal")
_UNIT_SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# Products of stored values and powers of ten stay far below the largest double.
_MAX_SCALE = 100
# Decimals have at most 76 digits.
_MAX_DIGITS = 77
_EXACT = 2**53
# Dekker's constant: splits a double into two halves of 26 bits.
_SPLITTER = float(2**27 + 1)
# Temporary arrays of one block stay in the processor's caches.
_BLOCK_ROWS = 1 << 14


def share_type(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether :func:`~lancecy.expr.kinds.common_type` holds every value of both types exactly.

    Values of such types are compared in the common type, others by :func:`compare`.

    Parameters
    ----------
    left, right : pa.DataType
        Types that have a common type.

    Examples
    --------
    >>> share_type(pa.int32(), pa.float64()), share_type(pa.int64(), pa.float64())
    (True, False)
    """
    if left == right:
        # Arrow does not compare decimals of negative scale.
        return family(left) != "decimal" or left.scale >= 0
    one, two = family(left), family(right)
    if one in _NUMBERS and two in _NUMBERS:
        if "decimal" in (one, two):
            return False
        if one == two:
            return one == "float" or family(common_type(left, right)) == "integer"
        return bool((left if one == "integer" else right).bit_width <= 32)
    if {one, two} <= {"date", "timestamp"} or one == two == "interval":
        return _unit(left) == _unit(right) or one == two == "date"
    return True


def can_compare(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether :func:`compare` takes values of these types: both numbers, both instants, or both spans.

    Parameters
    ----------
    left, right : pa.DataType
    """
    pair = {family(left), family(right)}
    return pair <= set(_NUMBERS) or pair in ({"date"}, {"time"}, {"interval"}) or _are_instants(left, right)


def _are_instants(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether both are points on one clock: both with a time zone, or both without; ``now()`` is on any clock."""
    if not {family(left), family(right)} <= {"date", "timestamp"}:
        return False
    zoned = [family(t) == "timestamp" and t.tz is not None for t in (left, right)]
    return zoned[0] == zoned[1] or is_clock(left) or is_clock(right)


def compare(op: str, left: Data, right: Data) -> Data:
    """Compare numbers, instants, times or intervals of any two types exactly.

    Parameters
    ----------
    op : "=", "!=", "<", "<=", ">" or ">="
    left, right : pa.Array, pa.ChunkedArray or pa.Scalar
        Of integers (int8 to uint64), floats (half, single, double) and decimals (128 and 256 bits) in
        any pair; of dates and timestamps, with a time zone both or neither; of times; of durations.
        Arrays of equal length.

    Returns
    -------
    pa.Array, pa.ChunkedArray or pa.Scalar
        Boolean, null where either side is. A NaN is unequal to everything and has no order; zeros of
        either sign are equal.

    Raises
    ------
    ExpressionError
        Values of these types cannot be compared, or a decimal type has a scale beyond 100.

    Examples
    --------
    >>> values = pa.array([2**53, 2**53 + 1, None])
    >>> compare("=", values, pa.array([float(2**53)] * 3)).to_pylist()
    [True, False, None]
    """
    if not can_compare(left.type, right.type):
        raise ExpressionError(f"values of {left.type} and {right.type} cannot be compared")
    quick = _in_common_type(op, left, right)
    if quick is not None:
        return quick
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _arrays(op, pa.repeat(left, 1), pa.repeat(right, 1))[0]
    if isinstance(left, pa.Scalar):
        left = pa.repeat(left, len(right))
    if isinstance(right, pa.Scalar):
        right = pa.repeat(right, len(left))
    if isinstance(left, pa.Array) and isinstance(right, pa.Array):
        return _arrays(op, left, right)
    batches = pa.table([left, right], names=["left", "right"]).to_batches()
    return pa.chunked_array([_arrays(op, *batch.columns) for batch in batches], pa.bool_())


def _in_common_type(op: str, left: Data, right: Data) -> Data | None:
    """Compare in a type that holds the actual values, as for most columns; else None."""
    kinds = family(left.type), family(right.type)
    if "decimal" in kinds:
        return None
    if "float" in kinds and not all(_is_small(side) for side in (left, right)):
        return None
    # Arrow has no comparisons of half floats.
    target = pa.float64() if "float" in kinds else common_type(left.type, right.type)
    if family(target) == "decimal":
        return _signed_and_unsigned(op, left, right)
    try:
        sides = [side if side.type == target else pc.cast(side, target) for side in (left, right)]
    except pa.ArrowInvalid:
        # A moment is beyond the range of the finer unit.
        return None
    return _OPERATORS[op][1](*sides)


def _is_small(values: Data) -> bool:
    """Whether a double holds every one of these integers exactly; True for floats."""
    if family(values.type) != "integer" or values.type.bit_width <= 32:
        return True
    limits = pc.min_max(values).as_py()
    return limits["min"] is None or (limits["min"] >= -_EXACT and limits["max"] <= _EXACT)


def _signed_and_unsigned(op: str, left: Data, right: Data) -> Data | None:
    """Compare integers of 64 bits with and without sign, if a signed type holds all of them."""
    for side in (left, right):
        if side.type == pa.uint64():
            most = pc.max(side).as_py()
            if most is not None and most > int_limits(pa.int64())[1]:
                return None
    return _OPERATORS[op][1](*(pc.cast(side, pa.int64()) for side in (left, right)))


# Exactly


def _arrays(op: str, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """Compare two arrays, block by block."""
    powers = _powers(left.type, right.type)
    limit = 10.0 ** (_MAX_DIGITS + 1 - min(_unit(left.type)[1], _unit(right.type)[1]))
    found = np.empty(len(left), dtype=np.bool_)
    for start in range(0, len(left), _BLOCK_ROWS):
        parts: list[Floats] = []
        for side, power, sign in ((left, powers[0], 1.0), (right, powers[1], -1.0)):
            held = _parts(side.slice(start, _BLOCK_ROWS), limit)
            parts += [sign * part for part in _product(held, power)]
        found[start : start + _BLOCK_ROWS] = _OPERATORS[op][0](_sign_of_sum(parts), 0.0)
    if left.null_count == 0 and right.null_count == 0:
        return pa.array(found)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pc.if_else(valid, pa.array(found), pa.scalar(None, pa.bool_()))


def _unit(data_type: pa.DataType) -> tuple[int, int]:
    """Factor and scale: a value is ``stored * factor / 10**scale``, times in seconds."""
    kind = family(data_type)
    if kind == "decimal":
        return 1, int(data_type.scale)
    if kind == "date":
        return (86_400, 0) if pa.types.is_date32(data_type) else (1, 3)
    if kind in ("timestamp", "time", "interval"):
        return 1, _UNIT_SCALES[data_type.unit]
    return 1, 0


def _powers(left: pa.DataType, right: pa.DataType) -> tuple[list[float], list[float]]:
    """Factors that bring stored values of each side to one unit, as sums of doubles."""
    units = _unit(left), _unit(right)
    for data_type, (_, scale) in zip((left, right), units, strict=True):
        if abs(scale) > _MAX_SCALE:
            raise ExpressionError(
                f"{data_type} has a scale beyond {_MAX_SCALE}, which is not compared with another type; CAST it"
            )
    finest = max(scale for _, scale in units)
    one, two = (_as_doubles(factor * 10 ** (finest - scale)) for factor, scale in units)
    return one, two


def _as_doubles(number: int) -> list[float]:
    """A positive integer as the sum of a few doubles."""
    found = []
    while number:
        found.append(float(number))
        number -= int(found[-1])
    return found


def _parts(values: pa.Array, limit: float) -> list[Floats]:
    """Stored values as sums of doubles; arbitrary under a null."""
    kind = values.type
    if family(kind) == "float":
        # Values beyond all values of the other side stay beyond them; NaN stays NaN.
        return [np.clip(values.to_numpy(zero_copy_only=False).astype(np.float64), -limit, limit)]
    width = kind.bit_width
    if width <= 32:
        dtype = np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{width // 8}")
        return [_stored(values, dtype, 1)[:, 0].astype(np.float64)]
    words = _stored(values, np.dtype(np.uint64), width // 64)
    return _word_parts(words, is_signed=not pa.types.is_unsigned_integer(kind))


def _stored(values: pa.Array, dtype: np.dtype[Any], words: int) -> NDArray[Any]:
    """The value buffer: (num_rows, words), least significant word first."""
    flat = np.frombuffer(values.buffers()[1], dtype, (values.offset + len(values)) * words)
    return flat.reshape(-1, words)[values.offset :]


def _word_parts(words: NDArray[np.uint64], is_signed: bool) -> list[Floats]:
    """Integers of one or more 64-bit words as sums of doubles; of fewer doubles if all are small."""
    top = words[:, -1].view(np.int64) if is_signed else words[:, -1]
    while is_signed and words.shape[1] > 1 and bool((top == words[:, -2].view(np.int64) >> 63).all()):
        words = words[:, :-1]
        top = words[:, -1].view(np.int64)
    if words.shape[1] == 1 and bool(((top <= _EXACT) & (top >= (-_EXACT if is_signed else 0))).all()):
        return [top.astype(np.float64)]
    found: list[Floats] = []
    for index in range(words.shape[1]):
        word = top if index == words.shape[1] - 1 else words[:, index]
        unit = 2.0 ** (64 * index)
        found.append((word & np.asarray(0xFFFFFFFF, word.dtype)).astype(np.float64) * unit)
        found.append((word >> np.asarray(32, word.dtype)).astype(np.float64) * (unit * 2.0**32))
    return found


def _product(parts: Sequence[Floats], power: Sequence[float]) -> list[Floats]:
    """The product of two sums of doubles, as a sum of doubles."""
    if list(power) == [1.0]:
        return list(parts)
    return [term for part in parts for factor in power for term in _two_product(part, factor)]


def _two_product(values: Floats, factor: float) -> tuple[Floats, Floats]:
    """The rounded products and their exact rounding errors."""
    product = values * factor
    high, low = _split(values)
    factor_high, factor_low = _split(factor)
    error = low * factor_low - (((product - high * factor_high) - low * factor_high) - high * factor_low)
    return product, error


def _split(values: Any) -> tuple[Any, Any]:
    scaled = _SPLITTER * values
    high = scaled - (scaled - values)
    return high, values - high


def _sign_of_sum(parts: Sequence[Floats]) -> Floats:
    """A number with the sign of an exact sum; NaN where a part is NaN."""
    expansion: list[Floats] = []
    for part in parts:
        carried = part
        for index, held in enumerate(expansion):
            total = carried + held
            rest = total - carried
            expansion[index] = (carried - (total - rest)) + (held - rest)
            carried = total
        expansion.append(carried)
    sign = expansion[-1]
    for held in reversed(expansion[:-1]):
        sign = np.where(sign == 0.0, held, sign)
    return sign
