"""Stored JSON values for the twins: their parts, numbers and text, with those of Python."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.records import dataclass

__all__ = [
    "KINDS",
    "FaultError",
    "Items",
    "Node",
    "items_of",
    "number_of",
    "put_value",
    "root_of",
    "rows_of",
    "text_of",
]

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_KIND, _COUNT = 0xE0000000, 0x1FFFFFFF
_ENTRY_KIND, _ENTRY_SIZE = 0x70000000, 0x0FFFFFFF
KINDS = _NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(0, 0x60000000, 0x10000000)
_DEPTH = 128
"""Limit of nesting, the same as in the reference writer's JSON parser."""

_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}


def rows_of(
    offsets: NDArray[np.int64], values: NDArray[np.uint8], validity: NDArray[np.uint8] | None
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and the bytes of every value; None for a null.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``.
    ValueError
        ``validity`` does not have its size.
    """
    count = offsets.size - 1
    if count < 0:
        raise ValueError("offsets need one entry more than values")
    present = np.ones(count, np.bool_)
    if validity is not None:
        if validity.size != (count + 7) >> 3:
            raise ValueError("validity does not have a bit for every value")
        present = np.unpackbits(validity, count=count, bitorder="little").view(np.bool_)
    for row, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= stop <= values.size:
            fail(Fault.CODED_OFFSETS, row)
        yield row, values[start:stop].tobytes() if present[row] else None


class FaultError(Exception):
    """A faulty value; the only argument is the number of the fault."""


def text_of(data: bytes, row: int, plain: bool = False) -> bytes:
    """JSON text of one stored value."""
    if not data:
        return b"null"
    parts: list[str] = []
    try:
        if plain:
            node = root_of(data)
            if node.kind == _STRING:
                return _unquoted(node.data).encode()
        _container(data, 0, len(data), parts, 0)
    except FaultError as fault:
        fail(fault.args[0], row)
    return "".join(parts).encode()


@dataclass(frozen=True, slots=True)
class Node:
    """A value within another: its kind as entries have it, and its bytes."""

    kind: int
    data: bytes


def root_of(data: bytes) -> Node:
    """A stored value; no bytes mean null, and a container of one scalar means that."""
    node, depth = Node(_CONTAINER if data else _NULL, data), 0
    while node.kind == _CONTAINER and _header(node)[0] == _SCALAR:
        depth += 1
        if depth > _DEPTH:
            raise FaultError(Fault.JSON_DEPTH)
        entries, at = _entries(node.data, 0, len(node.data), 1)
        node = _child(node.data, at, entries[0])
    return node


def items_of(node: Node) -> Items | None:
    """Open an array or object; None for other values."""
    if node.kind != _CONTAINER:
        return None
    kind, count = _header(node)
    if kind not in (_ARRAY, _OBJECT):
        raise FaultError(Fault.JSON)
    is_object = kind == _OBJECT
    entries, at = _entries(node.data, 0, len(node.data), 2 * count if is_object else count)
    return Items(node.data, is_object, entries, at)


@dataclass(frozen=True, slots=True)
class Items:
    """An opened array or object; nothing but its entries has been looked at."""

    data: bytes
    is_object: bool
    entries: tuple[int, ...]
    at: int

    def __len__(self) -> int:
        return len(self.entries) // 2 if self.is_object else len(self.entries)

    def keys(self) -> list[bytes]:
        """Names of the members."""
        found, at = [], self.at
        for entry in self.entries[: len(self)]:
            size = _size(entry, at, len(self.data))
            found.append(self.data[at : at + size])
            at += size
        return found

    def elements(self, first: int, last: int) -> Iterator[Node]:
        """Elements, or values of members, from one number to another, as far as they exist."""
        if max(first, 0) > min(last, len(self) - 1):
            return
        at = self.at + (sum(map(len, self.keys())) if self.is_object else 0)
        for number, entry in enumerate(self.entries[-len(self) :]):
            if number > last:
                return
            size = _size(entry, at, len(self.data))
            if number >= first:
                yield _child(self.data, at, entry)
            at += size


def _header(node: Node) -> tuple[int, int]:
    if len(node.data) < 4:
        raise FaultError(Fault.JSON)
    (header,) = struct.unpack_from(">I", node.data)
    return header & _KIND, header & _COUNT


def _child(data: bytes, at: int, entry: int) -> Node:
    size, kind = _size(entry, at, len(data)), entry & _ENTRY_KIND
    if kind > _CONTAINER:
        raise FaultError(Fault.JSON)
    return Node(kind, data[at : at + size])


def _container(data: bytes, start: int, stop: int, out: list[str], depth: int) -> None:
    if depth > _DEPTH:
        raise FaultError(Fault.JSON_DEPTH)
    if stop - start < 4:
        raise FaultError(Fault.JSON)
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
        raise FaultError(Fault.JSON)


def _entries(data: bytes, start: int, stop: int, count: int) -> tuple[tuple[int, ...], int]:
    """The description of each element, and the position of the first element's bytes."""
    first = start + 4 + 4 * count
    if first > stop:
        raise FaultError(Fault.JSON)
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
        raise FaultError(Fault.JSON)
    return size


def _value(data: bytes, at: int, stop: int, entry: int, out: list[str], depth: int) -> int:
    """Write one element and return the start of the next."""
    size, kind = _size(entry, at, stop), entry & _ENTRY_KIND
    if kind == _CONTAINER:
        _container(data, at, at + size, out, depth + 1)
    else:
        make = _SCALARS.get(kind)
        if make is None:
            raise FaultError(Fault.JSON)
        out.append(make(data[at : at + size]))
    return at + size


def put_value(data: bytes, kind: int, out: list[str]) -> None:
    """Write a value of that kind."""
    _value(data, 0, len(data), kind | len(data), out, 0)


def _quoted(data: bytes) -> str:
    return json.dumps(_unquoted(data), ensure_ascii=False)


def _unquoted(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FaultError(Fault.JSON_TEXT) from None


def number_of(data: bytes) -> int | float:
    """A stored number."""
    kind, rest = data[:1].hex(), data[1:]
    if kind in ("40", "50") and len(rest) in _INTEGERS:
        code = _INTEGERS[len(rest)]
        return int(struct.unpack(">" + (code if kind == "40" else code.upper()), rest)[0])
    if kind == "60" and len(rest) == 8:
        return float(struct.unpack(">d", rest)[0])
    fixed = {"00": 0, "10": math.nan, "20": math.inf, "30": -math.inf}.get(kind)
    if fixed is None or rest:
        raise FaultError(Fault.JSON)
    return fixed


def _number(data: bytes) -> str:
    value = number_of(data)
    return _float(value) if isinstance(value, float) else str(value)


def _float(value: float) -> str:
    """The shortest text of a number, in dotted form from 0.00001 up to 16 digits; JSON has no NaN and infinities."""
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
