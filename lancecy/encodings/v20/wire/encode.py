"""Nodes of pages of 2.0 as the messages of ``lance.encodings``: the inverse of ``decode``.

Only messages of pages that writers here make. Source: file sheet 2.0, sections 2.1 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancecy.encodings.model.spec import (
    EndedBinary,
    EndedList,
    FixedListOf,
    Nullable,
    NullOf,
    PackedRows,
    PageDictionary,
    Plain,
    Spec,
    StructHeader,
)
from lancecy.proto import encodings_pb2

__all__ = ["ARRAY_TYPE", "COLUMN_TYPE", "encode_array", "encode_blob_column", "encode_plain_column"]

ARRAY_TYPE = "/lance.encodings.ArrayEncoding"
COLUMN_TYPE = "/lance.encodings.ColumnEncoding"


def encode_plain_column() -> bytes:
    r"""The ColumnEncoding message of a column of values; columns of later versions have the same.

    Examples
    --------
    >>> encode_plain_column()
    b'\n\x00'
    """
    message = encodings_pb2.ColumnEncoding()
    message.values.SetInParent()
    return message.SerializeToString()


def encode_blob_column() -> bytes:
    r"""The ColumnEncoding message of a 2.0 column of blob positions and sizes.

    Examples
    --------
    >>> encode_blob_column()
    b'\x1a\x04\n\x02\n\x00'
    """
    message = encodings_pb2.ColumnEncoding()
    message.blob.inner.values.SetInParent()
    return message.SerializeToString()


def encode_array(spec: Spec) -> bytes:
    """A serialized ArrayEncoding message.

    Raises
    ------
    TypeError
        A node that no writer here makes.

    Examples
    --------
    >>> encode_array(Nullable(Plain(8))).hex()
    '120a0a080a060a0408081200'
    """
    message = encodings_pb2.ArrayEncoding()
    _node(spec, message)
    return message.SerializeToString()


def _node(spec: Spec, message: encodings_pb2.ArrayEncoding) -> None:
    encode = _NODES.get(type(spec))
    if encode is None:
        raise TypeError(f"a {type(spec).__name__} encoding is not written")
    encode(spec, message)


def _plain(spec: Plain, message: encodings_pb2.ArrayEncoding) -> None:
    message.flat.bits_per_value = spec.bits
    # The first buffer of the page is an empty message, which must be set explicitly.
    message.flat.buffer.SetInParent()
    message.flat.buffer.buffer_index = spec.buffer


def _nullable(spec: Nullable, message: encodings_pb2.ArrayEncoding) -> None:
    if spec.validity is None:
        _node(spec.values, message.nullable.no_nulls.values)
    else:
        _node(spec.validity, message.nullable.some_nulls.validity)
        _node(spec.values, message.nullable.some_nulls.values)


def _all_null(_spec: NullOf, message: encodings_pb2.ArrayEncoding) -> None:
    message.nullable.all_nulls.SetInParent()


def _fixed_list(spec: FixedListOf, message: encodings_pb2.ArrayEncoding) -> None:
    message.fixed_size_list.dimension = spec.size
    _node(spec.child, message.fixed_size_list.items)


def _list(spec: EndedList, message: encodings_pb2.ArrayEncoding) -> None:
    _node(spec.offsets, message.list.offsets)
    message.list.null_offset_adjustment = spec.adjustment
    message.list.num_items = spec.num_items


def _struct(_spec: StructHeader, message: encodings_pb2.ArrayEncoding) -> None:
    message.struct.SetInParent()


def _binary(spec: EndedBinary, message: encodings_pb2.ArrayEncoding) -> None:
    _node(spec.offsets, message.binary.indices)
    _node(spec.values, message.binary.bytes)
    message.binary.null_adjustment = spec.adjustment


def _dictionary(spec: PageDictionary, message: encodings_pb2.ArrayEncoding) -> None:
    _node(spec.codes, message.dictionary.indices)
    _node(spec.items, message.dictionary.items)
    message.dictionary.num_dictionary_items = spec.num_items


def _packed(spec: PackedRows, message: encodings_pb2.ArrayEncoding) -> None:
    for child in spec.children:
        _node(child, message.packed_struct.inner.add())
    message.packed_struct.buffer.SetInParent()


_NODES: dict[type[object], Callable[[Any, encodings_pb2.ArrayEncoding], None]] = {
    Plain: _plain,
    Nullable: _nullable,
    NullOf: _all_null,
    FixedListOf: _fixed_list,
    EndedList: _list,
    StructHeader: _struct,
    EndedBinary: _binary,
    PageDictionary: _dictionary,
    PackedRows: _packed,
}
