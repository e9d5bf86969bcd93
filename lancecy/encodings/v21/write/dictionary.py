"""Dictionaries of pages: strings of few distinct values as codes, and the bytes of a dictionary.

Source: file sheet 2.1, sections 3.5, 3.7 and 4.5.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.from_arrow import block_of
from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.model.block import Block, Coded, FixedWidth, VariableWidth
from lancecy.encodings.model.spec import Plain, Spec, Variable
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError
from lancecy.store.base import Memory

__all__ = ["few_distinct", "stored_dictionary"]

_FEWEST_VALUES = 100
_SAMPLE = 4096
_WORTH = 0.8
"""Largest share of the strings' bytes that dictionary and codes may take."""


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
