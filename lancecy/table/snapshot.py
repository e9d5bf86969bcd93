"""A dataset at one version: all immutable state needed to read it.

:func:`load_snapshot` finds and checks the manifest: one listing and one read. Deletion vectors, row
ids and file sizes are fetched on first use, and mostly kept in the session's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import cached_property

import numpy as np

from lancecy.errors import (
    DatasetNotFoundError,
    FormatError,
    LanceError,
    MissingFileError,
    NotFoundError,
    TruncatedError,
)
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.session import Session, default
from lancecy.store.base import Memory, Store, looks_once
from lancecy.store.reads import SourceFile
from lancecy.table import flags
from lancecy.table.bases import Bases
from lancecy.table.location import TableLocation
from lancecy.table.manifest import (
    DataFile,
    ExternalFile,
    Fragment,
    IndexEntry,
    Manifest,
    without_row_counts,
)
from lancecy.table.missing import missing_file
from lancecy.table.refs.names import TREE, branch_path, is_branch_name
from lancecy.table.refs.opening import removed_version, unknown_branch
from lancecy.table.refs.places import main_location
from lancecy.table.refs.reference import Reference, parse_reference, resolve
from lancecy.table.rows import deletion
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.rows.id_index import RowIndex
from lancecy.table.rows.id_index_build import index_rows
from lancecy.table.rows.row_ids import RowIdSequence, VersionSequence
from lancecy.table.versions import ManifestLocation, VersionStore, locate, version_store
from lancecy.table.versions.damage import with_remedy_for_missing
from lancecy.table.versions.select import select_manifest
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest import Written
from lancecy.table.wire.manifest_file import identity_of
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions

__all__ = [
    "RowCounts",
    "Snapshot",
    "committed_snapshot",
    "load_reference",
    "load_snapshot",
    "manifest_bytes",
    "newest_snapshot",
]

# Positions are signed 64-bit numbers, so larger sizes are impossible.
_LARGEST_FILE = 1 << 62


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows of each fragment as the manifest states them; None where it does not.

    Attributes
    ----------
    physical : tuple of int or None
        Deleted rows included.
    live : tuple of int or None
        Deleted rows subtracted.
    """

    physical: tuple[int | None, ...]
    live: tuple[int | None, ...]

    @property
    def num_rows(self) -> int | None:
        """Live rows of all fragments, None if any is unknown."""
        total = 0
        for count in self.live:
            if count is None:
                return None
            total += count
        return total


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A dataset at one version. Made by :func:`load_snapshot`; immutable, and safe to share between threads.

    Attributes
    ----------
    store : Store
        Rooted at the dataset.
    manifest : Manifest
    bases : Bases
        Resolves every path of the manifest.
    session : Session
        Has the limits of the location.
    location : TableLocation
        The address it was opened by.
    versions : VersionStore
        Finds and publishes the versions of the dataset.
    manifest_file : ManifestLocation
    identity : str
        Differs for different manifest files, also for the same version of a recreated dataset.
    """

    store: Store
    manifest: Manifest
    bases: Bases
    session: Session
    location: TableLocation
    versions: VersionStore
    manifest_file: ManifestLocation
    identity: str

    @property
    def limits(self) -> Limits:
        """Limits on values that its files state."""
        return self.location.limits

    @property
    def uri(self) -> str:
        """Canonical URI of the dataset, without secrets."""
        return self.store.uri

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def schema(self) -> Schema:
        return self.manifest.schema

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Fragments by ascending id."""
        return self.manifest.fragments

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """Cache key of values read through this snapshot."""
        return (self.version, self.identity, *self.location.key)

    @cached_property
    def derived(self) -> dict[type, object]:
        """Values that layers above make of this snapshot and keep with it, by their class."""
        return {}

    @cached_property
    def is_mapped(self) -> bool:
        """Whether all files are memory-mapped, so that reading costs no request."""
        return self.bases.is_mapped

    @cached_property
    def row_counts(self) -> RowCounts:
        """Physical and live rows of every fragment, from metadata alone."""
        physical = tuple(fragment.physical_rows for fragment in self.fragments)
        return RowCounts(physical, tuple(fragment.live_rows for fragment in self.fragments))

    def latest_version(self) -> int:
        """Number of the newest version now (one listing)."""
        return locate.latest(self.store, self.versions).version

    def source(self, file: DataFile) -> SourceFile:
        """A data file, with its size from the store: manifests state wrong sizes for 0.1 files.

        Raises
        ------
        PathPolicyError, FormatError, UnsupportedError
            See ``Bases.data``.
        DatasetNotFoundError
            The file is missing.
        """
        return self.seen(file)[0]

    def seen(self, file: DataFile) -> tuple[SourceFile, Callable[[], Memory] | None]:
        """:meth:`source`, and for a mapped file a function for its bytes, which does not look at the file again."""
        store, path = self.bases.data(file)
        if looks_once(store):
            size, identity, whole = store.look(path)
            return SourceFile(store, path, size, identity), whole
        meta = store.head(path)
        return SourceFile(store, path, meta.size, meta.identity), None

    def claimed_source(self, file: DataFile) -> SourceFile | None:
        """A data file as the manifest describes it; None if the store must be asked, or is asked without a request.

        The size is valid only if the file's footer ends there.

        Raises
        ------
        PathPolicyError, FormatError, UnsupportedError
            See ``Bases.data``.
        """
        if file.is_legacy or not file.size or file.size > _LARGEST_FILE:
            return None
        store, path = self.bases.data(file)
        if store.traits.is_mapped:
            return None
        # The store has not confirmed the file, so only files of this very table count as the same.
        return SourceFile(store, path, file.size, f"{self.version}-{self.identity}")

    def in_fragment(self, error: LanceError, fragment: Fragment) -> LanceError:
        """An error with the fragment it happened in, to be raised; one about a missing file names its base too.

        Parameters
        ----------
        error : LanceError
        fragment : Fragment
        """
        if isinstance(error, DatasetNotFoundError):
            told = missing_file(error, self.bases, fragment)
            is_advised = not isinstance(told, MissingFileError) or any(
                advice in told.what for advice in ("lancecy.repair", "shallow_clone")
            )
            return told if is_advised else with_remedy_for_missing(told, self.uri, self.version)
        return error.within(f"fragment {fragment.id}")

    def dictionary_source(self) -> SourceFile:
        """The manifest file, which holds the values of 0.1 dictionary fields."""
        return SourceFile(self.store, self.manifest_file.path, self.manifest_file.size, self.identity)

    def deletions(self, fragment: Fragment, num_rows: int | None = None) -> DeletionVector | None:
        """The deleted rows of a fragment, None without any.

        Parameters
        ----------
        fragment : Fragment
        num_rows : int, optional
            Physical rows, if the caller knows them better than the manifest.

        Raises
        ------
        FormatError
            The deletion file is damaged or contradicts the manifest.
        MissingFileError
            It is missing.
        """
        file = fragment.deletion_file
        if file is None:
            return None
        rows = fragment.physical_rows if num_rows is None else num_rows
        store, path = self.bases.deletion(fragment.id, file)

        def load() -> DeletionVector:
            try:
                return deletion.decode(self._whole(store, path), file, rows, self.limits)
            except FormatError as error:
                raise error.within(path)
            except DatasetNotFoundError as error:
                raise missing_file(error, self.bases, fragment)

        key = ("deletions", store.uri, path, file.num_deleted_rows, rows, self.identity, self.location.key)
        return self.session.cache.get(key, load, lambda vector: vector.nbytes + 200)

    def row_ids(self, fragment: Fragment) -> RowIdSequence | None:
        """Stable row ids of a fragment, None if it has none.

        Raises
        ------
        FormatError
            The sequence is damaged, or not as long as the fragment.
        MissingFileError
            The file that holds it is missing.
        """
        stored = fragment.row_ids
        if stored is None:
            return None

        def load() -> RowIdSequence:
            try:
                return decode_row_ids(self._bytes(stored), fragment.physical_rows, self.limits)
            except FormatError as error:
                raise error.within(f"row ids of fragment {fragment.id}")
            except DatasetNotFoundError as error:
                raise missing_file(error, self.bases, fragment)

        key = ("row ids", self.uri, self.version, self.identity, fragment.id, self.location.key)
        return self.session.cache.get(key, load, lambda sequence: sequence.nbytes + 200)

    def created_versions(self, fragment: Fragment) -> VersionSequence | None:
        """The version that created each row of a fragment; 1 if nothing is stored, None if its rows are unknown."""
        return self._versions(fragment, fragment.created_at_versions, "created")

    def updated_versions(self, fragment: Fragment) -> VersionSequence | None:
        """The version that last changed each row of a fragment; as :meth:`created_versions`."""
        return self._versions(fragment, fragment.last_updated_versions, "updated")

    def row_index(self) -> RowIndex:
        """The index from stable row ids to row addresses; made on first use.

        Raises
        ------
        FormatError
            A fragment has no row ids or damaged ones, or two live rows have the same id.
        LimitError
            More unordered ids than an index holds.
        """
        key = ("row index", self.uri, self.version, self.identity, self.location.key)
        return self.session.cache.get(key, lambda: index_rows(self), lambda index: index.nbytes + 1000)

    def indices(self) -> tuple[IndexEntry, ...]:
        """The index section's entries.

        Raises
        ------
        FormatError
            The section is damaged.
        """
        if self.manifest.index_section is None:
            return ()
        start, length = self.manifest.index_section
        self.limits.check("metadata_bytes", length, "size of the index section")
        file = self.manifest_file
        whole = manifest_bytes(self.session, self.limits, self.store, file.path, file.identity)
        if whole is None or start + length > whole.size:
            found = self.store.get(file.path, start, start + length)
        else:
            found = whole[start : start + length]
        return decode_index_section(found.tobytes(), self.limits)

    def _versions(
        self, fragment: Fragment, stored: bytes | ExternalFile | None, kind: str
    ) -> VersionSequence | None:
        if stored is None:
            rows = fragment.physical_rows
            return None if rows is None else VersionSequence.constant(1, rows)

        def load() -> VersionSequence:
            try:
                return decode_versions(self._bytes(stored), fragment.physical_rows, self.limits)
            except FormatError as error:
                raise error.within(f"{kind} versions of fragment {fragment.id}")
            except DatasetNotFoundError as error:
                raise missing_file(error, self.bases, fragment)

        key = (kind, self.uri, self.version, self.identity, fragment.id, self.location.key)
        return self.session.cache.get(key, load, lambda sequence: sequence.nbytes + 200)

    def _bytes(self, stored: bytes | ExternalFile) -> bytes:
        if isinstance(stored, bytes):
            return stored
        store, path = self.bases.external(stored)
        self.limits.check("metadata_bytes", stored.size, f"part of {path}: size")
        size = store.head(path).size
        if stored.offset > size or stored.size > size - stored.offset:
            raise TruncatedError(
                f"{stored.size} bytes at byte {stored.offset} of a file of {size} bytes", path=path
            )
        return store.get(path, stored.offset, stored.offset + stored.size).tobytes()

    def _whole(self, store: Store, path: str) -> Memory:
        if store.traits.is_mapped:
            return store.get(path)
        size = store.head(path).size
        self.limits.check("metadata_bytes", size, f"size of {path}")
        return store.get(path, 0, size)


