"""Select values of a block by a mask, nested blocks included.

Writers use it to leave out values under nulls. It works on the buffers, because Arrow (26.0) filters and takes the
wrong rows of some nested arrays that are slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.validity import mask_of
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

__all__ = ["compacted", "offsets_of", "select", "stored_offsets"]

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
