"""Sets damaged manifests aside, so that the table can be written again.

::

    _versions/…5.manifest, damaged  ->  _damaged/5-{hash}.manifest     its bytes, as they were found
                                    ->  _versions/…5.manifest          a restore of version 4

A damaged version keeps its number and gets the rows of the newest sound version before it. If the number were free, a
writer that listed the versions earlier could publish it again, below versions made since. Damaged versions that no
sound one precedes are removed, as by a cleanup.

Generators over ``requests``. A new manifest follows from the damaged bytes and the sound version, and the newest
damaged version is replaced first: two processes that repair one table at once write the same manifests, and
what a dying one leaves undone the next one does in the same way.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from lancecy.errors import ConflictError, DatasetNotFoundError, FormatError, LanceError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table.commit.foreign_manifest import foreign_manifest
from lancecy.table.operations import Restore, encode_transaction, new_transaction
from lancecy.table.operations.apply import apply
from lancecy.table.operations.base import NewManifest, VersionStamp
from lancecy.table.operations.transaction import COMMIT_MESSAGE
from lancecy.table.paths import TRANSACTIONS
from lancecy.table.requests import TRIES, Pause, Put, Read, Steps, again
from lancecy.table.versions import ManifestLocation, VersionStore
from lancecy.table.versions.damage import DAMAGED, NOTHING_SOUND, is_damage
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file

__all__ = ["SetAside", "set_aside"]

# Pause between the two reads of a damaged manifest: up to 0.6 s.
_SETTLING = 6
_HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class SetAside:
    """A damaged manifest that was set aside.

    Attributes
    ----------
    version : int
    problem : str
        The damage.
    kept_as : str
        File with the damaged bytes, below the table's root.
    rows_of : int or None
        The version whose rows it has now; None if it was removed, because no sound version precedes it.
    """

    version: int
    problem: str
    kept_as: str
    rows_of: int | None

    def __str__(self) -> str:
        now = "is removed" if self.rows_of is None else f"has the rows of version {self.rows_of}"
        return (
            f"version {self.version} was damaged ({self.problem}) and {now}; its bytes are in {self.kept_as}"
        )


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A damaged version."""

    location: ManifestLocation
    data: bytes
    problem: LanceError

    @property
    def kept_as(self) -> str:
        return f"{DAMAGED}/{self.location.version}-{self.digest[:_HASH_DIGITS]}.manifest"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def reported(self, rows_of: int | None) -> SetAside:
        return SetAside(self.location.version, self.problem.what, self.kept_as, rows_of)


def set_aside(
    versions: VersionStore,
    limits: Limits = DEFAULT_LIMITS,
    *,
    every: bool = False,
    foreign: bool = False,
) -> Steps[tuple[SetAside, ...]]:
    """Requests that set damaged manifests aside.

    Parameters
    ----------
    versions : VersionStore
    limits : Limits
    every : bool
        Read the manifests of all versions. Otherwise only those from the newest down to the first sound one.
    foreign : bool
        A newest manifest that belongs to another table (``foreign_manifest``) counts as damaged too.

    Returns
    -------
    tuple of SetAside
        Newest first; empty if nothing is damaged, and nothing was written then.

    Raises
    ------
    ConflictError
        A manifest changes, or is gone, each time it is read. A damaged one may still be being written.
    FormatError
        No version is sound, and nothing was changed.
    UnsupportedError, LimitError
        The newest version that is not damaged cannot be read or written by this release, or under these limits.
    StoreError
        The storage failed; the next repair goes on.
    """
    repair = _Repair(versions, limits)
    for attempt in range(TRIES - 1):
        try:
            return (yield from repair.run(every, foreign))
        except ConflictError:
            # Most likely another repair was faster: begin again with what it left.
            yield Pause(attempt)
    return (yield from repair.run(every, foreign))


class _Again(Restore):
    """A restore of a version with all its faults: row ids are repaired afterwards."""

    __slots__ = ()

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        return replace(super().apply(base, stamp), continues=None)


