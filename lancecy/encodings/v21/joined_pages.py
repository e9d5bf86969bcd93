"""Decode many mini-block pages of one column at once.

Pages that were written by many small appends, and copied by a compaction, hold some thousand rows each; and a take of
many rows touches few rows of each page. Read one by one, a page costs as many Python steps as a large one. Pages that
follow each other and have the same encoding are read here as one: their chunks form one table, whose offsets are
positions in the file. Pages of lists with a dictionary are read alone.

The caller must be able to read each page alone: invalid pages raise a ``FormatError`` that names no page.
Source: file sheet 2.1, section 3.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.blocks.select import split
from lancecy.encodings.codecs.fsst import parse_symbols
from lancecy.encodings.model.block import Block, nbytes_of
from lancecy.encodings.model.chunks import starts_of
from lancecy.encodings.model.layouts import MiniBlock, max_repetition
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.model.spec import Compressed, FixedListOf, Spec, SymbolCoded, Variable
from lancecy.encodings.v21.chunk_tables import (
    LARGEST_CHUNK,
    ChunkTable,
    find_rows,
    parts_of,
    row_bounds,
    word_bytes,
)
from lancecy.encodings.v21.miniblock import (
    ChunkRows,
    PageItems,
    decoded,
    decoded_dictionary,
    decoded_together,
    keeps_codes,
    looked_up,
)
from lancecy.encodings.v21.programs import PageSymbols, Program, Wanted, program_of
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = [
    "JoinedPages",
    "family_of",
    "is_sound",
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
"""Most bytes to decode of a page on average: the steps for more take little of their time."""
_CHUNK_BYTES = 4096
"""What a row that is read alone needs about."""
_MOST_PROGRAMS = 64
"""Most programs of one kernel call."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedPages:
    """Pages of a column that are read as one.

    Attributes
    ----------
    column : Column
    first, last : int
        Numbers of the first page and of the page after the last one.
    dictionaries : PageMemory or None
        Cache for their dictionaries, if the column has none.
    """

    column: Column
    first: int
    last: int
    dictionaries: PageMemory | None = None

    @property
    def row_starts(self) -> Int64:
        """(num_pages + 1,) int64: first row of each page among those of these pages, and their number."""
        starts = self.column.row_starts[self.first : self.last + 1]
        found: Int64 = starts - starts[0]
        return found

    @property
    def specs(self) -> list[MiniBlock]:
        """The spec of each page."""
        specs = self.column.specs[self.first : self.last]
        found = [spec for spec in specs if isinstance(spec, MiniBlock)]
        if len(found) < len(specs):
            raise TypeError("pages without chunks are read alone")
        return found

    @property
    def spec(self) -> MiniBlock:
        """What the pages have in common."""
        spec = self.column.specs[self.first]
        if not isinstance(spec, MiniBlock):
            raise TypeError(f"pages of {type(spec).__name__} have no chunks")
        return spec

    @property
    def num_pages(self) -> int:
        """How many pages these are."""
        return self.last - self.first

    def buffers(self) -> tuple[Int64, Int64]:
        """(num_pages, num_buffers) int64 each: positions and sizes of words, chunks and, if there is one, dictionary or index."""
        column, shape = self.column, (self.num_pages, _num_buffers(self.spec))
        first, last = column.first_buffer[[self.first, self.last]].tolist()
        return column.positions[first:last].reshape(shape), column.sizes[first:last].reshape(shape)

    def num_items(self) -> Int64:
        """(num_pages,) int64: value slots of each page."""
        if max_repetition(self.spec.layers) == 0:
            return np.diff(self.row_starts)
        return np.array([spec.num_items for spec in self.specs], np.int64)


def _num_buffers(spec: MiniBlock) -> int:
    return 2 + spec.has_index + (spec.dictionary is not None)


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


def _groups(column: Column) -> Int64:
    keys = _Keys()
    rows, buffers = np.diff(column.row_starts).tolist(), np.diff(column.first_buffer).tolist()

    def key(number: int) -> Hashable:
        spec = column.specs[number]
        if not isinstance(spec, MiniBlock) or not is_sound(spec, rows[number], buffers[number]):
            return number
        known = keys.of(spec)
        return number if known is None else known

    groups = [len(list(group)) for _, group in groupby(range(column.num_pages), key)]
    return starts_of(np.array(groups, np.int64)) if max(groups) >= _FEW else _NONE


def is_sound(spec: MiniBlock, num_rows: int, num_buffers: int) -> bool:
    """Whether a page has the buffers and the values that its layout says; any other is read alone, which tells of it."""
    is_counted = spec.has_index or spec.num_items == num_rows
    return spec.num_items > 0 < num_rows and is_counted and num_buffers == _num_buffers(spec)


