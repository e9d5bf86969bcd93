"""UpdateBases: registers base paths, or moves them."""

from __future__ import annotations

from dataclasses import field

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.manifest import BasePath
from lancecy.table.operations.base import Footprint, NewManifest, Operation, References, VersionStamp
from lancecy.table.operations.base_paths import add_bases, adopt_bases, decode_bases, encode_bases
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["UpdateBases"]


@dataclass(frozen=True, slots=True)
class UpdateBases(Operation):
    """Register base paths, or relocate registered ones.

    Attributes
    ----------
    bases : tuple of BasePath
        Id 0 means "the smallest free one", unless bases are relocated.
    relocate : bool
        Replace path, name and kind of the existing bases with these ids, to move a table to its copy in another
        bucket. If false, existing ids are refused. Not part of the stored transaction.
    adopted : frozenset of int
        Ids of bases whose files are in the table's own root: they become its own, and the bases are removed. A cleanup by
        pylance removes files of a base that is the table's own root. Not part of the stored transaction.
    """

    kinds = ("bases", "relocate")
    needs_read_version = False

    bases: tuple[BasePath, ...]
    relocate: bool = False
    adopted: frozenset[int] = field(default=frozenset(), compare=False)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("relocate" if self.relocate else "bases", bases=self.bases),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        add_bases(made.message, self.bases, relocate=self.relocate)
        return adopt_bases(made, self.adopted) if self.adopted else made

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.update_bases.SetInParent()
        message.update_bases.new_bases.extend(encode_bases(self.bases))

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> UpdateBases:
        return cls(decode_bases(message.update_bases.new_bases))

    def references(self) -> References:
        return References(bases=self.bases)
