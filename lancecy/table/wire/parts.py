"""What a version consists of, to compare versions with each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from lancecy.proto import table_pb2
from lancecy.table.wire.indices import decode_index_section

__all__ = ["Part", "changed_fragments", "files_of", "settings_of"]

Part = tuple[Hashable, ...]


def files_of(message: table_pb2.Manifest, indices: bytes | None) -> set[Part]:
    """The data files, deletion files and indices of a version: each is made by one change, under a name of its own.

    Parameters
    ----------
    message : lance.table.Manifest
    indices : bytes or None
        The index section.
    """
    return set(_files(message, indices))


def settings_of(message: table_pb2.Manifest) -> set[Part]:
    """The fields, bases and settings of a version, which several changes may make alike."""
    return set(_settings(message))


def _files(message: table_pb2.Manifest, indices: bytes | None) -> Iterator[Part]:
    for fragment in message.fragments:
        for file in fragment.files:
            yield "data", file.path
        if fragment.HasField("deletion_file"):
            yield "deletions", fragment.id, fragment.deletion_file.read_version, fragment.deletion_file.id
    for entry in decode_index_section(indices) if indices else ():
        yield "index", entry.uuid


def _settings(message: table_pb2.Manifest) -> Iterator[Part]:
    for field in message.fields:
        yield "field", field.SerializeToString(deterministic=True)
    for base in message.base_paths:
        yield "base", base.id, base.path
    for name in ("config", "table_metadata", "schema_metadata"):
        for key, value in getattr(message, name).items():
            yield name, key, value


def changed_fragments(message: table_pb2.Manifest, before: table_pb2.Manifest | None) -> set[int]:
    """Ids of the fragments that only one of two versions has, or that they have differently.

    Parameters
    ----------
    message : lance.table.Manifest
    before : lance.table.Manifest or None
        Without it, all fragments are changed.
    """
    old = {} if before is None else {fragment.id: fragment for fragment in before.fragments}
    new = {fragment.id: fragment for fragment in message.fragments}
    return {number for number in old.keys() | new.keys() if old.get(number) != new.get(number)}
