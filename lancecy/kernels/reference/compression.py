"""Twins of ``_bytesplit``, ``_runs``, ``_lz4`` and ``_fsst``: compressed chunks, value by value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import check_chunk_runs, checked, same_length

__all__ = ["expand_runs", "fsst_decode", "join_bytes", "lz4_blocks"]


Int64 = NDArray[np.int64]


@checked
def join_bytes(
    memory: NDArray[np.uint8],
    positions: Int64,
    lengths: Int64,
    counts: Int64,
    width: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.join_bytes`."""
    if width < 1:
        raise ValueError("width must be at least 1")
    if out.size % width:
        fail(Fault.OUT_SIZE, 0)
    chunks, runs = (positions, lengths, counts), (run_chunks, run_starts, run_counts)
    done = 0
    for chunk, start, count in check_chunk_runs(memory, chunks, runs, out.size // width):
        stored, position = int(counts[chunk]), int(positions[chunk])
        if stored * width > lengths[chunk]:
            fail(Fault.CHUNK_SHORT, chunk)
        streams = memory[position : position + stored * width].reshape(width, stored)
        part = streams[:, start : start + count].T.reshape(-1)
        out[done : done + part.size] = part
        done += part.size


Bytes = NDArray[np.uint8]


def _run_lengths(memory: Bytes, chunk: int, position: int, nbytes: int, width: int) -> list[int]:
    if position < 0 or nbytes < 0:
        fail(Fault.CHUNK_NEGATIVE, chunk)
    if position + nbytes > memory.size:
        fail(Fault.CHUNK_TRUNCATED, chunk)
    raw = memory[position : position + nbytes // width * width].tobytes()
    lengths: list[int] = np.frombuffer(raw, f"<u{width}").tolist()
    return lengths


@checked
def expand_runs(
    memory: Bytes,
    value_positions: Int64,
    value_lengths: Int64,
    length_positions: Int64,
    length_lengths: Int64,
    counts: Int64,
    width: int,
    length_width: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out: Bytes,
) -> None:
    """As :func:`lancecy.kernels.expand_runs`."""
    if width < 1:
        raise ValueError("width must be at least 1")
    if length_width not in (1, 2, 4, 8):
        raise ValueError("length_width must be 1, 2, 4 or 8")
    same_length("the arrays of the chunks differ in length", length_positions, length_lengths, counts)
    if out.size % width:
        fail(Fault.OUT_SIZE, 0)
    chunks, runs = (value_positions, value_lengths, counts), (run_chunks, run_starts, run_counts)
    done = 0
    for chunk, start, count in check_chunk_runs(memory, chunks, runs, out.size // width):
        position, nbytes = int(length_positions[chunk]), int(length_lengths[chunk])
        lengths = _run_lengths(memory, chunk, position, nbytes, length_width)
        first, num_values = int(value_positions[chunk]), int(value_lengths[chunk]) // width
        if num_values != len(lengths):
            fail(Fault.RUN_LENGTHS, chunk)
        for value, length in enumerate(lengths):
            if count == 0:
                break
            copies = min(max(0, length - start), count)
            source = first + value * width
            out[done : done + copies * width] = np.tile(memory[source : source + width], copies)
            done += copies * width
            count -= copies
            start = max(0, start - length)
        if count:
            fail(Fault.RUN_LENGTHS, chunk)


def _lz4_length(block: bytes, at: int, nibble: int) -> tuple[int, int]:
    """A length that may continue in further bytes, and the position after them; IndexError if they do not end."""
    length = nibble
    while nibble == 15:
        length += block[at]
        at += 1
        if block[at - 1] != 255:
            break
    return length, at


def _decompressed(block: bytes, size: int) -> bytes | None:
    """The ``size`` decompressed bytes of a block; None if it is damaged."""
    out = bytearray()
    at = 0
    try:
        while True:
            token = block[at]
            literals, at = _lz4_length(block, at + 1, token >> 4)
            if literals > min(len(block) - at, size - len(out)):
                return None
            out += block[at : at + literals]
            at += literals
            if at == len(block):
                return bytes(out) if len(out) == size else None
            distance = block[at] | block[at + 1] << 8
            length, at = _lz4_length(block, at + 2, token & 15)
            if not 1 <= distance <= len(out) or length + 4 > size - len(out):
                return None
            for _ in range(length + 4):
                out.append(out[-distance])
    except IndexError:
        return None


@checked
def lz4_blocks(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.lz4_blocks`."""
    same_length("positions, lengths and sizes differ in length", positions, lengths, sizes)
    blocks = list(zip(positions.tolist(), lengths.tolist(), sizes.tolist(), strict=True))
    capacity = out.size
    for i, (position, length, size) in enumerate(blocks):
        if position < 0 or length < 0 or size < 0:
            fail(Fault.CHUNK_NEGATIVE, i)
        if position + length > memory.size:
            fail(Fault.CHUNK_TRUNCATED, i)
        if size > capacity:
            fail(Fault.OUT_SIZE, i)
        capacity -= size
    if capacity:
        fail(Fault.OUT_SIZE, len(blocks))
    done = 0
    for i, (position, length, size) in enumerate(blocks):
        text = _decompressed(memory[position : position + length].tobytes(), size)
        if text is None:
            fail(Fault.LZ4, i)
        out[done : done + size] = np.frombuffer(text, np.uint8)
        done += size


Offsets = NDArray[np.int32] | NDArray[np.int64]

_ESCAPE = 255


@checked
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
            fail(Fault.NEGATIVE, index)
        if length and position + length > memory.size:
            fail(Fault.TRUNCATED, index)
        codes += memory[position : position + length].tobytes() if length else b""
        ends.add(len(codes))
    return bytes(codes), ends


def _values(offsets: Offsets, num_codes: int) -> Iterator[tuple[int, int]]:
    if not 0 <= int(offsets[0]) <= num_codes:
        fail(Fault.CODED_OFFSETS, 0)
    for index, (begin, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= begin <= stop <= num_codes:
            fail(Fault.CODED_OFFSETS, index)
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
            fail(Fault.SYMBOL, number)
        at += 1
    if at > stop:
        fail(Fault.SYMBOL, number)
