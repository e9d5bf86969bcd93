"""Strings coded with a table of up to 255 symbols (FSST).

The table that a page carries always has 2,312 bytes::

    u64 header | n symbols of 8 bytes | n lengths of 1 byte | zeros
    header: "FSST" in bits 32 to 63, bit 24 whether the strings are coded at all,
            bits 16 and 8 upwards only matter to the writer, bits 0 to 7 = n

Every byte of a coded string is the number of a symbol, except 255: the byte after it stands
for itself. Values are coded one by one, so any of them can be decoded alone.

Imports ``arrow.allocate``, ``block``, ``kernels``, ``errors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow import allocate
from lancecy.encodings.block import VariableWidth
from lancecy.errors import FormatError, LimitError

__all__ = ["TABLE_BYTES", "Symbols", "decode", "parse_symbols"]

TABLE_BYTES = 2312
_MAGIC = 0x46535354
_MAX_LENGTH = 8
_INT32_MAX = 2**31 - 1


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


@lru_cache(maxsize=64)
def parse_symbols(table: bytes) -> Symbols | None:
    """The symbols of a table, or None if it says that the strings are not coded.

    Parameters
    ----------
    table : bytes
        As it stands in the description of a page.

    Raises
    ------
    FormatError
        It does not have 2,312 bytes or the mark "FSST", or a symbol is empty or longer than 8 bytes.

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
    """The strings that coded ones stand for.

    Parameters
    ----------
    symbols : Symbols or None
        None: the strings are not coded, and the block is returned as it is.
    block : VariableWidth
        Coded strings; null slots have no bytes.

    Returns
    -------
    VariableWidth
        Fresh offsets and values, the same validity.

    Raises
    ------
    FormatError
        A string has a code without a symbol or ends in an escape; ``position`` is the string.
    LimitError
        There are more bytes than offsets of the block's width can count: smaller batches help.
    """
    if symbols is None:
        return block
    dtype = np.dtype(np.int32 if block.offset_width == 4 else np.int64)
    offsets = np.frombuffer(block.offsets, dtype, block.length + 1)  # type: ignore[call-overload]
    values: NDArray[np.uint8] = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    if dtype == np.int32:
        _refuse_large(symbols, offsets, values)
    offset_buffer, out_offsets = allocate((block.length + 1) * dtype.itemsize)
    total = kernels.fsst_offsets(symbols.lengths, offsets, values, out_offsets.view(dtype))
    buffer, out = allocate(total)
    kernels.fsst_decode(symbols.symbols, symbols.lengths, offsets, values, out_offsets.view(dtype), out)
    return VariableWidth(
        block.length, block.offset_width, offset_buffer, buffer, block.validity, block.null_count
    )


def _refuse_large(symbols: Symbols, offsets: NDArray[np.int32], values: NDArray[np.uint8]) -> None:
    """Raise LimitError if the strings pass what 32-bit offsets count; measured only where they could."""
    if _MAX_LENGTH * (int(offsets[-1]) - int(offsets[0])) <= _INT32_MAX:
        return
    total = kernels.fsst_offsets(symbols.lengths, offsets, values, np.empty(offsets.size, np.int64))
    if total > _INT32_MAX:
        what = f"{total} bytes of strings in one array, where 32-bit offsets end at {_INT32_MAX}"
        raise LimitError(f"{what}: read the column in smaller batches", limit="", claimed=total)
