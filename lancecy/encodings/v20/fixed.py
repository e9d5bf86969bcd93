"""Decoders of 2.0 pages whose values all have one width.

Plain values, fixed-size lists of any that have one width, and the validity that a page
may have around it. Source: file sheet 2.0, sections 4.1 to 4.3.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import flat
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Pieces,
    Structured,
    VariableWidth,
)
from lancecy.encodings.model.spec import (
    BitStream,
    FixedListOf,
    Nullable,
    PackedBlocks,
    Plain,
    Spec,
    flat_bits,
)
from lancecy.encodings.v20.pages import (
    MAX_VALUES,
    Pages,
    array_of,
    bare,
    check_unbacked,
    misfit,
    require_values,
)
from lancecy.errors import FormatError
from lancecy.rows import PageRuns
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, gather

__all__ = [
    "BLOCK",
    "bits_set",
    "capacity",
    "read_fixed_list",
    "read_nullable",
    "read_nulls",
    "read_plain",
    "require_capacity",
    "with_validity",
]

Int64 = NDArray[np.int64]

BLOCK = 1024
"""Integers that are packed together."""


# -- nulls --------------------------------------------------------------------------


def read_nulls(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode pages of nulls only, of any type."""
    return AllNull(runs.num_rows)
    yield []  # makes this function a generator


def read_nullable(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode values with or without a bitmap."""
    spec = pages.spec
    if not isinstance(spec, Nullable):
        misfit(spec, shape)
    values = pages.below("values").read(shape, runs, in_pieces)
    if spec.validity is None:
        return (yield from values)
    bitmap, block = yield from gather([_read_bitmap(pages, spec.validity, runs), values])
    if not isinstance(bitmap, FixedWidth):
        misfit(spec, shape)
    return with_validity(block, array_of(bitmap.values), bitmap.null_count)


def _read_bitmap(pages: Pages, spec: Plain, runs: PageRuns) -> Read[Block]:
    """The validity of the runs, spare bits zero; ``null_count`` gives the number of its nulls."""
    positions, sizes = pages.buffer(spec.buffer)
    require_values(pages, runs, sizes * 8)
    within = runs.starts & 7
    starts = positions[runs.pages] + (runs.starts >> 3)
    (span,) = yield [Ranges(pages.file, starts, (within + runs.counts + 7) >> 3)]
    num_rows = runs.num_rows
    buffer, out = allocate((num_rows + 7) >> 3)
    ones = kernels.copy_bits(span.memory, span.positions, within, runs.counts, out)
    return FixedWidth(num_rows, 1, buffer, None, num_rows - ones)


def bits_set(bitmap: Memory, length: int) -> int:
    """Number of set bits among the first ``length``."""
    return int(np.unpackbits(bitmap, count=length, bitorder="little").sum())


def with_validity(block: Block, bitmap: Memory, null_count: int) -> Block:
    """The block with these nulls added to its own.

    Parameters
    ----------
    block : Block
    bitmap : (ceil(length / 8),) uint8
        1 = valid; spare bits zero.
    null_count : int
        Bits that are not set.
    """
    if null_count == 0 or isinstance(block, AllNull):
        return block
    if null_count == block.length:
        return AllNull(block.length)
    if isinstance(block, Pieces):
        return Pieces(block.length, tuple(_pieces_with_validity(block, bitmap)))
    if isinstance(block, Coded):
        codes = with_validity(block.codes, bitmap, null_count)
        return replace(block, codes=codes) if isinstance(codes, FixedWidth) else AllNull(block.length)
    if not isinstance(block, (FixedWidth, VariableWidth, FixedList, Structured)):
        raise TypeError(f"a {type(block).__name__} block takes no validity")
    if block.validity is not None:
        bitmap = bitmap & array_of(block.validity)[: bitmap.size]
        null_count = block.length - bits_set(bitmap, block.length)
    return replace(block, validity=bitmap, null_count=null_count)


def _pieces_with_validity(block: Pieces, bitmap: Memory) -> list[Block]:
    blocks, first = [], np.zeros(1, np.int64)
    for piece in block.blocks:
        out = np.empty((piece.length + 7) >> 3, np.uint8)
        ones = kernels.copy_bits(bitmap, np.zeros(1, np.int64), first, np.array([piece.length]), out)
        blocks.append(with_validity(piece, out, piece.length - ones))
        first = first + piece.length
    return blocks


# -- plain --------------------------------------------------------------------------


def capacity(pages: Pages) -> Int64:
    """(num_pages,) int64: how many values of this node the bytes of each page hold; very many if unknown."""
    return pages.worked_out("capacity", _capacity)


def require_capacity(pages: Pages, runs: PageRuns) -> None:
    """Refuse pages with runs whose bytes cannot hold the values they claim; see ``pages.require_values``."""
    if pages.worked_out("is short", lambda pages: bool((pages.counts > capacity(pages)).any())):
        require_values(pages, runs, capacity(pages))


def _capacity(pages: Pages) -> Int64:
    spec = bare(pages.spec)
    if isinstance(spec, Plain) and spec.bits:
        return pages.buffer(spec.buffer)[1] * 8 // spec.bits
    if isinstance(spec, BitStream):
        return pages.buffer(spec.buffer)[1] * 8 // spec.packed_bits
    if isinstance(spec, PackedBlocks) and spec.packed_bits:
        return pages.buffer(spec.buffer)[1] // (128 * spec.packed_bits) * BLOCK
    return np.full(pages.counts.size, MAX_VALUES, np.int64)


def read_plain(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Values back to back; large aligned runs of a memory map are not copied."""
    spec = pages.spec
    if not isinstance(spec, Plain) or not isinstance(shape, Plain) or spec.bits != shape.bits:
        misfit(spec, shape)
    require_capacity(pages, runs)
    positions, _ = pages.buffer(spec.buffer)
    return flat.read_flat(shape, pages.file, positions, runs, in_pieces)


def read_fixed_list(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Fixed-size lists: flattened values if only the lists themselves can be null."""
    spec = pages.spec
    if not isinstance(spec, FixedListOf) or not isinstance(shape, FixedListOf) or spec.size != shape.size:
        misfit(spec, shape)
    leaf = _plain_leaf(spec, shape)
    if leaf is None:
        return _read_elements(pages, shape, runs)
    bits = flat_bits(shape)
    positions, sizes = pages.buffer(leaf.buffer)
    if bits:
        require_values(pages, runs, sizes * 8 // bits)
    return flat.read_flat(shape, pages.file, positions, runs, in_pieces)


def _plain_leaf(spec: Spec, shape: Spec) -> Plain | None:
    """The plain node below fixed-size lists of the shape; None if something else is there."""
    while isinstance(spec, FixedListOf) and isinstance(shape, FixedListOf) and spec.size == shape.size:
        spec, shape = bare(spec.child), shape.child
    is_plain = isinstance(spec, Plain) and isinstance(shape, Plain) and spec.bits == shape.bits
    return spec if is_plain and isinstance(spec, Plain) else None


def _read_elements(pages: Pages, shape: FixedListOf, runs: PageRuns) -> Read[Block]:
    size, num_rows = shape.size, runs.num_rows
    if size == 0:
        check_unbacked(num_rows, pages.file, pages.limits, "empty lists")
        return FixedList(num_rows, 0, AllNull(0))
    if int(pages.counts.max(initial=0)) > MAX_VALUES // size:
        raise FormatError(f"a page has too many lists of {size} elements")
    elements = PageRuns(runs.pages, runs.starts * size, runs.counts * size)
    child = yield from pages.below("child", size).read(shape.child, elements)
    return FixedList(num_rows, size, child)
