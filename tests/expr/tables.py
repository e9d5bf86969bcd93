"""One table with a column of every kind that filters compare, extremes and nulls included."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["FLOAT_COLUMNS", "every_kind", "schema_of"]

NAN, INF = float("nan"), float("inf")
FLOAT_COLUMNS = ("f32", "f64", "f16")

_INTS: dict[str, tuple[pa.DataType, list[int | None]]] = {
    "i8": (pa.int8(), [1, 2, -128, 127, None, -3, 0, 5]),
    "i16": (pa.int16(), [1, 300, -(2**15), 2**15 - 1, None, -3, 0, 5]),
    "i32": (pa.int32(), [1, 2, -(2**31), 2**31 - 1, None, -3, 0, 70_000]),
    "i64": (pa.int64(), [1, 2, -(2**63), 2**63 - 1, None, 2**53 + 1, 0, -3]),
    "u8": (pa.uint8(), [1, 2, 0, 255, None, 7, 100, 5]),
    "u32": (pa.uint32(), [1, 2, 0, 2**32 - 1, None, 7, 100, 5]),
    "u64": (pa.uint64(), [1, 2, 0, 2**64 - 1, None, 2**53 + 1, 2**63, 5]),
}
_FLOATS = [0.1, 1.0, -0.0, NAN, None, INF, -INF, 0.0]
_STRINGS = ["a", "abc", "", "Abc", None, "100%_x", "Zürich", "a\nb"]
_BYTES = [b"a", b"\x00", b"", b"abc", None, b"\xff\xff", b"a\x00", b"b"]
_DAYS = [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]
_DAYS += [dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(2021, 1, 1)]
_STAMPS = [None if d is None else dt.datetime(d.year, d.month, d.day, 12, 30, 15) for d in _DAYS]
_STAMPS[3] = dt.datetime(2200, 1, 1)
_CLOCKS = [dt.time(1, 0), dt.time(0, 0), dt.time(23, 59, 59), dt.time(12, 30, 15), None, dt.time(1, 0, 1)]
_CLOCKS += [dt.time(6), dt.time(18, 30)]
_SPANS = [dt.timedelta(seconds=s) for s in (0, 1, -1, 86_400)] + [None]
_SPANS += [dt.timedelta(days=3), dt.timedelta(seconds=90), dt.timedelta(days=-2)]
_DECIMALS = [Decimal(t) for t in ("1.10", "2.00", "-3.33", "99999999.99")] + [None]
_DECIMALS += [Decimal(t) for t in ("0.00", "-0.01", "7.77")]


def _columns() -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {"id": pa.array(range(8), pa.int64())}
    found |= {name: pa.array(values, kind) for name, (kind, values) in _INTS.items()}
    found["f32"] = pa.array(_FLOATS, pa.float32())
    found["f64"] = pa.array([*_FLOATS[:7], float(2**53)], pa.float64())
    found["s"] = pa.array(_STRINGS, pa.string())
    found["ls"] = pa.array(_STRINGS, pa.large_string())
    found["bin"] = pa.array(_BYTES, pa.binary())
    found["fb"] = pa.array(
        [b"aa", b"bb", b"\x00\x00", b"zz", None, b"\xff\xff", b"ab", b"a\x00"], pa.binary(2)
    )
    found["b"] = pa.array([True, False, True, False, None, False, True, None])
    found["d"] = pa.array(_DAYS, pa.date32())
    found["d64"] = pa.array(_DAYS, pa.date64())
    for unit in ("s", "ms", "us", "ns"):
        found[f"ts_{unit}"] = pa.array(_STAMPS, pa.timestamp(unit))
        found[f"du_{unit}"] = pa.array(_SPANS, pa.duration(unit))
    found["tz"] = pa.array(_STAMPS, pa.timestamp("us", "America/New_York"))
    found["t32"] = pa.array(_CLOCKS, pa.time32("s"))
    found["t64"] = pa.array(_CLOCKS, pa.time64("us"))
    found["dec"] = pa.array(_DECIMALS, pa.decimal128(10, 2))
    found["dec256"] = pa.array(_DECIMALS, pa.decimal256(50, 4))
    found["dict"] = pa.array(["u", "v", "u", None, "w", "v", "u", ""]).dictionary_encode()
    found["l"] = pa.array([[1, 2], [3], [], None, [4, None], [5, 6, 7], [1], [None]], pa.list_(pa.int32()))
    found["st"] = pa.array(
        [{"x": 1, "in": {"y": "p"}}, {"x": None, "in": {"y": "q"}}, None, {"x": 4, "in": None}] * 2,
        pa.struct({"x": pa.int32(), "in": pa.struct({"y": pa.string()})}),
    )
    found["two words"] = pa.array([1, 2, 3, 4, None, 6, 7, 8], pa.int32())
    return found


@lru_cache(maxsize=2)
def every_kind(storable: bool = False) -> pa.Table:
    """The table; ``storable`` leaves out what only lives in memory (half floats, views, a null column)."""
    columns = _columns()
    if not storable:
        halves = np.array([0.1, 1.0, -0.0, NAN, 0.0, INF, -INF, 2.5], np.float16)
        columns["f16"] = pa.array(halves, mask=np.arange(8) == 4)
        columns["sv"] = pa.array(_STRINGS, pa.string_view())
        columns["nothing"] = pa.nulls(8)
        columns["dict64"] = pa.array([5, 6, None, 5, 7, 5, 6, 8]).dictionary_encode()
    return pa.table(columns)


def schema_of(**types: Any) -> pa.Schema:
    """A schema from keywords."""
    return pa.schema(list(types.items()))
