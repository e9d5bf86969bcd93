"""The messages of a 2.x container for writing; ``decode`` reads them.

Source: file sheet 2.0, section 2.1; file sheet 2.1, sections 1.3 and 1.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from google.protobuf import any_pb2

from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.v20.wire import encode as v20_encode_wire
from lancecy.encodings.v21.wire import encode as v21_encode_wire
from lancecy.proto import file2_pb2, file_pb2
from lancecy.schema import Schema
from lancecy.schema_wire import encode_fields

__all__ = ["PlacedPage", "encode_column", "encode_descriptor", "encode_spec"]


@dataclass(frozen=True, slots=True)
class PlacedPage:
    """A page whose buffers are in the file.

    Attributes
    ----------
    encoding : bytes
        From ``encode_spec``.
    positions, sizes : tuple of int, bytes
        Of the buffers, in the file.
    length : int
    first_row : int
        Row of the file; 0 in 2.0 files.
    """

    encoding: bytes
    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    length: int
    first_row: int


def encode_spec(spec: PageSpec, version: tuple[int, int]) -> bytes:
    """Encode the description of a page's encoding.

    Raises
    ------
    TypeError
        The version has no such pages, or no writer here makes them.
    """
    if version == (2, 0):
        return _any(v20_encode_wire.ARRAY_TYPE, v20_encode_wire.encode_array(spec))  # type: ignore[arg-type]
    return _any(v21_encode_wire.PAGE_TYPE, v21_encode_wire.encode_layout(spec))


def encode_column(pages: Sequence[PlacedPage], has_blobs: bool = False) -> bytes:
    """Encode the ColumnMetadata message of a column; ``has_blobs``: of blobs in a 2.0 file."""
    message = file2_pb2.ColumnMetadata()
    message.encoding.direct.encoding = _column_encoding(has_blobs)
    for placed in pages:
        page = message.pages.add(length=placed.length, priority=placed.first_row)
        page.encoding.direct.encoding = placed.encoding
        page.buffer_offsets.extend(placed.positions)
        page.buffer_sizes.extend(placed.sizes)
    return message.SerializeToString()


def encode_descriptor(schema: Schema, num_rows: int) -> bytes:
    """Encode the FileDescriptor message: the schema, and the rows of the file."""
    fields = file_pb2.Schema(fields=encode_fields(schema.fields), metadata=dict(schema.metadata))
    return file_pb2.FileDescriptor(schema=fields, length=num_rows).SerializeToString()


@cache
def _column_encoding(has_blobs: bool) -> bytes:
    kind = v20_encode_wire.encode_blob_column() if has_blobs else v20_encode_wire.encode_plain_column()
    return _any(v20_encode_wire.COLUMN_TYPE, kind)


def _any(type_url: str, value: bytes) -> bytes:
    return any_pb2.Any(type_url=type_url, value=value).SerializeToString()
