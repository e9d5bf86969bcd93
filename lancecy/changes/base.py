"""Shared by all changes of a dataset: the newest version, the commit, and the retry loop."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import SystemRandom
from typing import TYPE_CHECKING, TypeVar

from lancecy.changes.commit import commit_operation
from lancecy.changes.options import CommitRequest
from lancecy.errors import ContentionError, DatasetNotFoundError, MissingFileError, RetryableConflictError
from lancecy.keyword_options import whole_number
from lancecy.table import flags
from lancecy.table.manifest import BasePath
from lancecy.table.operations import Operation
from lancecy.table.paths import DETACHED
from lancecy.table.row_id_checks import check_fragment_ids, check_row_ids, row_id_faults
from lancecy.table.snapshot import Snapshot, newest_snapshot
from lancecy.table.versions import ManifestLocation
from lancecy.table.wire.manifest import Written

if TYPE_CHECKING:
    from lancecy.scanning.context import ScanContext

__all__ = ["Change"]

# Seconds. Attempts of many writers that start together lose together: each waits a random number of times what one takes.
_PAUSE, _LONGEST_PAUSE = 0.01, 5.0
_FEWEST_TIMES, _MOST_TIMES = 4, 32
# Programs often seed that of the module ``random``, with one number in all their processes.
_RANDOM = SystemRandom()
# A change that was computed from the whole table costs far more than another race for a version.
_RACES = 100

T = TypeVar("T")


class Change(ABC):
    """Base class of dataset changes. A change makes a version, and the dataset moves to it."""

    _snapshot: Snapshot

    @property
    @abstractmethod
    def context(self) -> ScanContext:
        """State shared by scans."""

    @abstractmethod
    def _move(
        self,
        version: int | None,
        bases: Iterable[BasePath] = (),
        written: tuple[ManifestLocation, Written] | None = None,
    ) -> None:
        """Move to a version, None for the newest, and allow reads from ``bases``.

        ``written`` is its manifest file, if this process wrote it.
        """

    def _may_be_cleaned_up(self) -> bool:
        """Whether a cleanup may have removed the files of this version."""
        version = self._snapshot.version
        return version < DETACHED and self._snapshot.latest_version() != version

    def _newest(self) -> Snapshot:
        """The newest version of the table, which may be this one."""
        if self._snapshot.latest_version() == self._snapshot.version:
            return self._snapshot
        location = self._snapshot.location
        found = newest_snapshot(location, self._snapshot.session)
        if found is None:
            raise DatasetNotFoundError(f"there is no table at {location.uri} any more", kind="dataset")
        return found

    def _target(self) -> Snapshot:
        """The version that new rows are written for: the newest one, but this one if it is detached."""
        return self._snapshot if self._snapshot.version >= DETACHED else self._newest()

    def _check_writable(self) -> None:
        manifest = self._snapshot.manifest
        flags.check_writable(manifest.reader_flags, manifest.writer_flags)
        check_fragment_ids(fragment.stored_id for fragment in manifest.fragments)
        check_row_ids(row_id_faults(manifest, self._snapshot.limits), manifest.version)

    def _change(
        self,
        operation: Operation,
        origin: Snapshot | None = None,
        options: CommitRequest | None = None,
        bases: Iterable[BasePath] = (),
    ) -> None:
        """Commit a change made from a version, by default this one, and move to the new version."""
        origin, options = origin or self._snapshot, options or CommitRequest()
        committed = commit_operation(
            operation, origin.location, origin.session, origin, options, least_attempts=_RACES
        )
        self._move(committed.version, bases, committed.written)

    def _retried(
        self, attempt: Callable[[], T], retries: int, timeout: timedelta, *, reads_again: bool = False
    ) -> T:
        """Run an attempt, and retry it from the newest version after a retryable conflict.

        Parameters
        ----------
        attempt : function
            Computes the change of this version and commits it.
        retries : int
            Number of further attempts.
        timeout : timedelta
            After this no new attempt is made.
        reads_again : bool
            Whether an attempt that was cut short while it read can be repeated, as no stream was read halfway. Then it is
            retried too if a cleanup removed this version.

        Raises
        ------
        RetryableConflictError
            Every attempt lost to another writer.
        MissingFileError
            A file is missing.
        TypeError, ValueError
            The number of attempts is no whole number, or negative.
        """
        whole_number("conflict_retries", retries, may_be_negative=False)
        give_up, number = time.monotonic() + timeout.total_seconds(), 0
        while True:
            began = time.monotonic()
            try:
                return attempt()
            except (RetryableConflictError, ContentionError, MissingFileError) as error:
                if isinstance(error, MissingFileError) and not (reads_again and self._may_be_cleaned_up()):
                    raise
                number += 1
                if number > retries or time.monotonic() >= give_up:
                    raise
            now = time.monotonic()
            times = min(_FEWEST_TIMES * 2 ** min(number, 10), _MOST_TIMES)
            pause = _RANDOM.uniform(0, min(_LONGEST_PAUSE, times * max(_PAUSE, now - began)))
            # The last attempt begins before the time is over.
            time.sleep(max(0.0, min(pause, give_up - now)))
            self._move(None)
