"""Decode many mini-block pages of one column at once.

Pages that were written by many small appends, and copied by a compaction, hold some thousand rows each. Read one by
one, a page costs as many Python steps as a large one. Pages that follow each other and have the same encoding are
read here as one: their chunks form one table, whose offsets are positions in the file. Pages with a dictionary or
with lists are read alone.

The caller must be able to read each page alone: invalid pages raise a ``FormatError`` that names no page.
Source: file sheet 2.1, section 3.1.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.codecs.fsst import parse_symbols
from lancecy.encodings.codecs.values import decode
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import Chunks, starts_of
from lancecy.encodings.model.layouts import MiniBlock, PageSpec, max_repetition
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import SymbolCoded, Variable
from lancecy.encodings.v21.chunk_tables import LARGEST_CHUNK, word_bytes
from lancecy.encodings.v21.miniblock import flat_levels, headers
from lancecy.encodings.v21.programs import (
    PageSymbols,
    Program,
    ProgramPart,
    Wanted,
    find,
    program_of,
    run_programs,
)
from lancecy.encodings.v21.repdef import LeafPage, rows_per_value
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = [
    "JoinedPages",
    "are_one_group",
    "is_read_by_page",
    "joined_pages",
    "page_groups",
    "read_joined",
]

Int64 = NDArray[np.int64]

_FEW = 2
"""Fewest pages that are read together."""
_SMALL_PAGE = 64 << 10
"""Pages of at most this many bytes on average are fetched whole: a second round costs more."""
_MOST_BYTES = 256 << 10
"""Most bytes of a page on average: the steps for a larger one take little of its time."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedPages:
    """Pages of a column that are read as one.

    Attributes
    ----------
    column : Column
    first, last : int
        Numbers of the first page and of the page after the last one.
    """

    column: Column
    first: int
    last: int

    @property
    def row_starts(self) -> Int64:
        """(num_pages + 1,) int64: first row of each page among those of these pages, and their number."""
        starts = self.column.row_starts[self.first : self.last + 1]
        found: Int64 = starts - starts[0]
        return found

    @property
    def spec(self) -> MiniBlock:
        """What the pages have in common."""
        spec = self.column.specs[self.first]
        if not isinstance(spec, MiniBlock):
            raise TypeError(f"pages of {type(spec).__name__} have no chunks")
        return spec

    def buffers(self) -> tuple[Int64, Int64]:
        """(2 * num_pages,) int64 each: positions and sizes of words and chunks, page after page."""
        column = self.column
        first, last = column.first_buffer[[self.first, self.last]].tolist()
        return column.positions[first:last], column.sizes[first:last]


def page_groups(column: Column, chain: tuple[Field, ...], rows: RowSelection) -> Int64 | None:
    """Numbers of the pages at which groups of pages of one encoding begin, and the number of pages.

    Parameters
    ----------
    column : Column
    chain : tuple of Field
        From the top-level field to the field of its values.
    rows : RowSelection
        What is read, ascending, without duplicates.

    Returns
    -------
    (num_groups + 1,) int64, or None
        None: no group has pages enough to be read together; or the rows are in one page, and groups are not known yet.
    """
    if column.num_pages < _FEW or column.memory is None or has_no_values(chain[-1]):
        return None
    found: Int64 | None = column.memory.find(0, "groups")
    if found is None:
        if _num_touched(column.row_starts, rows) < _FEW:
            return None
        found = _groups(column)
        column.memory.keep(0, "groups", found, 500 + found.nbytes)
    return found if found.size else None


def are_one_group(column: Column, chain: tuple[Field, ...]) -> bool:
    """Whether all pages of a column are read together."""
    if column.num_pages < _FEW or has_no_values(chain[-1]) or rows_per_value(chain) != 1:
        return False
    return _groups(column).size == 2


def _groups(column: Column) -> Int64:
    before = np.concatenate(([0], np.cumsum(column.sizes)))
    is_small = np.diff(before[column.first_buffer]) <= _MOST_BYTES
    if np.count_nonzero(is_small) < _FEW:
        return _NONE
    keys: dict[int, Hashable] = {}
    for spec in column.specs:
        if id(spec) not in keys:
            keys[id(spec)] = _key(spec)
    rows, buffers = np.diff(column.row_starts).tolist(), np.diff(column.first_buffer).tolist()

    def key(number: int) -> Hashable:
        spec = column.specs[number]
        is_sound = isinstance(spec, MiniBlock) and 0 < spec.num_items == rows[number]
        known = keys[id(spec)] if is_sound and buffers[number] == 2 else None
        return number if known is None else known

    groups = [len(list(group)) for _, group in groupby(range(column.num_pages), key)]
    return starts_of(np.array(groups, np.int64)) if max(groups) >= _FEW else _NONE


