"""Twin of ``_jsonb``: value by value, with Python's numbers and text."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_CODED_OFFSETS, FAULT_JSON, FAULT_JSON_DEPTH, FAULT_JSON_TEXT, fail
from lancecy.kernels.reference.checks import require

__all__ = ["json_texts"]

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_KIND, _COUNT = 0xE0000000, 0x1FFFFFFF
_ENTRY_KIND, _ENTRY_SIZE = 0x70000000, 0x0FFFFFFF
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(0, 0x60000000, 0x10000000)
_DEPTH = 128
"""Limit of nesting, the same as in the reference writer's JSON parser."""

_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}


def json_texts(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> int:
    """As :func:`lancecy.kernels.json_texts`."""
    require(offsets, np.int64)
    require(values, np.uint8)
    require(out_offsets, np.int64, writable=True)
    require(out, np.uint8, writable=True)
    if offsets.size < 1 or out_offsets.size != offsets.size:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    count = offsets.size - 1
    present = np.ones(count, np.bool_)
    if validity is not None:
        require(validity, np.uint8)
        if validity.size != (count + 7) >> 3:
            raise ValueError("validity does not have a bit for every value")
        present = np.unpackbits(validity, count=count, bitorder="little").view(np.bool_)
    text = bytearray()
    out_offsets[0] = 0
    for row, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= stop <= values.size:
            fail(FAULT_CODED_OFFSETS, row)
        if present[row]:
            text += _text(values[start:stop].tobytes(), row)
        out_offsets[row + 1] = len(text)
    if len(text) <= out.size:
        out[: len(text)] = np.frombuffer(bytes(text), np.uint8)
    return len(text)


class _FaultError(Exception):
    """A faulty value; the only argument is the number of the fault."""


def _text(data: bytes, row: int) -> bytes:
    if not data:
        return b"null"
    parts: list[str] = []
    try:
        _container(data, 0, len(data), parts, 0)
    except _FaultError as fault:
        fail(fault.args[0], row)
    return "".join(parts).encode()


def _container(data: bytes, start: int, stop: int, out: list[str], depth: int) -> None:
    if depth > _DEPTH:
        raise _FaultError(FAULT_JSON_DEPTH)
    if stop - start < 4:
        raise _FaultError(FAULT_JSON)
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
        raise _FaultError(FAULT_JSON)


def _entries(data: bytes, start: int, stop: int, count: int) -> tuple[tuple[int, ...], int]:
    """The description of each element, and the position of the first element's bytes."""
    first = start + 4 + 4 * count
    if first > stop:
        raise _FaultError(FAULT_JSON)
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
        keys.append(data[at : at + size])
        at += size
    for number, (key, entry) in enumerate(zip(keys, entries[count:], strict=True)):
        out.append(f",{_quoted(key)}:" if number else f"{_quoted(key)}:")
        at = _value(data, at, stop, entry, out, depth)


def _size(entry: int, at: int, stop: int) -> int:
    size = entry & _ENTRY_SIZE
    if size > stop - at:
        raise _FaultError(FAULT_JSON)
    return size


def _value(data: bytes, at: int, stop: int, entry: int, out: list[str], depth: int) -> int:
    """Write one element and return the start of the next."""
    size, kind = _size(entry, at, stop), entry & _ENTRY_KIND
    if kind == _CONTAINER:
        _container(data, at, at + size, out, depth + 1)
    else:
        make = _SCALARS.get(kind)
        if make is None:
            raise _FaultError(FAULT_JSON)
        out.append(make(data[at : at + size]))
    return at + size


def _quoted(data: bytes) -> str:
    try:
        return json.dumps(data.decode("utf-8"), ensure_ascii=False)
    except UnicodeDecodeError:
        raise _FaultError(FAULT_JSON_TEXT) from None


def _number(data: bytes) -> str:
    kind, rest = data[:1].hex(), data[1:]
    if kind in ("40", "50") and len(rest) in _INTEGERS:
        code = _INTEGERS[len(rest)]
        return str(struct.unpack(">" + (code if kind == "40" else code.upper()), rest)[0])
    if kind == "60" and len(rest) == 8:
        return _float(struct.unpack(">d", rest)[0])
    # Zero; also NaN and the infinities, for which JSON has no notation.
    fixed = {"00": "0", "10": "null", "20": "null", "30": "null"}.get(kind)
    if fixed is None or rest:
        raise _FaultError(FAULT_JSON)
    return fixed


def _float(value: float) -> str:
    """The shortest text of a number, in dotted form from 0.00001 up to 16 digits."""
    if not math.isfinite(value):
        return "null"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if power == -5:  # Python switches to exponents one power of ten earlier
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
