"""Metadata of 2.x files: footer, tables and columns, every number checked.

The container is the same from 2.0 to 2.3::

    buffers | FileDescriptor | column metadata | CMO table | GBO table | footer
                                                 columns'    global
                                                 positions   buffers'

Only positions locate parts, never their order. A count determines the size of memory only after its bytes are known
to be in the file.

Source: file sheet 2.0, section 2; file sheet 2.1, section 1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.joined_columns import JoinKeys
from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.errors import FormatError, LanceError, LimitError, TruncatedError
from lancecy.file.tail import V2_FOOTER_BYTES, Tail, parse_footer, read_parts, read_tail
from lancecy.file.v2.page_shapes import AlikeSpecs, without_items
from lancecy.file.v2.wire import ColumnMessage, Parts, decode_columns, decode_num_rows, parse_spec
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile

__all__ = [
    "Container",
    "GlobalBuffers",
    "SpecCache",
    "V2Footer",
    "build_columns",
    "checked_columns",
    "open_container",
    "parse_v2_footer",
    "read_global_buffers",
]

Int64 = NDArray[np.int64]
T = TypeVar("T")

HELD_BYTES = 1 << 20
"""Most bytes of column metadata kept of a mapped file; larger metadata is read on demand."""

_ENTRY_BYTES = 16
_FEW_COLUMNS = 16
# A footer cannot claim more.
_MOST_COLUMNS = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class V2Footer:
    """The last 40 bytes of a 2.x file.

    Attributes
    ----------
    column_table, buffer_table : int, bytes
        Positions of the tables of column metadata and of global buffers; both lie within the file.
    num_columns, num_buffers : int
    major, minor : int
        As written: (0, 3) and (2, 0) are both version 2.0.
    """

    column_table: int
    buffer_table: int
    num_columns: int
    num_buffers: int
    major: int
    minor: int

    @property
    def version(self) -> tuple[int, int]:
        """The file's version; version 2.0 is always (2, 0)."""
        return _version(self.major, self.minor)


def _version(major: int, minor: int) -> tuple[int, int]:
    return (2, 0) if (major, minor) == (0, 3) else (major, minor)


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """The frame of an opened file.

    Attributes
    ----------
    version : (major, minor)
    num_rows : int
    positions, lengths : (num_columns,) int64, bytes
        Metadata of each column, checked to lie in the file.
    metadata_bytes : int, bytes
        Sum of the lengths.
    descriptor : (position, length), bytes
        The FileDescriptor.
    held : Tail
        Column metadata that was read on opening: all of it unless it is large.
    is_whole : bool
        Whether the metadata of every column is held.
    data_bytes : int
        Bytes before the metadata; an upper bound for all columns.
    """

    version: tuple[int, int]
    num_rows: int
    positions: Int64
    lengths: Int64
    metadata_bytes: int
    descriptor: tuple[int, int]
    held: Tail
    is_whole: bool
    data_bytes: int

    @property
    def num_columns(self) -> int:
        """Physical columns of the file."""
        return int(self.positions.size)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.held.memory.nbytes + self.positions.nbytes + self.lengths.nbytes

    def part(self, column: int) -> tuple[int, int]:
        """Position and length of the metadata of a column."""
        return int(self.positions[column]), int(self.lengths[column])


@dataclass(frozen=True, slots=True, eq=False)
class GlobalBuffers:
    """Where the global buffers of a file are, and where its metadata begins.

    Attributes
    ----------
    positions, lengths : (num_buffers,) int64, bytes
        Checked to lie in the file. The first buffer is the FileDescriptor.
    table : int, bytes
        Position of their table, which the metadata of columns precedes.
    """

    positions: Int64
    lengths: Int64
    table: int


