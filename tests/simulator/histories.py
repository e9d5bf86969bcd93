"""Random histories: two to five writers with everything going wrong now and then, and a cleaner."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from typing import Any

from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed
from lancecy.table.operations import Append
from lancecy.table.versions import ConditionalPut
from tests.helpers.external_versions import external_versions
from tests.simulator.actors import Protocol, Running, Simulation, files, make
from tests.simulator.world import Fault

__all__ = ["check_history"]

_WEIGHTS = {"append": 10, "delete": 8, "delete whole": 2, "overwrite": 2, "restore": 2, "reserve": 1, "config": 4,
            "bases": 3, "update": 6, "upsert": 5, "update columns": 3, "rewrite": 5, "add column": 2, "project": 1,
            "replace data": 2, "index": 3, "repair": 1}  # fmt: skip
# The cleaner keeps as many versions: nobody sleeps through more in the middle of a commit.
_KEPT = 12


def _faults(rng: random.Random, often: float) -> Iterator[Fault | None]:
    everything = list(Fault)
    while True:
        yield rng.choice(everything) if rng.random() < often else None


def _writer(
    simulation: Simulation, rng: random.Random, often: float, changes: int
) -> Generator[None, None, None]:
    """Make a few changes, from the newest version or an older one; a process that died is started anew."""
    for _ in range(changes):
        history = simulation.history()
        yield
        version = max(v for v in history if rng.random() < 0.6 or v == min(history))
        if version not in simulation.world.manifests():
            continue  # cleaned up before it was opened
        operation = make(
            rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0], simulation.world, history, version
        )
        yield from _followed(simulation, simulation.start(operation, version), rng, often)


def _followed(
    simulation: Simulation, mine: Running, rng: random.Random, often: float
) -> Generator[None, None, None]:
    """A commit, and a second try with the same token where the first process died or never learned what came of it."""
    running = mine.advance(_faults(rng, often))
    outcome: Any = None
    while True:
        try:
            next(running)
        except StopIteration as end:
            outcome = end.value
            break
        yield
    doubtful = outcome is None or mine.uuid in simulation.ledger.unknown
    if doubtful and rng.random() < 0.7:
        intent = simulation.ledger.intents[mine.uuid]
        version = max(simulation.world.manifests())
        if intent.operation.__class__ is not Append:
            version = intent.read_version  # what it names, it names in the version it was made from
        if version not in simulation.world.manifests():
            return
        again = simulation.start(intent.operation, version, token=mine.uuid, once=True)
        for _ in again.advance(_faults(rng, often / 2)):
            yield


def check_history(seed: int, protocol: Protocol = commit, writers: int | None = None) -> list[str]:
    """What is wrong with the history of a seed; nothing should be."""
    rng = random.Random(seed)
    versions = rng.choice((ConditionalPut(), ConditionalPut(), external_versions()))
    simulation = Simulation.of(seed, protocol, versions=versions)
    often = rng.choice((0.0, 0.02, 0.1))
    count = writers or rng.randrange(2, 6)
    active = [_writer(simulation, rng, often, rng.randrange(2, 5)) for _ in range(count)]
    while active:
        one = rng.choice(active)
        try:
            next(one)
        except StopIteration:
            active.remove(one)
        if rng.random() < 0.02:
            simulation.world.deliver()
        if rng.random() < 0.03:
            _clean(simulation)
    wrong = simulation.violations()
    if wrong:
        return wrong
    last = simulation.commit_now(Append(files(simulation.world, 1)), max(simulation.world.archive))
    if not isinstance(last, Committed):
        return [f"I11: the table cannot be written any more: {last!r}"]
    return simulation.violations()


def _clean(simulation: Simulation) -> None:
    manifests = simulation.world.manifests()
    for version in sorted(manifests)[:-_KEPT]:
        del simulation.world.objects[manifests[version]]
