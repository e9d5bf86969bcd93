"""Runs cleanups over the storage of a table: one that was asked for, and the automatic one after a commit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from lancecy.errors import ConflictError, FormatError, LanceError, NotFoundError, warn
from lancecy.progress import Progress
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.uri import canonical_uri
from lancecy.table import flags
from lancecy.table.cleanup.automatic import auto_cleanup
from lancecy.table.cleanup.run import (
    CleanupOptions,
    CleanupPlan,
    CleanupStats,
    Scope,
    cleanup,
    cleanup_all,
    cleanup_plan,
)
from lancecy.table.commit.driver import drive, foreign_newest
from lancecy.table.commit.options import Committed
from lancecy.table.location import TableLocation
from lancecy.table.refs import Branch
from lancecy.table.refs.files import branches
from lancecy.table.refs.places import branch_location, main_location
from lancecy.table.requests import Steps
from lancecy.table.snapshot import Snapshot, load_snapshot
from lancecy.table.versions import version_store
from lancecy.table.versions.damage import with_remedy

__all__ = ["USED_BY", "clean", "clean_after", "clean_all", "plan_cleanup"]

T = TypeVar("T")

USED_BY = "lancecy.used_by"
"""Configuration key: roots of the tables that use files of this table, one per line."""

# Wrong configurations that were warned about, by the table's URI.
_WARNED: set[tuple[str, str]] = set()


def clean_after(committed: Committed, location: TableLocation, session: Session) -> None:
    """Clean up after a commit, if the table's configuration asks for it (``cleanup.automatic``).

    The version is committed already, so a failure here is a warning.

    Parameters
    ----------
    committed : Committed
    location : TableLocation
    session : Session
    """
    if not committed.config:
        return
    try:
        automatic = auto_cleanup(committed.config)
    except ValueError as error:
        _warn_once(location.uri, str(error))
        return
    if automatic is None or not automatic.is_due(committed.version):
        return
    try:
        newest = load_snapshot(location, committed.version, session=session)
        clean(newest, automatic.options(committed.version))
    except (ConflictError, NotFoundError):
        # Another cleanup is at work, or the table changed meanwhile: a later cleanup removes the rest.
        return
    except LanceError as error:
        warn(f"version {committed.version} is committed, but the automatic cleanup after it failed: {error}")


def _warn_once(uri: str, problem: str) -> None:
    if (uri, problem) not in _WARNED:
        _WARNED.add((uri, problem))
        warn(
            f"{uri} is not cleaned up automatically: in its configuration, {problem}. "
            "Correct the key with update_config, or remove it"
        )


def clean(
    newest: Snapshot,
    options: CleanupOptions,
    used_by: Iterable[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
    *,
    dry_run: bool = False,
) -> CleanupStats:
    """Clean up a table; see :meth:`Cleanups.cleanup_old_versions`.

    Parameters
    ----------
    newest : Snapshot
        The newest version of the table, or of the branch.
    options : CleanupOptions
    used_by : iterable of str or path
    progress : Progress, optional
    dry_run : bool

    Raises
    ------
    LanceError, ValueError
        See there.
    """
    _check(options)
    return _clean([newest], [options], used_by, progress, dry_run=dry_run)


def clean_all(
    newest: Snapshot,
    options: CleanupOptions,
    used_by: Iterable[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
    *,
    dry_run: bool = False,
) -> CleanupStats:
    """Clean up a main table and all its branches; parameters and errors as of :func:`clean`.

    The newest version of each branch stays; ``options.opened`` counts for the table of ``newest``.
    """
    _check(options)
    mine, session = newest.manifest.branch, newest.session
    main = main_location(newest.location, mine)
    known = drive(branches(main.limits), main.open(session), session, main)
    # A branch needs files of those that it starts from.
    names = [*sorted(known, key=lambda name: _depth(name, known), reverse=True), None]
    tables = [
        newest if name == mine else load_snapshot(branch_location(main, name), session=session)
        for name in names
    ]
    chosen = [options if table is newest else replace(options, opened=table.version) for table in tables]
    return _clean(tables, chosen, used_by, progress, dry_run=dry_run)


def _depth(name: str, known: Mapping[str, Branch]) -> int:
    """The number of branches from the main table to a branch."""
    passed = [name]
    while (parent := known[passed[-1]].parent) in known and parent not in passed and parent is not None:
        passed.append(parent)
    return len(passed)


def _check(options: CleanupOptions) -> None:
    if options.retain is not None and options.retain < 1:
        raise ValueError(f"retain_versions is {options.retain}; at least one version has to stay")
    if options.older_than_ns is not None and options.older_than_ns < 0:
        raise ValueError("older_than is negative")
    for name, limit in (
        ("delete_rate_limit", options.files_per_second),
        ("delete_concurrency", options.files_at_once),
    ):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} is {limit}; it has to be at least 1")


def _clean(
    tables: Sequence[Snapshot],
    options: Sequence[CleanupOptions],
    used_by: Iterable[str | os.PathLike[str]],
    progress: Progress | None,
    *,
    dry_run: bool,
) -> CleanupStats:
    """Clean up tables at their newest versions, which have the same main table."""
    place = _place_of(tables, used_by)
    work = [*zip(place.scopes, options, strict=True)]
    return place.run(
        cleanup_all(work, progress, dry_run=dry_run)
        if len(work) > 1
        else cleanup(*work[0], progress, dry_run=dry_run)
    )


def plan_cleanup(
    newest: Snapshot, options: CleanupOptions, used_by: Iterable[str | os.PathLike[str]] = ()
) -> CleanupPlan:
    """What :func:`clean` would remove; parameters and errors as there."""
    _check(options)
    place = _place_of([newest], used_by)
    return place.run(cleanup_plan(place.scopes[0], options))


@dataclass(frozen=True, slots=True)
class _Place:
    """The storage of tables that are cleaned up, and what other tables need of it.

    Attributes
    ----------
    scopes : list of Scope
        Of each table.
    location : TableLocation
        Of their main table.
    session : Session
    """

    scopes: list[Scope]
    location: TableLocation
    session: Session

    def run(self, steps: Steps[T]) -> T:
        """The result of a cleanup's requests."""
        store, own = self.location.open(self.session), self.location.open(self.session, follow_symlinks=False)
        try:
            return drive(steps, store, self.session, self.location, own)
        except FormatError as error:
            raise with_remedy(error, store.uri)


def _place_of(tables: Sequence[Snapshot], used_by: Iterable[str | os.PathLike[str]]) -> _Place:
    """The place of tables at their newest versions, which have the same main table."""
    named, noted, session = [canonical_uri(root) for root in used_by], list[str](), tables[0].session
    for newest in tables:
        flags.check_writable(newest.manifest.reader_flags, newest.manifest.writer_flags)
        noted += [
            line.strip() for line in newest.manifest.config.get(USED_BY, "").split("\n") if line.strip()
        ]
        # No version of another table needs files of this one: all of them would be removed.
        foreign = foreign_newest(newest.location, session)
        if foreign is not None:
            raise foreign.within("a cleanup that removed nothing")
    location = main_location(tables[0].location, tables[0].manifest.branch).allowing(named)
    users = tuple(dict.fromkeys((*named, *noted)))
    versions = version_store(location.open(session))
    scopes = [Scope(versions, newest.manifest.branch, users, limits=location.limits) for newest in tables]
    return _Place(scopes, location, session)