def parse_v2_footer(tail: Memory, file_size: int, limits: Limits) -> V2Footer:
    """Parse the footer at the end of these bytes.

    Parameters
    ----------
    tail : (nbytes,) uint8
        The last bytes of the file.
    file_size : int, bytes
    limits : Limits

    Raises
    ------
    TruncatedError
        The file is too short.
    FormatError
        It is not a Lance file, or a table lies outside it.
    LimitError
        More columns than ``limits.columns``.
    """
    major_minor = parse_footer(tail)
    if not major_minor.is_v2:
        version = f"{major_minor.major}.{major_minor.minor}"
        raise FormatError(f"the footer is that of version {version}, the manifest tells of a 2.x file")
    if tail.size < V2_FOOTER_BYTES:
        raise TruncatedError(
            f"{tail.size} bytes are too few for a file of version 2, which ends with {V2_FOOTER_BYTES}"
        )
    # The first number, the start of column metadata, also follows from the tables.
    numbers = struct.unpack("<8xQQIIHH4x", tail[-V2_FOOTER_BYTES:].tobytes())
    columns_at, buffers_at, num_buffers, num_columns, major, minor = numbers
    limits.check("columns", num_columns, "number of columns")
    end = file_size - V2_FOOTER_BYTES
    _check_table(columns_at, num_columns, end, "columns")
    _check_table(buffers_at, num_buffers, end, "global buffers")
    return V2Footer(columns_at, buffers_at, num_columns, num_buffers, major, minor)


def _check_table(position: int, count: int, end: int, what: str) -> None:
    if position > end or count * _ENTRY_BYTES > end - position:
        raise FormatError(
            f"the table of {count} {what} at {position} lies outside the file", position=position
        )


# -- opening -------------------------------------------------------------------------


def open_container(source: SourceFile, limits: Limits) -> Read[Container]:
    """Read and check the frame of a file: one round of requests, two if the metadata is large.

    Raises
    ------
    FormatError, LimitError
        The file is damaged.
    """
    tail = yield from read_tail(source)
    counts, ranges = np.empty(10, np.int64), np.empty((2, _FEW_COLUMNS), np.int64)
    about = tail.memory, tail.start, min(limits.columns, _MOST_COLUMNS)
    if not kernels.file_frame(*about, ranges, counts):
        return (yield from _open_any(source, tail, limits))
    major, minor, num_columns, at, size, first, last, nbytes, *rows = counts.tolist()
    if num_columns > _FEW_COLUMNS:
        ranges = np.empty((2, num_columns), np.int64)
        kernels.file_frame(*about, ranges, counts)
    columns = ranges[0, :num_columns], ranges[1, :num_columns], nbytes
    num_rows = decode_num_rows(tail.part(at, size), limits, *rows)
    return _container(tail, _version(major, minor), num_rows, columns, first, last, (at, size))


def _open_any(source: SourceFile, tail: Tail, limits: Limits) -> Read[Container]:
    """:func:`open_container` for any file: one whose tables are not in its tail, or a damaged one, which the error tells of."""
    footer = parse_v2_footer(tail.memory, source.size, limits)
    if footer.num_buffers == 0:
        raise FormatError("the file has no global buffer and so no descriptor")
    end = source.size - V2_FOOTER_BYTES
    (entry,) = yield from read_parts(source, tail, [(footer.buffer_table, _ENTRY_BYTES)])
    buffer = _entries(entry, end, "global buffer")
    descriptor = (buffer.first, buffer.nbytes)
    table = (footer.column_table, footer.num_columns * _ENTRY_BYTES)
    described, entries = yield from read_parts(source, tail, [descriptor, table])
    found = _entries(entries, end, "metadata of column")
    columns = found.positions, found.lengths, found.nbytes
    num_rows = decode_num_rows(described, limits)
    return _container(tail, footer.version, num_rows, columns, found.first, found.last, descriptor)


def _container(
    tail: Tail,
    version: tuple[int, int],
    num_rows: int,
    columns: tuple[Int64, Int64, int],
    first: int,
    last: int,
    descriptor: tuple[int, int],
) -> Container:
    """The frame of a file whose tables are checked; ``first`` and ``last``: see :class:`_Entries`."""
    held = _held(tail, first, last)
    return Container(
        version,
        num_rows,
        *columns,
        descriptor,
        held,
        columns[0].size == 0 or (held.start <= first and last <= held.stop),
        min(first, descriptor[0]),
    )


