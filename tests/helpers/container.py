"""The container of a 2.x data file taken apart and put together again, for tests that inspect or damage one.

Independent of the reader under test but for the generated protobuf classes. Nothing is checked beyond
what taking apart needs: this is for files that a writer of good standing made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lancecy.proto import encodings21_pb2, encodings23_pb2, encodings_pb2, file2_pb2, file_pb2

__all__ = ["Container", "Footer", "column_encoding", "page_encoding", "set_page_encoding"]

FOOTER = struct.Struct("<QQQIIHH4s")
MESSAGES: dict[str, type[Message]] = {
    "lance.encodings.ArrayEncoding": encodings_pb2.ArrayEncoding,
    "lance.encodings.ColumnEncoding": encodings_pb2.ColumnEncoding,
    "lance.encodings21.PageLayout": encodings21_pb2.PageLayout,
    "lance.encodings23.PlanarLayout": encodings23_pb2.PlanarLayout,
}


@dataclass
class Footer:
    """The last 40 bytes."""

    columns_start: int
    column_table: int
    buffer_table: int
    num_buffers: int
    num_columns: int
    major: int
    minor: int
    magic: bytes = b"LANC"

    def pack(self) -> bytes:
        """Its bytes."""
        return FOOTER.pack(
            self.columns_start, self.column_table, self.buffer_table, self.num_buffers,
            self.num_columns, self.major, self.minor, self.magic,
        )  # fmt: skip


@dataclass
class Container:
    """A file in parts.

    Attributes
    ----------
    body : bytes
        Everything in front of the first global buffer: the pages.
    descriptor : file_pb2.FileDescriptor
    more_buffers : list of bytes
        Global buffers after the descriptor.
    columns : list of file2_pb2.ColumnMetadata
    column_spans, buffer_spans : list of (position, length)
        As the tables say.
    footer : Footer
    """

    body: bytes
    descriptor: file_pb2.FileDescriptor
    more_buffers: list[bytes]
    columns: list[file2_pb2.ColumnMetadata]
    column_spans: list[tuple[int, int]]
    buffer_spans: list[tuple[int, int]]
    footer: Footer
    data: bytes = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Container:
        """Take a file apart."""
        footer = Footer(*FOOTER.unpack(data[-40:]))
        column_spans = _spans(data, footer.column_table, footer.num_columns)
        buffer_spans = _spans(data, footer.buffer_table, footer.num_buffers)
        columns = [file2_pb2.ColumnMetadata.FromString(data[p : p + n]) for p, n in column_spans]
        globals_ = [data[p : p + n] for p, n in buffer_spans]
        descriptor = file_pb2.FileDescriptor.FromString(globals_[0])
        body = data[: buffer_spans[0][0]]
        return cls(body, descriptor, globals_[1:], columns, column_spans, buffer_spans, footer, data)

    @classmethod
    def load(cls, path: Path | str) -> Container:
        """Take a file on disk apart."""
        return cls.parse(Path(path).read_bytes())

    def build(
        self,
        *,
        body: bytes | None = None,
        descriptor: bytes | None = None,
        columns: list[bytes] | None = None,
    ) -> bytes:
        """The file written anew, tables and footer in accord; parts given as bytes are taken as they are."""
        out = bytearray(self.body if body is None else body)
        raw = self.descriptor.SerializeToString() if descriptor is None else descriptor
        buffers, spans = [raw, *self.more_buffers], []
        for content in buffers:
            out += bytes(-len(out) % 64)
            spans.append((len(out), len(content)))
            out += content
        start, places = len(out), []
        for content in [c.SerializeToString() for c in self.columns] if columns is None else columns:
            places.append((len(out), len(content)))
            out += content
        table = len(out)
        for position, length in (*places, *spans):
            out += struct.pack("<QQ", position, length)
        footer = self.footer
        tail = Footer(
            start, table, table + 16 * len(places), len(spans), len(places), footer.major, footer.minor
        )
        return bytes(out + tail.pack())

    @property
    def tables(self) -> list[tuple[int, int]]:
        """Spans of the column table and the buffer table in ``data``."""
        return [
            (self.footer.column_table, 16 * self.footer.num_columns),
            (self.footer.buffer_table, 16 * self.footer.num_buffers),
        ]

    def buffers(self, page: file2_pb2.ColumnMetadata.Page) -> list[bytes]:
        """Contents of a page's buffers."""
        spans = zip(page.buffer_offsets, page.buffer_sizes, strict=True)
        return [self.data[start : start + size] for start, size in spans]


def _spans(data: bytes, table: int, count: int) -> list[tuple[int, int]]:
    return [struct.unpack_from("<QQ", data, table + 16 * i) for i in range(count)]


def _unpacked(encoding: file2_pb2.Encoding) -> Message:
    packed = AnyMessage.FromString(encoding.direct.encoding)
    return MESSAGES[packed.type_url.removeprefix("/")].FromString(packed.value)


def page_encoding(page: file2_pb2.ColumnMetadata.Page) -> Message:
    """The message that describes a page: ArrayEncoding, PageLayout or PlanarLayout.

    Raises
    ------
    KeyError
        It is of another type.
    """
    return _unpacked(page.encoding)


def column_encoding(column: file2_pb2.ColumnMetadata) -> Message:
    """The message that describes a column."""
    return _unpacked(column.encoding)


def set_page_encoding(
    page: file2_pb2.ColumnMetadata.Page | file2_pb2.ColumnMetadata, message: Message
) -> None:
    """Put another message of the same type in its place; of a page or of a column."""
    packed = AnyMessage.FromString(page.encoding.direct.encoding)
    packed.value = message.SerializeToString()
    page.encoding.direct.encoding = packed.SerializeToString()
