"""Delete: deletes rows and whole fragments.

Source: table sheet, sections 2.3 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.manifest import DeletionFile
from lancecy.table.operations.base import Footprint, Newest, NewManifest, Operation, VersionStamp
from lancecy.table.operations.deletions import Deletions, delete_in, resolve_rows
from lancecy.table.requests import ReadDeletion, Steps, together
from lancecy.table.rows import deletion
from lancecy.table.wire.fragment import decode_deletion_file
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
        yield from together(
            [_check_file(newest.stored, number, file, newest.limits) for number, file in self.files.items()]
        )

        earlier = None if before is None else (before[0].files, before[1])
        found = yield from resolve_rows(self.rows, newest, earlier)
        return replace(
            self, rows={}, files={**self.files, **found.files}, removed=(*self.removed, *found.removed)
        )

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        delete_in(made, Deletions(self.files, self.removed), base)
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


def _check_file(base: ManifestFile, fragment_id: int, file: DeletionFile, limits: Limits) -> Steps[None]:
    """Check that a deletion file written elsewhere exists and agrees with the change."""
    fragment = base.fragments.get(fragment_id)
    rows = None if fragment is None else fragment.physical_rows
    memory = yield ReadDeletion(base.manifest.bases, fragment_id, file)
    deletion.decode(memory, file, rows, limits)
