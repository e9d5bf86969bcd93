"""XXH64, the hash of values in Bloom filters; for the few constants of a filter.

Source: specification of xxHash, algorithm XXH64; sheet of indices, section B7.
"""

from __future__ import annotations

import struct

__all__ = ["xxh64"]

_MASK = (1 << 64) - 1
_ONE, _TWO, _THREE = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_FOUR, _FIVE = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE = 32


def xxh64(data: bytes) -> int:
    """The 64-bit hash of some bytes, with seed 0.

    Parameters
    ----------
    data : bytes

    Examples
    --------
    >>> hex(xxh64(b"")), hex(xxh64(b"a")), hex(xxh64(b"abc"))
    ('0xef46db3751d8e999', '0xd24ec4f1a98c6e5b', '0x44bc2cf5ad770999')
    """
    start = len(data) - len(data) % _STRIPE
    found = _stripes(data[:start]) if start else _FIVE
    found = (found + len(data)) & _MASK
    while start + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, start)
        found = (_rotate(found ^ _round(0, word), 27) * _ONE + _FOUR) & _MASK
        start += 8
    if start + 4 <= len(data):
        (half,) = struct.unpack_from("<I", data, start)
        found = (_rotate(found ^ (half * _ONE & _MASK), 23) * _TWO + _THREE) & _MASK
        start += 4
    for byte in data[start:]:
        found = _rotate(found ^ (byte * _FIVE & _MASK), 11) * _ONE & _MASK
    found = (found ^ (found >> 33)) * _TWO & _MASK
    found = (found ^ (found >> 29)) * _THREE & _MASK
    return found ^ (found >> 32)


def _stripes(data: bytes) -> int:
    lanes = [(_ONE + _TWO) & _MASK, _TWO, 0, -_ONE & _MASK]
    for words in struct.iter_unpack("<4Q", data):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
    found = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        found = ((found ^ _round(0, lane)) * _ONE + _FOUR) & _MASK
    return found


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _TWO) & _MASK, 31) * _ONE & _MASK


def _rotate(value: int, turn: int) -> int:
    return ((value << turn) | (value >> (64 - turn))) & _MASK
