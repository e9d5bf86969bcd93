"""Write mini-block pages: values and levels into chunks, a word for each, an index of rows.

The inverse of ``v21.miniblock``. A chunk holds a power of two of value slots (the last chunk holds the rest),
and every level from that of its first slot to the next chunk's; null and empty lists, which have no slot,
belong to the chunk before them. Zeros pad every part to 8 bytes. One kernel call writes a page.

Source: file sheet 2.1, sections 3.1 to 3.3.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.layouts import MiniBlock, level_limits
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import Spec
from lancecy.encodings.v21.write.chunk_parts import NO_LEVELS, ChunkedValues, level_codec
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.store.base import Memory

__all__ = ["StoredDictionary", "write_mini_block"]

StoredDictionary = tuple[Spec, int, Memory]
"""Codec, number of items and bytes of a dictionary."""

_HEAD = 48
"""More bytes than a chunk with two value buffers has beside its parts: the head, and the padding of all."""


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
    layers, num_slots = leaf.layers, leaf.values.length
    num_chunks = -(-num_slots // values.slots)
    max_rep, max_def, visible_max = level_limits(layers)
    rep = definition = NO_LEVELS
    if leaf.rep is not None:
        rep = level_codec(leaf.rep, max_rep, num_chunks, is_large)
    if leaf.definition is not None:
        definition = level_codec(leaf.definition, max_def, num_chunks, is_large)
    word_bytes = 4 if is_large else 2
    program = _program(
        *(values.kind, values.slots, num_slots, word_bytes, visible_max, max_rep),
        *(rep.kind, rep.bits, definition.kind, definition.bits, values.unit, *values.parts),
    )
    room = values.room + rep.room + definition.room + num_chunks * (_HEAD + 12 * values.num_buffers)
    chunks, words = np.empty(room, np.uint8), np.empty(num_chunks * word_bytes, np.uint8)
    index = None if leaf.rep is None else np.empty(2 * num_chunks, np.int64)
    total = kernels.write_chunks(
        values.memory, program, values.offsets, leaf.rep, leaf.definition, chunks, words, index
    )
    if total < 0:
        return None
    buffers = [words, chunks[:total]]
    if dictionary is not None:
        buffers.append(dictionary[2])
    if index is not None:
        buffers.append(index.view(np.uint8))
    items, num_items = (None, 0) if dictionary is None else dictionary[:2]
    layout = _layout(
        *(layers, rep.spec, definition.spec, values.spec, items, num_items),
        *(values.num_buffers, index is not None, num_slots, is_large),
    )
    return EncodedPage(layout, tuple(buffers), leaf.num_rows)


# Columns of the same type and length mostly have the same layout and program.
_layout = lru_cache(maxsize=256)(MiniBlock)


@lru_cache(maxsize=256)
def _program(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)
