"""Serialized sets of row ids: for each upper half of the ids, a roaring bitmap of the lower halves.

::

    u32 number of bitmaps
    per bitmap, ascending:  u32 upper half of the ids, u32 bytes, portable 32-bit roaring bitmap without run containers

All sets are laid out at once, in units of two bytes, which every part of them is a multiple of.

Source: sheet of indices, section B2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pyroaring
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = ["GrowingSet", "encoded_map", "encoded_sets"]

UInt64: TypeAlias = NDArray[np.uint64]
UInt16: TypeAlias = NDArray[np.uint16]
UInt8: TypeAlias = NDArray[np.uint8]
Int64: TypeAlias = NDArray[np.int64]

_COOKIE = 12346
"""Of a roaring bitmap without run containers."""
_ARRAY_MOST = 4096
"""Numbers of a container that lists them; one with more is a map of bits."""
_BITMAP_UNITS = 4096
_CONTAINER_IDS = 1 << 16
_MAPS_AT_ONCE = 256


def encoded_sets(groups: Int64, ids: UInt64, count: int) -> tuple[Int64, UInt8]:
    """Serialize sets of row ids.

    Parameters
    ----------
    groups : (n,) int64, not descending
        Number of the set that each id belongs to, in 0 .. count - 1.
    ids : (n,) uint64
        In any order within a set, also repeated.
    count : int
        The number of sets.

    Returns
    -------
    offsets : (count + 1,) int64
    data : (offsets[-1],) uint8
        The bytes of each set from its offset on.

    Examples
    --------
    >>> offsets, data = encoded_sets(np.array([0, 1]), np.array([5, 6], np.uint64), 2)
    >>> offsets.tolist(), data[:4].tolist()
    ([0, 30, 60], [1, 0, 0, 0])
    """
    groups, ids = _distinct(groups, ids)
    layout = _Layout.of(groups, ids, count)
    units = np.zeros(int(layout.sets[-1]), "<u2")
    layout.write_headers(units, ids)
    layout.write_values(units, ids)
    return layout.sets * 2, units.view(np.uint8)


def _distinct(groups: Int64, ids: UInt64) -> tuple[Int64, UInt64]:
    """The pairs in ascending order, each once."""
    is_same = groups[1:] == groups[:-1]
    if bool((is_same & (ids[1:] < ids[:-1])).any()):
        order = np.lexsort((ids, groups))
        groups, ids = groups[order], ids[order]
        is_same = groups[1:] == groups[:-1]
    repeats = is_same & (ids[1:] == ids[:-1])
    if bool(repeats.any()):
        kept = np.append(True, ~repeats)
        groups, ids = groups[kept], ids[kept]
    return groups, ids


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where the parts of some sets begin, in units of two bytes.

    Attributes
    ----------
    sets : (count + 1,) int64
    bitmaps : (m,) int64
        Where each bitmap begins, with its upper half and size.
    bitmap_sizes, bitmap_containers : (m,) int64
        Units of the roaring bitmap alone, and its containers.
    first_of_bitmap : (m,) int64
        Its first container.
    set_bitmaps : (count,) int64
        Bitmaps of each set.
    containers : (k,) int64
        Where the values of each container begin.
    starts, cards : (k,) int64
        First id, and number of ids, of each container.
    """

    sets: Int64
    bitmaps: Int64
    bitmap_sizes: Int64
    bitmap_containers: Int64
    first_of_bitmap: Int64
    set_bitmaps: Int64
    containers: Int64
    starts: Int64
    cards: Int64

    @classmethod
    def of(cls, groups: Int64, ids: UInt64, count: int) -> _Layout:
        starts = _starts(groups, ids >> np.uint64(16))
        cards = np.diff(np.append(starts, ids.size))
        sizes = np.where(cards <= _ARRAY_MOST, cards, _BITMAP_UNITS)
        first = _starts(groups[starts], ids[starts] >> np.uint64(32))
        num_containers = np.diff(np.append(first, starts.size))
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        values = before[np.append(first[1:], starts.size)] - before[first] if first.size else before[:0]
        # Cookie and number of containers; key, number of values and position of each container.
        bitmap_sizes = 4 + 4 * num_containers + values
        set_of_bitmap = groups[starts[first]]
        set_bitmaps = np.bincount(set_of_bitmap, minlength=count)
        set_sizes = 2 + np.bincount(set_of_bitmap, 4 + bitmap_sizes, count).astype(np.int64)
        sets = np.concatenate((np.zeros(1, np.int64), np.cumsum(set_sizes)))
        bitmaps = _exclusive(4 + bitmap_sizes) + 2 * (set_of_bitmap + 1)
        within = before[:-1] - np.repeat(before[first], num_containers)
        containers = np.repeat(bitmaps + 8 + 4 * num_containers, num_containers) + within
        return cls(sets, bitmaps, bitmap_sizes, num_containers, first, set_bitmaps, containers, starts, cards)

    def write_headers(self, units: UInt16, ids: UInt64) -> None:
        """Write everything but the values."""
        _put(units, self.sets[:-1], self.set_bitmaps)
        uppers = ids[self.starts[self.first_of_bitmap]] >> np.uint64(32)
        _put(units, self.bitmaps, uppers.astype(np.int64))
        _put(units, self.bitmaps + 2, self.bitmap_sizes * 2)
        units[self.bitmaps + 4] = _COOKIE
        _put(units, self.bitmaps + 6, self.bitmap_containers)
        counts = self.bitmap_containers
        number = np.arange(self.starts.size) - np.repeat(self.first_of_bitmap, counts)
        begin = np.repeat(self.bitmaps + 4, counts)
        units[begin + 4 + 2 * number] = (ids[self.starts] >> np.uint64(16)).astype(np.uint16)
        units[begin + 5 + 2 * number] = self.cards - 1
        _put(units, begin + 4 + 2 * np.repeat(counts, counts) + 2 * number, (self.containers - begin) * 2)

    def write_values(self, units: UInt16, ids: UInt64) -> None:
        """Write the values of the containers."""
        lower = ids.astype(np.uint16)
        is_array = self.cards <= _ARRAY_MOST
        shift = np.repeat(self.containers - self.starts, self.cards)
        if bool(is_array.all()):
            units[np.arange(ids.size) + shift] = lower
            return
        listed = np.flatnonzero(np.repeat(is_array, self.cards))
        units[listed + shift[listed]] = lower[listed]
        mapped = np.flatnonzero(~is_array)
        for start in range(0, mapped.size, _MAPS_AT_ONCE):
            self._write_maps(units, mapped[start : start + _MAPS_AT_ONCE], lower)

    def _write_maps(self, units: UInt16, chosen: Int64, lower: UInt16) -> None:
        """Write containers that are maps of bits."""
        cards = self.cards[chosen]
        rows = np.repeat(np.arange(chosen.size), cards)
        at = np.arange(rows.size) + np.repeat(self.starts[chosen] - _exclusive(cards), cards)
        bits = np.zeros((chosen.size, _CONTAINER_IDS), np.bool_)
        bits[rows, lower[at]] = True
        packed = np.packbits(bits, axis=1, bitorder="little").view("<u2")
        units[self.containers[chosen][:, None] + np.arange(_BITMAP_UNITS)] = packed


