"""The table ``__manifest``: looks objects up, and changes rows so that of several writers one wins.

A change is decided on one version and becomes the next one by put-if-absent. If another writer made that version, the
change is decided again on the new rows. So a check, such as that a name is free or a namespace empty, holds when the
change is committed, whoever else writes.

New rows are appended. Once there are many small fragments, they are merged.

Source: namespace document, "Manifest Table Commits".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.api.datasets import Dataset
from lancecy.changes.commit import commit_operation
from lancecy.changes.delete import delete_of
from lancecy.changes.insert import removed_if_refused, write_table
from lancecy.changes.options import CommitRequest, WriteRequest
from lancecy.changes.planning import planned
from lancecy.changes.update import UpdatedRows
from lancecy.errors import (
    ConflictError,
    ContentionError,
    DatasetNotFoundError,
    ExistsError,
    FormatError,
    LanceError,
    UnsupportedError,
    printable,
)
from lancecy.expr import col, lit, time_now
from lancecy.expr.build import Term
from lancecy.namespace.entries import COLUMNS, MANIFEST, TABLE, Entry, metadata_text, rows_of
from lancecy.namespace.names import DELIMITER
from lancecy.session import Session
from lancecy.table.location import TableLocation
from lancecy.table.operations import Operation
from lancecy.table.snapshot import Snapshot, newest_snapshot
from lancecy.write.progress import WriteProgress

__all__ = ["Add", "Catalog", "Edit", "Remove", "Replace", "View"]

_FORMAT = "2.2"
_READ = ["object_id", "object_type", "location", "metadata"]
_FLAGS = "lance.namespace.manifest.{}_feature_flags"
# Fragments before they are merged.
_MOST_FRAGMENTS = 64
_LONGEST_PAUSE = 0.5
_LAST = "\U0010ffff"


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


class View:
    """The rows of one version.

    Parameters
    ----------
    snapshot : Snapshot or None
        None if there is no ``__manifest``: there are no rows then.

    Raises
    ------
    FormatError
        A column is missing or has another type.
    UnsupportedError
        The table has feature flags that this release does not know.
    """

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot
        self._table = None if snapshot is None else Dataset(snapshot)
        if self._table is not None:
            _check_columns(self._table.schema)
            _check_flags(self._table.metadata, "reader")

    def find(self, object_id: str) -> Entry | None:
        """The object of an id, None if there is none.

        Parameters
        ----------
        object_id : str

        Raises
        ------
        FormatError
            Several rows have the id, or its row is damaged.
        """
        rows = self._rows(col("object_id") == lit(object_id))
        if len(rows) > 1:
            raise FormatError(f"{len(rows)} rows of {MANIFEST} have the id {printable(object_id)!r}")
        return Entry.of(rows[0]) if rows else None

    def names(
        self, namespace: str, kind: str, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Names of the objects of one kind directly in a namespace, in order.

        Parameters
        ----------
        namespace : str
            Its id; "" is the root.
        kind : str
        after : str, optional
            Only names greater than this.
        limit : int, optional
            At most so many.
        """
        prefix = f"{namespace}{DELIMITER}" if namespace else ""
        ids = self._ids(_below(namespace, after) & (col("object_type") == lit(kind)))
        names = pc.utf8_slice_codeunits(ids, len(prefix), None)
        own = names.filter(pc.invert(pc.match_substring(names, DELIMITER))).to_pylist()
        return sorted(own)[:limit]

    def below(self, namespace: str) -> list[str]:
        """The ids of all objects in a namespace, also in those below it.

        Parameters
        ----------
        namespace : str
        """
        return list(self._ids(_below(namespace)).to_pylist())

    def is_empty(self, namespace: str) -> bool:
        """Whether a namespace has no object."""
        return not len(self._ids(_below(namespace)))

    def locations(self) -> Mapping[str, str]:
        """The ids of tables by their locations. Missing locations are left out."""
        rows = self._scan(["object_id", "location"], col("object_type") == lit(TABLE)).to_pylist()
        return {row["location"].removesuffix("/"): row["object_id"] for row in rows if row["location"]}

    def tables_at(self, location: str) -> list[str]:
        """The ids of the tables at a location, or at one below it.

        Parameters
        ----------
        location : str
        """
        at = (col("location") == lit(location)) | (
            (col("location") >= lit(f"{location}/")) & (col("location") < lit(f"{location}/{_LAST}"))
        )
        return list(self._ids((col("object_type") == lit(TABLE)) & at).to_pylist())

    def entries(self, object_ids: Sequence[str]) -> list[Entry]:
        """The objects of several ids, in order.

        Parameters
        ----------
        object_ids : sequence of str
        """
        return self._entries(list(object_ids))

    def tables(self) -> Iterator[Entry]:
        """All tables, also those in child namespaces."""
        ids = self._ids(col("object_type") == lit(TABLE)).to_pylist()
        yield from self._entries(sorted(ids))

    def _entries(self, object_ids: list[str]) -> list[Entry]:
        if not object_ids:
            return []
        rows = self._rows(col("object_id").isin(object_ids))
        known = {row["object_id"]: row for row in rows}
        return [Entry.of(known[object_id]) for object_id in object_ids]

    def _rows(self, condition: Term) -> list[dict[str, str | None]]:
        rows: list[dict[str, str | None]] = self._scan(_READ, condition).to_pylist()
        return rows

    def _ids(self, condition: Term) -> pa.ChunkedArray:
        return self._scan(["object_id"], condition)["object_id"].combine_chunks()

    def _scan(self, columns: list[str], condition: Term) -> pa.Table:
        if self._table is None:
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        return self._table.to_table(columns=columns, filter=condition)


