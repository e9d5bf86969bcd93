"""Names of Arrow types as DataFusion writes them, for ``arrow_cast(x, 'Float32')``."""

from __future__ import annotations

import re

import pyarrow as pa

from lancecy.errors import ExpressionError, nearest, printable

__all__ = ["arrow_type"]

_PLAIN = {
    "Null": pa.null(),
    "Boolean": pa.bool_(),
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_UNITS = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_UNITS |= {short: short for short in _UNITS.values()} | {"µs": "us"}
_WITH_UNITS = {"Time32": pa.time32, "Time64": pa.time64, "Timestamp": pa.timestamp, "Duration": pa.duration}
_WITH_DIGITS = {"Decimal128": (pa.decimal128, 38), "Decimal256": (pa.decimal256, 76)}
_LISTS = {"List": pa.list_, "LargeList": pa.large_list}
_NAMES = (*_PLAIN, *_WITH_UNITS, *_WITH_DIGITS, *_LISTS, "FixedSizeBinary", "FixedSizeList")
_PARTS = re.compile(r"(\w+)\s*(?:\((.*)\))?\Z", re.DOTALL)
_ZONE = re.compile(r'(?:Some\(\s*"([^"]*)"\s*\)|"([^"]*)"|None)\Z')
_SIZED = re.compile(r"(\d{1,9})\s*(?:,|x)\s*(\S.*)\Z", re.DOTALL)
_DIGITS = re.compile(r"(\d{1,2})\s*,\s*(\d{1,2})\Z")
_DEEPEST = 32


def arrow_type(text: str) -> pa.DataType:
    """The type of a name.

    Raises
    ------
    ExpressionError
        No such type; the message has the nearest ones.

    Examples
    --------
    >>> arrow_type("Timestamp(Microsecond, None)"), arrow_type("FixedSizeList(4, Float32)")
    (TimestampType(timestamp[us]), FixedSizeListType(fixed_size_list<item: float>[4]))
    """
    try:
        found = _found(text.strip(), _DEEPEST)
    except (pa.ArrowException, ValueError):
        found = None
    if found is None:
        name = text.split("(", 1)[0].strip()
        close = (
            ", ".join(nearest(name, _NAMES))
            or "Int64, Float32, Utf8, List(Int64), Timestamp(Microsecond, None)"
        )
        raise ExpressionError(f"arrow_cast knows no type {printable(text)!r}; did you mean {close}?")
    return found


def _found(text: str, depth: int) -> pa.DataType | None:
    parts = _PARTS.match(text)
    if parts is None or not depth:
        return None
    name, inner = parts[1], (parts[2] or "").strip()
    if name in _PLAIN:
        return None if parts[2] is not None else _PLAIN[name]
    if name in _WITH_UNITS:
        return _with_unit(name, *inner.split(",", 1))
    if name in _WITH_DIGITS and (digits := _DIGITS.match(inner)):
        make, most = _WITH_DIGITS[name]
        precision, scale = int(digits[1]), int(digits[2])
        return make(precision, scale) if scale <= precision <= most else None
    if name in _LISTS:
        item = _found(inner, depth - 1)
        return None if item is None else _LISTS[name](item)
    if name == "FixedSizeBinary" and inner.isdecimal():
        return pa.binary(int(inner))
    if name == "FixedSizeList" and (sized := _SIZED.match(inner)):
        item = _found(sized[2], depth - 1)
        return None if item is None else pa.list_(item, int(sized[1]))
    return None


def _with_unit(name: str, unit: str, zone: str | None = None) -> pa.DataType | None:
    short = _UNITS.get(unit.strip())
    if short is None:
        return None
    if zone is None:
        return _WITH_UNITS[name](short)
    found = _ZONE.match(zone.strip()) if name == "Timestamp" else None
    return None if found is None else pa.timestamp(short, found[1] or found[2])
