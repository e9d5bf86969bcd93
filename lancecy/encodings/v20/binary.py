"""Decoders of 2.0 pages of byte strings.

Strings with running ends, whose bytes have any encoding of bytes; the same coded with symbols; and strings that
all have one length. The bytes of a large run of a memory map are not copied. Source: file sheet 2.0, sections
4.6, 4.8 and 4.11.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import fsst
from lancecy.encodings.model.block import AllNull, Block, FixedWidth, VariableWidth
from lancecy.encodings.model.spec import EndedBinary, FixedBinary, Plain, Spec, SymbolCoded, VarBinary
from lancecy.encodings.v20.fixed import capacity
from lancecy.encodings.v20.offsets import ValueSpans, read_ends, spans_of
from lancecy.encodings.v20.pages import MAX_VALUES, Pages, bare, check_unbacked, joined, misfit
from lancecy.errors import FormatError
from lancecy.limits import check_offsets
from lancecy.rows import PageRuns
from lancecy.store.reads import Ranges, Read, gather

__all__ = ["bytes_block", "read_ended_binary", "read_fixed_binary", "read_symbol_coded"]

Int64 = NDArray[np.int64]

_BYTE = Plain(8)
_FEW_RUNS = 16
_SHORT_RUN = 16
"""Rows of runs that are short on average."""
_ALONE_BYTES = 1 << 20
"""Fewest bytes of a run of strings for an array of its own, so that a map's bytes need no copy."""
_GROUP_BYTES = 1 << 30
"""Most bytes of smaller runs decoded together, well below the range of 32-bit offsets."""


