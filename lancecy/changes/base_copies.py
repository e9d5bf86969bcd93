"""The copies that bring data files of fragments to another base, and the change that makes the table use them.

A copy has another name than its file, so that a cleanup can tell them apart, and the same one whenever it is asked for, so that a
later call finds what an earlier one has copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lancecy.changes.base_files import check_targets
from lancecy.changes.clone_files import FileCopy, blob_fields, blobs_of, other_name, sized
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.table.manifest import Fragment
from lancecy.table.operations import Update
from lancecy.table.paths import DATA
from lancecy.table.snapshot import Snapshot

__all__ = ["BaseCopies", "base_copies"]


@dataclass(frozen=True, slots=True)
class BaseCopies:
    """What brings data files of fragments to another base.

    Attributes
    ----------
    base_id : int or None
        The other base; None is the table's own folder.
    target : Store
        Its store.
    files : tuple of FileCopy
        Data files, and the blobs beside them.
    fragments : tuple of Fragment
        As they are afterwards; only those that change.
    """

    base_id: int | None
    target: Store
    files: tuple[FileCopy, ...]
    fragments: tuple[Fragment, ...]

    @property
    def operation(self) -> Update:
        """The change that names the files in the other base. Rows keep their addresses, ids and versions."""
        return Update(updated=self.fragments)


def base_copies(snapshot: Snapshot, fragments: Sequence[Fragment], base_id: int | None) -> BaseCopies:
    """The copies that bring the data files of fragments to a base.

    Parameters
    ----------
    snapshot : Snapshot
    fragments : sequence of Fragment
        Of this version.
    base_id : int or None
        None is the table's own folder.

    Raises
    ------
    MissingFileError
        A file is missing in its present place.
    NotFoundError
        Nothing is left in the place of the base.
    PathPolicyError
        The table may not read the base.
    StoreError
        A store failed.
    """
    check_targets(snapshot, [base_id])
    target, prefix = snapshot.bases.folder(base_id, DATA)
    blob_ids = blob_fields(snapshot)
    wanted: list[tuple[FileCopy, bool]] = []
    changed = []
    for fragment in fragments:
        files = []
        for file in fragment.files:
            source, path = snapshot.bases.data(file)
            if file.base_id == base_id or (source.uri, path) == (target.uri, prefix + file.path):
                files.append(file)
                continue
            copy = FileCopy(source, path, prefix + other_name(source, path), 0, fragment)
            wanted.append((copy, not blob_ids.isdisjoint(file.fields)))
            files.append(replace(file, path=copy.target.removeprefix(prefix), base_id=base_id))
        if tuple(files) != fragment.files:
            changed.append(replace(fragment, files=tuple(files)))

    def found(one: tuple[FileCopy, bool]) -> list[FileCopy]:
        data = sized(snapshot, one[0])
        return [data, *(blobs_of(data) if one[1] else ())]

    groups = snapshot.session.map(found, wanted, blocking=not snapshot.is_mapped)
    return BaseCopies(base_id, target, tuple(copy for group in groups for copy in group), tuple(changed))
