"""Readable names of Arrow types that can be parsed back exactly.

pandas and Dask carry a dtype across processes and files as text, and Arrow's own text
cannot be parsed back. :func:`type_name` writes Arrow's text if parsing it gives the same
type again, including field names, nullability and metadata; otherwise it adds the
serialized type in base64. :func:`parse_type_name` parses both. A name is never executed:
it is parsed by this module or by Arrow's schema reader.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

__all__ = ["parse_type_name", "type_name"]

_MAX_DEPTH = 64
_EXACT = " = base64 "

_LEAVES: dict[str, pa.DataType] = {
    str(t): t
    for t in (
        *(pa.null(), pa.bool_(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.string(), pa.large_string(), pa.string_view()),
        *(pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.timestamp(u) for u in ("s", "ms", "us", "ns")),
        *(pa.duration(u) for u in ("s", "ms", "us", "ns")),
        pa.month_day_nano_interval(),
    )
}
_LEAF_TEXT = re.compile(r"[a-z_0-9]+(?:\([0-9, -]*\)|\[[^\[\]<>]*\])?")
_SIZE = re.compile(r"\[(\d{1,9})\]")
_FIELD_NAME = re.compile(r"([^:<>]*): ")
_PARAMETRIC: tuple[tuple[re.Pattern[str], Callable[..., pa.DataType]], ...] = (
    (re.compile(r"fixed_size_binary\[(\d{1,9})\]"), lambda n: pa.binary(int(n))),
    (re.compile(r"timestamp\[(s|ms|us|ns), tz=([^,]+)\]"), pa.timestamp),
    (re.compile(r"decimal32\((\d{1,2}), (-?\d{1,3})\)"), lambda p, s: pa.decimal32(int(p), int(s))),
    (re.compile(r"decimal64\((\d{1,2}), (-?\d{1,3})\)"), lambda p, s: pa.decimal64(int(p), int(s))),
    (re.compile(r"decimal128\((\d{1,2}), (-?\d{1,3})\)"), lambda p, s: pa.decimal128(int(p), int(s))),
    (re.compile(r"decimal256\((\d{1,2}), (-?\d{1,3})\)"), lambda p, s: pa.decimal256(int(p), int(s))),
)
_LISTS: tuple[tuple[str, Callable[[pa.Field], pa.DataType]], ...] = (
    ("list<", pa.list_),
    ("large_list<", pa.large_list),
    ("list_view<", pa.list_view),
    ("large_list_view<", pa.large_list_view),
)


class _Parser:
    """Recursive-descent parser of Arrow's text of a type; raises ``ValueError`` for anything else."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def accept(self, literal: str) -> bool:
        if not self.text.startswith(literal, self.at):
            return False
        self.at += len(literal)
        return True

    def expect(self, literal: str) -> None:
        if not self.accept(literal):
            raise ValueError(f"expected {literal!r} at character {self.at}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"unexpected text at character {self.at}")
        self.at = found.end()
        return found

    def type(self, depth: int = 0) -> pa.DataType:
        if depth > _MAX_DEPTH:
            raise ValueError(f"types nest deeper than {_MAX_DEPTH}")
        for prefix, make in _LISTS:
            if self.accept(prefix):
                item = self.field(depth)
                self.expect(">")
                return make(item)
        if self.accept("fixed_size_list<"):
            item = self.field(depth)
            self.expect(">")
            return pa.list_(item, int(self.match(_SIZE)[1]))
        if self.accept("struct<"):
            return pa.struct(self.fields(depth))
        if self.accept("map<"):
            key = self.type(depth + 1)
            self.expect(", ")
            item_type = self.type(depth + 1)
            self.expect(">")
            return pa.map_(key, item_type)
        if self.accept("dictionary<values="):
            return self.dictionary(depth)
        return _leaf(self.match(_LEAF_TEXT)[0])

    def dictionary(self, depth: int) -> pa.DataType:
        values = self.type(depth + 1)
        self.expect(", indices=")
        indices = self.type(depth + 1)
        self.expect(", ordered=")
        ordered = self.accept("1")
        if not ordered:
            self.expect("0")
        self.expect(">")
        return pa.dictionary(indices, values, ordered)

    def field(self, depth: int) -> pa.Field:
        name = self.match(_FIELD_NAME)[1]
        field_type = self.type(depth + 1)
        return pa.field(name, field_type, nullable=not self.accept(" not null"))

    def fields(self, depth: int) -> list[pa.Field]:
        found: list[pa.Field] = []
        while not self.accept(">"):
            if found:
                self.expect(", ")
            found.append(self.field(depth))
        return found


def _leaf(text: str) -> pa.DataType:
    known = _LEAVES.get(text)
    if known is not None:
        return known
    for pattern, make in _PARAMETRIC:
        found = pattern.fullmatch(text)
        if found:
            return make(*found.groups())
    raise ValueError(f"no Arrow type is called {text!r}")


def _parse_plain(text: str) -> pa.DataType:
    parser = _Parser(text)
    found = parser.type()
    if parser.at != len(text):
        raise ValueError(f"text after the type at character {parser.at}")
    return found


def _is_exact(text: str, arrow_type: pa.DataType) -> bool:
    try:
        return bool(_parse_plain(text).equals(arrow_type, check_metadata=True))
    except (ValueError, TypeError, pa.ArrowException):
        return False


@lru_cache(maxsize=1024)
def _name_of(serialized: bytes) -> str:
    # Keyed by the serialized form, because types that differ only in field names compare equal.
    arrow_type = pa.ipc.read_schema(pa.py_buffer(serialized)).field(0).type
    text = str(arrow_type)
    if text.isprintable() and _is_exact(text, arrow_type):
        return text
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable + _EXACT + base64.b64encode(serialized).decode("ascii")


def type_name(arrow_type: pa.DataType) -> str:
    """Name of an Arrow type, from which :func:`parse_type_name` gives the same type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> type_name(pa.list_(pa.float32(), 32))
    'fixed_size_list<item: float>[32]'
    """
    return _name_of(pa.schema([pa.field("", arrow_type)]).serialize().to_pybytes())


@lru_cache(maxsize=1024)
def parse_type_name(name: str) -> pa.DataType:
    """Arrow type of a name made by :func:`type_name`.

    Raises
    ------
    ValueError
        The text is not the name of a type.

    Examples
    --------
    >>> parse_type_name("list<item: struct<a: int64, b: string not null>>")
    ListType(list<item: struct<a: int64, b: string not null>>)
    """
    try:
        _, marker, encoded = name.rpartition(_EXACT)
        if not marker:
            return _parse_plain(name)
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded, validate=True))).field(0).type
    except (binascii.Error, IndexError, TypeError, OSError, pa.ArrowException) as error:
        raise ValueError(f"{name[:200]!r} names no Arrow type") from error
