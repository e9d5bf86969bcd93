"""Runs commits and cleanups over a store; the only place where they do IO.

The rest of the library calls :func:`commit_to`. A store that ignores "if absent" and overwrites an existing object
would lose commits silently, so each store is tested once per process, on a separate name, before its first
commit.

Facts: table sheet, section 5.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    FormatError,
    LanceError,
    StoreError,
    UnsupportedError,
)
from lancecy.session import Session
from lancecy.store.base import PutMode, Store
from lancecy.store.local import NETWORK, LocalStore
from lancecy.table.answers import answer, run
from lancecy.table.bases import Bases
from lancecy.table.commit.foreign_manifest import foreign_manifest
from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.commit.set_aside import SetAside, set_aside
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePaths, Fragment
from lancecy.table.missing import missing_file
from lancecy.table.operations import Transaction
from lancecy.table.paths import TEMPORARY, VERSIONS
from lancecy.table.requests import (
    HeadFile,
    InOtherTable,
    List,
    ListOwned,
    Now,
    RandomBits,
    Read,
    ReadDeletion,
    Remove,
    Request,
    Steps,
    StoreTime,
    Together,
)
from lancecy.table.snapshot import manifest_bytes
from lancecy.table.versions import VersionStore, version_store
from lancecy.table.versions.damage import with_remedy
from lancecy.table.versions.renaming import rename_manifests
from lancecy.table.wire.references import nanoseconds

__all__ = ["check_create", "commit_to", "drive", "foreign_newest", "rename_to_v2", "set_damaged_aside"]

T = TypeVar("T")

# Groups of requests to a disk that are made at the same time.
_LOCAL_GROUPS = 4
# Stores that refused a second create in the test.
_TRUSTED: set[str] = set()


def commit_to(
    store: Store,
    transaction: Transaction,
    origin: Origin | None,
    session: Session,
    location: TableLocation,
    policy: Policy | None = None,
    versions: VersionStore | None = None,
) -> Committed:
    """Make a transaction the next version of the table at the root of a store.

    Parameters
    ----------
    store : Store
        Rooted at the dataset.
    transaction : Transaction
    origin : Origin or None
        The version the change was made from; None creates a table.
    session : Session
    location : TableLocation
        Trust in the paths of the table.
    policy : Policy, optional
    versions : VersionStore, optional
        Publishes the version; by default the one for the kind of store.

    Raises
    ------
    UnsupportedError
        The store cannot create an object atomically, or ignores the request to.
    CommitError, ExistsError, NotFoundError, SchemaError, FormatError, StoreError
        See ``commit.commit``.
    """
    versions = versions or version_store(store)
    if versions.needs_conditional_put:
        check_create(store)
    try:
        return drive(commit(transaction, origin, policy or Policy(), versions), store, session, location)
    except FormatError as error:
        raise with_remedy(error, store.uri)


def set_damaged_aside(
    location: TableLocation, session: Session, *, every: bool = False, foreign: bool = False
) -> tuple[SetAside, ...]:
    """Set the damaged manifests of a table aside (``set_aside.set_aside``).

    Parameters
    ----------
    location : TableLocation
    session : Session
    every, foreign : bool
        See there.

    Raises
    ------
    LanceError
        See there.
    """
    store = location.open(session)
    try:
        return drive(
            set_aside(version_store(store), location.limits, every=every, foreign=foreign),
            store,
            session,
            location,
        )
    except FormatError as error:
        raise error.within(store.uri)


def rename_to_v2(location: TableLocation, session: Session, *, only_begun: bool = False) -> tuple[int, ...]:
    """Give the manifests of a table V2 names (``versions.renaming``); returns the versions that had V1 names.

    Parameters
    ----------
    location : TableLocation
    session : Session
    only_begun : bool
        See there.

    Raises
    ------
    LanceError
        See there.
    """
    store = location.open(session)
    versions = version_store(store)
    if versions.needs_conditional_put and not only_begun:
        check_create(store)
    try:
        return drive(rename_manifests(versions, only_begun=only_begun), store, session, location)
    except FormatError as error:
        raise error.within(store.uri)


def foreign_newest(location: TableLocation, session: Session) -> FormatError | None:
    """The error of a newest manifest that belongs to another table (``foreign_manifest.foreign_manifest``).

    Parameters
    ----------
    location : TableLocation
    session : Session

    Returns
    -------
    FormatError or None
        With the path of the manifest and the remedy.

    Raises
    ------
    UnsupportedError, StoreError
        See there.
    """
    store = location.open(session)
    versions = version_store(store)

    def search() -> Steps[FormatError | None]:
        locations = yield from versions.versions()
        return (yield from foreign_manifest(versions, locations, location.limits))

    problem = drive(search(), store, session, location)
    return None if problem is None else with_remedy(problem, store.uri)


def check_create(store: Store, *, commits: bool = True) -> None:
    """Refuse a store that creates the same name twice; tested once per process and bucket (or file system).

    A commit through an external manifest store, or under a lock, needs no such create, and the store is not tested.

    Parameters
    ----------
    store : Store
    commits : bool
        Whether it is for a commit. A tag or a branch is created in the store itself.

    Raises
    ------
    UnsupportedError
        The store does so, or has no atomic create; the message names the remedy.
    StoreError
        The storage failed.
    """
    # Two servers may have a bucket of the same name.
    place = f"{_place(store.uri)} {getattr(store, 'service', '')}"
    if place in _TRUSTED or (commits and not version_store(store).needs_conditional_put):
        return
    # Readers ignore such names, and a cleanup removes them.
    probe = f"{VERSIONS}/{TEMPORARY}_probe_{secrets.token_hex(8)}"
    made = store.missing_folders(probe) if isinstance(store, LocalStore) else ()
    try:
        _create(store, probe, commits)
        try:
            store.put(probe, b"2", PutMode.CREATE)
        except ExistsError:
            _TRUSTED.add(place)
            return
    finally:
        with suppress(StoreError, UnsupportedError):
            store.delete([probe])
        # A write that fails later leaves nothing of this.
        LocalStore.remove_folders(made)
    raise _refusal(store, "replaces objects that were to be created only if they are absent", commits)


def _create(store: Store, path: str, commits: bool) -> None:
    try:
        store.put(path, b"1", PutMode.CREATE)
    except UnsupportedError as error:
        raise _refusal(store, "cannot create an object only if it is absent", commits) from error


def _refusal(store: Store, why: str, commits: bool) -> UnsupportedError:
    if commits:
        loss = "its commit, so nothing is written here"
        remedy = (
            "commit the table through an external manifest store (s3+ddb:// or the storage option manifest_store), "
            "or under a commit_lock"
        )
    else:
        loss = "its tag or branch, so none is made here"
        remedy = "tags and branches are objects of the store even if versions are committed elsewhere; keep tables that need them on a store with conditional puts"
    return UnsupportedError(
        f"{store.uri} {why}: of two writers one would silently lose {loss}; {remedy}",
        feature="conditional put",
    )


def _place(uri: str) -> str:
    """The place tested once: a bucket or server, or a file system, which the number of its device tells apart."""
    scheme, _, rest = uri.partition("://")
    if scheme in ("", "file") or not rest:
        there = f"{rest or uri}/{VERSIONS}"
        for _ in range(there.count("/") + 1):
            # Another process may remove a folder at any moment.
            with suppress(OSError):
                return f"device {os.stat(there or '/').st_dev}"  # noqa: PTH116
            there = there.rpartition("/")[0]
    return f"{scheme}://{rest.partition('/')[0]}"


def drive(
    steps: Steps[T], store: Store, session: Session, location: TableLocation, own: Store | None = None
) -> T:
    """Run a generator of requests to its end over a store.

    Parameters
    ----------
    steps : generator of requests
    store : Store
        Rooted at the dataset.
    session : Session
    location : TableLocation
    own : Store, optional
        The same store without symbolic links, for listing and removing files.

    Raises
    ------
    LanceError
        As the generator raises.
    """
    return run(steps, _Answers(store, session, location, own or store).answer)


def _store_time(store: Store) -> int | None:
    """The time by the clock that dates a store's objects; for a disk the local clock."""
    if isinstance(store, LocalStore) and store.traits != NETWORK:
        return time.time_ns()
    probe = f"{VERSIONS}/{TEMPORARY}_clock_{secrets.token_hex(8)}"
    try:
        store.put(probe, b"1")
        # Objects are dated by listings, and some stores give whole seconds elsewhere.
        listed = next(iter(store.list(VERSIONS, start_after=probe[:-1])), None)
    finally:
        with suppress(StoreError):
            store.delete([probe])
    if listed is None or listed.path != probe or listed.modified is None:
        return None
    return nanoseconds(listed.modified)