def load_snapshot(
    location: TableLocation,
    version: Reference = None,
    asof: date | str | None = None,
    session: Session | None = None,
    recover: bool = False,
) -> Snapshot:
    """The dataset at a location, at its latest or a given version.

    Parameters
    ----------
    location : TableLocation
        Location of the dataset (or of a branch, ``{root}/tree/{branch}``).
    version : int, str, or (str or None, int or None), optional
        A number, the name of a tag, or a branch and its version (``refs.reference``).
    asof : datetime or str, optional
        The newest version made at or before this time (``locate.parse_time``); ignored with the number of a version.
    session : Session, optional
        By default the process's own session.
    recover : bool
        If the newest manifest is damaged, open the newest sound version instead, with a warning.

    Raises
    ------
    DatasetNotFoundError
        There is no dataset.
    NotFoundError
        There is no such version, branch or tag, or the version of the tag was removed.
    TypeError, ValueError
        ``version`` is no reference.
    FormatError, LimitError
        The manifest is damaged, or exceeds the limits.
    UnsupportedError
        The table needs a feature that this release lacks.
    StoreError
        The storage failed.

    Examples
    --------
    >>> load_snapshot(TableLocation.of("example.lance")).version
    2
    """
    session = (session or default()).with_limits(location.limits)
    found = parse_reference(version)
    if isinstance(found, (str, tuple)):
        return load_reference(location, _branch_at(location, session), found, session, asof, recover)
    store = location.open(session)
    try:
        versions = version_store(store)
        file, manifest, memory = select_manifest(store, versions, found, asof, recover, location.limits)
        flags.check_readable(manifest.reader_flags, manifest.writer_flags)
    except FormatError as error:
        raise error.within(store.uri)
    if file.identity:
        key = _manifest_key(store, file.path, file.identity)
        session.cache.keep(key, memory, memory.size + 200)
    return _snapshot(location, store, versions, file, manifest, memory, session)


