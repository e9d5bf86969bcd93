"""Project: gives the table a schema with some of its columns, or with other names or nullability.

Source: table sheet, sections 4.2, 4.3, 8 and 10.4.
"""

from __future__ import annotations

from lancecy.errors import SchemaError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.schema_wire import decode_schema, encode_fields
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.operations.fragment_files import drop_dead_files
from lancecy.table.operations.index_section import carried
from lancecy.table.operations.new_schema import set_schema
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Project"]


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Replace the schema by one that has only fields of the table.

    Attributes
    ----------
    schema : Schema
        Its metadata is not used: the transaction has no place for it.
    preserves_nullability : bool
        False if a column may not be null any more.
    """

    kinds = ("project", "project_strict")

    schema: Schema
    preserves_nullability: bool = True

    def footprints(self) -> tuple[Footprint, ...]:
        kind = "project" if self.preserves_nullability else "project_strict"
        return (
            Footprint(kind, fields=frozenset(node.id for top in self.schema.fields for node in top.walk())),
        )

    @property
    def changes_schema(self) -> bool:
        return True

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        set_schema(made.message, self.schema, self.preserves_nullability, base)
        known = base.field_types
        for field in made.message.fields:
            if known.get(field.id) != (field.parent_id, field.logical_type):
                raise SchemaError(
                    f"column {field.name!r} (field {field.id}) is not in the table, or has another type there",
                    difference=field.name,
                )
        drop_dead_files(made.message.fragments, {field.id for field in made.message.fields})
        return NewManifest(made.message, carried(base, made.message), made.dictionaries, base)

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.project.SetInParent()
        message.project.schema.extend(made.fields or encode_fields(self.schema.fields))
        message.project.preserves_nullability = self.preserves_nullability

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Project:
        stored = message.project
        return cls(decode_schema(stored.schema, {}, limits), stored.preserves_nullability)
