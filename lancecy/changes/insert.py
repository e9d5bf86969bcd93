"""Creates, appends to and overwrites tables: checks first, then data files, then one commit.

Invalid writes are refused before a byte is written. The data files of a failed write are removed, unless it is
unknown whether the write became a version.

Facts: table sheet, sections 3.2, 4.3 and 7.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import pyarrow as pa

from lancecy.changes.base import Change
from lancecy.changes.commit import commit_operation
from lancecy.changes.options import (
    UNSUPPORTED_WRITES,
    WRITE_DEFAULTS,
    CommitRequest,
    InsertOptions,
    Mode,
    WriteRequest,
    requests_of,
    with_durability,
)
from lancecy.changes.planning import Plan, planned, target_schema
from lancecy.changes.zone_maps import WrittenZones, commit_zone_maps
from lancecy.errors import CommitUnknownError, LanceError, RetryableConflictError
from lancecy.interop.streams import cast_reader, lasting, record_batches
from lancecy.keyword_options import shared_options
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.bases import canonical_base
from lancecy.table.commit.driver import check_create
from lancecy.table.commit.options import Committed
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.operations import Operation
from lancecy.table.snapshot import Snapshot, newest_snapshot
from lancecy.write.fragments import NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteProgress, known_rows

__all__ = ["Inserts", "removed_if_refused", "write_files", "write_table"]

# Attempts of an append, each from a newer version.
_RETRIES = 10

inserting = shared_options(InsertOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES)


def write_files(
    data: object,
    schema: pa.Schema | None,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
    number: int = 0,
) -> tuple[FragmentMetadata, ...]:
    """Write rows to data files that no version names.

    Parameters
    ----------
    data : object
        See ``interop.streams.record_batches``.
    schema : pyarrow.Schema, optional
        Requested columns.
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        A version of the table; None for a new table.
    options : WriteRequest
    number : int
        Number of this writer, see ``Plan.new_files``.

    Raises
    ------
    SchemaError, UnsupportedError, NotFoundError, ConflictError, PathPolicyError, ValueError, TypeError
        The rows, the table, the bases and the options do not fit together.
    StoreError
        The storage failed.
    """
    return _uncommitted(data, schema, location, session, snapshot, options, number)[1]


def write_uncommitted(
    data: object,
    schema: pa.Schema | None,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
    number: int = 0,
) -> Operation:
    """Write rows to data files that no version names, as the operation that adds them to the table.

    Parameters
    ----------
    data, schema, location, session, snapshot, options, number
        As for :func:`write_files`.

    Raises
    ------
    LanceError, ValueError, TypeError
        As for :func:`write_files`.
    """
    plan, fragments = _uncommitted(data, schema, location, session, snapshot, options, number)
    return plan.operation(options, fragments, is_new=snapshot is None)


def _uncommitted(
    data: object,
    schema: pa.Schema | None,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
    number: int,
) -> tuple[Plan, tuple[FragmentMetadata, ...]]:
    reader = _rows(data, schema, snapshot, options)
    plan = planned(reader.schema, location, session, snapshot, options)
    plan.check_apart(snapshot is None or options.mode == "overwrite")
    report = WriteProgress(options.progress, known_rows(data))
    files = plan.new_files(location, session, options, number=number)
    return plan, files.write(lasting(reader, data), report)


def write_table(
    data: object,
    schema: pa.Schema | None,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
    commit: CommitRequest,
    zones: WrittenZones | None = None,
) -> tuple[Committed, tuple[BasePath, ...]]:
    """Write rows and commit them to a table, or to a new one.

    Parameters
    ----------
    data, schema, location, session, snapshot, options
        As for :func:`write_files`.
    commit : CommitRequest
    zones : WrittenZones, optional
        Sees the rows that are written, and tells the progress.

    Returns
    -------
    (Committed, tuple of BasePath)
        The version, and the bases it registered.

    Raises
    ------
    ExistsError
        The table already exists; another writer may have just created it.
    CommitUnknownError
        It is unknown whether the commit happened; the data files stay.
    LanceError, ValueError, TypeError
        As for :func:`write_files`, and ``table.commit.commit``; no file is left behind.
    """
    reader = _rows(data, schema, snapshot, options)
    plan = planned(reader.schema, location, session, snapshot, options)
    report = zones or WriteProgress(options.progress, known_rows(data))
    store = with_durability(location.open(session), options.durable)
    with _folders_removed_on_error(store, ("_transactions", "_versions") if snapshot is None else ()):
        check_create(store)
        files = plan.new_files(location, session, options)
        if not store.traits.is_mapped:
            commit = replace(commit, written_ns=time.time_ns())
        rows = lasting(reader, data)
        fragments = files.write(rows if zones is None else zones.watched(rows), report)
        allowed = location.allowing(map(canonical_base, plan.bases))
        with removed_if_refused(files):
            operation = plan.operation(options, fragments, is_new=snapshot is None)
            is_append = snapshot is not None and options.mode == "append"
            fits = partial(_fits, plan, reader.schema, options) if is_append else None
            return _committed(operation, allowed, session, snapshot, commit, fits), plan.bases


def _committed(
    operation: Operation,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    commit: CommitRequest,
    fits: Callable[[Snapshot], bool] | None,
) -> Committed:
    """Commit rows that were written; an append is tried again from a newer version that it ``fits`` as well.

    A cleanup may have removed versions during a long write. Rows of an append depend on none of them, only on columns.
    """
    for _ in range(_RETRIES):
        try:
            return commit_operation(operation, location, session, snapshot, commit)
        except RetryableConflictError:
            newest = newest_snapshot(location, session)
            if fits is None or newest is None or not fits(newest):
                raise
            snapshot = newest
            commit = replace(commit, written_ns=None)
    return commit_operation(operation, location, session, snapshot, commit)


def _fits(plan: Plan, columns: pa.Schema, options: WriteRequest, newest: Snapshot) -> bool:
    """Whether files written by a plan are those that the newest version would get."""
    try:
        now = planned(columns, newest.location, newest.session, newest, options)
    except (LanceError, ValueError):
        return False
    is_same = (now.written, now.version) == (plan.written, plan.version)
    known = [
        now.base_paths.get(number) == plan.base_paths.get(number)
        for number in plan.targets
        if number is not None
    ]
    return is_same and all(known) and plan.dictionaries is None


def _rows(
    data: object, schema: pa.Schema | None, snapshot: Snapshot | None, options: WriteRequest
) -> pa.RecordBatchReader:
    """The rows as a stream, of the types to be written."""
    reader = record_batches(data, schema)
    target = target_schema(reader.schema, snapshot, options)
    return reader if target.equals(reader.schema) else cast_reader(reader, target)


@contextmanager
def _folders_removed_on_error(store: Store, folders: Sequence[str]) -> Any:
    """After an error, remove the folders that the write created, if they are empty."""
    if not isinstance(store, LocalStore):
        yield
        return
    missing = [store.missing_folders(f"{folder}/file") for folder in folders]
    try:
        yield
    except BaseException:
        for found in missing:
            store.remove_folders(found)
        raise


@contextmanager
def removed_if_refused(files: NewFiles) -> Any:
    """After an error of the commit, remove the data files, unless a version may name them.

    Parameters
    ----------
    files : NewFiles
    """
    try:
        yield
    except CommitUnknownError:
        raise
    except LanceError as error:
        # Certainly no version names the files. After another error, such as an interrupt, one may.
        raise error.within(files.remove())


class Inserts(Change):
    """The dataset methods that insert rows."""

    @inserting
    def insert(
        self,
        data: Any,
        *,
        mode: Mode = "append",
        schema: pa.Schema | None = None,
        zonemaps: bool | Sequence[str] = False,
        **options: Unpack[InsertOptions],
    ) -> None:
        """Write rows into the table.

        Parameters
        ----------
        data : object
            See :func:`lancecy.write_dataset`.
        mode : "append" or "overwrite"
        schema : pyarrow.Schema, optional
            Requested columns.
        zonemaps : bool or sequence of str
            Make zone maps of all columns, or of these, while the rows are written.
        data_storage_version, initial_bases, target_bases, target_all_bases, max_rows_per_file, max_bytes_per_file, \
        max_rows_per_group, cast, external_blob_mode, allow_external_blob_outside_bases, durability, progress, enable_stable_row_ids, enable_v2_manifest_paths, commit_message, transaction_properties, auto_cleanup_options, skip_auto_cleanup
            As for :func:`lancecy.write_dataset`.

        Raises
        ------
        LanceError
            See :func:`lancecy.write_dataset`.
        """
        written, commit = requests_of(mode, options)
        snapshot = self._target() if mode != "create" else self._snapshot
        location, session = self._snapshot.location, self._snapshot.session
        zones = WrittenZones.of(zonemaps, written.progress, data)
        committed, bases = write_table(data, schema, location, session, snapshot, written, commit, zones)
        self._move(committed.version, bases, committed.written)
        if zones is not None:
            commit_zone_maps(self, [zones.part], commit)

    @inserting
    def append(
        self,
        data: Any,
        *,
        schema: pa.Schema | None = None,
        zonemaps: bool | Sequence[str] = False,
        **options: Unpack[InsertOptions],
    ) -> None:
        """Add rows; other arguments as for :meth:`insert`.

        Parameters
        ----------
        data : object
        schema : pyarrow.Schema, optional
        zonemaps : bool or sequence of str
        """
        self.insert(data, mode="append", schema=schema, zonemaps=zonemaps, **options)
