"""Values and bytes of the table layer, made by hand: everything has a default, so a test names only what it is about.

Numbers are chosen so that ids, versions, rows and positions are never equal by accident.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.proto import rowids_pb2, table_pb2
from lancecy.schema import Field, Schema
from lancecy.schema_wire import encode_fields
from lancecy.store.base import Store
from lancecy.table.manifest import (
    BasePath,
    DataFile,
    DeletionFile,
    DeletionFileType,
    ExternalFile,
    Fragment,
    IndexEntry,
    Manifest,
    WriterVersion,
)
from lancecy.table.paths import Naming, manifest_name
from lancecy.table.rows import roaring
from lancecy.table.wire.indices import decode_index

__all__ = [
    "deletion_arrow",
    "deletion_bitmap",
    "encode_manifest",
    "make_base",
    "make_data_file",
    "make_deletion_file",
    "make_field",
    "make_fragment",
    "make_index",
    "make_manifest",
    "make_schema",
    "manifest_file",
    "manifest_message",
    "memory_of",
    "row_id_sequence",
    "version_sequence",
    "write_manifest",
]

INDEX_ID = UUID(int=0x1122334455)
MADE_AT = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)


def memory_of(data: bytes) -> NDArray[np.uint8]:
    """What a store would hand out: a read-only array over the bytes."""
    return np.frombuffer(data, np.uint8)


# -- values -------------------------------------------------------------------


def make_field(name: str = "a", id: int = 0, **changes: Any) -> Field:
    """A nullable top-level int64 field."""
    return Field(**{"name": name, "id": id, "logical_type": "int64", "encoding": 1, **changes})


def make_schema() -> Schema:
    """Three top-level fields: ``a`` int64, ``s`` string, ``p`` struct<x: float, y: int32>."""
    point = (
        make_field("x", 3, parent_id=2, logical_type="float"),
        make_field("y", 4, parent_id=2, logical_type="int32", nullable=False),
    )
    return Schema(
        (
            make_field("a", 0),
            make_field("s", 1, logical_type="string", encoding=2, metadata={"unit": b"\x00\xff"}),
            make_field("p", 2, logical_type="struct", encoding=0, children=point),
        ),
        {"owner": b"me"},
    )


def make_data_file(**changes: Any) -> DataFile:
    """A 0.1 file with the fields of :func:`make_schema`."""
    return DataFile(
        **{
            "path": "f.lance",
            "fields": (0, 1, 2, 3, 4),
            "file_major_version": 0,
            "file_minor_version": 2,
            **changes,
        }
    )


def make_deletion_file(**changes: Any) -> DeletionFile:
    """An Arrow deletion file with three rows."""
    given = {"file_type": DeletionFileType.ARROW, "read_version": 6, "id": 77, "num_deleted_rows": 3}
    return DeletionFile(**{**given, **changes})


def make_fragment(id: int = 12, **changes: Any) -> Fragment:
    """A fragment of 40 rows in one file."""
    return Fragment(**{"id": id, "files": (make_data_file(),), "physical_rows": 40, **changes})


def make_base(id: int = 1, path: str = "/other/place", **changes: Any) -> BasePath:
    """A base path that is a dataset root."""
    return BasePath(**{"id": id, "path": path, "is_dataset_root": True, **changes})


def make_index(
    *,
    name: str = "b_idx",
    fields: Sequence[int] = (1,),
    fragments: Sequence[int] = (0, 1),
    dataset_version: int = 3,
    uuid: UUID = INDEX_ID,
    **given: Any,
) -> IndexEntry:
    """The entry of an index; other arguments are fields of its message."""
    message = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=uuid.bytes),
        name=name,
        fields=fields,
        dataset_version=dataset_version,
        fragment_bitmap=roaring.encode(np.array(sorted(fragments), np.int64)),
        **given,
    )
    return decode_index(message.SerializeToString())


def make_manifest(**changes: Any) -> Manifest:
    """Version 9 with two fragments."""
    given: dict[str, Any] = {
        "version": 9,
        "schema": make_schema(),
        "fragments": (make_fragment(12), make_fragment(15, physical_rows=25)),
        "timestamp": MADE_AT,
        "max_fragment_id": 15,
        "data_version": "0.1",
        "writer": WriterVersion("tests", "1.2.3"),
    }
    return Manifest(**{**given, **changes})


# -- messages -----------------------------------------------------------------


def _sequence_into(message: table_pb2.DataFragment, name: str, value: bytes | ExternalFile | None) -> None:
    if isinstance(value, bytes):
        setattr(message, f"inline_{name}", value)
    elif value is not None:
        getattr(message, f"external_{name}").CopyFrom(
            table_pb2.ExternalFile(path=value.path, offset=value.offset, size=value.size)
        )


def _fragment_message(fragment: Fragment) -> table_pb2.DataFragment:
    message = table_pb2.DataFragment(id=fragment.id, physical_rows=fragment.physical_rows or 0)
    for file in fragment.files:
        part = message.files.add(
            path=file.path,
            fields=file.fields,
            column_indices=file.column_indices,
            file_major_version=file.major,
            file_minor_version=file.minor,
            file_size_bytes=file.size or 0,
        )
        if file.base_id is not None:
            part.base_id = file.base_id
    if fragment.deletion_file is not None:
        deletion = fragment.deletion_file
        message.deletion_file.file_type = (
            table_pb2.DeletionFile.BITMAP
            if deletion.file_type is DeletionFileType.BITMAP
            else table_pb2.DeletionFile.ARROW_ARRAY
        )
        message.deletion_file.read_version = deletion.read_version
        message.deletion_file.id = deletion.id
        message.deletion_file.num_deleted_rows = deletion.num_deleted_rows or 0
        if deletion.base_id is not None:
            message.deletion_file.base_id = deletion.base_id
    _sequence_into(message, "row_ids", fragment.row_ids)
    _sequence_into(message, "last_updated_at_versions", fragment.last_updated_versions)
    _sequence_into(message, "created_at_versions", fragment.created_at_versions)
    return message


def manifest_message(manifest: Manifest) -> table_pb2.Manifest:
    """The message of a manifest; sections are added by :func:`encode_manifest`."""
    message = table_pb2.Manifest(
        fields=encode_fields(manifest.schema.fields),
        fragments=[_fragment_message(fragment) for fragment in manifest.fragments],
        version=manifest.version,
        schema_metadata=dict(manifest.schema.metadata),
        tag=manifest.tag or "",
        reader_feature_flags=manifest.reader_flags,
        writer_feature_flags=manifest.writer_flags,
        transaction_file=manifest.transaction_file or "",
        next_row_id=manifest.next_row_id,
        config=dict(manifest.config),
        table_metadata=dict(manifest.table_metadata),
    )
    if manifest.timestamp is not None:
        message.timestamp.FromDatetime(manifest.timestamp)
    if manifest.max_fragment_id is not None:
        message.max_fragment_id = manifest.max_fragment_id
    if manifest.data_version is not None:
        message.data_format.file_format, message.data_format.version = "lance", manifest.data_version
    if manifest.writer is not None:
        message.writer_version.library = manifest.writer.library
        message.writer_version.version = manifest.writer.version
    if manifest.branch is not None:
        message.branch = manifest.branch
    for base in manifest.base_paths.values():
        message.base_paths.add(
            id=base.id, name=base.name, is_dataset_root=base.is_dataset_root, path=base.path
        )
    return message


def manifest_file(message: table_pb2.Manifest | bytes, before: bytes = b"") -> bytes:
    """A manifest file: ``before``, the message with its length prefix, the footer."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    footer = struct.pack("<qhh4s", len(before), 0, 2, b"LANC")
    return before + struct.pack("<I", len(body)) + body + footer