def _snapshot(
    location: TableLocation,
    store: Store,
    versions: VersionStore,
    file: ManifestLocation,
    manifest: Manifest,
    memory: Memory,
    session: Session,
) -> Snapshot:
    if location.storage_options:
        # Scan tasks carry no secrets; in this process they look the options up here.
        session.remember_options(location.uri, location.storage_options)
    if manifest.writer is None:
        manifest = without_row_counts(manifest)
    bases = Bases(store, location, manifest.bases, session)
    return Snapshot(store, manifest, bases, session, location, versions, file, identity_of(memory.data))


def _manifest_key(store: Store, path: str, identity: str) -> tuple[Hashable, ...]:
    return ("manifest file", store.uri, path, identity)


def manifest_bytes(session: Session, limits: Limits, store: Store, path: str, identity: str) -> Memory | None:
    """The bytes of a manifest file that a session has read, None if it has not, or keeps them no more.

    Parameters
    ----------
    session : Session
    limits : Limits
    store : Store
    path : str
    identity : str
        ``ObjectMeta.identity`` of the file now.
    """
    found: Memory | None = session.with_limits(limits).cache.find(_manifest_key(store, path, identity))
    return found


def load_reference(
    location: TableLocation,
    branch: str | None,
    reference: Reference,
    session: Session,
    asof: date | str | None = None,
    recover: bool = False,
) -> Snapshot:
    """The dataset that a reference names, as seen from the main table or a branch.

    Parameters
    ----------
    location : TableLocation
    branch : str or None
        The branch at this location; None for the main table.
    reference : int, str, (str or None, int or None), or None
        See ``refs.reference``; None is the newest version here.
    session : Session
    asof : datetime or str, optional
    recover : bool
        See :func:`load_snapshot`.

    Raises
    ------
    LanceError, TypeError, ValueError
        As :func:`load_snapshot`.
    """
    place, target, version = resolve(location, branch, reference, session)
    try:
        return load_snapshot(place, version, asof, session, recover)
    except NotFoundError as error:
        if isinstance(reference, str):
            raise removed_version(main_location(location, branch), reference, error) from error
        if target is not None and target != branch and isinstance(error, DatasetNotFoundError):
            raise unknown_branch(main_location(location, branch), target, session) from error
        raise


