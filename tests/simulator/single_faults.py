"""One commit on its way, and every fault at every one of its requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import chain, repeat

from lancecy.errors import LanceError
from lancecy.table.commit.options import Committed
from lancecy.table.operations import Append
from lancecy.table.requests import Create, KeyValueCall, Request
from lancecy.table.versions import ConditionalPut, LocalLink, VersionStore
from tests.helpers.external_versions import external_versions
from tests.simulator.actors import Running, Simulation, files, make
from tests.simulator.world import Fault, World, possible

__all__ = ["STORES", "begun", "check_single_faults", "decides", "finish", "recover"]

STORES: dict[str, Callable[[], VersionStore]] = {
    "put": ConditionalPut,
    "external": external_versions,
    "disk": LocalLink,
}


def begun(kind: str, store: str = "put") -> tuple[Simulation, Running]:
    """A table of two versions, and a change made from the second on its way."""
    versions = STORES[store]()
    if kind == "create":
        simulation = Simulation(World(random.Random(5)), versions=versions)
        return simulation, simulation.start(simulation.creation(), None)
    simulation = Simulation.of(5, versions=versions)
    simulation.commit_now(Append(files(simulation.world, 2)), 1)
    return simulation, simulation.start(make(kind, simulation.world, simulation.history(), 2), 2)


def decides(request: Request) -> bool:
    """Whether a request is the atomic step that publishes a version."""
    return isinstance(request, Create) or (isinstance(request, KeyValueCall) and request.changes)


def finish(
    simulation: Simulation, mine: Running, faults: Iterable[Fault | None], rival: bool
) -> tuple[list[Request], object]:
    """Run a commit to its end: its requests and its result. A rival appends before its decisive request."""
    made: list[Request] = []
    running = mine.advance(faults)
    while True:
        try:
            request = next(running)
        except StopIteration as end:
            return made, end.value
        if rival and decides(request):
            rival = False
            newest = max(simulation.world.archive, default=0)
            if newest:
                simulation.commit_now(Append(files(simulation.world, 1)), newest)
            else:
                simulation.commit_now(simulation.creation(), None)
        made.append(request)


def check_single_faults(kind: str, rival: bool, store: str = "put") -> None:
    """A change of this kind leaves a right history, whatever goes wrong once: alone, or against a faster writer."""
    requests, _ = finish(*begun(kind, store), (), rival)
    assert len(requests) >= 4
    for place, request in enumerate(requests):
        for fault in possible(request):
            simulation, mine = begun(kind, store)
            if fault is Fault.LATE and simulation.versions.fails_at_once:
                continue
            _, outcome = finish(simulation, mine, chain(repeat(None, place), [fault]), rival)
            assert mine.met[:1] == [fault]
            where = f"{fault} at request {place} ({type(request).__name__}): {outcome!r}"
            assert not simulation.violations(), where
            recover(simulation, mine, kind, outcome, where)


def recover(simulation: Simulation, mine: Running, kind: str, outcome: object, where: str) -> None:
    """Anybody may try the same change once more, and the table goes on (I5, I11)."""
    intent = simulation.ledger.intents[mine.uuid]
    if not isinstance(outcome, Committed):
        # A new process that knows the token and opens what is there now.
        simulation.ledger.failed.discard(mine.uuid)
        newest = max(simulation.world.archive, default=0)
        version = None if kind == "create" else newest
        again = simulation.start(intent.operation, version, token=mine.uuid, once=True).finish()
        landed = sum(mine.uuid.encode() in data for data in simulation.world.archive.values())
        assert isinstance(again, Committed | LanceError) and landed <= 1, where
        assert isinstance(again, Committed) == (landed == 1), f"{where}, then {again!r}"
    if simulation.world.archive:
        newest = max(simulation.world.archive)
        last = simulation.commit_now(Append(files(simulation.world, 1)), newest)
        assert isinstance(last, Committed), f"{where}, then {last!r}"
    assert not simulation.violations(), where
