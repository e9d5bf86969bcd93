"""Translates pandas comparisons into filters of the reader, where both agree.

A filter is pushed into the read only if it returns the same rows: pandas on Arrow-backed columns and
:mod:`lancecy.expr` agree on nulls (unknown, hence left out, also by ``!=``), on NaN and on the order of
text, but not for every pair of types. Each function here returns the expression that selects what pandas
selects, or None if that is not certain. A comparison that pandas refuses is never certain and stays with
pandas, which raises unless no row is left to compare.

================  ==========================================================================
column            compared with
================  ==========================================================================
integers          int (64 bits, 53 for uint64); float if no integer is rounded for it
float32, float64  float, and int that the type holds; never NaN, which pandas takes for null
bool              bool, ``==`` and ``!=`` only; by itself
decimal           Decimal, int
text              str
binary            bytes, ``==`` and ``!=`` only
timestamp         datetime, Timestamp, datetime64, with a zone if the column has one
date32            date
duration          timedelta, Timedelta, timedelta64
================  ==========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.expr import Expr
from lancecy.expr.nodes import Call, Column, Literal, chain, literal_of

__all__ = ["between", "both_columns", "compare", "is_in", "is_null", "is_true", "pushed_type"]

_EQUALITY = ("=", "!=")
_INT64 = (-(2**63), 2**63 - 1)
_EXACT_FLOAT64 = 2**53
_EXACT_FLOAT32 = 2**24
_MAX_VALUES = 1000
# Years that every unit can hold: outside, Arrow and NumPy convert units differently.
_YEARS = range(1700, 2250)
_UNITS = ("s", "ms", "us", "ns")


def pushed_type(dtype: object) -> pa.DataType | None:
    """The Arrow type of a column with this pandas dtype, None if no filter on it can be pushed.

    Parameters
    ----------
    dtype : pandas dtype
        From :func:`lancecy.dask.dtypes.pandas_dtype`.
    """
    import pandas as pd

    if isinstance(dtype, pd.StringDtype):
        return pa.string()
    found: pa.DataType | None = getattr(dtype, "pyarrow_dtype", None)
    return found


def compare(name: str, data_type: pa.DataType, op: str, value: object) -> Expr | None:
    """``column op value``.

    Parameters
    ----------
    name : str
        A top-level column of the table.
    data_type : pyarrow.DataType
    op : "=", "!=", "<", "<=", ">" or ">="
    value : object
        The Python value that the column is compared with.

    Examples
    --------
    >>> import pyarrow as pa
    >>> compare("k", pa.int32(), "<", 7)
    <call k < 7>
    >>> compare("k", pa.int32(), "<", "7") is None
    True
    """
    constant = _constant(data_type, value)
    if constant is None or (op not in _EQUALITY and not _is_ordered(data_type)):
        return None
    return Call(op, (Column((name,)), constant))


def both_columns(left: str, right: str, data_type: pa.DataType, other: pa.DataType, op: str) -> Expr | None:
    """``column op column``, for two columns of the same type.

    Parameters
    ----------
    left, right : str
    data_type, other : pyarrow.DataType
        Types of the left and of the right.
    op : str
    """
    types = pa.types
    kinds = (types.is_integer, types.is_float32, types.is_float64, types.is_string, types.is_timestamp)
    if data_type != other or not any(kind(data_type) for kind in kinds):
        return None
    return Call(op, (Column((left,)), Column((right,))))


def between(name: str, data_type: pa.DataType, low: object, high: object, inclusive: object) -> Expr | None:
    """``column.between(low, high, inclusive)``.

    Parameters
    ----------
    name : str
    data_type : pyarrow.DataType
    low, high : object
    inclusive : "both", "left", "right" or "neither"
    """
    if inclusive not in ("both", "left", "right", "neither"):
        return None
    above = compare(name, data_type, ">=" if inclusive in ("both", "left") else ">", low)
    below = compare(name, data_type, "<=" if inclusive in ("both", "right") else "<", high)
    return None if above is None or below is None else chain("and", [above, below])


def is_in(name: str, data_type: pa.DataType, values: object) -> Expr | None:
    """``column.isin(values)``, which is false, not unknown, for a null.

    Parameters
    ----------
    name : str
    data_type : pyarrow.DataType
    values : sequence
        At most a thousand: more would be sent with every task.
    """
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str | bytes):
        return None
    found = np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)
    if not 0 < len(found) <= _MAX_VALUES:
        return None
    kind = _member_kind(data_type)
    if kind is None or not all(type(v) is kind and _is_member(data_type, v) for v in found):
        return None
    return Call("is_true", (Call("in", (Column((name,)), Literal(tuple(found), _stated(data_type)))),))


def is_null(name: str) -> Expr:
    """``column.isna()``.

    Parameters
    ----------
    name : str
    """
    return Call("is_null", (Column((name,)),))


def is_true(name: str, data_type: pa.DataType) -> Expr | None:
    """The column itself as a condition.

    Parameters
    ----------
    name : str
    data_type : pyarrow.DataType
    """
    return Column((name,)) if pa.types.is_boolean(data_type) else None


def _is_ordered(data_type: pa.DataType) -> bool:
    types = pa.types
    unordered = (types.is_boolean, types.is_binary, types.is_large_binary)
    return not any(kind(data_type) for kind in unordered)


def _member_kind(data_type: pa.DataType) -> type | None:
    types = pa.types
    if types.is_integer(data_type):
        return int
    # pandas rounds the values to float32 first.
    return float if types.is_float64(data_type) else str if types.is_string(data_type) else None


def _is_member(data_type: pa.DataType, value: Any) -> bool:
    if isinstance(value, int):
        low, high = _INT64
        if pa.types.is_unsigned_integer(data_type):
            low = 0
        bits = data_type.bit_width - (not pa.types.is_unsigned_integer(data_type))
        return bool(max(low, -(2**bits)) <= value <= min(high, 2**bits - 1))
    # A look-up distinguishes the two zeros, a comparison does not.
    return bool(not isinstance(value, float) or (math.isfinite(value) and value != 0))


def _stated(data_type: pa.DataType) -> pa.DataType | None:
    return pa.float64() if pa.types.is_float64(data_type) else None


def _constant(data_type: pa.DataType, value: object) -> Literal | None:
    """The value as a literal that compares as it does in pandas."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    types = pa.types
    for matches, convert in (
        (types.is_integer, _for_integers),
        (types.is_float32, _for_floats),
        (types.is_float64, _for_floats),
        (types.is_boolean, _for_booleans),
        (types.is_decimal, _for_decimals),
        (types.is_string, _for_text),
        (types.is_binary, _for_bytes),
        (types.is_large_binary, _for_bytes),
        (types.is_timestamp, _for_timestamps),
        (types.is_date32, _for_dates),
        (types.is_duration, _for_durations),
    ):
        if matches(data_type):
            return convert(data_type, value)
    return None


