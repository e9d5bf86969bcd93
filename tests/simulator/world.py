"""A store that does what stores do on a bad day: the simulator's answer to the requests of a commit.

One dictionary of objects; every request may meet a :class:`Fault`. Requests that fail without having
been carried out may still be carried out later (``LATE``), after everybody stopped waiting.
"""

from __future__ import annotations

import enum
import errno
import random
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lancecy.errors import DatasetNotFoundError, ExistsError, LanceError, StoreError
from lancecy.limits import DEFAULT_LIMITS
from lancecy.store.base import ObjectMeta
from lancecy.table.manifest import Fragment, IndexEntry
from lancecy.table.paths import parse_manifest_name
from lancecy.table.requests import (
    Call,
    Copy,
    Create,
    Head,
    HeadFile,
    KeyValueCall,
    List,
    ListOwned,
    Now,
    Pause,
    Put,
    RandomBits,
    Read,
    ReadDeletion,
    Remove,
    Request,
    Scan,
    Steps,
    StoreTime,
    Wait,
    one_by_one,
)
from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest import decode
from lancecy.table.wire.manifest_file import decode_manifest_file

__all__ = ["Crash", "Fault", "World", "possible", "run"]

TEN_DAYS = 10 * 86_400 * 10**9


class Fault(enum.Enum):
    """What goes wrong with one request."""

    CRASH_BEFORE = "the process dies before the request is made"
    CRASH_AFTER = "it dies before the answer arrives"
    FAILED = "an error, nothing was done"
    LOST = "an error, though it was done"
    LATE = "an error, and it is done later, when nobody waits any more"
    BUSY = "503 to this and every other request for a while"
    CONFLICT = "409: ask again"
    NO_SPACE = "no space for this object"
    FULL = "no space from now on"
    FORBIDDEN = "no permission to write, from now on"
    PARTLY = "some of what was to go is gone, then an error"
    CUT = "some of it is gone, then the process dies"
    STALE_LIST = "a listing without the newest version"
    STALE_READ = "an object that is there is not found"
    CLOCK_BACK = "the clock jumps back ten days"
    CLOCK_AHEAD = "the clock jumps ahead ten days"


_WRITES = (Put, Create, Copy)
_CHANGES = (*_WRITES, Remove)
_ANY = {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}
_BY_KIND: dict[type, set[Fault]] = {
    List: {Fault.FAILED, Fault.BUSY, Fault.STALE_LIST},
    Scan: {Fault.FAILED, Fault.BUSY, Fault.STALE_LIST},
    Head: {Fault.FAILED, Fault.BUSY, Fault.STALE_READ},
    Read: {Fault.FAILED, Fault.BUSY, Fault.STALE_READ},
    Call: {Fault.FAILED, Fault.BUSY},
    KeyValueCall: {Fault.FAILED, Fault.LOST, Fault.LATE, Fault.BUSY},
    ReadDeletion: {Fault.FAILED, Fault.BUSY},
    HeadFile: {Fault.FAILED, Fault.BUSY},
    ListOwned: {Fault.FAILED, Fault.BUSY},
    Remove: {Fault.FAILED, Fault.LOST, Fault.LATE, Fault.BUSY, Fault.FORBIDDEN, Fault.PARTLY, Fault.CUT},
    StoreTime: {Fault.FAILED, Fault.BUSY},
    Now: {Fault.CLOCK_BACK, Fault.CLOCK_AHEAD},
    Pause: set(),
    Wait: set(),
    RandomBits: set(),
    **{kind: {Fault.FAILED, Fault.LOST, Fault.LATE, Fault.BUSY, Fault.CONFLICT, Fault.NO_SPACE, Fault.FULL,
              Fault.FORBIDDEN} for kind in _WRITES},
}  # fmt: skip


def possible(request: Request) -> list[Fault]:
    """The faults a request can meet."""
    return sorted(_ANY | _BY_KIND[type(request)], key=lambda fault: fault.name)


class Crash(BaseException):
    """The process that made a request is gone."""


