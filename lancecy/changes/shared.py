"""Distributed writes: planned once, written by many workers, committed once.

Workers need the plan and no manifest, so all of them write the same columns with the same ids, even if
the table changes meanwhile. Only returned fragments are committed, under a token, so a scheduler may repeat tasks and
commits. The names of all files of a write end in the same tag, by which they can be found after a failure.

A scheduler tells of a failure while other parts are still being written. If this process waits for the parts, a marker
stands in the table's folder as long: a worker that finishes a part and finds it gone removes its files.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from lancecy.changes.commit import commit_from
from lancecy.changes.markers import WriteMarker
from lancecy.changes.options import CommitRequest, WriteRequest, with_durability
from lancecy.changes.planning import Plan, planned
from lancecy.changes.zone_maps import PartZones, WrittenZones, plans_of
from lancecy.errors import CommitError, CommitUnknownError, DatasetNotFoundError, LanceError
from lancecy.records import dataclass
from lancecy.session import Session, default
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.bases import canonical_base
from lancecy.table.commit.driver import check_create
from lancecy.table.commit.options import Committed, Origin
from lancecy.table.location import TableLocation
from lancecy.table.manifest import Fragment
from lancecy.table.operations import ReserveFragments, new_transaction
from lancecy.table.paths import TEMPORARY, TRANSACTIONS, VERSIONS
from lancecy.table.snapshot import Snapshot, load_snapshot
from lancecy.write.fragments import NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.schemas import schema_of

__all__ = ["SharedWrite", "share", "share_planned", "told_parts"]

_TAG_BYTES = 8
# The search for files of a failed write stops after this many names in one folder.
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class SharedWrite:
    """A planned write for many workers; made by :func:`share`.

    Pickles without secrets, unless the location embeds them; workers then use the credentials of their environment.

    Attributes
    ----------
    location : TableLocation
        Embeds credentials if workers are to get them.
    plan : Plan
    options : WriteRequest
    commit_options : CommitRequest
        Has a token.
    origin : Origin or None
        The version the write was planned from; None for a new table.
    tag : str
        Suffix of the names of all files.
    folders : tuple of str
        Local folders that were missing when the write was planned, the innermost first.
    is_awaited : bool
        Whether the process that planned the write waits for the parts, in :meth:`awaited`.
    session : Session
        Not pickled; other processes use their default session.
    zonemaps : bool or tuple of str
        Columns of which workers make zone maps.
    """

    location: TableLocation
    plan: Plan
    options: WriteRequest
    commit_options: CommitRequest
    origin: Origin | None
    tag: str
    folders: tuple[str, ...]
    is_awaited: bool
    session: Session = field(repr=False)
    zonemaps: bool | tuple[str, ...] = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (
            self.location,
            self.plan,
            self.options,
            self.commit_options,
            self.origin,
            self.tag,
            self.folders,
            self.is_awaited,
            self.zonemaps,
        )

    def __dask_tokenize__(self) -> object:
        return ("lancecy.write.SharedWrite", self.tag)

    def write(self, batches: Iterable[pa.RecordBatch], number: int = 0) -> tuple[FragmentMetadata, ...]:
        """Write one part of the rows.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            Batches with the columns of the plan, in any order.
        number : int
            Number of the part. Each part begins with the next base, so that all fill evenly.

        Raises
        ------
        SchemaError, UnsupportedError, StoreError
            As ``fragments.NewFiles.write``; the files of this part are removed.
        CommitError
            The write was given up meanwhile; the files of this part are removed.
        """
        return self._write(batches, number, None)

    def write_part(self, batches: Iterable[pa.RecordBatch], number: int) -> str:
        """:meth:`write` for a process that sends the result to another, which reads it by :func:`told_parts`.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
        number : int

        Returns
        -------
        str
            JSON: the fragments, and zone maps if they are made.

        Raises
        ------
        LanceError
            As for :meth:`write`.
        """
        zones = WrittenZones.of(self.zonemaps, None, ())
        made = self._write(batches, number, zones)
        return json.dumps(
            {
                "fragments": [fragment.to_json() for fragment in made],
                "zones": None if zones is None else zones.part.to_json(),
            }
        )

    def _write(
        self, batches: Iterable[pa.RecordBatch], number: int, zones: WrittenZones | None
    ) -> tuple[FragmentMetadata, ...]:
        files = self.plan.new_files(self.location, self.session, self.options, self.tag, number)
        try:
            made = files.write(batches if zones is None else zones.watched(batches), zones)
            self.check_awaited(files, number)
        except BaseException:
            if self.is_given_up():
                LocalStore.remove_folders(self.folders)
            raise
        return made

    def check_awaited(self, files: NewFiles, number: int) -> None:
        """Remove the finished files of a part if the write was given up meanwhile.

        Parameters
        ----------
        files : NewFiles
        number : int
            Number of the part.

        Raises
        ------
        CommitError
            It was.
        """
        # Looked for after the files are there: those that the other side missed are removed here.
        if self.is_given_up():
            files.remove()
            raise CommitError(
                f"the write to {self.location.uri} was given up while part {number} was written, or this worker "
                "does not see the folder of the table; the files of this part were removed"
            )

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Wait for the parts within the block; if it fails, the files are removed and the error gets a note.

        The marker stays until :meth:`commit`, so that no cleanup removes versions which the commit has to look at.
        """
        store = self.location.open(self.session)
        if self.is_awaited:
            WriteMarker(self.tag).put(store, 0 if self.origin is None else self.origin.version)
        try:
            yield
        except BaseException as error:
            self._unmark(store)
            self.failed(error)
            raise

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Commit within the block, by other means than :meth:`commit`: removes the marker afterwards.

        After an error of the commit, the files are removed, unless a version may name them.
        """
        try:
            yield
        except CommitUnknownError:
            raise
        except LanceError:
            self.clear()
            raise
        finally:
            self.ended()

    def ended(self) -> None:
        """Remove the marker after a commit that was not made by :meth:`commit`, or in place of it."""
        self._unmark(self.location.open(self.session))

    def _unmark(self, store: Store) -> None:
        if self.is_awaited:
            WriteMarker(self.tag).remove(store)

    def is_given_up(self) -> bool:
        """Whether the process that waits for the parts does so no more."""
        return self.is_awaited and WriteMarker(self.tag).is_gone(self.location.open(self.session))

    def commit(self, fragments: Iterable[Fragment], *, clear: bool = True) -> Committed:
        """Commit the fragments to the table; repeated calls commit once.

        Removes the files if another write with the same token was committed before.

        Parameters
        ----------
        fragments : iterable of Fragment
            Fragments of all parts, in order.
        clear : bool
            Whether to remove the files if the commit fails permanently.

        Raises
        ------
        LanceError
            See ``table.commit.commit``.
        """
        operation = self.plan.operation(self.options, tuple(fragments), is_new=self.origin is None)
        location = self.location.allowing(map(canonical_base, self.plan.bases))
        try:
            committed = commit_from(operation, location, self.session, self.origin, self.commit_options)
        except CommitUnknownError:
            raise
        except LanceError:
            if clear:
                self.clear()
            raise
        else:
            if committed.data is None and not self._is_in(location, committed.version):
                self.clear()
            return committed
        finally:
            self.ended()

    def _is_in(self, location: TableLocation, version: int) -> bool:
        """Whether a version has files of this write, or cannot tell."""
        try:
            fragments = load_snapshot(location, version, session=self.session).manifest.fragments
        except LanceError:
            return True
        ending = f"{self.tag}.lance"
        return any(file.path.endswith(ending) for fragment in fragments for file in fragment.files)

    @property
    def may_be_committed(self) -> bool:
        """Whether a commit was begun, so that its outcome is only in the table's history."""
        # The name does not depend on the operation.
        version = 0 if self.origin is None else self.origin.version
        name = new_transaction(ReserveFragments(0), version, token=self.commit_options.token).file_name
        try:
            self.location.open(self.session).head(f"{TRANSACTIONS}/{name}")
        except DatasetNotFoundError:
            return False
        return True

    def clear(self) -> int:
        """Remove the files of an abandoned write that can be found, and the folders it made; return their number."""
        removed = 0
        for base in dict.fromkeys(self.plan.targets):
            with suppress(LanceError):
                removed += self._clear(base)
        LocalStore.remove_folders(self.folders)
        return removed

    def _clear(self, base: int | None) -> int:
        store, prefix = self.plan.folder(self.location, self.session, self.options)(base)
        folder = prefix.rstrip("/")
        found = [meta.path for meta in islice(store.list(folder), _MOST_NAMES)]
        ours = [
            name for name in found if name.endswith(f"{self.tag}.lance") and name.rpartition("/")[0] == folder
        ]
        # Blobs are in a folder named after their data file.
        blobs = [name for name in found if name.rpartition("/")[0].endswith(self.tag)]
        store.delete([*ours, *blobs])
        if isinstance(store, LocalStore):
            # Other stores have no folders.
            emptied = {name.rpartition("/")[0] for name in blobs}
            store.remove_folders([f"{store.uri}/{name}" for name in emptied])
        return sum(not name.rpartition("/")[2].startswith(TEMPORARY) for name in ours)

    def failed(self, error: BaseException) -> None:
        """Remove the files after a part failed, and add a note to its error.

        Parameters
        ----------
        error : BaseException
        """
        count = self.clear()
        late = f"files called *{self.tag}.lance may appear later, if a worker is killed while it writes"
        if self.origin is None:
            told = f"there is no table at {self.location.uri}"
            advice = f"{late}: no reader ever sees them, and they can be deleted"
        else:
            told = f"nothing was committed to {self.location.uri}"
            advice = f"{late}: no reader ever sees them, and cleanup_old_versions removes them"
        error.add_note(
            f"The write failed, and {told}. {count} data files of other parts were removed; {advice}."
        )


