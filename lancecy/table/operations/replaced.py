"""Puts fragments as a change states them into a manifest's message: other files and deletion files, the same rows.

Source: table sheet, sections 3.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from lancecy.errors import SchemaError
from lancecy.proto import table_pb2
from lancecy.table.manifest import Fragment
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.operations.fragment_files import set_files
from lancecy.table.operations.new_fragments import declare_versions
from lancecy.table.paths import check_name
from lancecy.table.wire.fragment import encode_deletion_file
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["new_files", "replace_fragments"]


def replace_fragments(message: table_pb2.Manifest, fragments: Iterable[Fragment], base: ManifestFile) -> None:
    """Replace data files and deletion files of fragments, which keep ids, rows, row ids and versions.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed; its fragments are those of ``base``.
    fragments : iterable of Fragment
    base : ManifestFile

    Raises
    ------
    SchemaError
        The table has no such fragment, or it has another number of rows; or the table has no such base, or would mix
        files of 0.1 and 2.x.
    PathPolicyError
        The name of a file is invalid.
    """
    for fragment in fragments:
        position = base.positions.get(fragment.id)
        if position is None:
            raise SchemaError(f"the table has no fragment {fragment.id} to change")
        part = message.fragments[position]
        if fragment.physical_rows not in {None, part.physical_rows or None}:
            raise SchemaError(
                f"fragment {fragment.id} has {part.physical_rows} rows and not {fragment.physical_rows}, as the change says"
            )
        for file in fragment.files:
            check_name(file.path, "name of a data file")
        deleted = fragment.deletion_file
        bases = [file.base_id for file in fragment.files]
        check_bases_known(message, bases if deleted is None else [*bases, deleted.base_id])
        declare_versions(message, fragment.files)
        set_files(part, fragment.files)
        part.ClearField("deletion_file")
        if deleted is not None:
            part.deletion_file.CopyFrom(encode_deletion_file(deleted))


def new_files(fragments: Iterable[Fragment], base: ManifestFile) -> tuple[Fragment, ...]:
    """The fragments with only the data files that the table does not have; fragments without any are left out."""
    found = []
    for fragment in fragments:
        before = base.fragments.get(fragment.id)
        known = {(file.base_id, file.path) for file in before.files} if before else set()
        files = tuple(file for file in fragment.files if (file.base_id, file.path) not in known)
        if files:
            found.append(Fragment(fragment.id, files))
    return tuple(found)
