"""Values of pages with codes and a dictionary: looked up, or kept as codes for Arrow dictionaries.

Codes of null slots are arbitrary; the definition levels identify those slots. Source: file sheet 2.1, section 3.7.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, slot_validity
from lancecy.encodings.blocks.scatter import scatter
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.arithmetic import as_numbers
from lancecy.encodings.model.block import AllNull, Block, Coded, FixedList, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import Layer, all_visible_max
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.schema import Field

__all__ = ["look_up", "taken"]

Bitmap: TypeAlias = NDArray[np.uint8]


def look_up(
    codes: Block,
    items: Block,
    field: Field,
    layers: tuple[Layer, ...],
    definition: NDArray[np.uint16] | None,
    limits: Limits,
) -> tuple[Block, tuple[object, int] | None]:
    """Look up the values of codes.

    Parameters
    ----------
    codes : Block
        One integer per slot.
    items : Block
        The dictionary.
    field : Field
        The leaf; one of a dictionary type, or read in codes, keeps its codes.
    layers : tuple of Layer, inner to outer
    definition : (num_levels,) uint16 or None
    limits : Limits

    Returns
    -------
    block : Block
    validity : (bitmap, null count) or None
        Of the slots, if the definition levels determine it and the leaf is nullable.

    Raises
    ------
    FormatError
        A code of a slot that is not null has no item; ``position`` is the slot.
    LimitError
        The values take more than ``Limits.page_bytes``.
    """
    numbers = as_numbers(codes)
    mask, null_count = None, 0
    if definition is not None:
        mask, null_count = slot_validity(definition, 0, all_visible_max(layers), numbers.size)
    if field.in_codes or field.logical_type.startswith("dict:"):
        block: Block = _coded(codes, numbers, items, mask)
    else:
        block = taken(numbers, items, mask, limits)
    known = definition is not None and layers[0] is Layer.NULLABLE_ITEM
    return block, (mask, null_count) if known else None


def taken(numbers: NDArray[Any], items: Block, mask: Bitmap | None, limits: Limits) -> Block:
    """Take items by number.

    Parameters
    ----------
    numbers : (num_slots,) unsigned integers
    items : FixedWidth, VariableWidth, FixedList or AllNull
    mask : bitmap or None
        Slots whose bit is 0 have no item; their number is ignored.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        See ``look_up``.
    UnsupportedError
        See ``scatter.scatter``.
    """
    if isinstance(items, VariableWidth):
        return _strings(numbers, items, mask, limits)
    if isinstance(items, FixedWidth) and items.bits % 8 == 0:
        return _fixed(numbers, items, mask, limits)
    if isinstance(items, AllNull):
        return AllNull(numbers.size)
    if isinstance(items, FixedList):
        return _lists(numbers, items, mask, limits)
    return _scattered(numbers, items, mask, limits)


def _lists(numbers: NDArray[Any], items: FixedList, mask: Bitmap | None, limits: Limits) -> Block:
    child = items.child
    if isinstance(child, FixedWidth) and child.validity is None:
        flat = FixedWidth(items.length, items.size * child.bits, child.values)
        if flat.bits and flat.bits % 8 == 0:
            rows = _fixed(numbers, flat, mask, limits)
            return FixedList(
                rows.length, items.size, FixedWidth(rows.length * items.size, child.bits, rows.values)
            )
    return _scattered(numbers, items, mask, limits)


def _scattered(numbers: NDArray[Any], items: Block, mask: Bitmap | None, limits: Limits) -> Block:
    """Items of any kind; codes of slots without items are arbitrary."""
    if mask is None:
        kernels.check_codes(numbers, items.length)
        return scatter(items, numbers.astype(np.int64), None, limits)
    flags = _flags(mask, numbers.size)
    if bool((flags & (numbers >= items.length)).any()):
        kernels.check_codes(np.where(flags, numbers, 0), items.length)
    return scatter(items, numbers[flags].astype(np.int64), flags, limits)


def _fixed(numbers: NDArray[Any], items: FixedWidth, mask: Bitmap | None, limits: Limits) -> FixedWidth:
    width = items.bits >> 3
    if width == 0:
        raise FormatError("a dictionary of values without bytes")
    nbytes = limits.check("page_bytes", numbers.size * width, "bytes of the values of a page")
    buffer, out = allocate(nbytes)
    values: Bitmap = np.frombuffer(items.values, np.uint8, items.length * width)  # type: ignore[call-overload]
    kernels.take_fixed(numbers, values, width, out, mask)
    return FixedWidth(numbers.size, items.bits, buffer)


def _strings(
    numbers: NDArray[Any], items: VariableWidth, mask: Bitmap | None, limits: Limits
) -> VariableWidth:
    source = stored_offsets(items)
    values: Bitmap = np.frombuffer(items.values, np.uint8)  # type: ignore[call-overload]
    offsets_buffer, offsets = allocate((numbers.size + 1) * items.offset_width)
    total = kernels.take_offsets(numbers, source, offsets.view(source.dtype), mask)
    limits.check("page_bytes", total, "bytes of the strings of a page")
    buffer, out = allocate(total)
    kernels.take_values(numbers, source, values, offsets.view(source.dtype), out, mask)
    return VariableWidth(numbers.size, items.offset_width, offsets_buffer, buffer)


def _coded(codes: Block, numbers: NDArray[Any], items: Block, mask: Bitmap | None) -> Coded:
    if not isinstance(codes, FixedWidth) or not isinstance(items, FixedWidth | VariableWidth | AllNull):
        raise FormatError("a dictionary of values that Arrow's cannot hold")
    if mask is None:
        kernels.check_codes(numbers, items.length)
        return Coded(codes.length, codes, items)
    inside = np.empty((numbers.size + 7) >> 3, np.uint8)
    if kernels.check_codes(numbers, items.length, inside):
        outside = ~inside
        if bool((outside & mask).any()):
            kernels.check_codes(np.where(_flags(mask, numbers.size), numbers, 0), items.length)
        numbers = np.where(_flags(inside, numbers.size), numbers, 0).astype(numbers.dtype)
        codes = FixedWidth(codes.length, codes.bits, numbers)
    return Coded(codes.length, codes, items)


def _flags(bitmap: Bitmap, count: int) -> NDArray[np.bool_]:
    return np.unpackbits(bitmap, count=count, bitorder="little").view(np.bool_)
