"""Values and levels of a mini-block page, ready to be cut into chunks by one kernel call.

``ChunkedValues`` has the part of the page's spec and the numbers of the kernel's program that belong to the values;
nothing is copied before the kernel writes the chunks. A maker says how the values are coded, not whether that is
worth while: ``numbers`` and ``texts`` do.

Source: file sheet 2.1, sections 3.1 to 3.7 and 5.1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.flat import flattened
from lancecy.encodings.model.block import Block, FixedWidth, VariableWidth
from lancecy.encodings.model.chunks import chunk_bounds
from lancecy.encodings.model.spec import InlinePacked, PackedBlocks, Plain, RunLengths, Spec, Variable
from lancecy.records import dataclass
from lancecy.store.base import Memory

__all__ = [
    "NO_LEVELS",
    "ChunkedValues",
    "LevelCodec",
    "level_codec",
    "packed_values",
    "plain_values",
    "run_values",
    "text_values",
]

Levels = NDArray[np.uint16]

MOST_SLOTS = 4096
"""Most values of a chunk."""
_MOST_BYTES = 8186
"""Most bytes of raw values in a chunk, so that its size with all other parts stays far from 32 KiB."""
_BLOCK = 1024
_STRING_TARGET = 6 << 10
_STRING_MOST = 16 << 10
_FEW_LEVELS = 64
_MOST_PARTS = 32
_LONGEST_RUN = 255

_PLAIN, _INLINE, _TEXT, _RUNS = 1, 2, 3, 4
_LEVELS_PLAIN, _LEVELS_BLOCKS, _LEVELS_RUNS = 1, 2, 3


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedValues:
    """Values that are ready to be cut into chunks.

    Attributes
    ----------
    spec : Spec
    num_buffers : int
        Value buffers of each chunk.
    slots : int, a power of two from 2 on
        Slots of every chunk but the last.
    kind, unit : int
        Of the kernel's program: see :func:`lancecy.kernels.write_chunks`.
    memory : (nbytes,) uint8
    offsets : (nbytes,) uint8 or None
    parts : tuple of int
        Position in ``memory`` and bits per slot of each buffer of plain values.
    room : int, bytes
        Bytes that suffice for the values of all chunks, without padding.
    """

    spec: Spec
    num_buffers: int
    slots: int
    kind: int
    unit: int
    memory: Memory
    room: int
    offsets: Memory | None = None
    parts: tuple[int, ...] = ()


# -- values of one width ----------------------------------------------------------------


# The same object for all pages: those of columns of one type are compared.
_plain, _inline = lru_cache(Plain), lru_cache(InlinePacked)
_levels_blocks = lru_cache(lambda width: PackedBlocks(width, 16, True))
_levels_plain, _levels_runs = Plain(16), RunLengths(Plain(16), Plain(8))


def plain_values(block: Block) -> ChunkedValues | None:
    """Plain values of one width; None if they are too wide for chunks."""
    if isinstance(block, FixedWidth):
        spec: Spec = _plain(block.bits)
        memory, bits = memory_of(block.values), block.bits
        parts: tuple[int, ...] = (0, bits)
        num_buffers, odd = 1, bits & 7
    else:
        spec, buffers = flattened(block)
        memory, parts = _joined(buffers, block.length)
        bits, num_buffers = max(1, sum(parts[1::2])), len(buffers)
        odd = sum(width & 7 for width in parts[1::2])
    slots = MOST_SLOTS
    while slots > 1 and slots * bits > _MOST_BYTES * 8:
        slots >>= 1
    if slots < 2 or num_buffers > _MOST_PARTS or (odd and any(slots * width & 7 for width in parts[1::2])):
        return None
    room = (block.length * bits >> 3) + num_buffers * (2 + block.length // slots)
    return ChunkedValues(spec, num_buffers, slots, _PLAIN, 0, memory, room, parts=parts)


def _joined(buffers: list[tuple[Memory, int]], num_slots: int) -> tuple[Memory, tuple[int, ...]]:
    """One memory with all buffers of fixed-size lists, and their positions and bits."""
    kept = [(memory[: (num_slots * bits + 7) >> 3], bits) for memory, bits in buffers]
    positions, at = [], 0
    for memory, bits in kept:
        positions += [at, bits]
        at += memory.size
    return kept[0][0] if len(kept) == 1 else np.concatenate([memory for memory, _ in kept]), tuple(positions)


def packed_values(block: FixedWidth) -> ChunkedValues:
    """Integers of 8 to 64 bits packed in blocks of 1,024, each block at its own width."""
    width = block.bits // 8
    room = (block.length // _BLOCK + 1) * (_BLOCK + 1) * width
    return ChunkedValues(_inline(block.bits), 1, _BLOCK, _INLINE, width, _exactly(block), room)


def run_values(block: FixedWidth) -> ChunkedValues:
    """Values of 8 to 64 bits, and how often each is repeated."""
    width = block.bits // 8
    spec = RunLengths(Plain(block.bits), Plain(8, buffer=1))
    return ChunkedValues(spec, 2, MOST_SLOTS, _RUNS, width, _exactly(block), block.length * (width + 1))


def _exactly(block: FixedWidth) -> Memory:
    return memory_of(block.values)[: block.length * block.bits // 8]


# -- strings ----------------------------------------------------------------------------


def text_values(block: VariableWidth) -> ChunkedValues | None:
    """Offsets and strings; None if two strings may be too long for a chunk."""
    width = block.offset_width
    offsets = stored_offsets(block)
    slots = _string_slots(offsets, width)
    if slots < 2:
        return None
    memory = memory_of(block.values)
    room = memory.size + offsets.nbytes + 2 * width * (block.length // slots + 1)
    return ChunkedValues(Variable(width), 1, slots, _TEXT, width, memory, room, offsets.view(np.uint8))


def _string_slots(offsets: NDArray[np.integer], width: int) -> int:
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


def _longest_chunk(offsets: NDArray[np.integer], slots: int) -> int:
    ends = offsets[chunk_bounds(offsets.size - 1, slots)]
    return int((ends[1:] - ends[:-1]).max(initial=0))


# -- levels -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LevelCodec:
    """How the levels of all chunks are coded: the spec, the numbers of the kernel's program, bytes that suffice."""

    spec: Spec | None
    kind: int
    bits: int
    room: int


NO_LEVELS = LevelCodec(None, 0, 0, 0)


def level_codec(levels: Levels, highest: int, num_chunks: int, may_be_runs: bool) -> LevelCodec:
    """The codec of levels: raw if they are few, else packed in the bits they need, or in runs if that is less.

    Parameters
    ----------
    levels : (num_levels,) uint16
    highest : int
        Highest level that the page can have.
    num_chunks : int
    may_be_runs : bool
        Whether the version of the file has levels in runs: from 2.2 on.

    Source: file sheet 2.1, sections 3.2 and 3.4.
    """
    count, width = levels.size, max(1, highest.bit_length())
    if count < _FEW_LEVELS or width >= 16:
        return LevelCodec(_levels_plain, _LEVELS_PLAIN, 16, 2 * count)
    if may_be_runs:
        _, _, runs, _ = kernels.measure_numbers(levels.view(np.uint8), 2, None, 0, 1)
        # Each chunk begins a run and states the bytes of its values.
        most = 3 * (runs + count // _LONGEST_RUN) + 11 * num_chunks
        if most < width * count >> 3:
            return LevelCodec(_levels_runs, _LEVELS_RUNS, 16, 2 * count)
    return LevelCodec(_levels_blocks(width), _LEVELS_BLOCKS, width, 2 * count)
