"""Writers, some of them slow, with cleanups of age zero between them: numbers of removed versions are used again.

The first manifest of a number is the history's. Another one of that number is late: whoever wrote it may not be told that
its change was committed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lancecy.errors import RetryableConflictError
from lancecy.store.base import ObjectMeta
from lancecy.table.operations import Append, MapUpdate, Operation, Restore, UpdateConfig
from lancecy.table.paths import parse_manifest_name
from lancecy.table.requests import Now, Request
from lancecy.table.versions import VersionStore
from tests.simulator.actors import Protocol, Running, Simulation, make
from tests.simulator.world import Fault, World

__all__ = ["ReusedNumbers", "check_reused_numbers"]

_WEIGHTS = {"append": 6, "delete": 5, "update": 8, "rewrite": 3, "delete whole": 1, "overwrite": 1, "restore": 1, "config": 1,
            "index": 1, "update columns": 1, "add column": 1, "upsert": 2, "replace data": 1}  # fmt: skip
_MIXES = (
    _WEIGHTS,
    {"append": 1},
    {"update": 1},
    {"append": 1, "update": 1, "delete": 1},
    {"append": 2, "rewrite": 1},
)


@dataclass
class ReusedNumbers(World):
    """A world in which a version may get the number of one that was removed.

    Attributes
    ----------
    request_ns : int, ns
        How long a request takes.
    grain_ns : int, ns
        How exactly the storage dates objects.
    written : int or None
        When the writer whose turn it is began the request before: a disk dates a manifest before it has its name.
    too_late : int
        Number of versions that were late.
    """

    request_ns: int = 2 * 10**7
    grain_ns: int = 10**6
    written: int | None = None
    too_late: int = 0

    def carry_out(self, request: Request) -> Any:
        before = self.store_clock
        answer = super().carry_out(request)
        self.store_clock = before + self.request_ns
        if isinstance(request, Now):
            self.clock = self.store_clock
            return self.clock
        return answer

    def manifests(self) -> dict[int, str]:
        """Paths of the manifests of the history that are there, by version."""
        return {
            version: path
            for version, path in super().manifests().items()
            if self.objects[path] == self.archive.get(version)
        }

    def _write(self, path: str, data: bytes) -> ObjectMeta:
        name = parse_manifest_name(path.rpartition("/")[2]) if path.startswith("_versions/") else None
        number = None if name is None or name.staged else name.version
        if number in self.archive and self.objects.get(path) != self.archive[number]:
            self.too_late += self.archive[number] != data
            self.objects[path] = data
        else:
            super()._write(path, data)
        is_dated_before = number is not None and self.written is not None
        self.dates[path] = (self.written or 0) if is_dated_before else self.store_clock
        return self._meta(path)

    def _meta(self, path: str) -> ObjectMeta:
        written = self.dates.get(path, 0) // self.grain_ns * self.grain_ns
        return replace(super()._meta(path), modified=datetime.fromtimestamp(written / 10**9, UTC))


def check_reused_numbers(seed: int, versions: VersionStore, protocol: Protocol) -> list[str]:
    """What is wrong after two to four writers, whose requests come in any order; nothing should be.

    Parameters
    ----------
    seed : int
    versions : VersionStore
    protocol : callable
        Commits a change, and cleans up.
    """
    rng = random.Random(seed)
    simulation = _begun(rng, versions)
    world: Any = simulation.world
    simulation.protocol = protocol
    count, weights = rng.choice((2, 3, 4)), rng.choice(_MIXES)
    often = rng.choice((0, 0, 0.03))
    todo = [rng.choices(list(weights), list(weights.values()), k=4) for _ in range(count)]
    active = {number: _writer(simulation, kinds, rng, often) for number, kinds in enumerate(todo)}
    began = dict.fromkeys(active, world.store_clock)
    asleep, nights = -1, 0
    while active:
        if not nights and rng.random() < 0.05:
            asleep, nights = rng.choice(sorted(active)), rng.randrange(20, 150)
        nights = max(0, nights - 1)
        awake = [number for number in sorted(active) if not nights or number != asleep]
        number = rng.choice(awake or sorted(active))
        for _ in range(rng.choice((1, 1, 2, 9, 30))):
            world.written = began[number] if versions.fails_at_once else None
            began[number] = world.store_clock
            try:
                next(active[number])
            except StopIteration:
                del active[number]
                break
    world.written = None
    # An unknown outcome is a true answer, but a rare one.
    return [what for what in simulation.violations() if "unknown without a reason" not in what]


def _begun(rng: random.Random, versions: VersionStore) -> Simulation:
    is_disk = versions.fails_at_once
    world = ReusedNumbers(
        rng,
        request_ns=10**5 if is_disk else 2 * 10**7,
        grain_ns=10**3 if is_disk else rng.choice((10**6, 10**9, 3 * 10**9)),
    )
    simulation = Simulation(world, versions=versions, stable=rng.random() < 0.5)
    simulation.commit_now(simulation.creation(), None)
    for version in (1, 2):
        simulation.commit_now(make("append", world, simulation.history(), version), version)
    config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    simulation.commit_now(UpdateConfig(MapUpdate(config)), 3)
    return simulation


def _writer(simulation: Simulation, kinds: list[str], rng: random.Random, often: float) -> Iterator[None]:
    for kind in kinds:
        newest = max(simulation.world.manifests())
        operation: Operation = (
            Restore(newest)
            if kind == "restore"
            else make(kind, simulation.world, simulation.history(), newest)
        )
        running = simulation.start(operation, newest)
        error = yield from _ended(running, _faults(simulation, rng, often))
        if isinstance(operation, Append) and isinstance(error, RetryableConflictError):
            # As an append of rows does it: the same files once more.
            running = simulation.start(operation, max(simulation.world.manifests()))
            yield from _ended(running, _faults(simulation, rng, often))


def _ended(running: Running, faults: Iterator[Fault | None]) -> Any:
    steps = running.advance(faults)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        yield


def _faults(simulation: Simulation, rng: random.Random, often: float) -> Iterator[Fault | None]:
    # A write that arrives late may give a removed version its number back, and so may a store that is not consistent.
    left_out = {Fault.LATE, Fault.STALE_LIST, Fault.STALE_READ}
    known = [fault for fault in Fault if fault not in left_out]
    while True:
        yield rng.choice(known) if rng.random() < often else None