def family_of(spec: MiniBlock) -> Hashable | None:
    """Equal for pages that are read as one, if they have no more programs than a kernel call may have; None for a page that is read alone."""
    if spec.has_index != (max_repetition(spec.layers) > 0):
        return None
    program, values = program_of(spec), spec.values
    family = None if program is None else program.family
    if spec.dictionary is not None and (
        program is None or max_repetition(spec.layers) or _has_lists(spec.dictionary)
    ):
        return None
    if family is not None:
        return family
    if isinstance(values, SymbolCoded):
        if not isinstance(values.values, Variable) or values.values.offsets is not None:
            return None
        # Each page has a table of its own, and only programs decode by several. That of a small page says that it is not coded.
        if program is None:
            return None
        return replace(spec, num_items=0, values=replace(values, table=b"")), program.symbols is None
    return replace(spec, num_items=0, num_dictionary_items=0)


class _Keys:
    """Keys of pages: equal for those that are read as one."""

    def __init__(self) -> None:
        # Pages of other lengths share their shape, so that each is looked at once.
        self._known: dict[int, tuple[MiniBlock, Hashable | None]] = {}
        self._programs: dict[Hashable, dict[Hashable, int]] = {}

    def of(self, spec: MiniBlock) -> Hashable | None:
        """The key of a page, None if it is read alone."""
        shape = spec.shared_shape or spec
        known = self._known.get(id(shape))
        if known is None:
            known = self._known[id(shape)] = shape, self._made(shape)
        return known[1]

    def _made(self, spec: MiniBlock) -> Hashable | None:
        family, program = family_of(spec), program_of(spec)
        if family is None or program is None or program.family is None:
            return family
        programs = self._programs.setdefault(family, {})
        number = programs.setdefault(program.numbers.tobytes(), len(programs))
        return family, number // _MOST_PROGRAMS


def _has_lists(dictionary: Spec) -> bool:
    """Whether the items of a dictionary are lists, which are looked up page by page."""
    return isinstance(dictionary.values if isinstance(dictionary, Compressed) else dictionary, FixedListOf)


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
    is_mapped, is_known = file.store.traits.is_mapped, _known_table(found) is not None
    are_small = int(found.buffers()[1][:, 1].sum()) <= _MOST_BYTES * found.num_pages
    if are_small and is_mapped and is_known:
        return found
    num_touched = _num_touched(found.row_starts, rows)
    if num_touched < _FEW:
        return None
    if found.spec.dictionary is not None and not is_known:
        # All dictionaries are decoded, which a few rows are not worth.
        dictionaries = int(found.buffers()[1][:, 2].sum())
        if 2 * min(num_touched, len(rows)) < found.num_pages or dictionaries > _SMALL_PAGE * found.num_pages:
            return None
    # Where reads are requests, the words of pages without wanted rows are worth none.
    if are_small:
        return found if is_mapped or is_known or num_touched == found.num_pages else None
    is_little = len(rows) * _CHUNK_BYTES <= _MOST_BYTES * num_touched
    return found if is_mapped and is_little and (is_known or 4 * num_touched >= found.num_pages) else None


