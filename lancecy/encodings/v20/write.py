"""Write pages of 2.0: one page for every node of a column, from nested blocks.

The inverse of ``read``. Every node has a column: structs have a header, written once for the whole file; lists have
their running ends, leaves their values. Strings and lists mark nulls in their running ends; other types have a
bitmap, stored before the values of its page.

Source: file sheet 2.0, sections 3, 4 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.memory import mask_of, memory_of
from lancecy.encodings.blocks.select import offsets_of
from lancecy.encodings.codecs.blobs import null_positions
from lancecy.encodings.codecs.packed import check_members, fixed_members, packed_rows
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Listed,
    Structured,
    VariableWidth,
)
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import (
    EndedBinary,
    EndedList,
    FixedListOf,
    Nullable,
    NullOf,
    PackedRows,
    PageDictionary,
    Plain,
    Spec,
    StructHeader,
)
from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["header_page", "v20_pages"]


def header_page(num_rows: int) -> EncodedPage:
    """The only page of a struct's column."""
    return EncodedPage(StructHeader(), (), num_rows)


def v20_pages(field: Field, block: Block) -> Iterator[tuple[Field, EncodedPage | int]]:
    """Each node with its page, depth first; structs with their number of rows, because their page is written last.

    Raises
    ------
    SchemaError
        A null where the field allows none.
    UnsupportedError
        A struct that is null.
    """
    if isinstance(block, Structured) and field.is_blob:
        _check_nulls(field, block.null_count)
        yield field, _packed(field, null_positions(block))
    elif isinstance(block, Structured):
        if block.null_count:
            raise UnsupportedError(
                f"column {printable(field.name)!r} has structs that are null, which files of version 2.0 cannot "
                "hold: write version 2.1",
                feature="null structs",
            )
        if field.is_packed:
            check_members(field, block, None)
            yield field, _packed(field, block)
            return
        yield field, block.length
        for child in field.children:
            yield from v20_pages(child, block.children[child.id])
    elif isinstance(block, Listed):
        yield field, _lists(field, block)
        (child,) = field.children
        yield from v20_pages(child, block.child)
    else:
        yield field, _values(field, block)


class _Buffers:
    """The buffers of a page, numbered in order of arrival."""

    def __init__(self) -> None:
        self.found: list[Memory] = []

    def add(self, memory: Memory, bits: int) -> Plain:
        self.found.append(memory)
        return Plain(bits, buffer=len(self.found) - 1)


def _values(field: Field, block: Block) -> EncodedPage:
    buffers = _Buffers()
    spec = _node(field, block, buffers)
    return EncodedPage(spec, tuple(buffers.found), block.length)


def _check_nulls(field: Field, count: int) -> None:
    if count and not field.nullable and field.logical_type != "null":
        raise SchemaError(
            f"column {printable(field.name)!r} has nulls, which its field does not allow", difference="nulls"
        )


def _node(field: Field, block: Block, buffers: _Buffers) -> Spec:
    if isinstance(block, AllNull):
        return NullOf()
    if isinstance(block, Coded):
        _check_nulls(field, block.codes.null_count)
        return _coded(field, block, buffers)
    if isinstance(block, VariableWidth):
        _check_nulls(field, block.null_count)
        return _strings(block, buffers)
    if not isinstance(block, FixedWidth | FixedList):
        raise TypeError(f"a {type(block).__name__} block has no page")
    _check_nulls(field, block.null_count)
    return _fixed(block, buffers)


