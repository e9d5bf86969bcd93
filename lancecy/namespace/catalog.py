"""The table ``__manifest``: changes rows so that of several writers one wins.

A change is decided on one version and becomes the next one by put-if-absent. If another writer made that version, the
change is decided again on the new rows. So a check, such as that a name is free or a namespace empty, holds when the
change is committed, whoever else writes.

Source: namespace document, "Manifest Table Commits".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.api.datasets import Dataset
from lancecy.changes.commit import commit_operation
from lancecy.changes.insert import removed_if_refused, write_table
from lancecy.changes.options import CommitRequest, WriteRequest
from lancecy.changes.planning import planned
from lancecy.errors import (
    ConflictError,
    ContentionError,
    DatasetNotFoundError,
    ExistsError,
    LanceError,
)
from lancecy.namespace.entries import COLUMNS, Entry, metadata_text, rows_of
from lancecy.namespace.upkeep import fragments_to_merge, has_large_fragments, update_indices
from lancecy.namespace.view import View, check_flags
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import ObjectMeta
from lancecy.table.location import TableLocation
from lancecy.table.manifest import Fragment
from lancecy.table.operations import Update
from lancecy.table.snapshot import Snapshot, committed_snapshot, newest_snapshot
from lancecy.table.versions import ManifestLocation
from lancecy.table.versions.locate import latest
from lancecy.write.progress import WriteProgress

__all__ = ["Add", "Catalog", "Edit", "Remove", "Replace"]

# pylance 14 writes 2.2, which its releases of 2025 cannot read.
_FORMAT = "2.1"
# The version of the first change: the one before it has no rows.
_FIRST_CHANGED = 2
_LONGEST_PAUSE = 0.5
# Seconds for which a listing of versions is trusted, if the version after the newest one is still missing.
_TRUSTED = 5.0


@dataclass(frozen=True)
class Add:
    """Add rows.

    Attributes
    ----------
    entries : sequence of Entry
    """

    entries: Sequence[Entry]


@dataclass(frozen=True)
class Remove:
    """Remove rows.

    Attributes
    ----------
    object_ids : sequence of str
    """

    object_ids: Sequence[str]


@dataclass(frozen=True)
class Replace:
    """Put an entry in the place of a row, whose other columns stay.

    Attributes
    ----------
    object_id : str
        Of the row.
    entry : Entry
    """

    object_id: str
    entry: Entry


Edit = Add | Remove | Replace


class Catalog:
    """The table ``__manifest`` below a root.

    Parameters
    ----------
    location : TableLocation
        Of the table.
    session : Session
    commit_retries : int
        Maximum number of lost races of one change.
    check : function
        Called before the table is opened; raises an error if it is not to be.
    """

    def __init__(
        self, location: TableLocation, session: Session, commit_retries: int, check: Callable[[], None]
    ) -> None:
        self._check = check
        self._location = location
        self._session = session
        self._retries = commit_retries
        self._held: _Held | None = None

    def view(self) -> View:
        """The rows of the newest version."""
        self._check()
        held = self._held
        if held is not None and held.is_newest():
            return held.view
        view = View(newest_snapshot(self._location, self._session))
        self._held = None if view.snapshot is None else _Held(view, view.snapshot)
        return view

    def change(self, decide: Callable[[View], Edit | None]) -> View:
        """Change rows.

        Parameters
        ----------
        decide : function of a View
            Returns the change of that version, or None if none is needed. Called again if another writer makes the next
            version first. An error that it raises ends the change.

        Returns
        -------
        View
            The version that the change was decided on.

        Raises
        ------
        ContentionError
            Every race was lost.
        CommitUnknownError
            It is unknown whether the change was committed.
        LanceError
            The table is damaged, or the storage failed.
        """
        for attempt in range(self._retries + 1):
            view = self._writable()
            edit = decide(view)
            if edit is None:
                return view
            try:
                made = self._commit(view, edit)
            except (ConflictError, ContentionError):
                self._held = None
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))
                continue
            if made is not None:
                self._update_indices(made)
            return view
        raise ContentionError(
            f"{self._retries + 1} other writers of {self._location.uri} committed first; try again"
        )

    def _writable(self) -> View:
        """The newest version; the first one is made if there is none."""
        for _ in range(self._retries + 2):
            view = self.view()
            if view.snapshot is not None:
                check_flags(Dataset(view.snapshot).metadata, "writer")
                return view
            with suppress(ExistsError):
                options = WriteRequest("create", _FORMAT)
                write_table(
                    COLUMNS.empty_table(), None, self._location, self._session, None, options, _request()
                )
        raise ContentionError(f"{self._location.uri} was made and removed again by others; try again")

    def _commit(self, view: View, edit: Edit) -> Dataset | None:
        """The version after a change: small fragments are written anew with its rows (``upkeep``)."""
        if view.snapshot is None:
            raise DatasetNotFoundError(f"there is no table at {self._location.uri} any more", kind="dataset")
        ds, gone = Dataset(view.snapshot), _ids_that_go(edit)
        old = view.rows_of(gone) if gone else None
        added = _rows_that_come(edit, old, ds.schema)
        merged = fragments_to_merge(ds, added.num_rows)
        kept = view.rows_in(merged).select(ds.schema.names)
        kept = kept.filter(pc.invert(pc.is_in(kept["object_id"], value_set=pa.array(gone, pa.string()))))
        rows = pa.concat_tables([kept, added]).sort_by("object_id")
        return self._publish(view.snapshot, rows, tuple(merged), _places(old, merged))

    def _publish(
        self,
        snapshot: Snapshot,
        rows: pa.Table,
        merged: tuple[int, ...],
        deleted: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]],
    ) -> Dataset | None:
        """Commit a new fragment of these rows, without the merged fragments and the deleted rows.

        Returns the version that was made, or None if it cannot be read, which is no error of the change.
        """
        options, request = WriteRequest("append"), replace(_request(), written_ns=time.time_ns())
        plan = planned(rows.schema, self._location, self._session, snapshot, options)
        files = plan.new_files(self._location, self._session, options)
        made = files.write(rows.to_reader(), WriteProgress(None)) if rows.num_rows else []
        operation = Update(deleted, tuple(made), removed=merged)
        with removed_if_refused(files):
            done = commit_operation(operation, self._location, self._session, snapshot, request)
        with suppress(LanceError):
            newest = committed_snapshot(self._location, done.version, self._session, done.written)
            self._held = _Held(View(newest, _whole(newest, made, rows)), newest)
            return Dataset(newest)
        return None

    def _update_indices(self, ds: Dataset) -> None:
        """Bring the indices up to date, unless another writer changes rows meanwhile: a later change does it then."""
        is_new = ds.version == _FIRST_CHANGED
        if is_new or has_large_fragments(ds):
            with suppress(LanceError):
                update_indices(ds, _request())


class _Held:
    """A version that was the newest one, and whether it still is.

    On a disk, a listing of all versions takes long once there are many. Versions follow each other without gaps, so two
    look-ups tell the same, as long as no clean-up removed versions. No clean-up removes versions of the last seconds.
    Another store lists the newest versions first, in one request.
    """

    def __init__(self, view: View, snapshot: Snapshot) -> None:
        self.view = view
        self._snapshot = snapshot
        self._since = time.monotonic()
        self._is_disk = snapshot.store.traits.is_mapped
        self._file = self._head(snapshot.version) if self._is_disk else None
        # "" until a version that this process made is listed.
        self._identity = snapshot.manifest_file.identity

    def is_newest(self) -> bool:
        """Whether the table has no newer version; False if that is not known."""
        if not self._is_disk:
            return self._is_listed()
        if self._file is None or time.monotonic() - self._since > _TRUSTED:
            return False
        return (
            self._head(self._snapshot.version + 1) is None
            and self._head(self._snapshot.version) == self._file
        )

    def _is_listed(self) -> bool:
        try:
            newest = latest(self._snapshot.store, self._snapshot.versions)
        except DatasetNotFoundError:
            return False
        self._identity = self._identity or newest.identity
        return newest == self._snapshot.manifest_file and newest.identity == self._identity != ""

    def _head(self, version: int) -> ObjectMeta | None:
        naming = self._snapshot.manifest_file.naming
        try:
            return self._snapshot.store.head(ManifestLocation.canonical(version, naming).path)
        except DatasetNotFoundError:
            return None


def _whole(snapshot: Snapshot, made: Sequence[Fragment], rows: pa.Table) -> pa.Table | None:
    """All rows of a version with their addresses, if it has nothing but these new ones."""
    if [part.files for part in snapshot.fragments] != [part.files for part in made] or len(made) != 1:
        return None
    first = np.uint64(snapshot.fragments[0].id << 32)
    return rows.append_column("_rowaddr", pa.array(first + np.arange(rows.num_rows, dtype=np.uint64)))


def _ids_that_go(edit: Edit) -> list[str]:
    if isinstance(edit, Replace):
        return [edit.object_id]
    return list(edit.object_ids) if isinstance(edit, Remove) else []


def _rows_that_come(edit: Edit, old: pa.Table | None, schema: pa.Schema) -> pa.Table:
    """The new rows of a change, with the columns of the table."""
    if isinstance(edit, Remove):
        return schema.empty_table()
    if isinstance(edit, Replace) and old is not None:
        entry, rows = edit.entry, old.select(schema.names)
        values = {
            "object_id": entry.object_id,
            "location": entry.location,
            "metadata": metadata_text(entry.properties),
        }
        for name, value in values.items():
            place = schema.get_field_index(name)
            rows = rows.set_column(place, schema.field(name), pa.array([value] * rows.num_rows, pa.string()))
        return rows
    rows = rows_of(edit.entries if isinstance(edit, Add) else [])
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _places(
    rows: pa.Table | None, without: Sequence[int]
) -> dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Offsets of rows by fragment, but for some fragments."""
    if rows is None:
        return {}
    addresses = np.sort(rows["_rowaddr"].to_numpy())
    fragments, offsets = addresses >> np.uint64(32), (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return {
        int(fragment): offsets[fragments == fragment]
        for fragment in np.unique(fragments)
        if int(fragment) not in without
    }


def _request() -> CommitRequest:
    # Open connections of pylance follow versions one by one, so none is ever cleaned up.
    return CommitRequest(next_only=True, auto_cleanup=False, message=None)