def read_joined(
    pages: JoinedPages, chain: tuple[Field, ...], rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[list[LeafPage]]:
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
    Read of list of LeafPage
        One, unless values stay codes of different dictionaries. One round for all rows, for small pages, or if the
        chunks are known; else two.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        A page is damaged, or the pages together exceed ``limits``.
    """
    table, whole = _known_table(pages), None
    if table is None:
        table, whole = yield from _read_table(pages, rows, file, limits)
    wanted, lists = find_rows(rows, table.chunks)
    chunks, program = wanted.chunks[:, : wanted.num_chunks], table.chunks.program
    owners, numbers = _NONE, None
    are_alike = table.programs is None and not table.items and (program is None or program.symbols is None)
    if whole is not None or not are_alike:
        owners = table.owners(chunks[0])
    if table.programs is not None:
        numbers = table.programs[owners]
    if whole is None:
        (span,) = yield [Ranges(file, table.positions(chunks[0]), chunks[1])]
        memory, chunks[0] = span.memory, span.positions
    else:
        moves = whole.positions.reshape(pages.num_pages, -1)[:, 1] - table.firsts
        memory, chunks[0] = whole.memory, chunks[0] + moves[owners]
    found = ChunkRows(
        table.spec, program, memory, wanted, None, lists, partial(_symbols, program, pages, owners), numbers
    )
    if program is None:
        return [decoded(found, chain, limits)]
    leaf = decoded_together([found], chain[-1], limits)
    return (
        [leaf] if not table.items else list(_looked_up(leaf, table.items, owners, wanted, chain[-1], limits))
    )


def _looked_up(
    leaf: LeafPage, items: Sequence[Block], owners: Int64, wanted: Wanted, field: Field, limits: Limits
) -> Iterator[LeafPage]:
    """Values in place of codes; ``items`` are the dictionaries of the pages, ``owners`` the pages of the chunks."""
    page_parts = _page_parts(owners, wanted)
    sizes = np.diff([end for _, _, end in page_parts], prepend=0).tolist()
    pages = [
        PageItems(items[number], size, size) for (number, _, _), size in zip(page_parts, sizes, strict=True)
    ]
    if not keeps_codes(field):
        yield looked_up(leaf, pages, field, limits)
        return
    groups = [list(group) for _, group in groupby(pages, lambda page: id(page.items))]
    lengths = [sum(page.num_values for page in group) for group in groups]
    edges = [0, *accumulate(lengths)]
    for group, codes, (a, b) in zip(groups, split(leaf.values, lengths), pairwise(edges), strict=True):
        levels = None if leaf.definition is None else leaf.definition[a:b]
        yield looked_up(LeafPage(leaf.layers, None, levels, codes, b - a), group, field, limits)


def _read_table(
    pages: JoinedPages, rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[tuple[_JoinedChunks, Span | None]]:
    """The chunks of the pages, and the bytes of all buffers if they were fetched with the words."""
    positions, sizes = pages.buffers()
    is_whole = rows.is_all or int(sizes.sum()) <= _SMALL_PAGE * pages.num_pages
    if not is_whole:
        positions, sizes = np.delete(positions, 1, 1), np.delete(sizes, 1, 1)
    (span,) = yield [Ranges(file, positions.ravel(), sizes.ravel())]
    at = span.positions.reshape(positions.shape)
    items: tuple[Block, ...] = ()
    if pages.spec.dictionary is not None:
        places = zip(pages.specs, at[:, -1].tolist(), sizes[:, -1].tolist(), strict=True)
        known = pages.column.memory or pages.dictionaries
        items = tuple(
            decoded_dictionary(spec, span.memory[start : start + size], known, limits)
            for spec, start, size in places
        )
    table = _joined_chunks(pages, span.memory, at[:, 0].copy(), at[:, -1].copy(), items)
    if pages.column.memory is not None:
        pages.column.memory.keep(pages.first, "joined", table, table.nbytes)
    return table, span if is_whole else None


def _symbols(
    program: Program | None, pages: JoinedPages, owners: Int64, wanted: Wanted
) -> tuple[PageSymbols, ...]:
    """The symbols of each page with wanted values: each page codes its strings with a table of its own.

    Parameters
    ----------
    program : Program or None
        Of the pages; with symbols, if their strings are coded.
    pages : JoinedPages
    owners : (num_chunks,) int64
        The page of each chunk; empty if strings are not coded.
    wanted : Wanted
    """
    if program is None or program.symbols is None:
        return ()
    specs, found = pages.specs, []
    for number, stop, end in _page_parts(owners, wanted):
        coded = specs[number].values
        symbols = parse_symbols(coded.table) if isinstance(coded, SymbolCoded) else None
        if symbols is None:
            raise UnsupportedError("pages of strings of which some are not coded", feature="joined pages")
        found.append(PageSymbols(symbols, stop, end))
    return tuple(found)


def _page_parts(owners: Int64, wanted: Wanted) -> list[tuple[int, int, int]]:
    """Number of each page with wanted values, the end of its runs, and of its values; ``owners`` are the pages of the chunks."""
    runs = wanted.page_runs
    if not runs.pages.size:
        return []
    mine = owners[runs.pages]
    stops = np.append(np.flatnonzero(mine[1:] != mine[:-1]) + 1, mine.size)
    ends = runs.counts.cumsum()[stops - 1]
    return list(zip(mine[stops - 1].tolist(), stops.tolist(), ends.tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _JoinedChunks:
    """The chunks of several pages.

    Attributes
    ----------
    chunks : ChunkTable
        As if the chunks of all pages followed each other.
    firsts : (num_pages,) int64, bytes
        Offset of the first chunk of each page.
    moves : (num_pages,) int64, bytes
        By how much positions in the file are higher than these offsets.
    is_contiguous : bool
        Whether the chunks of all pages follow each other in the file.
    spec : MiniBlock
        Of any of the pages; with nullable items, if those of one are.
    programs : (num_pages,) int64 or None
        Which numbers of the program each page has; None: all have the first.
    items : tuple of Block
        The dictionary of each page; empty if values are not codes.
    """

    chunks: ChunkTable
    firsts: Int64
    moves: Int64
    is_contiguous: bool
    spec: MiniBlock
    programs: Int64 | None
    items: tuple[Block, ...]

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
        dictionaries = sum(nbytes_of(items) for items in {id(items): items for items in self.items}.values())
        return 500 + self.chunks.nbytes + 3 * self.firsts.nbytes + dictionaries


def _known_table(pages: JoinedPages) -> _JoinedChunks | None:
    memory = pages.column.memory
    found: _JoinedChunks | None = None if memory is None else memory.find(pages.first, "joined")
    return found


def _joined_chunks(
    pages: JoinedPages, memory: Memory, words_at: Int64, index_at: Int64, items: tuple[Block, ...]
) -> _JoinedChunks:
    """The chunks of pages, from their words and indices, which are at these positions of ``memory``."""
    positions, sizes = pages.buffers()
    width, sizes_of_words = word_bytes(pages.spec), sizes[:, 0].copy()
    if not sizes_of_words.all() or (sizes_of_words % width).any():
        raise FormatError(f"chunk words of {width} bytes do not fill their buffers")
    firsts = starts_of(sizes_of_words // width)
    words = np.empty(int(firsts[-1]), f"<u{width}")
    kernels.place_spans(memory, words_at, sizes_of_words, words.view(np.uint8), firsts[:-1] * width)
    numbers = words.astype(np.int64)
    lengths, counts = ((numbers >> 4) + 1) << 3, np.left_shift(1, numbers & 15)
    if (np.add.reduceat(lengths, firsts[:-1]) != sizes[:, 1]).any():
        raise FormatError("chunks are not as long as their words say")
    # The last word of a page does not count its values.
    lasts = firsts[1:] - 1
    counts[lasts] = 0
    counts[lasts] = pages.num_items() - np.add.reduceat(counts, firsts[:-1])
    if (counts[lasts] < 0).any() or (counts[lasts] > LARGEST_CHUNK).any():
        raise FormatError("chunks do not hold as many values as their pages say")
    starts, offsets = starts_of(counts), starts_of(lengths)
    at_page = offsets[firsts[:-1]]
    moves = positions[:, 1] - at_page
    is_contiguous = bool((moves == moves[0]).all())
    begins, ends, begun = None, None, None
    if pages.spec.has_index:
        index = np.empty((counts.size, 2), "<u8")
        if (sizes[:, 2] != np.diff(firsts) * 16).any():
            raise FormatError("repetition indices do not have 16 bytes for each chunk")
        kernels.place_spans(
            memory, index_at, sizes[:, 2].copy(), index.view(np.uint8).ravel(), firsts[:-1] * 16
        )
        begins, ends = row_bounds(index, firsts[1:], pages.row_starts[1:])
        begun = np.diff(begins)
    spec, program, programs = _joined_programs(pages)
    table = ChunkTable(offsets, starts, parts_of(offsets, starts), begins, ends, begun, program)
    return _JoinedChunks(table, at_page, moves, is_contiguous, spec, programs, items)


def _joined_programs(pages: JoinedPages) -> tuple[MiniBlock, Program | None, Int64 | None]:
    """A spec and a program for all pages, and which of its numbers each page has."""
    spec, program = pages.spec, program_of(pages.spec)
    if program is None or program.family is None:
        return spec, program, None
    specs = [page.shared_shape or page for page in pages.specs]
    shapes = {id(shape): shape for shape in specs}
    numbers: dict[bytes, tuple[int, Program]] = {}
    of_shape = {}
    for key, shape in shapes.items():
        mine = program_of(shape)
        if mine is None:
            raise TypeError("pages with a program beside pages without")
        of_shape[key], _ = numbers.setdefault(mine.numbers.tobytes(), (len(numbers), mine))
    # Nullable items have the higher number.
    layers = max(shape.layers for shape in shapes.values())
    spec = spec if spec.layers == layers else replace(spec, layers=layers)
    if len(numbers) == 1:
        return spec, program, None
    if len(numbers) > _MOST_PROGRAMS:
        raise UnsupportedError(
            "pages that are coded in more ways than are read together", feature="joined pages"
        )
    found = Program.of_several([mine for _, mine in numbers.values()])
    return spec, found, np.array([of_shape[id(shape)] for shape in specs], np.int64)
