"""Delete: writes deletion files of the deleted rows, including earlier ones.

A deletion file lists every deleted row of its fragment and replaces the previous file. So each
attempt reads the vector of the newest version, adds the rows of this change, and writes a new file;
a fragment left without rows is removed. Rows that another writer deleted meanwhile are a conflict,
because this change was decided without knowing that.

Source: table sheet, sections 2.3 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import RetryableConflictError, SchemaError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.table.manifest import DeletionFile, Fragment
from lancecy.table.operations.base import Footprint, Newest, NewManifest, Operation, VersionStamp
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.paths import DELETIONS, deletion_file_name
from lancecy.table.requests import Put, RandomBits, ReadDeletion, Steps
from lancecy.table.rows import deletion, roaring
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.wire.fragment import decode_deletion_file, encode_deletion_file
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Delete"]

Int64: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Delete(Operation):
    """Delete rows and whole fragments.

    Attributes
    ----------
    rows : mapping of fragment id to (n,) int64, ascending
        Offsets of live rows to delete. The commit writes the deletion files, including rows that others deleted
        meanwhile, and removes a fragment left without rows.
    files : mapping of fragment id to DeletionFile
        Fragments whose complete deletion file is already written. Cannot be merged with others' deletes.
    removed : tuple of int
        Fragments to remove.
    predicate : str
        Recorded, and not evaluated.
    """

    kinds = ("delete",)
    writes = "deletion"

    rows: Mapping[int, Int64] = field(default_factory=dict)
    files: Mapping[int, DeletionFile] = field(default_factory=dict)
    removed: tuple[int, ...] = ()
    predicate: str = ""

    def footprints(self) -> tuple[Footprint, ...]:
        changed = frozenset(self.rows) | frozenset(self.files)
        return (Footprint("delete", changed, frozenset(self.removed), knows_rows=not self.files),)

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """The delete as deletion files and removed fragments of the newest version.

        Parameters
        ----------
        newest : Newest
        before : (Delete, ManifestFile), optional
            Files of fragments unchanged since the earlier attempt are reused.

        Raises
        ------
        RetryableConflictError
            A fragment was removed, or its rows were deleted since.
        ValueError
            The rows are not ascending row offsets of the fragment.
        FormatError, DatasetNotFoundError
            A deletion file is damaged or missing.
        """
        base, limits = newest.stored, newest.limits
        files, removed = dict(self.files), list(self.removed)
        for fragment_id, file in self.files.items():
            yield from _check_file(base, fragment_id, file, limits)
        for fragment_id, rows in self.rows.items():
            fragment = base.fragments.get(fragment_id)
            if fragment is None:
                raise RetryableConflictError(
                    f"fragment {fragment_id} is not in version {base.version} any more: find the rows to delete again"
                )
            if rows.size == 0:
                continue
            kept = _kept(fragment, before)
            if kept is not None:
                files[fragment_id] = kept
                continue
            _check_rows(fragment, rows)
            vector = yield from _merged(base, fragment, rows, limits)
            if len(vector) == fragment.physical_rows:
                removed.append(fragment_id)
            else:
                files[fragment_id] = yield from _written(fragment_id, vector, base.version)
        return replace(self, rows={}, files=files, removed=tuple(removed))

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        gone = {*self.files, *self.removed} - set(base.positions)
        if gone:
            raise SchemaError(f"the table has no fragment {min(gone)} to delete from")
        made = NewManifest.copy_of(base)
        fragments = made.message.fragments
        check_bases_known(made.message, (file.base_id for file in self.files.values()))
        for fragment_id, file in self.files.items():
            fragments[base.positions[fragment_id]].deletion_file.CopyFrom(encode_deletion_file(file))
        if self.removed:
            removed = set(self.removed)
            kept = [fragment for fragment in fragments if fragment.id not in removed]
            del fragments[:]
            fragments.extend(kept)
        return made

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.delete.SetInParent()
        updated = (fragment for fragment in made.fragments if fragment.id in self.files)
        message.delete.updated_fragments.extend(updated)
        message.delete.deleted_fragment_ids.extend(self.removed)
        message.delete.predicate = self.predicate

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Delete:
        files = {
            part.id: decode_deletion_file(part.deletion_file, part.id, part.physical_rows)
            for part in message.delete.updated_fragments
        }
        removed = tuple(message.delete.deleted_fragment_ids)
        return cls(files=files, removed=removed, predicate=message.delete.predicate)


def _kept(fragment: Fragment, before: tuple[Delete, ManifestFile] | None) -> DeletionFile | None:
    if before is None or before[1].fragments.get(fragment.id) != fragment:
        return None
    return before[0].files.get(fragment.id)


def _check_file(base: ManifestFile, fragment_id: int, file: DeletionFile, limits: Limits) -> Steps[None]:
    """Check that a deletion file written elsewhere exists and agrees with the change."""
    fragment = base.fragments.get(fragment_id)
    rows = None if fragment is None else fragment.physical_rows
    memory = yield ReadDeletion(base.manifest.bases, fragment_id, file)
    deletion.decode(memory, file, rows, limits)


def _check_rows(fragment: Fragment, rows: Int64) -> None:
    ascend = bool((rows[1:] > rows[:-1]).all())
    last = fragment.physical_rows
    if not ascend or int(rows[0]) < 0 or (last is not None and int(rows[-1]) >= last):
        raise ValueError(
            f"rows to delete are not ascending offsets below the {last} rows of fragment {fragment.id}"
        )


def _merged(base: ManifestFile, fragment: Fragment, rows: Int64, limits: Limits) -> Steps[DeletionVector]:
    file = fragment.deletion_file
    if file is None:
        return DeletionVector(rows.astype(np.int64))
    memory = yield ReadDeletion(base.manifest.bases, fragment.id, file)
    before = deletion.decode(memory, file, fragment.physical_rows, limits).offsets
    both = roaring.union(before, rows)
    if both.size != before.size + rows.size:
        raise RetryableConflictError(
            f"rows of fragment {fragment.id} are deleted in version {base.version} already: find the rows to "
            "delete anew"
        )
    return DeletionVector(both)


def _written(fragment_id: int, vector: DeletionVector, version: int) -> Steps[DeletionFile]:
    form = deletion.form_for(len(vector))
    file = DeletionFile(form, version, (yield RandomBits()), len(vector))
    name = deletion_file_name(fragment_id, file)
    yield Put(f"{DELETIONS}/{name}", deletion.encode(vector, form))
    return file
