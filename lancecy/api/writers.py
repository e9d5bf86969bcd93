"""Write functions: ``write_dataset``, ``write_dask``, and ``write_fragments`` with ``commit`` for distributed writers.

Names and meanings follow pylance.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, Unpack, cast, overload

import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.api.named_tables import NAMESPACE_ALIASES, with_place
from lancecy.changes.commits import commit_prepared, located
from lancecy.changes.dask_parts import collected, committed_later, is_dask, parts_of, schema_of_collection
from lancecy.changes.insert import write_files, write_table, write_uncommitted
from lancecy.changes.options import (
    UNSUPPORTED_WRITES,
    WRITE_DEFAULTS,
    CommitOptions,
    CommitRequest,
    FragmentOptions,
    Mode,
    WriteOptions,
    WriteRequest,
    requests_of,
)
from lancecy.changes.planning import target_schema
from lancecy.changes.shared import SharedWrite, share
from lancecy.changes.transactions import Transaction
from lancecy.changes.zone_maps import PartZones, WrittenZones, commit_zone_maps
from lancecy.errors import UnsupportedError
from lancecy.keyword_options import shared_options
from lancecy.session import Session
from lancecy.table.bases import canonical_base
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.snapshot import Snapshot, committed_snapshot, newest_snapshot
from lancecy.table.versions import ManifestLocation
from lancecy.table.wire.manifest import Written
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.operations import BaseOperation, view_of

__all__ = ["commit", "committed_parts", "opened_at", "write_dask", "write_dataset", "write_fragments"]

writing = shared_options(WriteOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES, NAMESPACE_ALIASES)
writing_rows = shared_options(
    WriteOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES, aliases={"data": "data_obj", **NAMESPACE_ALIASES}
)
writing_files = shared_options(
    FragmentOptions,
    WRITE_DEFAULTS,
    {**UNSUPPORTED_WRITES, "enable_stable_row_ids": "give it to the commit that makes the table"},
    aliases={"dataset_uri": "uri"},
)
committing = shared_options(CommitOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES)


@writing_rows
def write_dataset(
    data_obj: Any,
    uri: str | os.PathLike[str] | Dataset | None = None,
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    namespace: Any = None,
    table_id: Sequence[str] | None = None,
    zonemaps: bool | Sequence[str] = False,
    **options: Unpack[WriteOptions],
) -> Dataset:
    """Write rows: create a table, append to it, or overwrite it.

    Parameters
    ----------
    data_obj : object
        A table, batch, reader or dataset of pyarrow; anything with ``__arrow_c_stream__`` (Polars and DuckDB
        frames, lancecy datasets and scanners); a pandas or Spark frame; a mapping of names to arrays, whose further dimensions
        become fixed-size lists; a list or generator of rows as dictionaries; a list of Pydantic models; or an iterable
        of batches, tables or frames. Generators are consumed lazily; the first rows decide the columns and their types, unless ``schema``
        does. A Dask DataFrame is written by :func:`lancecy.write_dask`.
    uri : str, path or Dataset, optional
        A Dataset supplies its session and options, and stays at its version.
    schema : pyarrow.Schema, optional
        Requested columns; the data is cast to them. A value that does not fit is an error, with its column and row.
    mode : "create", "append" or "overwrite"
        "create" refuses an existing table. "append" requires columns of the same types, in any order; nullable columns
        may be missing. "overwrite" replaces schema and rows and keeps the history. The last two create a missing table.
    zonemaps : bool or sequence of str
        Make zone maps of all columns that have an order, or of these, while the rows are written: filters then leave out
        rows of the new fragments by them (:meth:`Dataset.create_zonemaps`). They are committed directly after the rows; if
        that fails, a warning says so.
    data_storage_version : "0.1", "2.0", "2.1" or "2.2", optional
        Version of the data files; by default the table's, and "2.1" for a new table. "legacy" is an alias of "0.1".
        Files of 0.1 have nulls only in text, and one dictionary per column for the whole table; a table cannot mix
        them with others.
    enable_stable_row_ids : bool
        New tables only: rows have ids that survive compaction.
    enable_v2_manifest_paths : bool
        New tables only: use manifest names that list the newest first. Existing tables keep their naming scheme.
    initial_bases : sequence of DatasetBasePath, optional
        New tables only: base paths besides the table's own folder.
    target_bases : sequence of str, optional
        Names or paths of the bases that receive data files in turn; the path of the table itself is its own folder, and
        so is []. A write begins with the base that holds the fewest bytes of the table, so that many small writes fill
        all bases evenly.
    target_all_bases : bool, optional
        Write to all bases in turn; True includes the table's own folder, False excludes it. Bases that are other tables,
        such as the source of a shallow clone, are left out: only ``target_bases`` writes to them.
    max_rows_per_file, max_bytes_per_file : int
        Limits at which the next file begins.
    max_rows_per_group : int
        Files of 0.1 only: rows per page. Statistics, of all types but lists and a few others, are per page.
    cast : bool
        When appending: cast columns to the types of the table. A value that does not fit is an error, as with ``schema``.
    external_blob_mode : "reference" or "ingest"
        What becomes of blobs given by URI (:func:`lancecy.blob_array`): "reference" stores where the object is, which is
        not looked for; "ingest" reads its bytes now and stores them as those of other blobs.
    allow_external_blob_outside_bases : bool
        Let blobs refer to objects that are in none of the table's bases, by their absolute URI.
    commit_message : str, optional
    transaction_properties : mapping of str to str, optional
        Recorded in the version.
    auto_cleanup_options : mapping, optional
        New tables only: clean up automatically after commits, as pylance's ``AutoCleanupConfig``. ``interval`` is the
        number of versions between two cleanups (20), ``older_than_seconds`` the minimum age of a version that is removed
        (two weeks). They become keys of the table's configuration.
    skip_auto_cleanup : bool
        Do not clean up after this commit, though the table's configuration asks for it.
    durability : "fsync" or "none"
        On a local disk: whether files and their folders are synced to disk before this returns. With "none", a
        system crash can leave a version with torn files.
    progress : function of a :class:`lancecy.progress.Step`, or object with ``begin`` and ``complete``, optional
        The function is called with the rows written so far. The methods are called with the fragment of each data
        file, as pylance's ``FragmentWriteProgress``.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`.
    allowed_bases : sequence of str, optional
        As for :func:`lancecy.dataset`; bases named in ``initial_bases`` are allowed.
    session : Session, optional
    commit_lock : function, optional
        As for :func:`lancecy.dataset`. The dataset that is returned commits under it too.
    namespace, table_id : optional
        As for :func:`lancecy.dataset`. A missing table is declared in the namespace first.

    Returns
    -------
    Dataset
        At the new version.

    Raises
    ------
    ExistsError
        The table already exists.
    SchemaError
        Columns do not fit the table, or non-nullable columns have nulls.
    UnsupportedError
        This release cannot write the column or the table; the message names a version that can hold it.
    NotFoundError
        There is no such base.
    ConflictError
        Another writer made a conflicting change; after a ``RetryableConflictError``, write again.
    ContentionError
        Every race for the next version was lost.
    CommitUnknownError
        The storage failed, and it is unknown whether the commit happened. Its files stay: check before writing again.
    StoreError
        The storage failed.

    Notes
    -----
    Readers see nothing before everything is written. A failure leaves the table unchanged and removes its data files,
    except after ``CommitUnknownError`` or the death of the process. A transaction file in ``_transactions`` and empty
    folders may remain; they are harmless.

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
    place, options = _placed(uri, namespace, table_id, options, mode)
    location, active = located(place, options)
    snapshot = _newest(place, location, active)
    if is_dask(data_obj):
        _check_no_progress(written)
        made: Dataset = _write_dask(
            data_obj, location, active, snapshot, written, commit_options, schema, zonemaps=zonemaps
        )
        return made
    zones = WrittenZones.of(zonemaps, written.progress, data_obj)
    committed, bases = write_table(
        data_obj, schema, location, active, snapshot, written, commit_options, zones
    )
    ds = opened_at(location, active, committed.version, bases, committed.written)
    if zones is not None:
        commit_zone_maps(ds, [zones.part], commit_options)
    return ds


