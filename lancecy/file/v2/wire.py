"""The messages of a 2.x container: decoded to plain values, and encoded.

Any bytes give either a value or one of ``FormatError``, ``LimitError`` and ``UnsupportedError``. Page encodings
stay serialized bytes: thousands of pages of one column share a few of them, and ``parse_spec`` is called once for
each. ``column_names`` finds the columns of a file without its table: the file lists the fields it was written with,
and their order determines the columns.

Source: file sheet 2.0, sections 2.1 and 3; file sheet 2.1, sections 1.3 to 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
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
from lancecy.errors import FormatError, LanceError, UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import file2_pb2, file_pb2
from lancecy.records import dataclass
from lancecy.schema import Field, Schema
from lancecy.schema_wire import decode_schema, encode_fields, parse_message
from lancecy.store.base import Memory

__all__ = [
    "ARRAY_ENCODING",
    "ColumnArrays",
    "ColumnMessage",
    "Parts",
    "are_blobs",
    "column_names",
    "decode_children",
    "decode_column_arrays",
    "decode_columns",
    "decode_file_schema",
    "decode_num_rows",
    "decode_schema_fields",
    "encode_column_page",
    "encode_column_start",
    "encode_descriptor",
    "encode_spec",
    "parse_spec",
    "stored_encodings",
]


Int64 = NDArray[np.int64]

_AT_START = np.zeros(1, np.int64)

_MOST_KEPT, _MOST_DESCRIBED = 1024, 16 << 10
"""Most bytes of a message whose meaning is kept."""

ARRAY_ENCODING = "lance.encodings.ArrayEncoding"
"""Message type of the pages of 2.0 files."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of a file in one memory.

    Attributes
    ----------
    memory : (nbytes,) uint8
    starts, sizes : (num_parts,) int64, bytes
        Where each part begins in ``memory``, and its size.
    """

    memory: Memory
    starts: Int64
    sizes: Int64

    @classmethod
    def of(cls, parts: Sequence[Memory]) -> Parts:
        """Parts that are copied into one memory, if they are several."""
        sizes = np.array([part.size for part in parts], np.int64)
        if len(parts) == 1:
            return cls(parts[0], _AT_START, sizes)
        return cls(np.concatenate(parts), np.cumsum(sizes) - sizes, sizes)

    def only(self, number: int) -> Parts:
        """One of them."""
        return Parts(self.memory, self.starts[number : number + 1], self.sizes[number : number + 1])


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


def decode_num_rows(data: Memory, limits: Limits, last: int = -1, before: int = 0) -> int:
    """Rows of the file, from its FileDescriptor.

    Parameters
    ----------
    data : (nbytes,) uint8
    limits : Limits
    last, before : int
        The number with which ``data`` may end, and the bytes before it (see ``kernels.file_frame``).

    Raises
    ------
    FormatError
        The bytes are not such a message.
    LimitError
        More rows than ``limits.rows_per_file``.
    """
    stored = data.tobytes()
    # Files of a table differ in their rows, which stand behind the schema: a message and a field are a message.
    if last >= 0 and before <= _MOST_DESCRIBED and _is_descriptor(stored[:before]):
        limits.check("metadata_bytes", len(stored), "size of file descriptor")
        return limits.check("rows_per_file", last, "number of rows")
    return _known_rows(stored, limits) if len(stored) <= _MOST_KEPT else _stored_rows(stored, limits)


@lru_cache(maxsize=64)
def _is_descriptor(stored: bytes) -> bool:
    with suppress(LanceError):
        parse_message(file_pb2.FileDescriptor, stored, "file descriptor")
        return True
    return False


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


@dataclass(frozen=True, slots=True, eq=False)
class ColumnArrays:
    """The messages of columns as arrays, unchecked; see ``kernels.column_pages``.

    Attributes
    ----------
    edges : (2, num_pages + num_columns) int64
        Of each column: its values and buffers before each page, then of all its pages.
    pages : (4, num_pages) int64
        Values, first row, and place of the encoding of each page.
    buffers : (2, num_buffers) int64, bytes
        Position and size.
    counts : (num_columns, 7) int64
        Pages, buffers, place of the encoding, whether it has buffers of its own, bytes and furthest byte of each column.
    """

    edges: Int64
    pages: Int64
    buffers: Int64
    counts: Int64


def decode_column_arrays(parts: Parts, limits: Limits) -> ColumnArrays:
    """Decode ColumnMetadata messages, one in each part, to arrays for all columns.

    Raises
    ------
    FormatError
        Bytes are not such a message, or a page has different numbers of buffer positions and sizes.
    LimitError
        A column has more pages than ``limits.pages``.
    """
    memory, starts, sizes = parts.memory, parts.starts, parts.sizes
    limits.check("metadata_bytes", max(sizes.tolist(), default=0), "size of column metadata")
    found = _rooms(starts.size, _FEW_PAGES * (1 + starts.size), _FEW_BUFFERS * (1 + starts.size))
    kernels.column_pages(memory, starts, sizes, *found)
    num_pages, num_buffers, most_pages = _totals(found[3])
    limits.check("pages", most_pages, "number of pages")
    if num_pages > found[1].shape[1] or num_buffers > found[2].shape[1]:
        found = _rooms(starts.size, num_pages, num_buffers)
        kernels.column_pages(memory, starts, sizes, *found)
    edges, pages, buffers, counts = found
    return ColumnArrays(
        edges[:, : num_pages + starts.size], pages[:, :num_pages], buffers[:, :num_buffers], counts
    )


def _totals(counts: Int64) -> tuple[int, int, int]:
    """Pages and buffers of all columns, and the most pages of one."""
    if counts.shape[0] == 1:  # avoids NumPy's overhead per call
        pages, buffers = counts[0, :2].tolist()
        return pages, buffers, pages
    num_pages, num_buffers = counts[:, :2].sum(axis=0).tolist()
    return num_pages, num_buffers, int(counts[:, 0].max(initial=0))


def decode_columns(parts: Parts, limits: Limits) -> list[ColumnMessage]:
    """Decode ColumnMetadata messages, one in each part.

    Raises
    ------
    FormatError, LimitError
        See :func:`decode_column_arrays`.
    UnsupportedError
        An encoding is stored elsewhere in the file, which no writer does.
    """
    found = decode_column_arrays(parts, limits)
    (row_starts, first_buffer), (positions, sizes) = found.edges, found.buffers
    lengths, first_rows, starts, nbytes_of = found.pages
    encodings = stored_encodings(parts.memory, starts.tolist(), nbytes_of.tolist(), "page")
    counts = found.counts.tolist()
    blobs = are_blobs(parts.memory, counts, limits)
    columns = []
    page = buffer = 0
    for number, (num_pages, num_buffers, _, _, has_own, nbytes, end) in enumerate(counts):
        last, stop = page + num_pages, buffer + num_buffers
        edge = slice(page + number, last + number + 1)
        columns.append(
            ColumnMessage(
                blobs[number],
                lengths[page:last],
                row_starts[edge],
                first_buffer[edge],
                positions[buffer:stop],
                sizes[buffer:stop],
                encodings[page:last],
                first_rows[page:last],
                nbytes,
                end,
                bool(has_own),
            )
        )
        page, buffer = last, stop
    return columns


def _rooms(num_columns: int, num_pages: int, num_buffers: int) -> tuple[Int64, Int64, Int64, Int64]:
    """Results of ``kernels.column_pages``."""
    return (
        np.empty((2, num_pages + num_columns), np.int64),
        np.empty((4, num_pages), np.int64),
        np.empty((2, num_buffers), np.int64),
        np.empty((num_columns, 7), np.int64),
    )


# What nearly all columns have at most, on average.
_FEW_PAGES, _FEW_BUFFERS = 2, 6
_ABSENT, _ELSEWHERE = -1, -2


def stored_encodings(memory: Memory, starts: Sequence[int], sizes: Sequence[int], what: str) -> list[bytes]:
    """The Any messages of encodings.

    Parameters
    ----------
    memory : (nbytes,) uint8
    starts, sizes : sequence of int, bytes
        From ``kernels.column_pages``.
    what : str
        What is encoded, in an error.

    Raises
    ------
    FormatError
        There is no encoding.
    UnsupportedError
        An encoding is stored elsewhere in the file.
    """
    if sizes and (least := min(sizes)) < 0:
        if least == _ELSEWHERE:
            raise UnsupportedError(
                f"the encoding of a {what} stands elsewhere in the file", feature="indirect encoding"
            )
        raise FormatError(f"a {what} has no encoding")
    stored = memory.data
    return [bytes(stored[at : at + size]) for at, size in zip(starts, sizes, strict=True)]


def are_blobs(memory: Memory, counts: Sequence[Sequence[int]], limits: Limits) -> list[bool]:
    """Whether each column holds blobs; release 0.12.0 does not mark its columns.

    Parameters
    ----------
    memory : (nbytes,) uint8
    counts : sequence of sequence of int
        Of each column, from ``kernels.column_pages``.
    limits : Limits
    """
    starts, sizes = ([numbers[place] for numbers in counts if numbers[3] != _ABSENT] for place in (2, 3))
    stored = stored_encodings(memory, starts, sizes, "column")
    # Nearly all columns of a file have the same encoding.
    known = {encoding: _is_blob(encoding, limits) for encoding in dict.fromkeys(stored)}
    told = iter(stored)
    return [numbers[3] != _ABSENT and known[next(told)] for numbers in counts]


def _is_blob(stored: bytes, limits: Limits) -> bool:
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
