"""0.1 files by hand, byte by byte, with every freedom that real and hostile files take.

``build_file`` lays out pages, page table, statistics and metadata from plain values and
returns a :class:`Built` file, of which any page table cell can be edited afterwards.
Protobuf is written by the few lines at the end and not by generated code, so that a
mistake in our ``.proto`` files cannot hide itself. ``Files`` serves the bytes of such
files to Reads, as a memory map would or as a remote store would.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from lancecy.encodings.model.block import Block
from lancecy.file.base import FileReader
from lancecy.file.open import opening
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.memory import MemoryStore
from lancecy.store.ranges import merge
from lancecy.store.reads import Ranges, SourceFile, Span, run

__all__ = [
    "Built",
    "ColumnStatistics",
    "Files",
    "Page",
    "bits",
    "build_file",
    "list_offsets",
    "nothing",
    "open_built",
    "plain",
    "raw",
    "read_blocks",
    "strings",
]


# -- pages ----------------------------------------------------------------------------

Page = Callable[[int], tuple[bytes, int, int]]
"""Given the position it is written at: its bytes, where in them the page "starts", its length in elements."""


def raw(data: bytes, length: int, start: int = 0) -> Page:
    """Any bytes, said to be ``length`` elements from byte ``start`` on."""
    return lambda position: (data, start, length)


def plain(values: ArrayLike, dtype: str) -> Page:
    """A PLAIN page; ``dtype`` in NumPy's spelling."""
    array = np.asarray(values, dtype)
    return raw(array.tobytes(), len(array))


