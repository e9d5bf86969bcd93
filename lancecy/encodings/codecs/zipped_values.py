"""Values stored one by one, each with its position, or its position and length.

Full-zip pages and packed structs put the parts of a row next to each other, so every value has a position of its
own. A value of one width is also called a cell; that of a fixed-size list with nulls inside is ``bitmap of each
list layer with nulls | items``. Strings are spans of bytes, compressed one by one if at all.

Source: file sheet 2.1, sections 3.5 to 3.8.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import fsst, general
from lancecy.encodings.model.block import AllNull, Block, FixedList, FixedWidth, VariableWidth
from lancecy.encodings.model.spec import (
    Compressed,
    FixedListOf,
    PackedRows,
    Plain,
    Repeated,
    Spec,
    SymbolCoded,
    Variable,
)
from lancecy.errors import UnsupportedError
from lancecy.limits import Limits, check_offsets
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["ZippedSpans", "ZippedValues", "decode_spans", "decode_zipped", "zipped_bits"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ZippedValues:
    """Values of one width.

    Attributes
    ----------
    memory : (nbytes,) uint8
    positions : (num_values,) int64, bytes
        Each is followed by ``width`` bytes of ``memory``.
    width : int, bytes
    is_packed : bool
        The values fill ``memory``, back to back.
    """

    memory: Memory
    positions: Int64
    width: int
    is_packed: bool = False

    @classmethod
    def packed(cls, memory: Memory, width: int, num_values: int) -> ZippedValues:
        """Values back to back that fill ``memory``."""
        return cls(memory, np.arange(num_values, dtype=np.int64) * width, width, True)


@dataclass(frozen=True, slots=True, eq=False)
class ZippedSpans:
    """Values of varying size, in ``memory``; those of null slots are empty.

    Attributes
    ----------
    memory : (nbytes,) uint8
    starts, lengths : (num_values,) int64, bytes
    """

    memory: Memory
    starts: Int64
    lengths: Int64


# -- values of one width ------------------------------------------------------------


def zipped_bits(spec: Spec) -> int:
    """Bits of one value stored as a cell, bitmaps included.

    Raises
    ------
    UnsupportedError
        A node that no writer puts into cells.

    Examples
    --------
    >>> zipped_bits(FixedListOf(128, Plain(32), validity=0))
    4224
    """
    bits, count = 0, 1
    while isinstance(spec, FixedListOf):
        count *= spec.size
        bits += _bitmap_bytes(spec, count) * 8
        spec = spec.child
    if isinstance(spec, PackedRows):
        return bits + count * sum(spec.bits)
    if isinstance(spec, Repeated) and spec.value is None:
        return bits
    if isinstance(spec, Plain):
        return bits + count * spec.bits
    raise UnsupportedError(f"single values coded as {type(spec).__name__}", feature=type(spec).__name__)


def _bitmap_bytes(spec: FixedListOf, count: int) -> int:
    return (count + 7) >> 3 if spec.validity is not None else 0


def decode_zipped(spec: Spec, cells: ZippedValues, field: Field) -> Block:
    """Decode values of one width.

    Parameters
    ----------
    spec : Spec
        ``zipped_bits(spec)`` is ``8 * cells.width``.
    cells : ZippedValues
    field : Field
        Its type identifies booleans, which take a byte each.

    Returns
    -------
    Block
        One value per cell, without a validity of its own; elements of lists may have one.

    Raises
    ------
    FormatError
        A cell is not in the memory.
    """
    num_values, bits = cells.positions.size, zipped_bits(spec)
    if isinstance(spec, FixedListOf):
        return _lists(spec, cells, 0, 1)
    values = _gather(cells, 0, cells.width)
    if field.logical_type == "bool" and bits == 8:
        return FixedWidth(num_values, 1, np.packbits(values, bitorder="little"))
    return FixedWidth(num_values, bits, values)


def _gather(cells: ZippedValues, offset: int, width: int) -> Memory:
    """``width`` bytes at ``offset`` of each cell, back to back; shared if the cells have nothing else."""
    if cells.is_packed and width == cells.width:
        return cells.memory
    _, out = allocate(cells.positions.size * width)
    if out.size:
        kernels.gather_fixed(cells.memory, cells.positions + offset, width, out)
    return out


def _lists(spec: FixedListOf, cells: ZippedValues, offset: int, count: int) -> Block:
    """Lists, ``count`` per cell, with their bitmap at ``offset`` bytes into it."""
    child_offset, child_count = offset, count * spec.size
    validity: NDArray[np.uint8] | None = None
    valid = num_children = cells.positions.size * child_count
    if spec.validity is not None:
        child_offset += _bitmap_bytes(spec, child_count)
        _, validity = allocate((num_children + 7) >> 3)
        valid = _gather_bits(cells, offset, child_count, validity)
    child: Block
    if isinstance(spec.child, FixedListOf):
        child = _lists(spec.child, cells, child_offset, child_count)
    else:
        child = _items(spec.child, cells, child_offset, child_count)
    if valid < num_children and isinstance(child, FixedList | FixedWidth):
        child = replace(child, validity=validity, null_count=num_children - valid)
    return FixedList(cells.positions.size * count, spec.size, child)


def _gather_bits(cells: ZippedValues, offset: int, count: int, out: NDArray[np.uint8]) -> int:
    """Concatenate the bits found ``offset`` bytes into each cell; return the number of set bits."""
    size = cells.positions.size
    return kernels.copy_bits(
        cells.memory, cells.positions + offset, np.zeros(size, np.int64), np.full(size, count, np.int64), out
    )


def _items(spec: Spec, cells: ZippedValues, offset: int, count: int) -> Block:
    num_items = cells.positions.size * count
    if isinstance(spec, Repeated) and spec.value is None:
        return AllNull(num_items)
    if not isinstance(spec, Plain):
        raise UnsupportedError(
            f"fixed-size lists of {type(spec).__name__} values", feature=type(spec).__name__
        )
    if not spec.bits & 7:
        return FixedWidth(num_items, spec.bits, _gather(cells, offset, count * spec.bits >> 3))
    buffer, out = allocate((num_items * spec.bits + 7) >> 3)
    _gather_bits(cells, offset, count * spec.bits, out)
    return FixedWidth(num_items, spec.bits, buffer)


# -- values of varying size ---------------------------------------------------------


def decode_spans(spec: Spec, spans: ZippedSpans, limits: Limits) -> VariableWidth:
    """Decode strings.

    Parameters
    ----------
    spec : Spec
        ``Variable``, perhaps coded or compressed.
    spans : ZippedSpans
        Spans that do not overlap.
    limits : Limits

    Returns
    -------
    VariableWidth
        One value per span; an empty span is an empty value in every encoding.

    Raises
    ------
    FormatError
        The bytes are not of this encoding; ``position`` is the value. TruncatedError if some are missing.
    LimitError
        The values have more bytes than offsets of their width can count.
    UnsupportedError
        A node that no writer uses for single values.
    """
    if isinstance(spec, Compressed):
        opened = general.decompress_many(spec.scheme, spans.memory, spans.starts, spans.lengths, limits)
        return decode_spans(spec.values, ZippedSpans(*opened), limits)
    if isinstance(spec, SymbolCoded):
        return fsst.decode(fsst.parse_symbols(spec.table), decode_spans(spec.values, spans, limits))
    if not isinstance(spec, Variable) or spec.offsets is not None:
        raise UnsupportedError(f"single values coded as {type(spec).__name__}", feature=type(spec).__name__)
    num_values, width = spans.starts.size, spec.offset_width
    total = int(spans.lengths.sum())
    if width == 4:
        check_offsets(total, "bytes of strings")
    offsets_buffer, offsets = allocate((num_values + 1) * width)
    kernels.zipped_offsets(spans.lengths, offsets.view(f"<i{width}"))
    buffer, out = allocate(total)
    kernels.copy_spans(spans.memory, spans.starts, spans.lengths, out)
    return VariableWidth(num_values, width, offsets_buffer, buffer)
