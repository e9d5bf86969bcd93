"""Write pages of one value or of few distinct ones: constant pages, and dictionaries.

Constant pages hold only nulls, or from 2.2 on one value for every slot: the inverse of ``v21.constant``. Their levels
are raw 16-bit numbers, which every version reads; a page without lists in which only the leaf is null needs none. A
dictionary holds strings of few distinct values; the page has codes.

Source: file sheet 2.1, sections 3.5, 3.7, 3.9 and 4.5.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.from_arrow import block_of
from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.blocks.select import compacted, stored_offsets
from lancecy.encodings.model.block import Block, Coded, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import ConstantPage, Layer
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import Plain, Spec, Variable
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError
from lancecy.store.base import Memory

__all__ = ["constant_of", "few_distinct", "stored_dictionary", "write_all_null", "write_constant"]


_INLINE_BYTES = 32
_FEW = 64


def write_all_null(leaf: ShreddedLeaf) -> EncodedPage:
    """A page of nulls only."""
    layers, buffers = leaf.layers, _levels(leaf)
    if leaf.rep is None and len(layers) == 1:
        # Types without values are stored as nulls, even if they are not null.
        layers, buffers = (Layer.NULLABLE_ITEM,), ()
    return EncodedPage(ConstantPage(layers, None, None, None, 0, 0), buffers, leaf.num_rows)


def _levels(leaf: ShreddedLeaf) -> tuple[Memory, ...]:
    return tuple(
        np.empty(0, np.uint8) if levels is None else levels.view(np.uint8)
        for levels in (leaf.rep, leaf.definition)
    )


def constant_of(leaf: ShreddedLeaf) -> bytes | None:
    """The value of all slots that are not null; None if values differ or have no fitting type.

    Looks at a few values first, as most columns are not constant.
    """
    block, valid = leaf.values, leaf.valid
    if isinstance(block, FixedWidth):
        return _constant_number(block, valid)
    return _constant_text(block, valid) if isinstance(block, VariableWidth) else None


def _constant_number(block: FixedWidth, valid: NDArray[np.bool_] | None) -> bytes | None:
    if block.bits == 1:
        bits = np.unpackbits(memory_of(block.values), count=block.length, bitorder="little")
        bits = bits if valid is None else bits[valid]
        return bits[:1].tobytes() if bool((bits == bits[0]).all()) else None
    width = block.bits // 8
    rows = memory_of(block.values)[: block.length * width].reshape(-1, width)
    for few in _samples(block.length):
        shown = (rows[:few] if valid is None else rows[:few][valid[:few]]).reshape(-1)
        if not bool((shown[width:] == shown[:-width]).all()):
            return None
    value: bytes = shown[:width].tobytes()
    return value


def _samples(count: int) -> tuple[int, ...]:
    """Numbers of values to compare: a few first, then all."""
    return (_FEW, count) if count > _FEW else (count,)


def _constant_text(block: VariableWidth, valid: NDArray[np.bool_] | None) -> bytes | None:
    offsets = stored_offsets(block)
    starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
    if valid is not None:
        # Strings below a null struct are not values.
        starts, lengths = starts[valid], lengths[valid]
    size, memory = int(lengths[0]), memory_of(block.values)
    if not bool((lengths == size).all()):
        return None
    for few in _samples(lengths.size):
        _, values = compacted(starts[:few], lengths[:few], memory)
        rows = values.reshape(-1, size) if size else values[:0].reshape(1, 0)
        if not bool((rows == rows[0]).all()):
            return None
    value: bytes = memory[int(starts[0]) : int(starts[0]) + size].tobytes()
    return value


def write_constant(leaf: ShreddedLeaf, value: bytes) -> EncodedPage:
    """A page in which all slots that are not null have one value. From 2.2 on."""
    levels = _levels(leaf) if leaf.rep is not None or leaf.definition is not None else ()
    if isinstance(leaf.values, FixedWidth) and len(value) <= _INLINE_BYTES:
        return EncodedPage(ConstantPage(leaf.layers, value, None, None, 0, 0), levels, leaf.num_rows)
    stored = np.frombuffer(_stored(leaf.values, value), np.uint8)
    return EncodedPage(ConstantPage(leaf.layers, None, None, None, 0, 0), (stored, *levels), leaf.num_rows)


def _stored(block: Block, value: bytes) -> bytes:
    """A value in a buffer: number and sizes of the buffers of an Arrow array of one value, and the buffers."""
    if not isinstance(block, VariableWidth):
        return struct.pack("<II", 1, len(value)) + value
    width = block.offset_width
    offsets = np.array([0, len(value)], f"<i{width}").tobytes()
    return struct.pack("<III", 2, len(offsets), len(value)) + offsets + value


_FEWEST_VALUES = 100
_SAMPLE = 4096
_WORTH = 0.8
"""Largest share of the strings' bytes that dictionary and codes may take."""


# -- dictionaries -----------------------------------------------------------------------------


def few_distinct(leaf: ShreddedLeaf) -> Coded | None:
    """Strings as codes, if that takes clearly less space; else None."""
    block = leaf.values
    if not isinstance(block, VariableWidth) or block.length < _FEWEST_VALUES:
        return None
    array = _array(block)
    # A sample of the rows decides whether all of them are worth examining.
    sample = array.slice(0, _SAMPLE)
    if len(sample.unique()) > len(sample) // 4:
        return None
    coded = array.dictionary_encode()
    plain = block.length * block.offset_width + memory_of(block.values).size
    items = len(coded.dictionary) * block.offset_width + coded.dictionary.nbytes
    if 4 * block.length + items > _WORTH * plain:
        return None
    codes = coded.indices
    stored = np.frombuffer(codes.buffers()[1], np.uint8, 4 * len(codes))
    return Coded(len(codes), FixedWidth(len(codes), 32, stored), block_of(coded.dictionary, leaf.field))


def _array(block: VariableWidth) -> pa.Array:
    """The strings as bytes; nulls are empty, and marked by their levels."""
    kind = pa.binary() if block.offset_width == 4 else pa.large_binary()
    return pa.Array.from_buffers(
        kind, block.length, [None, pa.py_buffer(block.offsets), pa.py_buffer(block.values)], 0
    )


def stored_dictionary(items: Block) -> tuple[Spec, int, Memory]:
    """Codec, number of items and bytes of a dictionary.

    Raises
    ------
    UnsupportedError
        Items of a type that page dictionaries cannot hold.
    """
    if isinstance(items, FixedWidth):
        nbytes = (items.length * items.bits + 7) // 8
        return Plain(items.bits), items.length, memory_of(items.values)[:nbytes]
    if not isinstance(items, VariableWidth):
        raise UnsupportedError(
            "dictionaries of values of this type cannot be written: write the values themselves",
            feature="dictionary values",
        )
    width = items.offset_width
    head = struct.pack("<II" if width == 4 else "<QQ", width * 8, (items.length + 3) * width)
    parts = (np.frombuffer(head, np.uint8), memory_of(items.offsets), memory_of(items.values))
    return Variable(width), items.length, np.concatenate(parts)
