"""Arithmetic kernels: pyarrow's, with the semantics of SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.encodings.blocks.memory import allocate

__all__ = [
    "LONG_PATTERN",
    "Data",
    "add",
    "by_chunk",
    "by_text",
    "divide",
    "minus",
    "remainder",
    "repeated",
    "rounded",
    "storage",
    "to_numpy",
    "truncated",
]

Data: TypeAlias = Any
"""pa.Array, pa.ChunkedArray or, for constants, pa.Scalar."""

LONG_PATTERN = 256
"""Characters. :func:`by_text` searches for longer patterns."""

# Values that stay in a processor's cache from one pass over them to the next.
_CACHED_VALUES = 1 << 16

# No double has digits further from the point.
_DIGITS = 330
# Ten to this power is exact in a single float.
_FEW_DIGITS = 10


def by_chunk(run: Callable[[pa.Array], pa.Array], values: Data) -> Data:
    """Apply ``run`` to an array, to every chunk of a chunked one, or to a scalar as an array of one.

    Examples
    --------
    >>> by_chunk(lambda chunk: chunk.cast(pa.string()), pa.scalar(5)).as_py()
    '5'
    """
    if isinstance(values, pa.Scalar):
        return run(pa.repeat(values, 1))[0]
    if not isinstance(values, pa.ChunkedArray):
        return run(values)
    return pa.chunked_array([run(chunk) for chunk in values.chunks] or [run(pa.array([], values.type))])


def by_text(run: Callable[[str], Any], values: Data, target: pa.DataType) -> Data:
    """Apply ``run`` to every text; null where the text is null.

    Arrow's ``replace_substring`` and ``split_pattern`` take time proportional to the product of the lengths of
    text and pattern, Python to their sum.

    Examples
    --------
    >>> by_text(str.title, pa.array(["ab", None]), pa.string()).to_pylist()
    ['Ab', None]
    """

    def of_chunk(chunk: pa.Array) -> pa.Array:
        return pa.array([None if text is None else run(text) for text in chunk.to_pylist()], target)

    return by_chunk(of_chunk, values)


def is_wide(data_type: pa.DataType) -> bool:
    """Whether texts or binary values have offsets of 64 bits."""
    return bool(pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type))


def repeated(value: pa.Scalar, rows: int) -> pa.Array:
    """A value as often as there are rows; Arrow cannot repeat lists zero times."""
    return pa.repeat(value, rows) if rows else pa.nulls(0, value.type)


def to_numpy(values: Data) -> Any:
    """The values as a NumPy array, copied if they are chunked or have nulls."""
    if isinstance(values, pa.ChunkedArray):
        return (
            np.concatenate([numbers_of(chunk) for chunk in values.chunks])
            if values.num_chunks
            else values.to_numpy()
        )
    return numbers_of(values)


def add(left: Data, right: Data) -> Data:
    """``left + right``: an overflow of integers is an error; floats, which Arrow adds faster unchecked, follow IEEE."""
    return pc.add(left, right) if pa.types.is_floating(left.type) else pc.add_checked(left, right)


def divide(left: Data, right: Data) -> Data:
    """``left / right``: integers truncate towards zero and zero divisors are an error; floats follow IEEE."""
    return pc.divide(left, right) if pa.types.is_floating(left.type) else pc.divide_checked(left, right)


def remainder(left: Data, right: Data) -> Data:
    """``left % right`` with the sign of the dividend, as in C."""
    if not pa.types.is_floating(left.type):
        if _is_divisor(right) and right.type == left.type and not isinstance(left, pa.Scalar):
            return by_chunk(lambda chunk: _remainder_by(chunk, abs(right.as_py())), left)
        if pa.types.is_signed_integer(right.type):
            # The quotient of the smallest integer and -1 overflows; the remainder by -1 is that by 1: zero.
            one, none = (pa.scalar(value, right.type) for value in (1, -1))
            right = pc.if_else(pc.equal(right, none), one, right)
        return pc.subtract(left, pc.multiply(pc.divide(left, right), right))
    sides = [np.asarray(_float_values(side)) for side in (left, right)]
    with np.errstate(invalid="ignore"):
        found = np.fmod(*sides)
    if found.ndim == 0:
        valid = left.is_valid and right.is_valid
        return pa.scalar(found.item() if valid else None, left.type)
    nulls = [pc.is_null(side) for side in (left, right)]
    return pc.if_else(pc.or_(*nulls), pa.scalar(None, left.type), pa.array(found, left.type))


def _is_divisor(value: Data) -> bool:
    """Whether a value is one integer, and neither zero nor the smallest, which has no counterpart."""
    if not isinstance(value, pa.Scalar) or not pa.types.is_integer(value.type) or not value.is_valid:
        return False
    return value.as_py() not in (0, -(1 << (value.type.bit_width - 1)))


def _remainder_by(chunk: pa.Array, divisor: int) -> pa.Array:
    """Remainders by a positive number: a few passes of NumPy, which divides many integers at once."""
    validity, data = chunk.buffers()
    if data is None or not len(chunk):
        return chunk
    # Rows from the start of the buffers on, so that the validity fits.
    values = np.frombuffer(data, chunk.type.to_pandas_dtype(), chunk.offset + len(chunk))
    memory, view = allocate(values.nbytes)
    found = view.view(values.dtype)
    # One array for all pieces: the system would clear a new one for each.
    room = np.empty(_CACHED_VALUES, np.uint32), np.empty(_CACHED_VALUES, np.uint32)
    for start in range(0, values.size, _CACHED_VALUES):
        piece = slice(start, start + _CACHED_VALUES)
        _remainders(values[piece], divisor, found[piece], room)
    made = pa.Array.from_buffers(chunk.type, values.size, [validity, memory])
    return made.slice(chunk.offset, len(chunk))


def _remainders(values: Any, divisor: int, out: Any, room: tuple[Any, Any]) -> None:
    # As an unsigned number, a negative one is larger than all others.
    if values.itemsize == 8 and max(int(values.view(np.uint64).max()), divisor) < 1 << 32:
        # Processors divide and multiply integers of 32 bits several times faster.
        narrow, whole = (part[: values.size] for part in room)
        np.copyto(narrow, values, casting="unsafe")
        np.floor_divide(narrow, np.uint32(divisor), out=whole)
        np.multiply(whole, np.uint32(divisor), out=whole)
        np.subtract(narrow, whole, out=narrow)
        # Apart from the difference: NumPy would compute the two in one step through a buffer.
        np.copyto(out, narrow, casting="unsafe")
        return
    np.floor_divide(values, divisor, out=out)
    np.multiply(out, divisor, out=out)
    np.subtract(values, out, out=out)
    if values.min() < 0:
        np.subtract(out, divisor, out=out, where=(values < 0) & (out != 0))


def _float_values(values: Data) -> Any:
    if isinstance(values, pa.Scalar):
        return np.asarray(values.as_py() if values.is_valid else np.nan, dtype=values.type.to_pandas_dtype())
    return to_numpy(values)


def storage(values: Data) -> Data:
    """The values under an extension type."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    return values.storage


