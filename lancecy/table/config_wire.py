"""The four maps of a manifest's message that ``UpdateConfig`` changes.

Configuration, table metadata, schema metadata (Arrow's) and the metadata of fields. The flags of a
field that say whether it is part of a key mirror entries of its metadata.

Facts: table sheet, sections 1.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from lancecy.errors import SchemaError
from lancecy.proto import file_pb2, table_pb2
from lancecy.table.operations import MapUpdate, UpdateConfig

__all__ = ["apply_config", "mirror_keys"]

_PRIMARY = "lance-schema:unenforced-primary-key"
_CLUSTERING = "lance-schema:unenforced-clustering-key"
_TRUE = frozenset({b"true", b"1", b"yes"})


def apply_config(message: table_pb2.Manifest, operation: UpdateConfig) -> None:
    """Change the maps of a manifest.

    Raises
    ------
    SchemaError
        There is no field with an id whose metadata is to be set, or the change would alter a key of the table.

    Source: table sheet, section 4.3.
    """
    _update(message.config, operation.config, str)
    _update(message.table_metadata, operation.table_metadata, str)
    _update(message.schema_metadata, operation.schema_metadata, str.encode)
    fields = {field.id: field for field in message.fields}
    before = _keys(message.fields)
    for field_id, update in operation.field_metadata.items():
        if field_id not in fields:
            raise SchemaError(f"the table has no field with id {field_id}", difference=f"field {field_id}")
        _update(fields[field_id].metadata, update, str.encode)
        mirror_keys(fields[field_id])
    for old, new in zip(before, _keys(message.fields), strict=True):
        # Rows were merged by them, and filters of key hashes written for them.
        if old and old != new:
            raise SchemaError("the key of a table cannot be changed once it is set", difference="key fields")


def _update(target: MutableMapping[str, Any], update: MapUpdate | None, encode: Callable[[str], Any]) -> None:
    if update is None:
        return
    if update.replace:
        target.clear()
    for key, value in update.entries.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = encode(value)


def mirror_keys(field: file_pb2.Field) -> None:
    """Set the flags of a field that say by its metadata whether it is part of a key (table sheet, section 1.2)."""
    if _PRIMARY in field.metadata:
        field.unenforced_primary_key = field.metadata[_PRIMARY].lower() in _TRUE
    if f"{_PRIMARY}:position" in field.metadata:
        field.unenforced_primary_key_position = _position(field, _PRIMARY)
        field.unenforced_primary_key = True
    if f"{_CLUSTERING}:position" in field.metadata:
        field.unenforced_clustering_key_position = _position(field, _CLUSTERING)


def _position(field: file_pb2.Field, key: str) -> int:
    text = field.metadata[f"{key}:position"]
    if not text.isdigit() or len(text) > 9:
        raise SchemaError(f"position {text!r} of column {field.name!r} in a key is no number", difference=key)
    return int(text)


def _keys(fields: Sequence[file_pb2.Field]) -> tuple[list[tuple[int, bytes, bytes]], ...]:
    """The primary and the clustering key: what fields say of being part of them."""
    return tuple(
        [
            (field.id, field.metadata.get(key, b""), field.metadata.get(f"{key}:position", b""))
            for field in fields
            if key in field.metadata or f"{key}:position" in field.metadata
        ]
        for key in (_PRIMARY, _CLUSTERING)
    )
