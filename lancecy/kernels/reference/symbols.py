"""Twins of ``_fsst_writer``: symbols are looked for and found one text at a time, in dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked

__all__ = ["fsst_encode", "fsst_train"]

Bytes = NDArray[np.uint8]

_ROUNDS, _SAMPLE, _PIECE, _TABLE_BYTES = 5, 1 << 14, 512, 2312
_MOST_SYMBOLS, _LONGEST, _PLACES, _BYTE_GAIN = 255, 8, 1024, 8
_ESCAPE = b"\xff"
_MAGIC = 0x46535354


def _place(symbol: bytes) -> int:
    mixed = int.from_bytes(symbol[:3], "little") * 2971215073 & 0xFFFFFFFF
    return (mixed ^ mixed >> 15) & (_PLACES - 1)


class _Symbols:
    """A table: no two symbols of three bytes and more have the same place."""

    def __init__(self) -> None:
        self.symbols: list[bytes] = []
        self._codes: dict[bytes, int] = {}
        self._places: dict[int, bytes] = {}

    def add(self, symbol: bytes) -> bool:
        if len(self.symbols) >= _MOST_SYMBOLS or not 1 <= len(symbol) <= _LONGEST:
            return False
        if len(symbol) >= 3:
            if _place(symbol) in self._places:
                return False
            self._places[_place(symbol)] = symbol
        self._codes[symbol] = len(self.symbols)
        self.symbols.append(symbol)
        return True

    def split(self, text: bytes) -> Iterator[tuple[int | None, bytes]]:
        """The codes of a text with what they stand for; None for a byte without a symbol."""
        at = 0
        while at < len(text):
            long = self._places.get(_place(text[at : at + 3].ljust(3, b"\0")))
            found = text[at : at + 1]
            if long is not None and text.startswith(long, at):
                found = long
            elif text[at : at + 2] in self._codes:
                found = text[at : at + 2]
            yield self._codes.get(found), found
            at += len(found)

    def encode(self, text: bytes) -> bytes:
        return b"".join(
            _ESCAPE + found if code is None else bytes([code]) for code, found in self.split(text)
        )


class _Texts:
    """Texts that are checked when they are asked for."""

    def __init__(self, values: Bytes, offsets: Bytes, width: int) -> None:
        if width not in (4, 8):
            raise ValueError("offsets have 4 or 8 bytes")
        if offsets.size % width or not offsets.size:
            raise ValueError("offsets are one more than the values")
        kind = "<u4" if width == 4 else "<i8"
        self.values = values
        self.edges: list[int] = np.frombuffer(offsets.tobytes(), kind).tolist()
        self.count = len(self.edges) - 1

    def __getitem__(self, row: int) -> bytes:
        start, stop = self.edges[row], self.edges[row + 1]
        if not 0 <= start <= stop <= self.values.size:
            fail(Fault.TEXT_OFFSETS, row)
        return self.values[start:stop].tobytes()

    def pieces(self, most: int) -> Iterator[bytes]:
        """Pieces of texts, about ``most`` bytes, from all parts of the values."""
        step = max(1, self.count * min(_PIECE, self.values.size // self.count) // _SAMPLE)
        row = seen = 0
        while row < self.count and seen < most:
            text = self[row]
            if len(text) > _PIECE:
                start = row * 7919 % (len(text) - _PIECE + 1)
                text = text[start : start + _PIECE]
            yield text
            seen += len(text)
            row += step


def _counted(
    symbols: _Symbols, texts: _Texts, most: int
) -> tuple[Counter[bytes], Counter[tuple[bytes, bytes]]]:
    singles: Counter[bytes] = Counter()
    pairs: Counter[tuple[bytes, bytes]] = Counter()
    for piece in texts.pieces(most):
        found = [(text, code is None) for code, text in symbols.split(piece)]
        singles.update(text for text, _ in found)
        pairs.update((found[n][0], found[n + 1][0]) for n in range(len(found) - 1))
    return singles, pairs


def _next(singles: Counter[bytes], pairs: Counter[tuple[bytes, bytes]], least: int) -> _Symbols:
    """The symbols that save most."""
    gains: Counter[bytes] = Counter()
    for text, count in singles.items():
        if count >= least:
            gains[text] += count * len(text) * (_BYTE_GAIN if len(text) == 1 else 1)
    for (left, right), count in pairs.items():
        if count >= least and singles[left] >= least and len(left) < _LONGEST:
            joined = (left + right)[:_LONGEST]
            gains[joined] += count * len(joined)
    symbols = _Symbols()
    for text, _ in sorted(
        gains.items(), key=lambda item: (-item[1], -len(item[0]), int.from_bytes(item[0], "little"))
    ):
        symbols.add(text)
    return symbols


@checked
def fsst_train(values: Bytes, offsets: Bytes, width: int, out_table: Bytes) -> tuple[int, int]:
    """As :func:`lancecy.kernels.fsst_train`."""
    texts = _Texts(values, offsets, width)
    if out_table.size != _TABLE_BYTES:
        raise ValueError("a table of symbols has 2312 bytes")
    symbols, seen, coded = _Symbols(), 0, 0
    if texts.count:
        for turn in range(_ROUNDS):
            counts = _counted(symbols, texts, _SAMPLE * (turn + 1) // _ROUNDS)
            symbols = _next(*counts, turn + 1)
        pieces = list(texts.pieces(_SAMPLE))
        seen, coded = sum(map(len, pieces)), sum(len(symbols.encode(piece)) for piece in pieces)
    found = symbols.symbols
    header = (_MAGIC << 32 | 1 << 24 | len(found)).to_bytes(8, "little")
    table = header + b"".join(symbol.ljust(8, b"\0") for symbol in found) + bytes(map(len, found))
    out_table[:] = np.frombuffer(table.ljust(_TABLE_BYTES, b"\0"), np.uint8)
    return seen, coded


@checked
def fsst_encode(
    table: Bytes, values: Bytes, offsets: Bytes, width: int, out: Bytes, out_offsets: Bytes
) -> int:
    """As :func:`lancecy.kernels.fsst_encode`."""
    texts = _Texts(values, offsets, width)
    if table.size != _TABLE_BYTES or out_offsets.size != offsets.size:
        raise ValueError("a table of symbols has 2312 bytes, and there are as many offsets as before")
    symbols, count = _Symbols(), int(table[0])
    for number, length in enumerate(table[8 + 8 * count : 8 + 9 * count].tolist()):
        start = 8 + 8 * number
        if not 1 <= length <= _LONGEST or not symbols.add(table[start : start + length].tobytes()):
            raise ValueError("two symbols of a table begin alike, or one has an impossible length")
    done, ends = 0, [0]
    for row in range(texts.count):
        text = texts[row]
        if 2 * len(text) > out.size - done:
            fail(Fault.OUT_SIZE, row)
        codes = symbols.encode(text)
        out[done : done + len(codes)] = np.frombuffer(codes, np.uint8)
        done += len(codes)
        ends.append(done)
    out_offsets[:] = np.array(ends, f"<i{width}").view(np.uint8)
    return done