def bits(values: ArrayLike, per_row: int = 1) -> Page:
    """A PLAIN page of booleans, or of rows of ``per_row`` booleans that follow each other without a gap."""
    flags = np.asarray(values, np.uint8).reshape(-1)
    return raw(np.packbits(flags, bitorder="little").tobytes(), flags.size // per_row)


def strings(values: Sequence[bytes], padding: int = 0) -> Page:
    """A VAR_BINARY page: the bytes, ``padding`` bytes of nothing, and the absolute positions."""

    def make(position: int) -> tuple[bytes, int, int]:
        data = b"".join(values) + b"#" * padding
        ends = np.cumsum([0, *(len(v) for v in values)], dtype=np.int64) + position
        return data + ends.tobytes(), len(data), len(values)

    return make


def list_offsets(offsets: Sequence[int], width: int = 4) -> Page:
    """A list page: offsets into the child's page, one more than there are lists."""
    return raw(np.array(offsets, f"<i{width}").tobytes(), len(offsets))


def nothing(length: int) -> Page:
    """A page of the null type: a length and no bytes."""
    return raw(b"", length)


# -- files ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics pages of one data field; each entry is one batch."""

    logical_type: str
    null_count: Page
    min_value: Page
    max_value: Page


@dataclass(frozen=True)
class Built:
    """A file and where its parts are."""

    data: bytes
    ids: tuple[int, ...]
    origin: int
    num_batches: int
    page_table_position: int
    metadata_position: int
    stats_table_position: int = 0
    path: str = "data/built.lance"

    def cell_position(self, column_id: int, batch: int) -> int:
        """Where the page table has the cell."""
        return self.page_table_position + 16 * ((column_id - self.origin) * self.num_batches + batch)

    def cell(self, column_id: int, batch: int) -> tuple[int, int]:
        """Position and length of a page."""
        position, length = struct.unpack_from("<qq", self.data, self.cell_position(column_id, batch))
        return position, length

    def edited(
        self, column_id: int, batch: int, *, position: int | None = None, length: int | None = None
    ) -> Built:
        """The file with another position or length for one page."""
        old_position, old_length = self.cell(column_id, batch)
        cell = (
            old_position if position is None else position,
            old_length if length is None else length,
        )
        return self.patched(self.cell_position(column_id, batch), struct.pack("<qq", *cell))

    def patched(self, position: int, data: bytes) -> Built:
        """The file with other bytes at a position."""
        return replace(self, data=self.data[:position] + data + self.data[position + len(data) :])


def build_file(
    columns: Mapping[int, Sequence[Page]],
    rows: Sequence[int],
    *,
    structs: Sequence[int] = (),
    struct_cell: tuple[int, int] = (0, 0),
    origin: int | None = None,
    padding: int = 0,
    statistics: Mapping[int, ColumnStatistics] | None = None,
    statistics_field: int = 5,
    first_statistics_id: int = 0,
    footer: tuple[int, int] = (0, 2),
    table_first: bool = False,
    batch_offsets: Sequence[int] | None = None,
    unknown_fields: bytes = b"",
    spare_rows: int = 0,
) -> Built:
    """Lay out a 0.1 file.

    Parameters
    ----------
    columns : mapping of column id to pages
        One page per batch.
    rows : sequence of int
        Rows of each batch.
    structs : sequence of int
        Ids of structs, whose cells are ``struct_cell``.
    origin : int, optional
        First id of the page table; the smallest one if not given.
    padding : int
        Bytes before every page.
    statistics_field : int
        Number of the statistics in Metadata; 4 in one release.
    first_statistics_id : int
        Id of the first field of the statistics.
    table_first : bool
        Whether the page table stands before the pages.
    spare_rows : int
        Rows of zeros appended to the page table.
    """
    ids = tuple(sorted({*columns, *structs}))
    first = min(ids, default=0) if origin is None else origin
    num_batches = len(rows)
    num_ids = max(ids, default=first - 1) - first + 1 + spare_rows
    cells = np.zeros((num_ids, num_batches, 2), np.int64)
    for column_id in structs:
        cells[column_id - first] = struct_cell
    out = bytearray()
    table_position = 0
    if table_first:
        out += bytes(cells.nbytes)
    for batch in range(num_batches):
        for column_id, pages in columns.items():
            out += b"~" * padding
            data, start, length = pages[batch](len(out))
            cells[column_id - first, batch] = (len(out) + start, length)
            out += data
    if table_first:
        out[: cells.nbytes] = cells.tobytes()
    else:
        table_position = len(out)
        out += cells.tobytes()
    message, stats_table = _statistics(statistics or {}, first_statistics_id, out)
    offsets = np.cumsum([0, *rows]).tolist() if batch_offsets is None else list(batch_offsets)
    body = _metadata(offsets, table_position, message, statistics_field) + unknown_fields
    position = len(out)
    out += struct.pack("<I", len(body)) + body + struct.pack("<qHH4s", position, *footer, b"LANC")
    return Built(bytes(out), ids, first, num_batches, table_position, position, stats_table)


def _statistics(
    statistics: Mapping[int, ColumnStatistics], first_id: int, out: bytearray
) -> tuple[bytes, int]:
    """Write statistics pages and their table; the StatisticsMetadata message and the table's position."""
    if not statistics:
        return b"", 0
    fields = b""
    cells: list[tuple[int, int]] = []
    for data_id, column in statistics.items():
        parent = first_id + len(cells)
        cells.append((0, 0))
        fields += _message(1, _field(str(data_id), parent, -1, "struct", nullable=False))
        pages = [("null_count", "int64", column.null_count)]
        pages += [("min_value", column.logical_type, column.min_value)]
        pages += [("max_value", column.logical_type, column.max_value)]
        for name, kind, page in pages:
            data, start, length = page(len(out))
            fields += _message(
                1, _field(name, first_id + len(cells), parent, kind, nullable=name != "null_count")
            )
            cells.append((len(out) + start, length))
            out += data
    position = len(out)
    out += np.array(cells, np.int64).tobytes()
    packed = b"".join(_varint(first_id + i) for i in range(len(cells)))
    return fields + _message(2, packed) + _number(3, position), position


def _metadata(offsets: Sequence[int], table_position: int, statistics: bytes, number: int) -> bytes:
    body = _message(2, b"".join(_varint(i & (2**64 - 1)) for i in offsets)) + _number(3, table_position)
    return body + (_message(number, statistics) if statistics else b"")


# -- protobuf -------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (2**64 - 1)) if value else b""


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _field(name: str, field_id: int, parent: int, kind: str, *, nullable: bool) -> bytes:
    return (
        _message(2, name.encode())
        + _number(3, field_id)
        + _number(4, parent)
        + _message(5, kind.encode())
        + _number(6, int(nullable))
    )


# -- serving --------------------------------------------------------------------------


@dataclass
class Files:
    """Bytes by path, given out to Reads.

    Attributes
    ----------
    is_mapped : bool
        True: spans are the whole file, as with a memory map. False: ranges are merged into fresh memory,
        as a remote store's are.
    rounds : list of list of Ranges
        What has been asked for, round by round.
    """

    is_mapped: bool = True
    contents: dict[str, Memory] = field(default_factory=dict)
    rounds: list[list[Ranges]] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)

    def add(self, path: str, data: bytes) -> SourceFile:
        """Put a file there."""
        self.store.put(path, data)
        self.contents[path] = np.frombuffer(data, np.uint8)
        return SourceFile(self.store, path, len(data))

    def fetch(self, requests: list[Ranges]) -> list[Span]:
        """One round."""
        self.rounds.append(requests)
        return [self._span(request) for request in requests]

    def _span(self, request: Ranges) -> Span:
        memory = self.contents[request.file.path]
        if self.is_mapped:
            return Span(memory, request.positions)
        merged = merge(request.positions, request.lengths, 16, 1 << 20)
        pieces = [memory[a:b] for a, b in zip(merged.starts.tolist(), merged.stops.tolist(), strict=True)]
        return Span(np.concatenate(pieces) if pieces else np.empty(0, np.uint8), merged.arena_positions)


def open_built(
    built: Built,
    fields: Sequence[Field],
    files: Files | None = None,
    *,
    field_ids: Sequence[int] | None = None,
    dictionary_source: SourceFile | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[FileReader, Files]:
    """Open a file made by ``build_file``; the reader and what serves its bytes."""
    files = files or Files()
    reader = run(
        opening(
            files.add(built.path, built.data),
            field_ids=built.ids if field_ids is None else field_ids,
            fields=fields,
            major=0,
            minor=2,
            limits=limits,
            dictionary_source=dictionary_source,
        ),
        files.fetch,
    )
    return reader, files


def read_blocks(
    reader: FileReader, files: Files, fields: Sequence[Field], selection: RowSelection | None = None
) -> dict[int, Block]:
    """Blocks of top-level fields, every row unless told otherwise."""
    chosen = RowSelection.all(reader.num_rows) if selection is None else selection
    return run(reader.read(fields, chosen), files.fetch)
