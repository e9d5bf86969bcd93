"""Twins of ``_bits``, ``_bitstream``, ``_bitpack``, ``_filter`` and ``_pack``: one byte per bit, joined to integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import check_chunk_runs, checked, same_length

__all__ = [
    "copy_bits",
    "filter_fixed",
    "filter_lists",
    "find_bits",
    "pack_blocks",
    "unpack_blocks",
    "unpack_inline",
    "unpack_stream",
]


Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_BLOCK = 1024
_GROUPS = (0, 4, 2, 6, 1, 5, 3, 7)


def integers(bits: NDArray[np.uint8], width: int) -> NDArray[Any]:
    """Unsigned integers of ``width`` bits from rows of fewer bits, lowest first."""
    padded = np.zeros((bits.shape[0], width), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(f"<u{width // 8}")[:, 0]


def _block(packed: Bytes, width: int, bits: int) -> NDArray[Any]:
    """The 1,024 values of one FastLanes block."""
    lanes = _BLOCK // bits
    by_lane = packed.reshape(width, lanes, bits // 8).transpose(1, 0, 2).reshape(lanes, -1)
    stream = np.unpackbits(by_lane, axis=1, bitorder="little") if width else np.zeros((lanes, 0), np.uint8)
    values = integers(stream.reshape(lanes * bits, width), bits).reshape(lanes, bits)
    row, lane = np.arange(bits), np.arange(lanes)[:, None]
    block = np.empty(_BLOCK, values.dtype)
    block[np.array(_GROUPS)[row // 8] * 16 + row % 8 * 128 + lane] = values
    return block


def word_type(bits: int, out: Bytes) -> np.dtype[Any]:
    """The integer type of an output; refuses a size that is not a multiple of it."""
    if bits not in (8, 16, 32, 64):
        raise ValueError("bits must be 8, 16, 32 or 64")
    if out.size % (bits // 8):
        fail(Fault.OUT_SIZE, 0)
    return np.dtype(f"<u{bits // 8}")


@checked
def unpack_inline(
    memory: Bytes,
    positions: Int64,
    lengths: Int64,
    counts: Int64,
    bits: int,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out: Bytes,
) -> None:
    """As :func:`lancecy.kernels.unpack_inline`."""
    word = word_type(bits, out)
    chunks, runs = (positions, lengths, counts), (run_chunks, run_starts, run_counts)
    done = 0
    for chunk, start, count in check_chunk_runs(memory, chunks, runs, out.size // word.itemsize):
        data = memory[positions[chunk] : positions[chunk] + lengths[chunk]]
        if counts[chunk] > _BLOCK:
            fail(Fault.CHUNK_COUNT, chunk)
        if data.size < word.itemsize:
            fail(Fault.CHUNK_SHORT, chunk)
        width = int.from_bytes(data[: word.itemsize].tobytes(), "little")
        if width > bits:
            fail(Fault.BIT_WIDTH, chunk)
        packed = data[word.itemsize :][: 128 * width]
        if packed.size < 128 * width:
            fail(Fault.CHUNK_SHORT, chunk)
        part = _block(packed, width, bits)[start : start + count]
        out[done : done + part.nbytes] = part.view(np.uint8)
        done += part.nbytes


def _of_blocks(
    data: Bytes, stored: int, wanted: range, width: int, bits: int, raw_tail: bool
) -> list[NDArray[Any]] | None:
    """Values of one out-of-line chunk, by block; None if the chunk is too short for its count."""
    full, tail = divmod(stored, _BLOCK)
    nbytes, word = 128 * width, bits // 8
    is_raw = raw_tail and data.size // word == full * nbytes // word + tail
    if data.size < full * nbytes + (tail * word if is_raw else nbytes if tail else 0):
        return None
    parts = []
    for number in range(wanted.start // _BLOCK, -(-wanted.stop // _BLOCK)):
        packed = data[number * nbytes :]
        if is_raw and number == full:
            values = np.frombuffer(packed[: tail * word].tobytes(), f"<u{word}")
        else:
            values = _block(packed[:nbytes], width, bits)
        first = number * _BLOCK
        parts.append(values[max(0, wanted.start - first) : wanted.stop - first])
    return parts


@checked
def unpack_blocks(
    memory: Bytes,
    positions: Int64,
    lengths: Int64,
    counts: Int64,
    bits: int,
    packed_bits: int,
    raw_tail: bool,
    run_chunks: Int64,
    run_starts: Int64,
    run_counts: Int64,
    out: Bytes,
) -> None:
    """As :func:`lancecy.kernels.unpack_blocks`."""
    word = word_type(bits, out)
    if not 0 <= packed_bits <= bits:
        raise ValueError("packed_bits must be in 0 .. bits")
    chunks, runs = (positions, lengths, counts), (run_chunks, run_starts, run_counts)
    done = 0
    for chunk, start, count in check_chunk_runs(memory, chunks, runs, out.size // word.itemsize):
        data = memory[positions[chunk] : positions[chunk] + lengths[chunk]]
        wanted = range(start, start + count)
        parts = _of_blocks(data, int(counts[chunk]), wanted, packed_bits, bits, raw_tail)
        if parts is None:
            fail(Fault.CHUNK_SHORT, chunk)
        for part in parts:
            out[done : done + part.nbytes] = part.view(np.uint8)
            done += part.nbytes


def _unused(memory: Bytes, runs: list[tuple[int, int, int]], packed_bits: int, capacity: int) -> int:
    """What runs of values leave of an output, after checking that all are in memory."""
    for i, (position, offset, count) in enumerate(runs):
        if count < 0:
            fail(Fault.NEGATIVE, i)
        if count > capacity:
            fail(Fault.OUT_SIZE, i)
        capacity -= count
        if count and (position < 0 or offset < 0):
            fail(Fault.NEGATIVE, i)
        if count and position + (offset + count * packed_bits + 7) // 8 > memory.size:
            fail(Fault.TRUNCATED, i)
    return capacity


def _bits_of(memory: Bytes, position: int, bit_offset: int, count: int) -> Bytes:
    first, skip = position + bit_offset // 8, bit_offset % 8
    used = memory[first : first + (skip + count + 7) // 8]
    return np.unpackbits(used, bitorder="little")[skip : skip + count]


@checked
def unpack_stream(
    memory: Bytes,
    positions: Int64,
    bit_offsets: Int64,
    counts: Int64,
    packed_bits: int,
    bits: int,
    signed: bool,
    out: Bytes,
) -> None:
    """As :func:`lancecy.kernels.unpack_stream`."""
    word = word_type(bits, out)
    if not 1 <= packed_bits <= bits:
        raise ValueError("packed_bits must be in 1 .. bits")
    same_length("positions, bit_offsets and counts differ in length", positions, bit_offsets, counts)
    runs = list(zip(positions.tolist(), bit_offsets.tolist(), counts.tolist(), strict=True))
    if _unused(memory, runs, packed_bits, out.size // word.itemsize):
        fail(Fault.OUT_SIZE, len(runs))
    done = 0
    for position, offset, count in runs:
        if not count:
            continue
        rows = _bits_of(memory, position, offset, count * packed_bits).reshape(count, packed_bits)
        if signed:
            sign = np.repeat(rows[:, -1:], bits - packed_bits, axis=1)
            rows = np.concatenate([rows, sign], axis=1)
        part = integers(rows, bits)
        out[done : done + part.nbytes] = part.view(np.uint8)
        done += part.nbytes


@checked
def copy_bits(
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    bit_offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.copy_bits`."""
    same_length("positions, bit_offsets and counts differ in length", positions, bit_offsets, counts)
    runs = list(zip(positions.tolist(), bit_offsets.tolist(), counts.tolist(), strict=True))
    if _unused(memory, runs, 1, 8 * out.size) > 7:
        fail(Fault.OUT_SIZE, len(runs))
    pieces = [_bits_of(memory, *run) for run in runs if run[-1]]
    bits = np.concatenate([np.empty(0, np.uint8), *pieces])
    out[:] = np.packbits(bits, bitorder="little")
    return int(bits.sum())