def _for_integers(data_type: pa.DataType, value: object) -> Literal | None:
    if type(value) is int:
        # Arrow does not compare uint64 with int64, the type of a Python int; pandas then compares doubles.
        low, high = (-_EXACT_FLOAT64 + 1, _EXACT_FLOAT64 - 1) if pa.types.is_uint64(data_type) else _INT64
        return Literal(value) if low <= value <= high else None
    # pandas converts the integers to doubles, which keeps their order relative to smaller doubles.
    if type(value) is float and (math.isinf(value) or abs(value) < _EXACT_FLOAT64):
        return Literal(value, pa.float64())
    return None


def _for_floats(data_type: pa.DataType, value: object) -> Literal | None:
    if type(value) is float:
        return None if math.isnan(value) else Literal(value, pa.float64())
    limit = _EXACT_FLOAT64 if pa.types.is_float64(data_type) else _EXACT_FLOAT32
    if type(value) is int and abs(value) <= limit:
        return Literal(float(value), pa.float64())
    return None


def _for_booleans(data_type: pa.DataType, value: object) -> Literal | None:
    return Literal(value) if isinstance(value, bool) else None


def _for_decimals(data_type: pa.DataType, value: object) -> Literal | None:
    if isinstance(value, Decimal) and value.is_finite():
        return Literal(value)
    return Literal(value) if type(value) is int and abs(value) < _EXACT_FLOAT64 else None


def _for_text(data_type: pa.DataType, value: object) -> Literal | None:
    return Literal(str(value)) if isinstance(value, str) and _is_unicode(value) else None


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in value)


def _for_bytes(data_type: pa.DataType, value: object) -> Literal | None:
    return Literal(value) if type(value) is bytes else None


def _for_timestamps(data_type: pa.DataType, value: object) -> Literal | None:
    if isinstance(value, np.datetime64):
        known = np.datetime_data(value.dtype)[0] in _UNITS and not np.isnat(value)
        return literal_of(value) if known and data_type.tz is None and _in_range(value) else None
    if isinstance(value, datetime) and value.year in _YEARS:  # the year of NaT is NaN
        aware = value.tzinfo is not None and value.utcoffset() is not None
        return literal_of(value) if aware == (data_type.tz is not None) else None
    return None


def _in_range(value: np.datetime64) -> bool:
    return int(value.astype("datetime64[Y]").astype(int)) + 1970 in _YEARS


def _for_dates(data_type: pa.DataType, value: object) -> Literal | None:
    return literal_of(value) if type(value) is date else None


def _for_durations(data_type: pa.DataType, value: object) -> Literal | None:
    if isinstance(value, np.timedelta64):
        known = np.datetime_data(value.dtype)[0] in _UNITS and not np.isnat(value)
        return literal_of(value) if known else None
    if isinstance(value, timedelta) and abs(value.days) < 100_000:
        return literal_of(value)
    return None
