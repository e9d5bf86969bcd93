"""The bases of a version: what they hold, and whether they answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from lancecy.errors import DatasetNotFoundError, LanceError, PathPolicyError
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.table.bases import Bases
from lancecy.table.manifest import DataFile
from lancecy.table.paths import DATA
from lancecy.table.snapshot import Snapshot

__all__ = ["BaseStatus", "Health", "PlaceHealth", "base_statuses"]

Health: TypeAlias = Literal["ok", "empty", "incomplete", "unreachable", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class PlaceHealth:
    """Whether a place of files answers.

    Attributes
    ----------
    path : str
    health : str
        ``"ok"``: it has the files that were looked for. ``"empty"``: the version has no data files there.
        ``"incomplete"``: one of them is missing or has another size. ``"unreachable"``: the storage failed.
        ``"refused"``: the table may not read the place. ``"unknown"``: nobody looked.
    seconds : float or None
        Time of the first answer.
    error : str
        What went wrong; "" if nothing did.
    """

    path: str
    health: Health
    seconds: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class BaseStatus:
    """One base of a version: what it holds, and whether it answers.

    Attributes
    ----------
    id : int or None
        None is the table's own folder.
    name : str or None
    path : str
    is_dataset_root : bool
        Whether data files are in ``data/`` below the path.
    num_files : int
        Data files of the version.
    num_bytes : int
        Their size as the manifest states it.
    health : str
        As of :class:`PlaceHealth`, like the next two.
    seconds : float or None
    error : str
    replicas : tuple of PlaceHealth
        Other places that hold its files, nearest first.
    """

    id: int | None
    name: str | None
    path: str
    is_dataset_root: bool
    num_files: int
    num_bytes: int
    health: Health
    seconds: float | None
    error: str
    replicas: tuple[PlaceHealth, ...] = ()


def base_statuses(snapshot: Snapshot, *, check: bool = True) -> list[BaseStatus]:
    """The bases of a version, the table's own folder first.

    Parameters
    ----------
    snapshot : Snapshot
    check : bool
        Whether to look for some files in each place; all places are looked at together.
    """
    bases = snapshot.bases
    held: dict[int | None, list[DataFile]] = {number: [] for number in (None, *snapshot.manifest.base_paths)}
    for fragment in snapshot.fragments:
        for file in fragment.files:
            held.setdefault(file.base_id, []).append(file)
    paths = {number: _path(snapshot, number) for number in held}
    wanted = [(number, 0, paths[number]) for number in held]
    wanted += [(number, place, uri) for number in held for place, uri in enumerate(bases.replicas(number), 1)]

    def health(one: tuple[int | None, int, str]) -> PlaceHealth:
        number, place, uri = one
        if not check:
            return PlaceHealth(uri, "unknown")
        return _looked_at(uri, lambda: _folder(bases, number, place, uri), held[number])

    seen = snapshot.session.map(health, wanted, blocking=True)
    found: dict[int | None, list[PlaceHealth]] = {number: [] for number in held}
    for (number, _, _), one in zip(wanted, seen, strict=True):
        found[number].append(one)
    return [_status(snapshot, number, held[number], found[number]) for number in held]


def _folder(bases: Bases, number: int | None, place: int, uri: str) -> tuple[Store, str]:
    """Store and prefix of the data files of a base, or of one of its replicas."""
    if not place:
        return bases.folder(number, DATA)
    replica, prefix = bases.replica(number, place, uri, DATA)
    return replica.store, prefix


def _looked_at(path: str, place: Callable[[], tuple[Store, str]], files: Sequence[DataFile]) -> PlaceHealth:
    """Whether a place has the first, the middle and the last of some files."""
    if not files:
        return PlaceHealth(path, "empty")
    began, seconds = time.perf_counter(), None
    try:
        store, prefix = place()
        for file in dict.fromkeys((files[0], files[len(files) // 2], files[-1])):
            size = store.head(prefix + file.path).size
            seconds = time.perf_counter() - began if seconds is None else seconds
            if file.size and not file.is_legacy and size != file.size:
                said = f"{file.path!r} has {size} bytes instead of {file.size}"
                return PlaceHealth(path, "incomplete", seconds, said)
    except DatasetNotFoundError as error:
        return PlaceHealth(path, "incomplete", time.perf_counter() - began, str(error))
    except PathPolicyError as error:
        return PlaceHealth(path, "refused", None, str(error))
    except LanceError as error:
        return PlaceHealth(path, "unreachable", None, str(error))
    return PlaceHealth(path, "ok", seconds)


def _path(snapshot: Snapshot, number: int | None) -> str:
    base = None if number is None else snapshot.manifest.base_paths.get(number)
    if number is None:
        return snapshot.uri
    return "" if base is None else base.path


def _status(
    snapshot: Snapshot, number: int | None, files: Sequence[DataFile], seen: Sequence[PlaceHealth]
) -> BaseStatus:
    base = None if number is None else snapshot.manifest.base_paths.get(number)
    own, *replicas = seen
    return BaseStatus(
        number,
        None if base is None else base.name,
        own.path,
        number is None or (base is not None and base.is_dataset_root),
        len(files),
        sum(file.size or 0 for file in files),
        own.health,
        own.seconds,
        own.error,
        tuple(replicas),
    )
