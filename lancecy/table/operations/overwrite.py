"""Overwrite: replaces schema and rows, or creates a table.

Source: table sheet, sections 3.2, 4.3 and 10.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lancecy.errors import SchemaError, printable
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.schema_wire import decode_schema, encode_fields
from lancecy.table import flags
from lancecy.table.manifest import BasePath, Fragment
from lancecy.table.operations.base import Footprint, NewManifest, Operation, References, VersionStamp
from lancecy.table.operations.base_paths import add_bases, decode_bases, encode_bases
from lancecy.table.operations.foreign import check_no_mem_wal
from lancecy.table.operations.maps import mirror_keys
from lancecy.table.operations.new_fragments import (
    add_fragments,
    decode_fragments,
    encode_fragments,
    max_fragment_id,
)
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Overwrite"]


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """Replace schema and rows, or create a table.

    Attributes
    ----------
    fragments : tuple of Fragment
        As for ``Append``.
    schema : Schema
        With field ids; they may start at 0 again, as no index survives.
    config : mapping of str to str
        Added to the table's configuration.
    data_version : str or None
        Declared version of data files; None keeps the table's. Required for a new table.
    initial_bases : tuple of BasePath
        For a new table only. Id 0 means "the next free one".
    stable_row_ids : bool
        For a new table only; existing tables keep their setting.
    dictionaries : bytes
        Values of 0.1 dictionary fields, for the start of the manifest file.
    """

    kinds = ("overwrite",)
    makes_tables = True
    needs_read_version = False

    fragments: tuple[Fragment, ...]
    schema: Schema
    config: Mapping[str, str] = field(default_factory=dict)
    data_version: str | None = None
    initial_bases: tuple[BasePath, ...] = ()
    stable_row_ids: bool = False
    dictionaries: bytes = b""

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("overwrite"),)

    def create(self, stamp: VersionStamp) -> NewManifest:
        if self.data_version is None:
            raise ValueError("a new table needs a version of its data files")
        message = table_pb2.Manifest()
        if self.stable_row_ids:
            message.reader_feature_flags = flags.STABLE_ROW_IDS
        return self._filled(message, None, stamp)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        check_no_mem_wal(base)
        if self.initial_bases or self.stable_row_ids:
            raise ValueError("bases and stable row ids are chosen when a table is created, not overwritten")
        message = NewManifest.copy_of(base).message
        if (largest := max_fragment_id(message)) >= 0:
            message.max_fragment_id = largest  # old releases left it out
        del message.fields[:], message.fragments[:], message.clustering[:]
        message.schema_metadata.clear()
        return self._filled(message, base, stamp)

    def _filled(
        self, message: table_pb2.Manifest, base: ManifestFile | None, stamp: VersionStamp
    ) -> NewManifest:
        message.fields.extend(encode_fields(self.schema.fields))
        for column in message.fields:
            mirror_keys(column)
        _check_dictionaries(message, self.data_version)
        message.schema_metadata.update(self.schema.metadata)
        message.config.update(self.config)
        if self.data_version is not None:
            message.data_format.file_format, message.data_format.version = "lance", self.data_version
            # All files are new, so the check for mixed versions needs only them.
            message.reader_feature_flags &= ~flags.MIXED_FILE_VERSIONS
        add_bases(message, self.initial_bases)
        add_fragments(message, self.fragments, stamp.version, base)
        return NewManifest(message, None, self.dictionaries, base)

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        overwrite = message.overwrite
        overwrite.SetInParent()
        overwrite.fragments.extend(encode_fragments(self.fragments))
        overwrite.schema.extend(encode_fields(self.schema.fields))
        overwrite.schema_metadata.update(self.schema.metadata)
        overwrite.config_upsert_values.update(self.config)
        overwrite.initial_bases.extend(encode_bases(self.initial_bases))

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Overwrite:
        stored = message.overwrite
        return cls(
            decode_fragments(stored.fragments, limits),
            decode_schema(stored.schema, stored.schema_metadata, limits),
            dict(stored.config_upsert_values),
            initial_bases=decode_bases(stored.initial_bases),
        )

    def references(self) -> References:
        return References(self.fragments, bases=self.initial_bases)


def _check_dictionaries(message: table_pb2.Manifest, version: str | None) -> None:
    """Refuse dictionary columns of a 0.1 table without dictionaries, which are in the manifest file."""
    if (version or message.data_format.version) != "0.1":
        return
    for column in message.fields:
        if column.logical_type.startswith("dict:") and not column.dictionary.length:
            raise SchemaError(
                f"column {printable(column.name)!r} has a dictionary whose values are not given; a table of "
                "version 0.1 has one dictionary for all files: write it with lancecy.write_dataset",
                difference=column.name,
            )
