"""Mending the row ids of a version: fragments without get new ones, and the next free one is above all.

Works on the manifest's message, like ``apply_wire``, so that a lost race is made anew from the newest version.

Source: table sheet, sections 3.2 and 10.
"""

from __future__ import annotations

import numpy as np

from lancecy.errors import FormatError, LimitError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.store.base import Memory
from lancecy.table import roaring
from lancecy.table.adding_wire import give_row_ids
from lancecy.table.flags import STABLE_ROW_IDS
from lancecy.table.indices_wire import decode_index_section
from lancecy.table.manifest import IndexEntry
from lancecy.table.rowid_checks import RowIdFaults, faults_of

__all__ = ["covers", "message_faults", "repair_row_ids"]


def message_faults(message: table_pb2.Manifest, limits: Limits = DEFAULT_LIMITS) -> RowIdFaults:
    """``row_id_faults`` of a manifest's message; nothing is wrong where the table has no stable row ids."""
    if not message.reader_feature_flags & STABLE_ROW_IDS:
        return RowIdFaults((), (), -1, message.next_row_id)
    parts = ((part.id, part.physical_rows or None, _stored(part)) for part in message.fragments)
    return faults_of(parts, message.next_row_id, limits)


def _stored(part: table_pb2.DataFragment) -> bytes | None:
    """Row ids as they stand in a fragment; no bytes that could be read, but not None, where they are elsewhere."""
    kind = part.WhichOneof("row_id_sequence")
    return None if kind is None else getattr(part, kind)


def repair_row_ids(message: table_pb2.Manifest, indices: bytes | None) -> bytes | None:
    """Give ids to the rows of fragments that have none, above all that are in use.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed.
    indices : bytes or None
        The index section.

    Returns
    -------
    bytes or None
        The section without indices of those fragments: what they find are other ids.

    Raises
    ------
    FormatError
        Row ids of a fragment are damaged, so that which are in use is unknown; or it does not say how many
        rows it has.
    LimitError
        Row ids are used up.
    """
    faults = message_faults(message)
    if faults.damaged:
        number, why = faults.damaged[0]
        raise FormatError(
            f"the row ids of fragment {number} are damaged, and which rows had which is written nowhere else: {why}. "
            "Restore a version in which they are whole"
        )
    if faults.largest + 1 >> 64:
        raise LimitError(
            f"row id {faults.largest} is in use, so that there is no next one",
            limit="",
            claimed=faults.largest + 1,
        )
    message.next_row_id = max(message.next_row_id, faults.largest + 1)
    missing = frozenset(faults.missing)
    for part in message.fragments:
        if part.id in missing:
            if not part.physical_rows:
                raise FormatError(f"fragment {part.id} has no row ids and does not say how many rows it has")
            give_row_ids(message, part)
    if not missing or indices is None:
        return indices
    return _without(indices, missing)


def _without(indices: bytes, fragments: frozenset[int]) -> bytes | None:
    entries = decode_index_section(indices)
    kept = [entry for entry in entries if not covers(entry, fragments)]
    if len(kept) == len(entries):
        return indices
    section = table_pb2.IndexSection()
    for entry in kept:
        section.indices.add().MergeFromString(entry.raw)
    return section.SerializeToString() if kept else None


def covers(entry: IndexEntry, fragments: frozenset[int]) -> bool:
    """Whether an index may have rows of one of these fragments; those of the system, without fields, have none."""
    if not entry.fields:
        return False
    if entry.fragment_bitmap is None:
        return True
    bitmap: Memory = np.frombuffer(entry.fragment_bitmap, np.uint8)
    return not fragments.isdisjoint(roaring.decode(bitmap).tolist())
