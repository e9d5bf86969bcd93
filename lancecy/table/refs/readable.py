"""Lists the tags and branches that can be read, and says why others cannot.

A damaged file of one tag or branch does not hide the others, where people look at all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancecy.errors import FormatError, printable
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.refs.contents import Branch, Tag
from lancecy.table.refs.files import read_branch, read_tag
from lancecy.table.refs.names import REFS, branch_of, branch_path, tag_of, tag_path
from lancecy.table.requests import TRIES, List, Steps, again

__all__ = ["ReadableRefs", "ref_names", "refs_that_can_be_read"]


@dataclass(frozen=True, slots=True)
class ReadableRefs:
    """Tags and branches.

    Attributes
    ----------
    tags : mapping of str to Tag
    branches : mapping of str to Branch
    damaged : mapping of str to str
        For the path of each file that cannot be read, the text that says so.
    """

    tags: Mapping[str, Tag]
    branches: Mapping[str, Branch]
    damaged: Mapping[str, str]


def refs_that_can_be_read(limits: Limits = DEFAULT_LIMITS, folder: str = REFS) -> Steps[ReadableRefs]:
    """The tags and branches whose files can be read, by name in ascending order.

    Parameters
    ----------
    limits : Limits
    folder : str
        ``TAGS`` for tags alone, ``BRANCHES`` for branches alone.

    Raises
    ------
    StoreError
        The storage failed.
    """
    tag_names, branch_names = yield from ref_names(folder)
    tags: dict[str, Tag] = {}
    branches: dict[str, Branch] = {}
    damaged: dict[str, str] = {}
    for name in tag_names:
        try:
            tag = yield from read_tag(name, limits)
        except FormatError as error:
            damaged[tag_path(name)] = f"tag {printable(name)} cannot be read: {error}"
        else:
            tags |= {} if tag is None else {name: tag}
    for name in branch_names:
        try:
            branch = yield from read_branch(name, limits)
        except FormatError as error:
            damaged[branch_path(name)] = f"branch {printable(name)} cannot be read: {error}"
        else:
            branches |= {} if branch is None else {name: branch}
    return ReadableRefs(tags, branches, damaged)


def ref_names(folder: str = REFS, tries: int = TRIES) -> Steps[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The names of tags and of branches, ascending, with one listing.

    Parameters
    ----------
    folder : str
        As of :func:`refs_that_can_be_read`.
    tries : int
        Number of tries of the listing.

    Raises
    ------
    StoreError
        The storage failed.
    """
    metas: list[ObjectMeta] = yield from again(List(folder), tries)
    tags = (tag_of(meta.path) for meta in metas)
    branches = (branch_of(meta.path) for meta in metas)
    return (
        tuple(sorted(name for name in tags if name is not None)),
        tuple(sorted(name for name in branches if name is not None)),
    )
