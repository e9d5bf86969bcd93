"""TRY_CAST: conversion by the rules of CAST, null where a value does not convert.

CAST refuses a whole array for one value. Where it does, values that cannot convert by their form or size are left out, and
the rest is halved until a CAST takes each part: a few values that are left cost a few more CASTs of short parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow import conversions
from lancecy.expr.evaluation.casts import cast_values, read_instants
from lancecy.expr.evaluation.values import Data, by_chunk, to_numpy
from lancecy.expr.kinds import family, int_limits

__all__ = ["try_cast_values"]

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DAY = (
    "([0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    f"|{_LEAP_YEAR}-02-29)"
)
_CLOCK = r"([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?)?"
_ZONE = "(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_RARE_DAY = r"^\s*[0-9]{4}(-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}\s*$)"
_FORMS = {
    "boolean": "(?i)^(true|false|0|1)$",
    "integer": "^-?[0-9]+$",
    "decimal": f"(?i)^{_NUMBER}(e[+-]?[0-9]{{1,10}})?$",
    "float": rf"(?i)^({_NUMBER}(e[+-]?[0-9]+)?|[+-]?(inf(inity)?|nan(\([a-z0-9_]*\))?))$",
    "date": f"^{_DAY}([ T]{_CLOCK}{_ZONE}?)?$",
    "time": f"^{_CLOCK}$",
}
"""What text of each family looks like."""
_UTF8 = (
    r"^([\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    r"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*$"
)
"""Bytes that are text."""
# A double is this close to a decimal that it is made of.
_SLACK = 1 + 1e-12


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
    """Values of an array of which some do not convert; equal ones are converted once."""
    if pa.types.is_nested(values.type):
        return _converted(values, target)
    coded = values.dictionary_encode()
    return _converted(coded.dictionary, target).take(coded.indices)


def _converted(values: pa.Array, target: pa.DataType) -> pa.Array:
    wanted = to_numpy(pc.fill_null(_candidates(values, target), False))
    rare = _rare(values, target, wanted)
    found = _halved(values.filter(conversions.array_of(wanted)), target)
    if rare.any():
        found.append(read_instants(values.filter(conversions.array_of(rare)), target, is_tried=True))
    parts = pa.chunked_array(found, target).combine_chunks()
    places = np.cumsum(wanted) - 1
    places[rare] = wanted.sum() + np.arange(rare.sum())
    return parts.take(conversions.array_of(places, ~(wanted | rare)))


def _rare(values: pa.Array, target: pa.DataType, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Texts that may be dates in forms that only constants and few columns have."""
    if family(values.type) != "text" or family(target) not in ("date", "timestamp"):
        return np.zeros(len(values), bool)
    loose = to_numpy(pc.fill_null(pc.match_substring_regex(values, pattern=_RARE_DAY), False))
    return loose & ~wanted  # type: ignore[no-any-return]


def _candidates(values: pa.Array, target: pa.DataType) -> pa.BooleanArray:
    """False or null for values that do not convert, true for those that do and for a few others."""
    kind = family(values.type)
    if kind == "text":
        return _texts(values, target)
    if kind == "binary":
        stored = pc.cast(values, pa.large_binary())
        is_text = pc.match_substring_regex(stored, pattern=_UTF8)
        if family(target) == "text":
            return is_text
        return _texts(pc.cast(pc.if_else(is_text, stored, None), pa.large_string()), target)
    if kind in ("float", "decimal"):
        return _numbers(values, target)
    storage = _storage(values.type)
    return pc.is_valid(values) if storage is None else _within(values, storage, *_limits(values.type, target))


def _texts(values: pa.Array, target: pa.DataType) -> pa.BooleanArray:
    kind = family(target)
    form = _FORMS["date" if kind == "timestamp" else kind] if kind in (*_FORMS, "timestamp") else ""
    shaped = pc.if_else(pc.match_substring_regex(values, pattern=form), values, None)
    if kind in ("integer", "decimal"):
        near = _strict(shaped, pa.float64())
        return pc.is_valid(shaped) if near is None else _numbers(near, target)
    # Text has years of four digits, of which nanoseconds hold a few hundred.
    seconds = _strict(shaped, pa.timestamp("s", target.tz)) if kind == "timestamp" else None
    if seconds is None:
        return pc.is_valid(shaped)
    low, high = _limits(seconds.type, target)
    return _within(seconds, pa.int64(), max(low - 1, -(2**63)), high)


def _numbers(values: pa.Array, target: pa.DataType) -> pa.BooleanArray:
    if family(target) in ("integer", "timestamp"):
        whole = target if family(target) == "integer" else pa.int64()
        low, high = (float(limit) for limit in int_limits(whole))
        low, high = low - 1, high + 1
    elif family(target) == "decimal":
        high = 10.0 ** (target.precision - target.scale)
        low = -high
    else:
        return pc.is_valid(values)
    near = pc.cast(values, pa.float64(), safe=False)
    return pc.and_(pc.greater_equal(near, low * _SLACK), pc.less_equal(near, high * _SLACK))


def _storage(source: pa.DataType) -> pa.DataType | None:
    """The type of the integers that values are, None for other values."""
    if family(source) == "integer":
        return source
    if family(source) in ("date", "time", "timestamp", "interval"):
        return pa.int32() if source.bit_width == 32 else pa.int64()
    return None


def _within(values: pa.Array, storage: pa.DataType, low: int, high: int) -> pa.BooleanArray:
    stored = values.view(storage)
    return pc.and_(
        pc.greater_equal(stored, pa.scalar(low, storage)), pc.less_equal(stored, pa.scalar(high, storage))
    )


@lru_cache(maxsize=256)
def _limits(source: pa.DataType, target: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer that converts; those between them do."""
    storage = _storage(source)
    least, most = int_limits(storage)

    def converts(number: int) -> bool:
        return _strict(pa.array([number], storage).view(source), target) is not None

    return (_last(converts, least), _last(converts, most)) if converts(0) else (least, most)


def _last(converts: Callable[[int], bool], far: int) -> int:
    """The number between 0, which converts, and another one up to which they all do."""
    if converts(far):
        return far
    near = 0
    while abs(far - near) > 1:
        middle = (near + far) // 2
        near, far = (middle, far) if converts(middle) else (near, middle)
    return near


def _halved(values: pa.Array, target: pa.DataType) -> list[pa.Array]:
    if len(values) == 0:
        return []
    found = _strict(values, target)
    if found is not None:
        return [found]
    if len(values) == 1:
        return [pa.nulls(1, target)]
    # Not slices: Arrow casts all items of a list's array, also those of other rows.
    halves = np.array_split(np.arange(len(values)), 2)
    return [part for half in halves for part in _halved(values.take(pa.array(half)), target)]
