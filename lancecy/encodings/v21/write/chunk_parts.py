"""Values and levels of a mini-block page, cut into chunks at given slots.

A part is one buffer of every chunk, as spans of some memory; nothing is copied before the chunks are assembled.
``ChunkedValues`` has the cuts of its values, the best number of slots per chunk, and its part of the page's spec.

Source: file sheet 2.1, sections 3.1 to 3.7 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.flat import flattened
from lancecy.encodings.model.block import Block, FixedWidth, VariableWidth
from lancecy.encodings.model.chunks import chunk_bounds
from lancecy.encodings.model.spec import InlinePacked, PackedBlocks, Plain, Spec, Variable
from lancecy.store.base import Memory

__all__ = ["ChunkPart", "ChunkedValues", "fixed_values", "level_part", "packed_values", "string_values"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

MOST_SLOTS = 4096
"""Most values of a chunk."""
_MOST_BYTES = 8186
"""Most bytes of raw values in a chunk, so that its size with all other parts stays far from 32 KiB."""
_BLOCK = 1024
_STRING_TARGET = 6 << 10
_STRING_MOST = 16 << 10
_FEW_LEVELS = 256
_WORTH_PACKING = 0.85


@dataclass(frozen=True, slots=True, eq=False)
class ChunkPart:
    """One buffer of every chunk, put together from spans.

    Attributes
    ----------
    segments : tuple of (memory, starts, lengths)
        For each segment (nbytes,) uint8 and two (num_chunks,) int64: a chunk's buffer is its spans, back to back.
    lengths : (num_chunks,) int64, bytes
        Lengths of the buffers; a buffer longer than its segments ends with zeros.
    """

    segments: tuple[tuple[Memory, Int64, Int64], ...]
    lengths: Int64


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedValues:
    """Values that are ready to be cut into chunks.

    Attributes
    ----------
    spec : Spec
    num_buffers : int
    slots : int, a power of two from 2 on
        Slots of every chunk but the last.
    cut : function
        Takes (num_chunks + 1,) int64 slot numbers, and returns the parts.
    """

    spec: Spec
    num_buffers: int
    slots: int
    cut: Callable[[Int64], list[ChunkPart]]


# -- values of one width ----------------------------------------------------------------


def fixed_values(block: Block) -> ChunkedValues | None:
    """Plain values of one width; None if they are too wide for chunks."""
    spec, buffers = flattened(block)
    bits = max(1, sum(bits for _, bits in buffers))
    slots = MOST_SLOTS
    while slots > 1 and slots * bits > _MOST_BYTES * 8:
        slots >>= 1
    if slots < 2 or any(slots * bits % 8 for _, bits in buffers):
        return None

    def cut(bounds: Int64) -> list[ChunkPart]:
        return [_bits_part(memory, bounds, bits) for memory, bits in buffers]

    return ChunkedValues(spec, len(buffers), slots, cut)


def _bits_part(memory: Memory, bounds: Int64, bits: int) -> ChunkPart:
    """Slots of ``bits`` bits; each chunk begins at a byte."""
    edges = bounds * bits
    starts = edges[:-1] >> 3
    lengths = (edges[1:] + 7 >> 3) - starts
    return ChunkPart(((memory, starts, lengths),), lengths)


def packed_values(block: FixedWidth) -> ChunkedValues | None:
    """Integers packed in blocks of 1,024, each block at its own width; None if that saves little."""
    if block.bits not in (8, 16, 32, 64) or block.length < _FEW_LEVELS:
        return None
    words = memory_of(block.values)[: block.length * block.bits // 8].view(f"<u{block.bits // 8}")
    widths = _widths(words)
    lengths = widths * 128 + block.bits // 8
    if int(lengths.sum()) > _WORTH_PACKING * words.nbytes:
        return None

    def cut(_bounds: Int64) -> list[ChunkPart]:
        starts = np.cumsum(lengths) - lengths
        out = np.empty(int(lengths.sum()), np.uint8)
        _put_words(out, starts, widths, block.bits // 8)
        kernels.pack_blocks(_whole_blocks(words), block.bits, widths, out, starts + block.bits // 8)
        return [ChunkPart(((out, starts, lengths),), lengths)]

    return ChunkedValues(InlinePacked(block.bits), 1, _BLOCK, cut)


def _widths(words: NDArray[Any]) -> Int64:
    """Bits that the largest value of each 1,024 needs."""
    largest = np.maximum.reduceat(words, np.arange(0, words.size, _BLOCK))
    return np.array([int(value).bit_length() for value in largest.tolist()], np.int64)


def _whole_blocks(words: NDArray[Any]) -> Memory:
    missing = -words.size % _BLOCK
    if missing:
        words = np.concatenate((words, np.zeros(missing, words.dtype)))
    return words.view(np.uint8)


def _put_words(out: Memory, positions: Int64, values: Int64, width: int) -> None:
    """Write little-endian numbers at these positions."""
    for byte in range(width):
        out[positions + byte] = values >> (8 * byte) & 0xFF


# -- strings ----------------------------------------------------------------------------


def string_values(block: VariableWidth) -> ChunkedValues | None:
    """Offsets and strings; None if two strings may be too long for a chunk."""
    offsets = stored_offsets(block)
    slots = _string_slots(offsets, block.offset_width)
    if slots < 2:
        return None

    def cut(bounds: Int64) -> list[ChunkPart]:
        return [_strings(offsets, memory_of(block.values), bounds, block.offset_width)]

    return ChunkedValues(Variable(block.offset_width), 1, slots, cut)


def _string_slots(offsets: NDArray[Any], width: int) -> int:
    """Strings in a chunk: about 6 KiB, and nowhere more than 16 KiB."""
    num_values = offsets.size - 1
    nbytes = int(offsets[-1]) - int(offsets[0])
    average = nbytes / max(1, num_values) + width
    slots = MOST_SLOTS
    while slots > 1:
        if slots * average <= _STRING_TARGET or slots == 2:
            most = _STRING_MOST - (slots + 1) * width
            if nbytes <= most or _longest_chunk(offsets, slots) <= most:
                return slots
        slots >>= 1
    return slots


def _longest_chunk(offsets: NDArray[Any], slots: int) -> int:
    ends = offsets[chunk_bounds(offsets.size - 1, slots)]
    return int((ends[1:] - ends[:-1]).max(initial=0))


def _strings(offsets: NDArray[Any], values: Memory, bounds: Int64, width: int) -> ChunkPart:
    """Offsets of each chunk, which count from its first byte, and the bytes."""
    chunks = np.arange(bounds.size - 1)
    # Each chunk has one more offset than values: the last is also the first of the next chunk.
    counts = bounds[1:] - bounds[:-1] + 1
    heads, head_starts = counts * width, (bounds[:-1] + chunks) * width
    edges = offsets[bounds].astype(np.int64)
    firsts, sizes = edges[:-1], edges[1:] - edges[:-1]
    chunk = chunks.repeat(counts)
    stored = (offsets[np.arange(chunk.size) - chunk] + (heads - firsts)[chunk]).astype(f"<i{width}")
    segments = ((stored.view(np.uint8), head_starts, heads), (values, firsts, sizes))
    # pylance refuses strings whose end is not aligned to the offset width.
    return ChunkPart(segments, heads + sizes + width - 1 & -width)


# -- levels -----------------------------------------------------------------------------


def level_part(levels: Levels, bounds: Int64) -> tuple[Spec, ChunkPart]:
    """Codec of levels and the levels of each chunk: raw if they are few, else packed in the bits they need.

    Source: file sheet 2.1, sections 3.2 and 3.4.
    """
    if levels.size < _FEW_LEVELS:
        return Plain(16), _bits_part(levels.view(np.uint8), bounds, 16)
    width = max(1, int(levels.max()).bit_length())
    if width >= 16:
        return Plain(16), _bits_part(levels.view(np.uint8), bounds, 16)
    counts = np.diff(bounds)
    rest = counts % _BLOCK
    # Whether the last, partial block is packed follows from its size; readers know by the number of words.
    is_packed = width * (_BLOCK - rest) < (16 - width) * rest
    blocks = counts // _BLOCK + is_packed
    raw = np.where(is_packed, 0, rest)
    padded = np.zeros(int(blocks.sum()) * _BLOCK, np.uint16)
    first_block = np.cumsum(blocks) - blocks
    kernels.place_spans(
        levels.view(np.uint8),
        bounds[:-1] * 2,
        (counts - raw) * 2,
        padded.view(np.uint8),
        first_block * 2 * _BLOCK,
    )
    total = int(blocks.sum())
    packed = np.empty(total * 128 * width, np.uint8)
    numbers = np.arange(total)
    kernels.pack_blocks(padded.view(np.uint8), 16, np.full(total, width), packed, numbers * 128 * width)
    block_bytes = 128 * width
    segments = (
        (packed, first_block * block_bytes, blocks * block_bytes),
        (levels.view(np.uint8), (bounds[1:] - raw) * 2, raw * 2),
    )
    return PackedBlocks(width, 16, True), ChunkPart(segments, blocks * block_bytes + raw * 2)
