"""The messages of a 2.x container: decoded to plain values, and encoded.

Any bytes give either a value or one of ``FormatError``, ``LimitError`` and ``UnsupportedError``. Page encodings
stay serialized bytes: thousands of pages of one column share a few of them, and ``parse_spec`` is called once for
each. ``column_names`` finds the columns of a file without its table: the file lists the fields it was written with,
and their order determines the columns.

Source: file sheet 2.0, sections 2.1 and 3; file sheet 2.1, sections 1.3 to 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import numpy as np
from google.protobuf import any_pb2
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.v20.wire import decode as v20_wire
from lancecy.encodings.v20.wire import encode as v20_encode_wire
from lancecy.encodings.v21.wire import decode as v21_wire
from lancecy.encodings.v21.wire import encode as v21_encode_wire
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import file2_pb2, file_pb2
from lancecy.records import dataclass
from lancecy.schema import Field, Schema
from lancecy.schema_wire import decode_schema, encode_fields, parse_message
from lancecy.store.base import Memory

__all__ = [
    "ARRAY_ENCODING",
    "ColumnMessage",
    "column_names",
    "decode_children",
    "decode_column",
    "decode_file_schema",
    "decode_num_rows",
    "decode_schema_fields",
    "encode_column_page",
    "encode_column_start",
    "encode_descriptor",
    "encode_spec",
    "parse_spec",
]


Int64 = NDArray[np.int64]

_MOST_KEPT = 1024
"""Most bytes of a message whose meaning is kept."""

ARRAY_ENCODING = "lance.encodings.ArrayEncoding"
"""Message type of the pages of 2.0 files."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMessage:
    """The metadata of one column in a file, unchecked.

    Attributes
    ----------
    is_blob : bool
        The column holds descriptors of blobs.
    lengths : (num_pages,) int64
        Values of each page, not negative.
    row_starts : (num_pages + 1,) int64
        Running sum of ``lengths``, first is 0; at most 2^63 - 1.
    first_buffer : (num_pages + 1,) int64
        Page p has buffers ``first_buffer[p]`` to ``first_buffer[p + 1]``.
    positions, sizes : (num_buffers,) int64, bytes
        Buffers of all pages, one page after the other; not negative.
    encodings : list of bytes
        One per page; for ``parse_spec``.
    first_rows : (num_pages,) int64
        Row of the file at which each page begins, from 2.1 on.
    nbytes : int, bytes
        Size of all buffers; at most 2^63 - 1.
    end : int
        The furthest byte of the file at which a buffer ends; at most 2^63 - 1.
    has_own_buffers : bool
        Whether the column has buffers outside of its pages, which no known encoding uses.
    """

    is_blob: bool
    lengths: Int64
    row_starts: Int64
    first_buffer: Int64
    positions: Int64
    sizes: Int64
    encodings: list[bytes]
    first_rows: Int64
    nbytes: int
    end: int
    has_own_buffers: bool = False


def decode_num_rows(data: Memory, limits: Limits) -> int:
    """Rows of the file, from its FileDescriptor.

    Raises
    ------
    FormatError
        The bytes are not such a message.
    LimitError
        More rows than ``limits.rows_per_file``.
    """
    stored = data.tobytes()
    return _known_rows(stored, limits) if len(stored) <= _MOST_KEPT else _stored_rows(stored, limits)


def _stored_rows(stored: bytes, limits: Limits) -> int:
    message = parse_message(file_pb2.FileDescriptor, stored, "file descriptor", limits)
    return limits.check("rows_per_file", message.length, "number of rows")


def decode_schema_fields(data: Memory, limits: Limits) -> tuple[file_pb2.Field, ...]:
    """The list of fields in a FileDescriptor, unchanged.

    Raises
    ------
    FormatError, LimitError
        The bytes are not such a message, or there are more fields than ``limits.fields``.
    """
    message = parse_message(file_pb2.FileDescriptor, data, "file descriptor", limits)
    limits.check("fields", len(message.schema.fields), "number of fields")
    return tuple(message.schema.fields)


def decode_file_schema(data: Memory, limits: Limits) -> Schema:
    """The schema that a FileDescriptor lists; blobs of 2.2 are structs without members.

    Raises
    ------
    FormatError, LimitError
        See ``decode_schema``.
    """
    return _kept_schema(data.tobytes(), limits) if data.size <= _MOST_KEPT else _file_schema(data, limits)


def _file_schema(data: Memory | bytes, limits: Limits) -> Schema:
    message = parse_message(file_pb2.FileDescriptor, data, "file descriptor", limits)
    # The members of descriptors of blobs are listed without ids.
    fields = [field for field in message.schema.fields if field.id >= 0]
    return decode_schema(fields, message.schema.metadata, limits)


