"""Row ids and versions of rows that move to new fragments, in tables with stable row ids.

Source: table sheet, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.sorting import sorted_order
from lancecy.records import dataclass
from lancecy.table.manifest import Fragment
from lancecy.table.rows.row_ids import RowIdSequence, VersionSequence, row_ids
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.row_ids import encode_row_ids, encode_versions

__all__ = ["moved"]

UInt64: TypeAlias = NDArray[np.uint64]


def moved(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    addresses: UInt64 | Iterable[UInt64],
    *,
    are_updated: bool = True,
) -> tuple[Fragment, ...]:
    """New fragments with the row ids and versions of the rows that moved into them.

    Parameters
    ----------
    snapshot : Snapshot
        The version that the rows were read from.
    fragments : sequence of Fragment
        Just written; their rows are the moved rows, in order, and then rows that are new.
    addresses : (num_moved,) uint64, or iterable of such arrays
        Row addresses, in the snapshot, of the moved rows. Of several arrays, only one is in memory at a time.
    are_updated : bool
        Whether the rows have new values. False also carries their updated versions, as a compaction does.

    Returns
    -------
    tuple of Fragment
        Unchanged in a table without stable row ids.

    Raises
    ------
    FormatError
        The row ids or versions of a fragment are damaged.
    """
    if not snapshot.manifest.has_stable_row_ids:
        return tuple(fragments)
    known = {fragment.stored_id: fragment for fragment in snapshot.fragments}
    pieces = _Pieces([addresses] if isinstance(addresses, np.ndarray) else addresses)
    made = []
    for fragment in fragments:
        rows = [
            _Rows.of(snapshot, known, piece, are_updated)
            for piece in pieces.next(fragment.physical_rows or 0)
        ]
        made.append(_with_rows(fragment, rows, are_updated) if rows else fragment)
    return tuple(made)


class _Pieces:
    """Arrays that are cut at the ends of fragments."""

    def __init__(self, arrays: Iterable[UInt64]) -> None:
        self._arrays = iter(arrays)
        self._left = np.empty(0, np.uint64)

    def next(self, count: int) -> Iterator[UInt64]:
        """The next addresses, in pieces; fewer than ``count`` at the end."""
        while count:
            if not self._left.size:
                found = next(self._arrays, None)
                if found is None:
                    return
                self._left = found
            piece, self._left = self._left[:count], self._left[count:]
            count -= piece.size
            if piece.size:
                yield piece


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What is known of rows that move, in little memory."""

    ids: RowIdSequence
    created: VersionSequence
    updated: VersionSequence

    @classmethod
    def of(
        cls, snapshot: Snapshot, known: Mapping[int, Fragment], addresses: UInt64, are_updated: bool
    ) -> _Rows:
        ids, created, updated = (np.empty(addresses.size, np.uint64) for _ in range(3))
        for number, chosen in _by_fragment(addresses):
            old = known[number]
            offsets = (addresses[chosen] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            ids[chosen] = row_ids(snapshot, old, offsets, addresses[chosen])
            created[chosen] = _versions(snapshot.created_versions(old), offsets)
            updated[chosen] = 0 if are_updated else _versions(snapshot.updated_versions(old), offsets)
        return cls(RowIdSequence.of(ids), VersionSequence.of(created), VersionSequence.of(updated))


def _with_rows(fragment: Fragment, rows: Sequence[_Rows], are_updated: bool) -> Fragment:
    """One new fragment with the row ids and versions of its first rows."""
    updated = VersionSequence.joined([part.updated for part in rows])
    return replace(
        fragment,
        row_ids=encode_row_ids(RowIdSequence.joined([part.ids for part in rows])),
        created_at_versions=encode_versions(VersionSequence.joined([part.created for part in rows])),
        last_updated_versions=None if are_updated else encode_versions(updated),
    )


def _by_fragment(addresses: UInt64) -> Iterator[tuple[int, slice | NDArray[np.int64]]]:
    """Stored ids of fragments, and the positions of their addresses."""
    owners = (addresses >> np.uint64(32)).astype(np.uint32)
    ends = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    bounds = [0, *ends.tolist(), owners.size]
    if bool((owners[1:] >= owners[:-1]).all()):
        for start, stop in pairwise(bounds):
            yield int(owners[start]), slice(start, stop)
        return
    order = sorted_order(owners)
    numbers, firsts = np.unique(owners[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)


def _versions(sequence: VersionSequence | None, offsets: NDArray[np.int64]) -> UInt64 | int:
    """Versions of rows; 1 where none are known, as the format says."""
    return 1 if sequence is None else sequence.take(offsets)
