"""The row-id index of a snapshot: where the row with a stable id is now.

Runs of consecutive ids stay runs, 28 bytes each whatever they hold. Ids without such order get a slot of
4 bytes for every number in their span, or, where that is too wide, are kept sorted at 14 bytes each.
What is sorted is searched through a directory of its highest bits, which leads to a few of them.
``rowindex_build`` makes the index; some rows in it may be deleted, as it says there.

Facts: table sheet, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels import rowindex_jit

__all__ = ["NO_PLACE", "Directory", "Keys", "Places", "RowIndex", "Runs", "Slots"]

UInt8: TypeAlias = NDArray[np.uint8]
UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Bool: TypeAlias = NDArray[np.bool_]

NO_PLACE = (1 << 32) - 1
"""What a slot holds that no id belongs to."""

# One key of so many, at either end, may be a stray, and the others span this many times less.
_KEYS_PER_STRAY, _FAR = 256, 4


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """Where to start looking in a sorted array: the keys' highest bits lead to a few of them.

    Attributes
    ----------
    low : int
        Smallest key that has a bucket to itself or to few others.
    shift : int
        Key ``k`` is in bucket ``(k - low) >> shift``; smaller ones are in the first bucket, larger ones in the last.
    starts : (num_buckets + 1,) uint32
        Position of the first key of each bucket, then the number of keys.
    """

    low: int
    shift: int
    starts: UInt32

    @classmethod
    def of(cls, keys: UInt64, stride: int, buckets_per_key: float) -> Directory:
        """For every ``stride``-th of some numbers, which ascend; of no more buckets than that, or one."""
        if not keys.size:
            return cls(0, 0, np.zeros(1, np.uint32))
        count = keys.size // stride
        low, high = _without_strays(keys[::stride])
        span, most = high - low, max(1, int(count * buckets_per_key))
        # The smallest shift that leaves no more buckets than that: (span >> shift) + 1 <= most.
        shift = max(0, span.bit_length() - most.bit_length())
        shift = min(63, shift + ((span >> shift) >= most))
        starts = np.empty((span >> shift) + 2, np.uint32)
        rowindex_jit.implementation(count).fill_directory(keys, stride, low, shift, starts)
        return cls(low, shift, starts)


def _without_strays(keys: UInt64) -> tuple[int, int]:
    """The first and last of ascending keys, or of those between, if a few far away make up most of the span.

    Buckets that span the strays as well would hold nearly all other keys in a few of them.
    """
    few = keys.size // _KEYS_PER_STRAY
    low, high = int(keys[0]), int(keys[-1])
    inner = int(keys[few]), int(keys[keys.size - 1 - few])
    return inner if high - low > _FAR * (inner[1] - inner[0]) else (low, high)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Consecutive ids of consecutive rows.

    Attributes
    ----------
    numbers : (3 * num_runs,) uint64
        Of each run its first id, how many ids, and the address of the first; ascending, disjoint.
    directory : Directory
        Of the first ids.
    """

    numbers: UInt64
    directory: Directory

    @classmethod
    def of(cls, numbers: UInt64) -> Runs:
        """From runs that ascend and are disjoint."""
        return cls(numbers, Directory.of(numbers, 3, 1))

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return self.numbers.nbytes + self.directory.starts.nbytes

    def __len__(self) -> int:
        return int(self.numbers[1::3].sum(dtype=np.uint64))

    def find(self, ids: UInt64, addresses: UInt64, found: UInt8) -> None:
        """Write the address of each id and whether it is found: 0 where it is not."""
        where = self.directory
        kernels = rowindex_jit.implementation(ids.size)
        kernels.find_runs(ids, self.numbers, where.starts, where.low, where.shift, addresses, found)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Numbers of 32 bits for the rows of several pieces of fragments, and how they lead to addresses.

    The rows of a piece have consecutive places, and its first one is a multiple of ``2**shift``, so that
    the address of a place is found without a search.

    Attributes
    ----------
    shift : int
    bases : (num_bases,) uint64
        The address of place ``p`` is ``bases[p >> shift] + p``, modulo 2^64.
    firsts : tuple of int
        Place of the first row of each piece.
    """

    shift: int
    bases: UInt64
    firsts: tuple[int, ...]

    @classmethod
    def of(cls, counts: Sequence[int], addresses: Sequence[int]) -> Places:
        """For pieces of so many rows, the first of each at an address; fewer rows than 2^32 in all."""
        total = sum(counts)
        # Some 8 to 16 bases for a piece of middle size, and an eighth of the places lost at most.
        shift = max(0, (total // max(1, len(counts))).bit_length() - 4)
        while shift and sum(-(-count >> shift) for count in counts) << shift >= NO_PLACE:
            shift -= 1
        sizes = [-(-count >> shift) for count in counts]
        ends = np.cumsum(sizes, dtype=np.int64)
        firsts = ((ends - sizes) << shift).astype(np.uint64)
        bases = np.repeat(np.array(addresses, np.uint64) - firsts, sizes)
        return cls(shift, bases, tuple(firsts.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Single ids in order, and which rows they belong to.

    Attributes
    ----------
    keys : (num_keys,) uint64, ascending
    numbers : (num_keys,) uint32
        Place of the row of each.
    places : Places
    directory : Directory
        Of ``keys``.
    """

    keys: UInt64
    numbers: UInt32
    places: Places
    directory: Directory

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        arrays = (self.keys, self.numbers, self.places.bases, self.directory.starts)
        return sum(array.nbytes for array in arrays)

    def find(self, ids: UInt64, addresses: UInt64, found: UInt8) -> None:
        """Write the address of each id that is found here and was not before."""
        where, places = self.directory, self.places
        rowindex_jit.implementation(ids.size).find_keys(
            ids,
            self.keys,
            self.numbers,
            where.starts,
            where.low,
            where.shift,
            places.shift,
            places.bases,
            addresses,
            found,
        )

    def __len__(self) -> int:
        return self.keys.size


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Single ids that lie close together, as most do: one slot for every number from the smallest to the largest.

    Attributes
    ----------
    low : int
        The smallest id.
    numbers : (num_slots,) uint32
        Place of the row of each id; ``NO_PLACE`` where there is no such id.
    places : Places
    num_ids : int
    """

    low: int
    numbers: UInt32
    places: Places
    num_ids: int

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return self.numbers.nbytes + self.places.bases.nbytes

    def find(self, ids: UInt64, addresses: UInt64, found: UInt8) -> None:
        """Write the address of each id that is found here and was not before."""
        rowindex_jit.implementation(ids.size).find_slots(
            ids, self.low, self.numbers, self.places.shift, self.places.bases, addresses, found
        )

    def __len__(self) -> int:
        return self.num_ids


@dataclass(frozen=True, slots=True, eq=False)
class RowIndex:
    """Row addresses by row id. Immutable, safe to share between threads.

    Attributes
    ----------
    runs : Runs
    singles : Slots, Keys or None
        Ids that are in no run.
    """

    runs: Runs
    singles: Slots | Keys | None

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return self.runs.nbytes + (self.singles.nbytes if self.singles is not None else 0)

    def __len__(self) -> int:
        return len(self.runs) + (len(self.singles) if self.singles is not None else 0)

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
        addresses, found = np.zeros(ids.size, np.uint64), np.zeros(ids.size, np.uint8)
        if self.runs.numbers.size:
            self.runs.find(ids, addresses, found)
        if self.singles is not None:
            self.singles.find(ids, addresses, found)
        return addresses, found.view(np.bool_)
