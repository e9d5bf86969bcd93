"""Fuzzed: a whole table, a manifest and a data file, read as users read it.

u32 length of the manifest file | manifest file | data file, named f.lance
"""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import lancecy
from lancecy.limits import Limits
from lancecy.proto import file_pb2, table_pb2
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from tests.helpers.container import Container

__all__ = ["OneTable", "as_input", "carved", "read_table"]

_ALIGNMENT = 64


class OneTable(Session):
    """Whatever it is asked for, it has one table."""

    def __init__(self, table: Store, limits: Limits) -> None:
        super().__init__(limits=limits, threads=1)
        self._table = table

    def store(self, *_: Any, **__: Any) -> Store:
        return self._table


def read_table(data: bytes, limits: Limits) -> None:
    """All rows, and a few."""
    size = int.from_bytes(data[:4], "little")
    store = MemoryStore("/t")
    store.put("_versions/1.manifest", data[4 : 4 + size])
    store.put("data/f.lance", data[4 + size :])
    with contextlib.closing(OneTable(store, limits)) as session:
        ds = lancecy.dataset("/t", session=session, untrusted=True)
        for column in ds.to_table().columns:
            column.validate()
        if rows := ds.count_rows():
            for column in ds.take([0, rows - 1, rows // 2]).columns:
                column.validate()


def as_input(manifest: bytes, data: bytes) -> bytes:
    """One input of the target."""
    return struct.pack("<I", len(manifest)) + manifest + data


def carved(manifest: bytes, data: bytes, top: int) -> bytes:
    """One column of a table of one fragment with one 2.x file, as an input: everything else is left out.

    Parameters
    ----------
    manifest, data : bytes
        The files.
    top : int
        Id of the top-level field to keep.
    """
    position = struct.unpack_from("<q", manifest, len(manifest) - 16)[0]
    [length] = struct.unpack_from("<I", manifest, position)
    message = table_pb2.Manifest.FromString(manifest[position + 4 : position + 4 + length])
    ids = _below(message.fields, top)
    file = message.fragments[0].files[0]
    pairs = [p for p in zip(file.fields, file.column_indices, strict=True) if p[0] in ids]
    columns = sorted({column for _, column in pairs if column >= 0})
    new = {old: number for number, old in enumerate(columns)} | {-1: -1}
    fragment = table_pb2.DataFragment(id=0, physical_rows=message.fragments[0].physical_rows)
    fragment.files.add(
        path="f.lance",
        fields=[field for field, _ in pairs],
        column_indices=[new[column] for _, column in pairs],
        file_major_version=file.file_major_version,
        file_minor_version=file.file_minor_version,
    )
    kept = table_pb2.Manifest(version=1, data_format=message.data_format, fragments=[fragment])
    kept.fields.extend(field for field in message.fields if field.id in ids)
    kept.reader_feature_flags = message.reader_feature_flags & ~2  # no stable row ids any more
    body = kept.SerializeToString()
    made = struct.pack("<I", len(body)) + body + struct.pack("<qHH4s", 0, 0, 2, b"LANC")
    return as_input(made, _file(data, columns, ids))


def _below(fields: Any, top: int) -> set[int]:
    ids = {top}
    for field in fields:  # parents come first
        if field.parent_id in ids and field.parent_id >= 0:
            ids.add(field.id)
    return ids


def _file(data: bytes, columns: list[int], ids: set[int]) -> bytes:
    """The file with these physical columns alone, their pages moved together."""
    container, body = Container.parse(data), bytearray()
    container.columns = [container.columns[number] for number in columns]
    for column in container.columns:
        for page in column.pages:
            for number, content in enumerate(container.buffers(page)):
                body += bytes(-len(body) % _ALIGNMENT)
                page.buffer_offsets[number] = len(body)
                body += content
    schema = file_pb2.Schema(fields=[f for f in container.descriptor.schema.fields if f.id in ids])
    container.descriptor.schema.CopyFrom(schema)
    return container.build(body=bytes(body))
