"""Merge: gives fragments other data files and the table another schema, as added or cast columns do.

Source: table sheet, sections 3.2, 4.2, 4.3 and 10.4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from lancecy.errors import SchemaError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.schema_wire import decode_schema, encode_fields
from lancecy.table import flags
from lancecy.table.manifest import Fragment
from lancecy.table.operations.base import (
    Footprint,
    Newest,
    NewManifest,
    Operation,
    References,
    VersionStamp,
)
from lancecy.table.operations.fragment_files import changed_fields, drop_dead_files
from lancecy.table.operations.index_section import carried
from lancecy.table.operations.new_fragments import check_not_null, check_not_there, decode_fragments
from lancecy.table.operations.new_schema import set_schema
from lancecy.table.operations.replaced import new_files, replace_fragments
from lancecy.table.operations.row_lineage import set_updated
from lancecy.table.requests import Steps
from lancecy.table.wire.fragment import encode_fragment
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Merge"]


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """Replace all fragments and the schema.

    Attributes
    ----------
    fragments : tuple of Fragment
        All fragments of the table, with their files.
    schema : Schema
        With field ids: those of the table, and new ones from ``field_ids.next_field_id``.
    preserves_nullability : bool
        False if a column may not be null any more.
    dictionaries : bytes or None
        For the start of the manifest file of a 0.1 table; None keeps the table's.
    added : tuple of Fragment
        Fragments with only the files that the table does not have yet; set by :meth:`resolve`.
    """

    kinds = ("merge", "merge_strict")

    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = True
    dictionaries: bytes | None = None
    added: tuple[Fragment, ...] = ()

    def footprints(self) -> tuple[Footprint, ...]:
        kind = "merge" if self.preserves_nullability else "merge_strict"
        return (
            Footprint(kind, fields=frozenset(node.id for top in self.schema.fields for node in top.walk())),
        )

    @property
    def changes_schema(self) -> bool:
        return True

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """The merge that knows which of its files are new to the newest version."""
        yield from ()
        return replace(self, added=new_files(self.fragments, newest.stored))

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        message = made.message
        missing = base.positions.keys() - {part.id for part in self.fragments}
        if missing:
            raise SchemaError(
                f"the merge leaves out fragment {min(missing)}, whose rows would be lost: give all fragments of the version"
            )
        check_not_there(self.added, base)
        replace_fragments(message, self.fragments, base)
        set_schema(message, self.schema, self.preserves_nullability, base)
        message.schema_metadata.clear()
        message.schema_metadata.update(self.schema.metadata)
        live = {field.id for field in message.fields}
        _check_types(message, base)
        drop_dead_files(message.fragments, live)
        check_not_null(message, message.fragments, live - base.field_types.keys())
        if message.reader_feature_flags & flags.STABLE_ROW_IDS:
            for part in message.fragments:
                before = base.message.fragments[base.positions[part.id]]
                if changed_fields(before, part) & live:
                    set_updated(part, stamp.version)
        dictionaries = base.dictionaries if self.dictionaries is None else self.dictionaries
        return replace(made, indices=carried(base, message), dictionaries=dictionaries)

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        merge = message.merge
        merge.SetInParent()
        merge.fragments.extend(made.fragments or map(encode_fragment, self.fragments))
        merge.schema.extend(made.fields or encode_fields(self.schema.fields))
        merge.schema_metadata.update(self.schema.metadata)
        merge.preserves_nullability = self.preserves_nullability

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Merge:
        stored = message.merge
        return cls(
            decode_fragments(stored.fragments, limits),
            decode_schema(stored.schema, stored.schema_metadata, limits),
            stored.preserves_nullability,
        )

    def references(self) -> References:
        return References(self.added)

    def written_fields(self) -> frozenset[int]:
        return frozenset(number for part in self.added for file in part.files for number in file.fields)


def _check_types(message: table_pb2.Manifest, base: ManifestFile) -> None:
    """Refuse a column that has another type while a fragment has its values as they were."""
    types = {number: kind for number, (_, kind) in base.field_types.items()}
    changed = {f.id: f for f in message.fields if types.get(f.id, f.logical_type) != f.logical_type}
    for part in message.fragments if changed else ():
        before = base.message.fragments[base.positions[part.id]]
        stored = {field for file in before.files for field in file.fields}
        kept = changed.keys() & stored - changed_fields(before, part)
        if kept:
            field = changed[min(kept)]
            raise SchemaError(
                f"column {field.name!r} is {types[field.id]} in fragment {part.id}, and {field.logical_type} in the new "
                "schema: give the fragment a file with its new values, or the column a new field id",
                difference=field.name,
            )