@dataclass
class World:
    """The objects, and what is still to happen to them.

    Attributes
    ----------
    objects : dict of path to bytes
    archive : dict of version to bytes
        Every manifest that ever became visible, also after a cleanup.
    late : list of (path, data)
        Creates that will be carried out.
    broken : list of str
        What no history may contain.
    store_clock, dates : int, dict of path to int
        What time it is where the objects are, and when they were written by that clock.
    copies : bool
        Whether manifests are copied to their names, perhaps more than once, instead of being created there.
    """

    rng: random.Random
    objects: dict[str, bytes] = field(default_factory=dict)
    archive: dict[int, bytes] = field(default_factory=dict)
    late: list[Request] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    clock: int = 1_700_000_000 * 10**9
    store_clock: int = 1_700_000_000 * 10**9
    dates: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    copies: bool = False

    def carry_out(self, request: Request) -> Any:
        """The answer of a store on a good day."""
        self.steps += 1
        self.store_clock += 10**9
        match request:
            case ListOwned(folder):
                return self.carry_out(List(folder))
            case Remove(paths):
                return [self.objects.pop(path, None) for path in paths] and None
            case StoreTime():
                return self.store_clock
            case List(folder, before):
                return [self._meta(path) for path in sorted(self.objects) if path.startswith(folder + "/")
                        and (before is None or path < before)]  # fmt: skip
            case Scan(folder, after):
                return [meta for meta in self.carry_out(List(folder)) if after is None or meta.path > after]
            case Head(path):
                self._get(path)
                return self._meta(path)
            case Call(run):
                return run()
            case KeyValueCall(run, table):
                return run(table)
            case Copy(source, path):
                return self._write(path, self._get(source).tobytes())
            case Read(path):
                return self._get(path)
            case ReadDeletion(_, fragment_id, file):
                return self._get(file.path(fragment_id))
            case HeadFile(_, file):
                self._get(f"data/{file.path}")
                return self._meta(f"data/{file.path}")
            case Put(path, data):
                return self._write(path, data)
            case Create(path, data):
                if path in self.objects:
                    raise ExistsError(path, kind="object", name=path)
                return self._write(path, data)
            case Now():
                self.clock += self.rng.randrange(1, 10**9)
                return self.clock
            case RandomBits():
                return self.rng.getrandbits(64)
            case Pause() | Wait():
                return None

    def meet(self, request: Request, fault: Fault) -> Any:
        """The answer of a store, or no answer, when a request meets a fault."""
        match fault:
            case Fault.CRASH_BEFORE:
                raise Crash
            case Fault.CRASH_AFTER:
                self._if_possible(request)
                raise Crash
            case Fault.LOST:
                self._if_possible(request)
                raise self._error("the connection was lost")
            case Fault.PARTLY | Fault.CUT if isinstance(request, Remove):
                some = self.rng.sample(request.paths, len(request.paths) // 2)
                self.carry_out(Remove(tuple(some)))
                raise Crash if fault is Fault.CUT else self._error("some of them failed")
            case Fault.LATE:
                self.late.append(request)
                raise self._error("no answer in time")
            case Fault.STALE_LIST:
                metas = self.carry_out(request)
                newest = min((meta.path for meta in metas), default=None)
                return [meta for meta in metas if meta.path != newest]
            case Fault.STALE_READ:
                raise DatasetNotFoundError("not here yet", kind="object")
            case Fault.CLOCK_BACK | Fault.CLOCK_AHEAD:
                self.clock += TEN_DAYS if fault is Fault.CLOCK_AHEAD else -TEN_DAYS
                return self.carry_out(request)
            case Fault.NO_SPACE | Fault.FULL:
                raise self._error("no space left", errno.ENOSPC)
            case Fault.FORBIDDEN:
                raise self._error("permission denied", errno.EACCES)
        raise self._error(fault.value)

    def deliver(self) -> None:
        """Carry out what was late."""
        waiting, self.late = self.late, []
        for request in waiting:
            self._if_possible(request)

    def manifests(self) -> dict[int, str]:
        """Paths of the manifests that are there, by version."""
        found = {}
        for path in self.objects:
            name = parse_manifest_name(path.rpartition("/")[2])
            if path.startswith("_versions/") and name is not None and not name.staged:
                found[name.version] = path
        return found

    def fragments(self, version: int) -> dict[int, Fragment]:
        """The fragments of a version by id, as stored."""
        manifest = decode(np.frombuffer(self.archive[version], np.uint8), str(version))
        return {fragment.id: fragment for fragment in manifest.fragments}

    def indices(self, version: int) -> tuple[IndexEntry, ...]:
        """The indices of a version, as stored."""
        memory = np.frombuffer(self.archive[version], np.uint8)
        stored = decode_manifest_file(memory, "", version, DEFAULT_LIMITS).indices
        return decode_index_section(stored) if stored else ()

    def _if_possible(self, request: Request) -> None:
        with suppress(LanceError):
            self.carry_out(request)

    def _error(self, what: str, number: int = errno.EIO) -> StoreError:
        error = StoreError(what)
        error.errno = number
        return error

    def _meta(self, path: str) -> ObjectMeta:
        written = datetime.fromtimestamp(self.dates.get(path, 0) / 10**9, UTC)
        return ObjectMeta(path, len(self.objects[path]), written)

    def _get(self, path: str) -> Any:
        if path not in self.objects:
            raise DatasetNotFoundError(path, kind="object", name=path)
        return np.frombuffer(self.objects[path], np.uint8)

    def _write(self, path: str, data: bytes) -> ObjectMeta:
        name = parse_manifest_name(path.rpartition("/")[2]) if path.startswith("_versions/") else None
        if name is not None and not name.staged:
            # I1: a version once visible never changes, and the next one is one more than the newest.
            if name.version in self.archive:
                if self.archive[name.version] != data or not self.copies:
                    self.broken.append(f"version {name.version} was written twice")
            elif name.version != len(self.archive) + 1:
                self.broken.append(f"version {name.version} was written after {len(self.archive)}")
            self.archive[name.version] = data
        self.objects[path] = data
        self.dates[path] = self.store_clock
        return self._meta(path)


def run(
    steps: Steps[Any], world: World, faults: Iterator[Fault | None], met: list[Fault] | None = None
) -> Generator[Request, None, Any]:
    """Advance a generator by one request per step; yields each before it is answered, returns what it returns.

    Parameters
    ----------
    steps : generator of requests
    world : World
    faults : iterator of Fault or None
        One per request; one that a request cannot meet is left out.
    met : list, optional
        Faults met are put there.

    Raises
    ------
    Crash
        The process died.
    LanceError
        What the generator raised.
    """
    sticky: Fault | None = None
    busy = 0
    steps = one_by_one(steps)
    request = next(steps)
    while True:
        yield request
        fault = next(faults, None)
        if fault is not None and fault not in possible(request):
            fault = None
        if sticky is not None and isinstance(request, _CHANGES):
            fault = sticky
        if fault is Fault.BUSY:
            busy = 3
        if busy and Fault.BUSY in possible(request):
            fault, busy = Fault.BUSY, busy - 1
        if met is not None and fault is not None:
            met.append(fault)
        sticky = fault if fault in (Fault.FULL, Fault.FORBIDDEN) else sticky
        try:
            answer = world.carry_out(request) if fault is None else world.meet(request, fault)
        except LanceError as error:
            try:
                request = steps.throw(error)
            except StopIteration as end:
                return end.value
        else:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                return end.value
