"""Pages of 2.1 and later by hand: messages from a few lines of protobuf, chunks and levels from plain values.

No generated code is used, so that a mistake in our ``.proto`` files cannot hide itself.
``column_of`` puts pages behind one another as a physical column, which ``rows_of``
decodes; both are below the file reader.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.v21.leaf import read_leaf
from lancecy.encodings.v21.wire.decode import parse_page
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.cache import ByteCache
from lancecy.store.reads import SourceFile, run
from tests.helpers.leaves import block_rows
from tests.helpers.pages import Files

__all__ = [
    "BuiltPage",
    "bss",
    "chunk",
    "column_of",
    "constant",
    "constant_page",
    "fixed_list",
    "flat",
    "fsst",
    "full_zip",
    "general",
    "index_of",
    "inline",
    "leaf_field",
    "message",
    "mini_block",
    "number",
    "out_of_line",
    "packed",
    "packed_fields",
    "parsed",
    "rle",
    "rows_of",
    "u16",
    "variable",
    "words",
]

PAGE = "/lance.encodings21.PageLayout"
LZ4, ZSTD = 1, 2


# -- protobuf -----------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(key: int, value: int) -> bytes:
    """A field of a number; absent if it is 0, as proto3 writes it."""
    return varint(key << 3) + varint(value) if value else b""


def message(key: int, body: bytes | None) -> bytes:
    """A field of a message, of bytes or of packed numbers; absent if it is None."""
    return b"" if body is None else varint(key << 3 | 2) + varint(len(body)) + body


# -- encodings ----------------------------------------------------------------------------


def flat(bits: int) -> bytes:
    return message(1, number(1, bits))


def variable(bits: int = 32) -> bytes:
    return message(2, message(1, flat(bits)))


def constant(value: bytes | None = None) -> bytes:
    return message(3, message(1, value))


def out_of_line(bits: int, packed_bits: int) -> bytes:
    return message(4, number(1, bits) + message(3, flat(packed_bits)))


def inline(bits: int) -> bytes:
    return message(5, number(1, bits))


def fsst(table: bytes, values: bytes) -> bytes:
    return message(6, message(1, table) + message(2, values))


def rle(values: bytes, lengths: bytes) -> bytes:
    return message(8, message(1, values) + message(2, lengths))


def bss(bits: int) -> bytes:
    return message(9, message(1, flat(bits)))


def general(scheme: int, values: bytes) -> bytes:
    return message(10, message(1, number(1, scheme)) + message(3, values))


def fixed_list(size: int, values: bytes, has_validity: bool = False) -> bytes:
    return message(11, number(1, size) + message(2, values) + number(3, int(has_validity)))


def packed(bits: Sequence[int], values: bytes) -> bytes:
    return message(12, message(1, b"".join(map(varint, bits))) + message(2, values))


def packed_fields(*fields: tuple[bytes, int, bool]) -> bytes:
    parts = (
        message(1, message(1, value) + number(3 if varies else 2, bits)) for value, bits, varies in fields
    )
    return message(13, b"".join(parts))


# -- layouts ------------------------------------------------------------------------------


def mini_block(
    values: bytes | None,
    num_items: int,
    layers: Sequence[int] = (1,),
    *,
    rep: bytes | None = None,
    definition: bytes | None = None,
    dictionary: bytes | None = None,
    num_dictionary_items: int = 0,
    num_buffers: int = 1,
    depth: int | None = None,
    large: bool = False,
) -> bytes:
    """A PageLayout; ``depth`` None means an index if there are repetition levels."""
    body = message(1, rep) + message(2, definition) + message(3, values) + message(4, dictionary)
    body += number(5, num_dictionary_items) + message(6, bytes(layers)) + number(7, num_buffers)
    body += number(8, int(rep is not None) if depth is None else depth) + number(9, num_items)
    return message(1, body + number(10, int(large)))


def constant_page(
    layers: Sequence[int] = (3,),
    value: bytes | None = None,
    *,
    rep: bytes | None = None,
    definition: bytes | None = None,
    num_rep: int = 0,
    num_def: int = 0,
) -> bytes:
    body = message(5, bytes(layers)) + message(6, value) + message(7, rep) + message(8, definition)
    return message(2, body + number(9, num_rep) + number(10, num_def))


def full_zip(
    values: bytes,
    num_items: int,
    layers: Sequence[int] = (1,),
    *,
    bits: int | None = None,
    length_bits: int | None = None,
    rep_bits: int = 0,
    def_bits: int = 0,
    num_visible: int | None = None,
) -> bytes:
    body = number(1, rep_bits) + number(2, def_bits)
    body += b"" if bits is None else varint(3 << 3) + varint(bits)
    body += b"" if length_bits is None else varint(4 << 3) + varint(length_bits)
    body += number(5, num_items) + number(6, num_items if num_visible is None else num_visible)
    return message(3, body + message(7, values) + message(8, bytes(layers)))


def parsed(
    layout: bytes, num_buffers: int, version: tuple[int, int] = (2, 1), limits: Limits = DEFAULT_LIMITS
) -> Any:
    """The layout that the bytes of a PageLayout stand for."""
    return parse_page(PAGE, layout, version, num_buffers, limits)


# -- bytes --------------------------------------------------------------------------------


def u16(*levels: int) -> bytes:
    return np.array(levels, "<u2").tobytes()


def chunk(
    buffers: Sequence[bytes],
    levels: int = 0,
    *,
    rep: bytes | None = None,
    definition: bytes | None = None,
    large: bool = False,
) -> bytes:
    """One mini-block chunk, padded as pylance does."""
    head = struct.pack("<H", levels)
    head += b"".join(struct.pack("<H", len(part)) for part in (rep, definition) if part is not None)
    head += b"".join(struct.pack("<I" if large else "<H", len(part)) for part in buffers)
    parts = [head, *(part for part in (rep, definition) if part is not None), *buffers]
    return b"".join(part + b"\xfe" * (-len(part) % 8) for part in parts)


def words(chunks: Sequence[bytes], logs: Sequence[int] = (), large: bool = False) -> bytes:
    """The chunk words; ``logs`` of all chunks but the last."""
    values = [
        (len(part) // 8 - 1) << 4 | log for part, log in zip(chunks, [*logs, 0][: len(chunks)], strict=True)
    ]
    return np.array(values, "<u4" if large else "<u2").tobytes()


def index_of(*entries: tuple[int, int]) -> bytes:
    """A repetition index: rows that end in each chunk, and levels after the last end."""
    return np.array(entries, "<u8").tobytes()


@dataclass
class BuiltPage:
    """A page: its layout message, its buffers and its rows."""

    layout: bytes
    buffers: list[bytes]
    num_rows: int
    version: tuple[int, int] = (2, 1)


@dataclass
class BuiltColumn:
    """A physical column and the file it is in."""

    column: Column
    source: SourceFile
    files: Files
    num_rows: int = field(default=0)


def column_of(*pages: BuiltPage, is_mapped: bool = True, gap: int = 64) -> BuiltColumn:
    """Pages behind one another, ``gap`` bytes of nothing between their buffers."""
    data, positions, sizes = bytearray(b"#" * 7), [], []
    for page in pages:
        for part in page.buffers:
            data += b"H" * (gap - len(data) % gap)
            positions.append(len(data))
            sizes.append(len(part))
            data += part
    files = Files(is_mapped=is_mapped)
    column = Column(
        index=0,
        is_blob=False,
        row_starts=np.cumsum([0, *(page.num_rows for page in pages)]),
        specs=tuple(parsed(page.layout, len(page.buffers), page.version) for page in pages),
        first_buffer=np.cumsum([0, *(len(page.buffers) for page in pages)]),
        positions=np.array(positions, np.int64),
        sizes=np.array(sizes, np.int64),
        nbytes=sum(sizes),
    )
    return BuiltColumn(column, files.add("data/x.lance", bytes(data)), files, column.num_rows)


def cached(built: BuiltColumn) -> BuiltColumn:
    """The column with a cache of its own."""
    memory = PageMemory(ByteCache(1 << 20), ("column",))
    return replace(built, column=replace(built.column, memory=memory))


def leaf_field(logical_type: str, name: str = "c", id: int = 3, **changes: Any) -> Field:
    """A nullable field."""
    return Field(name=name, id=id, logical_type=logical_type, **changes)


def rows_of(
    built: BuiltColumn | BuiltPage,
    *chain: Field,
    rows: Sequence[int] | None = None,
    num_rows: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Any]:
    """Decoded rows as Python values; all of them unless told which."""
    if isinstance(built, BuiltPage):
        built = column_of(built)
    total = built.num_rows if num_rows is None else num_rows
    chosen = RowSelection.all(total) if rows is None else RowSelection.take(total, rows)
    return block_rows(
        run(read_leaf(chain, built.column, built.source, chosen, limits), built.files.fetch), chain
    )
