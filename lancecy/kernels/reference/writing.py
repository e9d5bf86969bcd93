"""Twins of ``_chunk_writer`` and ``_measure``: pages to be written, chunk by chunk, value by value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.bits import packed_block
from lancecy.kernels.reference.checks import checked

__all__ = ["measure_numbers", "measure_texts", "write_chunks"]

Bytes = NDArray[np.uint8]
Levels = NDArray[np.uint16]
Int64 = NDArray[np.int64]

_PLAIN, _INLINE, _TEXT, _RUNS = 1, 2, 3, 4
_LEVELS_PLAIN, _LEVELS_BLOCKS, _LEVELS_RUNS = 1, 2, 3
_NUMBERS, _MOST_PARTS = 11, 32
_BLOCK, _LONGEST_RUN = 1024, 255
_MOST_LEVELS, _U16_CHUNK, _U32_CHUNK = 0xFFFF, 1 << 15, 1 << 31


class _NoRoomError(Exception):
    """The output is full."""


class _Sink:
    """Bytes written one after the other to the start of ``out``."""

    def __init__(self, out: Bytes) -> None:
        self.out, self.at = out, 0

    def put(self, data: bytes) -> int:
        if len(data) > self.out.size - self.at:
            raise _NoRoomError
        self.out[self.at : self.at + len(data)] = np.frombuffer(data, np.uint8)
        self.at += len(data)
        return len(data)


def _runs(values: NDArray[Any]) -> tuple[bytes, bytes]:
    """Values and lengths of the runs of at most 255 equal values."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = [
        at
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), values.size], strict=True)
        for at in range(first, last, _LONGEST_RUN)
    ]
    return values[starts].tobytes(), np.diff([*starts, values.size]).astype(np.uint8).tobytes()


def _level_bytes(kind: int, width: int, levels: Levels) -> bytes:
    if kind == _LEVELS_PLAIN:
        return levels.tobytes()
    if kind == _LEVELS_RUNS:
        values, lengths = _runs(levels)
        return len(values).to_bytes(8, "little") + values + lengths
    parts = []
    for first in range(0, levels.size, _BLOCK):
        part = levels[first : first + _BLOCK]
        if part.size < _BLOCK and width * (_BLOCK - part.size) >= (16 - width) * part.size:
            parts.append(part.tobytes())
        else:
            parts.append(_packed(part, width))
    return b"".join(parts)


def _packed(values: NDArray[Any], width: int) -> bytes:
    words = np.zeros(_BLOCK, values.dtype)
    words[: values.size] = values
    bits = 8 * values.dtype.itemsize
    return packed_block(words.view(np.uint8).reshape(_BLOCK, -1), bits, width).tobytes()


