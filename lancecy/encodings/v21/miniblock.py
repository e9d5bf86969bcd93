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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.codecs.dictionaries import look_up
from lancecy.encodings.codecs.values import decode, decode_block, decode_levels
from lancecy.encodings.model.block import Block, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.chunks import Buffers, Chunks, runs_within, starts_of, whole_runs
from lancecy.encodings.model.layouts import MiniBlock, all_visible_max, max_repetition
from lancecy.encodings.model.pages import Page
from lancecy.encodings.v21.chunk_tables import (
    ChunkSelection,
    ChunkTable,
    chunk_table,
    select_chunks,
    word_bytes,
)
from lancecy.encodings.v21.programs import Program, Wanted, find
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, value_read

__all__ = ["ChunkHeaders", "dictionary_of", "flat_levels", "headers", "read"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

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
        return value_read(LeafPage(spec.layers, None, None, Structured(len(rows), {}), len(rows)))
    if rows.is_all:
        return _read_whole(spec, page, chain, rows, file, limits)
    return _read_part(spec, page, chain, rows, file, limits)


def _read_whole(
    spec: MiniBlock,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    (span,) = yield [Ranges(file, page.positions, page.sizes)]
    at, sizes = span.positions.tolist(), page.sizes.tolist()
    table = _known_table(page)
    if table is None:
        table = chunk_table(span.memory[at[0] : at[0] + sizes[0]], spec, page, sizes[1])
        # Without its index a page of lists is read only as a whole.
        if page.memory is not None and table.ends is None:
            page.memory.keep(page.number, "chunks", table, table.nbytes)
    chunks = table.chunks(None)
    chunks[0] += at[1]
    items = None
    if spec.dictionary is not None:
        items = dictionary_of(spec, page, span.memory[at[2] : at[2] + sizes[2]], limits)
    if max_repetition(spec.layers):
        return _lists(spec, None, span.memory, chunks, ChunkSelection(None, len(rows)), items, chain, limits)
    return _flat(spec, table.program, span.memory, Wanted.whole(chunks), items, chain, limits)


def _known_table(page: Page) -> ChunkTable | None:
    found: ChunkTable | None = None if page.memory is None else page.memory.find(page.number, "chunks")
    return found


def _read_part(
    spec: MiniBlock,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    table = _known_table(page)
    items = None if spec.dictionary is None else _cached_dictionary(page)
    span, at_once = None, False
    if table is None or (items is None and spec.dictionary is not None):
        sizes = page.sizes.tolist()
        at_once = sum(sizes) <= _SMALL_PAGE or _is_dense(rows, sizes[1], file)
        which = np.arange(page.sizes.size)
        if not at_once:
            which = which[which != 1]
        (span,) = yield [Ranges(file, page.positions[which], page.sizes[which])]
        at = dict(zip(which.tolist(), span.positions.tolist(), strict=True))
        parts = {number: span.memory[start : start + sizes[number]] for number, start in at.items()}
        table = chunk_table(parts[0], spec, page, sizes[1], parts[len(sizes) - 1] if spec.has_index else None)
        if page.memory is not None:
            page.memory.keep(page.number, "chunks", table, table.nbytes)
        items = None if spec.dictionary is None else dictionary_of(spec, page, parts[2], limits)
    if table.ends is not None:
        groups = select_chunks(rows, table)
        chunks = table.chunks(groups.chunks)
    else:
        wanted = find(table.starts, table.offsets, rows)
        chunks = wanted.chunks[:, : wanted.num_chunks]
    if span is not None and at_once:
        chunks[0] += int(span.positions[1])
    else:
        (span,) = yield [Ranges(file, chunks[0] + page.positions[1], chunks[1])]
        chunks[0] = span.positions
    if table.ends is not None:
        return _lists(spec, table.program, span.memory, chunks, groups, items, chain, limits)
    return _flat(spec, table.program, span.memory, wanted, items, chain, limits)


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
    if items is not None:
        return items
    if page.memory is None:
        return decode_block(spec.dictionary, memory, spec.num_dictionary_items, limits)
    # A copy, so that the cache does not keep a memory map or a whole merged request alive.
    items = decode_block(spec.dictionary, memory.copy(), spec.num_dictionary_items, limits)
    page.memory.keep(page.number, "items", items, 500 + _nbytes(items))
    return items


def _nbytes(block: Block) -> int:
    if isinstance(block, FixedList):
        return _nbytes(block.child)
    if isinstance(block, Structured):
        return sum(_nbytes(child) for child in block.children.values())
    if isinstance(block, VariableWidth):
        return memoryview(block.offsets).nbytes + memoryview(block.values).nbytes  # type: ignore[arg-type]
    return memoryview(block.values).nbytes if isinstance(block, FixedWidth) else 0  # type: ignore[arg-type]


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


def _flat(
    spec: MiniBlock,
    program: Program | None,
    memory: Memory,
    wanted: Wanted,
    items: Block | None,
    chain: tuple[Field, ...],
    limits: Limits,
) -> LeafPage:
    """Rows of a page without lists."""
    definition, values = _flat_values(spec, program, memory, wanted, has_no_values(chain[-1]), limits)
    validity = None
    if items is not None and not has_no_values(chain[-1]):
        values, validity = look_up(values, items, chain[-1], spec.layers, definition, limits)
    return LeafPage(spec.layers, None, definition, values, wanted.num_rows, validity)


def _flat_values(
    spec: MiniBlock,
    program: Program | None,
    memory: Memory,
    wanted: Wanted,
    only_levels: bool,
    limits: Limits,
) -> tuple[Levels | None, Block]:
    if program is not None and not only_levels:
        try:
            return program.run(memory, wanted, limits)
        except FormatError:
            pass  # Read codec by codec, so that the error says what is wrong.
    positions, lengths, counts = wanted.chunks[:, : wanted.num_chunks]
    heads, runs = headers(spec, memory, positions, lengths), wanted.page_runs
    definition = flat_levels(spec, heads, counts, runs, limits)
    if only_levels:
        return definition, Structured(wanted.num_rows, {})
    return definition, decode(spec.values, Chunks(heads.values, counts, runs), limits)


def _lists(
    spec: MiniBlock,
    program: Program | None,
    memory: Memory,
    chunks: Int64,
    wanted: ChunkSelection,
    items: Block | None,
    chain: tuple[Field, ...],
    limits: Limits,
) -> LeafPage:
    """Rows of a page of lists; ``chunks`` are (3, num_chunks), with positions in ``memory``."""
    only_levels = has_no_values(chain[-1])
    rep, definition, values = _list_values(spec, program, memory, chunks, wanted, only_levels, limits)
    validity = None
    if items is not None and not only_levels:
        values, validity = look_up(values, items, chain[-1], spec.layers, definition, limits)
    return LeafPage(spec.layers, rep, definition, values, wanted.num_rows, validity)


def _list_values(
    spec: MiniBlock,
    program: Program | None,
    memory: Memory,
    chunks: Int64,
    wanted: ChunkSelection,
    only_levels: bool,
    limits: Limits,
) -> tuple[Levels, Levels | None, Block]:
    positions, lengths, counts = chunks
    heads = headers(spec, memory, positions, lengths)
    if program is not None and wanted.groups is not None and wanted.ranges is not None and not only_levels:
        try:
            found = program.lists(memory, heads.found, chunks, wanted.groups, wanted.ranges, limits)
            return found.rep, found.definition, program.run(memory, found.wanted, limits)[1]
        except FormatError:
            pass  # Read codec by codec, so that the error says what is wrong.
    rep, definition, runs = _list_levels(spec, heads, counts, wanted, limits)
    if only_levels:
        return rep, definition, Structured(runs.num_rows, {})
    return rep, definition, decode(spec.values, Chunks(heads.values, counts, runs), limits)


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
