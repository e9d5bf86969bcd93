"""Commits several appends as one version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, cast

from lancecy.changes.base import Change
from lancecy.changes.commit import commit_operation
from lancecy.changes.options import UNSUPPORTED_WRITES, CommitRequest
from lancecy.changes.transactions import Transaction
from lancecy.errors import DatasetNotFoundError, UnsupportedError
from lancecy.keyword_options import checked_arguments
from lancecy.session import default
from lancecy.store.committing import CommitLock, with_lock
from lancecy.table import flags
from lancecy.table.location import TableLocation
from lancecy.table.snapshot import load_snapshot, newest_snapshot
from lancecy.write.operations import LanceOperation, operation_of

__all__ = ["BatchCommits", "BulkCommitResult"]

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


class BatchCommits(Change):
    """The dataset method that commits several transactions."""

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
        if isinstance(dest, Change):
            if storage_options is not None or commit_lock is not None:
                raise ValueError("a Dataset is open already: give its options to lancecy.dataset instead")
            location, session = dest._snapshot.location, dest._snapshot.session
        else:
            session = default()
            options = with_lock(storage_options, commit_lock)
            location = TableLocation.of(os.fspath(dest), options, limits=session.limits)
        merged = merged_appends(transactions)
        snapshot = newest_snapshot(location, session)
        if snapshot is not None and detached:
            snapshot = load_snapshot(location, merged.read_version, session=session)
        if snapshot is None:
            raise DatasetNotFoundError(f"there is no table at {location.uri}", kind="dataset")
        flags.check_writable(snapshot.manifest.reader_flags, snapshot.manifest.writer_flags)
        operation = operation_of(merged.operation, snapshot.manifest.base_paths)
        request = CommitRequest(
            properties=merged.transaction_properties,
            attempts=max_retries,
            detached=detached,
            uuid=merged.uuid,
            timeout=commit_timeout,
        )
        committed = commit_operation(
            operation, location, session, snapshot, request, read_version=merged.read_version
        )
        opened = cast(Any, cls)(load_snapshot(location, committed.version, session=session))
        return {"dataset": opened, "merged": merged}


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
