"""Compressed values of version 2.1 and later: one function per node, over all chunks of a page at once.

:func:`decode` takes chunks and selected runs of them and returns one block with exactly those values, by one or
two kernel calls per buffer; ``_DECODERS`` is the registry. :func:`decode_block` is for a standalone buffer (a
dictionary), which has another layout of strings and runs. The decoded size of a node is bounded here before memory
is allocated: by the stored bytes if the encoding has a highest ratio, else by ``Limits.page_bytes``.

Source: file sheet 2.1, sections 3.4 to 3.7 and 3.12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.codecs import fsst, general
from lancecy.encodings.codecs.arithmetic import (
    as_integers,
    as_numbers,
    has_payload,
    has_zipped_values,
    items_by_code,
    numbered,
    ranges,
    running_sums,
    split_dictionary,
)
from lancecy.encodings.codecs.fixed import byte_split, inline_packed, packed_blocks, plain, room
from lancecy.encodings.codecs.run_length import Decoder, RunPart, expanded
from lancecy.encodings.codecs.strings import block_strings, chunk_spans, chunk_strings, strings_at
from lancecy.encodings.codecs.zipped_values import ZippedValues, decode_zipped, zipped_bits
from lancecy.encodings.model.block import AllNull, Block, FixedList, FixedWidth, VariableWidth
from lancecy.encodings.model.chunks import (
    Buffers,
    Chunks,
    places_of,
    require_bytes,
    split_runs,
    starts_of,
    whole_runs,
)
from lancecy.encodings.model.spec import (
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
from lancecy.errors import FormatError, TruncatedError, UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import PageRuns
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["Buffers", "Chunks", "as_numbers", "decode", "decode_block", "decode_levels"]

Int64 = NDArray[np.int64]

_LISTS = Field("item", 0, logical_type="fixed_size_list")
"""Field of list items that are stored one by one: any type but boolean."""


def decode(spec: Spec, chunks: Chunks, limits: Limits) -> Block:
    """Decode selected values of chunks.

    Parameters
    ----------
    spec : Spec
        From ``v21.wire``: buffer numbers are below ``len(chunks.buffers)``.
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
        The bytes are not of this encoding; ``position`` is mostly the chunk. TruncatedError if some are missing.
    LimitError
        The values would take more than ``limits`` allow.
    UnsupportedError
        A node of a version that is not read yet.
    """
    decoder = _DECODERS.get(type(spec))
    if decoder is None:
        raise UnsupportedError(f"chunks of {type(spec).__name__} values", feature=type(spec).__name__)
    return decoder(spec, chunks, limits)


def _run_lengths(spec: RunLengths, chunks: Chunks, limits: Limits) -> Block:
    def decoded(node: Spec, buffers: tuple[Buffers, ...], counts: Int64) -> Block:
        return decode(node, Chunks(buffers, counts, whole_runs(counts)), limits)

    values, lengths = (RunPart(node, chunks.buffers, decoded) for node in (spec.values, spec.lengths))
    return expanded(values, lengths, chunks.counts, chunks.runs, limits)


def _variable(spec: Variable, chunks: Chunks, limits: Limits) -> Block:
    if spec.offsets is None:
        return chunk_strings(spec, chunks)
    counts = chunks.counts + 1
    # Coded offsets are in the buffer before the bytes, if they have one.
    source = chunks.buffers[spec.buffer - 1] if has_payload(spec.offsets) and spec.buffer else None
    offsets = _decode_one_buffer(spec.offsets, source, counts, whole_runs(counts), limits)
    return strings_at(spec, chunks, as_integers(offsets))


def _symbol_coded(spec: SymbolCoded, chunks: Chunks, limits: Limits) -> Block:
    symbols, coded = fsst.parse_symbols(spec.table), spec.values
    if symbols is None or not isinstance(coded, Variable) or coded.offsets is not None:
        return _without_symbols(spec, decode(coded, chunks, limits))
    offsets, *spans = chunk_spans(coded, chunks)
    return fsst.decode_spans(symbols, offsets, chunks.buffers[coded.buffer].memory, *spans)


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
        buffer, out = room(child.length, 1, limits)
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
    buffer, out = room(num_values, width * 8, limits)
    if width:
        out.reshape(num_values, width)[:] = np.frombuffer(spec.value, np.uint8)
    return FixedWidth(num_values, width * 8, buffer)


def _sequence(spec: Sequence, chunks: Chunks, limits: Limits) -> Block:
    limits.check("page_bytes", chunks.runs.num_rows * 8, "bytes of the values of a page")
    return FixedWidth(chunks.runs.num_rows, spec.bits, ranges(spec, chunks))


def _deltas(spec: Deltas, chunks: Chunks, limits: Limits) -> Block:
    def decoded(counts: Int64) -> Block:
        return decode(spec.deltas, Chunks(chunks.buffers, counts, whole_runs(counts)), limits)

    return _summed(spec, chunks, decoded, limits)


def _summed(spec: Deltas, chunks: Chunks, decoded: Callable[[Int64], Block], limits: Limits) -> Block:
    """Running sums of differences; ``decoded`` takes their number per chunk and returns them."""
    limits.check("page_bytes", int(chunks.counts.sum()) * 8, "bytes of the values of a page")
    deltas = decoded(np.maximum(chunks.counts - 1, 0))
    numbers = running_sums(spec, chunks, as_integers(deltas).view(np.uint64))
    return FixedWidth(numbers.size, spec.bits, numbers)


def _block_dictionary(spec: BlockDictionary, chunks: Chunks, limits: Limits) -> Block:
    left = right = None
    if has_payload(spec):
        left, right = split_dictionary(chunks.buffers[spec.buffer])
    item_counts = np.full(chunks.counts.size, spec.num_items, np.int64)
    codes = as_numbers(_decode_one_buffer(spec.codes, left, chunks.counts, whole_runs(chunks.counts), limits))
    items = as_numbers(_decode_one_buffer(spec.items, right, item_counts, whole_runs(item_counts), limits))
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
    Plain: plain,
    InlinePacked: inline_packed,
    PackedBlocks: packed_blocks,
    RunLengths: _run_lengths,
    ByteSplit: byte_split,
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


# -- standalone buffers ---------------------------------------------------------------


def decode_block(spec: Spec, memory: Memory, num_items: int, limits: Limits) -> Block:
    r"""Decode all values of a buffer that is not part of a chunk, such as a dictionary.

    Parameters
    ----------
    spec : Spec
        With one buffer, number 0.
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
        return _standalone_strings(spec, memory, num_items)
    if has_zipped_values(spec):
        return _standalone_lists(spec, memory, num_items)
    counts = np.array([num_items], np.int64)
    source = Buffers(memory, np.zeros(1, np.int64), np.array([memory.size], np.int64))
    return _decode_one_buffer(spec, source, counts, whole_runs(counts), limits)


