"""Reads versions that others committed, their transactions, and whether one is this very commit.

Generators over ``requests``, used by ``commit``. A version without manifest or without transaction cannot be
checked for conflicts; this is reported and never guessed.

Facts: table sheet, sections 1.3 and 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancecy.errors import DatasetNotFoundError, LanceError, RetryableConflictError, StoreError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.operations import Operation, Transaction, decode_transaction
from lancecy.table.paths import TRANSACTIONS, Naming
from lancecy.table.requests import TRIES, List, Pause, Read, Steps, again
from lancecy.table.versions import ManifestLocation, VersionStore
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file

__all__ = ["History"]


@dataclass(frozen=True, slots=True)
class History:
    """Reader of the versions of one table.

    Attributes
    ----------
    versions : VersionStore
    naming : Naming
    limits : Limits
    """

    versions: VersionStore
    naming: Naming
    limits: Limits

    def since(
        self, seen: int, certain: int | None
    ) -> Steps[tuple[ManifestLocation | None, list[ManifestLocation]]]:
        """A version as it is listed, None if it is not, and the versions above it as :meth:`newer` gives them."""
        listed = yield from self.versions.versions(seen - 1, self.naming)
        there = next((location for location in listed if location.version == seen), None)
        return there, (yield from self._complete(listed, seen, certain))

    def newer(self, seen: int, certain: int | None) -> Steps[list[ManifestLocation]]:
        """Versions above ``seen``, oldest first.

        Parameters
        ----------
        seen : int
        certain : int or None
            A version that exists, even if a stale listing lacks it.

        Raises
        ------
        RetryableConflictError
            A version is missing.
        ConflictError
            The naming scheme has changed.
        """
        listed = yield from self.versions.versions(seen, self.naming)
        return (yield from self._complete(listed, seen, certain))

    def _complete(
        self, listed: Sequence[ManifestLocation], seen: int, certain: int | None
    ) -> Steps[list[ManifestLocation]]:
        """The versions above ``seen`` of a listing, with the certain one."""
        found = {location.version: location for location in listed if location.version > seen}
        if certain is not None and certain > seen and certain not in found:
            known = yield from self.versions.at(certain, self.naming)
            found |= {} if known is None else {certain: known}
        for version in range(seen + 1, max(found, default=seen)):
            if version not in found:
                raise RetryableConflictError(
                    f"version {version} was removed, so its conflicts with this commit are unknown: open "
                    "the newest version and repeat the change"
                )
        return [found[version] for version in sorted(found)]

    def at(self, version: int) -> Steps[ManifestFile | None]:
        """A version by its number, None if it is gone (raises as :meth:`stored`)."""
        location = yield from self.versions.at(version, self.naming)
        return None if location is None else (yield from self.stored(location))

    def stored(self, location: ManifestLocation, *, insist: bool = False) -> Steps[ManifestFile | None]:
        """A version, None if its manifest is gone.

        Parameters
        ----------
        location : ManifestLocation
        insist : bool
            The store has listed it before, so a "not found" is tried again.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            See ``wire.manifest_file``.
        """
        for attempt in range(TRIES if insist else 1):
            try:
                memory: Memory = yield from again(Read(location.path, identity=location.identity))
            except DatasetNotFoundError:
                yield Pause(attempt)
            else:
                return decode_manifest_file(memory, location.path, location.version, self.limits)
        return None

    def transaction(self, stored: ManifestFile) -> Steps[Transaction | None]:
        """The transaction that made a version; None if it is not stored or not readable."""
        data = stored.transaction
        if data is None:
            name = stored.manifest.transaction_file
            if not name or "/" in name:
                return None
            try:
                memory: Memory = yield from again(Read(f"{TRANSACTIONS}/{name}"))
            except DatasetNotFoundError:
                return None
            data = memory.tobytes()
        try:
            return decode_transaction(data, self.limits)
        except StoreError:
            raise
        except LanceError:
            return None

    def operation(self, stored: ManifestFile) -> Steps[Operation | None]:
        """The operation of :meth:`transaction`."""
        made_by = yield from self.transaction(stored)
        return None if made_by is None else made_by.operation

    def landed(self, uuid: str, seen: int) -> Steps[ManifestLocation | None]:
        """The version of a transaction at or before ``seen``, committed by a process that did not learn of it."""
        ending = f"-{uuid}.txn"
        metas: Sequence[ObjectMeta] = yield from again(List(TRANSACTIONS))
        names = [meta.path.rpartition("/")[2] for meta in metas if meta.path.endswith(ending)]
        starts = [int(text) for text in (name[: -len(ending)] for name in names) if text.isdigit()]
        for version in range(min(starts, default=seen) + 1, seen + 1):
            location = yield from self.versions.at(version, self.naming)
            stored = None if location is None else (yield from self.stored(location))
            theirs = None if stored is None else (yield from self.transaction(stored))
            if theirs is not None and theirs.uuid == uuid:
                return location
        return None