def told_parts(texts: Iterable[str]) -> tuple[list[FragmentMetadata], list[PartZones]]:
    """Fragments and zone maps of all parts of a write, in the order of the parts.

    Parameters
    ----------
    texts : iterable of str
        From :meth:`SharedWrite.write_part`.
    """
    told = [json.loads(text) for text in texts]
    fragments = [FragmentMetadata.from_json(made) for part in told for made in part["fragments"]]
    return fragments, [PartZones.from_json(part["zones"]) for part in told if part["zones"] is not None]


def share(
    schema: pa.Schema,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
    commit_options: CommitRequest,
    *,
    embed_credentials: bool = False,
    is_awaited: bool = False,
    zonemaps: bool | Sequence[str] = False,
) -> SharedWrite:
    """Plan a write for many workers.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the rows to be written.
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        A version of the table; None for a new table.
    options : WriteRequest
    commit_options : CommitRequest
        Gets a new token if it has none.
    embed_credentials : bool
    is_awaited : bool
        See ``SharedWrite``.
    zonemaps : bool or sequence of str
        Columns of which workers make zone maps; True is all that have an order.

    Raises
    ------
    LanceError, ValueError, TypeError
        As ``planning.planned``; or a base is not allowed, or the store cannot be committed to; or there are no zone
        maps of a column.
    """
    columns = tuple(plan.column for plan in plans_of(schema_of(schema), zonemaps)) if zonemaps else False
    plan = planned(schema, location, session, snapshot, options)
    plan.check_apart(snapshot is None or options.mode == "overwrite")
    folder = plan.folder(location, session, options)
    places = [folder(base) for base in dict.fromkeys(plan.targets)]
    places += [(location.open(session), f"{kind}/") for kind in (TRANSACTIONS, VERSIONS)]
    check_create(with_durability(location.open(session), options.durable))
    origin = None
    if snapshot is not None:
        origin = Origin(snapshot.version, snapshot.manifest_file.naming, snapshot.identity)
    tag = secrets.token_hex(_TAG_BYTES)
    if commit_options.token is None:
        commit_options = replace(commit_options, token=f"shared write {secrets.token_hex(16)}")
    sent, made = location.with_credentials(embed_credentials), _missing_folders(places)
    return SharedWrite(sent, plan, options, commit_options, origin, tag, made, is_awaited, session, columns)


