"""Mini-block pages: small values in chunks, levels beside them.

Buffers of a page, in order::

    words        one per chunk: log2 of its values (4 bits) | bytes / 8 - 1; 16 or 32 bits
    chunks       levels | rep bytes | def bytes | bytes of each value buffer | padding to 8
                 rep .. | def .. | value buffers .., each padded to 8
    dictionary   if values are codes
    index        if there are lists, per chunk: u64 rows that end in it | u64 levels after the last end

The chunks of a selection are arrays: chunk numbers (``chunk_tables``), positions of their parts (one kernel call),
levels, then values. A read of all rows, and of rows spread over the page so densely that all of it would be fetched,
requests the page in one round; another read requests words, index and dictionary first and the chunks it needs
second. The parts from the first round are kept for the next read. Source:
file sheet 2.1, sections 3.1 to 3.3, 3.7 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import uninitialized
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.blocks.select import split
from lancecy.encodings.codecs.dictionaries import CodedPage, look_up, look_up_pages
from lancecy.encodings.codecs.values import decode, decode_block, decode_levels
from lancecy.encodings.model.block import Block, Structured, nbytes_of
from lancecy.encodings.model.chunks import Buffers, Chunks, runs_within, starts_of, whole_runs
from lancecy.encodings.model.layouts import MiniBlock, all_visible_max, max_repetition
from lancecy.encodings.model.pages import Page, PageMemory
from lancecy.encodings.v21.chunk_tables import (
    ChunkSelection,
    ChunkTable,
    chunk_table,
    find_rows,
    word_bytes,
)
from lancecy.encodings.v21.programs import (
    ChosenLists,
    PageSymbols,
    Program,
    ProgramPart,
    Wanted,
    run_programs,
)
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile

__all__ = [
    "ChunkHeaders",
    "ChunkRows",
    "PageItems",
    "can_join",
    "choose",
    "decoded",
    "decoded_dictionary",
    "decoded_together",
    "dictionary_of",
    "flat_levels",
    "headers",
    "keeps_codes",
    "looked_up",
    "read",
]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

_SHARED_DICTIONARY = 64 << 10
"""Most stored bytes of a dictionary that is looked for among those of other pages."""
_SMALL_PAGE = 64 << 10
"""Pages of at most this many bytes are fetched whole: a second round costs more."""


def read(
    spec: MiniBlock,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    """Decode rows of a mini-block page.

    Parameters
    ----------
    spec : MiniBlock
    page : Page
        With the buffers that ``spec`` needs.
    chain : tuple of Field
        From the top-level field to the leaf.
    rows : RowSelection
        Over ``page.num_rows`` rows, ascending, without duplicates; at least one.

    Returns
    -------
    Read of LeafPage
        One round for all rows, else two.

    Raises
    ------
    FormatError
        Sizes, counts, levels or values of the page contradict each other; TruncatedError if bytes are missing.
    LimitError
        More than ``limits`` allow.
    """
    if has_no_values(chain[-1]) and spec.definition is None and max_repetition(spec.layers) == 0:
        return LeafPage(spec.layers, None, None, Structured(len(rows), {}), len(rows))
    chosen = yield from choose(spec, page, rows, file, limits)
    return decoded(chosen, chain, limits)


def _no_symbols(_: Wanted) -> tuple[PageSymbols, ...]:
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """Rows of a page, or of several that are read as one, found and fetched, but not decoded yet.

    Attributes
    ----------
    spec : MiniBlock
    program : Program or None
        Of the page.
    memory : (nbytes,) uint8
    wanted : Wanted
        With positions in ``memory``; of a page of lists, all values of the chunks that the rows need.
    items : Block or None
        The page's dictionary.
    lists : ChunkSelection or None
        The rows, for a page of lists.
    symbols : function of Wanted
        The symbols of each page, for values of several pages whose strings are coded.
    numbers : (num_chunks,) int64 or None
        Which of the program's numbers each chunk has; None: all have the first.
    """

    spec: MiniBlock
    program: Program | None
    memory: Memory
    wanted: Wanted
    items: Block | None
    lists: ChunkSelection | None
    symbols: Callable[[Wanted], tuple[PageSymbols, ...]] = _no_symbols
    numbers: Int64 | None = None

    @property
    def num_rows(self) -> int:
        """Rows of the page, which a list makes one of however many values it has."""
        return self.wanted.num_rows if self.lists is None else self.lists.num_rows


def choose(
    spec: MiniBlock, page: Page, rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[ChunkRows]:
    """Find and fetch the chunks of rows; parameters, rounds and errors as for :func:`read`."""
    return _whole(spec, page, rows, file, limits) if rows.is_all else _part(spec, page, rows, file, limits)


def _whole(
    spec: MiniBlock, page: Page, rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[ChunkRows]:
    (span,) = yield [Ranges(file, page.positions, page.sizes)]
    at, sizes = span.positions.tolist(), page.sizes.tolist()
    table = _known_table(page)
    if table is None:
        table = _kept_table(spec, page, span.memory, at)
    items = None
    if spec.dictionary is not None:
        items = dictionary_of(spec, page, span.memory[at[2] : at[2] + sizes[2]], limits)
    lists = ChunkSelection(None, len(rows), table.begun) if max_repetition(spec.layers) else None
    return ChunkRows(spec, table.program, span.memory, table.whole(at[1]), items, lists)


def _known_table(page: Page) -> ChunkTable | None:
    found: ChunkTable | None = None if page.memory is None else page.memory.find(page.number, "chunks")
    return found


def _kept_table(
    spec: MiniBlock, page: Page, memory: Memory, at: Mapping[int, int] | Sequence[int]
) -> ChunkTable:
    """The chunks of a page, of which words and index were read; kept for the next read."""
    sizes, index = page.sizes.tolist(), None
    if spec.has_index:
        index = memory[at[len(sizes) - 1] : at[len(sizes) - 1] + sizes[-1]]
    table = chunk_table(memory[at[0] : at[0] + sizes[0]], spec, page, sizes[1], index)
    if page.memory is not None:
        page.memory.keep(page.number, "chunks", table, table.nbytes)
    return table


def _part(
    spec: MiniBlock, page: Page, rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[ChunkRows]:
    table = _known_table(page)
    items = None if spec.dictionary is None else _cached_dictionary(page)
    span, at_once = None, file.store.traits.is_mapped
    if at_once or table is None or (items is None and spec.dictionary is not None):
        sizes = page.sizes.tolist()
        at_once = at_once or sum(sizes) <= _SMALL_PAGE or _is_dense(rows, sizes[1], file)
        which = range(len(sizes)) if at_once else [n for n in range(len(sizes)) if n != 1]
        wanted_parts = (page.positions, page.sizes) if at_once else (page.positions[which], page.sizes[which])
        (span,) = yield [Ranges(file, *wanted_parts)]
        at = dict(zip(which, span.positions.tolist(), strict=True))
        if table is None:
            table = _kept_table(spec, page, span.memory, at)
        if items is None and spec.dictionary is not None:
            items = dictionary_of(spec, page, span.memory[at[2] : at[2] + sizes[2]], limits)
    wanted, lists = find_rows(rows, table)
    chunks = wanted.chunks[:, : wanted.num_chunks]
    if span is not None and at_once:
        chunks[0] += int(span.positions[1])
    else:
        (span,) = yield [Ranges(file, chunks[0] + page.positions[1], chunks[1])]
        chunks[0] = span.positions
    return ChunkRows(spec, table.program, span.memory, wanted, items, lists)


def _is_dense(rows: RowSelection, nbytes: int, file: SourceFile) -> bool:
    """Whether chunks between the rows are fetched anyway, because a request more costs as much as they do."""
    bearable = file.store.traits.always_merged
    return bearable > 0 and rows.largest_gap * nbytes <= bearable * rows.num_rows


# -- the dictionary -------------------------------------------------------------------


def _cached_dictionary(page: Page) -> Block | None:
    items: Block | None = None if page.memory is None else page.memory.find(page.number, "items")
    return items


def dictionary_of(spec: MiniBlock, page: Page, memory: Memory, limits: Limits) -> Block | None:
    """The dictionary of a page, if its values are codes; cached for the next read if possible.

    Parameters
    ----------
    memory : (nbytes,) uint8
        As stored.
    """
    if spec.dictionary is None:
        return None
    items = _cached_dictionary(page)
    if items is None:
        items = decoded_dictionary(spec, memory, page.memory, limits)
        if page.memory is not None:
            page.memory.keep(page.number, "items", items, 500 + nbytes_of(items))
    return items


def decoded_dictionary(spec: MiniBlock, stored: Memory, known: PageMemory | None, limits: Limits) -> Block:
    """The dictionary of a page: one block for equal ones, if they are small and there is a cache.

    Parameters
    ----------
    spec : MiniBlock
        Of a page with a dictionary.
    stored : (nbytes,) uint8
    known : PageMemory or None
    limits : Limits
    """
    if spec.dictionary is None:
        raise TypeError("a page without a dictionary")
    codec, count = spec.dictionary, spec.num_dictionary_items
    if known is None:
        return decode_block(codec, stored, count, limits)

    def decoded_copy() -> Block:
        # A copy, so that the cache does not keep a memory map or a whole merged request alive.
        return decode_block(codec, stored.copy(), count, limits)

    if stored.size > _SHARED_DICTIONARY:
        return decoded_copy()
    # Files often have the same dictionary: columns that share it are decoded together.
    key = ("dictionary", codec, count, stored.tobytes(), limits)
    return known.cache.get(key, decoded_copy, lambda items: 500 + stored.size + nbytes_of(items))


# -- contents of chunks -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ChunkHeaders:
    """Positions of the parts of selected chunks in ``memory``, as ``chunk_headers`` finds them."""

    memory: Memory
    found: Int64

    @property
    def values(self) -> tuple[Buffers, ...]:
        """The value buffers, by number."""
        found = self.found
        return tuple(Buffers(self.memory, found[row], found[row + 1]) for row in range(5, found.shape[0], 2))

    @property
    def num_levels(self) -> Int64:
        """As stored, modulo 65536."""
        levels: Int64 = self.found[0]
        return levels

    @property
    def rep(self) -> Buffers:
        return Buffers(self.memory, self.found[1], self.found[2])

    @property
    def definition(self) -> Buffers:
        return Buffers(self.memory, self.found[3], self.found[4])


def headers(spec: MiniBlock, memory: Memory, positions: Int64, lengths: Int64) -> ChunkHeaders:
    """Read the headers of chunks.

    Parameters
    ----------
    spec : MiniBlock
    memory : (nbytes,) uint8
    positions, lengths : (num_chunks,) int64, bytes
        Of the chunks in ``memory``.

    Raises
    ------
    FormatError
        Parts pass the end of their chunk; ``position`` is the chunk. TruncatedError if a chunk is not there.
    """
    found = np.empty((5 + 2 * spec.num_buffers, positions.size), np.int64)
    has_levels = (spec.rep is not None, spec.definition is not None)
    shape = (*has_levels, spec.num_buffers, word_bytes(spec))
    kernels.chunk_headers(memory, positions, lengths, *shape, found)
    return ChunkHeaders(memory, found)


def decoded(rows: ChunkRows, chain: tuple[Field, ...], limits: Limits) -> LeafPage:
    """Decode rows of one page; errors as for :func:`read`."""
    if rows.program is not None and not has_no_values(chain[-1]):
        try:
            return decoded_together([rows], chain[-1], limits)
        except FormatError:
            pass  # Read codec by codec, so that the error says what is wrong.
    spec, wanted = rows.spec, rows.wanted
    positions, lengths, counts = wanted.chunks[:, : wanted.num_chunks]
    heads, runs, rep = headers(spec, rows.memory, positions, lengths), wanted.page_runs, None
    if rows.lists is None:
        definition = flat_levels(spec, heads, counts, runs, limits)
    else:
        rep, definition, runs = _list_levels(spec, heads, counts, rows.lists, limits)
    if has_no_values(chain[-1]):
        return LeafPage(spec.layers, rep, definition, Structured(runs.num_rows, {}), rows.num_rows)
    values, validity = decode(spec.values, Chunks(heads.values, counts, runs), limits), None
    if rows.items is not None:
        values, validity = look_up(values, rows.items, chain[-1], spec.layers, definition, limits)
    return LeafPage(spec.layers, rep, definition, values, rows.num_rows, validity)


def can_join(one: ChunkRows, other: ChunkRows, field: Field) -> bool:
    """Whether rows of two pages can be decoded together: with programs of one form.

    Values that stay codes need the same dictionary.
    """
    if one.program is None or other.program is None or one.program.form != other.program.form:
        return False
    return one.items is other.items or not keeps_codes(field)


def keeps_codes(field: Field) -> bool:
    """Whether values of a leaf stay codes."""
    return field.in_codes or field.logical_type.startswith("dict:")


def decoded_together(several: Sequence[ChunkRows], field: Field, limits: Limits) -> LeafPage:
    """Decode rows of pages of which each can be joined with the first (:func:`can_join`).

    Parameters
    ----------
    several : sequence of ChunkRows
        At least one, with a program.
    field : Field
        The leaf, which has values.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        A page is damaged, or the pages together exceed ``limits``; the message names no page.
    """
    first, num_rows = several[0], sum(rows.num_rows for rows in several)
    layers, rep, definition = first.spec.layers, None, None
    wanted = [rows.wanted for rows in several]
    sizes = [w.num_rows for w in wanted]
    if first.lists is not None:
        rep, definition, wanted, sizes = _levels_together(several, limits)
    parts = [
        ProgramPart(rows.program, rows.memory, w, rows.symbols(w), rows.numbers)
        for rows, w in zip(several, wanted, strict=True)
        if rows.program is not None
    ]
    levels, values = run_programs(parts, limits)
    if first.lists is None:
        definition = levels
    leaf = LeafPage(layers, rep, definition, values, num_rows)
    pages = [
        PageItems(rows.items, w.num_rows, size)
        for rows, w, size in zip(several, wanted, sizes, strict=True)
        if rows.items is not None
    ]
    return looked_up(leaf, pages, field, limits) if pages else leaf


class PageItems(NamedTuple):
    """The dictionary of a page, and how many codes and levels of it there are."""

    items: Block
    num_values: int
    num_levels: int


def looked_up(leaf: LeafPage, pages: Sequence[PageItems], field: Field, limits: Limits) -> LeafPage:
    """Values in place of codes.

    Parameters
    ----------
    leaf : LeafPage
        Of some pages, one after the other; its values are codes.
    pages : sequence of PageItems
        At least one. Values that stay codes need one dictionary for all (:func:`keeps_codes`).
    field : Field
        The leaf.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        See ``codecs.dictionaries``.
    """
    layers, definition = leaf.layers, leaf.definition
    if all(page.items is pages[0].items for page in pages):
        block, validity = look_up(leaf.values, pages[0].items, field, layers, definition, limits)
        return replace(leaf, values=block, leaf_validity=validity)
    codes = split(leaf.values, [page.num_values for page in pages])
    edges = [0, *accumulate(page.num_levels for page in pages)]
    coded = [
        CodedPage(mine, page.items, None if definition is None else definition[a:b])
        for page, mine, (a, b) in zip(pages, codes, pairwise(edges), strict=True)
    ]
    return replace(leaf, values=look_up_pages(coded, layers, limits))


def _levels_together(
    several: Sequence[ChunkRows], limits: Limits
) -> tuple[Levels, Levels | None, list[Wanted], list[int]]:
    """Levels of rows of lists, the values of each page, and its number of levels."""
    chosen = [_list_rows(rows) for rows in several]
    room = [one.num_levels for one in chosen]
    total = sum(room)
    limits.check("page_bytes", 2 * total, "bytes of the levels of a page")
    rep, wanted, sizes, at = uninitialized(total, np.uint16), [], [], 0
    definition = None if several[0].spec.definition is None else uninitialized(total, np.uint16)
    for rows, one, most in zip(several, chosen, room, strict=True):
        if rows.program is None:
            raise TypeError("rows of lists without a program")
        mine = slice(at, at + most)
        size, values = rows.program.lists(one, rep[mine], None if definition is None else definition[mine])
        at += size
        sizes.append(size)
        wanted.append(values)
    if definition is not None and not definition[:at].any():
        # Nothing is null or empty, but lancecy writes structs around lists as nullable.
        definition = None
    return rep[:at], None if definition is None else definition[:at], wanted, sizes


def _list_rows(rows: ChunkRows) -> ChosenLists:
    if rows.lists is None:
        raise TypeError("rows of a page without lists")
    chunks = rows.wanted.chunks
    heads = headers(rows.spec, rows.memory, chunks[0], chunks[1])
    groups, ranges = rows.lists.groups, rows.lists.ranges
    if groups is None or ranges is None:
        groups, ranges = np.array([0, chunks.shape[1]]), np.array([[0], [0], [rows.num_rows]])
    return ChosenLists(rows.memory, heads.found, chunks, rows.lists.begun, groups, ranges)


def flat_levels(
    spec: MiniBlock, heads: ChunkHeaders, counts: Int64, runs: PageRuns, limits: Limits
) -> Levels | None:
    """Definition levels of a page without lists, one per value."""
    if spec.definition is None:
        return None
    different = (heads.num_levels ^ counts) & 0xFFFF
    if bool(different.any()):
        chunk = int(np.argmax(different != 0))
        raise FormatError(
            f"chunk {chunk} has {int(heads.num_levels[chunk])} levels for {int(counts[chunk])} values",
            position=chunk,
        )
    return decode_levels(spec.definition, heads.definition, counts, runs, limits)


def _list_levels(
    spec: MiniBlock, heads: ChunkHeaders, counts: Int64, wanted: ChunkSelection, limits: Limits
) -> tuple[Levels, Levels | None, PageRuns]:
    """Levels of the selected rows, and the runs of their values."""
    if spec.rep is None:
        raise FormatError("lists without repetition levels")
    stored, everything = heads.num_levels, whole_runs(heads.num_levels)
    rep = decode_levels(spec.rep, heads.rep, stored, everything, limits)
    definition = None
    if spec.definition is not None:
        definition = decode_levels(spec.definition, heads.definition, stored, everything, limits)
        if not definition.any():
            # Nothing is null or empty, but lancecy writes structs around lists as nullable.
            definition = None
    visible_max = all_visible_max(spec.layers)
    slots = rep.size if definition is None else int(np.count_nonzero(definition <= visible_max))
    if slots != int(counts.sum()):
        raise FormatError(
            f"levels of the chunks are for {slots} values, where {int(counts.sum())} are stored"
        )
    if wanted.begun is not None:
        before = starts_of((rep == max_repetition(spec.layers)).astype(np.int64))
        different = np.diff(before[starts_of(stored)]) != wanted.begun
        if bool(different.any()):
            chunk = int(np.argmax(different))
            raise FormatError(
                f"in chunk {chunk} other rows begin than the index of its page says", position=chunk
            )
    if wanted.ranges is None or wanted.groups is None:
        return rep, definition, whole_runs(counts)
    found = np.empty((4, wanted.ranges.shape[1]), np.int64)
    group_stops = starts_of(stored)[wanted.groups[1:]]
    kernels.select_rows(
        rep, definition, max_repetition(spec.layers), visible_max, group_stops, *wanted.ranges, *found
    )
    runs = runs_within(starts_of(counts), found[2], found[3])
    return _cut(rep, found), None if definition is None else _cut(definition, found), runs


def _cut(levels: Levels, found: Int64) -> Levels:
    """Only the levels of the ranges found."""
    lengths = found[1] - found[0]
    out = np.empty(int(lengths.sum()), np.uint16)
    kernels.copy_spans(levels.view(np.uint8), found[0] * 2, lengths * 2, out.view(np.uint8))
    return out
