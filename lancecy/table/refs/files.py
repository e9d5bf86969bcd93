"""Lists, reads, creates, replaces and removes the files of tags and branches.

Generators over ``requests``; all paths begin at the main table's root.

Facts: table sheet, section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lancecy.errors import DatasetNotFoundError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.refs.contents import Branch, Pin, Tag, decode_branch, decode_pin, decode_tag
from lancecy.table.refs.names import BRANCHES, REFS, TAGS, branch_of, branch_path, tag_of, tag_path
from lancecy.table.requests import List, Read, Steps, again

__all__ = ["branches", "pins", "read_branch", "read_tag", "tags"]

T = TypeVar("T")
_TRIES = 4


def tags(limits: Limits = DEFAULT_LIMITS, tries: int = _TRIES) -> Steps[dict[str, Tag]]:
    """All tags, by name in ascending order.

    Raises
    ------
    FormatError, LimitError
        A file is damaged.
    StoreError
        The storage failed.
    """
    return (yield from _all(TAGS, tag_of, decode_tag, limits, tries))


def branches(limits: Limits = DEFAULT_LIMITS, tries: int = _TRIES) -> Steps[dict[str, Branch]]:
    """All branches, by name in ascending order; errors as of :func:`tags`."""
    return (yield from _all(BRANCHES, branch_of, decode_branch, limits, tries))


def pins(limits: Limits = DEFAULT_LIMITS, tries: int = _TRIES) -> Steps[frozenset[Pin]]:
    """The versions that tags and branches need, with one listing; errors as of :func:`tags`."""
    found = yield from _all(REFS, _ref_of, decode_pin, limits, tries)
    return frozenset(found.values())


def read_tag(name: str, limits: Limits = DEFAULT_LIMITS, tries: int = _TRIES) -> Steps[Tag | None]:
    """A tag by its name, None if there is none; errors as of :func:`tags`."""
    return (yield from _one(tag_path(name), decode_tag, limits, tries))


def read_branch(name: str, limits: Limits = DEFAULT_LIMITS, tries: int = _TRIES) -> Steps[Branch | None]:
    """A branch by its name, None if there is none; errors as of :func:`tags`."""
    return (yield from _one(branch_path(name), decode_branch, limits, tries))


def _ref_of(path: str) -> str | None:
    # A tag and a branch may have the same name.
    return path if tag_of(path) is not None or branch_of(path) is not None else None


def _all(
    folder: str,
    name_of: Callable[[str], str | None],
    decode: Callable[[Memory, str, Limits], T],
    limits: Limits,
    tries: int,
) -> Steps[dict[str, T]]:
    metas: Sequence[ObjectMeta] = yield from again(List(folder), tries)
    found: dict[str, T] = {}
    for meta in metas:
        name = name_of(meta.path)
        value = None if name is None else (yield from _one(meta.path, decode, limits, tries))
        if name is not None and value is not None:
            found[name] = value
    return dict(sorted(found.items()))


def _one(
    path: str, decode: Callable[[Memory, str, Limits], T], limits: Limits, tries: int
) -> Steps[T | None]:
    """The contents of a file, None if it is gone."""
    try:
        memory: Memory = yield from again(Read(path), tries)
    except DatasetNotFoundError:
        return None
    return decode(memory, path, limits)
