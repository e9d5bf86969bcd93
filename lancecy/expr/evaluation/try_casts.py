"""TRY_CAST: conversion by the rules of CAST, null where a value does not convert.

CAST refuses a whole array for one value. Where it does, values that cannot convert by their form or size are left out, and
the rest is halved until a CAST takes each part: a few odd values cost a few more CASTs of short parts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow import conversions
from lancecy.expr.evaluation.casts import cast_values
from lancecy.expr.evaluation.values import Data, by_chunk, to_numpy
from lancecy.expr.kinds import family, int_limits, is_number

__all__ = ["try_cast_values"]

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS = {
    "boolean": "true|false|0|1",
    "integer": "[+-]?[0-9]+",
    "decimal": _NUMBER,
    "float": rf"{_NUMBER}|[+-]?(inf(inity)?|nan.*)",
    "date": rf"{_DAY}([ T].*)?",
    "timestamp": rf"{_DAY}([ T].*)?",
    "time": "[0-9]{2}:.*",
}
"""What text of each family at least looks like."""


def try_cast_values(values: Data, target: pa.DataType) -> Data:
    """Convert values to another type, by the rules of ``casts``; null where these are an error.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar
    target : pa.DataType

    Returns
    -------
    pa.Array, pa.ChunkedArray or pa.Scalar of ``target``

    Raises
    ------
    NotImplementedError
        There is no such conversion.

    Examples
    --------
    >>> try_cast_values(pa.array(["1", "x", "300"]), pa.int8()).to_pylist()
    [1, None, None]
    """
    found = _strict(values, target)
    if found is not None:
        return found
    if isinstance(values, pa.Scalar):
        return pa.scalar(None, target)
    return by_chunk(lambda chunk: _looked_up(chunk, target), values)


def _strict(values: Data, target: pa.DataType) -> Data | None:
    """The values after CAST, None if it refuses one of them."""
    try:
        return cast_values(values, target)
    except (ValueError, OverflowError):
        return None


def _looked_up(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Values of an array of which some do not convert; equal texts and moments are converted once."""
    if family(values.type) not in ("text", "binary", "date", "timestamp"):
        return _convertible(values, target)
    coded = values.dictionary_encode()
    return _convertible(coded.dictionary, target).take(coded.indices)


def _convertible(values: pa.Array, target: pa.DataType) -> pa.Array:
    shaped = _shaped(values, target)
    wanted = to_numpy(pc.fill_null(pc.and_(pc.is_valid(shaped), _sized(shaped, target)), False))
    found = _halved(values.filter(conversions.array_of(wanted)), target)
    parts = pa.chunked_array(found, target).combine_chunks()
    return parts.take(conversions.array_of(np.cumsum(wanted) - 1, ~wanted))


def _shaped(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values, null where text does not look like one of the type."""
    form = _FORMS.get(family(target)) if family(values.type) == "text" else None
    if form is None:
        return values
    return pc.if_else(pc.match_substring_regex(values, pattern=f"(?is)^({form})$"), values, None)


def _sized(values: pa.Array, target: pa.DataType) -> pa.Array:
    """False for numbers that are too large for the type; true for some that are slightly too large."""
    if family(target) == "integer":
        low, high = map(float, int_limits(target))
    elif family(target) == "decimal":
        high = 10.0 ** (target.precision - target.scale)
        low = -high
    else:
        return pc.is_valid(values)
    if is_number(values.type):
        near = pc.cast(values, pa.float64(), safe=False)
    else:
        near = _strict(values, pa.float64()) if family(values.type) == "text" else None
    if near is None:
        return pc.is_valid(values)
    slack = 1 + high * 1e-9
    return pc.and_(pc.greater_equal(near, low - slack), pc.less_equal(near, high + slack))


def _halved(values: pa.Array, target: pa.DataType) -> list[pa.Array]:
    if len(values) == 0:
        return []
    found = _strict(values, target)
    if found is not None:
        return [found]
    if len(values) == 1:
        return [pa.nulls(1, target)]
    half = len(values) // 2
    return [*_halved(values[:half], target), *_halved(values[half:], target)]
