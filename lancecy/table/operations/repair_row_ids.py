"""RepairRowIds: assigns missing row ids, and raises the next free id above all used ones.

Source: table sheet, sections 3.2 and 10.
"""

from __future__ import annotations

from dataclasses import replace

from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.operations.index_section import covered, filtered
from lancecy.table.operations.merge import Merge
from lancecy.table.operations.new_fragments import message_faults
from lancecy.table.operations.row_lineage import give_row_ids
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
    """The section without indices that may cover one of these fragments; system indices, without fields, do not."""

    def kept(entry: IndexEntry) -> bytes | None:
        known = covered(entry)
        touches = bool(entry.fields) and (known is None or not fragments.isdisjoint(known))
        return None if touches else entry.raw

    return filtered(indices, kept)
