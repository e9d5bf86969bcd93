"""Files of branches: their JSON files, the marks of work on them, and the files of their folders.

A mark stands in a branch's folder while the branch is created or deleted, so that two processes never do either at
the same time. A crashed process leaves its mark; after a week, or on request, another process puts its own next to it.

::

    _refs/branches/{branch}.json              the branch exists
    tree/{branch}/_versions/.tmp_branch_{n}   it is being created or deleted; the largest n stands for the process at work

Generators over ``requests``; all paths begin at the main table's root.

Facts: table sheet, sections 6.1 to 6.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lancecy.errors import DatasetNotFoundError, ExistsError, StoreError, printable
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.paths import DATA, DELETIONS, INDICES, TEMPORARY, TRANSACTIONS, VERSIONS
from lancecy.table.refs.contents import Branch, encode_branch
from lancecy.table.refs.names import branch_folder, branch_path
from lancecy.table.requests import TRIES, Create, Pause, Put, Read, Remove, Steps, again

__all__ = [
    "KINDS",
    "create_branch_file",
    "create_once",
    "is_mark",
    "leftover_advice",
    "mark_number",
    "mark_path",
    "own_files",
    "remove_for_good",
    "replace_branch_file",
    "table_folders",
]

KINDS = (VERSIONS, TRANSACTIONS, DELETIONS, INDICES, DATA)
"""Folders of a table."""

_MARK = f"{VERSIONS}/{TEMPORARY}_branch_"
_BATCH = 1000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def create_branch_file(name: str, branch: Branch) -> Steps[bool]:
    """Create the file of a branch (see :func:`create_once`)."""
    return (yield from create_once(branch_path(name), encode_branch(branch)))


def replace_branch_file(name: str, branch: Branch) -> Steps[None]:
    """Replace the file of a branch; writing the same bytes again does no harm."""
    yield from again(Put(branch_path(name), encode_branch(branch)))


def create_once(path: str, data: bytes) -> Steps[bool]:
    """Create an object that no other process creates with the same bytes.

    Returns
    -------
    bool
        Whether this call created it; False if it exists already.

    Raises
    ------
    StoreError
        The storage failed; the object may exist, or be created later.
    """
    has_failed = False
    for attempt in range(TRIES):
        try:
            yield Create(path, data)
        except ExistsError:
            return has_failed and (yield from _has(path, data))
        except StoreError:
            if attempt == TRIES - 1:
                raise
            has_failed = True
            yield Pause(attempt)
        else:
            return True
    return False


def _has(path: str, data: bytes) -> Steps[bool]:
    try:
        memory: Memory = yield from again(Read(path))
    except DatasetNotFoundError:
        return False
    return memory.tobytes() == data


def remove_for_good(paths: Sequence[str]) -> Steps[bool]:
    """Remove objects.

    Returns
    -------
    bool
        Whether no request failed. A failed request may be carried out later, and then removes new objects of these names.

    Raises
    ------
    StoreError
        The storage failed.
    """
    is_certain = True
    for start in range(0, len(paths), _BATCH):
        request = Remove(tuple(paths[start : start + _BATCH]))
        try:
            yield request
        except StoreError:
            is_certain = False
            yield from again(request)
    return is_certain


def leftover_advice(name: str) -> str:
    """The part of an error that says how to remove what interrupted work on a branch left.

    Parameters
    ----------
    name : str
    """
    return (
        f"ds.branches.remove_leftover({printable(name)!r}) removes what is left of it after a week, and with "
        "older_than=timedelta(0) at once, if no process is at work on it"
    )


def mark_path(branch: str, number: int) -> str:
    """Path of a mark of work on a branch.

    Examples
    --------
    >>> mark_path("a/b", 1)
    'tree/a/b/_versions/.tmp_branch_1'
    """
    return f"{branch_folder(branch)}/{_MARK}{number}"


def is_mark(path: str) -> bool:
    """Whether a path below a branch's folder is that of a mark."""
    return path.startswith(_MARK)


def mark_number(paths: Iterable[str]) -> int:
    """The largest number of the marks among paths below a branch's folder; 0 without marks."""
    ends = [path.removeprefix(_MARK) for path in paths if is_mark(path)]
    return max((int(end) for end in ends if end.isdecimal()), default=0)


def table_folders(paths: Iterable[str]) -> frozenset[str]:
    """Folders that contain a table or an unfinished one, by the paths of files.

    Examples
    --------
    >>> sorted(table_folders(["a/_versions/1.manifest", "a/b/_transactions/0-x.txn", "a/data/f.lance"]))
    ['a', 'a/b']
    """
    return frozenset(
        folder
        for path in paths
        for kind in (VERSIONS, TRANSACTIONS)
        for folder, found, _ in [path.rpartition(f"/{kind}/")]
        if found
    )


def own_files(branch: str, metas: Iterable[ObjectMeta]) -> list[ObjectMeta]:
    """The files of a branch among all below its folder, where other branches have theirs too.

    A file that may also be another branch's is left out: ``tree/a/data/`` holds the data files of branch ``a``, and is
    the folder of branch ``a/data``.

    Parameters
    ----------
    branch : str
    metas : iterable of ObjectMeta

    Examples
    --------
    >>> paths = ["tree/a/data/f.lance", "tree/a/b/data/g.lance", "tree/a/b/_versions/1.manifest"]
    >>> [meta.path for meta in own_files("a", [ObjectMeta(path, 1) for path in paths])]
    ['tree/a/data/f.lance']
    """
    start = len(branch_folder(branch)) + 1
    found = [(meta.path[start:], meta) for meta in metas]
    others = table_folders(path for path, _ in found)
    return [meta for path, meta in found if _is_of_table(path) and not _is_of_others(path, others)]


def _is_of_others(path: str, folders: frozenset[str]) -> bool:
    cuts = [position for position, sign in enumerate(path) if sign == "/"]
    return any(path[:cut] in folders and _is_of_table(path[cut + 1 :]) for cut in cuts)


def _is_of_table(path: str) -> bool:
    """Whether a path is that of a file of a table in this folder."""
    kind, *rest = path.split("/")
    if kind == INDICES:
        return len(rest) > 1 and _UUID.fullmatch(rest[0]) is not None
    # Blobs of a data file are in a folder of its name.
    has_blobs = kind == DATA and len(rest) == 2 and rest[0] not in KINDS
    return kind in KINDS and (len(rest) == 1 or has_blobs)
