"""Creating, appending and overwriting: checks first, then data files, then one commit.

What can be refused is refused before a byte is written. Data files of a write that did not become a
version are removed, unless nobody can tell whether it did.

Facts: table sheet, sections 3.2, 4.3 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa

from lancecy.changes.options import CommitOptions, WriteOptions, with_durability
from lancecy.changes.planning import planned
from lancecy.errors import CommitUnknownError, LanceError
from lancecy.interop.streams import lasting, record_batches
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.bases import canonical_base
from lancecy.table.commit_options import Committed, Origin, Policy
from lancecy.table.driver import check_create, commit_to
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.operations import Operation, new_transaction
from lancecy.table.snapshot import Snapshot
from lancecy.write.fragments import NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.targets import check_outside

__all__ = ["commit_from", "commit_operation", "write_files", "write_table"]


def write_files(
    data: object,
    schema: pa.Schema | None,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteOptions,
    number: int = 0,
) -> tuple[FragmentMetadata, ...]:
    """Write rows to data files that no version names.

    Parameters
    ----------
    data : object
        See ``interop.streams.record_batches``.
    schema : pyarrow.Schema, optional
        What the columns are to be.
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        Of the table they are for; None for a new one.
    options : WriteOptions
    number : int
        Of this writer, see ``Plan.new_files``.

    Raises
    ------
    SchemaError, UnsupportedError, NotFoundError, ConflictError, PathPolicyError, ValueError, TypeError
        The rows, the table, the bases and the options do not go together.
    StoreError
        The storage failed.
    """
    reader = record_batches(data, schema)
    plan = planned(reader.schema, location.uri, snapshot, options)
    plan.check_apart(snapshot is None or options.mode == "overwrite")
    return plan.new_files(location, session, options, number=number).write(lasting(reader, data))


def write_table(
    data: object,
    schema: pa.Schema | None,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteOptions,
    commit: CommitOptions,
) -> tuple[Committed, tuple[BasePath, ...]]:
    """Write rows and make them part of a table, or a table.

    Parameters
    ----------
    data, schema, location, session, snapshot, options
        As for :func:`write_files`.
    commit : CommitOptions

    Returns
    -------
    (Committed, tuple of BasePath)
        The version, and the bases it registered.

    Raises
    ------
    ExistsError
        There is a table already, or since a moment ago.
    CommitUnknownError
        Nobody can tell whether it happened; the data files stay.
    LanceError, ValueError, TypeError
        As for :func:`write_files`, and ``table.commit.commit``; no file is left behind.
    """
    reader = record_batches(data, schema)
    plan = planned(reader.schema, location.uri, snapshot, options)
    store = with_durability(location.open(session), options.durable)
    with _folders_removed_on_error(store, ("_transactions", "_versions") if snapshot is None else ()):
        check_create(store)
        files = plan.new_files(location, session, options)
        fragments = files.write(lasting(reader, data))
        allowed = location.allowing(map(canonical_base, plan.bases))
        with _removed_if_refused(files):
            operation = plan.operation(options, fragments, is_new=snapshot is None)
            return commit_operation(operation, allowed, session, snapshot, commit), plan.bases


@contextmanager
def _folders_removed_on_error(store: Store, folders: Sequence[str]) -> Any:
    """Remove the folders of a table that were not there before, if nothing is in them."""
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
def _removed_if_refused(files: NewFiles) -> Any:
    try:
        yield
    except CommitUnknownError:
        raise
    except LanceError as error:
        # Certain: no version names them. Of anything else, an interrupt for one, that is not certain.
        raise error.within(files.remove())


def commit_operation(
    operation: Operation,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: CommitOptions,
    *,
    read_version: int | None = None,
) -> Committed:
    """Make a change of a table its next version.

    Parameters
    ----------
    operation : Operation
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        A version of the table; None creates one.
    options : CommitOptions
    read_version : int, optional
        The version the change was made from, if it is not the snapshot's.

    Raises
    ------
    LanceError, ValueError
        See ``table.commit.commit``.
    """
    check_outside(location.uri, operation.references().bases)
    origin = None
    if snapshot is not None:
        is_same = read_version is None or read_version == snapshot.version
        number = snapshot.version if is_same else cast("int", read_version)
        origin = Origin(number, snapshot.manifest_file.naming, snapshot.identity if is_same else None)
    return commit_from(operation, location, session, origin, options)


def commit_from(
    operation: Operation,
    location: TableLocation,
    session: Session,
    origin: Origin | None,
    options: CommitOptions,
) -> Committed:
    """:func:`commit_operation` for those who have no snapshot at hand.

    Parameters
    ----------
    operation : Operation
    location : TableLocation
    session : Session
    origin : Origin or None
        The version the change was made from; None creates a table.
    options : CommitOptions

    Raises
    ------
    LanceError, ValueError
        See ``table.commit.commit``.
    """
    transaction = new_transaction(
        operation, 0 if origin is None else origin.version, options.all_properties, options.token
    )
    policy = Policy(
        attempts=options.attempts + 1,
        once=options.token is not None,
        naming=options.naming,
        limits=location.limits,
    )
    store = with_durability(location.open(session), options.durable)
    return commit_to(store, transaction, origin, session, location, policy)
