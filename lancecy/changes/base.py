"""What all changes of a dataset share: the newest version, the commit, and the loop of attempts."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from lancecy.changes.commit import commit_operation
from lancecy.changes.options import CommitRequest
from lancecy.errors import DatasetNotFoundError, RetryableConflictError
from lancecy.table import flags
from lancecy.table.manifest import BasePath
from lancecy.table.operations import Operation
from lancecy.table.rowid_checks import check_row_ids, row_id_faults
from lancecy.table.snapshot import Snapshot, newest_snapshot

if TYPE_CHECKING:
    from lancecy.scanning.context import ScanContext

__all__ = ["Change"]

_PAUSE, _LONGEST_PAUSE = 0.01, 0.5

T = TypeVar("T")


class Change(ABC):
    """The base of the classes that change a dataset; each makes a version, to which the dataset then moves."""

    _snapshot: Snapshot

    @property
    @abstractmethod
    def context(self) -> ScanContext:
        """What scans share."""

    @abstractmethod
    def _move(self, version: int | None, bases: Iterable[BasePath] = ()) -> None:
        """Become another version, None for the newest; ``bases`` may be read from now on."""

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
        options: CommitRequest | None = None,
        bases: Iterable[BasePath] = (),
    ) -> None:
        """Commit a change, made from this version if no other is given, and move to what it made."""
        origin = origin or self._snapshot
        committed = commit_operation(
            operation, origin.location, origin.session, origin, options or CommitRequest()
        )
        self._move(committed.version, bases)

    def _retried(self, attempt: Callable[[], T], retries: int, timeout: timedelta) -> T:
        """Change the table, and begin again from its newest version as long as others change the same rows.

        Parameters
        ----------
        attempt : function
            Works out the change of this version and commits it.
        retries : int
            How often to begin again.
        timeout : timedelta
            After this no new attempt is made.

        Raises
        ------
        RetryableConflictError
            Others were faster every time.
        """
        give_up, number = time.monotonic() + timeout.total_seconds(), 0
        while True:
            try:
                return attempt()
            except RetryableConflictError:
                number += 1
                if number > retries or time.monotonic() >= give_up:
                    raise
            time.sleep(min(_LONGEST_PAUSE, _PAUSE * 2**number))
            self._move(None)