def share_planned(
    plan: Plan, snapshot: Snapshot, options: WriteRequest, *, embed_credentials: bool = False
) -> SharedWrite:
    """The files of a change of a table that many workers write; the process that calls this waits for them.

    Parameters
    ----------
    plan : Plan
    snapshot : Snapshot
    options : WriteRequest
    embed_credentials : bool
    """
    tag = secrets.token_hex(_TAG_BYTES)
    origin = Origin(snapshot.version, snapshot.manifest_file.naming, snapshot.identity)
    commit = CommitRequest(token=f"shared write {secrets.token_hex(16)}", durable=options.durable)
    sent = snapshot.location.with_credentials(embed_credentials)
    return SharedWrite(sent, plan, options, commit, origin, tag, (), True, snapshot.session)


def _missing_folders(places: Iterable[tuple[Store, str]]) -> tuple[str, ...]:
    """Local folders that files in these places would create, the innermost first."""
    found = [
        made
        for store, prefix in places
        if isinstance(store, LocalStore)
        for made in store.missing_folders(f"{prefix}f")
    ]
    return tuple(sorted(dict.fromkeys(found), key=len, reverse=True))


def _arrived(
    location: TableLocation,
    plan: Plan,
    options: WriteRequest,
    commit_options: CommitRequest,
    origin: Origin | None,
    tag: str,
    folders: tuple[str, ...],
    is_awaited: bool,
    zonemaps: bool | tuple[str, ...],
) -> SharedWrite:
    session = default().with_limits(location.limits)
    known = location.known_to(session)
    return SharedWrite(
        known, plan, options, commit_options, origin, tag, folders, is_awaited, session, zonemaps
    )
