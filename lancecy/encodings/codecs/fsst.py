"""Strings coded with a table of up to 255 symbols (FSST).

The table that a page carries always has 2,312 bytes::

    u64 header | n symbols of 8 bytes | n lengths of 1 byte | zeros
    header: "FSST" in bits 32 to 63, bit 24 whether the strings are coded at all,
            bits 16 and 8 upwards only matter to the writer, bits 0 to 7 = n

Every byte of a coded string is the number of a symbol, except 255, which escapes the literal byte after it.
Values are coded one by one, so any of them can be decoded alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.model.block import VariableWidth
from lancecy.errors import FormatError
from lancecy.limits import INT32_MAX, check_offsets
from lancecy.records import dataclass
from lancecy.store.base import Memory

__all__ = ["TABLE_BYTES", "SymbolPart", "Symbols", "decode", "decode_parts", "decode_spans", "parse_symbols"]

Int64 = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]

TABLE_BYTES = 2312
_MAGIC = 0x46535354
_MAX_LENGTH = 8
# Up to this size an estimate would sample all coded bytes.
_FEW_BYTES = 1 << 16
_SAMPLE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """A table of symbols.

    Attributes
    ----------
    symbols : (256,) uint64
        Text of each symbol, its first byte lowest.
    lengths : (256,) uint8
        Bytes of each symbol, at most 8; 0 where there is none.
    """

    symbols: NDArray[np.uint64]
    lengths: NDArray[np.uint8]


# A column of many small pages has one table per page; one takes about 5 KB.
@lru_cache(maxsize=1024)
def parse_symbols(table: bytes) -> Symbols | None:
    """Parse the symbols of a table; None if its header marks the strings as not coded.

    Parameters
    ----------
    table : bytes
        As in the description of a page.

    Raises
    ------
    FormatError
        The table does not have 2,312 bytes or lacks "FSST" in its header, or a symbol is empty or longer than 8
        bytes.

    Notes
    -----
    Source: FSST encoding, versions 2.0 and later. Arrays of the result are read-only and shared.
    """
    if len(table) != TABLE_BYTES:
        raise FormatError(f"a symbol table has {len(table)} bytes, not {TABLE_BYTES}")
    header = int.from_bytes(table[:8], "little")
    if header >> 32 != _MAGIC:
        raise FormatError("a symbol table does not begin with its mark")
    if not header >> 24 & 1:
        return None
    # One byte, so at most 255: code 255 is the escape and never has a symbol.
    count = header & 0xFF
    symbols, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    symbols[:count] = np.frombuffer(table, "<u8", count, 8)
    lengths[:count] = np.frombuffer(table, np.uint8, count, 8 + 8 * count)
    bad = np.flatnonzero((lengths[:count] == 0) | (lengths[:count] > _MAX_LENGTH))
    if bad.size:
        at = int(bad[0])
        raise FormatError(f"symbol {at} has a length of {lengths[at]}", position=at)
    symbols.flags.writeable = lengths.flags.writeable = False
    return Symbols(symbols, lengths)


def decode(symbols: Symbols | None, block: VariableWidth) -> VariableWidth:
    """Decode a block of coded strings.

    Parameters
    ----------
    symbols : Symbols or None
        None: the strings are not coded, and the block is returned unchanged.
    block : VariableWidth
        Coded strings; null slots have no bytes.

    Returns
    -------
    VariableWidth
        New offsets and values, the same validity.

    Raises
    ------
    FormatError
        A string has a code without a symbol or ends in an escape; ``position`` is the string.
    LimitError
        There are more bytes than offsets of the block's width can count: smaller batches help.
    """
    if symbols is None:
        return block
    offsets = stored_offsets(block)
    values: Memory = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    whole = np.zeros(1, np.int64), np.array([values.size], np.int64)
    decoded = decode_spans(symbols, offsets, values, *whole)
    return replace(decoded, validity=block.validity, null_count=block.null_count)


def decode_spans(
    symbols: Symbols, offsets: Offsets, memory: Memory, positions: Int64, lengths: Int64
) -> VariableWidth:
    """Decode strings stored in several spans.

    Parameters
    ----------
    symbols : Symbols
    offsets : (num_values + 1,) int32 or int64
        Offsets of the coded strings, in the bytes of all spans back to back.
    memory : (nbytes,) uint8
    positions, lengths : (num_spans,) int64, bytes
        Together no more than ``memory`` has. Strings end where spans do.

    Returns
    -------
    VariableWidth
        New values and offsets, the latter as wide as the given ones.

    Raises
    ------
    FormatError, LimitError
        As ``decode``.
    """
    whole = SymbolPart(symbols, slice(0, offsets.size - 1), memory, positions, lengths)
    return decode_parts([whole], offsets)


@dataclass(frozen=True, slots=True, eq=False)
class SymbolPart:
    """Strings that follow each other and are coded with one table.

    Attributes
    ----------
    symbols : Symbols
    values : slice
        Which of the strings.
    memory, positions, lengths
        The spans with their bytes, as for :func:`decode_spans`.
    """

    symbols: Symbols
    values: slice
    memory: Memory
    positions: Int64
    lengths: Int64


def decode_parts(parts: Sequence[SymbolPart], offsets: Offsets) -> VariableWidth:
    """Decode strings that are coded with several tables.

    Parameters
    ----------
    parts : sequence of SymbolPart
        At least one; together all strings, in order.
    offsets : (num_values + 1,) int32 or int64
        Offsets of the coded strings, in the bytes of all spans of all parts.

    Returns
    -------
    VariableWidth

    Raises
    ------
    FormatError, LimitError
        As ``decode``; ``position`` is the string in its part.
    """
    offsets_buffer, memory_of_offsets = allocate(offsets.nbytes)
    out_offsets = memory_of_offsets.view(offsets.dtype)
    cap = INT32_MAX if offsets.dtype == np.int32 else np.iinfo(np.int64).max
    text, out = allocate(min(cap, _likely_size(parts[0], int(offsets[-1]))))
    size = 0
    for part in parts:
        first, last = part.values.start, part.values.stop
        mine = offsets[first : last + 1]
        if first:
            mine = mine - mine[0]
        coded = part.symbols.symbols, part.symbols.lengths, part.memory, part.positions, part.lengths
        done = 0
        while True:
            done = kernels.fsst_decode(*coded, mine, done, size, out_offsets[first : last + 1], out)
            size = int(out_offsets[first + done])
            if done == last - first:
                break
            if out.size == cap:
                check_offsets(INT32_MAX + 1, "or more bytes of strings")
            # Now there is room for the longest symbol per remaining byte, so this always suffices.
            left = int(offsets[-1] - offsets[first + done])
            text, out = _reallocated(out[:size], min(cap, size + _MAX_LENGTH * left))
    if size < out.size // 2:
        text, _ = _reallocated(out[:size], size)
    return VariableWidth(offsets.size - 1, offsets.dtype.itemsize, offsets_buffer, text.slice(0, size))


def _reallocated(text: Memory, room: int) -> tuple[pa.Buffer, Memory]:
    """Copy the bytes to the start of larger memory."""
    buffer, out = allocate(room)
    out[: text.size] = text
    return buffer, out


def _likely_size(part: SymbolPart, total: int) -> int:
    """Estimated bytes of ``total`` coded ones when they are decoded, from a sample of a part, plus an eighth."""
    if total <= _FEW_BYTES:
        return _MAX_LENGTH * total
    filled = np.flatnonzero(part.lengths)
    if not filled.size:
        return _MAX_LENGTH * total
    filled = filled[:: -(-filled.size // _SAMPLE)]
    each = -(-_SAMPLE // filled.size)
    places = part.positions[filled, None] + part.lengths[filled, None] * np.arange(each) // each
    mean = float(part.symbols.lengths[part.memory[places]].mean())
    return min(_MAX_LENGTH * total, int(1.125 * mean * total) + _FEW_BYTES)
