"""Pages of 2.0 by hand: encoding messages, buffers, and columns made of them.

Messages are written by the few lines at the top and not by generated code, so that a
mistake in our ``.proto`` files cannot hide itself. ``read_column`` puts pages into a
file's bytes and decodes a field from them, as a memory map would serve it or a remote store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.pages import Column
from lancecy.encodings.v20.read import read_field
from lancecy.encodings.v20.wire.decode import parse_page
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import SourceFile, run
from tests.helpers.frames import message, varint
from tests.helpers.pages import Files

__all__ = [
    "ALL_NULL",
    "STRUCT",
    "Page",
    "ended",
    "ends",
    "file_of",
    "message",
    "mutated",
    "number",
    "read_blocks",
    "read_column",
]

PAGE = "/lance.encodings.ArrayEncoding"


# -- messages -------------------------------------------------------------------------


def number(tag: int, value: int) -> bytes:
    """A varint member; nothing if it is 0, as protobuf has it."""
    return varint(tag << 3) + varint(value) if value else b""


def buffer(tag: int, index: int, kind: int = 0) -> bytes:
    return message(tag, number(1, index) + number(2, kind))


def flat(bits: int, index: int = 0, scheme: str | None = None, kind: int = 0) -> bytes:
    compression = b"" if scheme is None else message(3, message(1, scheme.encode()))
    return message(1, number(1, bits) + buffer(2, index, kind) + compression)


def no_nulls(values: bytes) -> bytes:
    return message(2, message(1, message(1, values)))


def some_nulls(validity: bytes, values: bytes) -> bytes:
    return message(2, message(2, message(1, validity) + message(2, values)))


ALL_NULL = message(2, message(3, b""))
STRUCT = message(5, b"")


def fixed_list(size: int, items: bytes, has_validity: bool = False) -> bytes:
    return message(3, number(1, size) + message(2, items) + number(3, int(has_validity)))


def list_of(offsets: bytes, adjustment: int, num_items: int) -> bytes:
    return message(4, message(1, offsets) + number(2, adjustment) + number(3, num_items))


def binary(indices: bytes, values: bytes, adjustment: int) -> bytes:
    return message(6, message(1, indices) + message(2, values) + number(3, adjustment))


def dictionary(codes: bytes, items: bytes, num_items: int) -> bytes:
    return message(7, message(1, codes) + message(2, items) + number(3, num_items))


def fsst(values: bytes, table: bytes) -> bytes:
    return message(8, message(1, values) + message(2, table))


def packed(children: Sequence[bytes], index: int = 0) -> bytes:
    return message(9, b"".join(message(1, child) for child in children) + buffer(2, index))


def bit_stream(packed_bits: int, bits: int, index: int = 0, signed: bool = False) -> bytes:
    return message(10, number(1, packed_bits) + number(2, bits) + buffer(3, index) + number(4, int(signed)))


def fixed_binary(width: int, values: bytes) -> bytes:
    return message(11, message(1, values) + number(2, width))


def packed_blocks(packed_bits: int, bits: int, index: int = 0) -> bytes:
    return message(12, number(1, packed_bits) + number(2, bits) + buffer(3, index))


# -- pages ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """A page: its ArrayEncoding, its buffers and the values it says it has."""

    encoding: bytes
    num_rows: int
    buffers: Sequence[bytes] = ()


def ends(values: Sequence[bytes | None], adjustment: int) -> bytes:
    """Running ends of some strings, in 64 bits each."""
    lengths = np.array([len(v or b"") for v in values], np.uint64)
    nulls = np.array([v is None for v in values], np.uint64)
    return (np.cumsum(lengths, dtype=np.uint64) + nulls * np.uint64(adjustment)).tobytes()


def ended(values: Sequence[bytes | None], first_buffer: int = 0) -> Page:
    """A page of strings as the reference writes it; buffers numbered from ``first_buffer``."""
    data = b"".join(v or b"" for v in values)
    adjustment = len(data) + 1
    encoding = binary(no_nulls(flat(64, first_buffer)), flat(8, first_buffer + 1), adjustment)
    return Page(encoding, len(values), [ends(values, adjustment), data])


@dataclass
class _File:
    """Bytes that grow by pages."""

    data: bytearray = field(default_factory=lambda: bytearray(b"?" * 8))
    columns: list[Column] = field(default_factory=list)

    def add(self, pages: Sequence[Page], gap: int, is_blob: bool, limits: Limits) -> Column:
        positions, sizes, first = [], [], [0]
        parsed: dict[tuple[bytes, int], object] = {}
        specs = []
        for page in pages:
            for part in page.buffers:
                positions.append(len(self.data))
                sizes.append(len(part))
                self.data += part + b"?" * gap
            first.append(len(positions))
            key = (page.encoding, len(page.buffers))
            parsed.setdefault(key, parse_page(PAGE, page.encoding, len(page.buffers), limits))
            specs.append(parsed[key])
        column = Column(
            len(self.columns),
            is_blob,
            np.cumsum([0, *(page.num_rows for page in pages)], dtype=np.int64),
            tuple(specs),  # type: ignore[arg-type]
            np.array(first, np.int64),
            np.array(positions, np.int64),
            np.array(sizes, np.int64),
            sum(sizes),
        )
        self.columns.append(column)
        return column


def file_of(
    columns: Mapping[int, Sequence[Page]],
    files: Files,
    *,
    gap: int = 1,
    blobs: Sequence[int] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[dict[int, Column], Callable[[Column], Column | None], SourceFile]:
    """Lay out columns by field id; the columns, what is after each, and the file."""
    built = _File()
    found = {key: built.add(pages, gap, key in blobs, limits) for key, pages in columns.items()}

    def after(column: Column) -> Column | None:
        return built.columns[column.index + 1] if column.index + 1 < len(built.columns) else None

    return found, after, files.add("f", bytes(built.data))


def read_blocks(
    field: Field,
    columns: Mapping[int, Sequence[Page]],
    selection: RowSelection | None = None,
    *,
    files: Files | None = None,
    gap: int = 1,
    blobs: Sequence[int] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Block:
    """Decode a field; all rows of its column unless a selection is given."""
    files = files or Files()
    found, after, source = file_of(columns, files, gap=gap, blobs=blobs, limits=limits)
    chosen = RowSelection.all(found[field.id].num_rows) if selection is None else selection
    return run(read_field(field, found, after, source, chosen, limits), files.fetch)


def read_column(
    field: Field,
    columns: Mapping[int, Sequence[Page]],
    selection: RowSelection | None = None,
    *,
    is_mapped: bool = True,
    gap: int = 1,
    blobs: Sequence[int] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> pa.Array | pa.ChunkedArray:
    """As ``read_blocks``, as Arrow, which is validated in full."""
    block = read_blocks(
        field, columns, selection, files=Files(is_mapped), gap=gap, blobs=blobs, limits=limits
    )
    array = to_arrow(block, field.scanned if field.id in blobs else field)
    array.validate(full=True)
    return array


def mutated(columns: Mapping[int, Sequence[Page]], chance: np.random.Generator) -> dict[int, Sequence[Page]]:
    """The same columns with a byte of an encoding or of a buffer, or a number of rows, changed."""
    changed = {key: list(pages) for key, pages in columns.items()}
    key = int(chance.choice([key for key, pages in changed.items() if pages]))
    place = int(chance.integers(len(changed[key])))
    page = changed[key][place]
    encoding, buffers, num_rows = (
        bytearray(page.encoding),
        [bytearray(b) for b in page.buffers],
        page.num_rows,
    )
    targets = [part for part in (encoding, *buffers) if part]
    match int(chance.integers(4)):
        case 0:
            num_rows = int(chance.choice([0, 1, num_rows + 1, 1 << 20, 1 << 33]))
        case 1 if buffers:
            index = int(chance.integers(len(buffers)))
            buffers[index] = buffers[index][: int(chance.integers(len(buffers[index]) + 1))]
        case _ if targets:
            part = targets[int(chance.integers(len(targets)))]
            part[int(chance.integers(len(part)))] = int(chance.integers(256))
    changed[key][place] = Page(bytes(encoding), num_rows, [bytes(b) for b in buffers])
    return dict(changed)