def decode_children(data: Memory, parent_id: int, limits: Limits) -> tuple[Field, ...]:
    """The children of a field in a FileDescriptor: name, id and type of each, without their own children.

    Parameters
    ----------
    data : (nbytes,) uint8
        The message.
    parent_id : int
        Id of the field in the table.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        See ``decode_schema_fields``.
    """
    return tuple(
        Field(
            name=node.name,
            id=node.id,
            parent_id=parent_id,
            logical_type=node.logical_type,
            nullable=node.nullable,
            metadata=dict(node.metadata),
        )
        for node in decode_schema_fields(data, limits)
        if node.parent_id == parent_id
    )


def decode_column(data: Memory, limits: Limits) -> ColumnMessage:
    """Decode the ColumnMetadata message in these bytes.

    Raises
    ------
    FormatError
        The bytes are not such a message, or a page has different numbers of buffer positions and sizes.
    LimitError
        More pages than ``limits.pages``.
    UnsupportedError
        An encoding is stored elsewhere in the file, which no writer does.
    """
    limits.check("metadata_bytes", data.size, "size of column metadata")
    rooms = _rooms(_FEW_PAGES, _FEW_BUFFERS)
    counts = kernels.column_pages(data, *rooms)
    num_pages, num_buffers = limits.check("pages", counts[0], "number of pages"), counts[1]
    if num_pages > _FEW_PAGES or num_buffers > _FEW_BUFFERS:
        rooms = _rooms(num_pages, num_buffers)
        counts = kernels.column_pages(data, *rooms)
    edges, pages, buffers = rooms
    _, _, encoding_at, encoding_bytes, has_own, nbytes, end = counts
    lengths, first_rows, starts, sizes = pages[:, :num_pages]
    row_starts, first_buffer = edges[:, : num_pages + 1]
    return ColumnMessage(
        _is_blob(data, encoding_at, encoding_bytes, limits),
        lengths,
        row_starts,
        first_buffer,
        buffers[0, :num_buffers],
        buffers[1, :num_buffers],
        [
            _stored(data, start, size, "page")
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ],
        first_rows,
        nbytes,
        end,
        has_own,
    )


def _rooms(num_pages: int, num_buffers: int) -> tuple[Int64, Int64, Int64]:
    """Results of ``kernels.column_pages``."""
    return (
        np.empty((2, num_pages + 1), np.int64),
        np.empty((4, num_pages), np.int64),
        np.empty((2, num_buffers), np.int64),
    )


# What nearly all columns have.
_FEW_PAGES, _FEW_BUFFERS = 4, 16
_ELSEWHERE = -2


def _stored(data: Memory, start: int, size: int, what: str) -> bytes:
    """The Any message of an encoding."""
    if size == _ELSEWHERE:
        raise UnsupportedError(
            f"the encoding of a {what} stands elsewhere in the file", feature="indirect encoding"
        )
    if size < 0:
        raise FormatError(f"a {what} has no encoding")
    return data[start : start + size].tobytes()


def _is_blob(data: Memory, start: int, size: int, limits: Limits) -> bool:
    """Whether a column holds blobs; release 0.12.0 does not mark its columns."""
    if size < 0 and size != _ELSEWHERE:
        return False
    stored = _stored(data, start, size, "column")
    return _describes_blob(stored, limits) if len(stored) <= _MOST_KEPT else _described_blob(stored, limits)


def _described_blob(stored: bytes, limits: Limits) -> bool:
    described = parse_message(any_pb2.Any, stored, "column encoding", limits)
    return v20_wire.parse_column_encoding(described.type_url, described.value, limits)


# Many files have as many rows.
_known_rows = lru_cache(maxsize=256)(_stored_rows)
# Nearly all columns of all files have the same encoding.
_describes_blob = lru_cache(maxsize=256)(_described_blob)


def _spec(encoding: bytes, version: tuple[int, int], num_buffers: int, limits: Limits) -> PageSpec:
    described = parse_message(any_pb2.Any, encoding, "page encoding", limits)
    is_array = described.type_url.rpartition("/")[2] == ARRAY_ENCODING
    if version == (2, 0) or (is_array and version == (2, 1)):
        return v20_wire.parse_page(described.type_url, described.value, num_buffers, limits)
    return v21_wire.parse_page(described.type_url, described.value, version, num_buffers, limits)