def read_ended_binary(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode strings with running ends."""
    spec = pages.spec
    if not isinstance(spec, EndedBinary) or not isinstance(shape, VarBinary):
        misfit(spec, shape)
    if spec.adjustment == 0:  # every end is at least that: all pages of this form are
        return AllNull(runs.num_rows)
    if _are_short_runs(pages, runs):
        picked = yield from _read_short_runs(pages, shape, runs)
        if picked is not None:
            return picked
    bounds = _split(pages, runs) if in_pieces else [0, runs.counts.size]
    reads = [
        _read_strings(pages, shape, PageRuns(runs.pages[a:b], runs.starts[a:b], runs.counts[a:b]))
        for a, b in itertools.pairwise(bounds)
    ]
    return joined((yield from gather(reads)))


def _are_short_runs(pages: Pages, runs: PageRuns) -> bool:
    """Whether these are many short runs of a memory map, where making arrays of positions would dominate the time."""
    size = runs.counts.size
    return (
        size >= _FEW_RUNS
        and runs.num_rows <= _SHORT_RUN * size
        and pages.file.store.traits.is_mapped
        and isinstance(numbers := bare(pages.below("offsets").spec), Plain)
        and numbers.bits == 64
        and isinstance(plain := bare(pages.below("values").spec), Plain)
        and plain.bits == 8
    )


def _read_short_runs(pages: Pages, shape: VarBinary, runs: PageRuns) -> Read[VariableWidth | None]:
    """Strings taken from mapped pages; None if data is invalid or exceeds the offsets."""
    ends, ends_sizes = _plain_buffer(pages.below("offsets"))
    values, sizes = _plain_buffer(pages.below("values"))
    if bool((pages.counts > ends_sizes // 8).any()):
        return None
    (span,) = yield [Ranges(pages.file, np.concatenate((ends, values)), np.concatenate((ends_sizes, sizes)))]
    at = span.positions[: ends.size], span.positions[ends.size :]
    num_rows, width = runs.num_rows, shape.offset_width
    buffer, offsets = allocate((num_rows + 1) * width)
    bitmap, validity = allocate((num_rows + 7) >> 3)
    places, lengths = np.empty((2, runs.pages.size), np.int64)
    table = (*at, sizes, pages.numbers("adjustment"), pages.counts, runs.pages, runs.starts, runs.counts)
    try:
        total, null_count = kernels.pick_ended(
            span.memory, *table, offsets.view(f"<i{width}"), validity, places, lengths
        )
    except FormatError:
        return None
    data, out = allocate(total)
    kernels.copy_spans(span.memory, places, lengths, out)
    return VariableWidth(num_rows, width, buffer, data, bitmap if null_count else None, null_count)


def _plain_buffer(pages: Pages) -> tuple[Int64, Int64]:
    """Positions and sizes of the only buffer of plain pages."""
    spec = bare(pages.spec)
    if not isinstance(spec, Plain):
        misfit(spec, _BYTE)
    return pages.buffer(spec.buffer)


def _split(pages: Pages, runs: PageRuns) -> list[int]:
    """Bounds of groups of runs: large runs alone, small ones together."""
    values = pages.below("values")
    spec = bare(values.spec)
    if runs.counts.size == 1 or not isinstance(spec, Plain):
        return [0, runs.counts.size]
    _, sizes = values.buffer(spec.buffer)
    share = runs.counts / np.maximum(pages.counts[runs.pages], 1)
    nbytes = sizes[runs.pages] * np.minimum(share, 1.0)
    alone = nbytes >= _ALONE_BYTES
    edges = alone[1:] | alone[:-1]
    filled = np.cumsum(nbytes) // _GROUP_BYTES
    edges |= filled[1:] != filled[:-1]
    return [0, *(np.flatnonzero(edges) + 1).tolist(), runs.counts.size]


def _read_strings(pages: Pages, shape: VarBinary, runs: PageRuns) -> Read[VariableWidth]:
    offsets, values = pages.below("offsets"), pages.below("values")
    ends = yield from read_ends(offsets, runs)
    adjustments = pages.numbers("adjustment")[runs.pages]
    sizes = capacity(values)[runs.pages]
    spans = spans_of(ends, runs, adjustments, sizes, shape.offset_width, "bytes of strings")
    return bytes_block(runs.num_rows, spans, (yield from _read_bytes(values, runs, spans)))


def bytes_block(num_rows: int, spans: ValueSpans, data: object) -> VariableWidth:
    """Strings out of the offsets and validity of ``spans`` and their bytes."""
    return VariableWidth(num_rows, spans.offset_width, spans.offsets, data, spans.validity, spans.null_count)


def _read_bytes(values: Pages, runs: PageRuns, spans: ValueSpans) -> Read[object]:
    """The bytes of the rows, concatenated."""
    keep = np.flatnonzero(spans.lengths)
    if keep.size == 0:
        return b""
    needed = np.zeros(values.counts.size, np.int64)
    np.maximum.at(needed, runs.pages[keep], (spans.starts + spans.lengths)[keep])
    wanted = PageRuns(runs.pages[keep], spans.starts[keep], spans.lengths[keep])
    block = yield from values.holding(needed).read(_BYTE, wanted)
    if not isinstance(block, FixedWidth) or block.validity is not None:
        misfit(values.spec, _BYTE)
    return block.values


# -- other forms ----------------------------------------------------------------------


def read_symbol_coded(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode FSST-coded strings."""
    spec = pages.spec
    if not isinstance(spec, SymbolCoded) or not isinstance(shape, VarBinary):
        misfit(spec, shape)
    symbols = fsst.parse_symbols(spec.table)
    texts = replace(shape, in_codes=False)
    block = yield from pages.below("values").read(texts, runs, symbols is None and in_pieces)
    if symbols is None or isinstance(block, AllNull):
        return block
    if not isinstance(block, VariableWidth):
        misfit(spec.values, shape)
    return fsst.decode(symbols, block)


def read_fixed_binary(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode strings that all have the same number of bytes."""
    spec = pages.spec
    if not isinstance(spec, FixedBinary) or not isinstance(shape, VarBinary):
        misfit(spec, shape)
    num_rows, width = runs.num_rows, spec.width
    data: object = b""
    if width == 0:
        check_unbacked(num_rows, pages.file, pages.limits, "empty strings")
    else:
        if int(pages.counts.max(initial=0)) > MAX_VALUES // width:
            raise FormatError(f"a page has too many strings of {width} bytes")
        inner = pages.below("values", width)
        wanted = PageRuns(runs.pages, runs.starts * width, runs.counts * width)
        block = yield from inner.read(_BYTE, wanted)
        if not isinstance(block, FixedWidth) or block.validity is not None:
            misfit(spec, shape)
        data = block.values
    total = num_rows * width
    if shape.offset_width == 4:
        check_offsets(total, "bytes of strings")
    buffer, out = allocate((num_rows + 1) * shape.offset_width)
    out.view(f"<i{shape.offset_width}")[:] = np.arange(num_rows + 1, dtype=np.int64) * width
    return VariableWidth(num_rows, shape.offset_width, buffer, data)
