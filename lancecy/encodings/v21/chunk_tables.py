"""Chunks of a mini-block page: their positions, and which of them a selection needs.

The words of a page give bytes and values of every chunk (``chunk_table``). Rows of a page without lists are
values; rows of lists are found by the repetition index, which has the number of rows that end in each chunk and
whether its last one continues. Source: file sheet 2.1, sections 3.1, 3.3 and 5.3.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.layouts import MiniBlock, max_repetition
from lancecy.encodings.model.pages import Page
from lancecy.encodings.v21.programs import Program, Wanted, find, program_of
from lancecy.errors import FormatError
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.store.base import Memory

__all__ = [
    "LARGEST_CHUNK",
    "ChunkSelection",
    "ChunkTable",
    "chunk_table",
    "find_rows",
    "parts_of",
    "row_bounds",
    "word_bytes",
]

Int64 = NDArray[np.int64]

LARGEST_CHUNK = 1 << 16
"""Most values of one chunk; the word of a chunk before the last cannot exceed 2^15."""


def word_bytes(spec: MiniBlock) -> int:
    """Bytes of a chunk's word, and of the size of a value buffer."""
    return 4 if spec.is_large else 2


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """All chunks of a page, or of several as if they followed each other.

    Attributes
    ----------
    offsets : (num_chunks + 1,) int64, bytes
        From the start of the chunks' buffer.
    starts : (num_chunks + 1,) int64
        Value slots before each chunk.
    parts : (3, num_chunks) int64
        Offset, bytes and value slots of each chunk.
    begins : (num_chunks + 1,) int64 or None
        Of lists: rows that begin before each chunk, then the number of all rows.
    ends : (num_chunks,) int64 or None
        Of lists: rows that end in each chunk or before it.
    begun : (num_chunks,) int64 or None
        Of lists with an index: rows that begin in each chunk.
    program : Program or None
        Of the page.
    """

    offsets: Int64
    starts: Int64
    parts: Int64
    begins: Int64 | None = None
    ends: Int64 | None = None
    begun: Int64 | None = None
    program: Program | None = None
    _whole: dict[int, Wanted] = field(default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 2000 + self.offsets.nbytes * (11 if self.ends is None else 14)

    def whole(self, position: int) -> Wanted:
        """All values of all chunks, which begin at a position; must not be written to.

        Kept for the last position, which is always the same in a mapped file.
        """
        found = self._whole.get(position)
        if found is None:
            chunks = self.parts.copy()
            chunks[0] += position
            found = Wanted.whole(chunks)
            self._whole.clear()
            self._whole[position] = found
        return found

    def chunks(self, numbers: Int64 | None) -> Int64:
        """(3, num_wanted) int64: offset, bytes and value slots of some chunks, or of all of them."""
        return self.parts.copy() if numbers is None else self.parts.take(numbers, 1)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSelection:
    """The chunks of a table of lists that a selection needs.

    Attributes
    ----------
    chunks : (num_wanted,) int64, ascending, or None
        None: all.
    num_rows : int
    begun : (num_wanted,) int64 or None
        Rows that begin in each of the chunks, if there is an index that tells.
    groups : (num_groups + 1,) int64 or None
        Chunks ``groups[i]`` to ``groups[i + 1]`` of ``chunks`` follow each other in the table.
    ranges : (3, num_ranges) int64 or None
        Group, first row and stop of each range of rows, counted from the first that begins in the group.
    """

    chunks: Int64 | None
    num_rows: int
    begun: Int64 | None
    groups: Int64 | None = None
    ranges: Int64 | None = None


def chunk_table(
    words: Memory, spec: MiniBlock, page: Page, nbytes: int, index: Memory | None = None
) -> ChunkTable:
    """All chunks of a page.

    Parameters
    ----------
    words : (num_chunks * ``word_bytes``,) uint8
    spec : MiniBlock
    page : Page
    nbytes : int, bytes
        Size of the buffer with the chunks.
    index : (num_chunks * 16,) uint8 or None
        The repetition index; None: there is none, or it is not needed.

    Raises
    ------
    FormatError
        Words, chunks, index and page contradict each other.
    """
    width = word_bytes(spec)
    if words.size == 0 or words.size % width:
        raise FormatError(f"{words.size} bytes of chunk words of {width} bytes")
    offsets, starts = np.empty((2, words.size // width + 1), np.int64)
    kernels.chunk_table(words, width, offsets, starts)
    if offsets[-1] != nbytes:
        raise FormatError(f"chunks take {int(offsets[-1])} bytes, their buffer has {nbytes}")
    rest = spec.num_items - int(starts[-2])
    if not 0 <= rest <= LARGEST_CHUNK:
        raise FormatError(
            f"{rest} of {spec.num_items} items are left for the last of {starts.size - 1} chunks"
        )
    is_flat = max_repetition(spec.layers) == 0
    if spec.num_items != page.num_rows and is_flat:
        raise FormatError(f"{spec.num_items} items in a page of {page.num_rows} rows")
    starts[-1] = spec.num_items
    parts, program = parts_of(offsets, starts), program_of(spec)
    if is_flat:
        return ChunkTable(offsets, starts, parts, program=program)
    num_chunks = starts.size - 1
    if index is None:
        bounds = _unknown_bounds(num_chunks, page.num_rows)
        return ChunkTable(offsets, starts, parts, *bounds, program=program)
    if index.size != num_chunks * 16:
        raise FormatError(f"repetition index of {index.size} bytes for {num_chunks} chunks")
    entries = np.frombuffer(index.tobytes(), "<u8").reshape(-1, 2)
    begins, ends = row_bounds(entries, np.array([num_chunks]), np.array([page.num_rows]))
    return ChunkTable(offsets, starts, parts, begins, ends, np.diff(begins), program)


def parts_of(offsets: Int64, starts: Int64) -> Int64:
    """(3, num_chunks) int64: offset, bytes and value slots of chunks, of which running sums are given."""
    parts = np.empty((3, starts.size - 1), np.int64)
    parts[0] = offsets[:-1]
    np.subtract(offsets[1:], offsets[:-1], out=parts[1])
    np.subtract(starts[1:], starts[:-1], out=parts[2])
    return parts


def find_rows(rows: RowSelection, table: ChunkTable) -> tuple[Wanted, ChunkSelection | None]:
    """Find the chunks that rows need; positions are offsets in the table.

    Returns
    -------
    wanted : Wanted
        Of lists, all values of the chunks.
    lists : ChunkSelection or None
        The rows of lists.
    """
    if table.ends is None:
        return find(table.starts, table.offsets, rows), None
    lists = _select_chunks(rows, table)
    return Wanted.whole(table.chunks(lists.chunks)), lists


def _select_chunks(rows: RowSelection, table: ChunkTable) -> ChunkSelection:
    if table.begins is None or table.ends is None:
        raise TypeError("a page without lists has no index of rows")
    first, stops = (rows.indices, None) if rows.indices is not None else (rows.starts, rows.stops)
    if first is None:
        raise ValueError("a selection has neither ranges nor indices")
    chunks, groups = np.empty(table.ends.size, np.int64), np.empty(first.size + 1, np.int64)
    ranges = np.empty((3, first.size), np.int64)
    sizes = kernels.find_lists(table.begins, table.ends, first, stops, chunks, groups, ranges)
    num_chunks, num_groups, num_ranges = sizes
    if num_ranges < first.size:
        ranges = ranges[:, :num_ranges].copy()
    chunks = chunks[:num_chunks]
    begun = None if table.begun is None else table.begun[chunks]
    return ChunkSelection(chunks, len(rows), begun, groups[: num_groups + 1], ranges)


def _unknown_bounds(num_chunks: int, num_rows: int) -> tuple[Int64, Int64]:
    """As :func:`row_bounds`, for a page without an index: every row might reach through the whole page."""
    begins = np.full(num_chunks + 1, num_rows, np.int64)
    begins[0] = 0
    ends = np.zeros(num_chunks, np.int64)
    ends[-1] = num_rows
    return begins, ends


def row_bounds(entries: NDArray[np.uint64], stops: Int64, rows: Int64) -> tuple[Int64, Int64]:
    """Running sums, per chunk of one or more pages: rows that begin before it, and rows that end in it or before.

    A row that continues in the next chunk begins in this one and ends in a later one.

    Parameters
    ----------
    entries : (num_chunks, 2) uint64
        The repetition indices of the pages.
    stops, rows : (num_pages,) int64
        Running sums of chunks and of rows, up to the end of each page.

    Raises
    ------
    FormatError
        An index counts other rows than its page has.
    """
    num_rows = int(rows[-1])
    if int(entries[:, 0].max()) > num_rows:
        raise FormatError("repetition index counts more rows than the page has")
    ends = np.cumsum(entries[:, 0].astype(np.int64))
    goes_on = (entries[:, 1] != 0).astype(np.int64)
    begins = np.zeros(ends.size + 1, np.int64)
    begins[1:] = ends + goes_on
    lasts = stops - 1
    if bool((ends[lasts] != rows).any() or goes_on[lasts].any() or (begins[1:] < begins[:-1]).any()):
        raise FormatError(f"repetition index counts {int(ends[-1])} rows, where the page has {num_rows}")
    return begins, ends