def _branch_at(location: TableLocation, session: Session) -> str | None:
    """The branch of the table at a location; None for a main table."""
    root, mark, name = location.uri.partition(f"/{TREE}/")
    if not mark:
        return None
    if mark not in name and is_branch_name(name):
        # The file of the branch costs one request, a manifest two. A branch left by a crash has no file.
        with suppress(LanceError):
            replace(location, uri=root).open(session).head(branch_path(name))
            return name
    return load_snapshot(location, session=session).manifest.branch


def newest_snapshot(location: TableLocation, session: Session) -> Snapshot | None:
    """The dataset at a location at its newest version, None if there is no dataset.

    Parameters
    ----------
    location : TableLocation
    session : Session

    Raises
    ------
    LanceError
        As :func:`load_snapshot`.
    """
    try:
        return load_snapshot(location, session=session)
    except DatasetNotFoundError:
        return None


def committed_snapshot(
    location: TableLocation,
    version: int,
    session: Session,
    written: tuple[ManifestLocation, Written] | None = None,
) -> Snapshot:
    """The dataset at a version just committed, or at the newest one if a cleanup removed that version already.

    Parameters
    ----------
    location : TableLocation
    version : int
    session : Session
    written : (ManifestLocation, Written), optional
        The manifest file of the version, if this process wrote it: it is not read then.

    Raises
    ------
    LanceError
        As :func:`load_snapshot`.
    """
    session = session.with_limits(location.limits)
    store = location.open(session)
    if written is not None:
        file, data = written
        memory = np.frombuffer(data, np.uint8)
        manifest = manifest_wire.decode_written(data, location.limits)
        return _snapshot(location, store, version_store(store), file, manifest, memory, session)
    try:
        return load_snapshot(location, version, session=session)
    except NotFoundError:
        # Later versions were made since, with a cleanup after them; they have this commit.
        return load_snapshot(location, session=session)
