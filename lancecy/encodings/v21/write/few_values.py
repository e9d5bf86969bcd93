"""Write pages of one value or of few distinct ones: constant pages, and dictionaries.

Constant pages hold only nulls, or from 2.2 on one value for every slot: the inverse of ``v21.constant``. Their levels
are raw 16-bit numbers, which every version reads; a page without lists in which only the leaf is null needs none. A
dictionary holds the distinct values of a page, which has codes.

Source: file sheet 2.1, sections 3.5, 3.7, 3.9 and 4.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancecy import kernels
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.arrow.from_arrow import block_of
from lancecy.encodings.blocks.memory import mask_of, memory_of
from lancecy.encodings.codecs.general import compress
from lancecy.encodings.model.block import Block, Coded, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import ConstantPage, Layer
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import Compressed, PackedBlocks, Plain, Spec, Variable
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = [
    "FEWEST_BYTES",
    "Distinct",
    "constant_bit",
    "distinct_values",
    "few_distinct",
    "stored_dictionary",
    "write_all_null",
    "write_constant",
]


_INLINE_BYTES = 32


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


def constant_bit(leaf: ShreddedLeaf) -> bytes | None:
    """The value of all booleans that are not null; None if they differ."""
    bits = mask_of(memory_of(leaf.values.values), leaf.values.length)  # type: ignore[union-attr]
    bits = bits if leaf.valid is None else bits[leaf.valid]
    return bits[:1].tobytes() if bits.size and bool((bits == bits[0]).all()) else None


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
FEWEST_BYTES = 2048
"""Values of fewer bytes are not examined for a dictionary."""
_SAMPLE = 4096
_MOST_ITEMS = 100_000
_WORTH = 0.85
"""Largest share of the bytes of the best other encoding that dictionary and codes may take."""


# -- dictionaries -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """What is known of the distinct values of a page.

    Attributes
    ----------
    likely : int
        About how many there are.
    coded : pyarrow.DictionaryArray or None
        The values in codes, if all were looked at.
    """

    likely: int
    coded: pa.DictionaryArray | None = None


def few_distinct(
    block: FixedWidth | VariableWidth, field: Field, found: Distinct, cost: Callable[[int], int], best: int
) -> Coded | None:
    """Values as codes, if that takes clearly less space; else None.

    Parameters
    ----------
    block : FixedWidth or VariableWidth
    field : Field
    found : Distinct
        Of :func:`distinct_values`.
    cost : function
        Bytes of codes and dictionary, of a number of distinct values.
    best : int, bytes
        What the values take in the best other encoding.
    """
    most = int(_WORTH * best)
    if found.likely > _MOST_ITEMS or cost(found.likely) > most:
        return None
    coded = _array(block).dictionary_encode() if found.coded is None else found.coded
    if len(coded.dictionary) > _MOST_ITEMS or cost(len(coded.dictionary)) > most:
        return None
    codes = coded.indices
    stored = np.frombuffer(codes.buffers()[1], np.uint8, 4 * len(codes))
    return Coded(len(codes), FixedWidth(len(codes), 32, stored), block_of(coded.dictionary, field))


def distinct_values(block: FixedWidth | VariableWidth) -> Distinct:
    """How many distinct values there are, estimated from some of them, of all parts of the page.

    Values that are seen once in the sample stand for many that are not seen: as many as the square root of the share
    of the sample. If most of the sample is seen once, it says nothing; all values count as distinct then, as those of a
    small page do.
    """
    length = block.length
    if length < _FEWEST_VALUES or memory_of(block.values).size < FEWEST_BYTES:
        return Distinct(length)
    if length <= _SAMPLE and isinstance(block, FixedWidth) and block.bits == 64:
        return Distinct(_num_distinct(memory_of(block.values)[: length * 8]))
    array = _array(block)
    if length <= _SAMPLE:
        coded = array.dictionary_encode()
        return Distinct(len(coded.dictionary), coded)
    sample = array.take(array_of(np.arange(_SAMPLE) * (length // _SAMPLE)))
    counts = numbers_of(sample.value_counts().field(1))
    once = int(np.count_nonzero(counts == 1))
    if 2 * once > _SAMPLE:
        return Distinct(length)
    return Distinct(int((length / _SAMPLE) ** 0.5 * once) + int(counts.size) - once)


def _num_distinct(memory: Memory) -> int:
    """Number of distinct 64-bit values; a fraction of the work of a dictionary, which few pages get."""
    words = np.require(memory.view("<u8"), requirements="A")
    slots = np.empty(1 << (2 * words.size).bit_length(), np.int64)
    chain, marks = np.empty(words.size, np.int64), np.empty(1, np.uint8)
    return words.size - kernels.index_words(words, slots, chain, marks)


def _array(block: FixedWidth | VariableWidth) -> pa.Array:
    """The values as integers or bytes; nulls are whatever is stored for them, and marked by their levels."""
    if isinstance(block, FixedWidth):
        kind = pa.int64() if block.bits == 64 else pa.binary(block.bits // 8)
        return pa.Array.from_buffers(kind, block.length, [None, pa.py_buffer(block.values)], 0)
    kind = pa.binary() if block.offset_width == 4 else pa.large_binary()
    return pa.Array.from_buffers(
        kind, block.length, [None, pa.py_buffer(block.offsets), pa.py_buffer(block.values)], 0
    )


_LZ4_WORTH = 0.9


def stored_dictionary(items: Block, is_compressed: bool) -> tuple[Spec, int, Memory]:
    """Codec, number of items and bytes of a dictionary.

    Parameters
    ----------
    items : Block
    is_compressed : bool
        Whether the version of the file has compressed dictionaries: from 2.2 on. They are where it saves bytes.

    Raises
    ------
    UnsupportedError
        Items of a type that page dictionaries cannot hold.
    """
    spec, count, memory = _plain_dictionary(items)
    if not is_compressed or not memory.size:
        return spec, count, memory
    packed = compress("lz4", memory)
    shorter = _packed_integers(items) if isinstance(items, FixedWidth) and items.bits == 64 else None
    if shorter is not None and shorter[1].size < len(packed):
        return shorter[0], count, shorter[1]
    if len(packed) < _LZ4_WORTH * memory.size:
        return Compressed("lz4", spec), count, np.frombuffer(packed, np.uint8)
    return spec, count, memory


def _packed_integers(items: FixedWidth) -> tuple[Spec, Memory] | None:
    """More than 1,024 integers packed to the bits of the largest one; None if there are fewer.

    Whether the last, partial block is packed follows from its size.
    """
    words = memory_of(items.values)[: items.length * 8].view("<u8")
    full, rest = divmod(items.length, _BLOCK)
    width = int(words.max()).bit_length()
    if not full or not 0 < width < 64:
        return None
    is_packed = width * (_BLOCK - rest) < (64 - width) * rest
    num_blocks = full + is_packed
    padded = np.zeros(num_blocks * _BLOCK, np.uint64)
    padded[: min(items.length, padded.size)] = words[: padded.size]
    out = np.empty(num_blocks * 128 * width, np.uint8)
    widths = np.full(num_blocks, width, np.int64)
    kernels.pack_blocks(padded.view(np.uint8), 64, widths, out, np.arange(num_blocks) * 128 * width)
    raw = words[full * _BLOCK :].view(np.uint8)
    return PackedBlocks(width, 64, True), out if is_packed else np.concatenate((out, raw))


_BLOCK = 1024


def _plain_dictionary(items: Block) -> tuple[Spec, int, Memory]:
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
