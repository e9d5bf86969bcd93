"""Lists, reads, creates, replaces and removes the files of tags and branches.

Generators over ``requests``; all paths begin at the main table's root.

Facts: table sheet, section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    PathPolicyError,
    RefExistsError,
    StoreError,
    printable,
)
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.refs.contents import Branch, Pin, Tag, decode_branch, decode_pin, decode_tag, encode_tag
from lancecy.table.refs.guards import holding, is_hold, manifest_size
from lancecy.table.refs.names import (
    BRANCHES,
    REFS,
    TAGS,
    branch_of,
    branch_path,
    check_tag_name,
    tag_of,
    tag_path,
)
from lancecy.table.requests import TRIES, Create, Head, List, Now, Pause, Put, Read, Remove, Steps, again

__all__ = ["branches", "create_tag", "pins", "read_branch", "read_tag", "remove_tag", "replace_tag", "tags"]

T = TypeVar("T")


def tags(limits: Limits = DEFAULT_LIMITS) -> Steps[dict[str, Tag]]:
    """All tags, by name in ascending order.

    Raises
    ------
    FormatError, LimitError
        A file is damaged.
    StoreError
        The storage failed.
    """
    return (yield from _all(TAGS, tag_of, decode_tag, limits))


def branches(limits: Limits = DEFAULT_LIMITS) -> Steps[dict[str, Branch]]:
    """All branches, by name in ascending order; errors as of :func:`tags`."""
    return (yield from _all(BRANCHES, branch_of, decode_branch, limits))


def pins(limits: Limits = DEFAULT_LIMITS) -> Steps[frozenset[Pin]]:
    """The versions that tags and branches need, with one listing; errors as of :func:`tags`."""
    found = yield from _all(REFS, _ref_of, decode_pin, limits)
    return frozenset(found.values())


def read_tag(name: str, limits: Limits = DEFAULT_LIMITS) -> Steps[Tag | None]:
    """A tag by its name, None if there is none; errors as of :func:`tags`."""
    return (yield from _one(tag_path(name), decode_tag, limits))


def read_branch(name: str, limits: Limits = DEFAULT_LIMITS) -> Steps[Branch | None]:
    """A branch by its name, None if there is none; errors as of :func:`tags`."""
    return (yield from _one(branch_path(name), decode_branch, limits))


def create_tag(name: str, tag: Tag, limits: Limits = DEFAULT_LIMITS) -> Steps[Tag]:
    """Create a tag unless its name exists, and check that no cleanup removes its version.

    Parameters
    ----------
    name : str
    tag : Tag
        Its times are set to now, and the size of the manifest to what it is.
    limits : Limits

    Returns
    -------
    Tag
        As it was written.

    Raises
    ------
    ValueError
        A new tag cannot have this name.
    RefExistsError
        There is a tag of this name.
    NotFoundError
        There is no such version.
    ConflictError
        A cleanup is removing it.
    StoreError
        The storage failed. Unless the request itself was lost on the way, there is no new tag.
    """
    check_tag_name(name)

    def write() -> Steps[Tag]:
        now: int = yield Now()
        size = yield from manifest_size(tag.branch, tag.version)
        made = replace(tag, created_ns=now, updated_ns=now, manifest_size=size)
        yield from _create(name, encode_tag(made), limits)
        return made

    return (yield from holding(tag.branch, tag.version, write(), limits))


def replace_tag(name: str, tag: Tag, limits: Limits = DEFAULT_LIMITS) -> Steps[Tag]:
    """Give an existing tag other contents; readers see the old ones or the new ones.

    Parameters
    ----------
    name : str
    tag : Tag
        The size of the manifest is set to what it is.
    limits : Limits

    Returns
    -------
    Tag
        As it was written.

    Raises
    ------
    NotFoundError
        There is no such version; the tag is as it was.
    ConflictError
        A cleanup is removing it; the tag is as it was.
    StoreError
        The storage failed; the tag has the old contents or the new ones.
    """

    def write() -> Steps[Tag]:
        size = yield from manifest_size(tag.branch, tag.version)
        made = replace(tag, manifest_size=size)
        yield from again(Put(tag_path(name), encode_tag(made)))
        return made

    return (yield from holding(tag.branch, tag.version, write(), limits))


def remove_tag(name: str) -> Steps[bool]:
    """Remove a tag; returns whether there was one.

    Raises
    ------
    StoreError
        The storage failed; the tag may be gone.
    """
    path = tag_path(name)
    try:
        yield from again(Head(path))
    except (DatasetNotFoundError, PathPolicyError):
        return False
    yield from again(Remove((path,)))
    return True


def _create(name: str, data: bytes, limits: Limits) -> Steps[None]:
    """Create the file of a tag; one request of which nothing is known may have been carried out."""
    path, is_doubtful = tag_path(name), False
    for attempt in range(TRIES):
        try:
            yield Create(path, data)
        except ExistsError:
            found: Memory | None = (yield from _read(path, limits)) if is_doubtful else None
            if found is not None and found.tobytes() == data:
                return
            raise RefExistsError(
                f"there is a tag {printable(name)!r} already: update moves it to another version",
                kind="tag",
                name=name,
            ) from None
        except StoreError:
            if attempt == TRIES - 1:
                raise
            is_doubtful = True
            yield Pause(attempt)
        else:
            return


def _ref_of(path: str) -> str | None:
    # A tag and a branch may have the same name.
    is_ref = tag_of(path) is not None or branch_of(path) is not None or is_hold(path)
    return path if is_ref else None


def _all(
    folder: str,
    name_of: Callable[[str], str | None],
    decode: Callable[[Memory, str, Limits], T],
    limits: Limits,
) -> Steps[dict[str, T]]:
    metas: Sequence[ObjectMeta] = yield from again(List(folder))
    found: dict[str, T] = {}
    for meta in metas:
        name = name_of(meta.path)
        if name is None:
            continue
        # A listing states the size, so a file that is too large is not read.
        limits.check("metadata_bytes", meta.size, f"size of {meta.path}")
        value = yield from _one(meta.path, decode, limits)
        if value is not None:
            found[name] = value
    return dict(sorted(found.items()))


def _one(path: str, decode: Callable[[Memory, str, Limits], T], limits: Limits) -> Steps[T | None]:
    """The contents of a file, None if it is gone."""
    memory = yield from _read(path, limits)
    return None if memory is None else decode(memory, path, limits)


def _read(path: str, limits: Limits) -> Steps[Memory | None]:
    try:
        memory: Memory = yield from again(Read(path, limits.metadata_bytes))
    except (DatasetNotFoundError, PathPolicyError):
        # No tag or branch can have a name that a store refuses.
        return None
    return memory