def _fixed(block: FixedWidth | FixedList, buffers: _Buffers) -> Spec:
    """Values of one width, nulls beside them."""
    if block.null_count == block.length and block.length:
        return NullOf()
    validity = None
    if block.validity is not None:
        validity = buffers.add(memory_of(block.validity)[: (block.length + 7) // 8], 1)
    if isinstance(block, FixedList):
        if not isinstance(block.child, FixedWidth | FixedList):
            raise TypeError(f"a {type(block.child).__name__} block in a fixed-size list")
        return Nullable(FixedListOf(block.size, _fixed(block.child, buffers)), validity)
    nbytes = (block.length * block.bits + 7) // 8
    return Nullable(buffers.add(memory_of(block.values)[:nbytes], block.bits), validity)


def _ends(offsets: NDArray[np.int64], validity: object, length: int, adjustment: int) -> Memory:
    """Running ends; ends of nulls are beyond all others."""
    ends = offsets[1:].astype(np.uint64)
    if validity is not None:
        ends[~mask_of(validity, length)] += np.uint64(adjustment)
    return ends.view(np.uint8)


def _strings(block: VariableWidth, buffers: _Buffers) -> Spec:
    offsets = offsets_of(block)
    adjustment = int(offsets[-1]) + 1
    ends = buffers.add(_ends(offsets, block.validity, block.length, adjustment), 64)
    values = buffers.add(memory_of(block.values)[: adjustment - 1], 8)
    # Releases before 0.16 read the bytes only if they are marked as having no nulls.
    return EndedBinary(Nullable(ends), Nullable(values), adjustment)


def _lists(field: Field, block: Listed) -> EncodedPage:
    _check_nulls(field, block.null_count)
    offsets = offsets_of(block)
    num_items = int(offsets[-1])
    buffers = _Buffers()
    ends = buffers.add(_ends(offsets, block.validity, block.length, num_items + 1), 64)
    return EncodedPage(
        EndedList(Nullable(ends), num_items + 1, num_items), tuple(buffers.found), block.length
    )


def _packed(field: Field, block: Structured) -> EncodedPage:
    """Rows of structs; each member has the description it would have in a page of its own."""
    packed, members = packed_rows(block), fixed_members(block)
    if packed is None or members is None:
        raise TypeError(f"packed struct {printable(field.name)!r} has members that vary")
    bits, rows = packed
    children = tuple(_member(spec) for spec, _, _ in members)
    return EncodedPage(PackedRows(bits, children, Plain(rows.bits)), (memory_of(rows.values),), block.length)


def _member(spec: Spec) -> Spec:
    return Nullable(FixedListOf(spec.size, _member(spec.child)) if isinstance(spec, FixedListOf) else spec)


def _coded(field: Field, block: Coded, buffers: _Buffers) -> Spec:
    """Codes of an Arrow dictionary; nulls have the code of a null item appended to the others."""
    codes, items = block.codes, block.dictionary
    if codes.null_count == codes.length:
        return NullOf()
    if not isinstance(items, VariableWidth | FixedWidth):
        raise UnsupportedError(
            "dictionaries of values of this type cannot be written: write the values themselves",
            feature="dictionary values",
        )
    stored = np.frombuffer(codes.values, f"<u{codes.bits // 8}", codes.length)  # type: ignore[call-overload]
    if codes.validity is not None:
        _check_room(field, items.length, codes.bits)
        stored = np.where(mask_of(codes.validity, codes.length), stored, items.length).astype(stored.dtype)
        items = _with_null(items)
    node = buffers.add(stored.view(np.uint8), codes.bits)
    inner = _strings(items, buffers) if isinstance(items, VariableWidth) else _fixed(items, buffers)
    return PageDictionary(Nullable(node), inner, items.length)


def _check_room(field: Field, code: int, bits: int) -> None:
    """Raise an error if the codes cannot count one more item."""
    is_signed = not field.logical_type.split(":")[-2].startswith("u")
    if code >= 1 << (bits - is_signed):
        raise UnsupportedError(
            f"column {printable(field.name)!r}: codes of {bits} bits cannot number {code} values and a null, as "
            "version 2.0 needs: write version 2.1",
            feature="narrow dictionary codes",
        )


def _with_null(items: VariableWidth | FixedWidth) -> VariableWidth | FixedWidth:
    """The items with a null appended."""
    length = items.length + 1
    bits = np.packbits(np.arange(length) < items.length, bitorder="little")
    if isinstance(items, VariableWidth):
        offsets = offsets_of(items)
        return VariableWidth(length, 8, np.append(offsets, offsets[-1]), items.values, bits, 1)
    if items.bits % 8 == 0:
        values = np.concatenate(
            (memory_of(items.values)[: items.length * items.bits // 8], np.zeros(items.bits // 8, np.uint8))
        )
        return FixedWidth(length, items.bits, values, bits, 1)
    flags = np.append(mask_of(items.values, items.length), False)
    return FixedWidth(length, 1, np.packbits(flags, bitorder="little"), bits, 1)