@writing
def write_dask(
    data: Any,
    uri: str | os.PathLike[str] | Dataset | None = None,
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    namespace: Any = None,
    table_id: Sequence[str] | None = None,
    index: bool | None = None,
    column: str | None = None,
    compute: bool = True,
    compute_kwargs: Mapping[str, Any] | None = None,
    token: str | None = None,
    embed_credentials: bool = False,
    zonemaps: bool | Sequence[str] = False,
    **options: Unpack[WriteOptions],
) -> Any:
    """Write a Dask collection: workers write the data files, and one commit adds them to the table.

    Parameters
    ----------
    data : Dask DataFrame or Array
        Any dtypes: NumPy's, Arrow's, and those of :func:`lancecy.scan`. Python objects are taken as text, or as the
        table's type, unless ``schema`` gives their type. The rows of an array are along its first axis: vectors,
        matrices and so on become fixed-size lists.
    uri, schema, mode, namespace, table_id
        As for :func:`lancecy.write_dataset`. ``schema`` must have all columns; partitions are cast to it, safely.
    index : bool, optional
        Whether to write the index as a column; by default, if it has a name.
    column : str, optional
        Name of the column that an array becomes.
    compute : bool
        False returns a ``dask.delayed.Delayed``, which writes, commits and returns the version number. Computing it
        again does not add the rows again.
    compute_kwargs : mapping, optional
        Arguments of Dask's ``compute``, such as ``{"retries": 3}`` or ``{"scheduler": "processes"}``.
    token : str, optional
        Identifies the write, so that a job can be restarted safely: if a write with this token was committed before,
        also by another process, this one returns that version and commits nothing.
    progress : None
        Not supported: the workers write. Dask has its own progress bar.
    embed_credentials : bool
        Put the secrets in ``storage_options`` into the graph. By default the graph has only the other options, and
        workers in other processes take credentials from their own environment.
    zonemaps : bool or sequence of str
        As for :func:`lancecy.write_dataset`: the workers make them of the rows they write. Not with ``compute=False``.
    data_storage_version, enable_stable_row_ids, enable_v2_manifest_paths, initial_bases, target_bases, \
    target_all_bases, max_rows_per_file, max_bytes_per_file, max_rows_per_group, cast, external_blob_mode, allow_external_blob_outside_bases, commit_message, transaction_properties, auto_cleanup_options, \
    skip_auto_cleanup, durability, storage_options, allowed_bases, session, commit_lock
        As for :func:`lancecy.write_dataset`. A partition with rows makes at least one file; files of the
        first partition begin with the least filled base, those of the second with the next, and so on.

    Returns
    -------
    Dataset or Delayed
        The table at the new version.

    Raises
    ------
    SchemaError
        As for :func:`lancecy.write_dataset`; or a partition does not fit, and the message names it.
    LanceError, ValueError, TypeError
        As for :func:`lancecy.write_dataset`.

    Notes
    -----
    Only files of tasks whose results arrive are committed, so tasks may be repeated by ``retries``, by work stealing,
    or after a worker died, and rows are in the table once. Files of lost attempts remain, invisible to readers, until
    a cleanup. If a partition fails, nothing is committed, and a note of its error says what was removed.

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
    _check_no_progress(written)
    if zonemaps and not compute:
        raise UnsupportedError(
            "zonemaps= is not for compute=False: call create_zonemaps() of the table once it is computed",
            feature="zone maps of a delayed write",
        )
    place, options = _placed(uri, namespace, table_id, options, mode)
    location, active = located(place, options)
    return _write_dask(
        data,
        location,
        active,
        _newest(place, location, active),
        written,
        replace(commit_options, token=token),
        schema,
        index,
        column,
        compute,
        compute_kwargs,
        embed_credentials,
        zonemaps,
    )


def _check_no_progress(written: WriteRequest) -> None:
    if written.progress is not None:
        raise ValueError(
            "progress is called by the process that writes, and a Dask collection is written by its workers: "
            "use dask.diagnostics.ProgressBar or the dashboard"
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
    zonemaps: bool | Sequence[str] = False,
) -> Any:
    table = snapshot if written.mode == "append" else None
    columns = schema_of_collection(data, table, schema, index, column)
    columns = target_schema(columns, snapshot, written)
    shared = share(
        columns,
        location,
        session,
        snapshot,
        written,
        commit_options,
        embed_credentials=embed_credentials,
        is_awaited=compute,
        zonemaps=zonemaps,
    )
    parts = parts_of(data, shared, columns, index)
    if not compute:
        return committed_later(parts, shared)
    return committed_parts(shared, collected(parts, shared, compute_kwargs or {}, data), location, session)


@overload
def write_fragments(
    data: Any,
    uri: str | os.PathLike[str] | Dataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[False] = False,
    mode: Mode = "append",
    writer_number: int = 0,
    **options: Unpack[FragmentOptions],
) -> list[FragmentMetadata]: ...


@overload
def write_fragments(
    data: Any,
    uri: str | os.PathLike[str] | Dataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[True],
    mode: Mode = "append",
    writer_number: int = 0,
    **options: Unpack[FragmentOptions],
) -> Transaction: ...


@writing_files
def write_fragments(
    data: Any,
    uri: str | os.PathLike[str] | Dataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: Mode = "append",
    writer_number: int = 0,
    **options: Unpack[FragmentOptions],
) -> list[FragmentMetadata] | Transaction:
    """Write rows to data files without committing them; :func:`lancecy.commit` adds them to the table.

    Each distributed writer calls this, and one process commits the fragments of all of them at once.

    Parameters
    ----------
    data, uri, schema
        As for :func:`lancecy.write_dataset`.
    return_transaction : bool
        Return the transaction that adds the fragments to the table, or makes it.
    mode : "append", "create" or "overwrite"
        Purpose of the fragments: ``LanceOperation.Append``, or an ``Overwrite``, whose columns get new ids.
    data_storage_version : str, optional
        New dictionary columns cannot be written to files of 0.1 here, because such files must share their dictionaries.
    initial_bases, target_bases, target_all_bases
        As for :func:`lancecy.write_dataset`; pass the same ``initial_bases`` to ``LanceOperation.Overwrite``.
    writer_number : int
        Number of this writer among the writers of one commit: 0 begins with the least filled base, 1 with the next, and
        so on. Writers with the same number begin with the same base. All must see the same version.
    max_rows_per_file, max_bytes_per_file, max_rows_per_group : int
    cast : bool
    external_blob_mode : "reference" or "ingest"
    allow_external_blob_outside_bases : bool
        As for :func:`lancecy.write_dataset`.
    durability : "fsync" or "none"
    progress, storage_options, allowed_bases, session
        As for :func:`lancecy.write_dataset`.

    Returns
    -------
    list of FragmentMetadata, or Transaction
        Can be pickled; fragments can be sent as JSON.

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
    if not return_transaction:
        return list(write_files(data, schema, location, active, snapshot, written, writer_number))
    change = write_uncommitted(data, schema, location, active, snapshot, written, writer_number)
    read_version = 0 if snapshot is None else snapshot.version
    return Transaction(read_version, view_of(change, ()), str(uuid.uuid4()))


