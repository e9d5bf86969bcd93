"""Rows to delete, as deletion files of the newest version.

A deletion file lists every deleted row of its fragment and replaces the previous file. So each
attempt of a commit reads the vector of the newest version, adds the rows of this change, and writes a new file;
a fragment left without rows is removed. Rows that another writer deleted meanwhile are a conflict,
because this change was decided without knowing that.

Source: table sheet, sections 2.3 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import RetryableConflictError, SchemaError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.table.manifest import DeletionFile, Fragment
from lancecy.table.operations.base import Newest, NewManifest
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.requests import Put, RandomBits, ReadDeletion, Steps, together
from lancecy.table.rows import deletion, roaring
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.wire.fragment import encode_deletion_file
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Deletions", "delete_in", "deleted_offsets", "resolve_rows", "write_deletions"]

Int64: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deletions:
    """Deleted rows of a version, as files.

    Attributes
    ----------
    files : mapping of fragment id to DeletionFile
        The complete deletion file of each changed fragment.
    removed : tuple of int
        Fragments to remove.
    """

    files: Mapping[int, DeletionFile] = field(default_factory=dict)
    removed: tuple[int, ...] = ()


def resolve_rows(
    rows: Mapping[int, Int64], newest: Newest, before: tuple[Mapping[int, DeletionFile], ManifestFile] | None
) -> Steps[Deletions]:
    """The deletion files, now written, of rows to delete from the newest version.

    Parameters
    ----------
    rows : mapping of fragment id to (n,) int64, ascending
        Offsets of live rows.
    newest : Newest
    before : (mapping of fragment id to DeletionFile, ManifestFile), optional
        Files of an earlier attempt, and its version. Those of fragments unchanged since are used again.

    Raises
    ------
    RetryableConflictError
        A fragment was removed, or its rows were deleted since.
    ValueError
        The rows are not ascending row offsets of the fragment.
    FormatError, DatasetNotFoundError
        A deletion file is damaged or missing.
    """
    base = newest.stored
    files: dict[int, DeletionFile] = {}
    changed: dict[int, Fragment] = {}
    for fragment_id, offsets in rows.items():
        fragment = base.fragments.get(fragment_id)
        if fragment is None:
            raise RetryableConflictError(
                f"fragment {fragment_id} is not in version {base.version} any more: find the rows to change again"
            )
        if offsets.size == 0:
            continue
        earlier = _kept(fragment, before)
        if earlier is not None:
            files[fragment_id] = earlier
            continue
        _check_rows(fragment, offsets)
        changed[fragment_id] = fragment
    made = yield from together(
        [_written(base, number, part, rows[number], newest.limits) for number, part in changed.items()]
    )
    removed = tuple(number for number, file in zip(changed, made, strict=True) if file is None)
    files.update((number, file) for number, file in zip(changed, made, strict=True) if file is not None)
    return Deletions(files, removed)


def _written(
    base: ManifestFile, fragment_id: int, fragment: Fragment, rows: Int64, limits: Limits
) -> Steps[DeletionFile | None]:
    """The deletion file of a fragment with these rows too, now written; None if no row is left."""
    vector = yield from _merged(base, fragment, rows, limits)
    if len(vector) == fragment.physical_rows:
        return None
    return (yield from write_deletions(fragment_id, vector, base.version))


def delete_in(made: NewManifest, deletions: Deletions, base: ManifestFile) -> None:
    """Set the deletion files of fragments in a message, and remove fragments.

    Raises
    ------
    SchemaError
        The table lacks a fragment or a base.
    """
    gone = {*deletions.files, *deletions.removed} - set(base.positions)
    if gone:
        raise SchemaError(f"the table has no fragment {min(gone)} to delete from")
    fragments = made.message.fragments
    check_bases_known(made.message, (file.base_id for file in deletions.files.values()))
    for fragment_id, file in deletions.files.items():
        fragments[base.positions[fragment_id]].deletion_file.CopyFrom(encode_deletion_file(file))
    if deletions.removed:
        removed = set(deletions.removed)
        kept = [fragment for fragment in fragments if fragment.id not in removed]
        del fragments[:]
        fragments.extend(kept)


def deleted_offsets(base: ManifestFile, fragment: Fragment, limits: Limits) -> Steps[Int64]:
    """Offsets of the deleted rows of a fragment: (n,) int64, ascending."""
    file = fragment.deletion_file
    if file is None:
        return np.empty(0, np.int64)
    memory = yield ReadDeletion(base.manifest.bases, fragment.id, file)
    return deletion.decode(memory, file, fragment.physical_rows, limits).offsets


def write_deletions(fragment_id: int, vector: DeletionVector, version: int) -> Steps[DeletionFile]:
    """The entry of a deletion file, now written."""
    form = deletion.form_for(len(vector))
    file = DeletionFile(version, (yield RandomBits()), form, len(vector))
    yield Put(file.path(fragment_id), deletion.encode(vector, form))
    return file


def _kept(
    fragment: Fragment, before: tuple[Mapping[int, DeletionFile], ManifestFile] | None
) -> DeletionFile | None:
    if before is None or before[1].fragments.get(fragment.id) != fragment:
        return None
    return before[0].get(fragment.id)


def _check_rows(fragment: Fragment, rows: Int64) -> None:
    ascend = bool((rows[1:] > rows[:-1]).all())
    last = fragment.physical_rows
    if not ascend or int(rows[0]) < 0 or (last is not None and int(rows[-1]) >= last):
        raise ValueError(
            f"rows to delete are not ascending offsets below the {last} rows of fragment {fragment.id}"
        )


def _merged(base: ManifestFile, fragment: Fragment, rows: Int64, limits: Limits) -> Steps[DeletionVector]:
    if fragment.deletion_file is None:
        return DeletionVector(rows.astype(np.int64))
    before = yield from deleted_offsets(base, fragment, limits)
    both = roaring.union(before, rows)
    if both.size != before.size + rows.size:
        raise RetryableConflictError(
            f"rows of fragment {fragment.id} are deleted in version {base.version} already: find the rows to "
            "change anew"
        )
    return DeletionVector(both)
