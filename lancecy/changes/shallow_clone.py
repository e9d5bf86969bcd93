"""Shallow clones: tables that begin as a version of another one, and use its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lancecy.changes.base_files import moved_bases
from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    PathPolicyError,
    UnsupportedError,
    VersionNotFoundError,
)
from lancecy.store.key_values.ddb_uri import data_uri, shown_uri
from lancecy.store.uri import canonical_uri, scheme_of
from lancecy.table.commit.driver import commit_to
from lancecy.table.commit.options import Committed, Policy
from lancecy.table.location import TableLocation
from lancecy.table.operations import Clone, new_transaction
from lancecy.table.operations.clone import source_base_id
from lancecy.table.paths import DETACHED
from lancecy.table.placement import check_new_place
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file

__all__ = [
    "check_apart",
    "clone_location",
    "clone_of",
    "commit_clone",
    "is_of_one_kind",
    "shallow_clone",
    "stored_version",
]


def shallow_clone(source: Snapshot, target: TableLocation) -> Committed:
    """Create a table that begins as a version of another one and uses its files.

    Costs the reading and writing of one manifest, however many files the version has.

    Parameters
    ----------
    source : Snapshot
        A version of any table: of a branch, of a clone, or with files in several bases.
    target : TableLocation
        Where no table is. Its version gets the number of the source's.

    Raises
    ------
    ExistsError
        There is a table at the target.
    PathPolicyError
        One of the two places is inside the other, or the target in a folder that a table keeps for itself.
    UnsupportedError
        The source has features that this release cannot write.
    CommitError, StoreError
        See ``table.commit.commit``.
    """
    check_apart(source.location.uri, target.uri)
    check_new_place(target, source.session)
    try:
        return commit_clone(clone_of(source, target), target, source)
    except ExistsError:
        raise ExistsError(
            f"{target.uri} has a table already; clone to another place", kind="dataset", name=target.uri
        ) from None


def commit_clone(operation: Clone, target: TableLocation, source: Snapshot) -> Committed:
    """Commit a clone as the first version of the table at a location; errors as of :func:`shallow_clone`.

    Parameters
    ----------
    operation : Clone
    target : TableLocation
    source : Snapshot
    """
    transaction = new_transaction(operation, operation.version)
    store = target.open(source.session)
    policy = Policy(limits=target.limits)
    return commit_to(store, transaction, None, source.session, target, policy)


def clone_of(
    source: Snapshot, target: TableLocation, branch: str | None = None, *, is_shallow: bool = True
) -> Clone:
    """The operation that clones a version.

    Parameters
    ----------
    source : Snapshot
    target : TableLocation
    branch : str, optional
        Name of the branch to create.
    is_shallow : bool
    """
    if source.version >= DETACHED:
        raise UnsupportedError(
            f"version {source.version} is detached, so no table can begin with it: make it the newest version with "
            "restore() first",
            feature="clones and branches of detached versions",
        )
    known, stored = source.manifest.base_paths, stored_version(source)
    return Clone(
        source.version,
        # Cleanups of pylance find the files that branches need by this text: it has to be the URI that pylance opens.
        shown_uri(source.location.uri) if branch else _root_text(source.location.uri, target.uri),
        source.manifest.branch,
        branch,
        is_shallow,
        stored,
        # A clone elsewhere would not find the bases that moved with the source.
        places={
            number: replace(known[number], path=_root_text(place, target.uri))
            for number, place in moved_bases(source, stored).items()
        },
    )


def clone_location(
    source: Snapshot, uri: str, storage_options: Mapping[str, Any] | None = None
) -> TableLocation:
    """The location of a clone, by which the source's files can be read too.

    Parameters
    ----------
    source : Snapshot
    uri : str
        Path or URI of the clone.
    storage_options : mapping, optional
        For the clone's storage; by default those of the source. The source's are used for its files in either case.
    """
    known = source.location
    is_alike = is_of_one_kind(canonical_uri(uri), known.uri)
    of_bases = {key: value for key, value in known.storage_options.items() if key not in known.root_options}
    own = dict(storage_options or {})
    if storage_options is None and is_alike:
        own = known.root_options
    elif known.root_options != own or not is_alike:
        base = source_base_id(source.manifest.base_paths)
        of_bases |= {f"base_{base}.{key}": value for key, value in known.root_options.items()}
    allowed = (*known.allowed_bases, known.uri)
    return TableLocation.of(uri, {**of_bases, **own}, known.untrusted, allowed, known.limits)


def is_of_one_kind(uri: str, other: str) -> bool:
    """Whether two tables are in storage of one kind, such as S3, whatever commits their versions.

    Parameters
    ----------
    uri, other : str
        Canonical.
    """
    return scheme_of(data_uri(uri)) == scheme_of(data_uri(other))


def stored_version(source: Snapshot) -> ManifestFile:
    """The parts of a version's manifest file.

    Parameters
    ----------
    source : Snapshot

    Raises
    ------
    NotFoundError
        A cleanup removed the version.
    """
    path = source.manifest_file.path
    try:
        memory = source.store.get(path)
    except DatasetNotFoundError as error:
        number = str(source.version)
        raise VersionNotFoundError(
            f"version {number} of {source.uri} was removed since it was opened", name=number
        ) from error
    return decode_manifest_file(memory, path, source.version, source.limits)


def _root_text(source: str, target: str) -> str:
    """The source's root as the clone stores it: a URI if the clone is in a store of another kind."""
    source = data_uri(source)
    return source if scheme_of(source) == scheme_of(target) or "://" in source else Path(source).as_uri()


def check_apart(source: str, target: str) -> None:
    """Refuse a clone inside its source's folder, where a cleanup could remove its files, and the reverse.

    Parameters
    ----------
    source, target : str
        Canonical URIs.

    Raises
    ------
    PathPolicyError
    """
    for inner, outer in ((source, target), (target, source)):
        if f"{inner}/".startswith(f"{outer.rstrip('/')}/"):
            raise PathPolicyError(
                f"a clone of {source} cannot be at {target}, as {inner} is in the folder of the other: choose a place "
                "outside of it, or create a branch"
            )
