"""Values of pages with codes and a dictionary: looked up, or kept as codes for Arrow dictionaries.

Codes of null slots are arbitrary; the definition levels identify those slots. Source: file sheet 2.1, section 3.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, mask_of, slot_validity
from lancecy.encodings.blocks.scatter import scatter
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.arithmetic import as_numbers
from lancecy.encodings.model.block import AllNull, Block, Coded, FixedList, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import Layer, all_visible_max
from lancecy.errors import FormatError
from lancecy.limits import Limits, check_offsets
from lancecy.schema import Field

__all__ = ["CodedPage", "look_up", "look_up_pages", "taken"]

Bitmap: TypeAlias = NDArray[np.uint8]


class CodedPage(NamedTuple):
    """Codes of a page, one integer per slot, its dictionary, and the (num_levels,) uint16 definition levels, if any."""

    codes: Block
    items: Block
    definition: NDArray[np.uint16] | None


class _Items(NamedTuple):
    """Numbers of items of a dictionary, and the slots that have one; all if the mask is None."""

    numbers: NDArray[Any]
    items: Any
    mask: Bitmap | None


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
    (numbers, _, mask), null_count = _wanted(CodedPage(codes, items, definition), layers)
    if field.in_codes or field.logical_type.startswith("dict:"):
        block: Block = _coded(codes, numbers, items, mask)
    else:
        block = taken(numbers, items, mask, limits)
    known = definition is not None and layers[0] is Layer.NULLABLE_ITEM
    return block, (mask, null_count) if known else None


def _wanted(page: CodedPage, layers: tuple[Layer, ...]) -> tuple[_Items, int]:
    """The items of the slots of a page, and how many slots have none."""
    numbers, mask, null_count = as_numbers(page.codes), None, 0
    if page.definition is not None:
        mask, null_count = slot_validity(page.definition, 0, all_visible_max(layers), numbers.size)
    return _Items(numbers, page.items, mask), null_count


def look_up_pages(pages: Sequence[CodedPage], layers: tuple[Layer, ...], limits: Limits) -> Block:
    """Look up the values of codes of several pages, each with a dictionary of its own, one after the other.

    Parameters
    ----------
    pages : sequence of CodedPage
        At least one.
    layers : tuple of Layer, inner to outer
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        As :func:`look_up`, with the slot in its page; or the dictionaries hold neither strings nor values of one width.
    """
    parts = [_wanted(page, layers)[0] for page in pages]
    first = parts[0].items
    if isinstance(first, VariableWidth) and all(
        isinstance(part.items, VariableWidth) and part.items.offset_width == first.offset_width
        for part in parts
    ):
        return _strings(parts, limits)
    if isinstance(first, FixedWidth) and all(
        isinstance(part.items, FixedWidth) and part.items.bits == first.bits for part in parts
    ):
        return _fixed(parts, limits)
    raise FormatError(f"{type(first).__name__} dictionaries of several pages")


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
        return _strings([_Items(numbers, items, mask)], limits)
    if isinstance(items, FixedWidth) and items.bits % 8 == 0:
        return _fixed([_Items(numbers, items, mask)], limits)
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
            rows = _fixed([_Items(numbers, flat, mask)], limits)
            return FixedList(
                rows.length, items.size, FixedWidth(rows.length * items.size, child.bits, rows.values)
            )
    return _scattered(numbers, items, mask, limits)


def _scattered(numbers: NDArray[Any], items: Block, mask: Bitmap | None, limits: Limits) -> Block:
    """Items of any kind; codes of slots without items are arbitrary."""
    if mask is None:
        kernels.check_codes(numbers, items.length)
        return scatter(items, numbers.astype(np.int64), None, limits)
    flags = mask_of(mask, numbers.size)
    if bool((flags & (numbers >= items.length)).any()):
        kernels.check_codes(np.where(flags, numbers, 0), items.length)
    return scatter(items, numbers[flags].astype(np.int64), flags, limits)


def _fixed(parts: Sequence[_Items], limits: Limits) -> FixedWidth:
    width = parts[0].items.bits >> 3
    if width == 0 or parts[0].items.bits & 7:
        raise FormatError("a dictionary of values without bytes")
    edges = [0, *accumulate(part.numbers.size for part in parts)]
    nbytes = limits.check("page_bytes", edges[-1] * width, "bytes of the values of a page")
    buffer, out = allocate(nbytes)
    for part, (a, b) in zip(parts, pairwise(edges), strict=True):
        values: Bitmap = np.frombuffer(part.items.values, np.uint8, part.items.length * width)
        kernels.take_fixed(part.numbers, values, width, out[a * width : b * width], part.mask)
    return FixedWidth(edges[-1], parts[0].items.bits, buffer)


def _strings(parts: Sequence[_Items], limits: Limits) -> VariableWidth:
    width = parts[0].items.offset_width
    edges, ends = [0, *accumulate(part.numbers.size for part in parts)], [0]
    offsets_buffer, memory = allocate((edges[-1] + 1) * width)
    offsets = memory.view(f"<i{width}")
    sources = [stored_offsets(part.items) for part in parts]
    for part, source, (a, b) in zip(parts, sources, pairwise(edges), strict=True):
        ends.append(ends[-1] + kernels.take_offsets(part.numbers, source, offsets[a : b + 1], part.mask))
    limits.check("page_bytes", ends[-1], "bytes of the strings of a page")
    if width == 4:
        check_offsets(ends[-1], "bytes of strings")
    buffer, out = allocate(ends[-1])
    for part, source, (a, b), (first, last) in zip(
        parts, sources, pairwise(edges), pairwise(ends), strict=True
    ):
        # The end of one part's offsets is where those of the next one begin.
        offsets[b], offsets[a] = last - first, 0
        values: Bitmap = np.frombuffer(part.items.values, np.uint8)
        kernels.take_values(part.numbers, source, values, offsets[a : b + 1], out[first:last], part.mask)
        if first:
            offsets[a:b] += offsets.dtype.type(first)
    offsets[-1] = ends[-1]
    return VariableWidth(edges[-1], width, offsets_buffer, buffer)


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
            kernels.check_codes(np.where(mask_of(mask, numbers.size), numbers, 0), items.length)
        numbers = np.where(mask_of(inside, numbers.size), numbers, 0).astype(numbers.dtype)
        codes = FixedWidth(codes.length, codes.bits, numbers)
    return Coded(codes.length, codes, items)
