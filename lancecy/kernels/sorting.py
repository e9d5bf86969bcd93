"""Sorts whole numbers by their digits, in a fraction of the time that comparing them takes."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels

__all__ = ["sorted_order", "sorted_unique"]

Int64 = NDArray[np.int64]
Whole = TypeVar("Whole", np.int64, np.uint64)

_WORD_BITS = 64
# From so many numbers on, sorting by digits pays.
_MANY = 2000


def sorted_order(keys: NDArray[Any]) -> Int64:
    """Positions of whole numbers in ascending order, those of equal ones as they are: a stable ``numpy.argsort``.

    Parameters
    ----------
    keys : (n,) integers

    Returns
    -------
    (n,) int64

    Examples
    --------
    >>> sorted_order(np.array([3, -1, 3, 0])).tolist()
    [1, 3, 0, 2]
    """
    if keys.size < _MANY:
        return np.argsort(keys, kind="stable")
    if bool((keys[1:] >= keys[:-1]).all()):
        return np.arange(keys.size)
    low, high = int(keys.min()), int(keys.max())
    bits = (keys.size - 1).bit_length()
    # Differences wrap around as unsigned integers, so that the extent of signed ones fits.
    words = keys.astype(np.int64).view(np.uint64) if keys.dtype.kind == "i" else keys.astype(np.uint64)
    words -= np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF)
    extent, room = (high - low).bit_length(), _WORD_BITS - bits
    if extent <= room:
        return _positions(words, extent, bits)
    # A key and its position take more than a word: the lower bits are sorted first.
    above = words >> np.uint64(room)
    order = _positions(words, room, bits)
    return order[_positions(above[order], extent - room, bits)]


def sorted_unique(numbers: NDArray[Whole]) -> NDArray[Whole]:
    """The distinct numbers, ascending; the same array if they are that already.

    Parameters
    ----------
    numbers : (n,) int64 or uint64

    Examples
    --------
    >>> sorted_unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if numbers.size < 2 or bool((numbers[1:] > numbers[:-1]).all()):
        return numbers
    # np.unique hashes first, which takes several times as long.
    ordered = _sorted(numbers)
    found: NDArray[Whole] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def _sorted(numbers: NDArray[Whole]) -> NDArray[Whole]:
    words = np.ascontiguousarray(numbers).view(np.uint64)
    bits = int(np.bitwise_or.reduce(words)).bit_length()
    are_negative = bits == _WORD_BITS and numbers.dtype == np.int64
    if words.size < _MANY or are_negative:
        return np.sort(numbers)
    found = np.empty_like(words)
    kernels.sort_words(words, found, np.empty_like(words), 0, bits)
    return found.view(numbers.dtype)


def _positions(words: NDArray[np.uint64], extent: int, bits: int) -> Int64:
    """The order of words by their lowest ``extent`` bits; a position has ``bits``, and both fit into 64.

    The words are overwritten.
    """
    words <<= np.uint64(bits)
    words |= np.arange(words.size, dtype=np.uint64)
    found = np.empty_like(words)
    kernels.sort_words(words, found, np.empty_like(words), bits, bits + extent)
    found &= np.uint64((1 << bits) - 1)
    return found.view(np.int64)
