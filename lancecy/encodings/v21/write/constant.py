"""Write constant pages: only nulls, or from 2.2 on one value for every slot.

The inverse of ``v21.constant``. Levels are raw 16-bit numbers, which every version reads; a page
without lists in which only the leaf is null needs none.

Source: file sheet 2.1, section 3.9.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.blocks.select import compacted, stored_offsets
from lancecy.encodings.model.block import Block, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import ConstantPage, Layer
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.store.base import Memory

__all__ = ["constant_of", "write_all_null", "write_constant"]

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