@checked
def filter_fixed(
    values: NDArray[np.uint8],
    width: int,
    bits: NDArray[np.uint8],
    first: int,
    count: int,
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.filter_fixed`."""
    if width < 1:
        raise ValueError("values have one byte or more")
    if first < 0 or count < 0:
        fail(Fault.NEGATIVE, 0)
    if first + count > 8 * bits.size:
        fail(Fault.TRUNCATED, 0)
    if values.size != count * width:
        raise ValueError("values need `width` bytes for each of `count` bits")
    found = values.reshape(count, width)[_bits_of(bits, 0, first, count).view(np.bool_)].reshape(-1)
    if found.size > out.size:
        fail(Fault.OUT_SIZE, 0)
    out[: found.size] = found
    return found.size // width


@checked
def filter_lists(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    bits: NDArray[np.uint8],
    first: int,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_bits: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.filter_lists`."""
    count = offsets.size - 1
    if count < 0 or not out_offsets.size:
        raise ValueError("offsets and out_offsets have one entry or more")
    if first < 0:
        fail(Fault.NEGATIVE, 0)
    if first + count > 8 * bits.size:
        fail(Fault.TRUNCATED, 0)
    kept = np.flatnonzero(_bits_of(bits, 0, first, count))
    if kept.size >= out_offsets.size:
        fail(Fault.OUT_SIZE, 0)
    with np.errstate(over="ignore"):
        ends = offsets.astype(np.int64) - np.int64(offsets[0])
    starts, stops = ends[:-1][kept], ends[1:][kept]
    wrong = (starts < np.concatenate(([0], stops[:-1]))) | (stops < starts) | (stops > 8 * out_bits.size)
    if wrong.any():
        fail(Fault.LIST_OFFSETS, int(kept[wrong.argmax()]))
    marks = np.unpackbits(out_bits, bitorder="little")
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        marks[start:stop] = 1
    out_bits[:] = np.packbits(marks, bitorder="little")
    out_offsets[0] = 0
    out_offsets[1 : kept.size + 1] = np.cumsum(stops - starts)
    return int(kept.size)


@checked
def find_bits(bits: NDArray[np.uint8], first: int, count: int, out: NDArray[np.int64]) -> int:
    """As :func:`lancecy.kernels.find_bits`."""
    if first < 0 or count < 0:
        fail(Fault.NEGATIVE, 0)
    if first + count > 8 * bits.size:
        fail(Fault.TRUNCATED, 0)
    found = np.flatnonzero(_bits_of(bits, 0, first, count))
    if found.size > out.size:
        fail(Fault.OUT_SIZE, 0)
    out[: found.size] = found
    return int(found.size)


@checked
def pack_blocks(
    values: NDArray[np.uint8],
    bits: int,
    widths: NDArray[np.int64],
    out: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None:
    """As :func:`lancecy.kernels.pack_blocks`."""
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"words of {bits} bits")
    same_length("the arrays of the blocks differ in length", widths, positions)
    num_blocks, rest = divmod(values.size, 128 * bits)
    if num_blocks != widths.size or rest:
        fail(Fault.TRUNCATED, num_blocks)
    blocks = values.reshape(num_blocks, 1024, bits // 8)
    for i, (width, position) in enumerate(zip(widths.tolist(), positions.tolist(), strict=True)):
        if not 0 <= width <= bits:
            fail(Fault.BIT_WIDTH, i)
        if position < 0:
            fail(Fault.NEGATIVE, i)
        if position + 128 * width > out.size:
            fail(Fault.OUT_SIZE, i)
        out[position : position + 128 * width] = packed_block(blocks[i], bits, width)


def packed_block(block: NDArray[np.uint8], bits: int, width: int) -> NDArray[np.uint8]:
    lanes = 1024 // bits
    rows, lane = np.meshgrid(np.arange(bits), np.arange(lanes), indexing="ij")
    index = np.array(_GROUPS)[rows // 8] * 16 + rows % 8 * 128 + lane
    # (rows, lanes, width) bits become (lanes, rows * width) bits: the stream of each lane, T bits to a word.
    kept = np.unpackbits(block, axis=1, bitorder="little")[index][:, :, :width]
    streams = kept.transpose(1, 0, 2).reshape(lanes, width, bits)
    words = np.packbits(streams, axis=2, bitorder="little")
    packed: NDArray[np.uint8] = words.transpose(1, 0, 2).ravel()
    return packed
