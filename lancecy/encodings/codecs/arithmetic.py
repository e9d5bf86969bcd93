"""Codecs of format 2.3 for indices: arithmetic sequences, running sums, items by code; and properties of nodes.

These decode whole chunks with NumPy: offsets, positions and counts are few. Arithmetic wraps at the width of the
values.

Source: file sheet 2.1, section 3.12.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.block import AllNull, Block, FixedWidth
from lancecy.encodings.model.chunks import Buffers, Chunks, places_of, require_bytes, starts_of
from lancecy.encodings.model.spec import (
    BlockDictionary,
    ByteSplit,
    Compressed,
    Deltas,
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    Plain,
    Repeated,
    RunLengths,
    Sequence,
    Spec,
)
from lancecy.errors import FormatError

__all__ = [
    "as_integers",
    "as_numbers",
    "has_payload",
    "has_zipped_values",
    "items_by_code",
    "numbered",
    "ranges",
    "running_sums",
    "split_dictionary",
]

Int64 = NDArray[np.int64]
Numbers = NDArray[Any]


def has_payload(spec: Spec) -> bool:
    """Whether values of this node have a buffer; some nodes determine their values alone.

    Examples
    --------
    >>> has_payload(Deltas(32, 0, Sequence(32, 1, 1)))
    False
    """
    if isinstance(spec, Sequence | Repeated):
        return False
    if isinstance(spec, Deltas):
        return has_payload(spec.deltas)
    if isinstance(spec, RunLengths):
        return has_payload(spec.values) or has_payload(spec.lengths)
    if isinstance(spec, BlockDictionary):
        return has_payload(spec.codes) or has_payload(spec.items)
    if isinstance(spec, FixedListOf):
        return spec.validity is not None or has_payload(spec.child)
    return True


def numbered(spec: Spec) -> Spec:
    """The node with its only buffer renumbered to 0.

    Examples
    --------
    >>> numbered(Plain(8, buffer=1)).buffer
    0
    """
    if isinstance(spec, Compressed):
        return replace(spec, values=numbered(spec.values), buffer=0)
    if isinstance(spec, Plain | InlinePacked | PackedBlocks | ByteSplit | BlockDictionary):
        return replace(spec, buffer=0)
    return spec


def has_zipped_values(spec: Spec) -> bool:
    """Whether values of a standalone buffer are stored one by one: lists with items that may be null.

    Examples
    --------
    >>> has_zipped_values(FixedListOf(2, FixedListOf(3, Plain(8), validity=0)))
    True
    """
    while isinstance(spec, FixedListOf):
        if spec.validity is not None:
            return True
        spec = spec.child
    return False


def ranges(spec: Sequence, chunks: Chunks) -> Numbers:
    """The selected values of ``start, start + step, ...``, from ``start`` in each chunk."""
    kind = f"<u{spec.bits // 8}"
    index = places_of(chunks.runs.starts, chunks.runs.counts).astype(np.uint64)
    # Multiplication and addition of uint64 arrays wrap, as those of the narrower widths do.
    return (index * np.uint64(spec.step) + np.uint64(spec.start)).astype(kind)


def running_sums(spec: Deltas, chunks: Chunks, deltas: Numbers) -> Numbers:
    """The selected values; a chunk has one difference fewer than values."""
    starts = starts_of(chunks.counts)
    steps = np.zeros(int(starts[-1]), np.uint64)
    filled = chunks.counts > 0
    inner = np.ones(steps.size, np.bool_)
    inner[starts[:-1][filled]] = False
    steps[inner] = deltas
    sums = np.cumsum(steps, dtype=np.uint64)
    first = np.zeros(chunks.counts.size, np.uint64)
    first[filled] = sums[starts[:-1][filled]]
    sums += np.uint64(spec.base) - np.repeat(first, chunks.counts)
    places = places_of(starts[chunks.runs.pages] + chunks.runs.starts, chunks.runs.counts)
    return sums[places].astype(f"<u{spec.bits // 8}")


def split_dictionary(source: Buffers) -> tuple[Buffers, Buffers]:
    """Split codes and items from one buffer: ``u64 bytes of codes | u64 bytes of items | codes | items``.

    Raises
    ------
    FormatError
        The two sizes exceed the buffer.
    """
    count = source.positions.size
    require_bytes(source, np.full(count, 16, np.int64), "a dictionary")
    sizes = np.empty((count, 2), np.int64)
    kernels.gather_fixed(source.memory, source.positions, 16, sizes.reshape(-1).view(np.uint8))
    codes, items = sizes[:, 0].copy(), sizes[:, 1].copy()
    room = source.lengths - 16
    if bool(((codes < 0) | (codes > room) | (items < 0) | (items > room - codes)).any()):
        raise FormatError("a dictionary passes the end of its buffer")
    first = source.positions + 16
    return Buffers(source.memory, first, codes), Buffers(source.memory, first + codes, items)


def items_by_code(codes: Numbers, items: Numbers, counts: Int64, num_items: int) -> Numbers:
    """Look up the items of each chunk by its codes.

    Raises
    ------
    FormatError
        A code has no item; ``position`` is its index.
    """
    kernels.check_codes(codes, num_items)
    bases = np.repeat(np.arange(counts.size) * num_items, counts)
    chosen: Numbers = items[bases + codes.astype(np.int64)]
    return chosen


def as_integers(block: Block) -> Int64:
    """Numbers as int64; one repeated value without bytes is 0.

    Raises
    ------
    FormatError
        See ``as_numbers``.
    """
    if isinstance(block, AllNull):
        return np.zeros(block.length, np.int64)
    return as_numbers(block).astype(np.int64)


def as_numbers(block: Block) -> Numbers:
    """The integers of a block of 8, 16, 32 or 64-bit values, as unsigned ones; memory is shared.

    Raises
    ------
    FormatError
        The block does not hold integers.
    """
    if not isinstance(block, FixedWidth) or block.bits not in (8, 16, 32, 64):
        raise FormatError("values that are no integers where integers are needed")
    return np.frombuffer(block.values, f"<u{block.bits >> 3}", block.length)  # type: ignore[call-overload, no-any-return]
