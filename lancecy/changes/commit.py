"""Commits a given operation as the next version of a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

from lancecy.changes.clean import clean_after
from lancecy.changes.options import CommitRequest, with_durability
from lancecy.session import Session
from lancecy.table.commit.driver import commit_to
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.location import TableLocation
from lancecy.table.operations import Operation, new_transaction
from lancecy.table.snapshot import Snapshot
from lancecy.write.targets import check_outside

__all__ = ["commit_from", "commit_operation"]


def commit_operation(
    operation: Operation,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: CommitRequest,
    *,
    read_version: int | None = None,
    least_attempts: int = 0,
) -> Committed:
    """Commit an operation as the next version of a table.

    Parameters
    ----------
    operation : Operation
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        A version of the table; None creates one.
    options : CommitRequest
    read_version : int, optional
        The version the change was made from; by default the snapshot's.
    least_attempts : int
        Attempts even if the options state fewer.

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
    return commit_from(operation, location, session, origin, options, least_attempts=least_attempts)


def commit_from(
    operation: Operation,
    location: TableLocation,
    session: Session,
    origin: Origin | None,
    options: CommitRequest,
    *,
    least_attempts: int = 0,
) -> Committed:
    """Commit an operation as :func:`commit_operation` does, without a snapshot.

    Cleans up afterwards, if the table's configuration asks for it.

    Parameters
    ----------
    operation : Operation
    location : TableLocation
    session : Session
    origin : Origin or None
        The version the change was made from; None creates a table.
    options : CommitRequest
    least_attempts : int
        As for :func:`commit_operation`.

    Raises
    ------
    LanceError, ValueError
        See ``table.commit.commit``.
    """
    transaction = new_transaction(
        operation, 0 if origin is None else origin.version, options.all_properties, options.token
    )
    if options.uuid is not None:
        transaction = replace(transaction, uuid=options.uuid)
    policy = Policy(
        attempts=max(options.attempts, least_attempts) + 1,
        written_ns=options.written_ns,
        once=options.token is not None,
        naming=options.naming,
        detached=options.detached,
        limits=location.limits,
        timeout_ns=None if options.timeout is None else options.timeout // timedelta(microseconds=1) * 1000,
        next_only=options.next_only,
    )
    store = with_durability(location.open(session), options.durable)
    committed = commit_to(store, transaction, origin, session, location, policy)
    if options.auto_cleanup:
        clean_after(committed, location, session)
    return committed
