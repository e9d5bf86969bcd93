"""Portable 32-bit roaring bitmaps to sorted numbers and back.

Bitmaps of files are read by kernels that check all stated sizes (``lancecy.kernels.read_bitmap`` draws the bytes), as the
C library of pyroaring, which writes them, trusts these.
"""

from __future__ import annotations

from array import array

import numpy as np
import pyroaring
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.errors import FormatError, LimitError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory

__all__ = ["decode", "decode_first", "encode", "fragment_ids", "union"]

Int64 = NDArray[np.int64]

_BYTES_PER_NUMBER = 8
_MOST_FRAGMENTS = DEFAULT_LIMITS.fragments


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
    total, size = kernels.measure_bitmap(memory)
    if total < 0:
        raise FormatError(
            f"not a roaring bitmap, or its keys do not ascend at container {size}", position=size
        )
    limits.check("metadata_bytes", total * _BYTES_PER_NUMBER, f"a bitmap of {total} numbers: size")
    numbers = np.empty(total, np.int64)
    try:
        kernels.read_bitmap(memory, numbers)
    except FormatError as error:
        raise FormatError(
            f"container {error.position} of a roaring bitmap does not hold the ascending numbers that it states",
            position=error.position,
        ) from None
    return numbers, size


def fragment_ids(memory: Memory) -> Int64:
    """The ids of fragments in a serialized roaring bitmap; parameters and result as of :func:`decode`.

    Raises
    ------
    FormatError
        As :func:`decode`.
    LimitError
        More ids than any table has fragments: Python's integers, which most callers make of them, take ten times the
        memory.
    """
    total, _ = kernels.measure_bitmap(memory)
    if total > _MOST_FRAGMENTS:
        raise LimitError(
            f"a bitmap names {total:,} fragments, and lancecy reads {_MOST_FRAGMENTS:,} at most: create the index again",
            limit="fragments",
            claimed=total,
        )
    return decode(memory)


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