def minus(values: Data) -> Data:
    """Change the sign of the values; an integer or interval without a counterpart is an error."""
    if pa.types.is_duration(values.type):
        # Arrow's checked kernel does not check intervals.
        return pc.cast(pc.negate_checked(pc.cast(values, pa.int64())), values.type)
    return pc.negate(values) if pa.types.is_floating(values.type) else pc.negate_checked(values)


def rounded(values: Data, digits: int = 0) -> Data:
    """Round floating-point numbers to ``digits`` after the point (before it if negative), ties away from zero.

    A number that has no more digits than that stays as it is, as do NaN and infinities.

    Examples
    --------
    >>> rounded(pa.array([2.5, -1234.5]), -2).to_pylist()
    [0.0, -1200.0]
    """
    return _to_digits(values, digits, _half_away, pa.float64())


def truncated(values: Data, digits: int) -> Data:
    """Drop the digits of floating-point numbers behind the first ``digits`` after the point.

    Examples
    --------
    >>> truncated(pa.array([2.59, -1299.5]), -2).to_pylist()
    [0.0, -1200.0]
    """
    # Of few digits in the type of the values, as pylance does it.
    through = values.type if abs(digits) <= _FEW_DIGITS else pa.float64()
    return _to_digits(values, digits, np.trunc, through)


def _to_digits(values: Data, digits: int, to_whole: Callable[[Any], Any], through: pa.DataType) -> Data:
    def run(chunk: pa.Array) -> pa.Array:
        exact = pc.fill_null(pc.cast(chunk, through), 0.0).to_numpy(zero_copy_only=False)
        nulls = chunk.is_null().to_numpy(zero_copy_only=False)
        return pc.cast(pa.array(_moved(exact, digits, to_whole), mask=nulls), chunk.type)

    return by_chunk(run, values)


def _half_away(moved: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.trunc(moved)
    whole += np.where(np.abs(moved - whole) >= 0.5, np.sign(moved), 0.0)
    return whole


def _moved(exact: NDArray[Any], digits: int, to_whole: Callable[[Any], Any]) -> NDArray[Any]:
    if digits > _DIGITS:
        return exact
    if digits < -_DIGITS:
        return np.where(np.isfinite(exact), np.copysign(0.0, exact), exact)
    # In two steps, as neither 10^323 nor its inverse is a double.
    steps = [10.0 ** (abs(digits) // 2), 10.0 ** (abs(digits) - abs(digits) // 2)]
    if abs(digits) <= 22:
        steps = [1.0, 10.0 ** abs(digits)]
    with np.errstate(over="ignore", invalid="ignore"):
        moved = exact * steps[0] * steps[1] if digits >= 0 else exact / steps[0] / steps[1]
        whole = to_whole(moved)
        back = whole / steps[0] / steps[1] if digits >= 0 else whole * steps[0] * steps[1]
        # From 2^52 on a double has no digits after the point; NaN and infinities fail the comparison too.
        return np.where(np.abs(moved) < 2.0 ** np.finfo(exact.dtype).nmant, np.copysign(back, exact), exact)
