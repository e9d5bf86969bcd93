"""Portable 32-bit roaring bitmaps to sorted numbers, in NumPy, every claim checked.

::

    u32 cookie            12346: u32 number of containers follows
                          low half 12347: high half + 1 containers, then one bit each: is it a run container
    (u16 key, u16 count-1) per container, keys ascending; a key is the upper half of its numbers
    u32 position per container              unless there are run containers and fewer than four in all
    containers:  array   count <= 4096      u16 lower halves, ascending
                 bitmap  count  > 4096      8192 bytes, lowest bit first
                 run                        u16 number of runs, then (u16 start, u16 length-1) each

Bytes of strangers never reach the C library that wrote the format: its readers trust containers.
Imports ``errors`` and NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory

__all__ = ["decode", "encode"]

_NO_RUNS = 12346
_WITH_RUNS = 12347
_ARRAY_MAX = 4096
_BITMAP_BYTES = 8192
_FEW = 4


class _Cursor:
    """Takes bytes from the front, never more than there are."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.position = 0

    def take(self, nbytes: int) -> Memory:
        if nbytes > self._memory.size - self.position:
            raise TruncatedError("a roaring bitmap ends early", position=self.position)
        start = self.position
        self.position += nbytes
        return self._memory[start : self.position]

    def numbers(self, count: int, kind: str) -> NDArray[np.int64]:
        """The next ``count`` little-endian numbers as int64."""
        width = np.dtype(kind).itemsize
        return self.take(count * width).view(kind).astype(np.int64)

    @property
    def left(self) -> int:
        return self._memory.size - self.position


def decode(memory: Memory, limits: Limits = DEFAULT_LIMITS) -> NDArray[np.int64]:
    """The numbers in a serialized roaring bitmap.

    Parameters
    ----------
    memory : (nbytes,) uint8
        The bitmap, nothing before or after it.

    Returns
    -------
    (cardinality,) int64, ascending, without duplicates, each in 0 .. 2**32 - 1

    Raises
    ------
    FormatError
        The bytes are no such bitmap or contradict themselves.
    LimitError
        More numbers than ``limits.metadata_bytes`` hold; run containers make few bytes into many numbers.

    Source: RoaringFormatSpec of the roaring bitmap project; table sheet, section 2.3.
    """
    cursor = _Cursor(memory)
    keys, counts, is_run = _header(cursor)
    total = int(counts.sum())
    limits.check("metadata_bytes", total * 8, f"a bitmap of {total} numbers: size")
    result = np.empty(total, np.int64)
    filled = 0
    for key, count, run in zip(keys.tolist(), counts.tolist(), is_run.tolist(), strict=True):
        values = _container(cursor, count, run)
        result[filled : filled + count] = values
        result[filled : filled + count] += key << 16
        filled += count
    if cursor.left:
        raise FormatError(f"{cursor.left} bytes follow a roaring bitmap", position=cursor.position)
    return result


def encode(numbers: NDArray[np.int64]) -> bytes:
    """A serialized bitmap of these numbers, without run containers, which every reader knows.

    Parameters
    ----------
    numbers : (cardinality,) int64, ascending, without duplicates, each in 0 .. 2**32 - 1

    Examples
    --------
    >>> decode(np.frombuffer(encode(np.array([3, 70_000])), np.uint8))
    array([    3, 70000])

    Source: as :func:`decode`.
    """
    keys, starts = np.unique(numbers >> 16, return_index=True)
    counts = np.diff(starts, append=numbers.size)
    containers = [_packed(part & 0xFFFF) for part in np.split(numbers, starts[1:])] if keys.size else []
    lengths = np.array([len(container) for container in containers], np.int64)
    positions = 8 + 8 * keys.size + np.cumsum(lengths) - lengths
    head = np.array([_NO_RUNS, keys.size], "<u4").tobytes()
    pairs = np.stack([keys, counts - 1], axis=1).astype("<u2").tobytes()
    return b"".join([head, pairs, positions.astype("<u4").tobytes(), *containers])


def _packed(lower: NDArray[np.int64]) -> bytes:
    """One container: the lower halves as numbers, or as bits where these take less."""
    if lower.size <= _ARRAY_MAX:
        return lower.astype("<u2").tobytes()
    bits = np.zeros(8 * _BITMAP_BYTES, np.uint8)
    bits[lower] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _header(cursor: _Cursor) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Keys and counts of the containers, and which of them are run containers."""
    cookie = int(cursor.numbers(1, "<u4")[0])
    has_runs = cookie & 0xFFFF == _WITH_RUNS
    if has_runs:
        size = (cookie >> 16) + 1
        bits = np.unpackbits(cursor.take((size + 7) // 8), bitorder="little")
        is_run = bits[:size].astype(np.bool_)
    elif cookie == _NO_RUNS:
        size = int(cursor.numbers(1, "<u4")[0])
        if size > 1 << 16:
            raise FormatError(f"a roaring bitmap of {size} containers")
        is_run = np.zeros(size, np.bool_)
    else:
        raise FormatError(f"a roaring bitmap starts with {cookie}, not {_NO_RUNS} or {_WITH_RUNS}")
    pairs = cursor.numbers(2 * size, "<u2")
    keys, counts = pairs[0::2], pairs[1::2] + 1
    if bool((keys[1:] <= keys[:-1]).any()):
        raise FormatError("keys of a roaring bitmap do not ascend")
    if not has_runs or size >= _FEW:
        # Containers are contiguous, so the positions say nothing new; readers differ in using them.
        cursor.take(4 * size)
    return keys, counts, is_run


def _container(cursor: _Cursor, count: int, is_run: bool) -> NDArray[np.int64]:
    start = cursor.position
    if is_run:
        values = _runs(cursor, count)
    elif count <= _ARRAY_MAX:
        values = cursor.numbers(count, "<u2")
    else:
        values = np.flatnonzero(np.unpackbits(cursor.take(_BITMAP_BYTES), bitorder="little"))
    if values.size != count or bool((values[1:] <= values[:-1]).any()):
        raise FormatError(
            f"a container of a roaring bitmap does not hold {count} ascending numbers", position=start
        )
    return values


def _runs(cursor: _Cursor, count: int) -> NDArray[np.int64]:
    pairs = cursor.numbers(2 * int(cursor.numbers(1, "<u2")[0]), "<u2")
    starts, lengths = pairs[0::2], pairs[1::2] + 1
    stops = starts + lengths
    # Before anything is expanded: 65,535 overlapping runs would be four billion numbers.
    if bool((starts[1:] < stops[:-1]).any()) or bool((stops > 1 << 16).any()) or int(lengths.sum()) != count:
        raise FormatError(
            "runs of a roaring bitmap overlap or are not as many as it says", position=cursor.position
        )
    shifts = starts - (np.cumsum(lengths) - lengths)
    return np.repeat(shifts, lengths) + np.arange(count, dtype=np.int64)
