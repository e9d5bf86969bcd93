"""The doors for writing: ``write_dataset``, ``write_dask``, and ``write_fragments`` with ``commit`` for many writers.

Names and meanings follow pylance.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import pyarrow as pa

from lancecy.changes.commit import commit_operation
from lancecy.changes.dask_parts import collected, committed_later, is_dask, parts_of, schema_of_collection
from lancecy.changes.insert import write_files, write_table
from lancecy.changes.options import (
    WRITE_DEFAULTS,
    AccessOptions,
    CommitOptions,
    CommitRequest,
    FragmentOptions,
    Mode,
    WriteOptions,
    WriteRequest,
    commit_request,
    requests_of,
)
from lancecy.changes.shared import share
from lancecy.datasets import Dataset
from lancecy.errors import DatasetNotFoundError
from lancecy.keyword_options import shared_options
from lancecy.session import Session, default
from lancecy.table import flags
from lancecy.table.bases import canonical_base
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.operations import Operation
from lancecy.table.snapshot import Snapshot, load_snapshot, newest_snapshot
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.operations import BaseOperation, operation_of

__all__ = ["commit", "located", "opened_at", "write_dask", "write_dataset", "write_fragments"]

writing = shared_options(WriteOptions, WRITE_DEFAULTS)
writing_files = shared_options(FragmentOptions, WRITE_DEFAULTS)
committing = shared_options(CommitOptions, WRITE_DEFAULTS)


@writing
def write_dataset(
    data: Any,
    uri: str | os.PathLike[str] | Dataset,
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    **options: Unpack[WriteOptions],
) -> Dataset:
    """Write rows: a new table, more rows of a table, or other rows in their place.

    Parameters
    ----------
    data : object
        A table, batch, reader or dataset of pyarrow; anything with ``__arrow_c_stream__`` (Polars, DuckDB and Spark
        frames, lancecy datasets and scanners); a pandas frame; a mapping of names to arrays; a list of rows as
        dictionaries; or an iterable of batches or tables, read only as it is consumed. A Dask DataFrame goes through :func:`lancecy.write_dask`.
    uri : str, path or Dataset
        A Dataset brings its session and options along; it stays at its version.
    schema : pyarrow.Schema, optional
        What the columns are to be; they are cast to it, safely.
    mode : "create", "append" or "overwrite"
        "create" refuses to touch a table that is there. "append" wants columns of the same types, in any order, of
        which nullable ones may be missing. "overwrite" replaces schema and rows and keeps the history. Both make a
        new table where there is none.
    data_storage_version : "0.1", "2.0", "2.1" or "2.2", optional
        Of the data files. What the table has if not given, and "2.1" for a new one. "legacy" is another name of
        "0.1", whose files have no nulls but in text, and one dictionary per column for the whole table; a table's
        files are all of 0.1, or none is.
    enable_stable_row_ids : bool
        Of a new table: rows have ids that survive compaction.
    enable_v2_manifest_paths : bool
        Of a new table: names of manifests by which the newest is listed first. Others keep the names they have.
    initial_bases : sequence of DatasetBasePath, optional
        Of a new table: places besides its own folder.
    target_bases : sequence of str, optional
        Names or paths of the bases that data files go to, in turn; [] is the table's own folder. A write begins with
        the base that holds the fewest bytes of the table, so that many small writes fill all of them evenly.
    target_all_bases : bool, optional
        To all bases in turn, as ``target_bases``; True has the table's own folder among them, False leaves it out.
    max_rows_per_file, max_bytes_per_file : int
        When the next file is begun.
    max_rows_per_group : int
        Files of 0.1 only: rows of their pages. Statistics, of all types but lists and a few others, are per page.
    commit_message : str, optional
    transaction_properties : mapping of str to str, optional
        Kept with the version.
    durability : "fsync" or "none"
        On a local disk: whether files and their folders are on the disk before this returns, or the system may take
        its time. Without it a crash of the system can leave a version whose files are torn.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`.
    allowed_bases : sequence of str, optional
        As for :func:`lancecy.dataset`; bases named in ``initial_bases`` are allowed.
    session : Session, optional

    Returns
    -------
    Dataset
        At the version that was made.

    Raises
    ------
    ExistsError
        There is a table already.
    SchemaError
        Columns do not fit the table, or have nulls where there may be none.
    UnsupportedError
        A column, or the table, needs what this release does not write; the message names a version that can hold it.
    NotFoundError
        There is no such base.
    ConflictError
        Somebody else changed the table so that this cannot be added; if it is a ``RetryableConflictError``, write again.
    ContentionError
        Others were faster every time.
    CommitUnknownError
        The storage failed so that nobody can tell whether this happened. Its files stay: look before writing again.
    StoreError
        The storage failed.

    Notes
    -----
    Nothing is visible before everything is written. Whatever goes wrong leaves the table as it was and, but for
    ``CommitUnknownError`` and a process that dies, no data files behind; what a lost race leaves in ``_transactions``,
    and empty folders where a table was to be, are nobody's trouble.

    Examples
    --------
    >>> import lancecy, pyarrow as pa, tempfile
    >>> uri = tempfile.mkdtemp() + "/t.lance"
    >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, uri)
    >>> ds = lancecy.write_dataset(pa.table({"a": [4]}), ds, mode="append")
    >>> ds.to_table()["a"].to_pylist(), ds.version
    ([1, 2, 3, 4], 2)
    """
    written, commit_options = requests_of(mode, options)
    location, active = located(uri, options)
    snapshot = _newest(uri, location, active)
    if is_dask(data):
        made: Dataset = _write_dask(data, location, active, snapshot, written, commit_options, schema)
        return made
    committed, bases = write_table(data, schema, location, active, snapshot, written, commit_options)
    return opened_at(location, active, committed.version, bases)


@writing
def write_dask(
    data: Any,
    uri: str | os.PathLike[str] | Dataset,
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    index: bool | None = None,
    column: str | None = None,
    compute: bool = True,
    compute_kwargs: Mapping[str, Any] | None = None,
    token: str | None = None,
    embed_credentials: bool = False,
    **options: Unpack[WriteOptions],
) -> Any:
    """Write a Dask collection: the workers write data files, one commit makes all of them part of the table.

    Parameters
    ----------
    data : Dask DataFrame or Array
        Of any dtypes: NumPy's, Arrow's, and those of :func:`lancecy.scan`. Python objects are text, or what the
        table has there, unless ``schema`` says what they are. Of an array, rows are along its first axis: vectors,
        matrices and so on become fixed-size lists.
    uri, schema, mode
        As for :func:`lancecy.write_dataset`. ``schema`` has all columns; partitions are cast to it, safely.
    index : bool, optional
        Whether the index is written as a column; if not given, it is if it has a name.
    column : str, optional
        Name of the column that an array becomes.
    compute : bool
        False returns a ``dask.delayed.Delayed`` instead, which writes, commits and is the number of the version.
        However often it is computed, the rows are in the table once.
    compute_kwargs : mapping, optional
        For Dask's ``compute``, such as ``{"retries": 3}`` or ``{"scheduler": "processes"}``.
    token : str, optional
        Names the write: if one with this token was committed before, by another process even, its version is
        returned and nothing becomes of this one. To make jobs safe that may be started again.
    embed_credentials : bool
        Put the secrets in ``storage_options`` into the graph. By default only the other options are, and
        workers in other processes take credentials from their own environment.
    data_storage_version, enable_stable_row_ids, enable_v2_manifest_paths, initial_bases, target_bases, \
    target_all_bases, max_rows_per_file, max_bytes_per_file, max_rows_per_group, commit_message, transaction_properties, durability, \
    storage_options, allowed_bases, session
        As for :func:`lancecy.write_dataset`. A partition makes at least one file, if it has rows; files of the
        first partition begin with the least filled base, those of the second with the next, and so on.

    Returns
    -------
    Dataset or Delayed
        The table at the version that was made.

    Raises
    ------
    SchemaError
        As for :func:`lancecy.write_dataset`; or a partition does not fit, which the message names.
    LanceError, ValueError, TypeError
        As for :func:`lancecy.write_dataset`.

    Notes
    -----
    Only files of tasks whose results arrive are committed, so that tasks may be repeated, by ``retries``, by work
    stealing, or because a worker died: rows are in the table once. Files of attempts that nobody heard of stay
    behind, unseen by readers, until a cleanup. If a partition fails, nothing is committed, and its error has a note
    about what was removed.

    Examples
    --------
    >>> import dask.dataframe as dd, lancecy, pandas as pd, tempfile
    >>> ddf = dd.from_pandas(pd.DataFrame({"a": [1, 2, 3, 4]}), npartitions=2)
    >>> ds = lancecy.write_dask(ddf, tempfile.mkdtemp() + "/t.lance")
    >>> ds.count_rows(), ds.version, len(ds.get_fragments())
    (4, 1, 2)
    """
    written, commit_options = requests_of(mode, options)
    if not is_dask(data):
        raise TypeError(
            f"write_dask takes a Dask DataFrame or Array; write_dataset takes a {type(data).__name__}"
        )
    location, active = located(uri, options)
    return _write_dask(
        data,
        location,
        active,
        _newest(uri, location, active),
        written,
        replace(commit_options, token=token),
        schema,
        index,
        column,
        compute,
        compute_kwargs,
        embed_credentials,
    )


def _write_dask(
    data: Any,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    written: WriteRequest,
    commit_options: CommitRequest,
    schema: pa.Schema | None,
    index: bool | None = None,
    column: str | None = None,
    compute: bool = True,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
) -> Any:
    table = snapshot if written.mode == "append" else None
    columns = schema_of_collection(data, table, schema, index, column)
    shared = share(
        columns, location, session, snapshot, written, commit_options, embed_credentials=embed_credentials
    )
    parts = parts_of(data, shared, columns, index)
    if not compute:
        return committed_later(parts, shared)
    committed = shared.commit(collected(parts, shared, compute_kwargs or {}))
    return opened_at(location, session, committed.version, shared.plan.bases)


@writing_files
def write_fragments(
    data: Any,
    uri: str | os.PathLike[str] | Dataset,
    schema: pa.Schema | None = None,
    *,
    mode: Mode = "append",
    writer_number: int = 0,
    **options: Unpack[FragmentOptions],
) -> list[FragmentMetadata]:
    """Write rows to data files that are no part of the table yet; :func:`lancecy.commit` makes them so.

    Each of many writers calls this; one of them, or somebody else, commits what all of them made at once.

    Parameters
    ----------
    data, uri, schema
        As for :func:`lancecy.write_dataset`.
    mode : "append", "create" or "overwrite"
        What the fragments are for: ``LanceOperation.Append``, or an ``Overwrite``, whose columns are numbered anew.
    data_storage_version : str, optional
        New columns with dictionaries cannot be written to files of 0.1 here, as these share what nobody knows yet.
    initial_bases, target_bases, target_all_bases
        As for :func:`lancecy.write_dataset`; pass the same ``initial_bases`` to ``LanceOperation.Overwrite``.
    writer_number : int
        Of many writers for one commit, who all see the same table: number 0 begins with the least filled base, 1 with
        the next, and so on. Give each its own, or all begin with the same base.
    max_rows_per_file, max_bytes_per_file, max_rows_per_group : int
        As for :func:`lancecy.write_dataset`.
    durability : "fsync" or "none"
    storage_options, allowed_bases, session
        As for :func:`lancecy.write_dataset`.

    Returns
    -------
    list of FragmentMetadata
        To be pickled, or sent as JSON.

    Raises
    ------
    LanceError
        As for :func:`lancecy.write_dataset`; no file is left behind.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.dataset("example.lance")
    >>> new = lancecy.write_fragments(ds.head(2), "new.lance", mode="create")
    >>> made = lancecy.commit("new.lance", lancecy.LanceOperation.Overwrite(ds.schema, new))
    >>> made.count_rows()
    2
    """
    written, _ = requests_of(mode, options)
    location, active = located(uri, options)
    snapshot = _newest(uri, location, active)
    return list(write_files(data, schema, location, active, snapshot, written, writer_number))


@committing
def commit(
    uri: str | os.PathLike[str] | Dataset,
    operation: BaseOperation,
    read_version: int | None = None,
    *,
    token: str | None = None,
    max_retries: int = 20,
    **options: Unpack[CommitOptions],
) -> Dataset:
    """Make a change that others prepared the next version of a table.

    Parameters
    ----------
    uri : str, path or Dataset
    operation : one of ``lancecy.LanceOperation``
    read_version : int, optional
        The version the change was made from; what happened since is looked at. That of a Dataset, and otherwise
        needed unless the operation is ``Overwrite``, ``Restore`` or ``UpdateBases``.
    commit_message : str, optional
    transaction_properties : mapping of str to str, optional
        Kept with the version.
    token : str, optional
        Names the change: however often a change with this token is committed, it happens once, and later calls
        return the version it became.
    max_retries : int
        How often another writer may be faster.
    enable_stable_row_ids, enable_v2_manifest_paths : bool
        Of a new table, as for :func:`lancecy.write_dataset`.
    durability : "fsync" or "none"
    storage_options, allowed_bases, session
        As for :func:`lancecy.write_dataset`.

    Returns
    -------
    Dataset
        At the version that was made.

    Raises
    ------
    ValueError
        ``read_version`` is missing.
    DatasetNotFoundError
        There is no table, and the operation does not make one.
    RetryableConflictError
        Somebody changed what this is about: prepare it anew from the newest version.
    ConflictError
        It cannot happen any more.
    ContentionError
        Others were faster every time.
    CommitUnknownError
        Nobody can tell whether it happened: look before trying again, and delete nothing.
    SchemaError, UnsupportedError, CommitError
        The change does not fit the table, or one of its files is missing.

    Notes
    -----
    Data files are never removed here, whatever happens.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, tempfile.mkdtemp() + "/t.lance")
    >>> new = [part for rows in ({"a": [4]}, {"a": [5]}) for part in lancecy.write_fragments(rows, ds)]
    >>> lancecy.commit(ds, lancecy.LanceOperation.Append(new)).count_rows()
    5
    """
    location, active = located(uri, options)
    if isinstance(uri, Dataset) and read_version is None:
        snapshot: Snapshot | None = uri._snapshot
    else:
        snapshot = newest_snapshot(location, active)
    known = None if snapshot is None else snapshot.manifest.base_paths
    change = operation_of(operation, known, options.get("enable_stable_row_ids", False))
    _check_commit(location, snapshot, change, read_version, given=isinstance(uri, Dataset))
    bases = change.references().bases
    request = commit_request(options, max_retries, token)
    allowed = location.allowing(map(canonical_base, bases))
    committed = commit_operation(change, allowed, active, snapshot, request, read_version=read_version)
    return opened_at(location, active, committed.version, bases)


def _check_commit(
    location: TableLocation,
    snapshot: Snapshot | None,
    change: Operation,
    read_version: int | None,
    given: bool,
) -> None:
    if snapshot is None:
        if not change.makes_tables:
            raise DatasetNotFoundError(f"there is no table at {location.uri}", kind="dataset")
        return
    if read_version is None and not given and change.needs_read_version:
        raise ValueError("read_version is needed: what happened since then has to be looked at")
    flags.check_writable(snapshot.manifest.reader_flags, snapshot.manifest.writer_flags)


def located(uri: str | os.PathLike[str] | Dataset, options: AccessOptions) -> tuple[TableLocation, Session]:
    """Where a user's table is, and the session to reach it with.

    Parameters
    ----------
    uri : str, path or Dataset
    options : AccessOptions

    Raises
    ------
    ValueError
        Options are given beside a Dataset, which has its own.
    """
    storage_options, allowed_bases = options.get("storage_options"), options.get("allowed_bases")
    session = options.get("session")
    if not isinstance(uri, Dataset):
        active = session or default()
        location = TableLocation.of(os.fspath(uri), storage_options, False, allowed_bases, active.limits)
        return location, active
    if any(value is not None for value in (storage_options, allowed_bases, session)):
        raise ValueError("a Dataset is open already: give its options to lancecy.dataset instead")
    return uri.location, uri.session()


def _newest(
    uri: str | os.PathLike[str] | Dataset, location: TableLocation, session: Session
) -> Snapshot | None:
    return uri._newest() if isinstance(uri, Dataset) else newest_snapshot(location, session)


def opened_at(
    location: TableLocation, session: Session, version: int, bases: Sequence[BasePath] = ()
) -> Dataset:
    """The table at the version that was made, allowed to read the bases its maker named.

    Parameters
    ----------
    location : TableLocation
    session : Session
    version : int
    bases : sequence of BasePath
    """
    allowed = location.allowing(map(canonical_base, bases))
    return Dataset(load_snapshot(allowed, version, session=session))
