"""Serialized sets of rows: one roaring bitmap of the lower halves of row ids for each upper half.

::

    u32 n
    n times, upper halves ascending:   u32 upper half | u32 size | size bytes of a portable 32-bit roaring bitmap
                                                               0: every row with this upper half

The upper half of a row address is its fragment. An NGRAM index has the 64-bit form of roaring bitmaps instead:

::

    u64 n
    n times, upper halves ascending:   u32 upper half | a portable 32-bit roaring bitmap, which tells its size

Source: sheet of indices, section B2; RoaringFormatSpec, extension for 64-bit implementations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory
from lancecy.table.rows import roaring

__all__ = ["decode_row_map", "decode_row_set", "ids_of_halves"]

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]

_COUNT_BYTES = 4
_MAP_COUNT_BYTES = 8
_HEADER_BYTES = 8


def decode_row_set(memory: Memory, limits: Limits = DEFAULT_LIMITS) -> Iterator[tuple[int, Int64 | None]]:
    r"""Yield the upper halves of a serialized set, each with its lower halves; None for all of them.

    Parameters
    ----------
    memory : (nbytes,) uint8
        The set, nothing before or after it.
    limits : Limits

    Yields
    ------
    (int, (n,) int64 or None)
        Lower halves ascend.

    Raises
    ------
    FormatError, LimitError
        The bytes are no such set.

    Examples
    --------
    >>> data = np.frombuffer(b"\x01\0\0\0" + b"\x07\0\0\0" + b"\0\0\0\0", np.uint8)
    >>> list(decode_row_set(data))
    [(7, None)]
    """
    count = int(_take(memory, 0, _COUNT_BYTES).view("<u4")[0])
    position, last = _COUNT_BYTES, -1
    for _ in range(count):
        upper, size = (int(n) for n in _take(memory, position, _HEADER_BYTES).view("<u4"))
        position += _HEADER_BYTES
        _check_ascent(upper, last, position)
        yield upper, roaring.decode(_take(memory, position, size), limits) if size else None
        position, last = position + size, upper
    _check_end(memory, position)


def decode_row_map(memory: Memory, limits: Limits = DEFAULT_LIMITS) -> Iterator[tuple[int, Int64]]:
    r"""Yield the upper halves of a 64-bit roaring bitmap, each with its lower halves.

    Parameters, errors: as :func:`decode_row_set`.

    Yields
    ------
    (int, (n,) int64)
        Lower halves ascend.

    Examples
    --------
    >>> data = np.frombuffer(b"\x01" + bytes(7) + b"\x07\0\0\0" + roaring.encode(np.array([3])), np.uint8)
    >>> list(decode_row_map(data))
    [(7, array([3]))]
    """
    count = int(_take(memory, 0, _MAP_COUNT_BYTES).view("<u8")[0])
    position, last = _MAP_COUNT_BYTES, -1
    for _ in range(count):
        upper = int(_take(memory, position, _COUNT_BYTES).view("<u4")[0])
        position += _COUNT_BYTES
        _check_ascent(upper, last, position)
        lower, size = roaring.decode_first(memory[position:], limits)
        yield upper, lower
        position, last = position + size, upper
    _check_end(memory, position)


def ids_of_halves(halves: Iterable[tuple[int, Int64]]) -> UInt64:
    """Row ids of upper halves with their lower ones: (n,) uint64.

    Examples
    --------
    >>> ids_of_halves([(1, np.array([0, 2]))]).tolist()
    [4294967296, 4294967298]
    """
    parts = [lower.astype(np.uint64) | np.uint64(upper << 32) for upper, lower in halves]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _check_ascent(upper: int, last: int, position: int) -> None:
    if upper <= last:
        raise FormatError("the fragments of a set of rows do not ascend", position=position)


def _check_end(memory: Memory, position: int) -> None:
    if position != memory.size:
        raise FormatError(f"{memory.size - position} bytes follow a set of rows", position=position)


def _take(memory: Memory, start: int, nbytes: int) -> Memory:
    if nbytes > memory.size - start:
        raise TruncatedError("a set of rows ends early", position=start)
    return memory[start : start + nbytes]
