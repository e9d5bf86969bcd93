"""Restore: makes an old version the newest one.

Moved bases keep their current places, and ids assigned since the old version stay assigned. A base keeps its id
when it moves, but equal ids do not prove equal bases: a restore to a version before the registration of a base
removes it, and another base may then get its id. So bases are followed from version to version, and through
restores to the restored version.

Source: table sheet, sections 4.3 and 7; storage layout specification, "Base Path System".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Self

from lancecy.errors import FormatError, UnsupportedError, VersionNotFoundError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import BasePath
from lancecy.table.operations.base import (
    Footprint,
    Newest,
    NewManifest,
    Operation,
    References,
    VersionStamp,
)
from lancecy.table.operations.base_paths import move_bases
from lancecy.table.operations.foreign import check_no_mem_wal
from lancecy.table.operations.new_fragments import max_fragment_id, message_faults
from lancecy.table.paths import DETACHED
from lancecy.table.requests import Steps
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["BasesAt", "Restore", "followed"]


@dataclass(frozen=True, slots=True)
class Restore(Operation):
    """Make an old version the newest one again.

    Attributes
    ----------
    version : int
    stored : ManifestFile or None
        That version, after :meth:`resolve`.
    bases : mapping of id to BasePath, or None
        Current places of that version's bases, after :meth:`resolve`; None if the newest version has them.
    """

    kinds = ("restore",)
    needs_read_version = False

    version: int
    stored: ManifestFile | None = field(default=None, repr=False, compare=False)
    bases: Mapping[int, BasePath] | None = field(default=None, repr=False, compare=False)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("restore"),)

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """Read the version and the current places of its bases.

        Raises
        ------
        NotFoundError
            There is no such version.
        UnsupportedError
            It is a detached version with other bases than the newest.
        """
        stored = (yield from newest.others.at(self.version)) if before is None else before[0].stored
        if stored is None:
            raise VersionNotFoundError(
                f"there is no version {self.version} to restore", name=str(self.version)
            )
        return replace(self, stored=stored, bases=(yield from _bases_by_now(stored, newest)))

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        if self.stored is None:
            raise ValueError("the version to restore is missing")
        old = self.stored.manifest
        flags.check_writable(old.reader_flags, old.writer_flags)
        check_no_mem_wal(base)
        if base.manifest.has_stable_row_ids and not old.has_stable_row_ids:
            raise UnsupportedError(
                f"version {old.version} has no stable row ids, so restoring it would give rows new ids",
                feature="restore without stable row ids",
            )
        made = NewManifest.copy_of(self.stored)
        _keep_given_out(made.message, base.message)
        move_bases(made.message, base.manifest.base_paths if self.bases is None else self.bases)
        return made

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.restore.version = self.version

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Restore:
        return cls(message.restore.version)

    def references(self) -> References:
        return References(version=self.version)


def _keep_given_out(message: table_pb2.Manifest, newest: table_pb2.Manifest) -> None:
    """Keep fragment and row ids assigned that were assigned since the restored version."""
    largest = max(max_fragment_id(newest), max_fragment_id(message))
    if largest >= 0:
        message.max_fragment_id = largest
    used = message_faults(newest).largest + 1  # a restore also repairs a next id that is too low
    message.next_row_id = max(newest.next_row_id, message.next_row_id, used)


def _bases_by_now(stored: ManifestFile, newest: Newest) -> Steps[dict[int, BasePath] | None]:
    """Current places of a version's bases, None if the newest version has all of them unchanged."""
    old, new = stored.manifest, newest.stored.manifest
    if all(new.base_paths.get(number) == base for number, base in old.base_paths.items()):
        return None
    if old.version >= DETACHED:
        raise UnsupportedError(
            f"bases of the table were moved or removed since the detached version {old.version} was made, and only the "
            "history tells where they are now",
            feature="restore of a detached version with other bases",
        )
    versions: dict[int, BasesAt] = {}
    first, stop = old.version, new.version + 1
    while first < stop:
        for version in range(first, stop):
            between = stored if version == old.version else (yield from _read(version, newest))
            if between is not None:
                restored = yield from _restored_by(between, newest)
                versions[version] = BasesAt(version, between.manifest.base_paths, restored)
        # After a restore, bases are identified by the versions since the restored one.
        stop, first = first, min(at.restored or first for at in versions.values())
    return followed(old.version, [versions[version] for version in sorted(versions)])


def _read(version: int, newest: Newest) -> Steps[ManifestFile | None]:
    """A version in between, None if it is removed or unreadable; other versions locate the bases."""
    try:
        return (yield from newest.others.at(version))
    except (FormatError, UnsupportedError):
        return None


def _restored_by(stored: ManifestFile, newest: Newest) -> Steps[int | None]:
    """The version that a version restored, None if no restore made it."""
    operation = yield from newest.others.operation(stored)
    return operation.version if isinstance(operation, Restore) else None


@dataclass(frozen=True, slots=True)
class BasesAt:
    """The bases of a version.

    Attributes
    ----------
    version : int
    bases : mapping of id to BasePath
    restored : int or None
        The restored version, if a restore made this one.
    """

    version: int
    bases: Mapping[int, BasePath]
    restored: int | None = None


def followed(old: int, versions: Sequence[BasesAt]) -> dict[int, BasePath]:
    """The bases of an old version, each in its form in the newest version that has it.

    Parameters
    ----------
    old : int
        Number of the version.
    versions : sequence of BasesAt
        This version and later ones in order, from the earliest one that any of them restored; without removed ones.

    Examples
    --------
    >>> here, there, other = (BasePath(1, path) for path in ("/here", "/there", "/other"))
    >>> versions = [BasesAt(1, {}), BasesAt(2, {1: here}), BasesAt(3, {1: there})]
    >>> followed(2, versions)[1].path
    '/there'
    >>> followed(2, [*versions, BasesAt(4, {}, restored=1), BasesAt(5, {1: other})])[1].path
    '/there'
    """
    # For each version: base id to the version that registered the base.
    since: dict[int, dict[int, int]] = {}
    found: dict[int, BasePath] = {}
    before = 0
    for version in versions:
        if version.restored is not None:
            before = max((number for number in since if number <= version.restored), default=before)
        known = since.get(before, {})
        mine = {number: known.get(number, version.version) for number in version.bases}
        since[version.version], before = mine, version.version
        if version.version >= old:
            wanted = since[old].items() & mine.items()
            found.update({number: version.bases[number] for number, _ in wanted})
    return found