def _below(namespace: str, after: str | None = None) -> Term:
    prefix = f"{namespace}{DELIMITER}" if namespace else ""
    first = col("object_id") > lit(prefix + (after or ""))
    return first & (col("object_id") < lit(prefix + _LAST)) if prefix else first


def _check_columns(schema: pa.Schema) -> None:
    for field in COLUMNS:
        found = schema.field(field.name).type if field.name in schema.names else None
        if found is None and field.name != "base_objects":
            raise FormatError(f"{MANIFEST} has no column {field.name!r}, so it is no table of a namespace")
        if found is not None and field.name in _READ and not found.equals(pa.string()):
            raise FormatError(f"column {field.name!r} of {MANIFEST} is {found}, and not {field.type}")


def _check_flags(metadata: Mapping[str, str], kind: str) -> None:
    text = metadata.get(_FLAGS.format(kind), "0")
    if text.strip() not in ("", "0"):
        raise UnsupportedError(
            f"{MANIFEST} needs features of a {kind} ({printable(text)}) that this release of lancecy does not have",
            feature=f"{kind} flags of a namespace",
        )


class Catalog:
    """The table ``__manifest`` below a root.

    Parameters
    ----------
    location : TableLocation
        Of the table.
    session : Session
    commit_retries : int
        Maximum number of lost races of one change.
    """

    def __init__(self, location: TableLocation, session: Session, commit_retries: int) -> None:
        self._location = location
        self._session = session
        self._retries = commit_retries

    def view(self) -> View:
        """The rows of the newest version."""
        return View(newest_snapshot(self._location, self._session))

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
                self._commit(view, edit)
            except (ConflictError, ContentionError):
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))
                continue
            self._merge_fragments(view)
            return view
        raise ContentionError(
            f"{self._retries + 1} other writers of {self._location.uri} committed first; try again"
        )

    def _writable(self) -> View:
        """The newest version; the first one is made if there is none."""
        view = self.view()
        while view.snapshot is None:
            with suppress(ExistsError):
                options = WriteRequest("create", _FORMAT)
                write_table(
                    COLUMNS.empty_table(), None, self._location, self._session, None, options, _request()
                )
            view = self.view()
        _check_flags(Dataset(view.snapshot).metadata, "writer")
        return view

    def _commit(self, view: View, edit: Edit) -> None:
        if view.snapshot is None:
            raise DatasetNotFoundError(f"there is no table at {self._location.uri} any more", kind="dataset")
        if isinstance(edit, Remove):
            context = Dataset(view.snapshot).context
            self._publish(delete_of(context, col("object_id").isin(list(edit.object_ids)))[0], view.snapshot)
        elif isinstance(edit, Replace):
            self._replace(view.snapshot, edit)
        else:
            self._add(view.snapshot, rows_of(edit.entries))

    def _add(self, snapshot: Snapshot, rows: pa.Table) -> None:
        options = WriteRequest("append")
        names = Dataset(snapshot).schema.names
        rows = rows.select([name for name in rows.column_names if name in names])
        plan = planned(rows.schema, self._location, self._session, snapshot, options)
        files = plan.new_files(self._location, self._session, options)
        made = files.write(rows.to_reader(), WriteProgress(None))
        with removed_if_refused(files):
            self._publish(plan.operation(options, made, is_new=False), snapshot)

    def _replace(self, snapshot: Snapshot, edit: Replace) -> None:
        entry = edit.entry
        values = {
            "object_id": lit(entry.object_id),
            "location": lit(entry.location),
            "metadata": lit(metadata_text(entry.properties)),
        }
        context = Dataset(snapshot).context
        change = UpdatedRows(context, values, col("object_id") == lit(edit.object_id), time_now())
        options = WriteRequest("append")
        plan = planned(Dataset(snapshot).schema, self._location, self._session, snapshot, options)
        files = plan.new_files(self._location, self._session, options)
        made = files.write(change.batches(), WriteProgress(None))
        with removed_if_refused(files):
            self._publish(change.operation(made), snapshot)

    def _publish(self, operation: Operation, snapshot: Snapshot) -> None:
        commit_operation(operation, self._location, self._session, snapshot, _request())

    def _merge_fragments(self, view: View) -> None:
        """Merge small fragments, unless another writer does so or changes rows meanwhile."""
        if view.snapshot is not None and len(view.snapshot.fragments) >= _MOST_FRAGMENTS:
            with suppress(LanceError):
                newest = self.view().snapshot
                if newest is not None:
                    Dataset(newest).optimize.compact_files(num_threads=1)


def _request() -> CommitRequest:
    # Open connections of pylance follow versions one by one, so none is ever cleaned up.
    return CommitRequest(next_only=True, auto_cleanup=False, message=None)
