"""Row ids and versions of rows that move to new fragments, in tables with stable row ids.

Source: table sheet, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.table.manifest import Fragment
from lancecy.table.rows.row_ids import RowIdSequence, VersionSequence, row_ids
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.row_ids import encode_row_ids, encode_versions

__all__ = ["moved"]

UInt64: TypeAlias = NDArray[np.uint64]


def moved(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    addresses: UInt64,
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
    addresses : (num_moved,) uint64
        Row addresses, in the snapshot, of the moved rows.
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
    made, start = [], 0
    for fragment in fragments:
        stop = min(start + (fragment.physical_rows or 0), addresses.size)
        if start < stop:
            fragment = _with_rows(snapshot, known, fragment, addresses[start:stop], are_updated)
        made.append(fragment)
        start = stop
    return tuple(made)


def _with_rows(
    snapshot: Snapshot,
    known: Mapping[int, Fragment],
    fragment: Fragment,
    addresses: UInt64,
    are_updated: bool,
) -> Fragment:
    """One new fragment with the row ids and versions of its first rows."""
    ids, created, updated = (np.empty(addresses.size, np.uint64) for _ in range(3))
    for number, chosen in _by_fragment(addresses):
        old = known[number]
        offsets = (addresses[chosen] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        ids[chosen] = row_ids(snapshot, old, offsets, addresses[chosen])
        created[chosen] = _versions(snapshot.created_versions(old), offsets)
        if not are_updated:
            updated[chosen] = _versions(snapshot.updated_versions(old), offsets)
    return replace(
        fragment,
        row_ids=encode_row_ids(RowIdSequence.of(ids)),
        created_at_versions=encode_versions(VersionSequence.of(created)),
        last_updated_versions=None if are_updated else encode_versions(VersionSequence.of(updated)),
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
    order = np.argsort(owners, kind="stable")
    numbers, firsts = np.unique(owners[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)


def _versions(sequence: VersionSequence | None, offsets: NDArray[np.int64]) -> UInt64 | int:
    """Versions of rows; 1 where none are known, as the format says."""
    return 1 if sequence is None else sequence.take(offsets)
