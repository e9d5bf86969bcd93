"""UpdateConfig: changes the maps of a table: config, table metadata, schema metadata (Arrow's), field metadata.

Source: table sheet, sections 1.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from lancecy.errors import SchemaError
from lancecy.limits import Limits
from lancecy.proto import file_pb2, table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.operations.foreign import UNKNOWN
from lancecy.table.operations.maps import (
    CLUSTERING_KEY,
    PRIMARY_KEY,
    MapUpdate,
    decode_map,
    encode_map,
    mirror_keys,
    update_map,
)
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["UpdateConfig"]


@dataclass(frozen=True, slots=True)
class UpdateConfig(Operation):
    """Change any of the four string maps of a table; None leaves a map unchanged.

    Attributes
    ----------
    config, table_metadata, schema_metadata : MapUpdate or None
    field_metadata : mapping of field id to MapUpdate
    """

    kinds = ("config", "table_metadata", "schema_metadata", "field_metadata")

    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)

    def footprints(self) -> tuple[Footprint, ...]:
        return tuple(self._footprints())

    def _footprints(self) -> Iterator[Footprint]:
        for kind in ("config", "table_metadata", "schema_metadata"):
            update: MapUpdate | None = getattr(self, kind)
            if update is not None:
                upserts = frozenset(key for key, value in update.entries.items() if value is not None)
                deletes = frozenset(update.entries) - upserts
                yield Footprint(kind, upserts=upserts, deletes=deletes, replaces=update.replace)
        if self.field_metadata:
            yield Footprint("field_metadata", fields=frozenset(self.field_metadata))

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        update_map(made.message.config, self.config, str)
        update_map(made.message.table_metadata, self.table_metadata, str)
        update_map(made.message.schema_metadata, self.schema_metadata, str.encode)
        self._update_fields(made.message)
        return made

    def _update_fields(self, message: table_pb2.Manifest) -> None:
        fields = {column.id: column for column in message.fields}
        before = _keys(message.fields)
        for field_id, update in self.field_metadata.items():
            if field_id not in fields:
                raise SchemaError(
                    f"the table has no field with id {field_id}", difference=f"field {field_id}"
                )
            update_map(fields[field_id].metadata, update, str.encode)
            mirror_keys(fields[field_id])
        for old, new in zip(before, _keys(message.fields), strict=True):
            # Earlier merges used the key, and filters of key hashes were written for it.
            if old and old != new:
                raise SchemaError(
                    "the key of a table cannot be changed once it is set", difference="key fields"
                )

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        stored = message.update_config
        stored.SetInParent()
        if self.config is not None:
            encode_map(stored.config_updates, self.config)
        if self.table_metadata is not None:
            encode_map(stored.table_metadata_updates, self.table_metadata)
        if self.schema_metadata is not None:
            encode_map(stored.schema_metadata_updates, self.schema_metadata)
        for field_id, update in self.field_metadata.items():
            encode_map(stored.field_metadata_updates[field_id], update)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Operation:
        stored = message.update_config
        if stored.field_metadata:
            return UNKNOWN  # the undocumented form of old releases
        config = table = schema = None
        if stored.upsert_values or stored.delete_keys:
            config = MapUpdate({**dict.fromkeys(stored.delete_keys), **stored.upsert_values})
        if stored.schema_metadata:
            schema = MapUpdate(dict(stored.schema_metadata), replace=True)
        if stored.HasField("config_updates"):
            config = decode_map(stored.config_updates)
        if stored.HasField("schema_metadata_updates"):
            schema = decode_map(stored.schema_metadata_updates)
        if stored.HasField("table_metadata_updates"):
            table = decode_map(stored.table_metadata_updates)
        fields = {number: decode_map(update) for number, update in stored.field_metadata_updates.items()}
        return cls(config, table, schema, fields)


def _keys(fields: Sequence[file_pb2.Field]) -> tuple[list[tuple[int, bytes, bytes]], ...]:
    """The primary and the clustering key, by the flags of fields."""
    return tuple(
        [
            (field.id, field.metadata.get(key, b""), field.metadata.get(f"{key}:position", b""))
            for field in fields
            if key in field.metadata or f"{key}:position" in field.metadata
        ]
        for key in (PRIMARY_KEY, CLUSTERING_KEY)
    )
