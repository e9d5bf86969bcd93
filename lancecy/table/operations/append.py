"""Append: adds new fragments after the existing ones."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.manifest import Fragment
from lancecy.table.operations.base import Footprint, NewManifest, Operation, References, VersionStamp
from lancecy.table.operations.new_fragments import add_fragments, decode_fragments, encode_fragments
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Append"]


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Add fragments. The commit assigns their ids, row ids and versions, and ignores stated ones."""

    kinds = ("append",)

    fragments: tuple[Fragment, ...]

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("append"),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        add_fragments(made.message, self.fragments, stamp.version, base)
        return made

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.append.SetInParent()
        message.append.fragments.extend(encode_fragments(self.fragments))

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Append:
        return cls(decode_fragments(message.append.fragments, limits))

    def references(self) -> References:
        return References(self.fragments)

    def written_fields(self) -> frozenset[int]:
        files = (file for fragment in self.fragments for file in fragment.files)
        return frozenset(field_id for file in files for field_id in file.fields)
