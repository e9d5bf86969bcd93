"""What a version consists of, to compare versions with each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from lancecy.proto import table_pb2
from lancecy.table.wire.indices import decode_index_section

__all__ = ["Part", "changed_fragments", "parts_of"]

Part = tuple[Hashable, ...]


def parts_of(message: table_pb2.Manifest, indices: bytes | None) -> set[Part]:
    """The files, fields, bases, settings and indices of a version.

    Parameters
    ----------
    message : lance.table.Manifest
    indices : bytes or None
        The index section.
    """
    return set(_parts(message, indices))


def _parts(message: table_pb2.Manifest, indices: bytes | None) -> Iterator[Part]:
    for fragment in message.fragments:
        for file in fragment.files:
            yield fragment.id, file.path, *file.fields
        if fragment.HasField("deletion_file"):
            yield fragment.id, fragment.deletion_file.read_version, fragment.deletion_file.id
    for field in message.fields:
        yield "field", field.SerializeToString(deterministic=True)
    for base in message.base_paths:
        yield "base", base.id, base.path
    for name in ("config", "table_metadata", "schema_metadata"):
        for key, value in getattr(message, name).items():
            yield name, key, value
    for entry in decode_index_section(indices) if indices else ():
        yield "index", entry.uuid


def changed_fragments(message: table_pb2.Manifest, before: table_pb2.Manifest | None) -> set[int]:
    """Ids of the fragments that an earlier version lacks or has otherwise; all without an earlier one."""
    old = {} if before is None else {fragment.id: fragment for fragment in before.fragments}
    return {fragment.id for fragment in message.fragments if old.get(fragment.id) != fragment}
