"""Plain values: one run of bytes or bits per page, into one buffer or as views.

Fixed-size lists are flattened in the bytes; :func:`nested` restores them afterwards. A selection of few large
aligned runs of a memory map is not copied: a single run becomes a view, several become a block in pieces. Used by
0.1 and by flat pages of 2.x.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, memory_of
from lancecy.encodings.model.block import Block, FixedList, FixedWidth, Pieces
from lancecy.encodings.model.spec import FixedListOf, Plain, Spec, flat_bits, flat_leaf
from lancecy.rows import PageRuns
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = ["VIEW_BYTES", "copy_or_view", "flattened", "nested", "read_flat"]

Int64 = NDArray[np.int64]

VIEW_BYTES = 256 << 10
"""Fewest bytes of a run that becomes an Arrow array of its own instead of being copied."""


def nested(spec: Spec, flat: FixedWidth) -> Block:
    """Restore the fixed-size lists of ``spec`` over their flattened values; memory is shared."""
    if isinstance(spec, Plain):
        return FixedWidth(flat.length, spec.bits, flat.values)
    if not isinstance(spec, FixedListOf):
        raise TypeError(f"a {type(spec).__name__} node has no flat values")
    inner = FixedWidth(flat.length * spec.size, flat_bits(spec.child), flat.values)
    return FixedList(flat.length, spec.size, nested(spec.child, inner))


def read_flat(
    spec: Plain | FixedListOf, file: SourceFile, positions: Int64, runs: PageRuns, in_pieces: bool
) -> Read[Block]:
    """Decode runs of a plain column.

    Parameters
    ----------
    spec : Plain or FixedListOf
    file : SourceFile
    positions : (num_pages,) int64, bytes
        Start of each page; every run lies within the file.
    runs : PageRuns
        At least one, none empty.
    in_pieces : bool
        Whether several blocks are allowed (whole columns, not children of others).

    Raises
    ------
    FormatError
        Bytes are missing.
    """
    bits = flat_bits(spec)
    starts = positions[runs.pages]
    if bits & 7:
        return _read_bits(spec, bits, file, starts, runs)
    return _read_bytes(spec, bits >> 3, file, starts, runs, in_pieces)


def _read_bits(
    spec: Plain | FixedListOf, bits: int, file: SourceFile, positions: Int64, runs: PageRuns
) -> Read[Block]:
    num_rows = runs.num_rows
    first, counts = runs.starts * bits, runs.counts * bits
    within = first & 7
    (span,) = yield [Ranges(file, positions + (first >> 3), (within + counts + 7) >> 3)]
    buffer, out = allocate((num_rows * bits + 7) >> 3)
    kernels.copy_bits(span.memory, span.positions, within, counts, out)
    return nested(spec, FixedWidth(num_rows, bits, buffer))


def _read_bytes(
    spec: Plain | FixedListOf, width: int, file: SourceFile, positions: Int64, runs: PageRuns, in_pieces: bool
) -> Read[Block]:
    num_rows = runs.num_rows
    total = num_rows * width
    if width == 0:
        return nested(spec, FixedWidth(num_rows, 0, b""))
    positions, lengths = _coalesced(positions + runs.starts * width, runs.counts * width)
    (span,) = yield [Ranges(file, positions, lengths)]
    align = min(8, max(1, flat_leaf(spec).bits >> 3))
    if in_pieces and lengths.size > 1 and total >= VIEW_BYTES * lengths.size:
        return _pieces(spec, width, file, span, lengths, align)
    if num_rows == lengths.size and num_rows > 1:
        buffer, out = allocate(total)
        kernels.gather_fixed(span.memory, span.positions, width, out)
        return nested(spec, FixedWidth(num_rows, width * 8, buffer))
    values = copy_or_view(span, file, lengths, total, align)
    return nested(spec, FixedWidth(num_rows, width * 8, values))


def _coalesced(positions: Int64, lengths: Int64) -> tuple[Int64, Int64]:
    """Join runs with adjacent bytes: files of a single plain column become one run."""
    if lengths.size < 2:
        return positions, lengths
    breaks = positions[1:] != positions[:-1] + lengths[:-1]
    joins = lengths.size - 1 - int(np.count_nonzero(breaks))
    if joins * 4 < lengths.size:  # too few to gain anything
        return positions, lengths
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    return positions[first], np.add.reduceat(lengths, first)


def copy_or_view(span: Span, file: SourceFile, lengths: Int64, total: int, align: int = 1) -> object:
    """The bytes of the runs back to back: a view if they are one large aligned run of a map, else a copy.

    Parameters
    ----------
    span : Span
        One position per run.
    file : SourceFile
        Its size tells whether ``span.memory`` is the whole file.
    lengths : (num_runs,) int64, bytes
    total : int, bytes
        Their sum.
    align : int
        Alignment of the address of a view.
    """
    if lengths.size == 1 and _may_view(span, file, total, align):
        start = int(span.positions[0])
        return span.memory[start : start + total]
    buffer, out = allocate(total)
    kernels.copy_spans(span.memory, span.positions, lengths, out)
    return buffer


def _may_view(span: Span, file: SourceFile, nbytes: int, align: int) -> bool:
    if nbytes < VIEW_BYTES or span.memory.size != file.size:
        return False
    start = int(span.positions[0])
    return (_address(span) + start) % align == 0 and 0 <= start <= span.memory.size - nbytes


def _address(span: Span) -> int:
    address: int = span.memory.__array_interface__["data"][0]
    return address


def _pieces(
    spec: Plain | FixedListOf, width: int, file: SourceFile, span: Span, lengths: Int64, align: int
) -> Block:
    """Large aligned runs as views, the runs between them copied together."""
    is_view = lengths >= VIEW_BYTES
    is_view &= (span.positions + _address(span)) % align == 0
    is_view &= (span.positions >= 0) & (lengths <= span.memory.size - span.positions)
    if span.memory.size != file.size:
        is_view[:] = False
    blocks = []
    for start, stop in _groups(is_view):
        total = int(lengths[start:stop].sum())
        part = Span(span.memory, span.positions[start:stop])
        values = copy_or_view(part, file, lengths[start:stop], total, align)
        blocks.append(nested(spec, FixedWidth(total // width, width * 8, values)))
    return blocks[0] if len(blocks) == 1 else Pieces(sum(b.length for b in blocks), tuple(blocks))


def _groups(is_view: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Half-open groups of runs: every view alone, adjacent other runs together."""
    edges = np.flatnonzero(is_view[1:] | is_view[:-1]) + 1
    bounds = [0, *edges.tolist(), is_view.size]
    return itertools.pairwise(bounds)


def flattened(block: Block) -> tuple[Spec, list[tuple[Memory, int]]]:
    """Spec of values of one width, and their buffers with the bits per slot of each.

    Fixed-size lists have a bitmap for every list whose elements may be null, outer lists first. The validity
    of the slots themselves is left out.
    """
    if isinstance(block, FixedWidth):
        return Plain(block.bits), [(memory_of(block.values), block.bits)]
    if not isinstance(block, FixedList):
        raise TypeError(f"a {type(block).__name__} block has no values of one width")
    inner, buffers = flattened(block.child)
    validity = getattr(block.child, "validity", None)
    buffers = [(memory, bits * block.size) for memory, bits in buffers]
    if validity is not None:
        buffers.insert(0, (memory_of(validity), block.size))
    return FixedListOf(block.size, inner, None if validity is None else 0), buffers
