"""Small files that keep a tag or a branch from naming a version that a cleanup removes at the same time.

::

    _refs/guards/hold-{random}.json      a version that is about to get a tag; cleanups keep it
    _refs/guards/removal-{random}.json   versions that a cleanup is about to remove; they get no tag

A cleanup writes its file before it looks at tags, branches and holds for the last time, and then removes manifests. On a
full disk, where neither kind of file can be written, it looks, removes one manifest, and tries to write its file again. A
new tag is preceded by a hold, after which removals are read, and then the manifest. So either the cleanup sees the
hold, or the removal is seen here, or the manifest is gone already. A process that dies leaves its file, which counts for a day
and is removed by a later cleanup. Other writers of the format know neither kind and ignore them.

Generators over ``requests``; all paths begin at the main table's root.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from lancecy.errors import (
    ConflictError,
    DatasetNotFoundError,
    FormatError,
    LanceError,
    StoreError,
    VersionNotFoundError,
)
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.paths import VERSIONS, Naming, manifest_name
from lancecy.table.refs.names import GUARDS, MAIN, branch_folder
from lancecy.table.requests import Head, List, Put, RandomBits, Read, Remove, Steps, StoreTime, again
from lancecy.table.wire.references import nanoseconds

__all__ = ["LIFETIME_NS", "announce", "holding", "is_hold", "is_stale", "manifest_size", "withdraw"]

T = TypeVar("T")

LIFETIME_NS = 86_400 * 10**9
"""Age from which a guard counts no longer: its process died."""

_HOLD, _REMOVAL = f"{GUARDS}/hold-", f"{GUARDS}/removal-"
_ENDING = ".json"


def is_hold(path: str) -> bool:
    """Whether a file is the hold of a version.

    Examples
    --------
    >>> is_hold("_refs/guards/hold-00ff.json"), is_hold("_refs/tags/v1.json")
    (True, False)
    """
    return path.startswith(_HOLD) and path.endswith(_ENDING)


def is_stale(meta: ObjectMeta, now_ns: int | None) -> bool:
    """Whether a guard counts no longer.

    Parameters
    ----------
    meta : ObjectMeta
    now_ns : int or None, ns since 1970
        By the clock of the store; None if it is unknown.
    """
    if now_ns is None or meta.modified is None:
        return False
    return now_ns - nanoseconds(meta.modified) > LIFETIME_NS


def holding(branch: str | None, version: int, steps: Steps[T], limits: Limits = DEFAULT_LIMITS) -> Steps[T]:
    """Run requests that make a tag or a branch name a version, which cleanups keep meanwhile.

    Parameters
    ----------
    branch : str or None
        None for the main table.
    version : int
    steps : generator of requests
        Reads the manifest first (:func:`manifest_size`), which may be gone already. Not begun while a cleanup removes it.
    limits : Limits

    Raises
    ------
    ConflictError
        A cleanup is removing the version.
    StoreError
        The storage failed.
    """
    path = yield from _put(_HOLD, {"branch": branch, "version": version})
    try:
        yield from _check_stays(branch, version, limits)
        result = yield from steps
    except LanceError:
        yield from withdraw(path)
        raise
    yield from withdraw(path)
    return result


def announce(branch: str | None, versions: Collection[int]) -> Steps[str]:
    """Announce the removal of versions, before tags and branches are read for the last time.

    Returns
    -------
    str
        Path of the guard, to be withdrawn when the manifests are gone.
    """
    return (yield from _put(_REMOVAL, {"branch": branch, "versions": sorted(versions)}))


def withdraw(path: str) -> Steps[None]:
    """Remove a guard; one that stays counts for a day."""
    with suppress(StoreError):
        yield from again(Remove((path,)))


def manifest_size(branch: str | None, version: int) -> Steps[int]:
    """Size of a version's manifest in bytes.

    Raises
    ------
    NotFoundError
        There is no such version.
    """
    home = "" if branch is None else f"{branch_folder(branch)}/"
    for naming in (Naming.V2, Naming.V1) if 0 < version < 1 << 64 else ():
        with suppress(DatasetNotFoundError):
            meta: ObjectMeta = yield from again(Head(f"{home}{VERSIONS}/{manifest_name(version, naming)}"))
            return meta.size
    place = "the main table" if branch is None else f"the branch {branch!r}"
    raise VersionNotFoundError(f"{place} has no version {version}", name=str(version))


def _put(prefix: str, content: dict[str, Any]) -> Steps[str]:
    bits: int = yield RandomBits()
    path = f"{prefix}{bits:016x}{_ENDING}"
    yield from again(Put(path, json.dumps(content).encode()))
    return path


def _check_stays(branch: str | None, version: int, limits: Limits) -> Steps[None]:
    """Check that no cleanup is about to remove a version."""
    metas: Sequence[ObjectMeta] = yield from again(List(GUARDS))
    for meta in metas:
        if not meta.path.startswith(_REMOVAL):
            continue
        limits.check("metadata_bytes", meta.size, f"size of {meta.path}")
        try:
            memory: Memory = yield from again(Read(meta.path, limits.metadata_bytes))
        except DatasetNotFoundError:
            continue
        if not _names(memory, meta.path, branch, version):
            continue
        now: int | None = yield from again(StoreTime())
        if not is_stale(meta, now):
            raise ConflictError(
                f"a cleanup is removing version {version} of {branch or MAIN}, so it gets no tag and no branch; if that "
                "cleanup failed and the version is still there, run another cleanup, or try again in a day"
            )


def _names(memory: Memory, path: str, branch: str | None, version: int) -> bool:
    try:
        found: Any = json.loads(memory.tobytes())
        return found["branch"] == branch and version in found["versions"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{path} is not the list of versions that a cleanup removes", path=path) from error
