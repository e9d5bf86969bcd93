"""Split a block that several columns were decoded into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.model.block import AllNull, Block, FixedList, FixedWidth, VariableWidth
from lancecy.errors import FormatError

__all__ = ["split"]


def split(block: Block, lengths: Sequence[int]) -> list[Block]:
    """Split a block into parts of these lengths; values of whole bytes share the block's memory.

    Raises
    ------
    FormatError
        A block of another length, or of a kind that cannot be split.

    Examples
    --------
    >>> [bytes(part.values) for part in split(FixedWidth(4, 8, b"abcd"), [1, 3])]
    [b'a', b'bcd']
    """
    edges = list(accumulate(lengths, initial=0))
    if edges[-1] != block.length:
        raise FormatError(f"{block.length} values for columns that have {edges[-1]} together")
    if isinstance(block, AllNull):
        return [AllNull(length) for length in lengths]
    if isinstance(block, FixedWidth):
        parts: list[Block] = _fixed(block, edges)
    elif isinstance(block, FixedList):
        children = split(block.child, [length * block.size for length in lengths])
        parts = [FixedList(n, block.size, child) for n, child in zip(lengths, children, strict=True)]
    elif isinstance(block, VariableWidth):
        parts = _strings(block, edges)
    else:
        raise FormatError(f"{type(block).__name__} values of several columns")
    if block.validity is None:
        return parts
    bits = _bits(block.validity, edges)
    return [_with_validity(part, *found) for part, found in zip(parts, bits, strict=True)]


def _with_validity(block: Block, bitmap: NDArray[np.uint8], ones: int) -> Block:
    if ones < block.length and isinstance(block, FixedWidth | VariableWidth | FixedList):
        return replace(block, validity=bitmap, null_count=block.length - ones)
    return block


def _fixed(block: FixedWidth, edges: Sequence[int]) -> list[Block]:
    bits = block.bits
    if bits & 7:
        found = _bits(block.values, [edge * bits for edge in edges])
        return [
            FixedWidth(b - a, bits, part) for (a, b), (part, _) in zip(pairwise(edges), found, strict=True)
        ]
    width, values = bits >> 3, memoryview(block.values).cast("B")  # type: ignore[arg-type]
    return [FixedWidth(b - a, bits, values[a * width : b * width]) for a, b in pairwise(edges)]


def _bits(bitmap: object, edges: Sequence[int]) -> list[tuple[NDArray[np.uint8], int]]:
    """Bitmaps of the bits between edges, and the number of set bits in each."""
    memory: NDArray[np.uint8] = np.frombuffer(bitmap, np.uint8)  # type: ignore[call-overload]
    origin = np.zeros(1, np.int64)
    found = []
    for a, b in pairwise(edges):
        out = np.empty((b - a + 7) >> 3, np.uint8)
        found.append((out, kernels.copy_bits(memory, origin, np.array([a]), np.array([b - a]), out)))
    return found


def _strings(block: VariableWidth, edges: Sequence[int]) -> list[Block]:
    offsets = stored_offsets(block)
    bounds = offsets[edges].tolist()
    values = memoryview(block.values).cast("B")  # type: ignore[arg-type]
    return [
        VariableWidth(
            b - a,
            block.offset_width,
            offsets[a : b + 1] - offsets.dtype.type(first),
            values[first:last],
        )
        for (a, b), (first, last) in zip(pairwise(edges), pairwise(bounds), strict=True)
    ]
