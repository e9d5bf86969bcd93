"""Twin of ``_join``: row by row."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked

__all__ = ["find_words", "hash_rows", "index_words"]

_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_MASK = (1 << 64) - 1


@checked
def hash_rows(
    offsets: NDArray[np.int32] | NDArray[np.int64], values: NDArray[np.uint8], out: NDArray[np.uint64]
) -> None:
    """As :func:`lancecy.kernels.hash_rows`."""
    if offsets.size == 0:
        raise ValueError("offsets is empty")
    if out.size != offsets.size - 1:
        fail(Fault.OUT_SIZE, 0)
    text = values.tobytes()
    for index, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= stop <= len(text):
            fail(Fault.TEXT_OFFSETS, index)
    for index, (start, stop) in enumerate(pairwise(offsets.tolist())):
        out[index] = _hash(text[start:stop])


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & _MASK


def _round(state: int, word: int) -> int:
    return _rotated((state + word * _P2) & _MASK, 31) * _P1 & _MASK


def _stripes(text: bytes) -> int:
    state = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
    for words in struct.iter_unpack("<4Q", text[: len(text) // 32 * 32]):
        state = [_round(lane, word) for lane, word in zip(state, words, strict=True)]
    merged = sum(_rotated(lane, bits) for lane, bits in zip(state, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in state:
        merged = ((merged ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return merged


def _hash(text: bytes) -> int:
    state = ((_stripes(text) if len(text) >= 32 else _P5) + len(text)) & _MASK
    rest = text[len(text) // 32 * 32 :]
    for (word,) in struct.iter_unpack("<Q", rest[: len(rest) // 8 * 8]):
        state = (_rotated(state ^ _round(0, word), 27) * _P1 + _P4) & _MASK
    rest = rest[len(rest) // 8 * 8 :]
    if len(rest) >= 4:
        half = int.from_bytes(rest[:4], "little") * _P1 & _MASK
        state = (_rotated(state ^ half, 23) * _P2 + _P3) & _MASK
        rest = rest[4:]
    for byte in rest:
        state = _rotated(state ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    state = (state ^ state >> 33) * _P2 & _MASK
    state = (state ^ state >> 29) * _P3 & _MASK
    return state ^ state >> 32


def _mixed(word: int) -> int:
    word = (word ^ word >> 32) * _P1 & _MASK
    word = (word ^ word >> 29) * _P2 & _MASK
    return word ^ word >> 32


def _mark(word: int, marks: int) -> int:
    return (word * _P1 & _MASK) >> (64 - (marks * 8).bit_length() + 1)


def _check_index(words: int, slots: int, marks: int) -> None:
    if slots < 2 or slots & (slots - 1) or slots < 2 * words:
        raise ValueError("slots must be a power of two, of twice the words or more")
    if marks < 1 or marks & (marks - 1):
        raise ValueError("marks must be a power of two")


@checked
def index_words(
    words: NDArray[np.uint64],
    out_slots: NDArray[np.int64],
    out_chain: NDArray[np.int64],
    out_marks: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.index_words`."""
    _check_index(words.size, out_slots.size, out_marks.size)
    if out_chain.size != words.size:
        raise ValueError("the chain must have as many rows as there are words")
    out_slots[:] = -1
    out_marks[:] = 0
    known = words.tolist()
    for row, word in enumerate(known):
        mixed = _mixed(word)
        bit = _mark(word, out_marks.size)
        out_marks[bit >> 3] |= 1 << (bit & 7)
        place = mixed >> (64 - out_slots.size.bit_length() + 1)
        while out_slots[place] >= 0 and known[out_slots[place]] != word:
            place = (place + 1) % out_slots.size
        out_chain[row] = out_slots[place]
        out_slots[place] = row
    return int(np.count_nonzero(out_chain >= 0))


@checked
def find_words(
    queries: NDArray[np.uint64],
    words: NDArray[np.uint64],
    slots: NDArray[np.int64],
    marks: NDArray[np.uint8],
    out_queries: NDArray[np.int64],
    out_rows: NDArray[np.int64],
) -> int:
    """As :func:`lancecy.kernels.find_words`."""
    _check_index(words.size, slots.size, marks.size)
    if out_queries.size != queries.size or out_rows.size != queries.size:
        fail(Fault.OUT_SIZE, 0)
    if not words.size:
        return 0
    known, found = words.tolist(), 0
    for query, word in enumerate(queries.tolist()):
        bit = _mark(word, marks.size)
        row = _row_of(word, known, slots) if marks[bit >> 3] >> (bit & 7) & 1 else None
        if row is not None:
            out_queries[found], out_rows[found] = query, row
            found += 1
    return found


def _row_of(word: int, known: list[int], slots: NDArray[np.int64]) -> int | None:
    place = _mixed(word) >> (64 - slots.size.bit_length() + 1)
    for _ in range(slots.size):
        row = int(slots[place])
        if not 0 <= row < len(known):
            return None
        if known[row] == word:
            return row
        place = (place + 1) % slots.size
    return None
