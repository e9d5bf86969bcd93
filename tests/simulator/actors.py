"""Writers of a simulated table: they open a version, make up a change, commit it, and may die over it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lancecy.errors import CommitUnknownError, LanceError
from lancecy.schema import Field, Schema
from lancecy.table.answers import run as run_steps
from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.manifest import BasePath, DataFile, Fragment
from lancecy.table.operations import (
    Append,
    Delete,
    MapUpdate,
    Operation,
    Overwrite,
    RepairRowIds,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.paths import Naming
from lancecy.table.requests import Request, Steps
from lancecy.table.versions import ConditionalPut, VersionStore
from lancecy.table.wire.manifest_file import identity_of
from tests.simulator.model import Ledger, Table, replay, violations
from tests.simulator.world import Crash, Fault, World, run

__all__ = ["MAKERS", "SCHEMA", "Protocol", "Running", "Simulation", "files", "make"]

SCHEMA = Schema((Field("n", 0, logical_type="int64"),))
# Faults after which a writer may truly not know: its own request to write may have been carried out.
_DOUBTFUL = {Fault.FAILED, Fault.LOST, Fault.LATE, Fault.BUSY, Fault.CONFLICT, Fault.NO_SPACE, Fault.FULL,
             Fault.STALE_READ, Fault.FORBIDDEN}  # fmt: skip

History = dict[int, Table]
Protocol = Callable[[Transaction, Origin | None, Policy, VersionStore], Steps[Committed]]


def files(world: World, count: int) -> tuple[Fragment, ...]:
    """New fragments with files that are there."""
    made = []
    for _ in range(count):
        path, size = f"{world.rng.getrandbits(60):015x}.lance", world.rng.randrange(20, 90)
        world.objects[f"data/{path}"] = bytes(size)
        world.dates[f"data/{path}"] = world.store_clock
        file = DataFile(path, (0,), (0,), 2, 1, size)
        made.append(Fragment(0, (file,), physical_rows=world.rng.randrange(2, 7)))
    return tuple(made)


def _delete(world: World, history: History, version: int) -> Operation:
    table = history[version]
    if not table.parts:
        return Append(files(world, 1))
    rng, rows = world.rng, {}
    for part in rng.sample(table.parts, rng.randrange(1, min(3, len(table.parts)) + 1)):
        living = sorted(set(range(part.rows)) - part.gone)
        rows[part.id] = np.array(sorted(rng.sample(living, rng.randrange(1, len(living) + 1))), np.int64)
    return Delete(rows)


def _delete_whole(world: World, history: History, version: int) -> Operation:
    parts = history[version].parts
    return Delete(removed=(world.rng.choice(parts).id,)) if parts else Append(files(world, 1))


def _config(world: World, history: History, version: int) -> Operation:
    return UpdateConfig(MapUpdate({f"k{world.rng.randrange(6)}": str(world.rng.random())}))


def _bases(world: World, history: History, version: int) -> Operation:
    return UpdateBases((BasePath(0, f"/b/{world.rng.getrandbits(40):x}"),))


# What makes a change of a table at the version given, one for each kind of change.
MAKERS: dict[str, Callable[[World, History, int], Operation]] = {
    "append": lambda world, history, version: Append(files(world, world.rng.randrange(1, 3))),
    "delete": _delete,
    "delete whole": _delete_whole,
    "overwrite": lambda world, history, version: Overwrite(files(world, world.rng.randrange(3)), SCHEMA),
    "restore": lambda world, history, version: Restore(world.rng.choice(sorted(history))),
    "reserve": lambda world, history, version: ReserveFragments(world.rng.randrange(1, 4)),
    "config": _config,
    "bases": _bases,
    "repair": lambda world, history, version: RepairRowIds(),
}


def make(kind: str, world: World, history: History, version: int) -> Operation:
    """A change of the given kind that makes sense for a version."""
    return MAKERS[kind](world, history, version)


@dataclass
class Simulation:
    """A world, its writers, and what they were told.

    Attributes
    ----------
    protocol : callable
        What is under test: ``commit.commit`` or a variant of it.
    """

    world: World
    protocol: Protocol = commit
    policy: Policy = field(default_factory=Policy)
    ledger: Ledger = field(default_factory=Ledger)
    stable: bool = False
    versions: VersionStore = field(default_factory=ConditionalPut)

    def __post_init__(self) -> None:
        self.world.copies = not self.versions.needs_conditional_put

    @classmethod
    def of(cls, seed: int, protocol: Protocol = commit, **given: Any) -> Simulation:
        """A world with a table of one version."""
        rng = random.Random(seed)
        simulation = cls(World(rng), protocol, stable=rng.random() < 0.5, **given)
        simulation.commit_now(simulation.creation(), None)
        return simulation

    def creation(self) -> Operation:
        """What creates a table."""
        return Overwrite(files(self.world, 2), SCHEMA, data_version="2.1", stable_row_ids=self.stable)

    def history(self) -> dict[int, Table]:
        """The versions that are there, as the model has them."""
        found = replay(self.world, self.ledger)[0]
        return {version: found[version] for version in self.world.manifests() if version in found}

    def origin(self, version: int) -> Origin:
        """A version as a writer opened it."""
        path = self.world.manifests()[version]
        return Origin(version, Naming.V2, identity_of(np.frombuffer(self.world.objects[path], np.uint8)))

    def violations(self) -> list[str]:
        """What is wrong, once a reader has finished what writers that died left half published."""
        if self.world.copies:
            run_steps(self.versions.versions(), self.world.carry_out)
        return violations(self.world, self.ledger)

    def start(
        self, operation: Operation, version: int | None, token: str | None = None, **changed: Any
    ) -> Running:
        """A commit that begins; what comes of it is noted in the ledger."""
        unique = str(uuid.UUID(int=self.world.rng.getrandbits(128))) if token is None else token
        transaction = Transaction(version or 0, unique, operation)
        self.ledger.intents.setdefault(unique, transaction)
        self.ledger.reads.setdefault(unique, set()).add(version or 0)
        policy = replace(self.policy, **changed)
        origin = self.origin(version) if version else None
        return Running(self, unique, self.protocol(transaction, origin, policy, self.versions))

    def commit_now(self, operation: Operation, version: int | None, **given: Any) -> Any:
        """Commit without anybody in between and without faults."""
        return self.start(operation, version, **given).finish()


@dataclass
class Running:
    """A commit on its way."""

    simulation: Simulation
    uuid: str
    steps: Steps[Any]
    met: list[Fault] = field(default_factory=list)

    def advance(self, faults: Iterable[Fault | None] = ()) -> Generator[Request, None, Any]:
        """One request per step. Returns what came of it: a ``Committed``, an error, or None of a dead process."""
        ledger = self.simulation.ledger
        try:
            committed = yield from run(self.steps, self.simulation.world, iter(faults), self.met)
        except Crash:
            ledger.failed.discard(self.uuid)
            return None
        except CommitUnknownError as error:
            ledger.unknown[self.uuid] = bool(_DOUBTFUL & set(self.met))
            return error
        except LanceError as error:
            ledger.failed.add(self.uuid)
            return error
        ledger.acked[self.uuid] = committed.version
        return committed

    def finish(self, faults: Iterable[Fault | None] = ()) -> Any:
        """Run to the end; returns as :meth:`advance`."""
        running = self.advance(faults)
        while True:
            try:
                next(running)
            except StopIteration as end:
                return end.value
