"""Replaces the schema in a manifest's message; what it says of fields beyond a ``Schema`` stays.

Source: table sheet, sections 1.2 and 8.
"""

from __future__ import annotations

from lancecy.errors import SchemaError
from lancecy.proto import file_pb2, table_pb2
from lancecy.schema import Schema
from lancecy.schema_wire import encode_field
from lancecy.table.operations.maps import mirror_keys
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["set_schema"]


def set_schema(
    message: table_pb2.Manifest, schema: Schema, preserves_nullability: bool, base: ManifestFile
) -> None:
    """Replace the fields; the metadata of the schema stays.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed.
    schema : Schema
    preserves_nullability : bool
        Whether every column that may be null now may be null afterwards.
    base : ManifestFile
        The version before.

    Raises
    ------
    SchemaError
        The schema has no columns, two fields have one id, or a column loses its nulls without a word.
    """
    before, known = {field.id: field for field in base.message.fields}, base.manifest.schema.by_id
    # Most fields are those of the table, whose messages need not be made again.
    after = [
        before[node.id] if known.get(node.id) is node else _kept(before.get(node.id), encode_field(node))
        for top in schema.fields
        for node in top.walk()
    ]
    if not after:
        raise SchemaError("a table needs at least one column", difference="no columns")
    if len({field.id for field in after}) < len(after):
        raise SchemaError("two columns of the new schema have the same field id", difference="field ids")
    if preserves_nullability:
        for field in after:
            old = before.get(field.id)
            if old is not None and old.nullable and not field.nullable:
                raise SchemaError(
                    f"column {field.name!r} may be null now and not afterwards: say preserves_nullability=False",
                    difference=field.name,
                )
    del message.fields[:]
    message.fields.extend(after)
    for column in message.fields:
        if column.metadata:
            mirror_keys(column)


def _kept(old: file_pb2.Field | None, new: file_pb2.Field) -> file_pb2.Field:
    """The message of a field, with those facts of the old one that a ``Schema`` does not hold."""
    if old is None or old == new or old.logical_type != new.logical_type:
        return new
    kept = file_pb2.Field()
    kept.CopyFrom(old)
    kept.metadata.clear()
    kept.MergeFrom(new)
    # Fields of value zero do not merge.
    kept.nullable, kept.parent_id, kept.id = new.nullable, new.parent_id, new.id
    kept.extension_name = new.extension_name
    return kept