class _Answers:
    """Answers each request from a store."""

    def __init__(self, store: Store, session: Session, location: TableLocation, own: Store) -> None:
        self.store = store
        self.own = own
        self.session = session
        self.location = location

    def answer(self, request: Request) -> Any:
        match request:
            case Together(requests):
                return self._together(requests)
            case ReadDeletion(bases, fragment_id, file):
                known = self._bases(bases)
                store, path = known.deletion(fragment_id, file)
                try:
                    return store.get(path)
                except DatasetNotFoundError as error:
                    raise missing_file(error, known, Fragment(fragment_id, deletion_file=file))
            case Read(path, None, identity) if identity:
                kept = manifest_bytes(self.session, self.location.limits, self.store, path, identity)
                return self.store.get(path) if kept is None else kept
            case HeadFile(bases, file):
                store, path = self._bases(bases).data(file)
                return store.head(path)
            case ListOwned(folder):
                return list(self.own.list(folder))
            case Remove():
                return answer(request, self.own)
            case StoreTime():
                return _store_time(self.own)
            case InOtherTable(place, List(folder)):
                store, prefix = self._table(place)
                return [replace(m, path=m.path[len(prefix) :]) for m in store.list(prefix + folder)]
            case InOtherTable(place, Read(path)):
                store, prefix = self._table(place)
                return store.get(prefix + path)
        return answer(request, self.store)

    def _together(self, requests: Sequence[Request]) -> list[Any]:
        if any(isinstance(each, Now | RandomBits) for each in requests):
            return self._in_turn(requests)
        # On a disk a request takes less than passing it to a thread, unless it waits for a sync.
        size = -(-len(requests) // _LOCAL_GROUPS) if isinstance(self.store, LocalStore) else 1
        groups = [requests[at : at + size] for at in range(0, len(requests), size)]
        return [*chain.from_iterable(self.session.map_requests(self._in_turn, groups))]

    def _in_turn(self, requests: Sequence[Request]) -> list[Any]:
        return [self._tried(each) for each in requests]

    def _tried(self, request: Request) -> Any:
        """The answer to one of several requests, or its error."""
        try:
            return self.answer(request)
        except LanceError as error:
            return error

    def _table(self, place: str) -> tuple[Store, str]:
        """Store of another table and the prefix of its paths; the policy for bases applies."""
        return self._bases(BasePaths()).table(place)

    def _bases(self, bases: BasePaths) -> Bases:
        return Bases(self.store, self.location, bases, self.session)
