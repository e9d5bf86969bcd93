"""Decoders of 2.0 pages whose values have different layouts in the file and in memory.

Buffers compressed as a whole, integers of fewer bits than they have in memory, and
structs stored row by row. Source: file sheet 2.0, sections 4.9, 4.10, 4.12 and 6.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import flat
from lancecy.encodings.codecs.general import decompress_many
from lancecy.encodings.model.block import Block, FixedWidth, Structured
from lancecy.encodings.model.chunks import touched
from lancecy.encodings.model.spec import (
    BitStream,
    Compressed,
    FixedListOf,
    PackedBlocks,
    PackedRows,
    Plain,
    Spec,
    StructOf,
)
from lancecy.encodings.v20.fixed import BLOCK, require_capacity
from lancecy.encodings.v20.pages import Pages, array_of, bare, check_unbacked, misfit, served
from lancecy.errors import FormatError
from lancecy.rows import PageRuns
from lancecy.store.reads import Ranges, Read

__all__ = ["read_bit_stream", "read_compressed", "read_packed_blocks", "read_packed_rows"]


def read_compressed(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode values whose buffer is compressed as a whole; reading any row decompresses the whole page."""
    spec = pages.spec
    if not isinstance(spec, Compressed) or not isinstance(spec.values, Plain):
        misfit(spec, shape)
    if not isinstance(shape, Plain) or shape.bits != spec.values.bits:
        misfit(spec.values, shape)
    numbers, local = touched(runs)
    positions, sizes = pages.buffer(spec.buffer)
    (span,) = yield [Ranges(pages.file, positions[numbers], sizes[numbers])]
    memory, starts, lengths = decompress_many(
        spec.scheme, span.memory, span.positions, sizes[numbers], pages.limits
    )
    plain = replace(
        pages,
        specs=(replace(spec.values, buffer=0),),
        counts=pages.counts[numbers],
        first_buffer=np.arange(numbers.size, dtype=np.int64),
        positions=starts,
        sizes=lengths,
        file=replace(pages.file, size=memory.size),
    )
    return served(plain.read(shape, local, in_pieces), memory)


def _check_integers(spec: BitStream | PackedBlocks, shape: Spec) -> None:
    if not isinstance(shape, Plain) or shape.bits != spec.bits:
        misfit(spec, shape)


def read_bit_stream(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode integers in one stream of bits."""
    spec = pages.spec
    if not isinstance(spec, BitStream):
        misfit(spec, shape)
    _check_integers(spec, shape)
    require_capacity(pages, runs)
    positions, _ = pages.buffer(spec.buffer)
    first, nbits = runs.starts * spec.packed_bits, runs.counts * spec.packed_bits
    within = first & 7
    starts = positions[runs.pages] + (first >> 3)
    (span,) = yield [Ranges(pages.file, starts, (within + nbits + 7) >> 3)]
    num_rows = runs.num_rows
    buffer, out = allocate(num_rows * (spec.bits >> 3))
    kernels.unpack_stream(
        span.memory, span.positions, within, runs.counts, spec.packed_bits, spec.bits, spec.signed, out
    )
    return FixedWidth(num_rows, spec.bits, buffer)


def read_packed_blocks(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode integers in blocks of 1,024; only blocks with selected rows are read."""
    spec = pages.spec
    if not isinstance(spec, PackedBlocks):
        misfit(spec, shape)
    _check_integers(spec, shape)
    num_rows = runs.num_rows
    if spec.packed_bits == 0:
        check_unbacked(num_rows, pages.file, pages.limits, "integers of no bits")
    # The last block of a page is stored whole, even if it has few values.
    require_capacity(pages, runs)
    positions, _ = pages.buffer(spec.buffer)
    block_bytes = 128 * spec.packed_bits
    first, last = runs.starts // BLOCK, -(-(runs.starts + runs.counts) // BLOCK)
    lengths = (last - first) * block_bytes
    (span,) = yield [Ranges(pages.file, positions[runs.pages] + first * block_bytes, lengths)]
    buffer, out = allocate(num_rows * (spec.bits >> 3))
    stored = (last - first) * BLOCK
    starts = runs.starts - first * BLOCK
    chunks = np.arange(lengths.size, dtype=np.int64)
    kernels.unpack_blocks(
        span.memory,
        span.positions,
        lengths,
        stored,
        spec.bits,
        spec.packed_bits,
        spec.raw_tail,
        chunks,
        starts,
        runs.counts,
        out,
    )
    return FixedWidth(num_rows, spec.bits, buffer)


# -- rows ---------------------------------------------------------------------------


def read_packed_rows(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode structs stored row by row into their fields."""
    spec = pages.spec
    if not isinstance(spec, PackedRows) or not isinstance(shape, StructOf):
        misfit(spec, shape)
    if len(spec.children) != len(shape.children):
        raise FormatError(
            f"packed rows of {len(spec.children)} fields, where the type has {len(shape.children)}"
        )
    for child, wanted in zip(spec.children, shape.children.values(), strict=True):
        _check_packed(child, wanted)
    num_rows = runs.num_rows
    if sum(spec.bits) == 0:
        check_unbacked(num_rows, pages.file, pages.limits, "packed rows")
    width = Plain(sum(spec.bits))
    rows = yield from pages.below("values").read(width, runs)
    if not isinstance(rows, FixedWidth):
        misfit(spec, shape)
    table = array_of(rows.values)[: num_rows * (width.bits >> 3)].reshape(num_rows, -1)
    children: dict[int, Block] = {}
    at = 0
    for (field_id, wanted), bits in zip(shape.children.items(), spec.bits, strict=True):
        children[field_id] = _field_of_rows(wanted, table, at, bits >> 3)
        at += bits >> 3
    return Structured(num_rows, children)


def _check_packed(child: Spec, wanted: Spec) -> None:
    spec = bare(child)
    if isinstance(spec, FixedListOf) and isinstance(wanted, FixedListOf) and spec.size == wanted.size:
        return _check_packed(spec.child, wanted.child)
    if not isinstance(spec, Plain) or not isinstance(wanted, Plain) or spec.bits != wanted.bits:
        misfit(spec, wanted)
    return None


def _field_of_rows(shape: Spec, table: NDArray[np.uint8], start: int, width: int) -> Block:
    num_rows = table.shape[0]
    if width == 0:
        return flat.nested(shape, FixedWidth(num_rows, 0, b""))
    buffer, out = allocate(num_rows * width)
    # One element per field: NumPy then moves whole values and not single bytes.
    source = np.ndarray((num_rows,), f"V{width}", table, start, (table.shape[1],))
    out.view(f"V{width}")[:] = source
    return flat.nested(shape, FixedWidth(num_rows, width * 8, buffer))
