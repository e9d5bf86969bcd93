"""Twin of ``_fsst``: decodes value by value and code by code."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import (
    FAULT_CODED_OFFSETS,
    FAULT_NEGATIVE,
    FAULT_SYMBOL,
    FAULT_TRUNCATED,
    fail,
)
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["fsst_decode"]

Offsets = NDArray[np.int32] | NDArray[np.int64]
Int64 = NDArray[np.int64]

_ESCAPE = 255


def fsst_decode(
    symbols: NDArray[np.uint64],
    symbol_lengths: NDArray[np.uint8],
    memory: NDArray[np.uint8],
    positions: Int64,
    lengths: Int64,
    offsets: Offsets,
    first: int,
    start: int,
    out_offsets: Offsets,
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.fsst_decode`."""
    table = _table(symbols, symbol_lengths)
    for array in (positions, lengths):
        require(array, np.int64)
    require(memory, np.uint8)
    require(offsets, np.int32, np.int64)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out, np.uint8, writable=True)
    same_length("positions and lengths differ in length", positions, lengths)
    if offsets.size < 1 or out_offsets.size != offsets.size:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    if not 0 <= first < offsets.size or not 0 <= start <= out.size:
        raise ValueError("first or start is out of range")
    if out_offsets.dtype == np.int32 and out.size > np.iinfo(np.int32).max:
        raise ValueError("out is larger than 32-bit offsets can count")
    codes, ends = _codes(memory, positions.tolist(), lengths.tolist())
    values = list(_values(offsets, len(codes)))
    out_offsets[first] = start
    for number, (begin, stop) in enumerate(values[first:], first):
        for text in _texts(codes, begin, stop, ends, table, number):
            if len(text) > out.size - start:
                return number
            out[start : start + len(text)] = np.frombuffer(text, np.uint8)
            start += len(text)
        out_offsets[number + 1] = start
    return len(values)


def _table(symbols: NDArray[np.uint64], symbol_lengths: NDArray[np.uint8]) -> list[bytes]:
    require(symbols, np.uint64)
    require(symbol_lengths, np.uint8)
    if symbols.size != 256 or symbol_lengths.size != 256:
        raise ValueError("symbols and symbol_lengths need 256 entries")
    if symbol_lengths.max() > 8:
        raise ValueError("a symbol has at most 8 bytes")
    if symbol_lengths[_ESCAPE] != 0:
        raise ValueError("code 255 is the escape and has no symbol")
    lengths: list[Any] = symbol_lengths.tolist()
    return [symbol.tobytes()[:length] for symbol, length in zip(symbols, lengths, strict=True)]


def _codes(memory: NDArray[np.uint8], positions: list[int], lengths: list[int]) -> tuple[bytes, set[int]]:
    """The bytes of all spans, and the positions of the ends of spans."""
    codes, ends = bytearray(), set()
    for index, (position, length) in enumerate(zip(positions, lengths, strict=True)):
        if length < 0 or (length and position < 0):
            fail(FAULT_NEGATIVE, index)
        if length and position + length > memory.size:
            fail(FAULT_TRUNCATED, index)
        codes += memory[position : position + length].tobytes() if length else b""
        ends.add(len(codes))
    return bytes(codes), ends


def _values(offsets: Offsets, num_codes: int) -> Iterator[tuple[int, int]]:
    if not 0 <= int(offsets[0]) <= num_codes:
        fail(FAULT_CODED_OFFSETS, 0)
    for index, (begin, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= begin <= stop <= num_codes:
            fail(FAULT_CODED_OFFSETS, index)
        yield begin, stop


def _texts(
    codes: bytes, at: int, stop: int, ends: set[int], table: list[bytes], number: int
) -> Iterator[bytes]:
    """The text of each code of a value."""
    while at < stop:
        if table[codes[at]]:
            yield table[codes[at]]
        elif codes[at] == _ESCAPE and at + 1 not in ends:
            at += 1
            yield codes[at : at + 1]
        else:
            fail(FAULT_SYMBOL, number)
        at += 1
    if at > stop:
        fail(FAULT_SYMBOL, number)
