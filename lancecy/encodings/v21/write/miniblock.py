"""Write mini-block pages: values and levels into chunks, a word for each, an index of rows.

The inverse of ``v21.miniblock``. A chunk holds a power of two of value slots (the last chunk holds the rest),
and every level from that of its first slot to the next chunk's; null and empty lists, which have no slot,
belong to the chunk before them. Zeros pad every part to 8 bytes.

Source: file sheet 2.1, sections 3.1 to 3.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.chunks import chunk_bounds
from lancecy.encodings.model.layouts import MiniBlock, max_repetition
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import Spec
from lancecy.encodings.v21.write.chunk_parts import ChunkedValues, ChunkPart, level_part
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.store.base import Memory

__all__ = ["StoredDictionary", "write_mini_block"]

Int64 = NDArray[np.int64]

StoredDictionary = tuple[Spec, int, Memory]
"""Codec, number of items and bytes of a dictionary."""

_U16_CHUNK = 32 << 10
_U32_CHUNK = 1 << 31
_MOST_U16 = 0xFFFF


def write_mini_block(
    leaf: ShreddedLeaf, values: ChunkedValues, is_large: bool, dictionary: StoredDictionary | None = None
) -> EncodedPage | None:
    """A page of chunks; None if a chunk would have more levels than it can hold.

    Parameters
    ----------
    leaf : ShreddedLeaf
        With one value slot or more.
    values : ChunkedValues
        Of the leaf's slots.
    is_large : bool
        Sizes have 32 bits instead of 16: from 2.2 on.
    dictionary : tuple or None
        Dictionary of the page; the values are then codes.
    """
    num_slots = leaf.values.length
    bounds = chunk_bounds(num_slots, values.slots)
    levels = _level_bounds(leaf, bounds)
    rep_spec = def_spec = None
    parts: list[ChunkPart] = []
    if leaf.rep is not None:
        rep_spec, part = level_part(leaf.rep, levels)
        parts.append(part)
    if leaf.definition is not None:
        def_spec, part = level_part(leaf.definition, levels)
        parts.append(part)
    num_levels = levels[1:] - levels[:-1] if parts else np.zeros(bounds.size - 1, np.int64)
    if parts and any(counts.max() > _MOST_U16 for counts in (num_levels, *(part.lengths for part in parts))):
        return None
    parts.extend(values.cut(bounds))
    chunks, sizes = _assembled(num_levels, parts, values.num_buffers, is_large)
    if sizes.max() > (_U32_CHUNK if is_large else _U16_CHUNK):
        return None
    buffers = [_words(sizes, values.slots, is_large), chunks]
    if dictionary is not None:
        buffers.append(dictionary[2])
    if leaf.rep is not None:
        buffers.append(_index(leaf.rep, max_repetition(leaf.layers), levels))
    layout = MiniBlock(
        layers=leaf.layers,
        rep=rep_spec,
        definition=def_spec,
        values=values.spec,
        dictionary=None if dictionary is None else dictionary[0],
        num_dictionary_items=0 if dictionary is None else dictionary[1],
        num_buffers=values.num_buffers,
        has_index=leaf.rep is not None,
        num_items=num_slots,
        is_large=is_large,
    )
    return EncodedPage(layout, tuple(buffers), leaf.num_rows)


def _level_bounds(leaf: ShreddedLeaf, bounds: Int64) -> Int64:
    """First level of each chunk, and the number of levels."""
    if leaf.visible is None:
        return bounds
    first = np.flatnonzero(leaf.visible)[bounds[1:-1]]
    return np.concatenate(([0], first, [leaf.visible.size])).astype(np.int64)


def _assembled(
    num_levels: Int64, parts: list[ChunkPart], num_buffers: int, is_large: bool
) -> tuple[Memory, Int64]:
    """The chunks, and the bytes of each."""
    head = _head(num_levels, parts, num_buffers, is_large)
    rooms = np.array([part.lengths for part in parts]) + 7 & ~7
    behind = rooms.cumsum(axis=0) + -(-len(head) // 4) * 8
    sizes = behind[-1]
    ends = sizes.cumsum()
    starts = ends - sizes
    out = np.zeros(int(ends[-1]), np.uint8)
    words, first = out.view("<u2"), starts >> 1
    for number, column in enumerate(head):
        words[first + number] = column
    for part, place in zip(parts, starts + behind - rooms, strict=True):
        for memory, at, count in part.segments:
            kernels.place_spans(memory, at, count, out, place)
            place = place + count
    return out, sizes


def _head(num_levels: Int64, parts: list[ChunkPart], num_buffers: int, is_large: bool) -> list[Int64]:
    """The 16-bit words that chunks begin with: levels, sizes of their buffers and of the values'."""
    columns = [num_levels]
    for number, part in enumerate(parts):
        columns.append(part.lengths & 0xFFFF)
        if is_large and number >= len(parts) - num_buffers:
            columns.append(part.lengths >> 16)
    return columns


def _words(sizes: Int64, slots: int, is_large: bool) -> Memory:
    """Size and slots of each chunk; the last one has the remaining slots."""
    # Eight bytes less than there are, in units of eight, times 16.
    words = 2 * sizes - 16 | slots.bit_length() - 1
    words[-1] &= ~15
    return words.astype("<u4" if is_large else "<u2").view(np.uint8)


def _index(rep: NDArray[np.uint16], row: int, levels: Int64) -> Memory:
    """Rows that end in each chunk, and the levels after the last end."""
    ends = np.append(np.flatnonzero(rep == row)[1:], rep.size)
    ended = np.searchsorted(ends, levels[1:], side="right")
    last_end = np.concatenate(([0], ends))[ended]
    entries = np.empty((levels.size - 1, 2), "<u8")
    entries[:, 0] = np.diff(ended, prepend=0)
    entries[:, 1] = levels[1:] - np.maximum(last_end, levels[:-1])
    return entries.view(np.uint8).reshape(-1)