def _key(spec: PageSpec) -> Hashable | None:
    """Equal for pages of one encoding; None if a page is more than chunks of one value per row."""
    if not isinstance(spec, MiniBlock) or is_read_by_page(spec):
        return None
    values = spec.values
    if isinstance(values, SymbolCoded):
        if not isinstance(values.values, Variable) or values.values.offsets is not None:
            return None
        # Each page has a table of its own, and only programs decode by several.
        if program_of(spec) is None:
            return None
        values = replace(values, table=b"")
    return replace(spec, num_items=0, values=values)


def is_read_by_page(spec: PageSpec) -> bool:
    """Whether pages of chunks are never read together with others: those of lists and of dictionaries."""
    return isinstance(spec, MiniBlock) and (spec.dictionary is not None or max_repetition(spec.layers) > 0)


def _num_touched(edges: Int64, rows: RowSelection) -> int:
    """Pages from that of the first row to that of the last one; ``edges`` are their first rows and their end."""
    starts, stops = (rows.starts, rows.stops - 1) if rows.stops is not None else (rows.indices, rows.indices)
    if starts is None or stops is None or not starts.size:
        return 0
    ends = np.searchsorted(edges, [int(starts[0]), int(stops[-1])], side="right")
    return int(ends[1] - ends[0]) + 1


def joined_pages(
    column: Column, first: int, last: int, rows: RowSelection, file: SourceFile
) -> JoinedPages | None:
    """The pages of a group, if reading them together pays.

    Parameters
    ----------
    column : Column
    first, last : int
        Numbers of the first page and of the page after the last one.
    rows : RowSelection
        Over the rows of these pages, ascending, without duplicates; at least one.
    file : SourceFile
    """
    if last - first < _FEW or len(rows) < _FEW:
        return None
    found = JoinedPages(column, first, last)
    if file.store.traits.is_mapped and _known_table(found) is not None:
        return found
    if int(found.buffers()[1].sum()) > _MOST_BYTES * (last - first):
        return None
    num_touched = _num_touched(found.row_starts, rows)
    # Where reads are requests, the words of pages without wanted rows are worth none.
    is_cheap = file.store.traits.is_mapped or num_touched == last - first or _known_table(found) is not None
    return found if num_touched >= _FEW and is_cheap else None