def encode_manifest(
    manifest: Manifest,
    *,
    dictionaries: bytes = b"",
    indices: bytes | None = None,
    transaction: bytes | None = None,
    transaction_field: int = 23,
) -> bytes:
    """A manifest file, sections in the order the reference writes them."""
    message = manifest_message(manifest)
    before = dictionaries
    if indices is not None:
        message.index_section = len(before)
        before += struct.pack("<I", len(indices)) + indices
    if transaction is not None:
        if transaction_field == 23:
            message.transaction_section = len(before)
        else:
            message.transaction_section_deprecated = len(before)
        before += struct.pack("<I", len(transaction)) + transaction
    return manifest_file(message, before)


def write_manifest(store: Store, manifest: Manifest, naming: Naming = Naming.V2, **parts: Any) -> str:
    """Put a manifest where it belongs; returns its path."""
    path = f"_versions/{manifest_name(manifest.version, naming)}"
    store.put(path, encode_manifest(manifest, **parts))
    return path


# -- deletion files -----------------------------------------------------------


def deletion_arrow(
    offsets: Iterable[int],
    compression: str | None = "zstd",
    schema: pa.Schema | None = None,
    batches: int = 1,
) -> bytes:
    """An Arrow deletion file, offsets in the order given."""
    schema = schema or pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    column = pa.array(list(offsets), schema.field(0).type)
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch([column], schema=schema))
    return sink.getvalue()


