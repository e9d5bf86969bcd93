"""ReserveFragments: reserves fragment ids."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.operations.new_fragments import fragment_id_of, max_fragment_id
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["ReserveFragments"]


@dataclass(frozen=True, slots=True)
class ReserveFragments(Operation):
    """Reserve fragment ids for a later rewrite."""

    kinds = ("reserve",)

    num_fragments: int

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("reserve"),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        if self.num_fragments < 1:
            raise ValueError(f"{self.num_fragments} fragments cannot be reserved")
        made = NewManifest.copy_of(base)
        # The reference counts from 0 in a table that never had fragments, so this reserves 1 to n.
        last = max(0, max_fragment_id(made.message)) + self.num_fragments
        made.message.max_fragment_id = fragment_id_of(last)
        return made

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.reserve_fragments.num_fragments = self.num_fragments

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> ReserveFragments:
        return cls(message.reserve_fragments.num_fragments)
