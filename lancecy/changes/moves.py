"""Row ids and versions of rows that move to new fragments, in tables with stable row ids.

Source: table sheet, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    ids, created, updated = (np.empty(addresses.size, np.uint64) for _ in range(3))
    for fragment, chosen in _by_fragment(snapshot, addresses):
        offsets = (addresses[chosen] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        ids[chosen] = row_ids(snapshot, fragment, offsets, addresses[chosen])
        created[chosen] = _versions(snapshot.created_versions(fragment), offsets)
        if not are_updated:
            updated[chosen] = _versions(snapshot.updated_versions(fragment), offsets)
    made, start = [], 0
    for fragment in fragments:
        stop = min(start + (fragment.physical_rows or 0), addresses.size)
        if start < stop:
            fragment = replace(
                fragment,
                row_ids=encode_row_ids(RowIdSequence.of(ids[start:stop])),
                created_at_versions=encode_versions(VersionSequence.of(created[start:stop])),
                last_updated_versions=None
                if are_updated
                else encode_versions(VersionSequence.of(updated[start:stop])),
            )
        made.append(fragment)
        start = stop
    return tuple(made)


def _by_fragment(snapshot: Snapshot, addresses: UInt64) -> Iterator[tuple[Fragment, NDArray[np.int64]]]:
    """Fragments, and the positions of their addresses."""
    owners = addresses >> np.uint64(32)
    order = np.argsort(owners, kind="stable")
    numbers, firsts = np.unique(owners[order], return_index=True)
    chosen = dict(zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)) if order.size else {}
    for fragment in snapshot.fragments:
        if fragment.stored_id in chosen:
            yield fragment, chosen[fragment.stored_id]


def _versions(sequence: VersionSequence | None, offsets: NDArray[np.int64]) -> UInt64 | int:
    """Versions of rows; 1 where none are known, as the format says."""
    return 1 if sequence is None else sequence.take(offsets)