@committing
def commit(
    uri: str | os.PathLike[str] | Dataset,
    operation: BaseOperation | Transaction,
    read_version: int | None = None,
    *,
    detached: bool = False,
    token: str | None = None,
    max_retries: int = 20,
    commit_timeout: timedelta | None = None,
    **options: Unpack[CommitOptions],
) -> Dataset:
    """Commit a prepared change as the next version of a table.

    Parameters
    ----------
    uri : str, path or Dataset
    operation : one of ``lancecy.LanceOperation``, or lancecy.Transaction
        A transaction has its own read version, id and properties; committed twice, it makes one version.
    read_version : int, optional
        The version the change was made from; later versions are checked for conflicts. By default the version of a
        Dataset; required for a URI unless the operation is ``Overwrite``, ``Restore`` or ``UpdateBases``.
    detached : bool
        Make a version outside the history: the one the change was made from with the change, and nothing that others
        committed since. It has a random number, by which alone it is found (:meth:`Dataset.checkout_version`), is never
        the newest, and stays until its manifest is removed by hand. Another detached version may follow it, and
        ``restore`` makes it the newest version of the table.
    commit_message : str, optional
    transaction_properties : mapping of str to str, optional
        Recorded in the version.
    skip_auto_cleanup : bool
        As for :func:`lancecy.write_dataset`.
    token : str, optional
        Identifies the change: a change with this token is committed once, and later calls return the version it
        became.
    max_retries : int
        Maximum number of lost races for the next version.
    commit_timeout : timedelta, optional
        After this, no race is tried again. By default ``max_retries`` alone limits them.
    enable_stable_row_ids, enable_v2_manifest_paths : bool
        New tables only, as for :func:`lancecy.write_dataset`.
    durability : "fsync" or "none"
    storage_options, allowed_bases, session, commit_lock
        As for :func:`lancecy.write_dataset`.

    Returns
    -------
    Dataset
        At the new version.

    Raises
    ------
    ValueError
        ``read_version`` is missing; a message, properties or a token are given beside a transaction.
    DatasetNotFoundError
        There is no table, and the operation does not create one.
    RetryableConflictError
        Another writer changed the same data: prepare the change again from the newest version.
    ConflictError
        A later version excludes the change.
    ContentionError
        Every race for the next version was lost, or the time was up.
    CommitUnknownError
        It is unknown whether the commit happened: check before trying again, and delete nothing.
    SchemaError, UnsupportedError, CommitError
        The change does not fit the table, or one of its files is missing; or it was made from a detached version, or a
        table cannot have such versions: its manifests have names of V1, or it is only to be created.

    Notes
    -----
    This function never removes data files.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, tempfile.mkdtemp() + "/t.lance")
    >>> new = [part for rows in ({"a": [4]}, {"a": [5]}) for part in lancecy.write_fragments(rows, ds)]
    >>> lancecy.commit(ds, lancecy.LanceOperation.Append(new)).count_rows()
    5
    """
    return Dataset(
        commit_prepared(
            uri,
            operation,
            read_version,
            detached=detached,
            token=token,
            max_retries=max_retries,
            commit_timeout=commit_timeout,
            **options,
        )
    )