def read_joined(
    pages: JoinedPages, chain: tuple[Field, ...], rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[LeafPage]:
    """Decode rows of pages as if they were one page.

    Parameters
    ----------
    pages : JoinedPages
    chain : tuple of Field
        From the top-level field to the leaf.
    rows : RowSelection
        Over the rows of the pages, ascending, without duplicates; at least one.
    file : SourceFile
    limits : Limits

    Returns
    -------
    Read of LeafPage
        One round for all rows, for small pages, or if the chunks are known; else two.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        A page is damaged, or the pages together exceed ``limits``.
    """
    table, whole = _known_table(pages), None
    if table is None:
        table, whole = yield from _read_table(pages, rows, file)
    wanted = find(table.starts, table.offsets, rows)
    chunks = wanted.chunks[:, : wanted.num_chunks]
    symbols = _symbols(pages, table, wanted)
    if whole is None:
        (span,) = yield [Ranges(file, table.positions(chunks[0]), chunks[1])]
        memory, chunks[0] = span.memory, span.positions
    else:
        moves = whole.positions[1::2] - table.firsts
        memory, chunks[0] = whole.memory, chunks[0] + moves[table.owners(chunks[0])]
    values: Block
    if table.program is not None:
        part = ProgramPart(table.program, memory, wanted, symbols)
        definition, values = run_programs([part], limits)
        return LeafPage(pages.spec.layers, None, definition, values, len(rows))
    positions, lengths, counts = chunks
    heads, runs = headers(pages.spec, memory, positions, lengths), wanted.page_runs
    definition = flat_levels(pages.spec, heads, counts, runs, limits)
    values = decode(pages.spec.values, Chunks(heads.values, counts, runs), limits)
    return LeafPage(pages.spec.layers, None, definition, values, len(rows))


def _read_table(
    pages: JoinedPages, rows: RowSelection, file: SourceFile
) -> Read[tuple[_JoinedChunks, Span | None]]:
    """The chunks of the pages, and the bytes of all buffers if they were fetched with the words."""
    positions, sizes = pages.buffers()
    is_whole = rows.is_all or int(sizes.sum()) <= _SMALL_PAGE * (pages.last - pages.first)
    step = 1 if is_whole else 2
    (span,) = yield [Ranges(file, positions[::step].copy(), sizes[::step].copy())]
    table = _chunk_table(pages, span.memory, span.positions[:: 3 - step].copy())
    if pages.column.memory is not None:
        pages.column.memory.keep(pages.first, "joined", table, table.nbytes)
    return table, span if is_whole else None


def _symbols(pages: JoinedPages, table: _JoinedChunks, wanted: Wanted) -> tuple[PageSymbols, ...]:
    """The symbols of each page with wanted values: each page codes its strings with a table of its own.

    Positions of ``wanted`` are still offsets.
    """
    if table.program is None or table.program.symbols is None:
        return ()
    runs = wanted.page_runs
    mine = table.owners(wanted.chunks[0, : wanted.num_chunks])[runs.pages]
    stops = [*(np.flatnonzero(mine[1:] != mine[:-1]) + 1).tolist(), mine.size]
    ends = runs.counts.cumsum()[np.array(stops) - 1].tolist()
    found = []
    for number, stop, end in zip(mine[np.array(stops) - 1].tolist(), stops, ends, strict=True):
        spec = pages.column.specs[pages.first + number]
        coded = spec.values if isinstance(spec, MiniBlock) else None
        symbols = parse_symbols(coded.table) if isinstance(coded, SymbolCoded) else None
        if symbols is None:
            raise UnsupportedError("pages of strings of which some are not coded", feature="joined pages")
        found.append(PageSymbols(symbols, stop, end))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class _JoinedChunks:
    """The chunks of several pages.

    Attributes
    ----------
    starts, offsets : (num_chunks + 1,) int64
        First value and first byte of each chunk, as if the chunks of all pages followed each other, then all.
    firsts : (num_pages,) int64, bytes
        Offset of the first chunk of each page.
    moves : (num_pages,) int64, bytes
        By how much positions in the file are higher than these offsets.
    program : Program or None
        Of the pages.
    """

    starts: Int64
    offsets: Int64
    firsts: Int64
    moves: Int64
    program: Program | None
    is_contiguous: bool
    """Whether the chunks of all pages follow each other in the file."""

    def owners(self, offsets: Int64) -> Int64:
        """The pages of chunks at these offsets."""
        return np.searchsorted(self.firsts, offsets, side="right") - 1

    def positions(self, offsets: Int64) -> Int64:
        """Positions in the file of chunks at these offsets."""
        moves: Int64 = self.moves[:1] if self.is_contiguous else self.moves[self.owners(offsets)]
        return offsets + moves

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 1500 + 2 * self.starts.nbytes + 2 * self.firsts.nbytes


def _known_table(pages: JoinedPages) -> _JoinedChunks | None:
    memory = pages.column.memory
    found: _JoinedChunks | None = None if memory is None else memory.find(pages.first, "joined")
    return found


def _chunk_table(pages: JoinedPages, memory: Memory, at: Int64) -> _JoinedChunks:
    """The chunks of pages, from their words, which are at these positions of ``memory``."""
    positions, sizes = pages.buffers()
    width, sizes_of_words = word_bytes(pages.spec), sizes[::2].copy()
    if not sizes_of_words.all() or (sizes_of_words % width).any():
        raise FormatError(f"chunk words of {width} bytes do not fill their buffers")
    firsts = starts_of(sizes_of_words // width)
    words = np.empty(int(firsts[-1]), f"<u{width}")
    kernels.place_spans(memory, at, sizes_of_words, words.view(np.uint8), firsts[:-1] * width)
    numbers = words.astype(np.int64)
    lengths, counts = ((numbers >> 4) + 1) << 3, np.left_shift(1, numbers & 15)
    if (np.add.reduceat(lengths, firsts[:-1]) != sizes[1::2]).any():
        raise FormatError("chunks are not as long as their words say")
    # The last word of a page does not count its values.
    lasts = firsts[1:] - 1
    counts[lasts] = 0
    counts[lasts] = np.diff(pages.row_starts) - np.add.reduceat(counts, firsts[:-1])
    if (counts[lasts] < 0).any() or (counts[lasts] > LARGEST_CHUNK).any():
        raise FormatError("chunks do not hold as many values as their page has rows")
    offsets = starts_of(lengths)
    at_page = offsets[firsts[:-1]]
    moves = positions[1::2] - at_page
    is_contiguous = bool((moves == moves[0]).all())
    program = program_of(pages.spec)
    return _JoinedChunks(starts_of(counts), offsets, at_page, moves, program, is_contiguous)