def deletion_bitmap(offsets: Iterable[int], runs: bool = False) -> bytes:
    """A bitmap deletion file, with run containers where they save space if asked for."""
    from pyroaring import BitMap

    bitmap = BitMap(list(offsets))
    if runs:
        bitmap.run_optimize()
    else:
        bitmap = BitMap.deserialize(bitmap.serialize())
    data: bytes = bitmap.serialize()
    return data


# -- row ids ------------------------------------------------------------------


def _array(values: Sequence[int], width: int) -> rowids_pb2.EncodedU64Array:
    message = rowids_pb2.EncodedU64Array()
    if width == 64:
        message.u64_array.values = np.array(values, "<u8").tobytes()
        return message
    part = message.u16_array if width == 16 else message.u32_array
    part.base = min(values, default=0)
    part.offsets = np.array([v - part.base for v in values], f"<u{width // 8}").tobytes()
    return message


def segment(kind: str, values: Sequence[int], width: int = 16, span: tuple[int, int] | None = None) -> Any:
    """A segment holding ``values`` (ascending for all kinds but ``array``) in one of the five encodings."""
    message = rowids_pb2.U64Segment()
    start, stop = span or (values[0], values[-1] + 1)
    if kind == "range":
        message.range.start, message.range.end = start, stop
    elif kind == "range_with_holes":
        message.range_with_holes.start, message.range_with_holes.end = start, stop
        holes = sorted(set(range(start, stop)) - set(values))
        message.range_with_holes.holes.CopyFrom(_array(holes, width))
    elif kind == "range_with_bitmap":
        message.range_with_bitmap.start, message.range_with_bitmap.end = start, stop
        present = np.isin(np.arange(stop - start), [value - start for value in values])
        message.range_with_bitmap.bitmap = np.packbits(present, bitorder="little").tobytes()
    else:
        getattr(message, kind).CopyFrom(_array(values, width))
    return message


def row_id_sequence(*segments: Any) -> bytes:
    """A serialized sequence of the given segments."""
    return rowids_pb2.RowIdSequence(segments=segments).SerializeToString()


def version_sequence(runs: Mapping[int, int] | Sequence[tuple[int, int]]) -> bytes:
    """A serialized version sequence of (number of rows, version) runs."""
    pairs = runs.items() if isinstance(runs, Mapping) else runs
    message = rowids_pb2.RowDatasetVersionSequence()
    for count, version in pairs:
        run = message.runs.add(version=version)
        run.span.range.start, run.span.range.end = 0, count
    return message.SerializeToString()