def _placed(
    uri: str | os.PathLike[str] | Dataset | None,
    namespace: Any,
    table_id: Sequence[str] | None,
    options: WriteOptions,
    mode: Mode,
) -> tuple[str | os.PathLike[str] | Dataset, WriteOptions]:
    place, given = with_place(uri, namespace, table_id, options, mode)
    return place, cast(WriteOptions, given)


def _newest(
    uri: str | os.PathLike[str] | Dataset, location: TableLocation, session: Session
) -> Snapshot | None:
    return uri._target() if isinstance(uri, Dataset) else newest_snapshot(location, session)


def committed_parts(
    shared: SharedWrite,
    parts: tuple[Sequence[FragmentMetadata], Sequence[PartZones]],
    location: TableLocation,
    session: Session,
) -> Dataset:
    """Commit what workers wrote; return the new version.

    Parameters
    ----------
    shared : SharedWrite
    parts : (sequence of FragmentMetadata, sequence of PartZones)
        From ``told_parts``, in the order of the parts.
    location : TableLocation
        With the credentials of this process.
    session : Session

    Raises
    ------
    LanceError
        See :func:`lancecy.commit`.
    """
    fragments, zones = parts
    committed = shared.commit(fragments)
    ds = opened_at(location, session, committed.version, shared.plan.bases)
    if zones:
        commit_zone_maps(ds, zones, shared.commit_options)
    return ds


def opened_at(
    location: TableLocation,
    session: Session,
    version: int,
    bases: Sequence[BasePath] = (),
    written: tuple[ManifestLocation, Written] | None = None,
) -> Dataset:
    """The table at a new version, allowed to read the bases that the write named.

    Parameters
    ----------
    location : TableLocation
    session : Session
    version : int
    bases : sequence of BasePath
    written : (ManifestLocation, Written), optional
        Its manifest file, if this process wrote it.
    """
    allowed = location.allowing(map(canonical_base, bases))
    return Dataset(committed_snapshot(allowed, version, session, written))
