"""Compressed values of version 2.1 and later: one function per node, over all chunks of a page at once.

:func:`decode` takes chunks and the runs wanted of them and gives one block with exactly
those values, by one or two kernel calls per buffer; ``_DECODERS`` is the registry.
:func:`decode_block` is for a buffer that stands alone (a dictionary), whose strings and
runs are laid out differently. What a node may expand to is bounded here before memory is
asked for: by the bytes present where the encoding ties them, else by ``Limits.page_bytes``.

Source: file sheet 2.1, sections 3.4 to 3.7. Imports ``spec``, ``block``, ``chunks``, ``strings``,
``sequences``, ``arrow.allocate``, ``fsst``, ``general``, ``kernels``, ``limits`` and ``errors``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings import fsst, general
from lancecy.encodings.arrow import allocate
from lancecy.encodings.block import AllNull, Block, FixedList, FixedWidth, VariableWidth
from lancecy.encodings.chunks import (
    Buffers,
    Chunks,
    places_of,
    require_bytes,
    split_runs,
    starts_of,
    whole_runs,
)
from lancecy.encodings.sequences import (
    has_payload,
    items_by_code,
    ranges,
    running_sums,
    split_dictionary,
)
from lancecy.encodings.spec import (
    BlockDictionary,
    ByteSplit,
    Compressed,
    Deltas,
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    PackedRows,
    Plain,
    Repeated,
    RunLengths,
    Sequence,
    Spec,
    SymbolCoded,
    Variable,
)
from lancecy.encodings.strings import block_strings, chunk_strings, strings_at
from lancecy.errors import FormatError, TruncatedError, UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import PageRuns
from lancecy.store.base import Memory

__all__ = ["Buffers", "Chunks", "as_numbers", "decode", "decode_block", "decode_levels"]

Int64 = NDArray[np.int64]

_INLINE_VALUES = 1024


def decode(spec: Spec, chunks: Chunks, limits: Limits) -> Block:
    """The wanted values of some chunks.

    Parameters
    ----------
    spec : Spec
        As ``v21_wire`` makes it: buffer numbers are below ``len(chunks.buffers)``.
    chunks : Chunks
        Buffers of each chunk lie in their memory.
    limits : Limits

    Returns
    -------
    Block
        ``chunks.runs.num_rows`` values without a validity of their own; elements of lists may have one.

    Raises
    ------
    FormatError
        The bytes are not of this encoding; ``position`` is mostly the chunk. TruncatedError if some lack.
    LimitError
        The values would take more than ``limits`` allow.
    UnsupportedError
        A node of a version that is not read yet.
    """
    decoder = _DECODERS.get(type(spec))
    if decoder is None:
        raise UnsupportedError(f"chunks of {type(spec).__name__} values", feature=type(spec).__name__)
    return decoder(spec, chunks, limits)


def _room(num_values: int, bits: int, limits: Limits) -> tuple[object, NDArray[np.uint8]]:
    nbytes = limits.check("page_bytes", (num_values * bits + 7) >> 3, "bytes of the values of a page")
    return allocate(nbytes)


def _plain(spec: Plain, chunks: Chunks, limits: Limits) -> Block:
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


def _inline_packed(spec: InlinePacked, chunks: Chunks, limits: Limits) -> Block:
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    if int(chunks.counts.max(initial=0)) > _INLINE_VALUES:
        chunk = int(np.argmax(chunks.counts))
        raise FormatError(
            f"chunk {chunk} has {int(chunks.counts[chunk])} values in a block of {_INLINE_VALUES}",
            position=chunk,
        )
    buffer, out = _room(runs.num_rows, spec.bits, limits)
    kernels.unpack_inline(*_of(source, chunks.counts), spec.bits, *_wanted(runs), out)
    return FixedWidth(runs.num_rows, spec.bits, buffer)


def _packed_blocks(spec: PackedBlocks, chunks: Chunks, limits: Limits) -> Block:
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    buffer, out = _room(runs.num_rows, spec.bits, limits)
    packing = (spec.bits, spec.packed_bits, spec.raw_tail)
    kernels.unpack_blocks(*_of(source, chunks.counts), *packing, *_wanted(runs), out)
    return FixedWidth(runs.num_rows, spec.bits, buffer)


def _run_lengths(spec: RunLengths, chunks: Chunks, limits: Limits) -> Block:
    values, lengths = spec.values, spec.lengths
    if not isinstance(values, Plain):
        raise UnsupportedError("runs whose values are coded", feature="coded runs")
    left, runs = chunks.buffers[values.buffer], chunks.runs
    right, length_bits = _lengths_of(lengths, chunks.buffers, left.lengths // (values.bits >> 3), limits)
    if left.memory is not right.memory:
        left, right = _side_by_side(left, right)
    buffer, out = _room(runs.num_rows, values.bits, limits)
    spans = (left.positions, left.lengths, right.positions, right.lengths)
    widths = (values.bits >> 3, length_bits >> 3)
    kernels.expand_runs(left.memory, *spans, chunks.counts, *widths, *_wanted(runs), out)
    return FixedWidth(runs.num_rows, values.bits, buffer)


def _lengths_of(
    spec: Spec, buffers: tuple[Buffers, ...], counts: Int64, limits: Limits
) -> tuple[Buffers, int]:
    """Plain lengths of runs, ``counts`` of each chunk, and their bits; from 2.3 on they may be coded."""
    if isinstance(spec, Plain):
        return buffers[spec.buffer], spec.bits
    block = decode(spec, Chunks(buffers, counts, whole_runs(counts)), limits)
    if not isinstance(block, FixedWidth) or block.bits not in (8, 16, 32, 64):
        raise FormatError("lengths of runs are no integers")
    width = block.bits >> 3
    memory: Memory = np.frombuffer(block.values, np.uint8, block.length * width)  # type: ignore[call-overload]
    return Buffers(memory, starts_of(counts)[:-1] * width, counts * width), block.bits


def _side_by_side(left: Buffers, right: Buffers) -> tuple[Buffers, Buffers]:
    """Both in one memory: the kernel takes one, and compression moves the values out of that of the chunks."""
    memory = np.empty(left.memory.size + int(right.lengths.sum()), np.uint8)
    memory[: left.memory.size] = left.memory
    kernels.copy_spans(right.memory, right.positions, right.lengths, memory[left.memory.size :])
    positions = left.memory.size + np.cumsum(right.lengths) - right.lengths
    return replace(left, memory=memory), Buffers(memory, positions, right.lengths)


def _byte_split(spec: ByteSplit, chunks: Chunks, limits: Limits) -> Block:
    source, runs = chunks.buffers[spec.buffer], chunks.runs
    require_bytes(source, chunks.counts * (spec.bits >> 3), "split values")
    buffer, out = _room(runs.num_rows, spec.bits, limits)
    kernels.join_bytes(*_of(source, chunks.counts), spec.bits >> 3, *_wanted(runs), out)
    return FixedWidth(runs.num_rows, spec.bits, buffer)


def _variable(spec: Variable, chunks: Chunks, limits: Limits) -> Block:
    if spec.offsets is None:
        return chunk_strings(spec, chunks)
    counts = chunks.counts + 1
    # Coded offsets are in the buffer before the bytes, if they have one.
    source = chunks.buffers[spec.buffer - 1] if has_payload(spec.offsets) and spec.buffer else None
    offsets = _alone(spec.offsets, source, counts, whole_runs(counts), limits)
    return strings_at(spec, chunks, _integers(offsets))


def _symbol_coded(spec: SymbolCoded, chunks: Chunks, limits: Limits) -> Block:
    return _without_symbols(spec, decode(spec.values, chunks, limits))


def _without_symbols(spec: SymbolCoded, coded: Block) -> Block:
    symbols = fsst.parse_symbols(spec.table)
    if symbols is None:
        return coded
    if not isinstance(coded, VariableWidth):
        raise FormatError("symbols do not code strings")
    return fsst.decode(symbols, coded)


def _fixed_list(spec: FixedListOf, chunks: Chunks, limits: Limits) -> Block:
    elements = chunks.scaled(spec.size)
    child = decode(spec.child, elements, limits)
    if spec.validity is not None and isinstance(child, FixedWidth | FixedList):
        source, runs = chunks.buffers[spec.validity], elements.runs
        require_bytes(source, (elements.counts + 7) >> 3, "validity of list items")
        buffer, out = _room(child.length, 1, limits)
        valid = kernels.copy_bits(source.memory, source.positions[runs.pages], runs.starts, runs.counts, out)
        if valid != child.length:
            child = replace(child, validity=buffer, null_count=child.length - valid)
    return FixedList(chunks.runs.num_rows, spec.size, child)


def _packed_rows(spec: PackedRows, chunks: Chunks, limits: Limits) -> Block:
    return decode(spec.values, chunks, limits)


def _repeated(spec: Repeated, chunks: Chunks, limits: Limits) -> Block:
    num_values = chunks.runs.num_rows
    if spec.value is None:
        return AllNull(num_values)
    width = len(spec.value)
    buffer, out = _room(num_values, width * 8, limits)
    if width:
        out.reshape(num_values, width)[:] = np.frombuffer(spec.value, np.uint8)
    return FixedWidth(num_values, width * 8, buffer)


def _sequence(spec: Sequence, chunks: Chunks, limits: Limits) -> Block:
    limits.check("page_bytes", chunks.runs.num_rows * 8, "bytes of the values of a page")
    return FixedWidth(chunks.runs.num_rows, spec.bits, ranges(spec, chunks))


def _deltas(spec: Deltas, chunks: Chunks, limits: Limits) -> Block:
    limits.check("page_bytes", int(chunks.counts.sum()) * 8, "bytes of the values of a page")
    counts = np.maximum(chunks.counts - 1, 0)
    deltas = decode(spec.deltas, Chunks(chunks.buffers, counts, whole_runs(counts)), limits)
    numbers = running_sums(spec, chunks, _integers(deltas).view(np.uint64))
    return FixedWidth(numbers.size, spec.bits, numbers)


def _block_dictionary(spec: BlockDictionary, chunks: Chunks, limits: Limits) -> Block:
    left = right = None
    if has_payload(spec):
        left, right = split_dictionary(chunks.buffers[spec.buffer])
    item_counts = np.full(chunks.counts.size, spec.num_items, np.int64)
    codes = as_numbers(_alone(spec.codes, left, chunks.counts, whole_runs(chunks.counts), limits))
    items = as_numbers(_alone(spec.items, right, item_counts, whole_runs(item_counts), limits))
    starts = starts_of(chunks.counts)[chunks.runs.pages] + chunks.runs.starts
    numbers = items_by_code(codes, items, chunks.counts, spec.num_items)[
        places_of(starts, chunks.runs.counts)
    ]
    return FixedWidth(numbers.size, items.dtype.itemsize * 8, numbers)


def _compressed(spec: Compressed, chunks: Chunks, limits: Limits) -> Block:
    source = chunks.buffers[spec.buffer]
    opened = general.decompress_many(spec.scheme, source.memory, source.positions, source.lengths, limits)
    buffers = list(chunks.buffers)
    buffers[spec.buffer] = Buffers(*opened)
    return decode(spec.values, replace(chunks, buffers=tuple(buffers)), limits)


_DECODERS: dict[type[object], Callable[[Any, Chunks, Limits], Block]] = {
    Plain: _plain,
    InlinePacked: _inline_packed,
    PackedBlocks: _packed_blocks,
    RunLengths: _run_lengths,
    ByteSplit: _byte_split,
    Variable: _variable,
    SymbolCoded: _symbol_coded,
    FixedListOf: _fixed_list,
    PackedRows: _packed_rows,
    Repeated: _repeated,
    Compressed: _compressed,
    Sequence: _sequence,
    Deltas: _deltas,
    BlockDictionary: _block_dictionary,
}


def _of(source: Buffers, counts: Int64) -> tuple[Memory, Int64, Int64, Int64]:
    return source.memory, source.positions, source.lengths, counts


def _wanted(runs: PageRuns) -> tuple[Int64, Int64, Int64]:
    return runs.pages, runs.starts, runs.counts


# -- buffers that stand alone ---------------------------------------------------------


def decode_block(spec: Spec, memory: Memory, num_items: int, limits: Limits) -> Block:
    r"""All values of a buffer that is not part of a chunk, such as a dictionary.

    Parameters
    ----------
    spec : Spec
        Of one buffer, number 0.
    memory : (nbytes,) uint8
    num_items : int
        Values in it.
    limits : Limits

    Returns
    -------
    Block
        ``num_items`` values; may share ``memory``.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        See ``decode``.

    Source: file sheet 2.1, sections 3.2, 3.5 and 3.7.

    Examples
    --------
    >>> from lancecy.limits import DEFAULT_LIMITS
    >>> decode_block(Plain(16), np.frombuffer(b"\x01\x00\x02\x00", np.uint8), 2, DEFAULT_LIMITS).length
    2
    """
    if isinstance(spec, Compressed):
        return decode_block(spec.values, general.decompress(spec.scheme, memory, limits), num_items, limits)
    if isinstance(spec, SymbolCoded):
        return _without_symbols(spec, decode_block(spec.values, memory, num_items, limits))
    if isinstance(spec, Variable):
        return block_strings(spec, memory, num_items)
    counts = np.array([num_items], np.int64)
    source = Buffers(memory, np.zeros(1, np.int64), np.array([memory.size], np.int64))
    return _alone(spec, source, counts, whole_runs(counts), limits)


def decode_levels(
    spec: Spec, source: Buffers, counts: Int64, runs: PageRuns, limits: Limits
) -> NDArray[np.uint16]:
    """The wanted levels of some chunks; as ``decode``, but runs are stored in one buffer.

    Source: file sheet 2.1, section 3.2.
    """
    levels: NDArray[np.uint16] = as_numbers(_alone(spec, source, counts, runs, limits)).view(np.uint16)
    return levels


def _alone(spec: Spec, source: Buffers | None, counts: Int64, runs: PageRuns, limits: Limits) -> Block:
    """The wanted values of chunks that have one buffer each, or none."""
    buffers: tuple[Buffers, ...] = () if source is None else (source,)
    if isinstance(spec, RunLengths) and source is not None:
        buffers = split_runs(source)
    return decode(spec, Chunks(buffers, counts, runs), limits)


def _integers(block: Block) -> Int64:
    """Numbers as int64; one repeated value without bytes is 0."""
    if isinstance(block, AllNull):
        return np.zeros(block.length, np.int64)
    return as_numbers(block).astype(np.int64)


def as_numbers(block: Block) -> NDArray[Any]:
    """The integers of a block of 8, 16, 32 or 64-bit values, as unsigned ones; memory is shared.

    Raises
    ------
    FormatError
        The block does not hold integers.
    """
    if not isinstance(block, FixedWidth) or block.bits not in (8, 16, 32, 64):
        raise FormatError("values that are no integers where integers are needed")
    return np.frombuffer(block.values, f"<u{block.bits >> 3}", block.length)  # type: ignore[call-overload, no-any-return]
