"""Read a leaf of a file of version 2.1 or later: splits a selection over pages and joins the pages.

Each physical column is one leaf with everything around it. ``read_leaf`` splits the rows by page, runs the Reads of
all pages in lockstep, so that their requests are sent together, and builds the nested blocks. ``_READERS`` maps
layouts to modules. Source: file sheet 2.1, sections 1.5 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.null_only import has_no_values, says_null_by_value, without_values
from lancecy.encodings.codecs import flat
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Pieces,
    Structured,
    VariableWidth,
)
from lancecy.encodings.model.chunks import row_ranges
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.layouts import BlobPage, ConstantPage, FullZip, Layer, MiniBlock, Planar
from lancecy.encodings.model.pages import Column, Page
from lancecy.encodings.model.spec import DictionaryOf, FixedListOf, Plain, Spec, VarBinary, flat_bits
from lancecy.encodings.v21 import blob, constant, fullzip, miniblock
from lancecy.encodings.v21.joined_pages import JoinedPages, joined_pages, page_groups, read_joined
from lancecy.encodings.v21.miniblock import ChunkRows, can_join, decoded_together
from lancecy.encodings.v21.planar import read as planar
from lancecy.encodings.v21.planar import sparse
from lancecy.encodings.v21.planar.sparse import SparsePage
from lancecy.encodings.v21.repdef import LeafPage, build, rows_per_value
from lancecy.errors import FormatError, LanceError, UnsupportedError, printable
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile, gather

__all__ = ["LeafRows", "finished", "joined_block", "read_leaf", "read_leaves"]

Int64 = NDArray[np.int64]

_READERS: dict[type[object], Callable[..., Read[LeafPage]]] = {
    MiniBlock: miniblock.read,
    FullZip: fullzip.read,
    ConstantPage: constant.read,
    BlobPage: blob.read,
    Planar: planar.read,
}

_MOST_VALUES = 1 << 18
"""Most values of pages that are decoded together: the steps for larger pages take little of their time."""
_PLAIN = (Layer.ALL_VALID_ITEM,)


@dataclass(frozen=True, slots=True, eq=False)
class _Undecoded:
    """Rows of the page of this number."""

    number: int
    rows: ChunkRows


_Found: TypeAlias = Block | _Undecoded


@dataclass(frozen=True, slots=True, eq=False)
class LeafRows:
    """Rows of a physical column of one file.

    Attributes
    ----------
    column : Column
    file : SourceFile
    rows : RowSelection
        Over the rows of the file, ascending, without duplicates.
    """

    column: Column
    file: SourceFile
    rows: RowSelection


def read_leaf(
    chain: tuple[Field, ...],
    column: Column,
    file: SourceFile,
    selection: RowSelection,
    limits: Limits,
    only_nulls: bool = False,
) -> Read[Block]:
    """Decode rows of one physical column; see :func:`read_leaves`."""
    return read_leaves(chain, [LeafRows(column, file, selection)], limits, only_nulls)


def read_leaves(
    chain: tuple[Field, ...], several: Sequence[LeafRows], limits: Limits, only_nulls: bool = False
) -> Read[Block]:
    """Decode rows of the physical columns that one leaf has in several files.

    Small pages of chunks that have programs of one form are decoded together.

    Parameters
    ----------
    chain : tuple of Field
        From the top-level field down to the leaf; a packed struct, a struct without fields and a blob are
        leaves.
    several : sequence of LeafRows
    limits : Limits
    only_nulls : bool
        Leave out the values: the leaf is any block with the same nulls.

    Returns
    -------
    Read of Block
        All these rows of the top-level field, in which all leaves but this one are missing;
        ``Pieces`` if several pages are touched, ``AllNull(0)`` if none is.

    Raises
    ------
    FormatError
        Bytes do not follow the format; the breadcrumb names the page. TruncatedError if some are missing.
    LimitError
        A page exceeds ``limits``.
    UnsupportedError
        A layout or a nesting that is not supported.
    """
    factor = rows_per_value(chain)
    reads: list[Read[_Found]] = []
    for one in several:
        reads.extend(_page_reads(chain, one, factor, limits, only_nulls))
    found = yield from gather(reads)
    blocks = list(_decoded(found, chain, limits)) if len(found) != 1 else [_alone(found[0], chain, limits)]
    if len(blocks) == 1:
        return blocks[0]
    return Pieces(sum(len(one.rows) for one in several), tuple(blocks)) if blocks else AllNull(0)


def _page_reads(
    chain: tuple[Field, ...], one: LeafRows, factor: int, limits: Limits, only_nulls: bool
) -> list[Read[_Found]]:
    """A Read of each page or group of pages with selected rows."""
    column, rows, file = one.column, one.rows, one.file
    if column.num_rows != rows.num_rows * factor:
        raise FormatError(f"a column of {column.num_rows} values in a file of {rows.num_rows} rows")
    groups = page_groups(column, chain, rows) if factor == 1 and not only_nulls else None
    if groups is None:
        return [
            _read_page(chain, column.page(number), mine, file, limits, only_nulls)
            for number, mine in _page_rows(column.row_starts, rows, factor)
        ]
    return [
        read
        for number, mine in _page_rows(column.row_starts[groups], rows)
        for read in _group_reads(chain, column, groups[number : number + 2], mine, file, limits)
    ]


def _decoded(found: Sequence[_Found], chain: tuple[Field, ...], limits: Limits) -> Iterator[Block]:
    """The blocks of pages in order; neighbours that can be joined become one block."""
    at = 0
    while at < len(found):
        first = found[at]
        stop = at + 1
        if not isinstance(first, _Undecoded):
            yield first
        else:
            group, size = [first], first.rows.wanted.num_rows
            while stop < len(found):
                following = found[stop]
                if not isinstance(following, _Undecoded) or not can_join(
                    first.rows, following.rows, chain[-1]
                ):
                    break
                size += following.rows.wanted.num_rows
                if size > _MOST_VALUES:
                    break
                group.append(following)
                stop += 1
            yield from _joined(group, chain, limits)
        at = stop


def _joined(group: Sequence[_Undecoded], chain: tuple[Field, ...], limits: Limits) -> Iterator[Block]:
    if len(group) > 1:
        try:
            together = decoded_together([page.rows for page in group], chain[-1], limits)
            block = finished(together, chain)
        except LanceError:
            pass  # One by one, so that the error names the page.
        else:
            yield block
            return
    for page in group:
        yield _alone(page, chain, limits)


def _alone(page: _Found, chain: tuple[Field, ...], limits: Limits) -> Block:
    if isinstance(page, _Undecoded):
        try:
            return finished(miniblock.decoded(page.rows, chain, limits), chain)
        except LanceError as error:
            raise error.within(f"page {page.number}")
    return page


def _group_reads(
    chain: tuple[Field, ...],
    column: Column,
    group: Int64,
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> list[Read[_Found]]:
    """One Read of all pages of a group, or one of each page with selected rows; ``group`` is its first page and its end."""
    first, last = group.tolist()
    pages = joined_pages(column, first, last, rows, file)
    if pages is not None:
        return [_read_group(chain, pages, rows, file, limits)]
    edges = column.row_starts[first : last + 1]
    return [
        _read_page(chain, column.page(first + number), mine, file, limits, False)
        for number, mine in _page_rows(edges - edges[0], rows)
    ]


def _read_group(
    chain: tuple[Field, ...], pages: JoinedPages, rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[_Found]:
    try:
        return joined_block((yield from read_joined(pages, chain, rows, file, limits)), chain)
    except LanceError:
        pass
    # One by one, so that the error names the page.
    column = pages.column
    found = yield from gather(
        [
            _read_page(chain, column.page(pages.first + number), mine, file, limits, False)
            for number, mine in _page_rows(pages.row_starts, rows)
        ]
    )
    return Pieces(len(rows), tuple(_alone(page, chain, limits) for page in found))


def joined_block(leaves: Sequence[LeafPage], chain: tuple[Field, ...]) -> Block:
    """The column that several pages belong to, one after the other; see :func:`finished`."""
    blocks = [finished(leaf, chain) for leaf in leaves]
    return blocks[0] if len(blocks) == 1 else Pieces(sum(leaf.num_rows for leaf in leaves), tuple(blocks))


def _page_rows(edges: Int64, selection: RowSelection, factor: int = 1) -> list[tuple[int, RowSelection]]:
    """Pages that hold selected rows, each with its part of the selection; ``edges`` are their first values."""
    if factor == 1:
        if edges.size == 2:
            return [(0, selection)] if len(selection) else []
        if selection.indices is not None:
            return _page_indices(edges, selection.indices)
    starts, stops = row_ranges(selection)
    starts, stops = starts * factor, stops * factor
    first = np.searchsorted(stops, edges[:-1], side="right")
    last = np.searchsorted(starts, edges[1:], side="left")
    chosen = []
    for page in np.flatnonzero((edges[1:] > edges[:-1]) & (last > first)).tolist():
        begin, end = int(edges[page]), int(edges[page + 1])
        mine = slice(int(first[page]), int(last[page]))
        within = np.maximum(starts[mine], begin) - begin, np.minimum(stops[mine], end) - begin
        chosen.append((page, RowSelection(end - begin, *within)))
    return chosen


def _page_indices(edges: Int64, indices: Int64) -> list[tuple[int, RowSelection]]:
    bounds = np.searchsorted(indices, edges)
    chosen = []
    for page in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
        begin, end = edges[page : page + 2].tolist()
        mine = indices[bounds[page] : bounds[page + 1]] - begin
        chosen.append((page, RowSelection(end - begin, indices=mine)))
    return chosen


def _read_page(
    chain: tuple[Field, ...],
    page: Page,
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
    only_nulls: bool,
) -> Read[_Found]:
    try:
        if isinstance(page.spec, MiniBlock) and not only_nulls and not has_no_values(chain[-1]):
            return _Undecoded(page.number, (yield from miniblock.choose(page.spec, page, rows, file, limits)))
        if only_nulls and not says_null_by_value(page):
            chain = (*chain[:-1], without_values(chain[-1]))
        reader = _READERS.get(type(page.spec))
        if reader is None:
            raise UnsupportedError(
                f"pages of layout {type(page.spec).__name__}", feature=type(page.spec).__name__
            )
        leaf = yield from reader(page.spec, page, chain, rows, file, limits)
        return build(leaf, chain) if isinstance(page.spec, BlobPage) else finished(leaf, chain)
    except LanceError as error:
        raise error.within(f"page {page.number}")


def finished(leaf: LeafPage, chain: tuple[Field, ...]) -> Block:
    """The column that a leaf belongs to, after checking that values have the layout of their type.

    Raises
    ------
    FormatError
        The values have another layout; or see ``repdef.build``.
    """
    values = _fitted(leaf.values, chain[-1])
    if leaf.layers == _PLAIN and leaf.rep is None and len(chain) == 1 and values.length == leaf.num_rows:
        return values
    if values is not leaf.values:
        leaf = replace(leaf, values=values)
    return sparse.build(leaf, chain) if isinstance(leaf, SparsePage) else build(leaf, chain)


# -- required form of a leaf -----------------------------------------------------------


def _fitted(block: Block, field: Field) -> Block:
    """The block if it has the layout of the field's type; rows of a packed struct are split into fields.

    Raises
    ------
    FormatError
        It has another layout.
    """
    if isinstance(block, AllNull):
        return block
    if not field.is_struct:
        column = spec_of(field)
        if isinstance(block, VariableWidth) and isinstance(column, VarBinary) and _has_no_bytes(block):
            # Pages of 2.3 whose strings are all empty do not state the width of their offsets.
            return replace(
                block, offset_width=column.offset_width, offsets=np.zeros(block.length + 1, np.int64)
            )
        in_form = block.dictionary if field.in_codes and isinstance(block, Coded) else block
        if not _fits(in_form, column):
            raise FormatError(
                f"a page decodes to {_describe(block)}, where the column is {printable(field.logical_type)}"
            )
        return block
    if isinstance(block, FixedWidth):
        return _unpacked(block, field)
    if not isinstance(block, Structured) or set(block.children) != {child.id for child in field.children}:
        raise FormatError(f"a page decodes to {_describe(block)}, where the column is a struct")
    children = {child.id: _fitted(block.children[child.id], child) for child in field.children}
    return replace(block, children=children)


def _has_no_bytes(block: VariableWidth) -> bool:
    return len(memoryview(block.values)) == 0  # type: ignore[arg-type]


def _fits(block: Block, column: Spec) -> bool:
    if isinstance(block, AllNull):
        return True
    if isinstance(column, Plain):
        return isinstance(block, FixedWidth) and block.bits == column.bits
    if isinstance(column, VarBinary):
        return isinstance(block, VariableWidth) and block.offset_width == column.offset_width
    if isinstance(column, FixedListOf):
        return isinstance(block, FixedList) and block.size == column.size and _fits(block.child, column.child)
    if isinstance(column, DictionaryOf):
        return (
            isinstance(block, Coded)
            and block.codes.bits == column.codes.bits
            and _fits(block.dictionary, column.values)
        )
    return False


def _describe(block: Block) -> str:
    if isinstance(block, FixedWidth):
        return f"values of {block.bits} bits"
    if isinstance(block, VariableWidth):
        return f"strings with {block.offset_width * 8}-bit offsets"
    return {FixedList: "fixed-size lists", Coded: "codes of a dictionary"}.get(type(block), "structs")


def _unpacked(rows: FixedWidth, field: Field) -> Structured:
    """The fields of packed rows, each back to back."""
    columns: list[Any] = [spec_of(child) for child in field.children]
    if not all(isinstance(column, Plain | FixedListOf) for column in columns):
        raise FormatError("packed rows of one width hold fields of varying size")
    bits = [flat_bits(column) for column in columns]
    if any(width & 7 for width in bits):
        raise UnsupportedError("packed structs with fields of single bits", feature="packed struct of bits")
    if sum(bits) != rows.bits:
        raise FormatError(f"packed rows of {rows.bits} bits, where the fields take {sum(bits)}")
    widths = [width >> 3 for width in bits]
    table: NDArray[np.uint8] = np.frombuffer(rows.values, np.uint8, rows.length * sum(widths))  # type: ignore[call-overload]
    table = table.reshape(rows.length, sum(widths))
    children: dict[int, Block] = {}
    start = 0
    for child, column, width in zip(field.children, columns, widths, strict=True):
        values = np.ascontiguousarray(table[:, start : start + width]).reshape(-1)
        children[child.id] = flat.nested(column, FixedWidth(rows.length, flat_bits(column), values))
        start += width
    return Structured(rows.length, children)
