"""DataReplacement: gives columns of fragments other data files, with the same rows.

Source: table sheet, sections 3.2, 4.2 and 4.3.
"""

from __future__ import annotations

from dataclasses import replace

from lancecy.errors import SchemaError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations.base import Footprint, NewManifest, Operation, References, VersionStamp
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.operations.fragment_files import put_file
from lancecy.table.operations.index_section import carried
from lancecy.table.operations.new_fragments import check_not_there, declare_versions
from lancecy.table.operations.row_lineage import set_updated
from lancecy.table.paths import check_name
from lancecy.table.wire.fragment import decode_fragment, encode_data_file
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["DataReplacement"]


@dataclass(frozen=True, slots=True)
class DataReplacement(Operation):
    """Give columns of fragments other data files.

    Attributes
    ----------
    replacements : tuple of (fragment id, DataFile)
        Files with values of all rows of their fragment, deleted ones too.
    """

    kinds = ("replacement",)

    replacements: tuple[tuple[int, DataFile], ...]

    def footprints(self) -> tuple[Footprint, ...]:
        rewritten = frozenset(number for number, _ in self.replacements)
        return (Footprint("replacement", rewritten=rewritten, fields=self.written_fields()),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        files = [file for _, file in self.replacements]
        check_not_there([Fragment(0, (file,)) for file in files], base)
        check_bases_known(made.message, (file.base_id for file in files))
        declare_versions(made.message, files)
        for number, file in self.replacements:
            position = base.positions.get(number)
            if position is None:
                raise SchemaError(f"the table has no fragment {number} to change")
            check_name(file.path, "name of a data file")
            unknown = {field for field in file.fields if field >= 0} - base.field_types.keys()
            if unknown:
                raise SchemaError(
                    f"data file {file.path!r} has values of field {min(unknown)}, which the table lacks",
                    difference="field ids",
                )
            part = made.message.fragments[position]
            put_file(part, file)
            if made.message.reader_feature_flags & flags.STABLE_ROW_IDS:
                set_updated(part, stamp.version)
        return replace(made, indices=carried(base, made.message))

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.data_replacement.SetInParent()
        for number, file in self.replacements:
            stored = message.data_replacement.replacements.add(fragment_id=number)
            stored.new_file.CopyFrom(encode_data_file(file))

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> DataReplacement:
        found = []
        for stored in message.data_replacement.replacements:
            part = table_pb2.DataFragment(id=stored.fragment_id, files=[stored.new_file])
            found.append((stored.fragment_id, decode_fragment(part, {}, limits).files[0]))
        return cls(tuple(found))

    def references(self) -> References:
        return References(tuple(Fragment(number, (file,)) for number, file in self.replacements))

    def written_fields(self) -> frozenset[int]:
        return frozenset(field for _, file in self.replacements for field in file.fields)
