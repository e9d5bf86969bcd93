"""Mini-block pages: small values in chunks, levels beside them.

Buffers of a page, in order::

    words        one per chunk: log2 of its values (4 bits) | bytes / 8 - 1; 16 or 32 bits
    chunks       levels | rep bytes | def bytes | bytes of each value buffer | padding to 8
                 rep .. | def .. | value buffers .., each padded to 8
    dictionary   if values are codes
    index        if there are lists, per chunk: u64 rows that end in it | u64 levels after the last end

All chunks that a selection touches are handled as arrays: which chunks (``_flat_chunks``,
``_list_chunks``), where their parts are (one kernel call), levels, then values. A read of
all rows asks for the page in one round; another one for words, index and dictionary
first and for the chunks it needs second. Source: file sheet 2.1, sections 3.1 to 3.3, 3.7 and 5.3.

Imports ``values``, ``chunks``, ``dictionaries``, ``repdef``, ``presence``, ``block``, ``layouts``, ``pages``, ``kernels``, ``store.reads``,
``rows``, ``schema`` and ``errors``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.block import Structured
from lancecy.encodings.chunks import (
    Buffers,
    Chunks,
    row_ranges,
    runs_within,
    starts_of,
    touched,
    whole_runs,
)
from lancecy.encodings.dictionaries import look_up
from lancecy.encodings.layouts import MiniBlock, max_repetition
from lancecy.encodings.pages import Page
from lancecy.encodings.presence import has_no_values
from lancecy.encodings.repdef import LeafPage, all_visible_max
from lancecy.encodings.values import decode, decode_block, decode_levels
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile

__all__ = ["read"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

_SMALL_PAGE = 64 << 10
"""Pages of at most this many bytes are fetched whole: a second round costs more."""

_LARGEST_CHUNK = 1 << 16
"""Values of one chunk; the word of one that is not the last cannot say more than 2^15."""


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
    at_once = rows.is_all or int(page.sizes.sum()) <= _SMALL_PAGE
    which = np.arange(page.sizes.size) if at_once else np.delete(np.arange(page.sizes.size), 1)
    (span,) = yield [Ranges(file, page.positions[which], page.sizes[which])]
    parts = {
        int(number): span.memory[start : start + size]
        for number, start, size in zip(which, span.positions, page.sizes[which], strict=True)
    }
    table = _chunk_table(parts[0], spec, int(page.sizes[1]))
    wanted = _wanted(spec, page, rows, table, parts)
    first, last = wanted.chunks[wanted.groups[:-1]], wanted.chunks[wanted.groups[1:] - 1]
    if at_once:
        memory, starts = span.memory, span.positions[1] + table.offsets[first]
    else:
        lengths = table.offsets[last + 1] - table.offsets[first]
        (span,) = yield [Ranges(file, page.positions[1] + table.offsets[first], lengths)]
        memory, starts = span.memory, span.positions
    shifts = np.repeat(starts - table.offsets[first], np.diff(wanted.groups))
    heads = _headers(spec, memory, table.offsets[wanted.chunks] + shifts, table.sizes[wanted.chunks])
    return _leaf_page(spec, heads, table.counts[wanted.chunks], wanted, parts.get(2), chain, limits)


# -- which chunks ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """All chunks of a page.

    Attributes
    ----------
    offsets : (num_chunks + 1,) int64, bytes
        From the start of the chunks' buffer.
    sizes : (num_chunks,) int64, bytes
    counts : (num_chunks,) int64
        Value slots.
    """

    offsets: Int64
    sizes: Int64
    counts: Int64


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """What a selection needs of a page.

    Attributes
    ----------
    chunks : (num_wanted,) int64, ascending
    groups : (num_groups + 1,) int64
        Chunks ``groups[i]`` to ``groups[i + 1]`` of ``chunks`` follow each other in the page.
    num_rows : int
    runs : PageRuns or None
        Values, as runs in ``chunks``; None if the levels have to tell.
    ranges : (3, num_ranges) int64 or None
        Group, first row and stop of each range of rows, counted from the first that begins in the group.
    """

    chunks: Int64
    groups: Int64
    num_rows: int
    runs: PageRuns | None = None
    ranges: Int64 | None = None


def _chunk_table(words: Memory, spec: MiniBlock, nbytes: int) -> _Table:
    width = 4 if spec.is_large else 2
    if words.size == 0 or words.size % width:
        raise FormatError(f"{words.size} bytes of chunk words of {width} bytes")
    numbers = np.frombuffer(words, f"<u{width}").astype(np.int64)
    sizes = ((numbers >> 4) + 1) << 3
    offsets = starts_of(sizes)
    if int(offsets[-1]) != nbytes:
        raise FormatError(f"chunks take {int(offsets[-1])} bytes, their buffer has {nbytes}")
    counts = np.left_shift(1, numbers & 15)
    rest = spec.num_items - int(counts[:-1].sum())
    if not 0 <= rest <= _LARGEST_CHUNK:
        raise FormatError(f"{rest} of {spec.num_items} items are left for the last of {counts.size} chunks")
    counts[-1] = rest
    return _Table(offsets, sizes, counts)


def _wanted(
    spec: MiniBlock, page: Page, rows: RowSelection, table: _Table, parts: dict[int, Memory]
) -> _Wanted:
    has_lists = max_repetition(spec.layers) > 0
    if not has_lists and spec.num_items != page.num_rows:
        raise FormatError(f"{spec.num_items} items in a page of {page.num_rows} rows")
    if rows.is_all:
        chunks = np.arange(table.counts.size)
        groups = np.array([0, chunks.size])
        return _Wanted(chunks, groups, len(rows), None if has_lists else whole_runs(table.counts))
    if not has_lists:
        return _flat_chunks(table, rows)
    index = parts[page.sizes.size - 1] if spec.has_index else None
    return _list_chunks(table, rows, *_row_bounds(index, table.counts.size, page.num_rows))


def _flat_chunks(table: _Table, rows: RowSelection) -> _Wanted:
    chunks, runs = touched(runs_within(starts_of(table.counts), *row_ranges(rows)))
    return _Wanted(chunks, _groups(chunks), len(rows), runs)


def _groups(chunks: Int64) -> Int64:
    breaks = np.flatnonzero(chunks[1:] != chunks[:-1] + 1) + 1
    return np.concatenate(([0], breaks, [chunks.size]))


def _row_bounds(index: Memory | None, num_chunks: int, num_rows: int) -> tuple[Int64, Int64]:
    """Running sums, per chunk: rows that begin before it, and rows that end in it or before.

    A row that goes on in the next chunk begins in this one and ends in a later one. Without an index every
    row is taken to reach through the whole page.
    """
    if index is None:
        begins = np.full(num_chunks + 1, num_rows, np.int64)
        begins[0] = 0
        ends = np.zeros(num_chunks, np.int64)
        ends[-1] = num_rows
        return begins, ends
    if index.size != num_chunks * 16:
        raise FormatError(f"repetition index of {index.size} bytes for {num_chunks} chunks")
    entries = np.frombuffer(index, "<u8").reshape(num_chunks, 2)
    if int(entries[:, 0].max()) > num_rows:
        raise FormatError("repetition index counts more rows than the page has")
    ends = np.cumsum(entries[:, 0].astype(np.int64))
    goes_on = (entries[:, 1] != 0).astype(np.int64)
    begins = np.zeros(num_chunks + 1, np.int64)
    begins[1:] = ends + goes_on
    if int(ends[-1]) != num_rows or goes_on[-1] or bool((begins[1:] < begins[:-1]).any()):
        raise FormatError(f"repetition index counts {int(ends[-1])} rows, where the page has {num_rows}")
    return begins, ends


def _list_chunks(table: _Table, rows: RowSelection, begins: Int64, ends: Int64) -> _Wanted:
    starts, stops = row_ranges(rows)
    first = np.searchsorted(begins, starts, side="right") - 1
    last = np.searchsorted(ends, stops - 1, side="right")
    size = table.counts.size + 1
    open_ranges = np.cumsum(np.bincount(first, minlength=size) - np.bincount(last + 1, minlength=size))
    chunks = np.flatnonzero(open_ranges[:-1])
    groups = _groups(chunks)
    heads = chunks[groups[:-1]]
    mine = np.searchsorted(heads, first, side="right") - 1
    before = begins[heads[mine]]
    return _Wanted(chunks, groups, len(rows), ranges=np.stack((mine, starts - before, stops - before)))


# -- what is in them ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Heads:
    """Where the parts of the wanted chunks are; ``num_levels`` is as stored, modulo 65536."""

    num_levels: Int64
    rep: Buffers
    definition: Buffers
    values: tuple[Buffers, ...]


def _headers(spec: MiniBlock, memory: Memory, positions: Int64, lengths: Int64) -> _Heads:
    outs = np.empty((5, positions.size), np.int64)
    buffers = np.empty((2, spec.num_buffers, positions.size), np.int64)
    has_levels = (spec.rep is not None, spec.definition is not None)
    size_width = 4 if spec.is_large else 2
    kernels.chunk_headers(
        memory, positions, lengths, *has_levels, spec.num_buffers, size_width, *outs, *buffers
    )
    values = tuple(Buffers(memory, *buffers[:, number]) for number in range(spec.num_buffers))
    return _Heads(outs[0], Buffers(memory, *outs[1:3]), Buffers(memory, *outs[3:5]), values)


def _leaf_page(
    spec: MiniBlock,
    heads: _Heads,
    counts: Int64,
    wanted: _Wanted,
    dictionary: Memory | None,
    chain: tuple[Field, ...],
    limits: Limits,
) -> LeafPage:
    if wanted.runs is not None:
        runs, rep = wanted.runs, None
        definition = _flat_levels(spec, heads, counts, runs, limits)
    else:
        rep, definition, runs = _list_levels(spec, heads, counts, wanted, limits)
    if has_no_values(chain[-1]):
        return LeafPage(spec.layers, rep, definition, Structured(runs.num_rows, {}), wanted.num_rows)
    values = decode(spec.values, Chunks(heads.values, counts, runs), limits)
    validity = None
    if spec.dictionary is not None and dictionary is not None:
        items = decode_block(spec.dictionary, dictionary, spec.num_dictionary_items, limits)
        values, validity = look_up(values, items, chain[-1], spec.layers, definition, limits)
    return LeafPage(spec.layers, rep, definition, values, wanted.num_rows, validity)


def _flat_levels(
    spec: MiniBlock, heads: _Heads, counts: Int64, runs: PageRuns, limits: Limits
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
    spec: MiniBlock, heads: _Heads, counts: Int64, wanted: _Wanted, limits: Limits
) -> tuple[Levels, Levels | None, PageRuns]:
    """Levels of the wanted rows, and where their values are."""
    if spec.rep is None:
        raise FormatError("lists without repetition levels")
    stored, everything = heads.num_levels, whole_runs(heads.num_levels)
    rep = decode_levels(spec.rep, heads.rep, stored, everything, limits)
    definition = None
    if spec.definition is not None:
        definition = decode_levels(spec.definition, heads.definition, stored, everything, limits)
    visible_max = all_visible_max(spec.layers)
    slots = rep.size if definition is None else int(np.count_nonzero(definition <= visible_max))
    if slots != int(counts.sum()):
        raise FormatError(
            f"levels of the chunks are for {slots} values, where {int(counts.sum())} are stored"
        )
    if wanted.ranges is None:
        return rep, definition, whole_runs(counts)
    found = np.empty((4, wanted.ranges.shape[1]), np.int64)
    group_stops = starts_of(stored)[wanted.groups[1:]]
    kernels.select_rows(
        rep, definition, max_repetition(spec.layers), visible_max, group_stops, *wanted.ranges, *found
    )
    runs = runs_within(starts_of(counts), found[2], found[3])
    return _cut(rep, found), None if definition is None else _cut(definition, found), runs


def _cut(levels: Levels, found: Int64) -> Levels:
    """Only the levels of the ranges that were found."""
    lengths = found[1] - found[0]
    out = np.empty(int(lengths.sum()), np.uint16)
    kernels.copy_spans(levels.view(np.uint8), found[0] * 2, lengths * 2, out.view(np.uint8))
    return out
