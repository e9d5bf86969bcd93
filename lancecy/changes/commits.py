"""Commits changes that other calls or processes have prepared: one, or several appends as one version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self, TypedDict, Unpack, cast

from lancecy.changes.base import Change
from lancecy.changes.commit import commit_operation
from lancecy.changes.options import (
    UNSUPPORTED_WRITES,
    WRITE_DEFAULTS,
    AccessOptions,
    CommitAccessOptions,
    CommitOptions,
    CommitRequest,
    commit_request,
)
from lancecy.changes.transactions import Transaction
from lancecy.errors import DatasetNotFoundError, UnsupportedError
from lancecy.keyword_options import checked_arguments, shared_options
from lancecy.session import Session, default
from lancecy.store.committing import CommitLock, with_lock
from lancecy.table import flags
from lancecy.table.bases import canonical_base
from lancecy.table.location import TableLocation
from lancecy.table.operations import Operation
from lancecy.table.paths import DETACHED
from lancecy.table.placement import check_new_place
from lancecy.table.snapshot import Snapshot, committed_snapshot, load_snapshot, newest_snapshot
from lancecy.write.operations import BaseOperation, LanceOperation, operation_of

__all__ = ["BulkCommitResult", "Commits", "commit_prepared", "located"]

_UNSUPPORTED = {
    "base_store_params": UNSUPPORTED_WRITES["base_store_params"],
    "enable_v2_manifest_paths": "the table is there already and keeps its names",
}


class BulkCommitResult(TypedDict):
    """The result of :meth:`lancecy.Dataset.commit_batch`.

    Attributes
    ----------
    dataset : Dataset
        At the new version.
    merged : Transaction
        What was committed.
    """

    dataset: Any
    merged: Transaction


def commit_prepared(
    uri: str | os.PathLike[str] | Change,
    operation: BaseOperation | Transaction,
    read_version: int | None = None,
    *,
    detached: bool = False,
    token: str | None = None,
    max_retries: int = 20,
    commit_timeout: timedelta | None = None,
    **options: Unpack[CommitOptions],
) -> Snapshot:
    """Commit a prepared change; returns the version that it makes.

    Parameters
    ----------
    uri, operation, read_version, detached, token, max_retries, commit_timeout, **options
        As for :func:`lancecy.commit`.

    Raises
    ------
    LanceError, ValueError, TypeError
        As :func:`lancecy.commit`.
    """
    location, active = located(uri, options)
    request = replace(commit_request(options, max_retries, token), detached=detached, timeout=commit_timeout)
    made = operation
    if isinstance(made, Transaction):
        read_version, request = made.read_version, _with_transaction(request, made)
        made = made.operation
    snapshot = _origin(uri, read_version, location, active, detached=detached)
    known = None if snapshot is None else snapshot.manifest.base_paths
    change = operation_of(made, known, bool(options.get("enable_stable_row_ids")))
    _check_commit(location, snapshot, change, read_version, given=isinstance(uri, Change))
    if snapshot is None:
        check_new_place(location, active)
    bases = change.references().bases
    if detached and token is not None:
        raise ValueError("a token finds a commit in the history, where a detached version never is")
    allowed = location.allowing(map(canonical_base, bases))
    done = commit_operation(change, allowed, active, snapshot, request, read_version=read_version)
    return committed_snapshot(allowed, done.version, active, done.written)


def _origin(
    uri: str | os.PathLike[str] | Change,
    read_version: int | None,
    location: TableLocation,
    session: Session,
    *,
    detached: bool,
) -> Snapshot | None:
    """The version that a change is applied to, or from which the newest one is found."""
    if isinstance(uri, Change) and read_version in (None, uri._snapshot.version):
        return uri._snapshot
    if read_version is not None and (detached or read_version >= DETACHED):
        return load_snapshot(location, read_version, session=session)
    return newest_snapshot(location, session)


def _with_transaction(request: CommitRequest, made: Transaction) -> CommitRequest:
    """The request with the id and properties of a transaction."""
    if request.all_properties or request.token is not None:
        raise ValueError(
            "a transaction has its own id and transaction_properties: give message, properties and token there"
        )
    return replace(request, properties=made.transaction_properties, uuid=made.uuid)


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


def located(
    uri: str | os.PathLike[str] | Change, options: AccessOptions | CommitAccessOptions
) -> tuple[TableLocation, Session]:
    """The location of a user's table, and its session.

    Parameters
    ----------
    uri : str, path or Dataset
    options : AccessOptions or CommitAccessOptions

    Raises
    ------
    TypeError
        Neither a path nor a Dataset, for example rows.
    ValueError
        Options are given beside a Dataset, which has its own.
    """
    lock: CommitLock | None = cast(CommitAccessOptions, options).get("commit_lock")
    storage_options = with_lock(options.get("storage_options"), lock)
    allowed_bases = options.get("allowed_bases")
    session = options.get("session")
    if not isinstance(uri, Change | str | os.PathLike):
        raise TypeError(
            f"uri is a path, a URL or a Dataset, not {type(uri).__name__}: the rows are the first argument and the "
            "table the second"
        )
    if not isinstance(uri, Change):
        active = session or default()
        location = TableLocation.of(uri, storage_options, False, allowed_bases, active.limits)
        return location, active
    if any(value is not None for value in (storage_options, allowed_bases, session)):
        raise ValueError("a Dataset is open already: give its options to lancecy.dataset instead")
    return uri._snapshot.location, uri._snapshot.session


class Commits(Change):
    """The dataset methods that commit what was prepared elsewhere."""

    @classmethod
    @shared_options(CommitOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES)
    def commit(
        cls,
        base_uri: str | os.PathLike[str] | Change,
        operation: BaseOperation | Transaction,
        read_version: int | None = None,
        *,
        detached: bool | None = False,
        token: str | None = None,
        max_retries: int = 20,
        commit_timeout: timedelta | None = None,
        **options: Unpack[CommitOptions],
    ) -> Self:
        """:func:`lancecy.commit` under pylance's name: commit a prepared change, and open the version that it makes.

        Parameters
        ----------
        base_uri : str, path or Dataset
            The table; a Dataset stays at its version.
        operation, read_version, detached, token, max_retries, commit_timeout
            As for :func:`lancecy.commit`.
        commit_message, transaction_properties, skip_auto_cleanup, enable_stable_row_ids, enable_v2_manifest_paths, \
        durability, storage_options, allowed_bases, session, commit_lock
            As for :func:`lancecy.commit`.

        Raises
        ------
        LanceError, ValueError, TypeError
            As :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> ds = lancecy.write_dataset({"a": [1, 2]}, tempfile.mkdtemp() + "/t.lance")
        >>> new = lancecy.write_fragments({"a": [3]}, ds)
        >>> lancecy.LanceDataset.commit(ds.uri, lancecy.LanceOperation.Append(new), read_version=1).count_rows()
        3
        """
        snapshot = commit_prepared(
            base_uri,
            operation,
            read_version,
            detached=bool(detached),
            token=token,
            max_retries=max_retries,
            commit_timeout=commit_timeout,
            **options,
        )
        return cast(Self, cast(Any, cls)(snapshot))

    @classmethod
    @checked_arguments(_UNSUPPORTED)
    def commit_batch(
        cls,
        dest: str | os.PathLike[str] | Change,
        transactions: Sequence[Transaction],
        *,
        storage_options: Mapping[str, Any] | None = None,
        detached: bool = False,
        max_retries: int = 20,
        commit_timeout: timedelta | None = None,
        commit_lock: CommitLock | None = None,
    ) -> BulkCommitResult:
        """Commit several appends as one version.

        Parameters
        ----------
        dest : str, path or Dataset
            A table that exists.
        transactions : sequence of lancecy.Transaction
            Of ``LanceOperation.Append`` only. The oldest of their read versions counts. Of a property that several have,
            the last value is recorded.
        storage_options : mapping, optional
            Not with a Dataset, which has its own.
        detached : bool
            Make a version outside the history, as :func:`lancecy.commit` does.
        max_retries : int
            Maximum number of lost races for the next version.
        commit_timeout : timedelta, optional
            As for :func:`lancecy.commit`.
        commit_lock : function, optional
            As for :func:`lancecy.dataset`. Not with a Dataset, which has its own.

        Returns
        -------
        dict
            ``dataset``, at the new version, and ``merged``, the transaction that was committed.

        Raises
        ------
        ValueError
            There is no transaction.
        UnsupportedError
            One of them is no append.
        DatasetNotFoundError
            There is no table.
        CommitError
            See :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
        >>> made = [lancecy.write_fragments({"a": [n]}, ds) for n in (2, 3)]
        >>> appends = [lancecy.Transaction(1, lancecy.LanceOperation.Append(new)) for new in made]
        >>> lancecy.LanceDataset.commit_batch(ds, appends)["dataset"].count_rows()
        3
        """
        merged = merged_appends(transactions)
        snapshot = commit_prepared(
            dest,
            merged,
            detached=detached,
            max_retries=max_retries,
            commit_timeout=commit_timeout,
            storage_options=storage_options,
            commit_lock=commit_lock,
        )
        return {"dataset": cast(Any, cls)(snapshot), "merged": merged}


def merged_appends(transactions: Sequence[Transaction]) -> Transaction:
    """One append of the rows of several.

    Parameters
    ----------
    transactions : sequence of Transaction

    Raises
    ------
    TypeError
        Not transactions.
    ValueError
        There is none.
    UnsupportedError
        One of them is no append.
    """
    wrong = next((each for each in transactions if not isinstance(each, Transaction)), None)
    if wrong is not None:
        raise TypeError(f"a batch consists of transactions, not of {type(wrong).__name__}")
    if not transactions:
        raise ValueError("there are no transactions to commit")
    others = [
        each.operation_name for each in transactions if not isinstance(each.operation, LanceOperation.Append)
    ]
    if others:
        raise UnsupportedError(
            f"a batch holds appends only, and not {others[0]}: commit it alone",
            feature=f"batch with {others[0]}",
        )
    properties = {name: text for each in transactions for name, text in each.transaction_properties.items()}
    fragments = tuple(fragment for each in transactions for fragment in each.operation.fragments)
    read_version = min(each.read_version for each in transactions)
    return Transaction(read_version, LanceOperation.Append(fragments), transaction_properties=properties)
