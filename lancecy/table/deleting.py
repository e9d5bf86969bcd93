"""Turns deleted rows into deletion files, together with the rows deleted before.

A deletion file lists every deleted row of its fragment and replaces the one before. So on each
attempt the vector of the newest version is read, the rows of this change are added, and a new file
is written; a fragment left without rows goes as a whole. Rows that another writer deleted meanwhile
are a conflict: what was decided about them was decided without knowing that.

Facts: table sheet, sections 2.3 and 4.4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lancecy.errors import RetryableConflictError
from lancecy.limits import Limits
from lancecy.table import deletion, roaring
from lancecy.table.deletion import DeletionVector
from lancecy.table.manifest import DeletionFile, Fragment
from lancecy.table.operations import Delete, Int64
from lancecy.table.paths import DELETIONS, deletion_file_name
from lancecy.table.requests import Draw, Put, ReadDeletion, Steps
from lancecy.table.stored_wire import Stored

__all__ = ["resolve_delete"]


def resolve_delete(
    operation: Delete, base: Stored, limits: Limits, before: tuple[Delete, Stored] | None = None
) -> Steps[Delete]:
    """The same change as files and removed fragments of the version ``base``.

    Parameters
    ----------
    operation : Delete
    base : Stored
    limits : Limits
    before : (Delete, Stored), optional
        What an earlier attempt came to, and on which version: files of fragments untouched since are still right.

    Raises
    ------
    RetryableConflictError
        A fragment is gone, or rows of it were deleted since.
    ValueError
        The rows are not ascending offsets of the fragment's rows.
    FormatError, DatasetNotFoundError
        A deletion file is damaged or missing.
    """
    files, removed = dict(operation.files), list(operation.removed)
    for fragment_id, file in operation.files.items():
        yield from _check_file(base, fragment_id, file, limits)
    for fragment_id, rows in operation.rows.items():
        fragment = base.fragments.get(fragment_id)
        if fragment is None:
            raise RetryableConflictError(
                f"fragment {fragment_id} is not in version {base.version} any more: find the rows to delete anew"
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
    return replace(operation, rows={}, files=files, removed=tuple(removed))


def _kept(fragment: Fragment, before: tuple[Delete, Stored] | None) -> DeletionFile | None:
    if before is None or before[1].fragments.get(fragment.id) != fragment:
        return None
    return before[0].files.get(fragment.id)


def _check_file(base: Stored, fragment_id: int, file: DeletionFile, limits: Limits) -> Steps[None]:
    """See that a deletion file written elsewhere is there and says what the change says of it."""
    fragment = base.fragments.get(fragment_id)
    rows = None if fragment is None else fragment.physical_rows
    memory = yield ReadDeletion(base.manifest, fragment_id, file)
    deletion.decode(memory, file, rows, limits)


def _check_rows(fragment: Fragment, rows: Int64) -> None:
    ascend = bool((rows[1:] > rows[:-1]).all())
    last = fragment.physical_rows
    if not ascend or int(rows[0]) < 0 or (last is not None and int(rows[-1]) >= last):
        raise ValueError(
            f"rows to delete are no ascending offsets below the {last} rows of fragment {fragment.id}"
        )


def _merged(base: Stored, fragment: Fragment, rows: Int64, limits: Limits) -> Steps[DeletionVector]:
    file = fragment.deletion_file
    if file is None:
        return DeletionVector(rows.astype(np.int64))
    memory = yield ReadDeletion(base.manifest, fragment.id, file)
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
    file = DeletionFile(form, version, (yield Draw()), len(vector))
    name = deletion_file_name(fragment_id, file)
    yield Put(f"{DELETIONS}/{name}", deletion.encode(vector, form))
    return file
