"""Versions published under a lock of the user's, pylance's ``commit_lock``.

A lock makes up for an object store that cannot create an object only if it is absent: whoever holds the lock of a
version looks whether its manifest exists, and writes it. Readers need no lock.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import ClassVar

from lancecy.errors import (
    CommitConflictError,
    CommitError,
    CommitUnknownError,
    ContentionError,
    DatasetNotFoundError,
    LanceError,
    StoreError,
)
from lancecy.records import dataclass
from lancecy.store.committing import CommitLock
from lancecy.table.paths import Naming
from lancecy.table.requests import TRIES, Call, Head, Pause, Put, Read, Steps, again
from lancecy.table.versions.base import ManifestLocation, Outcome
from lancecy.table.versions.folder import VersionFolder

__all__ = ["LockedPut"]


# Conflicts that a lock reports before a commit gives up.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPut(VersionFolder):
    """Publishes by a look and a put while the lock of the version is held.

    Attributes
    ----------
    lock : CommitLock
        Called once per attempt. Its context manager is left with an error if the version was not published.
    """

    needs_conditional_put: ClassVar[bool] = False

    lock: CommitLock

    def publish(self, version: int, naming: Naming, data: bytes) -> Steps[Outcome]:
        held, path = ExitStack(), ManifestLocation.canonical(version, naming).path
        try:
            if not (yield from self._is_entered(held, version, path)):
                return Outcome.LOST
            outcome = yield from self._put(path, data)
        except BaseException as error:
            _leave(held, error)
            raise
        if outcome is Outcome.LOST:
            _leave(held, OSError(f"commit failed: version {version} exists"))
            return outcome
        return outcome if (yield Call(lambda: _leave(held, None), changes=True)) else Outcome.UNKNOWN

    def _is_entered(self, held: ExitStack, version: int, path: str) -> Steps[bool]:
        """Take the lock of a version; False if the version exists meanwhile."""
        for attempt in range(_ATTEMPTS):
            conflict: Exception | None = yield Call(lambda: self._enter(held, version), changes=True)
            if conflict is None:
                return True
            yield Pause(attempt)
            try:
                yield from again(Head(path))
            except DatasetNotFoundError:
                continue
            return False
        raise ContentionError(
            f"the commit_lock of version {version} said {_ATTEMPTS} times that another writer has it, and no such "
            f"version came to be ({conflict})"
        ) from conflict

    def _enter(self, held: ExitStack, version: int) -> Exception | None:
        """Take the lock of a version; returns its error if it says that another writer publishes that version."""
        try:
            held.enter_context(self.lock(version))
        except Exception as error:
            if _is_conflict(error):
                return error
            if isinstance(error, LanceError):
                raise
            raise CommitError(
                f"the commit_lock of version {version} was not given: {type(error).__name__}: {error}"
            ) from error
        return None

    def _put(self, path: str, data: bytes) -> Steps[Outcome]:
        """Write the manifest unless it exists. Nobody else writes this name as long as the lock is held."""
        try:
            yield from again(Head(path))
        except DatasetNotFoundError:
            pass
        else:
            return Outcome.LOST
        failure: StoreError | None = None
        for attempt in range(TRIES):
            try:
                yield Put(path, data)
            except StoreError as error:
                failure = error
                yield Pause(attempt)
            else:
                return Outcome.WON if failure is None else Outcome.UNKNOWN
        with suppress(StoreError, DatasetNotFoundError):
            yield from again(Read(path))
            return Outcome.UNKNOWN
        raise CommitUnknownError(
            f"{path} may or may not have been written ({failure}): open the table and look for it before "
            "committing again, and delete none of the files of this commit"
        ) from failure


def _leave(held: ExitStack, error: BaseException | None) -> bool:
    """Leave the lock; whether it was held to the end."""
    triple = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    try:
        held.__exit__(*triple)
    except Exception:  # noqa: BLE001 - a lock may raise anything
        return False
    return True


def _is_conflict(error: Exception) -> bool:
    """Whether an error is pylance's ``CommitConflictError`` or lancecy's own."""
    names = (kind.__name__ for kind in type(error).__mro__)
    return isinstance(error, CommitConflictError) or "CommitConflictError" in names
