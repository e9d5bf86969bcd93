"""RepairRowIds: assigns missing row ids, and raises the next free id above all used ones.

Source: table sheet, sections 3.2 and 10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.store.base import Memory
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.operations.foreign import Merge
from lancecy.table.operations.new_fragments import give_row_ids, message_faults
from lancecy.table.rows import roaring
from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["RepairRowIds"]


@dataclass(frozen=True, slots=True)
class RepairRowIds(Operation):
    """Assign row ids to fragments without, in a table with stable row ids; raise the next row id above all used ones.

    Stored as a ``Merge`` that keeps all columns.
    """

    kinds = ("bases",)

    def footprints(self) -> tuple[Footprint, ...]:
        # Computed from the newest version alone, like a change of bases without bases.
        return (Footprint("bases"),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        return replace(made, indices=_repair(made.message, base.indices), continues=None)

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        merge = message.merge
        merge.SetInParent()
        merge.fragments.extend(made.fragments)
        merge.schema.extend(made.fields)
        merge.schema_metadata.update(made.schema_metadata)
        merge.preserves_nullability = True

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Operation:
        return Merge.decode(message, limits)


def _repair(message: table_pb2.Manifest, indices: bytes | None) -> bytes | None:
    """Assign row ids, above all used ones, to fragments without.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed.
    indices : bytes or None
        The index section.

    Returns
    -------
    bytes or None
        The section without indices of those fragments, which would find other ids.

    Raises
    ------
    FormatError
        The row ids of a fragment are damaged, so the used ids are unknown; or the fragment states no number of
        rows.
    LimitError
        Row ids are exhausted.
    """
    faults = message_faults(message)
    if faults.damaged:
        number, why = faults.damaged[0]
        raise FormatError(
            f"the row ids of fragment {number} are damaged and stored nowhere else: {why}. "
            "Restore a version where they are intact"
        )
    if faults.largest + 1 >> 64:
        raise LimitError(
            f"row id {faults.largest} is in use, so there is no next one",
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
    kept = [entry for entry in entries if not _covers(entry, fragments)]
    if len(kept) == len(entries):
        return indices
    section = table_pb2.IndexSection()
    for entry in kept:
        section.indices.add().MergeFromString(entry.raw)
    return section.SerializeToString() if kept else None


def _covers(entry: IndexEntry, fragments: frozenset[int]) -> bool:
    """Whether an index may cover one of these fragments; system indices, without fields, do not."""
    if not entry.fields:
        return False
    if entry.fragment_bitmap is None:
        return True
    bitmap: Memory = np.frombuffer(entry.fragment_bitmap, np.uint8)
    return not fragments.isdisjoint(roaring.decode(bitmap).tolist())
