"""What changes a table, as methods of a dataset: each makes a version, to which the dataset then moves."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.changes.cleanup import Cleaning
from lancecy.changes.delete import delete_of
from lancecy.changes.insert import commit_operation, write_table
from lancecy.changes.metadata import Maps
from lancecy.changes.options import CommitOptions, Mode, options_of
from lancecy.changes.repair import Repairs
from lancecy.errors import DatasetNotFoundError, RetryableConflictError
from lancecy.table import flags
from lancecy.table.manifest import BasePath
from lancecy.table.operations import Operation, Restore, UpdateBases
from lancecy.table.rowid_checks import check_row_ids, row_id_faults
from lancecy.table.snapshot import Snapshot, newest_snapshot
from lancecy.write.targets import DatasetBasePath, base_paths_of, targets

if TYPE_CHECKING:
    from lancecy.scanning.context import ScanContext

__all__ = ["Changes"]

_PAUSE, _LONGEST_PAUSE = 0.01, 0.5


class Changes(Maps, Cleaning, Repairs, ABC):
    """The changing half of a dataset; ``datasets.Dataset`` is the other one."""

    @property
    @abstractmethod
    def context(self) -> ScanContext:
        """What scans share."""

    @abstractmethod
    def _move(self, version: int | None, bases: Iterable[BasePath] = ()) -> None:
        """Become another version, None for the newest; ``bases`` may be read from now on."""

    def insert(
        self, data: Any, *, mode: Mode = "append", schema: pa.Schema | None = None, **options: Any
    ) -> None:
        """Write rows into the table.

        Parameters
        ----------
        data : object
            See :func:`lancecy.write_dataset`.
        mode : "append" or "overwrite"
        schema : pyarrow.Schema, optional
            What the columns are to be.
        **options
            As for :func:`lancecy.write_dataset`.

        Raises
        ------
        LanceError
            See :func:`lancecy.write_dataset`.
        """
        written, commit = options_of(mode, **options)
        snapshot = self._newest() if mode != "create" else self._snapshot
        location, session = self._snapshot.location, self._snapshot.session
        committed, bases = write_table(data, schema, location, session, snapshot, written, commit)
        self._move(committed.version, bases)

    def append(self, data: Any, *, schema: pa.Schema | None = None, **options: Any) -> None:
        """Add rows; as :meth:`insert`.

        Parameters
        ----------
        data : object
        schema : pyarrow.Schema, optional
        **options
        """
        self.insert(data, mode="append", schema=schema, **options)

    def delete(
        self,
        predicate: object,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
    ) -> dict[str, int]:
        """Delete the rows for which a predicate is true; files stay as they are, and indices stay right.

        Parameters
        ----------
        predicate : str, pyarrow.compute.Expression or lancecy.Expr
            "true" deletes every row.
        conflict_retries : int
            How often the rows are looked up anew, in the newest version then, if somebody else changed them.
        retry_timeout : timedelta
            After this no new attempt is made.

        Returns
        -------
        dict
            ``{"num_deleted_rows": int}``; no version is made for 0.

        Raises
        ------
        RetryableConflictError
            Others were faster every time.
        CommitError
            See :func:`lancecy.commit`.
        ExpressionError, ColumnNotFoundError
            The predicate does not fit the schema.
        """
        give_up = time.monotonic() + retry_timeout.total_seconds()
        attempt = 0
        while True:
            self._check_writable()
            operation, count = delete_of(self.context, predicate)
            if not count:
                return {"num_deleted_rows": 0}
            try:
                self._change(operation)
            except RetryableConflictError:
                attempt += 1
                if attempt > conflict_retries or time.monotonic() >= give_up:
                    raise
                time.sleep(min(_LONGEST_PAUSE, _PAUSE * 2**attempt))
                self._move(None)
            else:
                return {"num_deleted_rows": count}

    def restore(self) -> None:
        """Make this version the newest one again; what came after it stays in the history.

        Bases that were relocated since stay where they are now: a restore brings back rows and columns, and not the
        places that their files were moved from.

        Raises
        ------
        UnsupportedError
            It would take the table's stable row ids away.
        CommitError
            See :func:`lancecy.commit`.
        """
        self._change(Restore(self._snapshot.version), self._newest())

    def add_bases(
        self, new_bases: Iterable[DatasetBasePath], transaction_properties: Mapping[str, str] | None = None
    ) -> Any:
        """Register places for data files, which ``target_bases`` of later writes can name.

        Parameters
        ----------
        new_bases : iterable of DatasetBasePath
        transaction_properties : mapping of str to str, optional

        Returns
        -------
        Dataset
            This one.

        Raises
        ------
        ConflictError
            The table has a base of that id, name or place.
        PathPolicyError
            A path is not that of a folder, or holds credentials.
        """
        newest, wanted = self._newest(), tuple(new_bases)
        checked = base_paths_of(newest.manifest.base_paths, wanted)
        options = CommitOptions(properties=dict(transaction_properties or {}))
        # Their ids are given at the commit: somebody else may be registering bases too.
        operation = UpdateBases(tuple(base.to_base_path() for base in wanted))
        self._change(operation, newest, options, bases=checked)
        return self

    def relocate_base(self, base: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> Any:
        """Say where the files of a base are now: what moves a table to a copy of them.

        Parameters
        ----------
        base : str or path
            Name of the base, or its path as it was.
        new_path : str or path
            Absolute path or URI; the files must be there, under the names they had.

        Returns
        -------
        Dataset
            This one.

        Raises
        ------
        NotFoundError
            The table has no such base.
        ConflictError
            Another base is there already.
        PathPolicyError
            The path is not that of a folder, or holds credentials.
        """
        newest = self._newest()
        known = newest.manifest.base_paths
        (number,) = targets(known, [base])
        moved = replace(known[number or 0], path=DatasetBasePath(new_path).to_base_path().path)
        self._change(UpdateBases((moved,), relocate=True), newest, bases=[moved])
        return self

    # -- how --------------------------------------------------------------------------------------

    def _newest(self) -> Snapshot:
        """The newest version of the table: this one if it is."""
        if self._snapshot.latest_version() == self._snapshot.version:
            return self._snapshot
        location = self._snapshot.location
        found = newest_snapshot(location, self._snapshot.session)
        if found is None:
            raise DatasetNotFoundError(f"there is no table at {location.uri} any more", kind="dataset")
        return found

    def _check_writable(self) -> None:
        manifest = self._snapshot.manifest
        flags.check_writable(manifest.reader_flags, manifest.writer_flags)
        check_row_ids(row_id_faults(manifest, self._snapshot.limits), manifest.version)

    def _change(
        self,
        operation: Operation,
        origin: Snapshot | None = None,
        options: CommitOptions | None = None,
        bases: Iterable[BasePath] = (),
    ) -> None:
        """Commit a change, made from this version if no other is given, and move to what it made."""
        origin = origin or self._snapshot
        committed = commit_operation(
            operation, origin.location, origin.session, origin, options or CommitOptions()
        )
        self._move(committed.version, bases)
