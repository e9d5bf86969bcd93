"""JSON in the binary form that the format stores, as text.

All numbers are big-endian. A value is a container::

    u32  array 0x8… | object 0x4… | scalar 0x2…, in the low bits how many elements (keys)
    u32  per element (objects: keys, then values): what it is, and how many bytes it takes
    the bytes of the elements, one after the other

Text comes out as pylance writes it: no spaces, keys as they are stored (sorted), floats in
their shortest form. Source: file sheet 2.0, section 8, and what pylance 14 writes.

Imports ``errors``.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable

from lancecy.errors import FormatError, LimitError

__all__ = ["to_text"]

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_KIND, _COUNT = 0xE0000000, 0x1FFFFFFF
_ENTRY_KIND, _ENTRY_SIZE = 0x70000000, 0x0FFFFFFF
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(0, 0x60000000, 0x10000000)
_DEPTH = 128
"""Of nesting; what parses JSON for the reference writer takes no more."""

_INTEGERS = {0: "", 1: "b", 2: "h", 4: "i", 8: "q"}


def to_text(data: bytes) -> str:
    r"""The JSON text of one stored value.

    Parameters
    ----------
    data : bytes

    Raises
    ------
    FormatError
        The bytes are no such value.
    LimitError
        It is nested too deep.

    Examples
    --------
    >>> to_text(bytes.fromhex("40000001 10000001 20000002 61 5001"))
    '{"a":1}'
    """
    parts: list[str] = []
    try:
        _container(data, 0, len(data), parts, 0)
    except UnicodeDecodeError as error:
        raise FormatError("text in a JSON value is not UTF-8") from error
    return "".join(parts)


def _container(data: bytes, start: int, stop: int, out: list[str], depth: int) -> None:
    if depth > _DEPTH:
        raise LimitError(f"a JSON value is nested more than {_DEPTH} deep", limit="", claimed=depth)
    if stop - start < 4:
        raise FormatError("a JSON value is cut off")
    (header,) = struct.unpack_from(">I", data, start)
    kind, count = header & _KIND, header & _COUNT
    if kind == _SCALAR:
        _elements(data, start, stop, 1, out, depth)
    elif kind == _ARRAY:
        out.append("[")
        _elements(data, start, stop, count, out, depth)
        out.append("]")
    elif kind == _OBJECT:
        out.append("{")
        _members(data, start, stop, count, out, depth)
        out.append("}")
    else:
        raise FormatError(f"a JSON value of unknown kind {header:#010x}")


def _entries(data: bytes, start: int, stop: int, count: int) -> tuple[tuple[int, ...], int]:
    """The description of each element, and where the first one's bytes are."""
    first = start + 4 + 4 * count
    if first > stop:
        raise FormatError(f"a JSON value of {count} elements in {stop - start} bytes")
    return struct.unpack_from(f">{count}I", data, start + 4), first


def _elements(data: bytes, start: int, stop: int, count: int, out: list[str], depth: int) -> None:
    entries, at = _entries(data, start, stop, count)
    for number, entry in enumerate(entries):
        if number:
            out.append(",")
        at = _value(data, at, stop, entry, out, depth)


def _members(data: bytes, start: int, stop: int, count: int, out: list[str], depth: int) -> None:
    entries, at = _entries(data, start, stop, 2 * count)
    keys = []
    for entry in entries[:count]:
        size = _size(entry, at, stop)
        keys.append(_quoted(data[at : at + size]))
        at += size
    for number, (key, entry) in enumerate(zip(keys, entries[count:], strict=True)):
        out.append(f",{key}:" if number else f"{key}:")
        at = _value(data, at, stop, entry, out, depth)


def _size(entry: int, at: int, stop: int) -> int:
    size = entry & _ENTRY_SIZE
    if size > stop - at:
        raise FormatError(f"{size} bytes of a JSON value, where {stop - at} are left")
    return size


def _value(data: bytes, at: int, stop: int, entry: int, out: list[str], depth: int) -> int:
    """Write one element; where the next one starts."""
    size, kind = _size(entry, at, stop), entry & _ENTRY_KIND
    if kind == _CONTAINER:
        _container(data, at, at + size, out, depth + 1)
    else:
        make = _SCALARS.get(kind)
        if make is None:
            raise FormatError(f"a JSON value of unknown kind {entry:#010x}")
        out.append(make(data[at : at + size]))
    return at + size


def _quoted(data: bytes) -> str:
    return json.dumps(data.decode("utf-8"), ensure_ascii=False)


def _number(data: bytes) -> str:
    kind, rest = data[:1].hex(), data[1:]
    if kind in ("40", "50") and len(rest) in _INTEGERS and rest:
        code = _INTEGERS[len(rest)]
        return str(struct.unpack(">" + (code if kind == "40" else code.upper()), rest)[0])
    if kind == "60" and len(rest) == 8:
        return _float(struct.unpack(">d", rest)[0])
    fixed = {"00": "0", "10": "NaN", "20": "Infinity", "30": "-Infinity"}.get(kind)
    if fixed is None or rest:
        raise FormatError(f"a JSON number stored as {data[:16].hex()}")
    return fixed


def _float(value: float) -> str:
    """The shortest text that reads as this number, with a dot up to 16 digits and down to a hundred-thousandth."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if power == -5:  # Python leaves the dotted form one power of ten earlier
        sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{mantissa}e{power:+d}"


_SCALARS: dict[int, Callable[[bytes], str]] = {
    _NULL: lambda _: "null",
    _STRING: _quoted,
    _NUMBER: _number,
    _FALSE: lambda _: "false",
    _TRUE: lambda _: "true",
}