def _starts(groups: Int64, parts: UInt64) -> Int64:
    """Positions where the group or the part changes, the first one included."""
    if not groups.size:
        return np.empty(0, np.int64)
    changes = (groups[1:] != groups[:-1]) | (parts[1:] != parts[:-1])
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(changes) + 1))


def _exclusive(sizes: Int64) -> Int64:
    """Sum of all sizes before each."""
    return np.cumsum(sizes) - sizes


def _put(units: UInt16, at: Int64, numbers: Int64) -> None:
    """Write numbers of 32 bits."""
    units[at] = numbers & 0xFFFF
    units[at + 1] = numbers >> 16


def encoded_map(ids: UInt64) -> bytes:
    """A set of row ids as NGRAM indices have it: a 64-bit roaring bitmap.

    Parameters
    ----------
    ids : (n,) uint64
        In any order.

    Examples
    --------
    >>> list(encoded_map(np.array([5], np.uint64))[:12])
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    """
    data: bytes = pyroaring.BitMap64(ids).serialize()
    return data


class GrowingSet:
    """A set of row ids that grows, kept as bitmaps.

    Examples
    --------
    >>> found = GrowingSet()
    >>> found.add(np.array([5, 1 << 32], np.uint64))
    >>> len(found.encode())
    56
    """

    def __init__(self) -> None:
        self._parts: dict[int, pyroaring.BitMap] = {}

    def add(self, ids: UInt64) -> None:
        """Add ids.

        Parameters
        ----------
        ids : (n,) uint64
            In any order, also repeated.
        """
        if not ids.size:
            return
        uppers = ids >> np.uint64(32)
        for upper in np.unique(uppers).tolist():
            lower = ids[uppers == upper].astype(np.uint32)
            self._parts.setdefault(upper, pyroaring.BitMap()).update(pyroaring.BitMap(lower, optimize=False))

    def encode(self) -> bytes:
        """The serialized set."""
        return b"".join(self._pieces())

    def _pieces(self) -> Iterable[bytes]:
        yield len(self._parts).to_bytes(4, "little")
        for upper, part in sorted(self._parts.items()):
            data = part.serialize()
            yield upper.to_bytes(4, "little")
            yield len(data).to_bytes(4, "little")
            yield data
