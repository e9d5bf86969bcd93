"""Containers of 2.x files by hand, byte by byte, with every freedom that hostile files take.

Protobuf is written by the few lines at the end and not by generated code, so that a mistake
in our ``.proto`` files cannot hide itself. The pages are the simplest there are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from lancecy.file.open import opening
from lancecy.file.v2.reader import V2Reader
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.schema import Field
from lancecy.store.reads import run
from tests.helpers.pages import Files

__all__ = [
    "ALL_NULL",
    "VALUES",
    "Built",
    "PageBytes",
    "any_message",
    "build_frame",
    "column_message",
    "flat",
    "int64",
    "message",
    "number",
    "open_frame",
    "varint",
]


def varint(value: int) -> bytes:
    """A protobuf number."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(tag: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(tag << 3) + varint(value)


def message(tag: int, body: bytes) -> bytes:
    """A field that is a message, a string or packed numbers."""
    return varint(tag << 3 | 2) + varint(len(body)) + body


def any_message(kind: str, body: bytes) -> bytes:
    """An Encoding message with a direct encoding of this type."""
    return message(2, message(1, message(1, b"/" + kind.encode()) + message(2, body)))


def flat(bits: int, buffer: int = 0) -> bytes:
    """ArrayEncoding: plain values without nulls."""
    index = number(1, buffer) if buffer else b""
    return message(2, message(1, message(1, message(1, number(1, bits) + message(2, index)))))


ALL_NULL = message(2, message(3, b""))
"""ArrayEncoding: nothing but nulls."""

VALUES = any_message("lance.encodings.ColumnEncoding", message(1, b""))
"""The column encoding of all columns but those of blobs."""


@dataclass(frozen=True)
class PageBytes:
    """A page as it is to be written.

    Attributes
    ----------
    length : int
    buffers : sequence of bytes
    encoding : bytes
        The Encoding message.
    positions, sizes : sequence of int or None
        What the file says instead of the truth.
    """

    length: int
    buffers: Sequence[bytes] = ()
    encoding: bytes = b""
    positions: Sequence[int] | None = None
    sizes: Sequence[int] | None = None


def int64(values: ArrayLike, **changes: object) -> PageBytes:
    """A 2.0 page of 64-bit integers."""
    array = np.asarray(values, "<i8")
    page = PageBytes(array.size, [array.tobytes()], any_message("lance.encodings.ArrayEncoding", flat(64)))
    return replace(page, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Built:
    """A file and where its parts are."""

    data: bytes
    metadata: tuple[tuple[int, int], ...]
    column_table: int
    buffer_table: int
    path: str = "data/built.lance"

    def patched(self, position: int, data: bytes) -> Built:
        """The file with other bytes at a position; negative ones count from the end."""
        position %= len(self.data)
        return replace(self, data=self.data[:position] + data + self.data[position + len(data) :])

    def footer(self, **changes: int) -> Built:
        """The file with other numbers in its footer."""
        names = ("columns_at", "column_table", "buffer_table", "num_buffers", "num_columns", "major", "minor")
        values = dict(zip(names, struct.unpack("<QQQIIHH", self.data[-40:-4]), strict=True))
        return self.patched(-40, struct.pack("<QQQIIHH", *{**values, **changes}.values()))


def column_message(
    pages: Sequence[PageBytes], places: Sequence[Sequence[int]], encoding: bytes = VALUES
) -> bytes:
    """A ColumnMetadata message."""
    out = message(1, encoding)
    for page, actual in zip(pages, places, strict=True):
        positions = actual if page.positions is None else page.positions
        sizes = [len(b) for b in page.buffers] if page.sizes is None else page.sizes
        body = message(1, b"".join(map(varint, positions))) + message(2, b"".join(map(varint, sizes)))
        out += message(2, body + number(3, page.length) + message(4, page.encoding))
    return out


def build_frame(
    columns: Sequence[Sequence[PageBytes]],
    num_rows: int,
    *,
    version: tuple[int, int] = (0, 3),
    encodings: Mapping[int, bytes] | None = None,
    schema: bytes = b"",
    padding: int = 0,
    edit: Callable[[int, bytes], bytes] = lambda _, data: data,
) -> Built:
    """Lay out a 2.x file.

    Parameters
    ----------
    columns : sequence of pages of each column
    num_rows : int
        What the descriptor says.
    version : (major, minor)
        Of the footer.
    encodings : mapping of column number to Encoding message, optional
        Column encodings that are not the usual one.
    schema : bytes
        Serialized Schema of the descriptor.
    padding : int
        Bytes of nothing between the data and the metadata.
    edit : function of (column number, message)
        Changes the metadata of columns.
    """
    out = bytearray()
    messages = []
    for index, pages in enumerate(columns):
        places = []
        for page in pages:
            here = []
            for buffer in page.buffers:
                out += b"H" * (-len(out) % 64)
                here.append(len(out))
                out += buffer
            places.append(here)
        messages.append(edit(index, column_message(pages, places, (encodings or {}).get(index, VALUES))))
    descriptor = message(1, schema) + number(2, num_rows)
    described = len(out)
    out += descriptor + b"~" * padding
    first, entries = len(out), []
    for body in messages:
        entries.append((len(out), len(body)))
        out += body
    column_table = len(out)
    out += b"".join(struct.pack("<QQ", *entry) for entry in entries)
    buffer_table = len(out)
    out += struct.pack("<QQ", described, len(descriptor))
    out += struct.pack("<QQQIIHH4s", first, column_table, buffer_table, 1, len(columns), *version, b"LANC")
    return Built(bytes(out), tuple(entries), column_table, buffer_table)


INTS = Field("a", 0, logical_type="int64")


@dataclass
class Opened:
    """A reader and what serves it."""

    reader: V2Reader
    files: Files = field(default_factory=Files)


def open_frame(
    built: Built,
    fields: Sequence[Field] = (INTS,),
    *,
    field_ids: Sequence[int] | None = None,
    columns: Sequence[int] | None = None,
    version: tuple[int, int] = (2, 0),
    limits: Limits = DEFAULT_LIMITS,
    is_mapped: bool = True,
) -> Opened:
    """Open it the way a manifest would, every node having a column unless told otherwise."""
    files = Files(is_mapped)
    ids = [node.id for top in fields for node in top.walk()] if field_ids is None else field_ids
    reader = run(
        opening(
            files.add(built.path, built.data),
            field_ids=ids,
            column_indices=range(len(ids)) if columns is None else columns,
            fields=fields,
            major=version[0],
            minor=version[1],
            limits=limits,
        ),
        files.fetch,
    )
    if not isinstance(reader, V2Reader):
        raise TypeError("this is not a 2.x file")
    return Opened(reader, files)