def read_global_buffers(source: SourceFile, limits: Limits) -> Read[GlobalBuffers]:
    """Read the table of global buffers, which opening a file does not need.

    Raises
    ------
    FormatError, LimitError
        The file is damaged, or has more buffers than ``limits.columns``.
    """
    tail = yield from read_tail(source)
    footer = parse_v2_footer(tail.memory, source.size, limits)
    limits.check("columns", footer.num_buffers, "number of global buffers")
    part = (footer.buffer_table, footer.num_buffers * _ENTRY_BYTES)
    (table,) = yield from read_parts(source, tail, [part])
    buffers = _entries(table, source.size - V2_FOOTER_BYTES, "global buffer")
    return GlobalBuffers(buffers.positions, buffers.lengths, footer.buffer_table)


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """A table of ranges of the file.

    Attributes
    ----------
    positions, lengths : (num_entries,) int64, bytes
    first, last : int, bytes
        The least position and the furthest end; the end of the file and 0 without entries.
    nbytes : int, bytes
        Sum of the lengths.
    """

    positions: Int64
    lengths: Int64
    first: int
    last: int
    nbytes: int


def _entries(table: Memory, end: int, what: str) -> _Entries:
    """The ranges in a table, every one checked to be inside the file, and all together to be no larger."""
    stored = np.frombuffer(table.tobytes(), "<u8").reshape(-1, 2)
    position, length = np.ascontiguousarray(stored.T)
    outside = (position > end) | (length > np.uint64(end) - np.minimum(position, np.uint64(end)))
    if outside.any():
        bad = int(outside.argmax())
        at, size = stored[bad].tolist()
        raise FormatError(f"the {what} {bad}, {size} bytes at {at}, lies outside the file", position=bad)
    total = float(length.sum(dtype=np.float64))
    if total > end + V2_FOOTER_BYTES:
        raise FormatError(f"the {what}s overlap")
    first, last = int(position.min(initial=end)), int((position + length).max(initial=0))
    return _Entries(position.view(np.int64), length.view(np.int64), first, last, int(total))


def _held(tail: Tail, first: int, last: int) -> Tail:
    """Copy the column metadata in ``tail``; nothing if it is large and can be read without a request."""
    start = max(tail.start, first)
    if last <= start or last - start > HELD_BYTES:
        return Tail(tail.stop)
    return Tail(start, tail.part(start, last - start).copy())


# -- columns -------------------------------------------------------------------------


def build_columns(
    parts: Parts,
    indices: Sequence[int],
    file_size: int,
    limits: Limits,
    specs: SpecCache,
    ledger: ByteLedger,
    memories: Callable[[int], PageMemory | None] = lambda _: None,
) -> list[Column]:
    """Build and check columns of a file.

    Parameters
    ----------
    parts : Parts
        The ColumnMetadata message of each column.
    indices : sequence of int
        Numbers of the columns in the file.
    file_size : int, bytes
        Every buffer must lie in it.
    limits : Limits
    specs : SpecCache
        Specs parsed so far.
    ledger : ByteLedger
        Ledger of the file: buffers of different pages and columns do not overlap.
    memories : function of int
        Cache for decoded parts of the pages of a column, by its number.

    Raises
    ------
    FormatError
        A buffer lies outside the file or overlaps others, or an encoding is invalid. The breadcrumb names the column.
    LimitError
        More pages or values than ``limits`` allow.
    UnsupportedError
        An unsupported encoding.
    """
    found = checked_columns(parts, indices, file_size, limits, specs, ledger)
    return [
        Column(
            index,
            message.is_blob,
            message.row_starts,
            pages,
            message.first_buffer,
            message.positions,
            message.sizes,
            message.nbytes,
            memories(index),
        )
        for index, (message, pages) in zip(indices, found, strict=True)
    ]


def _check(message: ColumnMessage, index: int, file_size: int, limits: Limits, ledger: ByteLedger) -> None:
    """Check that all buffers lie in the file, and that the pages have at most the allowed rows and the file's bits."""
    if message.end > file_size:
        pairs = zip(message.positions.tolist(), message.sizes.tolist(), strict=True)
        buffer, (at, size) = next((n, pair) for n, pair in enumerate(pairs) if sum(pair) > file_size)
        page = int(np.searchsorted(message.first_buffer, buffer, side="right")) - 1
        what = f"a buffer of {size} bytes at {at} lies outside the file"
        raise FormatError(what, position=page).within(f"page {page}")
    ledger.charge(index, "pages", message.nbytes, file_size)
    total = int(message.row_starts[-1])
    if total > max(limits.rows_per_file, file_size * 8):
        raise LimitError(
            f"pages of {total} values, beyond the limit of {limits.rows_per_file}",
            limit="rows_per_file",
            claimed=total,
        )


