"""Sizes of decoded values, as far as the metadata of pages tell them.

A page of one value for all rows, or of a dictionary of long texts, takes a thousand times its stored bytes once it
is decoded. Plans of scans count what a reader will hold in memory.

Counts that no read checks are bounded by the bytes that pages have: otherwise a number in a damaged file, or in one of
another writer, would make rows look so large that they are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from lancecy.encodings.model.layouts import ConstantPage, FullZip, MiniBlock, PageSpec, Planar
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import (
    BitStream,
    ByteSplit,
    Compressed,
    EndedBinary,
    FixedListOf,
    InlinePacked,
    Nullable,
    PackedBlocks,
    PageDictionary,
    Plain,
    RunLengths,
    Spec,
)

__all__ = ["decoded_bytes"]

# Compressed dictionaries and single values are small: what they grow to is a guess.
_GROWTH = 4
# Writers compress values one by one if they are long, and end a page at this size. A page of few values holds less.
_PAGE_BYTES = 8 << 20
_LONG_VALUE = 64 << 10
# Most items of a chunk, and bytes of its word in the table of chunks, at least.
_CHUNK_ITEMS, _WORD_BYTES = 1 << 16, 2
# A compressed buffer has at most these bytes by default (``Limits.page_bytes``).
_BUFFER_BYTES = 2 << 30


def decoded_bytes(column: Column) -> int:
    """Bytes that the values of a column take once all are decoded; pages that do not tell count as stored.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.encodings.model.layouts import ConstantPage, Layer
    >>> page = ConstantPage((Layer.ALL_VALID_ITEM,), b"x" * 100, None, None, 0, 0)
    >>> none = np.empty(0, np.int64)
    >>> decoded_bytes(Column(0, False, np.array([0, 50]), (page,), np.array([0, 0]), none, none, 0))
    5000
    """
    starts, first = column.row_starts.tolist(), column.first_buffer.tolist()
    sizes: list[int] = []
    grown = 0
    for number, spec in enumerate(column.specs):
        measure = _MEASURES.get(type(spec))
        if measure is None:
            continue
        sizes = sizes or column.sizes.tolist()
        mine = sizes[first[number] : first[number + 1]]
        grown += max(0, measure(spec, starts[number + 1] - starts[number], mine) - sum(mine))
    return column.nbytes + grown


def _of_constant(spec: ConstantPage, num_rows: int, sizes: list[int]) -> int:
    levels = sizes[1:] if spec.value is None and len(sizes) % 2 else sizes
    width = len(spec.value) if spec.value is not None else sizes[0] if len(sizes) % 2 else 0
    stated = (spec.rep, spec.num_rep), (spec.definition, spec.num_definition)
    counts = [_num_levels(*each, nbytes) for each, nbytes in zip(stated, levels, strict=False)]
    return width * max(num_rows, *counts) if counts else width * num_rows


def _num_levels(codec: Spec | None, stated: int, nbytes: int) -> int:
    """Levels in a buffer, 16-bit numbers, one for each slot of lists; how many they are is stated only with a codec."""
    return nbytes // 2 if codec is None else min(stated, _BUFFER_BYTES // 2)


def _of_mini_blocks(spec: MiniBlock, _num_rows: int, sizes: list[int]) -> int:
    num_items = min(spec.num_items, sizes[0] // _WORD_BYTES * _CHUNK_ITEMS)
    if spec.dictionary is None:
        return num_items * _value_bits(spec.values) // 8
    growth = _GROWTH if isinstance(spec.dictionary, Compressed) else 1
    dictionary = sizes[2] if len(sizes) > 2 else 0
    return num_items * growth * dictionary // max(1, spec.num_dictionary_items)


def _of_zipped(spec: FullZip, _num_rows: int, sizes: list[int]) -> int:
    if isinstance(spec.values, Compressed) and not spec.value_bits:
        # A value has at least the bytes of its length.
        return min(_PAGE_BYTES, min(spec.num_visible, sizes[0]) * _LONG_VALUE)
    return 0


def _of_planar(spec: Planar, num_rows: int, sizes: list[int]) -> int:
    measure = _MEASURES.get(type(spec.values))
    return 0 if measure is None else measure(spec.values, num_rows, sizes)


def _of_dictionary(spec: PageDictionary, num_rows: int, sizes: list[int]) -> int:
    # Codes take a byte each; what else is stored are the items.
    items = _of_binary(spec.items, 0, sizes) if isinstance(spec.items, EndedBinary) else 0
    return num_rows * max(items, sum(sizes) - num_rows) // max(1, spec.num_items)


def _of_binary(spec: EndedBinary, num_rows: int, sizes: list[int]) -> int:
    # The adjustment of nulls is more than any offset: the writers that are known take one more than the last.
    values = spec.values.values if isinstance(spec.values, Nullable) else spec.values
    most = sum(sizes) if isinstance(values, Plain) else _BUFFER_BYTES
    return min(spec.adjustment, most) + 4 * num_rows


def _of_values(spec: Spec, num_rows: int, _sizes: list[int]) -> int:
    return num_rows * _value_bits(spec) // 8


def _value_bits(spec: Spec) -> int:
    """Bits of a decoded value; 0 if values vary."""
    if isinstance(spec, (Compressed, Nullable, RunLengths)):
        return _value_bits(spec.values)
    if isinstance(spec, FixedListOf):
        return spec.size * _value_bits(spec.child)
    return spec.bits if isinstance(spec, (Plain, BitStream, PackedBlocks, InlinePacked, ByteSplit)) else 0


_MEASURES: dict[type[PageSpec | None], Callable[..., int]] = {
    ConstantPage: _of_constant,
    MiniBlock: _of_mini_blocks,
    FullZip: _of_zipped,
    Planar: _of_planar,
    PageDictionary: _of_dictionary,
    EndedBinary: _of_binary,
    Nullable: _of_values,
    Compressed: _of_values,
    BitStream: _of_values,
    PackedBlocks: _of_values,
}
