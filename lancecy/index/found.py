"""Rows that a segment names, by fragment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.index.row_sets import decode_row_set, ids_of_halves
from lancecy.kernels.sorting import sorted_unique
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.store.base import Memory
from lancecy.table.snapshot import Snapshot

__all__ = ["FoundRows", "RowPlaces", "Spans"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

Spans: TypeAlias = tuple[Int64, Int64]
"""Starts and stops of disjoint ascending ranges of rows."""

Halves: TypeAlias = Iterable[tuple[int, Int64 | None]]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Rows for which a condition is true, or may be true, in the fragments that a segment covers.

    Attributes
    ----------
    by_fragment : mapping of fragment id to (n,) int64 or Spans
        Offsets of rows, ascending; no rows of fragments that are absent.
    is_exact : bool
        True: the condition is true for these rows and no others. False: for no others.
    are_left_out : bool
        ``by_fragment`` has the rows that do not belong to the answer, in place of those that do.
    """

    by_fragment: Mapping[int, Int64 | Spans]
    is_exact: bool
    are_left_out: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = (rows if isinstance(rows, tuple) else (rows,) for rows in self.by_fragment.values())
        return 500 + sum(array.nbytes + 200 for mine in arrays for array in mine)

    def empty(self, covered: frozenset[int], row_counts: Mapping[int, int | None]) -> frozenset[int]:
        """The covered fragments without a row for which the condition is true.

        Parameters
        ----------
        covered : frozenset of int
        row_counts : mapping of fragment id to int or None
            Physical rows as far as they are known.
        """
        if not self.are_left_out:
            return covered.difference(self.by_fragment)
        gone = (
            (fragment, int(spans[1].sum() - spans[0].sum()))
            for fragment, spans in self.by_fragment.items()
            if isinstance(spans, tuple)
        )
        return covered.intersection(fragment for fragment, rows in gone if rows == row_counts.get(fragment))

    def rows(self, fragment: int, num_rows: int) -> RowSelection:
        """The rows of one of the covered fragments.

        Parameters
        ----------
        fragment : int
        num_rows : int
            Its physical rows.

        Raises
        ------
        FormatError
            A row lies behind the last one of the fragment.
        """
        found = self.by_fragment.get(fragment)
        if found is None:
            return RowSelection.all(num_rows) if self.are_left_out else RowSelection.range(num_rows, 0, 0)
        last = found[1] if isinstance(found, tuple) else found
        if last.size and int(last[-1]) >= num_rows + isinstance(found, tuple):
            raise FormatError(
                f"the index names row {int(last[-1])} of fragment {fragment}, which has {num_rows} rows"
            )
        if isinstance(found, tuple):
            return _without(num_rows, found) if self.are_left_out else RowSelection(num_rows, *found)
        if self.are_left_out:
            return RowSelection.all(num_rows).minus(found)
        return RowSelection.ascending(num_rows, found)


@dataclass(frozen=True, slots=True, eq=False)
class RowPlaces:
    """Finds the rows of the ids that a segment holds.

    Attributes
    ----------
    snapshot : Snapshot
    has_stable_ids : bool
        True: the ids are stable row ids. False: they are row addresses.
    covered : frozenset of int
        Fragments that the segment speaks for.
    updated : frozenset of int
        Those of them with rows that an update moved there, which a segment may name by stable id for the values that
        they had before: releases of pylance before 14 leave these when they merge segments.
    """

    snapshot: Snapshot
    has_stable_ids: bool
    covered: frozenset[int]
    updated: frozenset[int] = frozenset()

    @classmethod
    def of(cls, snapshot: Snapshot, has_stable_ids: bool, covered: frozenset[int]) -> RowPlaces:
        """Those of a segment of a snapshot; arguments as the attributes."""
        updated = frozenset(
            fragment.id
            for fragment in (snapshot.fragments if has_stable_ids else ())
            if fragment.has_updated_rows
        )
        return cls(snapshot, has_stable_ids, covered, updated & covered)

    def of_ids(self, ids: UInt64) -> dict[int, Int64]:
        """Offsets by fragment of some ids, without those of rows that are elsewhere now.

        Parameters
        ----------
        ids : (n,) uint64
            In any order.
        """
        if self.has_stable_ids:
            found, known = self.snapshot.row_index().find(ids)
            ids = found[known]
        addresses = sorted_unique(ids)
        if not addresses.size:
            return {}
        if addresses[0] >> _HALF == addresses[-1] >> _HALF:
            fragment = int(addresses[0] >> _HALF)
            return {fragment: (addresses & _LOW).astype(np.int64)} if fragment in self.covered else {}
        fragments = (addresses >> _HALF).astype(np.int64)
        edges = np.flatnonzero(fragments[1:] != fragments[:-1]) + 1
        parts = zip(fragments[np.append(0, edges)].tolist(), np.split(addresses, edges), strict=True)
        return {
            fragment: (mine & _LOW).astype(np.int64) for fragment, mine in parts if fragment in self.covered
        }

    def of_sets(self, sets: Iterable[Memory], limits: Limits) -> dict[int, Int64]:
        """Offsets by fragment of the rows in any of several serialized sets.

        Parameters
        ----------
        sets : iterable of (nbytes,) uint8
        limits : Limits

        Raises
        ------
        FormatError, LimitError
            A set is damaged.
        """
        if self.has_stable_ids:
            ids = [self.ids_in(decode_row_set(memory, limits)) for memory in sets]
            return self.of_ids(np.concatenate(ids)) if ids else {}
        halves: defaultdict[int, list[Int64]] = defaultdict(list)
        for memory in sets:
            for upper, lower in self._parts(decode_row_set(memory, limits)):
                halves[upper].append(lower)
        return {upper: mine[0] if len(mine) == 1 else _union(mine) for upper, mine in halves.items()}

    def ids_in(self, halves: Halves) -> UInt64:
        """The ids in a decoded set: (n,) uint64, ascending; of addresses, only those in covered fragments.

        Parameters
        ----------
        halves : iterable of (int, (n,) int64 or None)
            Upper halves with their lower ones, as :mod:`lancecy.index.row_sets` yields them.

        Raises
        ------
        FormatError, LimitError
            The set is damaged.
        """
        return ids_of_halves(self._parts(halves))

    def _parts(self, halves: Halves) -> Iterator[tuple[int, Int64]]:
        """The lower halves of a set by their upper half."""
        for upper, lower in halves:
            if self.has_stable_ids or upper in self.covered:
                yield upper, self._every_row(upper) if lower is None else lower

    def _every_row(self, fragment: int) -> Int64:
        """Offsets of a whole fragment."""
        known = next((f for f in self.snapshot.fragments if f.id == fragment), None)
        if self.has_stable_ids or known is None or known.physical_rows is None:
            raise FormatError(f"a set of rows has all rows of fragment {fragment}, whose number is unknown")
        return np.arange(known.physical_rows, dtype=np.int64)


def _without(num_rows: int, spans: Spans) -> RowSelection:
    """All rows but those of some ranges."""
    starts, stops = np.append(0, spans[1]), np.append(spans[0], num_rows)
    some = stops > starts
    return RowSelection(num_rows, starts[some], stops[some])


def _union(parts: list[Int64]) -> Int64:
    return sorted_unique(np.concatenate(parts))
