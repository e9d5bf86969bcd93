"""Tags that keep the version of a shallow clone's source, so that a cleanup there removes no file the clone needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lancecy.errors import CommitUnknownError, LanceError
from lancecy.table.commit.driver import drive
from lancecy.table.refs.contents import Tag
from lancecy.table.refs.files import create_tag, remove_tag
from lancecy.table.refs.places import main_location
from lancecy.table.requests import Steps
from lancecy.table.snapshot import Snapshot

__all__ = ["CLONE", "protecting", "tag_for"]

CLONE = "clone"
"""Key of a tag's metadata that has the URI of the clone it protects."""

_LONGEST = 40


def tag_for(target: str) -> str:
    """A new name for the tag that protects a clone.

    Parameters
    ----------
    target : str
        URI of the clone.

    Examples
    --------
    >>> tag_for("s3://bucket/my clones/a b.lance")[:-8]
    'clone-a-b.lance-'
    """
    last = re.sub(r"[^A-Za-z0-9_.]+", "-", target.rstrip("/").rpartition("/")[2])
    # No tag may have "..".
    name = re.sub(r"\.+", ".", last)[:_LONGEST]
    return f"clone-{name}-{os.urandom(4).hex()}"


@contextmanager
def protecting(source: Snapshot, target: str, name: str | None) -> Iterator[None]:
    """Make a tag on a version, and within the block its clone; a clone that fails takes the tag with it.

    If it is unknown whether the clone was made, the tag stays.

    Parameters
    ----------
    source : Snapshot
        The version that is cloned.
    target : str
        URI of the clone.
    name : str or None
        Of the tag; by default one made from the target.

    Raises
    ------
    ExistsError
        There is a tag of this name.
    ValueError
        A tag cannot have this name.
    ConflictError
        A cleanup is removing the version.
    UnsupportedError
        The branch was moved without its main table, which has the tags.
    StoreError
        The storage failed, or does not allow to write.
    """
    chosen = tag_for(target) if name is None else name
    _run(source, create_tag(chosen, Tag(source.version, source.manifest.branch, metadata={CLONE: target})))
    try:
        yield
    except CommitUnknownError as error:
        error.add_note(f"The tag {chosen!r} of {source.uri} stays, because the clone may be there.")
        raise
    except LanceError:
        with suppress(LanceError):
            _run(source, remove_tag(chosen))
        raise


def _run(source: Snapshot, steps: Steps[object]) -> None:
    location = main_location(source.location, source.manifest.branch)
    drive(steps, location.open(source.session), source.session, location)