class _Page:
    """The arguments, checked."""

    def __init__(self, values: Bytes, program: Int64, offsets: Bytes | None) -> None:
        numbers = program.tolist()
        if len(numbers) < _NUMBERS:
            raise ValueError("a program is too short")
        self.kind, self.slots, self.num_slots, self.word_bytes = numbers[:4]
        self.visible_max, self.row_level, self.unit = numbers[4], numbers[5], numbers[10]
        self.values, self.offsets = values, offsets
        self.parts = [(numbers[at], numbers[at + 1]) for at in range(_NUMBERS, len(numbers) - 1, 2)]
        if not _PLAIN <= self.kind <= _RUNS or not 0 <= self.num_slots <= 1 << 48:
            raise ValueError("a program has values of an unknown kind or number")
        if self.slots not in [1 << n for n in range(1, 16)]:
            raise ValueError("chunks have 2, 4, ... or 32768 slots")
        if self.word_bytes not in (2, 4):
            raise ValueError("words of chunks have 2 or 4 bytes")
        self._check_values()

    def _check_values(self) -> None:
        if self.kind == _PLAIN:
            if not 1 <= len(self.parts) <= _MOST_PARTS:
                raise ValueError("a program has no part of values, or too many")
        elif self.kind == _TEXT:
            if self.unit not in (4, 8):
                raise ValueError("offsets have 4 or 8 bytes")
            if self.offsets is None or self.offsets.size != (self.num_slots + 1) * self.unit:
                raise ValueError("offsets are one more than the slots")
        elif self.unit not in (1, 2, 4, 8) or self.num_slots * self.unit > self.values.size:
            raise ValueError("values are of another width or fewer than the slots")
        if self.kind == _INLINE and self.slots != _BLOCK:
            raise ValueError("chunks of packed integers have 1024 slots")

    @property
    def num_values(self) -> int:
        """Value buffers of a chunk."""
        return len(self.parts) if self.kind == _PLAIN else 2 if self.kind == _RUNS else 1

    def buffers(self, slot: int, count: int) -> Iterator[bytes]:
        """The value buffers of a chunk."""
        if self.kind == _PLAIN:
            yield from (self._plain(origin, bits, slot, count) for origin, bits in self.parts)
        elif self.kind == _TEXT:
            yield self._text(slot, count)
        else:
            words = self.values[slot * self.unit : (slot + count) * self.unit].view(f"<u{self.unit}")
            if self.kind == _RUNS:
                yield from _runs(words)
            else:
                width = int(np.bitwise_or.reduce(words)).bit_length()
                yield width.to_bytes(self.unit, "little") + _packed(words, width)

    def _plain(self, origin: int, bits: int, slot: int, count: int) -> bytes:
        if not 0 <= bits <= 1 << 16 or self.slots * bits % 8 or not 0 <= origin <= self.values.size:
            fail(Fault.OUT_SIZE, 0)
        start, stop = origin + (slot * bits >> 3), origin + ((slot + count) * bits + 7 >> 3)
        if stop > self.values.size:
            fail(Fault.OUT_SIZE, 0)
        return self.values[start:stop].tobytes()

    def _text(self, slot: int, count: int) -> bytes:
        if self.offsets is None:
            raise TypeError("strings have offsets")
        # A copy is aligned. Sums wrap around, as in the kernel.
        signed = np.frombuffer(self.offsets.tobytes(), f"<{'u' if self.unit == 4 else 'i'}{self.unit}")
        offsets = signed[slot : slot + count + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        if not 0 <= first <= last <= self.values.size:
            fail(Fault.TEXT_OFFSETS, slot)
        head = offsets.nbytes
        most = (1 << 8 * self.unit) - 1
        moved = b"".join(
            ((int(at) + head - first) & most).to_bytes(self.unit, "little") for at in offsets.tolist()
        )
        data = moved + self.values[first:last].tobytes()
        return data + bytes(-len(data) % self.unit)


def _codec(program: Int64, first: int, levels: Levels | None) -> tuple[int, int]:
    kind, width = program[first : first + 2].tolist()
    if (levels is None) != (kind == 0):
        raise ValueError("a program has levels that are not given, or none for those that are")
    if not 0 <= kind <= _LEVELS_RUNS or (kind == _LEVELS_BLOCKS and not 1 <= width <= 15):
        raise ValueError("a program has levels of an unknown kind")
    return kind, width


def _edges(page: _Page, definition: Levels | None, num_levels: int) -> list[int]:
    """First level of each chunk, and the number of levels."""
    visible = np.ones(num_levels, np.bool_)
    if definition is not None:
        visible = np.array([level <= page.visible_max for level in definition.tolist()], np.bool_)
    slots = np.flatnonzero(visible)
    if slots.size != page.num_slots:
        raise ValueError("levels are not of as many slots as there are")
    return [0, *slots[page.slots :: page.slots].tolist(), num_levels]


@checked
def write_chunks(
    values: Bytes,
    program: Int64,
    offsets: Bytes | None,
    rep: Levels | None,
    definition: Levels | None,
    out: Bytes,
    out_words: Bytes,
    out_index: Int64 | None,
) -> int:
    """As :func:`lancecy.kernels.write_chunks`."""
    page = _Page(values, program, offsets)
    num_chunks = -(-page.num_slots // page.slots)
    codecs = [
        (codec, levels)
        for codec, levels in ((_codec(program, 6, rep), rep), (_codec(program, 8, definition), definition))
        if levels is not None
    ]
    if len(codecs) == 2 and codecs[0][1].size != codecs[1][1].size:
        raise ValueError("there are not as many repetition as definition levels")
    fits = out_words.size == num_chunks * page.word_bytes and (rep is None) == (out_index is None)
    if not fits or (out_index is not None and out_index.size != 2 * num_chunks):
        raise ValueError("out_words or out_index do not fit the chunks")
    if num_chunks == 0:
        return 0
    edges = _edges(page, definition, codecs[0][1].size if codecs else page.num_slots)
    sink = _Sink(out)
    for number in range(num_chunks):
        slot, first, last = number * page.slots, edges[number], edges[number + 1]
        count = min(page.slots, page.num_slots - slot)
        levels = [(codec, part[first:last]) for codec, part in codecs]
        try:
            size = _chunk(page, sink, slot, count, levels)
        except _NoRoomError:
            _no_room()
        if size < 0:
            return -1
        log = 0 if number == num_chunks - 1 else page.slots.bit_length() - 1
        word = (2 * size - 16 | log).to_bytes(8, "little")[: page.word_bytes]
        at = number * page.word_bytes
        out_words[at : at + page.word_bytes] = np.frombuffer(word, np.uint8)
        if rep is not None and out_index is not None:
            # Readers take the end of the page for the end of a row.
            starts = np.append(np.flatnonzero(rep == page.row_level), rep.size)
            ends = starts[(starts > first) & (starts <= last)]
            out_index[2 * number : 2 * number + 2] = ends.size, last - (ends[-1] if ends.size else first)
    return sink.at


def _no_room() -> NoReturn:
    fail(Fault.OUT_SIZE, 0)


def _chunk(
    page: _Page, sink: _Sink, slot: int, count: int, levels: list[tuple[tuple[int, int], Levels]]
) -> int:
    """Write a chunk; returns its bytes, -1 if its head cannot state its numbers."""
    start = sink.at
    head = 2 + 2 * len(levels) + page.word_bytes * page.num_values
    sink.put(bytes(head + 7 & -8))
    sizes = []
    for (kind, width), part in levels:
        sizes.append((sink.put(_level_bytes(kind, width, part)), 2))
        sink.put(bytes(-sink.at % 8))
    for data in page.buffers(slot, count):
        sizes.append((sink.put(data), page.word_bytes))
        sink.put(bytes(-sink.at % 8))
    num_levels = levels[0][1].size if levels else 0
    stated = b"".join(size.to_bytes(8, "little")[:width] for size, width in [(num_levels, 2), *sizes])
    sink.out[start : start + head] = np.frombuffer(stated, np.uint8)
    size = sink.at - start
    is_stated = num_levels <= _MOST_LEVELS and all(n <= _MOST_LEVELS for n, _ in sizes[: len(levels)])
    return size if is_stated and size <= (_U16_CHUNK if page.word_bytes == 2 else _U32_CHUNK) else -1


# -- measuring --------------------------------------------------------------------------------


def _valid_slots(definition: Levels | None, visible_max: int, num_values: int) -> list[int]:
    if definition is None:
        return list(range(num_values))
    visible = [level for level in definition.tolist() if level <= visible_max]
    if len(visible) != num_values:
        raise ValueError("levels are not of as many slots as there are")
    return [slot for slot, level in enumerate(visible) if level == 0]


@checked
def measure_numbers(
    values: Bytes, width: int, definition: Levels | None, visible_max: int, step: int
) -> tuple[int, int, int, int]:
    """As :func:`lancecy.kernels.measure_numbers`."""
    if width < 1 or step < 1 or values.size % width:
        raise ValueError("values are not of that width, or a step is not positive")
    num_values = values.size // width
    valid = _valid_slots(definition, visible_max, num_values)
    if num_values == 0:
        return -1, 0, 0, 0
    rows = values.reshape(num_values, width)
    found = {rows[slot].tobytes() for slot in valid}
    same = valid[0] if len(found) == 1 else -1
    examined = runs = packed = 0
    for first in range(0, num_values if width in (1, 2, 4, 8) else 0, step * _BLOCK):
        block = np.frombuffer(rows[first : first + _BLOCK].tobytes(), f"<u{width}")
        changes = int(np.count_nonzero(block[1:] != block[:-1]))
        examined += block.size
        runs += 1 + changes + (block.size - 1) // _LONGEST_RUN
        packed += width + _BLOCK // 8 * int(np.bitwise_or.reduce(block)).bit_length()
    return same, examined, runs, packed


@checked
def measure_texts(
    values: Bytes, offsets: Bytes, width: int, definition: Levels | None, visible_max: int
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.measure_texts`."""
    if width not in (4, 8):
        raise ValueError("offsets have 4 or 8 bytes")
    if offsets.size % width or not offsets.size:
        raise ValueError("offsets are one more than the values")
    edges = np.frombuffer(offsets.tobytes(), f"<{'u' if width == 4 else 'i'}{width}").tolist()
    valid = _valid_slots(definition, visible_max, len(edges) - 1)
    for slot, (start, stop) in enumerate(pairwise(edges)):
        if not 0 <= start <= stop <= values.size:
            fail(Fault.TEXT_OFFSETS, slot)
    longest = max((stop - start for start, stop in pairwise(edges)), default=0)
    found = {values[edges[slot] : edges[slot + 1]].tobytes() for slot in valid}
    return valid[0] if len(found) == 1 else -1, longest