def parse_spec(encoding: bytes, version: tuple[int, int], num_buffers: int, limits: Limits) -> PageSpec:
    """Parse the layout of a page.

    Parameters
    ----------
    encoding : bytes
        One of ``ColumnMessage.encodings``.
    version : (major, minor)
        Version of the file; (2, 0) for the first of the 2.x versions. Pages of 2.0 also occur in files of version
        2.1 from releases before the stable one; their type identifies them.
    num_buffers : int
        Buffers of the page.
    limits : Limits

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        See ``parse_page`` in ``encodings.v20.wire`` and ``encodings.v21.wire.decode``.
    """
    parse = _kept_spec if len(encoding) <= _MOST_KEPT else _spec
    return parse(encoding, version, num_buffers, limits)


# Files of one writer have the same few layouts, and index files the same schema.
_kept_spec = lru_cache(maxsize=1024)(_spec)
_kept_schema = lru_cache(maxsize=64)(_file_schema)


def column_names(data: Memory, version: tuple[int, int], limits: Limits) -> list[tuple[str, str]]:
    """(dotted name, logical type) of each physical column of a 2.x file, in their order.

    Parameters
    ----------
    data : (nbytes,) uint8
        The FileDescriptor.
    version : (major, minor)

    Raises
    ------
    FormatError, LimitError
        See ``decode_schema_fields``.
    """
    messages = decode_schema_fields(data, limits)
    parents = {message.parent_id for message in messages}
    return list(_named_columns(messages, parents, is_flat=version != (2, 0)))


def _named_columns(
    messages: Sequence[file_pb2.Field], parents: set[int], is_flat: bool
) -> Iterator[tuple[str, str]]:
    """Yield names of fields with a column; ``is_flat``: leaves only, as from 2.1 on."""
    known: dict[int, tuple[str, bool]] = {}
    for message in messages:
        field = Field(
            message.name, message.id, logical_type=message.logical_type, metadata=dict(message.metadata)
        )
        above, is_inside = known.get(message.parent_id, ("", False))
        name = f"{above}.{field.name}" if above else field.name
        is_whole = field.is_blob or field.is_said_packed
        is_whole = is_whole or (field.is_fixed_list and not is_flat)
        if field.id >= 0:
            known[field.id] = (name, is_inside or is_whole)
        is_nested = field.id in parents and not is_whole
        if not is_inside and not (is_flat and is_nested):
            yield name, field.logical_type


def encode_spec(spec: PageSpec, version: tuple[int, int]) -> bytes:
    """Encode the description of a page's encoding.

    Raises
    ------
    TypeError
        The version has no such pages, or no writer here makes them.
    """
    if version == (2, 0):
        return _any(v20_encode_wire.ARRAY_TYPE, v20_encode_wire.encode_array(spec))  # type: ignore[arg-type]
    return _encoded_layout(spec)


# Columns of the same type and length mostly have the same layout.
@lru_cache(maxsize=256)
def _encoded_layout(spec: PageSpec) -> bytes:
    return _any(v21_encode_wire.PAGE_TYPE, v21_encode_wire.encode_layout(spec))


def encode_column_page(
    encoding: bytes, positions: Sequence[int], sizes: Sequence[int], length: int, first_row: int
) -> bytes:
    """Encode a ColumnMetadata message with one page, which follows those of other pages.

    Parameters
    ----------
    encoding : bytes
        From ``encode_spec``.
    positions, sizes : sequence of int, bytes
        Of the buffers, in the file.
    length : int
    first_row : int
        Row of the file; 0 in 2.0 files.
    """
    message = file2_pb2.ColumnMetadata()
    page = message.pages.add()
    page.length = length
    page.priority = first_row
    page.encoding.direct.encoding = encoding
    page.buffer_offsets.extend(positions)
    page.buffer_sizes.extend(sizes)
    return message.SerializeToString()


@cache
def encode_column_start(has_blobs: bool) -> bytes:
    """Encode the start of a ColumnMetadata message, before its pages; ``has_blobs``: of blobs in a 2.0 file."""
    kind = v20_encode_wire.encode_blob_column() if has_blobs else v20_encode_wire.encode_plain_column()
    message = file2_pb2.ColumnMetadata()
    message.encoding.direct.encoding = _any(v20_encode_wire.COLUMN_TYPE, kind)
    return message.SerializeToString()


def encode_descriptor(schema: Schema, num_rows: int) -> bytes:
    """Encode the FileDescriptor message: the schema, and the rows of the file."""
    fields = file_pb2.Schema(fields=encode_fields(schema.fields), metadata=dict(schema.metadata))
    return file_pb2.FileDescriptor(schema=fields, length=num_rows).SerializeToString()


def _any(type_url: str, value: bytes) -> bytes:
    return any_pb2.Any(type_url=type_url, value=value).SerializeToString()