class _Repair:
    """The state of one repair."""

    def __init__(self, versions: VersionStore, limits: Limits) -> None:
        self.versions, self.limits = versions, limits
        self.foreign: FormatError | None = None  # about the manifest of another table
        self.done: list[SetAside] = []

    def run(self, every: bool, foreign: bool) -> Steps[tuple[SetAside, ...]]:
        locations = yield from self.versions.versions()
        if foreign:
            self.foreign = yield from foreign_manifest(self.versions, locations, self.limits)
        waiting: list[_Damaged] = []  # above the next sound version
        sound: int | None = None
        for location in reversed(locations):
            found = yield from self._read(location, must_be_readable=sound is None or bool(waiting))
            if isinstance(found, _Damaged):
                waiting.append(found)
            elif found is not None:
                sound = found.version
                for damaged in waiting:
                    yield from self._replace(damaged, found)
                waiting.clear()
                if not every:
                    break
        if waiting and sound is None:
            problem = waiting[0].problem
            problem.what += NOTHING_SOUND
            raise problem
        for damaged in reversed(waiting):
            yield from self._remove(damaged)
        return tuple(self.done)

    # -- judging ----------------------------------------------------------------------------------

    def _read(
        self, location: ManifestLocation, *, must_be_readable: bool
    ) -> Steps[ManifestFile | _Damaged | None]:
        """A version, sound or damaged; None if it cannot be read and need not be."""
        data = yield from self._bytes(location)
        try:
            memory = np.frombuffer(data, np.uint8)
            stored = decode_manifest_file(memory, location.path, location.version, self.limits)
        except LanceError as error:
            if is_damage(error):
                return (yield from self._settled(_Damaged(location, data, error)))
            if must_be_readable:
                raise
            return None
        if self.foreign is not None and location.path == self.foreign.path:
            return _Damaged(location, data, self.foreign)
        return stored

    def _settled(self, damaged: _Damaged) -> Steps[_Damaged]:
        """The damaged version, if its bytes stay the same and are complete."""
        yield Pause(_SETTLING)
        location = damaged.location
        data = yield from self._bytes(location)
        if data != damaged.data or location.size not in (0, len(data)):
            raise ConflictError(
                f"{location.path} changes while it is read, so its writer may not have finished; nothing was done "
                "to it, repair the table later"
            )
        return damaged

    def _bytes(self, location: ManifestLocation) -> Steps[bytes]:
        try:
            memory: Memory = yield from again(Read(location.path))
        except DatasetNotFoundError as error:
            # Never skipped: the store may not show it yet, and then an older version would be taken for the newest.
            raise ConflictError(f"{location.path} is listed and not found: repair the table again") from error
        # A copy: on a disk the memory is a view of the file.
        return memory.tobytes()

    # -- writing ----------------------------------------------------------------------------------

    def _replace(self, damaged: _Damaged, sound: ManifestFile) -> Steps[None]:
        """Give a damaged version the rows of a sound one."""
        version = damaged.location.version
        transaction = new_transaction(
            _Again(sound.version, sound),
            sound.version,
            {COMMIT_MESSAGE: f"version {version} was damaged; its bytes are in {damaged.kept_as}"},
            token=f"set aside {version} {damaged.digest}",
        )
        # The time of the sound version, so that opening as of any time finds the same rows as before.
        stamp = VersionStamp(version, sound.message.timestamp.ToNanoseconds(), transaction.file_name)
        made = apply(sound, transaction.operation, stamp)
        data = encode_transaction(transaction, made.message)
        manifest = manifest_wire.encode(made.message, made.indices, data, made.dictionaries)
        yield from self._keep(damaged)
        yield from again(Put(f"{TRANSACTIONS}/{stamp.transaction_file}", data))
        location = damaged.location
        if not (yield from self.versions.replace(location, damaged.data, manifest)):
            raise ConflictError(f"{location.path} changed during the repair: repair the table again")
        self.done.append(damaged.reported(sound.version))

    def _remove(self, damaged: _Damaged) -> Steps[None]:
        """Remove a damaged version that no sound one precedes."""
        yield from self._keep(damaged)
        yield from self.versions.remove([damaged.location.path])
        self.done.append(damaged.reported(None))

    def _keep(self, damaged: _Damaged) -> Steps[None]:
        yield from again(Put(damaged.kept_as, damaged.data))
