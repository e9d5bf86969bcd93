"""The data files of a fragment whose columns are replaced or dropped.

Source: table sheet, sections 2.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lancecy.proto import table_pb2
from lancecy.table.manifest import DataFile
from lancecy.table.wire.fragment import encode_data_file

__all__ = ["TOMBSTONE", "changed_fields", "drop_dead_files", "put_file", "set_files"]

TOMBSTONE = -2
"""Stands for a field of a file that is now in another file."""

_Place = tuple[str, int | None, int]


def changed_fields(before: table_pb2.DataFragment, after: table_pb2.DataFragment) -> set[int]:
    """Ids of the fields that are in other files, or other columns of files, than before."""
    if before.files == after.files:
        return set()
    old, new = _places(before), _places(after)
    return {field for field in old.keys() | new.keys() if old.get(field) != new.get(field)}


def _places(fragment: table_pb2.DataFragment) -> dict[int, _Place]:
    found: dict[int, _Place] = {}
    for file in fragment.files:
        base = file.base_id if file.HasField("base_id") else None
        # Files of 0.1 have no columns: a field has the same place in a file as long as the file is the same.
        columns = file.column_indices or [0] * len(file.fields)
        for field, column in zip(file.fields, columns, strict=False):
            if field >= 0:
                found[field] = (file.path, base, column)
    return found


def put_file(fragment: table_pb2.DataFragment, file: DataFile) -> None:
    """Add a file with other values of columns; older files of the fragment lose these columns."""
    given = set(file.fields)
    for old in fragment.files:
        for position, field in enumerate(old.fields):
            if field in given:
                old.fields[position] = TOMBSTONE
    _keep(fragment, [old for old in fragment.files if any(field != TOMBSTONE for field in old.fields)])
    fragment.files.append(encode_data_file(file))


def drop_dead_files(fragments: Iterable[table_pb2.DataFragment], live: Collection[int]) -> None:
    """Remove the data files without any field of the schema; files with hidden columns stay."""
    known = frozenset(live)
    for fragment in fragments:
        kept = [
            file
            for file in fragment.files
            if not known.isdisjoint(file.fields) or min(file.fields, default=TOMBSTONE) < TOMBSTONE
        ]
        if len(kept) < len(fragment.files):
            _keep(fragment, kept)


def set_files(fragment: table_pb2.DataFragment, files: Iterable[DataFile]) -> None:
    """Replace the data files of a fragment; files that it has keep their message, unless their fields change."""
    known = {(old.path, old.base_id if old.HasField("base_id") else None): old for old in fragment.files}
    made: list[table_pb2.DataFile] = []
    for file in files:
        old = known.get((file.path, file.base_id))
        if old is None:
            made.append(encode_data_file(file))
            continue
        kept = table_pb2.DataFile()
        kept.CopyFrom(old)
        if tuple(kept.fields) != file.fields:
            del kept.fields[:], kept.column_indices[:]
            kept.fields.extend(file.fields)
            kept.column_indices.extend(file.column_indices)
        made.append(kept)
    _keep(fragment, made)


def _keep(fragment: table_pb2.DataFragment, files: list[table_pb2.DataFile]) -> None:
    copies = [table_pb2.DataFile() for _ in files]
    for copy, file in zip(copies, files, strict=True):
        copy.CopyFrom(file)
    del fragment.files[:]
    fragment.files.extend(copies)
