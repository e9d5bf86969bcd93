"""Values of one width in chunks: plain, bit-packed, or split by byte.

One kernel call per buffer, over all chunks of a page at once; ``values`` has the registry.
Source: file sheet 2.1, section 3.4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.model.block import FixedWidth
from lancecy.encodings.model.chunks import Buffers, Chunks, require_bytes
from lancecy.encodings.model.spec import ByteSplit, InlinePacked, PackedBlocks, Plain
from lancecy.errors import FormatError, TruncatedError
from lancecy.limits import Limits
from lancecy.rows import PageRuns
from lancecy.store.base import Memory

__all__ = ["byte_split", "inline_packed", "packed_blocks", "plain", "room"]

Int64 = NDArray[np.int64]

_INLINE_VALUES = 1024


def room(num_values: int, bits: int, limits: Limits) -> tuple[object, NDArray[np.uint8]]:
    """Allocate memory for values, after checking its bound.

    Raises
    ------
    LimitError
        They take more than ``limits.page_bytes``.
    """
    nbytes = limits.check("page_bytes", (num_values * bits + 7) >> 3, "bytes of the values of a page")
    return allocate(nbytes)


def plain(spec: Plain, chunks: Chunks, limits: Limits) -> FixedWidth:
    """Decode selected plain values, of 1 bit or of bytes.

    Raises
    ------
    TruncatedError
        A chunk has fewer bytes; ``position`` is the chunk.
    """
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    require_bytes(source, (chunks.counts * spec.bits + 7) >> 3, "plain values")
    num_values = runs.num_rows
    nbytes = (num_values * spec.bits + 7) >> 3
    if nbytes > int(source.lengths.sum()):
        raise TruncatedError(f"{nbytes} bytes of values in chunks of {int(source.lengths.sum())}")
    buffer, out = allocate(nbytes)
    positions = source.positions[runs.pages]
    if spec.bits & 7:
        kernels.copy_bits(source.memory, positions, runs.starts * spec.bits, runs.counts * spec.bits, out)
    elif spec.bits:
        width = spec.bits >> 3
        positions += runs.starts * width
        if num_values == positions.size:
            kernels.gather_fixed(source.memory, positions, width, out)
        else:
            kernels.copy_spans(source.memory, positions, runs.counts * width, out)
    return FixedWidth(num_values, spec.bits, buffer)


def inline_packed(spec: InlinePacked, chunks: Chunks, limits: Limits) -> FixedWidth:
    """Decode selected bit-packed values whose width is stored before them.

    Raises
    ------
    FormatError
        A chunk has more values than a block, or another size than they need; ``position`` is the chunk.
    LimitError
        See ``room``.
    """
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    if int(chunks.counts.max(initial=0)) > _INLINE_VALUES:
        chunk = int(np.argmax(chunks.counts))
        raise FormatError(
            f"chunk {chunk} has {int(chunks.counts[chunk])} values in a block of {_INLINE_VALUES}",
            position=chunk,
        )
    buffer, out = room(runs.num_rows, spec.bits, limits)
    kernels.unpack_inline(*_chunk_arrays(source, chunks.counts), spec.bits, *_run_arrays(runs), out)
    return FixedWidth(runs.num_rows, spec.bits, buffer)


def packed_blocks(spec: PackedBlocks, chunks: Chunks, limits: Limits) -> FixedWidth:
    """Decode selected bit-packed values whose width the node gives.

    Raises
    ------
    FormatError
        A chunk has too few bytes; ``position`` is the chunk.
    LimitError
        See ``room``.
    """
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    buffer, out = room(runs.num_rows, spec.bits, limits)
    packing = (spec.bits, spec.packed_bits, spec.raw_tail)
    kernels.unpack_blocks(*_chunk_arrays(source, chunks.counts), *packing, *_run_arrays(runs), out)
    return FixedWidth(runs.num_rows, spec.bits, buffer)


def byte_split(spec: ByteSplit, chunks: Chunks, limits: Limits) -> FixedWidth:
    """Decode selected values stored byte by byte: byte j of all values together, for each j.

    Raises
    ------
    TruncatedError, LimitError
        See ``plain`` and ``room``.
    """
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    require_bytes(source, chunks.counts * (spec.bits >> 3), "split values")
    buffer, out = room(runs.num_rows, spec.bits, limits)
    kernels.join_bytes(*_chunk_arrays(source, chunks.counts), spec.bits >> 3, *_run_arrays(runs), out)
    return FixedWidth(runs.num_rows, spec.bits, buffer)


def _chunk_arrays(source: Buffers, counts: Int64) -> tuple[Memory, Int64, Int64, Int64]:
    return source.memory, source.positions, source.lengths, counts


def _run_arrays(runs: PageRuns) -> tuple[Int64, Int64, Int64]:
    return runs.pages, runs.starts, runs.counts
