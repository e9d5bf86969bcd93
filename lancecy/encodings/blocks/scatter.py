"""Scatter values of a block into slots by number, for dictionaries and sparse pages.

Invalid slots are empty: zeros, and strings without bytes. Items of a fixed-size list, and their validity, move with
the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.blocks.select import offsets_of
from lancecy.encodings.model.block import AllNull, Block, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.errors import UnsupportedError
from lancecy.limits import Limits

__all__ = ["packed", "scatter"]

Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


def scatter(block: Block, which: Int64 | None, mask: Mask | None, limits: Limits) -> Block:
    """Write values into the valid slots and leave the others empty.

    Parameters
    ----------
    block : Block
    which : (num_valid,) int64 or None
        The value of each valid slot; None: the values in their order.
    mask : (num_slots,) bool or None
        Which slots are valid; None: all.
    limits : Limits

    Returns
    -------
    Block
        ``num_slots`` values; strings in their order share the memory of ``block``.

    Raises
    ------
    LimitError
        The values take more than ``limits.page_bytes``.
    UnsupportedError
        A block of a kind that no page of this version holds.

    Examples
    --------
    >>> from lancecy.limits import DEFAULT_LIMITS
    >>> letters = FixedWidth(2, 8, np.frombuffer(b"ab", np.uint8))
    >>> bytes(scatter(letters, np.array([1, 0, 1]), None, DEFAULT_LIMITS).values)
    b'bab'
    """
    if which is None and mask is None:
        return block
    if mask is None:
        mask = np.ones(block.length if which is None else which.size, np.bool_)
    if isinstance(block, VariableWidth):
        return _strings(block, which, mask, limits)
    if isinstance(block, Structured):
        children = {key: scatter(child, which, mask, limits) for key, child in block.children.items()}
        return Structured(mask.size, children)
    return _rows(block, 1, which, mask, limits)


def packed(mask: Mask | None) -> tuple[NDArray[np.uint8] | None, int]:
    """Bitmap and null count of a validity mask.

    Examples
    --------
    >>> packed(np.array([True, False, True]))
    (array([5], dtype=uint8), 1)
    """
    if mask is None:
        return None, 0
    return np.packbits(mask, bitorder="little"), mask.size - int(np.count_nonzero(mask))


def _rows(block: Block, items: int, which: Int64 | None, mask: Mask, limits: Limits) -> Block:
    """Values of one width, ``items`` per slot."""
    length = mask.size * items
    if isinstance(block, AllNull):
        return AllNull(length)
    if not isinstance(block, FixedWidth | FixedList):
        raise UnsupportedError(f"{type(block).__name__} values by number", feature=type(block).__name__)
    validity, null_count = None, 0
    if block.validity is not None:
        flags = _bits(block.validity, items, which, mask, limits)
        flags[~mask] = True
        validity, null_count = packed(flags.reshape(-1))
    if isinstance(block, FixedList):
        child = _rows(block.child, items * block.size, which, mask, limits)
        return FixedList(length, block.size, child, validity, null_count)
    if block.bits & 7:
        bits = _bits(block.values, items * block.bits, which, mask, limits)
        buffer: object = np.packbits(bits.reshape(-1), bitorder="little")
    else:
        buffer = _bytes(block.values, items * block.bits >> 3, which, mask, limits)
    return FixedWidth(length, block.bits, buffer, validity, null_count)


def _bytes(values: object, width: int, which: Int64 | None, mask: Mask, limits: Limits) -> NDArray[np.uint8]:
    limits.check("page_bytes", mask.size * width, "bytes of the values of a page")
    # Untouched pages of zeros cost nothing.
    out = np.zeros((mask.size, width), np.uint8)
    if width:
        stored: NDArray[np.uint8] = np.frombuffer(values, np.uint8)  # type: ignore[call-overload]
        out[mask] = _chosen(stored[: stored.size // width * width].reshape(-1, width), which, mask)
    return out.reshape(-1)


def _bits(bitmap: object, width: int, which: Int64 | None, mask: Mask, limits: Limits) -> Mask:
    """(num_slots, width) bool: the bits of each slot."""
    limits.check("page_bytes", mask.size * width, "items of the values of a page")
    out = np.zeros((mask.size, width), np.bool_)
    if width:
        stored = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little").view(np.bool_)  # type: ignore[call-overload]
        out[mask] = _chosen(stored[: stored.size // width * width].reshape(-1, width), which, mask)
    return out


def _chosen(table: NDArray[Any], which: Int64 | None, mask: Mask) -> NDArray[Any]:
    # A bitmap may have room for more values than exist.
    return table[: np.count_nonzero(mask)] if which is None else table[which]


def _strings(block: VariableWidth, which: Int64 | None, mask: Mask, limits: Limits) -> VariableWidth:
    offsets = offsets_of(block)
    starts, sizes = offsets[:-1], np.diff(offsets)
    values = block.values
    if which is not None:
        starts, sizes = starts[which], sizes[which]
        total = limits.check("page_bytes", int(sizes.sum()), "bytes of the strings of a page")
        values, out = allocate(total)
        kernels.copy_spans(np.frombuffer(block.values, np.uint8), starts, sizes, out)  # type: ignore[call-overload]
    lengths = np.zeros(mask.size, np.int64)
    lengths[mask] = sizes
    limits.check("page_bytes", (mask.size + 1) * block.offset_width, "bytes of the strings of a page")
    buffer, ends = allocate((mask.size + 1) * block.offset_width)
    kernels.zipped_offsets(lengths, ends.view(f"<i{block.offset_width}"))
    return VariableWidth(mask.size, block.offset_width, buffer, values)
