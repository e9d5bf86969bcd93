"""The commit loop: makes a transaction the next version, or raises.

::

    newest version  ->  check for conflicts        ->  apply mine to it   ->  transaction file, manifest if absent
        ^                  conflict: stop                                          |
        '------------------ another writer was faster -----------------------------'

Generators over ``requests``: no IO, no clock, no randomness of their own, so the simulator drives this
very code. Invariants: a transaction is in the history at most once, because the transaction id of every version
made since the read version is checked before an attempt; a commit that may have happened is never reported as
failed (``CommitUnknownError``); nothing is deleted.

Facts: table sheet, sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from lancecy.errors import (
    CommitError,
    CommitUnknownError,
    ConflictError,
    ContentionError,
    DatasetNotFoundError,
    ExistsError,
    LanceError,
    RetryableConflictError,
    UnsupportedError,
    VersionNotFoundError,
)
from lancecy.schema_wire import check_fields
from lancecy.store.base import ObjectMeta
from lancecy.table.commit.conflicts import Verdict, check
from lancecy.table.commit.history import History
from lancecy.table.commit.late import Place, Published, place_of
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.manifest import BasePaths, Fragment
from lancecy.table.operations import UNKNOWN, Operation, Transaction, encode_transaction
from lancecy.table.operations.apply import apply
from lancecy.table.operations.base import Added, Newest, NewManifest, VersionStamp
from lancecy.table.paths import DETACHED, TRANSACTIONS, Naming
from lancecy.table.requests import HeadFile, Now, Pause, Put, RandomBits, Steps
from lancecy.table.versions import ManifestLocation, Outcome, VersionStore
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.manifest import Written
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Committed", "Origin", "Policy", "commit"]

# Listings before a version is made, at most.
_CATCH_UPS = 10
_FRESH_NS = 10 * 10**9
# A commit that takes no longer than this is not checked: others need more time to make several versions and remove the first.
_PROMPT_NS = 10**9
_PROMPT_ON_DISK_NS = 4 * 10**6
# Configuration key of tables that are cleaned up after commits (``cleanup.automatic``).
_CLEANED_UP = "lance.auto_cleanup.interval"


def commit(
    transaction: Transaction, origin: Origin | None, policy: Policy, versions: VersionStore
) -> Steps[Committed]:
    """Requests that make a transaction the next version.

    Parameters
    ----------
    transaction : Transaction
    origin : Origin or None
        None creates a table.
    policy : Policy
    versions : VersionStore

    Raises
    ------
    RetryableConflictError
        The change must be made again from the newest version.
    ConflictError
        A later version excludes the change, or the change cannot be checked against it.
    ContentionError
        Every race was lost.
    CommitUnknownError
        The commit may have happened.
    ExistsError
        The table to create already exists.
    NotFoundError
        The version to restore does not exist.
    SchemaError, UnsupportedError, FormatError, LimitError
        See ``operations.apply``; nothing was published.
    CommitError
        A new data file is missing or has another size; or the change was made from a detached version.
    StoreError
        The storage failed before anything was published.
    """
    return (yield from _Commit(transaction, origin, policy, versions).run())


class _Commit:
    """The state of one commit."""

    def __init__(
        self, transaction: Transaction, origin: Origin | None, policy: Policy, versions: VersionStore
    ) -> None:
        self.transaction = transaction
        self.policy = policy
        self.origin = origin
        self.versions = versions
        self.naming = policy.naming if origin is None else origin.naming
        self.history = History(versions, self.naming, policy.limits)
        self.seen = transaction.operation.first_version - 1 if origin is None else origin.version
        self.base: ManifestFile | None = None
        self.doubt: int | None = None  # a version that this transaction may have made
        self.checked: BasePaths | None = None  # bases with which new files were checked
        self.written: tuple[str, bytes] | None = None  # the transaction file
        self.found = False  # whether the referenced version was found after the transaction file was written
        self.resolved: tuple[Operation, ManifestFile] | None = None  # of the last attempt
        self.outcome: Outcome | None = None  # of the last race
        self.config: Mapping[str, str] = {}  # of the last attempt
        self.made: NewManifest | None = None  # of the last attempt
        self.stamped = 0  # when it was made
        self.columns: dict[int, tuple[str, ...]] = {}  # last paths of the fields in new files

    def run(self) -> Steps[Committed]:
        try:
            return (yield from self._detached() if self.policy.detached else self._race())
        except LanceError as error:
            if self.doubt is None:
                raise error.within(f"a commit that did not happen{self._left()}")
            raise CommitUnknownError(
                f"version {self.doubt} may be this commit (transaction {self.transaction.uuid}): {error}. Open the "
                "table and look for it before committing again, and delete none of the files of this commit"
            ) from error

    def _left(self) -> str:
        """The files that a failed commit leaves behind, for messages."""
        made = ("transaction" if self.written else "", self.resolved[0].writes if self.resolved else "")
        kinds = [kind for kind in made if kind]
        return f" and leaves {' and '.join(kinds)} files to a cleanup" if kinds else ""

    def _race(self) -> Steps[Committed]:
        if self.seen >= DETACHED:
            raise CommitError(
                f"version {self.seen} is detached, so no version of the history can follow it: commit with "
                "detached=True, or make it the newest version with restore()"
            )
        if self.policy.once:
            earlier = yield from self.history.landed(self.transaction.uuid, self.seen)
            if earlier is not None:
                return Committed(earlier, 0)
        end = yield from self._end()
        for attempt in range(1, self.policy.attempts + 1):
            began: int = yield Now()
            mine = yield from self._catch_up()
            if mine is not None:
                return self._found(mine, attempt - 1)
            self._check_is_next()
            version = self.seen + 1
            data = yield from self._prepared(version)
            self.doubt = version
            self.outcome = yield from self._published(version, data)
            location = ManifestLocation.canonical(version, self.naming, len(data))
            if self.outcome is Outcome.WON:
                yield from self._check_in_time(location, began)
                written = None if self.made is None else Written(data, self.made.message)
                return Committed(location, attempt, self.config, written)
            if self.outcome is Outcome.LOST and self.versions.fails_at_once:
                # On a disk the first and only try tells: the version is another writer's, who may remove it soon.
                self.doubt = None
            yield Pause(attempt)
            if end is not None and (yield Now()) > end:
                break
        mine = yield from self._catch_up()
        if mine is not None:
            return self._found(mine, attempt)
        raise ContentionError(
            f"{attempt} other writers committed first: version {self.seen} is the newest this one saw; "
            "nothing was committed, try again"
        )

    def _check_in_time(self, location: ManifestLocation, began: int) -> Steps[None]:
        """Check that others have not made and removed the version that was just published, since ``began`` (``late``).

        Raises
        ------
        RetryableConflictError
            They have; the version was removed again.
        CommitUnknownError
            They may have.
        """
        if self.made is None:
            return
        now: int = yield Now()
        prompt = _PROMPT_ON_DISK_NS if self.versions.fails_at_once else _PROMPT_NS
        # Where every commit cleans up and the server is near, others may need less time.
        may_hurry = _CLEANED_UP in self.config and not self.versions.fails_at_once
        if 0 <= now - began <= prompt and not may_hurry:
            return
        published = Published(location, self.made, self.base, 0 <= now - self.stamped <= prompt)
        place = Place.IN_TIME
        # The version is published: a look that fails leaves it so.
        with suppress(LanceError):
            place = yield from place_of(published, self.history)
        if place is Place.UNKNOWN:
            raise CommitUnknownError(
                "newer versions do not have this change: others made them at the same time, or have undone it since"
            )
        if place is Place.LATE:
            self.doubt = None
            raise RetryableConflictError(
                f"others made version {location.version} and removed it, while this commit was about to make it: open "
                "the newest version and repeat the change"
            )

    def _check_is_next(self) -> None:
        """Refuse a change that may only follow the version it was made from, if there are later ones."""
        if self.policy.next_only and self.origin is not None and self.seen != self.origin.version:
            raise RetryableConflictError(
                f"version {self.seen} was committed since version {self.origin.version} was read: "
                "open it and repeat the change"
            )

    def _end(self) -> Steps[int | None]:
        """When no new attempt is made; None without a limit."""
        if self.policy.timeout_ns is None:
            return None
        now: int = yield Now()
        return now + self.policy.timeout_ns

    def _detached(self) -> Steps[Committed]:
        """Make the version that the change was made from, with the change, a version outside the history.

        No other writer can conflict: the numbers are random, and the version it was made from never changes.
        """
        if self.origin is None or self.naming is not Naming.V2:
            what = (
                "a table is created by" if self.origin is None else "a table with manifest names of V1 gets"
            )
            raise UnsupportedError(
                f"{what} a version of its history, and no detached one", feature="detached versions"
            )
        yield from self._read_origin(self.origin, None, is_old=False)
        for attempt in range(1, self.policy.attempts + 1):
            bits: int = yield RandomBits()
            version = bits | DETACHED
            data = yield from self._prepared(version)
            self.doubt = version
            outcome = yield from self._published(version, data)
            if outcome is Outcome.UNKNOWN:
                raise CommitUnknownError("a request failed, and the version is there now")
            if outcome is Outcome.WON:
                return Committed(ManifestLocation.canonical(version, self.naming, len(data)), attempt)
            self.doubt = None  # an earlier detached version has this number
        raise ContentionError(
            f"{self.policy.attempts} random numbers of detached versions are taken; try again"
        )

    def _found(self, mine: ManifestLocation, attempts: int) -> Committed:
        """The result for a transaction found in the history; an error if the disk did not sync it."""
        if self.outcome is Outcome.UNKNOWN and self.versions.fails_at_once:
            self.doubt = mine.version
            raise CommitUnknownError("it is there now, but the storage failed to make it durable")
        return Committed(mine, attempts, self.config)

    def _published(self, version: int, data: bytes) -> Steps[Outcome]:
        try:
            return (yield from self.versions.publish(version, self.naming, data))
        except CommitUnknownError:
            raise
        except LanceError:
            self.doubt = None  # certain: the version was not published
            raise

    # -- applying ---------------------------------------------------------------------------------

    def _prepared(self, version: int) -> Steps[bytes]:
        """The manifest file of this transaction as ``version``; writes the files that it needs first."""
        operation = yield from self._resolved()
        time_ns: int = yield Now()
        stamp = VersionStamp(version, time_ns, self.transaction.file_name, self.policy.detached)
        made = apply(self.base, operation, stamp)
        self.config = dict(made.message.config)
        resolved = self.transaction
        if operation is not resolved.operation:
            resolved = replace(resolved, operation=operation)
        data = encode_transaction(resolved, made.message)
        if self.written != (stamp.transaction_file, data):
            yield Put(f"{TRANSACTIONS}/{stamp.transaction_file}", data)
            self.written = (stamp.transaction_file, data)
        # Only after the transaction file is written: a cleanup that finds it spares the files it names, and this check
        # misses files that an earlier cleanup removed.
        yield from self._check_references(operation, made)
        if self.base is None or made.message.fields != self.base.message.fields:
            check_fields(made.message.fields, self.policy.limits)
        self.made, self.stamped = made, time_ns
        return manifest_wire.encode(made.message, made.indices, data, made.dictionaries)

    def _resolved(self) -> Steps[Operation]:
        """The operation, resolved against the newest version."""
        operation = self.transaction.operation
        if self.base is None:
            return operation
        newest = Newest(self.base, self.history, self.policy.limits)
        resolved = yield from operation.resolve(newest, self.resolved)
        self.resolved = (resolved, self.base)
        return resolved

    def _check_references(self, operation: Operation, made: NewManifest) -> Steps[None]:
        """Check that the version and the files that the change refers to exist."""
        needed = operation.references()
        if needed.fragments and self.policy.check_files and not (yield from self._is_fresh()):
            yield from self._check_files(needed.fragments, made.bases)
        if needed.version is not None and not self.found:
            if (yield from self.history.at(needed.version)) is None:
                raise VersionNotFoundError(
                    f"version {needed.version}, which this change refers to, was removed",
                    name=str(needed.version),
                )
            self.found = True

    def _is_fresh(self) -> Steps[bool]:
        """Whether no cleanup can have removed the new files yet, unless it was told to remove files of any age.

        The clock is read after the transaction file is written: a cleanup that finds it spares the files.
        """
        began = self.policy.written_ns
        return began is not None and 0 <= (yield Now()) - began <= _FRESH_NS

    def _check_files(self, fragments: Sequence[Fragment], bases: BasePaths) -> Steps[None]:
        """Check that new files exist with their size, once for each set of bases."""
        if self.checked == bases:
            return
        for file in [file for fragment in fragments for file in fragment.files]:
            try:
                meta: ObjectMeta = yield HeadFile(bases, file)
            except DatasetNotFoundError as error:
                raise CommitError(
                    f"data file {file.path!r} is missing; nothing was committed, write its rows again"
                ) from error
            if file.size is not None and meta.size != file.size:
                raise CommitError(
                    f"data file {file.path!r} has {meta.size} bytes instead of {file.size}; nothing was committed, write its rows again"
                )
        self.checked = bases

    # -- later versions ---------------------------------------------------------------------------

    def _catch_up(self) -> Steps[ManifestLocation | None]:
        """Bring ``base`` to the newest version; returns a location if a new version is this very transaction."""
        if self.origin is None:
            first = next(iter((yield from self.versions.versions())), None)
            if first is None and self.doubt is not None:
                first = yield from self.versions.at(self.doubt, self.naming)
            return None if first is None else (yield from self._created(first))
        for _ in range(_CATCH_UPS):
            if self.base is None:
                there, newer = yield from self.history.since(self.seen, self.doubt)
                yield from self._read_origin(self.origin, there, is_old=bool(newer))
            else:
                newer = yield from self.history.newer(self.seen, self.doubt)
            mine = yield from self._pass(newer)
            # Others make more versions while several are read, so that every race would be lost.
            if mine is not None or len(newer) < 2:
                return mine
        return None

    def _pass(self, newer: Sequence[ManifestLocation]) -> Steps[ManifestLocation | None]:
        """Check the change against later versions, of which ``base`` becomes the last."""
        doubtful: list[Fragment] = []
        for location in newer:
            stored = yield from self.history.stored(location, insist=location.version == self.doubt)
            if stored is None:
                raise RetryableConflictError(
                    f"version {location.version} was removed before this commit could check it for conflicts: "
                    "open the newest version and repeat the change"
                )
            theirs = yield from self.history.transaction(stored)
            if theirs is not None and theirs.uuid == self.transaction.uuid:
                return location
            self.doubt = None if location.version == self.doubt else self.doubt
            doubtful += self._check(theirs, stored)
            self.base, self.seen = stored, location.version
        if doubtful and self.base is not None:
            yield from self._check_keys(Added(self.base, newer[-1].path, tuple(doubtful)))
        return None

    def _check_keys(self, added: Added) -> Steps[None]:
        """Refuse rows that others added if they may have keys of the rows that mine adds."""
        mine = self.transaction.operation
        if (yield from mine.adds_same_keys(added)):
            raise RetryableConflictError(
                f"rows that were added up to version {self.seen} may have keys that this one, an operation of kind "
                f"{mine.name}, adds too: repeat it from the newest version"
            )

    def _created(self, first: ManifestLocation) -> Steps[ManifestLocation]:
        """The first version of an existing table; raises ExistsError unless it is this very transaction."""
        stored = yield from self.history.stored(first, insist=first.version == self.doubt)
        if stored is not None:
            theirs = yield from self.history.transaction(stored)
            if theirs is not None and theirs.uuid == self.transaction.uuid:
                return first
            self.doubt = None if first.version == self.doubt else self.doubt
        raise ExistsError(
            "there is a table already, whose first version is not this change; append to it or overwrite it",
            kind="dataset",
        )

    def _read_origin(self, origin: Origin, listed: ManifestLocation | None, is_old: bool) -> Steps[None]:
        """Read the version the change was made from, and refuse one that differs from the opened version."""
        stored = yield from (
            self.history.at(origin.version) if listed is None else self.history.stored(listed)
        )
        if stored is None:
            if is_old:
                return  # a cleanup removed it; all later transactions exist
            # A cleanup removes a version only after a newer one was made; otherwise the table was created again.
            newer = yield from self.history.newer(self.seen, self.doubt)
            raise (RetryableConflictError if newer else ConflictError)(
                f"version {origin.version}, which this change was made from, is gone: open the newest version "
                "and repeat the change"
            )
        if origin.identity is not None and stored.identity != origin.identity:
            raise ConflictError(
                f"version {origin.version} is not the one that was opened: the table was created again, so open it again"
            )
        self.base = stored

    def _check(self, theirs: Transaction | None, stored: ManifestFile) -> tuple[Fragment, ...]:
        """Refuse a conflict; returns fragments that are one if they have keys of the rows that mine adds."""
        operation = UNKNOWN if theirs is None else theirs.operation
        mine = self.transaction.operation
        verdict = check(mine, operation)
        doubtful: tuple[Fragment, ...] = ()
        if verdict is Verdict.RETRY and self.base is not None:
            verdict = check(mine, operation, other_keys=True)
            if verdict is not Verdict.RETRY:
                doubtful = stored.added_since(self.base, self.policy.limits)
        what = f"version {stored.version} (an operation of kind {operation.name})"
        if verdict is Verdict.INCOMPATIBLE:
            raise ConflictError(
                f"{what} and this one, an operation of kind {mine.name}, cannot both be applied; open the "
                "newest version and decide again"
            )
        if verdict is Verdict.RETRY or self._clashes(operation, stored):
            raise RetryableConflictError(
                f"{what} changed data that an operation of kind {mine.name} depends on: repeat it "
                "from the newest version"
            )
        if verdict is Verdict.MERGE:
            # Merged deletes are a change of the version that has the other deletes.
            self.transaction = replace(self.transaction, read_version=stored.version)
        return doubtful

    def _clashes(self, theirs: Operation, stored: ManifestFile) -> bool:
        """Whether a column of new files is another one now, so that its values would be lost or misread.

        It is if its field id was given out again, if a cast gave its values another id, and if a column of its name was
        added after it was dropped. Columns that were only dropped or renamed do not clash.
        """
        written = self.transaction.operation.written_fields()
        if written is None or not theirs.changes_schema:
            return False
        if self.base is None:
            return True
        before, after = self.base.field_types, stored.field_types
        if any(before.get(i) != after[i] for i in written if i in after):
            return True
        if written & (before.keys() - after.keys()) and after.keys() - before.keys():
            return True
        paths = self.base.field_paths
        self.columns.update((i, paths[i]) for i in written if i in paths)
        dropped = {path for i, path in self.columns.items() if i not in after}
        return not dropped.isdisjoint(stored.field_paths.values())
