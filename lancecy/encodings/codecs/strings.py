"""Byte strings of version 2.1 and later: in chunks, and in standalone buffers.

::

    chunk   n + 1 offsets from the start of the buffer | bytes | padding
    chunk   (2.3) offsets from the first byte, coded in a buffer of their own or none | bytes
    alone   width in bits | position of the bytes | n + 1 offsets from 0 | bytes      all of the same width

Source: file sheet 2.1, sections 3.5 and 3.12.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.model.block import VariableWidth
from lancecy.encodings.model.chunks import Chunks, places_of, require_bytes, starts_of
from lancecy.encodings.model.spec import Variable
from lancecy.errors import FormatError, TruncatedError
from lancecy.limits import check_offsets
from lancecy.store.base import Memory

__all__ = ["block_strings", "bytes_of", "check_overlap", "chunk_spans", "chunk_strings", "strings_at"]

Int64 = NDArray[np.int64]


def chunk_strings(spec: Variable, chunks: Chunks) -> VariableWidth:
    """Decode selected strings of chunks whose offsets are stored before the bytes.

    Raises
    ------
    FormatError
        Offsets descend or leave their chunk, or strings overlap; TruncatedError if offsets are missing.
    """
    offsets, starts, lengths = chunk_spans(spec, chunks)
    source = chunks.buffers[spec.buffer]
    values = bytes_of(source.memory, int(source.lengths.sum()), starts, lengths)
    return VariableWidth(chunks.runs.num_rows, spec.offset_width, offsets, values)


def chunk_spans(spec: Variable, chunks: Chunks) -> tuple[NDArray[Any], Int64, Int64]:
    """Offsets of the selected strings, and the bytes of each run in the chunks' memory.

    Returns
    -------
    offsets : (num_values + 1,) int32 or int64
        From 0, into the bytes of all runs back to back.
    starts, lengths : (num_runs,) int64, bytes
        Together no more than the chunks have.

    Raises
    ------
    FormatError
        As ``chunk_strings``.
    """
    source, runs, width = chunks.buffers[spec.buffer], chunks.runs, spec.offset_width
    require_bytes(source, (chunks.counts + 1) * width, "offsets of strings")
    _, memory = allocate((runs.num_rows + 1) * width)
    offsets = memory.view(f"<i{width}")
    starts, lengths = np.empty_like(runs.pages), np.empty_like(runs.pages)
    parts = (source.memory, source.positions, source.lengths, chunks.counts, width)
    wanted = (runs.pages, runs.starts, runs.counts)
    kernels.chunk_offsets(*parts, *wanted, offsets, starts, lengths)
    check_overlap(int(source.lengths.sum()), lengths)
    return offsets, starts, lengths


def check_overlap(stored: int, lengths: Int64) -> int:
    """The bytes of all runs; chunks of ``stored`` bytes must have as many.

    Raises
    ------
    FormatError
        They have fewer.
    """
    total = int(lengths.sum())
    if total > stored:
        raise FormatError(f"strings of {total} bytes in chunks of {stored}: strings overlap")
    return total


def bytes_of(memory: Memory, stored: int, starts: Int64, lengths: Int64) -> object:
    """The bytes of all runs back to back; see :func:`check_overlap`."""
    buffer, out = allocate(check_overlap(stored, lengths))
    kernels.copy_spans(memory, starts, lengths, out)
    return buffer


def strings_at(spec: Variable, chunks: Chunks, offsets: Int64) -> VariableWidth:
    """Decode selected strings of chunks from decoded offsets.

    Parameters
    ----------
    spec : Variable
    chunks : Chunks
    offsets : (sum of counts + 1 of each chunk,) int64
        Offsets of all values of all chunks.

    Raises
    ------
    FormatError
        As ``chunk_strings``.
    LimitError
        More bytes than 32-bit offsets can count.
    """
    source, runs, width = chunks.buffers[spec.buffer], chunks.runs, spec.offset_width
    first = starts_of(chunks.counts + 1)[runs.pages] + runs.starts
    begin, end = offsets[first], offsets[first + runs.counts]
    if bool(((begin < 0) | (end < begin) | (end > source.lengths[runs.pages])).any()):
        raise FormatError("offsets of strings descend or leave their chunk")
    out = np.zeros(runs.num_rows + 1, np.int64)
    shifts = np.cumsum(end - begin) - (end - begin) - begin
    out[1:] = offsets[places_of(first + 1, runs.counts)] + np.repeat(shifts, runs.counts)
    if bool((out[1:] < out[:-1]).any()):
        raise FormatError("offsets of strings descend")
    if width == 4:
        check_offsets(int(out[-1]), "bytes of strings")
    starts = source.positions[runs.pages] + begin
    values = bytes_of(source.memory, int(source.lengths.sum()), starts, end - begin)
    return VariableWidth(runs.num_rows, width, out.astype(f"<i{width}", copy=False), values)


def block_strings(spec: Variable, memory: Memory, num_items: int) -> VariableWidth:
    """Decode all strings of a standalone buffer; the bytes are shared.

    The buffer holds words as wide as the offsets: that width in bits, the position of the bytes, and the offsets
    from there. Releases before 0.39 wrote, in front of the offsets, one byte for the width, four for the number of
    strings and four for the start.

    Raises
    ------
    FormatError
        Offsets or the position of the bytes leave the buffer; TruncatedError if it is too short.
    """
    width = spec.offset_width
    start, head = _block_head(width, memory, num_items)
    if num_items + 1 > (memory.size - head) // width:
        raise TruncatedError(f"{memory.size} bytes cannot hold {num_items} strings")
    offsets = np.frombuffer(memory, f"<i{width}", num_items + 1, head).copy()  # aligned
    if not head + (num_items + 1) * width <= start <= memory.size:
        raise FormatError(f"bytes of strings at {start} of a buffer of {memory.size}")
    first, last = int(offsets[0]), int(offsets[-1])
    if first < 0 or last > memory.size - start or bool((offsets[1:] < offsets[:-1]).any()):
        raise FormatError("offsets of strings descend or leave their buffer")
    offsets -= first
    return VariableWidth(num_items, width, offsets, memory[start + first : start + last])


_EARLY_HEAD = struct.Struct("<BII")


def _block_head(width: int, memory: Memory, num_items: int) -> tuple[int, int]:
    """Start of the bytes and of the offsets in a buffer of strings."""
    if memory.size < 2 * width:
        raise TruncatedError(f"{memory.size} bytes cannot hold {num_items} strings")
    bits, start = np.frombuffer(memory, f"<i{width}", 2).tolist()
    if bits == width * 8:
        return start, 2 * width
    if memory.size >= _EARLY_HEAD.size:
        early_bits, early_items, early_start = _EARLY_HEAD.unpack(memory[: _EARLY_HEAD.size].tobytes())
        if (early_bits, early_items) == (width * 8, num_items):
            return early_start, _EARLY_HEAD.size
    raise FormatError(f"strings with offsets of {bits} bits, where {width * 8} are announced")
