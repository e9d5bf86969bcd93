"""Tags that keep the version of a shallow clone's source, so that a cleanup there removes no file the clone needs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from lancecy.errors import (
    CommitUnknownError,
    LanceError,
    NotFoundError,
    RefExistsError,
)
from lancecy.store.key_values.ddb_uri import data_uri
from lancecy.table.bases import spelling
from lancecy.table.commit.driver import drive
from lancecy.table.location import TableLocation
from lancecy.table.refs.contents import Tag
from lancecy.table.refs.files import create_tag, read_tag, remove_tag, replace_tag
from lancecy.table.refs.places import main_location
from lancecy.table.requests import Steps
from lancecy.table.snapshot import Snapshot, load_snapshot
from lancecy.table.versions import version_store

__all__ = ["CLONE", "protecting", "tag_for"]

T = TypeVar("T")

CLONE = "clone"
"""Key of a tag's metadata that has the URI of the clone it protects."""

_LONGEST = 40


def tag_for(target: str, version: int, branch: str | None = None) -> str:
    """The name of the tag that protects a clone; the same for a call that is repeated.

    Parameters
    ----------
    target : str
        URI of the clone.
    version : int
        The cloned version.
    branch : str, optional
        The branch it is of.

    Examples
    --------
    >>> tag_for("s3://bucket/my clones/a b.lance", 3)
    'clone-a-b.lance-13f2d52c0d66768c'
    """
    last = re.sub(r"[^A-Za-z0-9_.]+", "-", target.rstrip("/").rpartition("/")[2])
    # No tag may have "..".
    name = re.sub(r"\.+", ".", last)[:_LONGEST]
    unique = hashlib.sha256(repr((target, branch, version)).encode()).hexdigest()[:16]
    return f"clone-{name}-{unique}"


@contextmanager
def protecting(source: Snapshot, target: TableLocation, name: str | None) -> Iterator[None]:
    """Make a tag on a version, and within the block its clone; a clone that fails takes the tag with it.

    If it is unknown whether the clone was made, the tag stays. A tag that an earlier call left for the same clone is used.

    Parameters
    ----------
    source : Snapshot
        The version that is cloned.
    target : TableLocation
        Of the clone.
    name : str or None
        Of the tag; by default one made from the target.

    Raises
    ------
    ExistsError
        There is a tag of this name for something else.
    ValueError
        A tag cannot have this name.
    ConflictError
        A cleanup is removing the version.
    UnsupportedError
        The branch was moved without its main table, which has the tags.
    StoreError
        The storage failed, or does not allow to write.
    """
    branch = source.manifest.branch
    chosen = tag_for(target.uri, source.version, branch) if name is None else name
    tag = Tag(source.version, branch, metadata={CLONE: target.uri})
    is_new = _run(source, _kept(chosen, tag))
    try:
        yield
    except BaseException as error:
        if not _is_known(error, source, target):
            error.add_note(f"The tag {chosen!r} of {source.uri} stays, because the clone may be there.")
        elif is_new:
            with suppress(LanceError):
                _run(source, remove_tag(chosen))
                # Another process that makes the same clone uses the same tag.
                if _is_there(source, target):
                    _run(source, _kept(chosen, tag))
        raise
    if not is_new:
        # The process that made the tag may have failed meanwhile, and removed it.
        _run(source, _kept(chosen, tag))


def _kept(name: str, tag: Tag) -> Steps[bool]:
    """Create a tag, or use the one that is there for the same clone; returns whether it is new."""
    try:
        yield from create_tag(name, tag)
    except RefExistsError:
        there = yield from read_tag(name)
        wanted = (tag.version, tag.branch, tag.metadata)
        if there is None or (there.version, there.branch, there.metadata) != wanted:
            raise
        # A cleanup may have begun before the tag was complete.
        yield from replace_tag(name, there)
        return False
    return True


def _is_known(error: BaseException, source: Snapshot, target: TableLocation) -> bool:
    """Whether it can be found out if a clone that failed was made: the request of an interrupted one may be under way."""
    if isinstance(error, LanceError):
        return not isinstance(error, CommitUnknownError)
    return version_store(target.open(source.session)).fails_at_once


def _is_there(source: Snapshot, target: TableLocation) -> bool:
    """Whether a clone of a version may be at a location."""
    try:
        clone = load_snapshot(target, source.version, session=source.session)
    except NotFoundError:
        return False
    except LanceError:
        return True
    return data_uri(source.location.uri) in map(spelling, clone.manifest.base_paths.values())


def _run(source: Snapshot, steps: Steps[T]) -> T:
    location = main_location(source.location, source.manifest.branch)
    return drive(steps, location.open(source.session), source.session, location)