def _specs(message: ColumnMessage, specs: SpecCache) -> tuple[PageSpec, ...]:
    """The spec of every page; equal ones are one object."""
    edges = message.first_buffer.tolist()
    pages = [(encoding, edges[n + 1] - edges[n]) for n, encoding in enumerate(message.encodings)]
    known = {}
    for page in dict.fromkeys(pages):
        try:
            known[page] = specs.find(*page)
        except LanceError as error:
            raise error.within(f"page {pages.index(page)}")
    return tuple(map(known.__getitem__, pages))


def checked_columns(
    parts: Parts,
    indices: Sequence[int],
    file_size: int,
    limits: Limits,
    specs: SpecCache,
    ledger: ByteLedger,
) -> list[tuple[ColumnMessage, tuple[PageSpec, ...]]]:
    """The messages of columns and the specs of their pages, checked as :func:`build_columns` does.

    Parameters and errors as :func:`build_columns`.
    """
    try:
        messages = decode_columns(parts, limits)
    except LanceError as error:
        if len(indices) == 1:
            raise error.within(_place(indices[0]))
        # One by one, so that the error names the column.
        alone = [(parts.only(n), [index]) for n, index in enumerate(indices)]
        return [one for each in alone for one in checked_columns(*each, file_size, limits, specs, ledger)]
    found = []
    for index, message in zip(indices, messages, strict=True):
        try:
            _check(message, index, file_size, limits, ledger)
            found.append((message, _specs(message, specs)))
        except LanceError as error:
            raise error.within(_place(index))
    return found


def _place(index: int) -> str:
    return f"metadata of physical column {index}"


class SpecCache:
    """Parsed page specs by their bytes: equal ones are one object, also across files that share a cache.

    Parameters
    ----------
    version : (major, minor)
        Version of the file.
    limits : Limits
    cache : ByteCache or None
        Shared by files.

    Attributes
    ----------
    join_keys : JoinKeys
        Of the pages of this file.
    """

    def __init__(self, version: tuple[int, int], limits: Limits, cache: ByteCache | None = None) -> None:
        self._version = version
        self._limits = limits
        self._cache = cache
        self._own: dict[Hashable, Any] = {}
        self.join_keys = JoinKeys()

    @cached_property
    def _owner(self) -> object:
        """One object instead of the version and the limits, which take longer to hash."""
        return self.token(("specs", self._version, self._limits))

    def find(self, encoding: bytes, num_buffers: int) -> PageSpec:
        """The spec of a page with ``num_buffers`` buffers.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            See ``parse_spec``.
        """
        split = without_items(encoding)
        if split is None:
            key = ("page spec", encoding, num_buffers, self._owner)
            return self._kept(key, lambda: self._parsed(encoding, num_buffers), 1024 + 2 * len(encoding))
        around, num_items = split
        alike = ("alike page specs", around, num_buffers, self._owner)
        known = self._kept(alike, AlikeSpecs, 2048 + 2 * len(encoding))
        return known.find(num_items, lambda: self._parsed(encoding, num_buffers))

    def token(self, key: Hashable | None) -> object | None:
        """One object for equal keys, also across files that share the cache; None for None."""
        return None if key is None else self._kept(("batch key", key), object, 1024)

    def _kept(self, key: tuple[Hashable, ...], make: Callable[[], T], nbytes: int) -> T:
        """A value of the shared cache, or of this one."""
        if self._cache is not None:
            return self._cache.get(key, make, nbytes)
        if key not in self._own:
            self._own[key] = make()
        found: T = self._own[key]
        return found

    def _parsed(self, encoding: bytes, num_buffers: int) -> PageSpec:
        return parse_spec(encoding, self._version, num_buffers, self._limits)