def _standalone_strings(spec: Variable, memory: Memory, num_items: int) -> VariableWidth:
    if spec.offsets is not None:
        raise UnsupportedError("strings that stand alone, with coded offsets", feature="coded offsets")
    return block_strings(spec, memory, num_items)


def _standalone_lists(spec: Spec, memory: Memory, num_items: int) -> Block:
    """Decode lists with null items, which are stored one by one, bitmaps first, as in full-zip pages."""
    width = (zipped_bits(spec) + 7) >> 3
    if num_items > memory.size // max(1, width):
        raise TruncatedError(f"{memory.size} bytes cannot hold {num_items} lists of {width} bytes")
    return decode_zipped(spec, ZippedValues.packed(memory[: num_items * width], width, num_items), _LISTS)


def decode_levels(
    spec: Spec, source: Buffers, counts: Int64, runs: PageRuns, limits: Limits
) -> NDArray[np.uint16]:
    """Decode selected levels of chunks; as ``decode``, but runs are stored in one buffer.

    Source: file sheet 2.1, section 3.2.
    """
    levels: NDArray[np.uint16] = as_numbers(_decode_one_buffer(spec, source, counts, runs, limits)).view(
        np.uint16
    )
    return levels


def _decode_one_buffer(
    spec: Spec, source: Buffers | None, counts: Int64, runs: PageRuns, limits: Limits
) -> Block:
    """Decode selected values of chunks that have one buffer each, or none."""
    if source is None or not has_payload(spec):
        return decode(spec, Chunks((), counts, runs), limits)
    if isinstance(spec, Compressed):
        opened = general.decompress_many(spec.scheme, source.memory, source.positions, source.lengths, limits)
        return _decode_one_buffer(spec.values, Buffers(*opened), counts, runs, limits)
    if isinstance(spec, RunLengths):
        parts = zip((spec.values, spec.lengths), _split(source, counts), strict=True)
        values, lengths = (RunPart(numbered(node), (part,), _part_of(limits)) for node, part in parts)
        return expanded(values, lengths, counts, runs, limits)
    chunks = Chunks((source,), counts, runs)
    if isinstance(spec, Deltas):
        return _summed(
            spec,
            chunks,
            lambda fewer: _decode_one_buffer(spec.deltas, source, fewer, whole_runs(fewer), limits),
            limits,
        )
    return decode(numbered(spec), chunks, limits)


def _part_of(limits: Limits) -> Decoder:
    def decoded(node: Spec, buffers: tuple[Buffers, ...], counts: Int64) -> Block:
        return _decode_one_buffer(node, buffers[0], counts, whole_runs(counts), limits)

    return decoded


def _split(source: Buffers, counts: Int64) -> tuple[Buffers, Buffers]:
    """Split runs into values and lengths; chunks without values have neither, whatever their buffer holds."""
    filled = np.flatnonzero(counts)
    if filled.size == counts.size:
        return split_runs(source)
    found = split_runs(Buffers(source.memory, source.positions[filled], source.lengths[filled]))
    positions, lengths = np.zeros((2, 2, counts.size), np.int64)
    for number, part in enumerate(found):
        positions[number, filled], lengths[number, filled] = part.positions, part.lengths
    left, right = (Buffers(source.memory, positions[number], lengths[number]) for number in (0, 1))
    return left, right
