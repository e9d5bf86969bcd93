"""Write pages of 0.1 files: the inverse of ``read``, for many pages of a column at once.

The pages of a node lie back to back in one buffer, so a run of batches costs one write per node and not one per
page. A file has no bitmaps of nulls: null texts and empty texts both take no bytes; everything else has no
nulls. ``check_storable`` refuses values that would change when read back.

Source: file sheet 0.1, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.blocks.select import offsets_of
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
from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["LegacyPages", "check_storable", "legacy_pages", "refused"]

Int64 = NDArray[np.int64]
Recode = Callable[[Field, Coded], FixedWidth]

_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class LegacyPages:
    """Pages of one node, back to back.

    Attributes
    ----------
    field : Field
    buffer : (nbytes,) uint8
        To be written at the position given to ``legacy_pages``.
    positions : (num_pages,) int64, bytes
        As the page table states them: those of text are the positions of its offsets.
    lengths : (num_pages,) int64
        Likewise: of lists one more than there are.
    """

    field: Field
    buffer: Memory
    positions: Int64
    lengths: Int64


# -- storable values ------------------------------------------------------------------------------


def refused(path: str, what: str, first: str = "2.0") -> UnsupportedError:
    """The error for values that 0.1 files cannot hold."""
    return UnsupportedError(
        f"column {printable(path)!r} has {what}, which files of version 0.1 cannot hold: write version {first}",
        feature=what,
    )


def check_storable(field: Field, block: Block, path: str = "") -> None:
    """Refuse values that would change when read back.

    Parameters
    ----------
    field : Field
    block : Block
        As ``from_arrow`` makes them.
    path : str
        Of the field, if it is below others.

    Raises
    ------
    SchemaError
        A null where the field allows none.
    UnsupportedError
        A null of another type than text, or an empty text in a nullable field, which would become a null.
    """
    path = path or field.name
    _check_nulls(field, block, path)
    if isinstance(block, Structured):
        for child in field.children:
            check_storable(child, block.children[child.id], f"{path}.{child.name}")
    elif isinstance(block, Listed):
        (child,) = field.children
        check_storable(child, block.child, f"{path}.{child.name}")
    elif isinstance(block, FixedList):
        items = replace(field, nullable=True)
        check_storable(items, block.child, f"{path}.item")
    elif isinstance(block, VariableWidth) and field.nullable:
        empty = np.diff(offsets_of(block)) == 0
        if int(np.count_nonzero(empty)) > block.null_count:
            raise UnsupportedError(
                f"column {printable(path)!r} may be null and has values of no bytes, which files of version 0.1 read "
                "back as nulls: make them null, or the column not nullable, or write version 2.0",
                feature="empty values",
            )


def _check_nulls(field: Field, block: Block, path: str) -> None:
    count = block.codes.null_count if isinstance(block, Coded) else getattr(block, "null_count", 0)
    if not count:
        return
    if not field.nullable:
        raise SchemaError(
            f"column {printable(path)!r} has nulls, which its field does not allow", difference="nulls"
        )
    if isinstance(block, Structured):
        raise refused(path, "structs that are null", "2.1")
    is_text = isinstance(block.dictionary if isinstance(block, Coded) else block, VariableWidth)
    if not is_text:
        raise refused(path, "nulls")


# -- pages ----------------------------------------------------------------------------------------


def legacy_pages(
    field: Field, block: Block, starts: Int64, position: int, recode: Recode
) -> Iterator[LegacyPages]:
    r"""The pages of a column and of all below it, depth first.

    Parameters
    ----------
    field : Field
    block : Block
        As ``from_arrow`` makes them, checked.
    starts : (num_pages + 1,) int64
        First row of each page, then the number of rows.
    position : int, bytes
        Position of the first buffer; the others follow without gaps.
    recode : function of Field and Coded
        Returns the codes of the values in the dictionary of the file.

    Examples
    --------
    >>> words = VariableWidth(3, 4, np.array([0, 1, 1, 3], np.int32), np.frombuffer(b"abc", np.uint8))
    >>> pages = next(legacy_pages(Field("w", 0, logical_type="string"), words, np.array([0, 2, 3]), 100, None))
    >>> pages.positions.tolist(), pages.buffer[1:25].view(np.int64).tolist()
    ([101, 127], [100, 101, 101])
    """
    counts = starts[1:] - starts[:-1]
    if isinstance(block, Structured):
        zeros = np.zeros_like(counts)
        yield LegacyPages(field, _NO_BYTES, zeros, zeros)
        for child in field.children:
            for pages in legacy_pages(child, block.children[child.id], starts, position, recode):
                yield pages
                position += pages.buffer.size
    elif isinstance(block, Listed):
        offsets = offsets_of(block)
        kind = np.int32 if block.offset_width == 4 else np.int64
        rows, page = _with_ends(starts)
        buffer = (offsets[rows] - offsets[starts[:-1]][page]).astype(kind).view(np.uint8)
        at = (starts[:-1] + np.arange(counts.size)) * block.offset_width + position
        yield LegacyPages(field, buffer, at, counts + 1)
        (child,) = field.children
        position += buffer.size
        yield from legacy_pages(child, block.child, offsets[starts], position, recode)
    elif isinstance(block, VariableWidth):
        yield _texts(field, block, starts, position)
    elif isinstance(block, AllNull):
        yield LegacyPages(field, _NO_BYTES, np.full_like(counts, position), counts)
    else:
        memory, bits = _flat(recode(field, block) if isinstance(block, Coded) else block)
        buffer, at = _cut(memory, bits, starts)
        yield LegacyPages(field, buffer, at + position, counts)


def _with_ends(starts: Int64) -> tuple[Int64, Int64]:
    """Per page one index for each stored offset (its rows and the end of the last one), and the page of each index."""
    page = np.arange(starts.size - 1).repeat(starts[1:] - starts[:-1] + 1)
    return np.arange(starts[0], starts[0] + page.size) - page, page


def _texts(field: Field, block: VariableWidth, starts: Int64, position: int) -> LegacyPages:
    """Pages of bytes, followed by the file position of each value."""
    offsets, counts = offsets_of(block), starts[1:] - starts[:-1]
    values = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    borders = offsets[starts]
    sizes, tables = borders[1:] - borders[:-1], 8 * (counts + 1)
    at = (sizes + tables).cumsum() - tables
    begin = at - sizes
    rows, page = _with_ends(starts)
    ends = offsets[rows] + (position + begin - borders[:-1])[page]
    out = np.empty(int(at[-1] + tables[-1]), np.uint8)
    kernels.place_spans(values, borders[:-1], sizes, out, begin)
    kernels.place_spans(ends.view(np.uint8), tables.cumsum() - tables, tables, out, at)
    return LegacyPages(field, out, at + position, counts)


def _flat(block: Block) -> tuple[Memory, int]:
    """The values of a column of one width, and the bits per row; spare bits are 0."""
    size = 1
    while isinstance(block, FixedList):
        size *= block.size
        block = block.child
    if not isinstance(block, FixedWidth):
        raise TypeError(f"a {type(block).__name__} block has no one width")
    total = block.length * block.bits
    memory: Memory = np.frombuffer(block.values, np.uint8)[: (total + 7) // 8]  # type: ignore[call-overload]
    if total % 8:
        memory = memory.copy()
        memory[-1] &= (1 << total % 8) - 1
    return memory, block.bits * size


def _cut(memory: Memory, bits: int, starts: Int64) -> tuple[Memory, Int64]:
    """Pages that each begin at a byte, and their positions."""
    begin = starts * bits
    if bits % 8 == 0 or not (begin[:-1] & 7).any():
        return memory, begin[:-1] >> 3
    counts = begin[1:] - begin[:-1]
    nbytes = (counts + 7) // 8
    at = np.cumsum(nbytes) - nbytes
    found = np.zeros(8 * int(nbytes.sum()), np.bool_)
    total = int(begin[-1])
    found[np.arange(total) + np.repeat(8 * at - begin[:-1], counts)] = mask_of(memory, total)
    return np.packbits(found, bitorder="little"), at
