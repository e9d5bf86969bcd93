"""Kernels of arithmetic and conversion: pyarrow's, with the meaning SQL gives them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.expr.kinds import family

__all__ = ["cast_values", "divide", "minus", "remainder", "storage", "to_numpy"]

Data: TypeAlias = Any
"""pa.Array, pa.ChunkedArray or, of constants, pa.Scalar."""


def to_numpy(values: Data) -> Any:
    """The values as a NumPy array, copied if they are chunked or have nulls."""
    if isinstance(values, pa.ChunkedArray):
        return values.to_numpy()
    return values.to_numpy(zero_copy_only=False)


def divide(left: Data, right: Data) -> Data:
    """``left / right``: integers truncate towards zero and zero divisors are an error; floats follow IEEE."""
    return pc.divide(left, right) if pa.types.is_floating(left.type) else pc.divide_checked(left, right)


def remainder(left: Data, right: Data) -> Data:
    """``left % right`` with the sign of the dividend, as in C."""
    if not pa.types.is_floating(left.type):
        # Unchecked: the quotient of the smallest integer and -1 overflows, their remainder does not.
        return pc.subtract(left, pc.multiply(pc.divide(left, right), right))
    sides = [np.asarray(_float_values(side)) for side in (left, right)]
    with np.errstate(invalid="ignore"):
        found = np.fmod(*sides)
    if found.ndim == 0:
        valid = left.is_valid and right.is_valid
        return pa.scalar(found.item() if valid else None, left.type)
    nulls = [pc.is_null(side) for side in (left, right)]
    return pc.if_else(pc.or_(*nulls), pa.scalar(None, left.type), pa.array(found, left.type))


def _float_values(values: Data) -> Any:
    if isinstance(values, pa.Scalar):
        return np.asarray(values.as_py() if values.is_valid else np.nan, dtype=values.type.to_pandas_dtype())
    return to_numpy(values)


def cast_values(values: Data, target: Any) -> Data:
    """Values converted to another type.

    Floats become integers by dropping the fraction, timestamps lose the digits the target lacks, decimals
    are rounded to it, integers become the nearest float. What is out of range or unreadable is an error.
    """
    source, wanted = family(values.type), family(target)
    if source == "float" and wanted == "integer":
        return pc.cast(pc.trunc(values), target)
    if source == "integer" and wanted == "float":
        return pc.cast(values, target, safe=False)
    if source == "integer" and wanted == "decimal":
        # Arrow refuses unless the target has room for every value of the type; the values are what counts.
        return pc.cast(pc.cast(values, pa.decimal128(38, 0)), target)
    if source == wanted == "decimal":
        # Two steps, as the rounded value may need a digit more, and only the second checks the precision.
        wide = pc.cast(values, pa.decimal256(76, values.type.scale))
        rounded = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        return pc.cast(_cut(rounded, pa.decimal256(76, target.scale)), target)
    if source == "text" and wanted == "decimal":
        return pc.cast(values, target)
    if source == "text" and wanted == "time":
        # There is no such cast; a timestamp of that day has the same clock.
        stamp = pc.cast(pc.binary_join_element_wise("1970-01-01 ", values, ""), pa.timestamp("ns"))
        return _cut(pc.cast(stamp, pa.time64("ns")), target)
    return _cut(values, target)


def _cut(values: Data, target: Any) -> Data:
    options = pc.CastOptions(target, allow_time_truncate=True, allow_decimal_truncate=True)
    return pc.cast(values, options=options)


def storage(values: Data) -> Data:
    """Values under an extension type."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    return values.storage


def minus(values: Data) -> Data:
    """The values with the sign changed; an integer without a counterpart is an error."""
    return pc.negate(values) if pa.types.is_floating(values.type) else pc.negate_checked(values)
