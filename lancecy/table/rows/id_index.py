"""The row-id index of a snapshot: maps stable row ids to row addresses.

Runs of consecutive ids stay runs, 28 bytes each at any length. Unordered ids get a slot of 4 bytes for every
number in their span, or, if the span is too wide, are sorted at 14 bytes each. Sorted ids are searched with a
directory of their highest bits, which narrows the search to a few. ``id_index_build`` makes the index; some rows
in it may be deleted, as described there.

Facts: table sheet, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels import rowindex_jit
from lancecy.records import dataclass

__all__ = ["NO_PLACE", "Directory", "Keys", "Places", "RowIndex", "Runs", "Slots"]

UInt8: TypeAlias = NDArray[np.uint8]
UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Bool: TypeAlias = NDArray[np.bool_]

NO_PLACE = (1 << 32) - 1
"""Value of a slot without an id."""

# At each end, one key in this many may be a stray; the others span this many times less.
_KEYS_PER_STRAY, _FAR = 256, 4


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """A directory of a sorted array: the highest bits of a key lead to a bucket of a few keys.

    Attributes
    ----------
    low : int
        Smallest key that has a bucket alone or with few others.
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
        """Directory of every ``stride``-th of ascending keys, with at most ``buckets_per_key`` buckets each, or one."""
        if not keys.size:
            return cls(0, 0, np.zeros(1, np.uint32))
        count = keys.size // stride
        low, high = _without_strays(keys[::stride])
        span, most = high - low, max(1, int(count * buckets_per_key))
        # The smallest shift within the maximum number of buckets: (span >> shift) + 1 <= most.
        shift = max(0, span.bit_length() - most.bit_length())
        shift = min(63, shift + ((span >> shift) >= most))
        starts = np.empty((span >> shift) + 2, np.uint32)
        rowindex_jit.implementation(count).fill_directory(keys, stride, low, shift, starts)
        return cls(low, shift, starts)


def _without_strays(keys: UInt64) -> tuple[int, int]:
    """The first and last of ascending keys, without a few far ones at the ends that make up most of the span.

    With buckets over the strays too, nearly all other keys would fall into a few buckets.
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
        For each run its first id, its number of ids, and the address of the first; ascending, disjoint.
    directory : Directory
        Directory of the first ids.
    """

    numbers: UInt64
    directory: Directory

    @classmethod
    def of(cls, numbers: UInt64) -> Runs:
        """Make from ascending, disjoint runs."""
        return cls(numbers, Directory.of(numbers, 3, 1))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
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
    """32-bit numbers (places) for the rows of several pieces of fragments, and their addresses.

    The rows of a piece have consecutive places, and the first place is a multiple of ``2**shift``, so the
    address of a place is found without a search.

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
        """Make from the rows of each piece and its first address; fewer than 2^32 rows in all."""
        total = sum(counts)
        # About 8 to 16 bases for a piece of middle size, and at most an eighth of the places lost.
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
    """Sorted single ids, and the places of their rows.

    Attributes
    ----------
    keys : (num_keys,) uint64, ascending
    numbers : (num_keys,) uint32
        Place of each key's row.
    places : Places
    directory : Directory
        Directory of ``keys``.
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
    """Dense single ids, the usual case: one slot for every number from the smallest to the largest.

    Attributes
    ----------
    low : int
        The smallest id.
    numbers : (num_slots,) uint32
        Place of each id's row; ``NO_PLACE`` for numbers that are no ids.
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
    """Row addresses by row id. Immutable, and safe to share between threads.

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
            Fragment id << 32 | row offset; 0 if not found.
        found : (n,) bool
            False: no row has this id. True: the row at the address has it, if any row that is not deleted does.

        Examples
        --------
        >>> from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence
        >>> from lancecy.table.rows.id_index_build import build_index
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
