"""Specs that follow from the type of a field, where no message describes its pages.

Pages of 0.1 files have this encoding, and later versions decode to values of this shape.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lancecy.encodings.model.spec import (
    DictionaryOf,
    FixedListOf,
    ListOf,
    NullOf,
    Plain,
    Spec,
    StructOf,
    VarBinary,
)
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.schema import Field, parse_logical_type

__all__ = ["spec_of"]


_OFFSET_WIDTHS = {"string": 4, "binary": 4, "large_string": 8, "large_binary": 8, "json": 8}


@lru_cache(maxsize=8192)
def spec_of(field: Field) -> Spec:
    """Layout of a field's values in pages of 0.1 files, and in the decoded values of later versions.

    The stored encoding number is ignored: several releases omit it or write a wrong one.

    Raises
    ------
    FormatError
        The type string follows no rule, or a list has not exactly one child.
    UnsupportedError
        A type that 0.1 files cannot hold.

    Source: file sheet 0.1, sections 2.2 and 4.

    Examples
    --------
    >>> spec_of(Field("v", 0, logical_type="fixed_size_list:float:4")).size
    4
    """
    kind = field.logical_type
    if kind == "null":
        return NullOf()
    if kind in _OFFSET_WIDTHS:
        return VarBinary(_OFFSET_WIDTHS[kind], field.nullable, field.in_codes)
    if field.is_struct:
        return StructOf({child.id: spec_of(child) for child in field.children})
    if field.is_list:
        return _list_spec(field)
    if kind.startswith("dict:"):
        return _dictionary_spec(field)
    return _fixed_spec(parse_logical_type(kind), kind)


def _list_spec(field: Field) -> ListOf:
    if len(field.children) != 1:
        raise FormatError(f"list field {printable(field.name)!r} has {len(field.children)} children, not 1")
    child = field.children[0]
    return ListOf(8 if field.is_large_list else 4, child.id, spec_of(child))


def _dictionary_spec(field: Field) -> DictionaryOf:
    dictionary_type = parse_logical_type(field.logical_type)
    _, value, key, _ = field.logical_type.split(":")
    codes = Plain(dictionary_type.index_type.bit_width, signed=not key.startswith("u"))
    if value in _OFFSET_WIDTHS:
        return DictionaryOf(codes, VarBinary(_OFFSET_WIDTHS[value], field.nullable), field.nullable)
    values = _fixed_spec(dictionary_type.value_type, field.logical_type)
    if not isinstance(values, Plain):
        raise UnsupportedError(f"dictionary of {value!r} values", feature=field.logical_type)
    return DictionaryOf(codes, values, field.nullable)


def _fixed_spec(data_type: Any, kind: str) -> Plain | FixedListOf:
    # ``Any``: pyarrow types are read by attribute; only ``encodings.arrow`` and ``schema`` import pyarrow.
    sizes = []
    while data_type.num_fields == 1 and hasattr(data_type, "list_size"):
        sizes.append(data_type.list_size)
        data_type = data_type.value_type
    if hasattr(data_type, "index_type"):
        raise UnsupportedError(f"type {kind!r} has dictionary values", feature=kind)
    try:
        bits = _bits(data_type)
    except ValueError as error:
        raise UnsupportedError(f"type {kind!r} has no fixed width", feature=kind) from error
    if bits < 0:
        raise UnsupportedError(f"type {kind!r} has no fixed width", feature=kind)
    spec: Plain | FixedListOf = Plain(bits)
    for size in reversed(sizes):
        spec = FixedListOf(size, spec)
    return spec


def _bits(data_type: Any) -> int:
    """Bits per value; Arrow's own ``bit_width`` wraps at 32 bits for very wide binary values."""
    bits = int(data_type.bit_width)
    return bits if 0 < bits < 8 else int(data_type.byte_width) * 8
