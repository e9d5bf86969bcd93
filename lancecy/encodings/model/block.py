"""Blocks: decoded buffers that are not Arrow yet.

A block has a length, buffers in Arrow's layout and nothing else: no type names, no
field names. ``lancecy.encodings.arrow`` gives it a type and shares its memory.
Buffers are any objects with the buffer protocol (pyarrow buffers, memory maps, arrays).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = [
    "AllNull",
    "Block",
    "Coded",
    "FixedList",
    "FixedWidth",
    "Leaves",
    "Listed",
    "Pieces",
    "Reordered",
    "Structured",
    "VariableWidth",
    "nbytes_of",
]

Bytes: TypeAlias = object
"""Anything with the buffer protocol."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedWidth:
    """Values of one width, back to back.

    Attributes
    ----------
    length : int
    bits : int
        Bits per value: 1 for booleans (LSB first), else a multiple of 8.
    values : buffer, at least ceil(length * bits / 8) bytes
    validity : bitmap or None
        LSB first, 1 = valid; None = no nulls.
    null_count : int
    """

    length: int
    bits: int
    values: Bytes
    validity: Bytes | None = None
    null_count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VariableWidth:
    """Byte strings.

    Attributes
    ----------
    length : int
    offsets : buffer of length + 1 integers of ``offset_width`` bytes, first is 0
    offset_width : 4 or 8
    values : buffer
    """

    length: int
    offset_width: int
    offsets: Bytes
    values: Bytes
    validity: Bytes | None = None
    null_count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Lists of varying length; ``offsets`` count elements of ``child``."""

    length: int
    offset_width: int
    offsets: Bytes
    child: Block
    validity: Bytes | None = None
    null_count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FixedList:
    """Lists of ``size`` elements each; ``child`` has ``length * size`` of them."""

    length: int
    size: int
    child: Block
    validity: Bytes | None = None
    null_count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Structured:
    """Structs: one child block per field id, all of this length."""

    length: int
    children: dict[int, Block]
    validity: Bytes | None = None
    null_count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Dictionary codes and the values they name; every code is in range."""

    length: int
    codes: FixedWidth
    dictionary: Block


@dataclass(frozen=True, slots=True, eq=False)
class AllNull:
    """Only nulls; costs no memory."""

    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """One column in several blocks of the same type, one after the other.

    Large pages of a memory map are shared in place instead of being copied together. Pieces below another block are
    concatenated on conversion to Arrow.
    """

    length: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """One nested column as several blocks, each with some leaves and everything around them.

    All have the same nulls and lengths of what is around several leaves; whoever makes it has compared them.

    Attributes
    ----------
    length : int
    parts : tuple of (field, block)
        The top-level field pruned to the block's leaves (a ``lancecy.schema.Field``), and the block.
    """

    length: int
    parts: tuple[tuple[object, Block], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reordered:
    """Rows of a block, reordered by ``indices``.

    Attributes
    ----------
    length : int
    block : Block
    indices : (length,) int64
    """

    length: int
    block: Block
    indices: NDArray[np.int64]


Block: TypeAlias = (
    FixedWidth
    | VariableWidth
    | Listed
    | FixedList
    | Structured
    | Coded
    | AllNull
    | Pieces
    | Leaves
    | Reordered
)


def nbytes_of(block: Block) -> int:
    """Bytes of the values of a block without nested lists, bitmaps left out.

    Examples
    --------
    >>> nbytes_of(FixedList(2, 3, FixedWidth(6, 8, bytes(6))))
    6
    """
    if isinstance(block, FixedList):
        return nbytes_of(block.child)
    if isinstance(block, Structured):
        return sum(nbytes_of(child) for child in block.children.values())
    if isinstance(block, VariableWidth):
        return memoryview(block.offsets).nbytes + memoryview(block.values).nbytes  # type: ignore[arg-type]
    return memoryview(block.values).nbytes if isinstance(block, FixedWidth) else 0  # type: ignore[arg-type]
