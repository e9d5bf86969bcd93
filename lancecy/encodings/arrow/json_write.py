"""JSON text in the binary form that the format stores; the way back of ``json``, value by value in Python.

As pylance writes it: members sorted by their names, whole numbers in as few bytes as they need, those beyond 64 bits and
all with a dot or an exponent as float64. A member that is there twice, text that is no JSON and values nested deeper than
readers follow are refused.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa

from lancecy.encodings.arrow.json import to_texts
from lancecy.errors import SchemaError

__all__ = ["to_stored"]

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = (kind << 28 for kind in range(6))
_MOST_BYTES = (1 << 28) - 1
_DEPTH = 128


def to_stored(texts: pa.Array) -> pa.LargeBinaryArray:
    r"""What is stored of JSON values.

    Parameters
    ----------
    texts : pyarrow.Array
        Of strings; or of large binary, which is looked over and stored as it is.

    Raises
    ------
    SchemaError
        A value is no JSON, or cannot be stored; the message names its row.
    FormatError
        Binary values are none of the form.

    Examples
    --------
    >>> to_stored(pa.array(['{"a": 1}', None])).to_pylist()
    [b'@\x00\x00\x01\x10\x00\x00\x01 \x00\x00\x02aP\x01', None]
    """
    if pa.types.is_large_binary(texts.type):
        to_texts(texts)
        return texts
    values = (None if text is None else _stored(text, row) for row, text in enumerate(texts.to_pylist()))
    return pa.array(values, pa.large_binary())


def _stored(text: str, row: int) -> bytes:
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_refused, parse_int=_whole)
        return _document(value)
    except (ValueError, RecursionError) as error:
        why = "is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise SchemaError(f"row {row} is no JSON that can be stored: {why}", difference="JSON") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[bytes, Any]:
    found = {name.encode(): value for name, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a member is there twice")
    return found


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _whole(text: str) -> int | float:
    # Python refuses to read thousands of digits as a whole number, and they would be a float anyway.
    return int(text) if len(text) <= 20 and -(1 << 63) <= int(text) < 1 << 64 else float(text)


def _document(value: Any) -> bytes:
    if isinstance(value, dict | list):
        return _container(value, 0)
    return _packed(_SCALAR, [_element(value, 0)])


def _container(value: Any, depth: int) -> bytes:
    if depth > _DEPTH:
        raise ValueError(f"nested more than {_DEPTH} deep")
    if isinstance(value, list):
        return _packed(_ARRAY | _counted(value), [_element(item, depth) for item in value])
    names = sorted(value)
    elements = [*((_STRING, name) for name in names), *(_element(value[name], depth) for name in names)]
    return _packed(_OBJECT | _counted(value), elements)


def _counted(value: Any) -> int:
    if len(value) > _MOST_BYTES:
        raise ValueError("more elements than can be counted")
    return len(value)


def _packed(header: int, elements: list[tuple[int, bytes]]) -> bytes:
    if any(len(data) > _MOST_BYTES for _, data in elements):
        raise ValueError("an element of more than 256 MiB")
    words = [header, *(kind | len(data) for kind, data in elements)]
    return struct.pack(f">{len(words)}I", *words) + b"".join(data for _, data in elements)


def _element(value: Any, depth: int) -> tuple[int, bytes]:
    make = _ELEMENTS.get(type(value))
    return make(value) if make is not None else (_CONTAINER, _container(value, depth + 1))


def _integer(value: int) -> bytes:
    """A tag and as many bytes as are needed; zero is a tag alone."""
    if value == 0:
        return b"\x00"
    for size in (1, 2, 4, 8):
        if -(1 << (8 * size - 1)) <= value < 0:
            return b"\x40" + value.to_bytes(size, "big", signed=True)
        if 0 < value < 1 << 8 * size:
            return b"\x50" + value.to_bytes(size, "big")
    raise ValueError("a whole number of more than 64 bits")


def _float(value: float) -> bytes:
    if math.isinf(value):
        return b"\x20" if value > 0 else b"\x30"
    return b"\x60" + struct.pack(">d", value)


_ELEMENTS: dict[type, Callable[[Any], tuple[int, bytes]]] = {
    type(None): lambda _: (_NULL, b""),
    bool: lambda value: (_TRUE if value else _FALSE, b""),
    str: lambda value: (_STRING, value.encode()),
    int: lambda value: (_NUMBER, _integer(value)),
    float: lambda value: (_NUMBER, _float(value)),
}
