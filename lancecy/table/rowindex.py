"""The row-id index of a snapshot: where the row with a stable id is now.

Runs of consecutive ids stay runs, 28 bytes each whatever they hold. Ids without such order get a slot of
4 bytes for every number in their span, or, where that is too wide, are kept sorted at 14 bytes each.
What is sorted is searched through a directory of its highest bits, which leads to a few of them.
``rowindex_build`` makes the index; some rows in it may be deleted, as it says there.

Facts: table sheet, section 3. Imports ``kernels`` and NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels import rowindex_jit

__all__ = ["NO_PLACE", "Directory", "Keys", "RowIndex", "Runs", "Slots"]

UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Bool: TypeAlias = NDArray[np.bool_]

NO_PLACE = (1 << 32) - 1
"""What a slot holds that no id belongs to."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """Where to start looking in a sorted array: the keys' highest bits lead to a few of them.

    Attributes
    ----------
    low : int
        Smallest key.
    shift : int
        Key ``k`` is in bucket ``(k - low) >> shift``.
    starts : (num_buckets + 1,) uint32
        Position of the first key of each bucket, then the number of keys.
    """

    low: int
    shift: int
    starts: UInt32

    @classmethod
    def of(cls, keys: UInt64, buckets_per_key: float) -> Directory:
        """For sorted keys, of no more buckets than that, or one."""
        if not keys.size:
            return cls(0, 0, np.zeros(1, np.uint32))
        low = int(keys[0])
        span, most = int(keys[-1]) - low, max(1, int(keys.size * buckets_per_key))
        # The smallest shift that leaves no more buckets than that: (span >> shift) + 1 <= most.
        shift = max(0, span.bit_length() - most.bit_length())
        shift = min(63, shift + ((span >> shift) >= most))
        starts = np.empty((span >> shift) + 2, np.uint32)
        rowindex_jit.implementation(keys.size).fill_directory(keys, low, shift, starts)
        return cls(low, shift, starts)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Consecutive numbers of consecutive places.

    Attributes
    ----------
    starts : (num_runs,) uint64, ascending
        First number of each run.
    counts : (num_runs,) uint64
    addresses : (num_runs,) uint64
        Place of each run's first number.
    directory : Directory
        Of ``starts``.
    """

    starts: UInt64
    counts: UInt64
    addresses: UInt64
    directory: Directory

    @classmethod
    def of(cls, starts: UInt64, counts: UInt64, addresses: UInt64) -> Runs:
        """From runs in any order."""
        if bool((starts[1:] < starts[:-1]).any()):
            order = np.argsort(starts, kind="stable")
            starts, counts, addresses = starts[order], counts[order], addresses[order]
        return cls(starts, counts, addresses, Directory.of(starts, 1))

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return 3 * self.starts.nbytes + self.directory.starts.nbytes

    def find(self, ids: UInt64) -> tuple[UInt64, Bool]:
        """(places, found) of each id; the place is 0 where it is not found."""
        places, found = np.empty(ids.size, np.uint64), np.empty(ids.size, np.uint8)
        where = self.directory
        rowindex_jit.implementation(ids.size).find_runs(
            ids,
            self.starts,
            self.counts,
            self.addresses,
            where.starts,
            where.low,
            where.shift,
            places,
            found,
        )
        return places, found.view(np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Single ids in order, and which rows they belong to.

    Attributes
    ----------
    keys : (num_keys,) uint64, ascending
    places : (num_keys,) uint32
        Number of the row of each, counted over all rows of all pieces.
    pieces : Runs
        Rows of one fragment that follow each other: from their numbers to their addresses.
    directory : Directory
        Of ``keys``.
    """

    keys: UInt64
    places: UInt32
    pieces: Runs
    directory: Directory

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return self.keys.nbytes + self.places.nbytes + self.pieces.nbytes + self.directory.starts.nbytes

    def find(self, ids: UInt64) -> tuple[UInt64, Bool]:
        """(addresses, found) of each id; the address is 0 where it is not found."""
        numbers, found = np.empty(ids.size, np.uint64), np.empty(ids.size, np.uint8)
        where = self.directory
        rowindex_jit.implementation(ids.size).find_keys(
            ids, self.keys, self.places, where.starts, where.low, where.shift, numbers, found
        )
        return _addresses(self.pieces, numbers, found.view(np.bool_))

    def __len__(self) -> int:
        return self.keys.size


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Single ids that lie close together, as most do: one slot for every number from the smallest to the largest.

    Attributes
    ----------
    low : int
        The smallest id.
    places : (num_slots,) uint32
        As in :class:`Keys`; ``NO_PLACE`` where there is no such id.
    pieces : Runs
        As in :class:`Keys`.
    num_ids : int
    """

    low: int
    places: UInt32
    pieces: Runs
    num_ids: int

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return self.places.nbytes + self.pieces.nbytes

    def find(self, ids: UInt64) -> tuple[UInt64, Bool]:
        """(addresses, found) of each id; the address is 0 where it is not found."""
        slots = ids - np.uint64(self.low)
        inside = (ids >= self.low) & (slots < self.places.size)
        if not inside.all():
            slots[~inside] = 0
        numbers = self.places[slots]
        return _addresses(self.pieces, numbers.astype(np.uint64), inside & (numbers != NO_PLACE))

    def __len__(self) -> int:
        return self.num_ids


def _addresses(pieces: Runs, numbers: UInt64, found: Bool) -> tuple[UInt64, Bool]:
    """Addresses of rows by their numbers, 0 where they are not found; and what is found."""
    if found.all():
        return pieces.find(numbers)[0], found
    addresses = np.zeros(numbers.size, np.uint64)
    addresses[found] = pieces.find(numbers[found])[0]
    return addresses, found


@dataclass(frozen=True, slots=True, eq=False)
class RowIndex:
    """Row addresses by row id. Immutable, safe to share between threads.

    Attributes
    ----------
    runs : Runs
    keys : Keys or Slots
        Ids that are in no run.
    """

    runs: Runs
    keys: Keys | Slots

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return self.runs.nbytes + self.keys.nbytes

    def __len__(self) -> int:
        return int(self.runs.counts.sum(dtype=np.uint64)) + len(self.keys)

    def find(self, ids: UInt64) -> tuple[UInt64, Bool]:
        """Row addresses of some row ids.

        Parameters
        ----------
        ids : (n,) uint64
            In any order, duplicates allowed.

        Returns
        -------
        addresses : (n,) uint64
            Fragment id << 32 | row offset; 0 where there is none.
        found : (n,) bool
            False: no row has this id. True: if any row that is not deleted has it, it is the one at the address.

        Examples
        --------
        >>> from lancecy.table.rowids import RangeSegment, RowIdSequence
        >>> from lancecy.table.rowindex_build import build_index
        >>> sequence = RowIdSequence((RangeSegment(100, 110),), np.array([0, 10]))
        >>> index = build_index([(3, sequence, None)])
        >>> addresses, found = index.find(np.array([104, 7], np.uint64))
        >>> [hex(address) for address in addresses.tolist()], found.tolist()
        (['0x300000004', '0x0'], [True, False])
        """
        addresses, found = self.runs.find(ids)
        if not len(self.keys) or found.all():
            return addresses, found
        if not found.any():
            return self.keys.find(ids)
        rest = np.flatnonzero(~found)
        addresses[rest], found[rest] = self.keys.find(ids[rest])
        return addresses, found
