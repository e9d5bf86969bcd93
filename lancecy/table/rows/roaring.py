"""Portable 32-bit roaring bitmaps to sorted numbers and back, by pyroaring after a check of all stated sizes.

::

    u32 cookie            12346: u32 number of containers follows
                          low half 12347: high half + 1 containers, then one bit each: is it a run container
    (u16 key, u16 count-1) per container, keys ascending; a key is the upper half of its numbers
    u32 position per container              unless there are run containers and fewer than four in all
    containers:  array   count <= 4096      u16 lower halves, ascending
                 bitmap  count  > 4096      8192 bytes, lowest bit first
                 run                        u16 number of runs, then (u16 start, u16 length-1) each

The C library of pyroaring trusts the stated sizes of containers, so it gets only bytes that :func:`decode` has
found to be consistent.
"""

from __future__ import annotations

from array import array

import numpy as np
import pyroaring
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory

__all__ = ["decode", "decode_first", "encode", "union"]

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]

_NO_RUNS = 12346
_WITH_RUNS = 12347
_ARRAY_MAX = 4096
_BITMAP_BYTES = 8192
_FEW = 4


class _Cursor:
    """Takes bytes from the front, and raises if there are too few."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.position = 0

    def take(self, nbytes: int) -> Memory:
        if nbytes > self._memory.size - self.position:
            raise TruncatedError("a roaring bitmap ends early", position=self.position)
        start = self.position
        self.position += nbytes
        return self._memory[start : self.position]

    def numbers(self, count: int, kind: str) -> Int64:
        """The next ``count`` little-endian numbers as int64."""
        width = np.dtype(kind).itemsize
        return self.take(count * width).view(kind).astype(np.int64)

    def since(self, position: int) -> Memory:
        """The bytes taken since a position."""
        return self._memory[position : self.position]


def decode(memory: Memory, limits: Limits = DEFAULT_LIMITS) -> Int64:
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
        The bytes are not such a bitmap, or are inconsistent.
    LimitError
        The numbers exceed ``limits.metadata_bytes``; run containers hold many numbers in few bytes.

    Source: RoaringFormatSpec of the roaring bitmap project; table sheet, section 2.3.
    """
    found, size = decode_first(memory, limits)
    if size < memory.size:
        raise FormatError(f"{memory.size - size} bytes follow a roaring bitmap", position=size)
    return found


def decode_first(memory: Memory, limits: Limits = DEFAULT_LIMITS) -> tuple[Int64, int]:
    """The numbers in a serialized roaring bitmap that other bytes may follow, and its size in bytes.

    Parameters, errors and source: as :func:`decode`.
    """
    cursor = _Cursor(memory)
    counts, is_run = _header(cursor)
    total = int(counts.sum())
    limits.check("metadata_bytes", total * 8, f"a bitmap of {total} numbers: size")
    _check_containers(cursor, counts, is_run)
    try:
        found = pyroaring.BitMap.deserialize(memory[: cursor.position].tobytes())
    except ValueError as error:
        raise FormatError(f"not a roaring bitmap: {error}") from error
    return _numbers(found), cursor.position


def encode(numbers: Int64) -> bytes:
    """A serialized bitmap of these numbers, each container in its smallest form.

    Parameters
    ----------
    numbers : (cardinality,) int64, ascending, without duplicates, each in 0 .. 2**32 - 1

    Examples
    --------
    >>> decode(np.frombuffer(encode(np.array([3, 70_000])), np.uint8))
    array([    3, 70000])

    Source: as :func:`decode`.
    """
    bitmap = _bitmap(numbers)
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data


def union(one: Int64, other: Int64) -> Int64:
    """The numbers in either of two arrays, which are as for :func:`encode`.

    Examples
    --------
    >>> union(np.array([3, 70_000]), np.array([3, 5]))
    array([    3,     5, 70000])
    """
    both = _bitmap(one)
    both |= _bitmap(other)
    return _numbers(both)


def _bitmap(numbers: Int64) -> pyroaring.BitMap:
    # Of other arrays each number would become an object.
    return pyroaring.BitMap(array("I", numbers.astype(np.uint32).tobytes()))


def _numbers(bitmap: pyroaring.BitMap) -> Int64:
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)


def _header(cursor: _Cursor) -> tuple[Int64, Bool]:
    """Counts of the containers, and which of them are run containers."""
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
        # Containers are contiguous, so the positions are redundant; some readers use them.
        cursor.take(4 * size)
    return counts, is_run


def _check_containers(cursor: _Cursor, counts: Int64, is_run: Bool) -> None:
    """Refuse containers that do not hold their stated count of numbers, in order."""
    start = cursor.position
    is_array = ~is_run & (counts <= _ARRAY_MAX)
    # All containers have whole units of two bytes; only a run container states their number.
    sizes = np.where(is_array, counts, _BITMAP_BYTES // 2)
    done = 0
    for index in np.flatnonzero(is_run).tolist():
        cursor.take(2 * int(sizes[done:index].sum()))
        sizes[index] = 1 + _check_runs(cursor, int(counts[index]))
        done = index + 1
    cursor.take(2 * int(sizes[done:].sum()))
    units = cursor.since(start).view("<u2")
    ends = np.cumsum(sizes)
    starts = ends - sizes
    breaks = np.flatnonzero(units[1:] <= units[:-1]) + 1
    owner = np.searchsorted(ends, breaks, side="right")
    wrong = owner[is_array[owner] & (breaks > starts[owner])]
    bits = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bitwise_count(units), dtype=np.int64)))
    is_bitmap = ~is_run & ~is_array
    wrong = np.append(wrong, np.flatnonzero(is_bitmap & (bits[ends] - bits[starts] != counts)))
    if wrong.size:
        first = int(wrong.min())
        raise FormatError(
            f"a container of a roaring bitmap does not hold {int(counts[first])} ascending numbers",
            position=start + 2 * int(starts[first]),
        )


def _check_runs(cursor: _Cursor, count: int) -> int:
    """Refuse runs that overlap, touch or have a wrong total count; returns their size in units of two bytes."""
    pairs = cursor.numbers(2 * int(cursor.numbers(1, "<u2")[0]), "<u2")
    starts, lengths = pairs[0::2], pairs[1::2] + 1
    stops = starts + lengths
    # Checked before expansion: 65,535 overlapping runs would be four billion numbers.
    if bool((starts[1:] <= stops[:-1]).any()) or bool((stops > 1 << 16).any()) or int(lengths.sum()) != count:
        raise FormatError(
            "runs of a roaring bitmap overlap or touch, or hold another number than it says",
            position=cursor.position,
        )
    return int(pairs.size)
