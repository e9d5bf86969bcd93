"""Select values of a block by a mask, and split a block that several columns were decoded into.

Writers select values to leave out those under nulls. Both work on the buffers, because Arrow (26.0) filters and takes
the wrong rows of some nested arrays that are slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Listed,
    Structured,
    VariableWidth,
)
from lancecy.errors import FormatError

__all__ = ["compacted", "offsets_of", "select", "split", "stored_offsets"]


Mask = NDArray[np.bool_]
Bits = NDArray[np.uint8]


def stored_offsets(block: VariableWidth | Listed) -> NDArray[Any]:
    """(block.length + 1,) int32 or int64, as stored: the start of each value or list, and the end of the last."""
    kind: Any = f"<i{block.offset_width}"
    found: NDArray[Any] = np.frombuffer(block.offsets, kind, block.length + 1)  # type: ignore[call-overload]
    return found


def offsets_of(block: VariableWidth | Listed) -> NDArray[np.int64]:
    """:func:`stored_offsets` as int64."""
    return stored_offsets(block).astype(np.int64, copy=False)


def compacted(offsets: NDArray[Any], lengths: NDArray[Any], values: Bits) -> tuple[NDArray[Any], Bits]:
    """Copy strings of these lengths back to back.

    Parameters
    ----------
    offsets : (num_values,) int
        Start of each.
    lengths : (num_values,) int
    values : (nbytes,) uint8

    Returns
    -------
    offsets : (num_values + 1,) of the dtype of ``offsets``
    values : (sum(lengths),) uint8

    Examples
    --------
    >>> compacted(np.array([0, 2, 4]), np.array([2, 0, 1]), np.frombuffer(b"abcde", np.uint8))[1].tobytes()
    b'abe'
    """
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    out = np.empty(int(ends[-1]), np.uint8)
    kernels.place_spans(values, offsets.astype(np.int64), lengths.astype(np.int64), out, ends[:-1])
    return ends.astype(offsets.dtype), out


def select(block: Block, mask: Mask) -> Block:
    """Select the values for which the mask is true.

    Parameters
    ----------
    block : Block
        A block from ``from_arrow``.
    mask : (length,) bool

    Examples
    --------
    >>> letters = FixedWidth(3, 8, np.frombuffer(b"abc", np.uint8))
    >>> bytes(select(letters, np.array([True, False, True])).values)
    b'ac'
    """
    length = int(np.count_nonzero(mask))
    if isinstance(block, AllNull):
        return AllNull(length)
    if isinstance(block, Coded):
        codes = select(block.codes, mask)
        if not isinstance(codes, FixedWidth):
            raise TypeError("codes are integers")
        return Coded(length, codes, block.dictionary)
    if not isinstance(block, FixedWidth | VariableWidth | Listed | FixedList | Structured):
        raise TypeError(f"a {type(block).__name__} block is not written")
    nulls = _bitmap(block.validity, mask)
    if isinstance(block, FixedWidth):
        return FixedWidth(length, block.bits, _values(block, mask), *nulls)
    if isinstance(block, Structured):
        children = {number: select(child, mask) for number, child in block.children.items()}
        return Structured(length, children, *nulls)
    if isinstance(block, FixedList):
        return FixedList(length, block.size, select(block.child, np.repeat(mask, block.size)), *nulls)
    offsets = stored_offsets(block)
    lengths = np.diff(offsets)
    if isinstance(block, VariableWidth):
        values = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
        ends, values = compacted(offsets[:-1][mask], lengths[mask], values)
        return VariableWidth(length, block.offset_width, ends, values, *nulls)
    ends = np.concatenate(([0], np.cumsum(lengths[mask]))).astype(offsets.dtype)
    return Listed(length, block.offset_width, ends, select(block.child, np.repeat(mask, lengths)), *nulls)


def _bitmap(validity: object, mask: Mask) -> tuple[Bits | None, int]:
    if validity is None:
        return None, 0
    left = mask_of(validity, mask.size)[mask]
    count = left.size - int(np.count_nonzero(left))
    return (np.packbits(left, bitorder="little"), count) if count else (None, 0)


def _values(block: FixedWidth, mask: Mask) -> Bits:
    if block.bits == 1:
        return np.packbits(mask_of(block.values, block.length)[mask], bitorder="little")
    width = block.bits // 8
    memory = np.frombuffer(block.values, np.uint8)[: block.length * width]  # type: ignore[call-overload]
    rows: Bits = memory.reshape(block.length, width)[mask]
    return rows.reshape(-1)


# -- parts of a block -------------------------------------------------------------------------


def split(
    block: Block, lengths: Sequence[int], children: Sequence[Sequence[int]] | None = None
) -> list[Block]:
    """Split a block into parts of these lengths; values of whole bytes share the block's memory.

    Parameters
    ----------
    block : Block
    lengths : sequence of int
    children : sequence of sequence of int, optional
        Ids of the fields below each part, outermost first, for structs of one child.

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
        found = split(block.child, [length * block.size for length in lengths])
        parts = [FixedList(n, block.size, child) for n, child in zip(lengths, found, strict=True)]
    elif isinstance(block, VariableWidth):
        parts = _strings(block, edges)
    elif isinstance(block, Coded):
        return [_coded(codes, block.dictionary) for codes in split(block.codes, lengths)]
    elif children is not None and isinstance(block, Listed | Structured):
        parts = _nested(block, edges, children)
    else:
        raise FormatError(f"{type(block).__name__} values of several columns")
    if block.validity is None:
        return parts
    bits = _bits(block.validity, edges)
    return [_with_validity(part, *found) for part, found in zip(parts, bits, strict=True)]


def _with_validity(block: Block, bitmap: NDArray[np.uint8], ones: int) -> Block:
    if ones < block.length and isinstance(
        block, FixedWidth | VariableWidth | FixedList | Listed | Structured
    ):
        return replace(block, validity=bitmap, null_count=block.length - ones)
    return block


def _coded(codes: Block, dictionary: Block) -> Block:
    return Coded(codes.length, codes, dictionary) if isinstance(codes, FixedWidth) else codes


def _nested(
    block: Listed | Structured, edges: Sequence[int], children: Sequence[Sequence[int]]
) -> list[Block]:
    lengths = [b - a for a, b in pairwise(edges)]
    below = [ids[1:] for ids in children]
    if isinstance(block, Structured):
        if len(block.children) != 1:
            raise FormatError(f"structs of {len(block.children)} children in several columns")
        [child] = block.children.values()
        found = split(child, lengths, below)
        return [Structured(n, {ids[0]: part}) for n, ids, part in zip(lengths, children, found, strict=True)]
    offsets = stored_offsets(block)
    bounds = offsets[edges].tolist()
    found = split(block.child, [b - a for a, b in pairwise(bounds)], below)
    return [
        Listed(b - a, block.offset_width, offsets[a : b + 1] - offsets.dtype.type(first), part)
        for (a, b), first, part in zip(pairwise(edges), bounds, found, strict=False)
    ]


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
