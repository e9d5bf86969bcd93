"""Columns of 2.0 files: from a field and a selection of rows to a block.

A field has a column of its own, and so has each of its children::

    leaf          pages of values; nulls inside them
    list          pages of running ends; the elements are the rows of the child's column,
                  the pages of both cut independently
    struct        a column of one empty page, and the children's columns; no nulls
    packed        a struct whose column holds whole rows
    blob          like a packed struct: where each blob is and how long
    old strings   a list of bytes: the bytes are the column after this one (0.12, 0.13)

Pages of one form are decoded together (``pages``); a column is returned in pieces if its pages differ or its large
pages need no copy. Source: file sheet 2.0, sections 3 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import AllNull, Block, Coded, Pieces, Structured
from lancecy.encodings.model.chunks import row_ranges
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.layouts import PageSpec
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
    StructHeader,
    SymbolCoded,
    VarBinary,
)
from lancecy.encodings.v20 import binary, dictionary, fixed, lists, packed
from lancecy.encodings.v20.columns import FieldSource, Rows, node_of, read_pages, runs_of_rows
from lancecy.encodings.v20.pages import Decoder, Pages, served
from lancecy.errors import FormatError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Read, SourceFile, gather, named

__all__ = [
    "DECODERS",
    "batch_key",
    "check_nulls",
    "check_rows",
    "decode_small",
    "is_packed",
    "join_key",
    "read_field",
    "read_leaf",
    "read_node",
    "struct_leaves",
    "with_structs",
]

Int64 = NDArray[np.int64]

DECODERS: Mapping[type[object], Decoder] = {
    NullOf: fixed.read_nulls,
    Nullable: fixed.read_nullable,
    Plain: fixed.read_plain,
    FixedListOf: fixed.read_fixed_list,
    Compressed: packed.read_compressed,
    BitStream: packed.read_bit_stream,
    PackedBlocks: packed.read_packed_blocks,
    PackedRows: packed.read_packed_rows,
    EndedBinary: binary.read_ended_binary,
    SymbolCoded: binary.read_symbol_coded,
    FixedBinary: binary.read_fixed_binary,
    PageDictionary: dictionary.read_page_dictionary,
}


def is_packed(column: Column) -> bool:
    """Whether the column of a struct field holds its rows, so that its children have no columns.

    Such a field must be read with all its children.
    """
    return column.num_pages > 0 and isinstance(node_of(column.specs[0]), PackedRows)


def read_field(
    field: Field,
    columns: Mapping[int, Column],
    column_after: Callable[[Column], Column | None],
    file: SourceFile,
    selection: RowSelection,
    limits: Limits = DEFAULT_LIMITS,
) -> Read[Block]:
    """Decode rows of a top-level field.

    Parameters
    ----------
    field : Field
        Pruned to the requested leaves; packed structs with all their children.
    columns : mapping of field id to Column
        Columns of all fields of the tree that have one, structs and lists included.
    column_after : function of a Column
        Returns the column with the next index, None if there is none; called only for strings of old files.
    file : SourceFile
    selection : RowSelection
        Ascending, without duplicates.
    limits : Limits

    Returns
    -------
    Read of Block
        One row per selected row; a blob column gives the values of ``Field.scanned``. A whole column
        takes one round of ranges, a part of it one, and one more for strings and each list around them.

    Raises
    ------
    FormatError
        The pages do not fit the type or each other, or their bytes contradict them.
    LimitError
        More values than 32-bit offsets or ``limits`` admit.
    UnsupportedError
        A type that 2.0 files cannot hold.
    """
    starts, stops = row_ranges(selection)
    source = FieldSource(columns, column_after, file, limits, DECODERS, read_node)
    return read_node(field, source, Rows(starts, stops), True)


def struct_leaves(field: Field, columns: Mapping[int, Column]) -> list[Field]:
    """The fields below structs, each of which is read by itself; only the field, unless it is a struct.

    Parameters
    ----------
    field : Field
        Top-level field, or one below it.
    columns : mapping of field id to Column
    """
    column = columns.get(field.id)
    if column is None or not _has_header(field, column):
        return [field]
    return [leaf for child in field.children for leaf in struct_leaves(child, columns)]


def _has_header(field: Field, column: Column) -> bool:
    is_one = column.num_pages == 1 and isinstance(column.specs[0], StructHeader)
    return field.is_struct and not column.is_blob and is_one and bool(field.children)


def with_structs(
    field: Field, columns: Mapping[int, Column], leaves: Iterator[Block], num_rows: int
) -> Block:
    """The field, from the blocks of its :func:`struct_leaves` in order."""
    column = columns.get(field.id)
    if column is None or not _has_header(field, column):
        return next(leaves)
    children = {child.id: with_structs(child, columns, leaves, num_rows) for child in field.children}
    return Structured(num_rows, children)


def batch_key(field: Field, spec: PageSpec, num_buffers: int) -> Hashable | None:
    """Key of pages of leaves that are decoded together, in columns of one page or in joined columns; None for others.

    Parameters
    ----------
    field : Field
        The field of the page's column, which has no blobs.
    spec : PageSpec
    num_buffers : int
        Of the page.
    """
    if field.children or field.is_struct:
        return None
    form = _form(cast(Spec, spec))
    # Pages may have buffers that no node refers to.
    return None if form is None else (form, spec_of(field), num_buffers)


def join_key(field: Field, spec: PageSpec, num_buffers: int) -> Hashable | None:
    """:func:`batch_key`, and a key of pages of strings with dictionaries, of which few rows are read together as pages of one column."""
    node = node_of(spec)
    if not isinstance(node, PageDictionary):
        return batch_key(field, spec, num_buffers)
    codes, items = _form(node.codes), _form(node.items)
    shape = spec_of(field)
    if field.in_codes or not isinstance(shape, VarBinary) or codes is None or items is None:
        return None  # Codes of one dictionary would name the items of others.
    return codes, items, shape, num_buffers


def _form(spec: Spec) -> Spec | None:
    """The node without numbers that differ from page to page; None if they do not suffice to decode several pages."""
    if isinstance(spec, Plain | BitStream | PackedBlocks | FixedBinary | Compressed):
        return spec
    if isinstance(spec, EndedBinary):
        offsets, values = _form(spec.offsets), _form(spec.values)
        if offsets is None or values is None:
            return None
        return EndedBinary(offsets, values, min(spec.adjustment, 1))
    if isinstance(spec, FixedListOf):
        child = _form(spec.child)
        return None if child is None else replace(spec, child=child)
    if isinstance(spec, Nullable | SymbolCoded):
        values = _form(spec.values)
        return None if values is None else replace(spec, values=values)
    return None


def decode_small(
    specs: Sequence[PageSpec],
    field: Field,
    counts: Int64,
    memory: Memory,
    positions: Int64,
    sizes: Int64,
    runs: PageRuns,
    file: SourceFile,
    limits: Limits,
) -> Block:
    """Decode rows of pages of several columns of one :func:`batch_key`, as one block.

    Parameters
    ----------
    specs : sequence of PageSpec
        Of each page.
    field : Field
        One of the fields.
    counts : (num_pages,) int64
        Rows of each page.
    memory : (nbytes,) uint8
        With all buffers.
    positions, sizes : (num_pages * num_buffers,) int64, bytes
        Buffers of each page in ``memory``.
    runs : PageRuns
    file : SourceFile
        One of the files.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        As :func:`read_field`, but the message names no page.
    """
    nodes = tuple(cast(Spec, spec) for spec in specs)
    own = nodes[:1] if all(node is nodes[0] for node in nodes) else nodes
    first = np.arange(len(nodes)) * (positions.size // len(nodes))
    pages = Pages(own, counts, first, positions, sizes, file, limits, DECODERS)
    return served(pages.read(spec_of(field), runs), memory)


def check_nulls(field: Field, block: Block) -> None:
    """Raise FormatError if a column that is not nullable has nulls.

    Raises
    ------
    FormatError
        The column has nulls.
    """
    if not field.nullable and field.logical_type != "null":
        _refuse_nulls(block)


def read_node(field: Field, source: FieldSource, rows: Rows, in_pieces: bool) -> Read[Block]:
    """Decode rows of a field at any depth; ``in_pieces`` allows a ``Pieces`` block."""
    if rows.starts.size == 0:
        return AllNull(0)
    column = source.column(field)
    check_rows(column, rows)
    block: Block
    if column.is_blob:
        block = yield from _read_leaf(field.scanned, column, source, rows, in_pieces)
    elif field.is_list:
        block = yield from lists.read_list(field, column, source, rows)
    elif field.is_struct and not is_packed(column):
        block = yield from _read_struct(field, column, source, rows)
    elif lists.is_old_string(column, field):
        block = yield from lists.read_old_strings(field, column, source, rows)
    else:
        block = yield from _read_leaf(field, column, source, rows, in_pieces)
    check_nulls(field, block)
    return block


def check_rows(column: Column, rows: Rows) -> None:
    """Raise FormatError if a column has fewer rows than selected.

    Raises
    ------
    FormatError
        The column has fewer rows.
    """
    if int(rows.stops[-1]) > column.num_rows:
        raise FormatError(
            f"column {column.index} has {column.num_rows} rows, where {int(rows.stops[-1])} are needed"
        )


def read_leaf(
    field: Field, column: Column, file: SourceFile, selection: RowSelection, limits: Limits
) -> Read[Block]:
    """Decode rows of a top-level field that has one column and no blobs; see :func:`read_field`.

    The caller checks whether there may be nulls (:func:`check_nulls`).
    """
    source = FieldSource({field.id: column}, _none_after, file, limits, DECODERS, read_node)
    rows = Rows(*row_ranges(selection))
    check_rows(column, rows)
    return _read_leaf(field, column, source, rows, False)


def _none_after(_: Column) -> None:
    """Leaves do not continue in another column."""


def _read_leaf(field: Field, column: Column, source: FieldSource, rows: Rows, in_pieces: bool) -> Read[Block]:
    return read_pages(column, spec_of(field), source, runs_of_rows(column, rows), in_pieces)


def _refuse_nulls(block: Block) -> None:
    if isinstance(block, Pieces):
        for piece in block.blocks:
            _refuse_nulls(piece)
    elif isinstance(block, Coded):
        _refuse_nulls(block.codes)
    elif (isinstance(block, AllNull) and block.length) or getattr(block, "null_count", 0):
        raise FormatError("nulls in a column that is not nullable")


def _read_struct(field: Field, column: Column, source: FieldSource, rows: Rows) -> Read[Block]:
    if column.num_pages != 1 or not isinstance(column.specs[0], StructHeader):
        kinds = sorted({type(spec).__name__ for spec in column.specs})
        raise FormatError(f"a struct has {column.num_pages} pages of {', '.join(kinds)}, not one empty page")
    reads = [named(source.below(child, rows), f"field {child.id} {child.name!r}") for child in field.children]
    blocks = yield from gather(reads)
    ids = [child.id for child in field.children]
    return Structured(rows.count, dict(zip(ids, blocks, strict=True)))
