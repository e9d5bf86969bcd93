"""Nulls of columns of 2.0 files, without the values.

Nulls are stored in the bitmaps of pages, in the running ends of strings and lists, or in the codes of a dictionary;
structs have no nulls. A column with none of these has no nulls, and none of its bytes are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lancecy.encodings.blocks.null_only import null_block, null_only
from lancecy.encodings.model.block import AllNull, Block, Structured
from lancecy.encodings.model.chunks import row_ranges, runs_within
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import (
    BitStream,
    Compressed,
    EndedBinary,
    FixedBinary,
    FixedListOf,
    Nullable,
    NullOf,
    PackedBlocks,
    PackedRows,
    PageDictionary,
    Plain,
    Spec,
    SymbolCoded,
)
from lancecy.encodings.v20 import fixed, lists, read
from lancecy.encodings.v20.columns import FieldSource, Rows, groups_of
from lancecy.encodings.v20.fixed import capacity
from lancecy.encodings.v20.offsets import read_ends, spans_of
from lancecy.encodings.v20.pages import Decoder, Pages, joined, misfit
from lancecy.limits import Limits
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile, gather

__all__ = ["read_nulls"]


def read_nulls(
    field: Field,
    tested: frozenset[int],
    columns: Mapping[int, Column],
    column_after: Callable[[Column], Column | None],
    file: SourceFile,
    selection: RowSelection,
    limits: Limits,
) -> Read[Block]:
    """The null stub of a top-level field (``blocks.null_only.null_stub``).

    Parameters
    ----------
    field : Field
        Pruned to the tested nodes and what is within them.
    tested : frozenset of int
        Field ids; the nodes above them are structs.
    columns, column_after, file, selection, limits
        As ``read.read_field`` takes them.

    Raises
    ------
    FormatError, LimitError
        See ``read.read_field``.
    """
    starts, stops = row_ranges(selection)
    source = FieldSource(columns, column_after, file, limits, _DECODERS, read.read_node)
    return _read(field, tested, source, Rows(starts, stops))


def _read(field: Field, tested: frozenset[int], source: FieldSource, rows: Rows) -> Read[Block]:
    values = replace(source, decoders=read.DECODERS)
    if field.id not in tested:
        own = source.columns.get(field.id)
        if own is not None and (own.is_blob or read.is_packed(own)):
            return null_only((yield from read.read_node(field, values, rows, False)), field, tested)
        blocks = yield from gather([_read(child, tested, source, rows) for child in field.children])
        return Structured(rows.count, {f.id: b for f, b in zip(field.children, blocks, strict=True)})
    column = source.column(field)
    read.check_rows(column, rows)
    runs = runs_within(column.row_starts, rows.starts, rows.stops)
    if field.is_list or lists.is_old_string(column, field):
        return null_block((yield from lists.read_null_lists(column, values, runs)))
    if field.is_struct and not column.is_blob and not read.is_packed(column):
        return _valid(rows.count)
    shape = spec_of(field.scanned if column.is_blob else field)
    reads = [group.pages.read(shape, group.runs) for group in groups_of(column, source, runs)]
    return null_block(joined((yield from gather(reads))))


def _valid(count: int) -> Block:
    return null_block(Structured(count, {}))


# -- pages ------------------------------------------------------------------------------


def _no_nulls(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    return _valid(runs.num_rows)
    yield []  # makes this function a generator


def _ended_binary(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    spec = pages.spec
    if not isinstance(spec, EndedBinary):
        misfit(spec, shape)
    if spec.adjustment == 0:
        return AllNull(runs.num_rows)
    ends = yield from read_ends(replace(pages.below("offsets"), decoders=read.DECODERS), runs)
    sizes = capacity(pages.below("values"))[runs.pages]
    spans = spans_of(ends, runs, pages.numbers("adjustment")[runs.pages], sizes, 8, "bytes of strings")
    return null_block(Structured(runs.num_rows, {}, spans.validity, spans.null_count))


def _symbol_coded(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    return pages.below("values").read(shape, runs)


def _page_dictionary(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    # Items may be null, so codes alone do not determine the nulls.
    block = yield from replace(pages, decoders=read.DECODERS).read(shape, runs)
    return null_block(block)


_DECODERS: Mapping[type[object], Decoder] = {
    NullOf: fixed.read_nulls,
    Nullable: fixed.read_nullable,
    **dict.fromkeys(
        (Plain, FixedListOf, Compressed, BitStream, PackedBlocks, PackedRows, FixedBinary), _no_nulls
    ),
    EndedBinary: _ended_binary,
    SymbolCoded: _symbol_coded,
    PageDictionary: _page_dictionary,
}
