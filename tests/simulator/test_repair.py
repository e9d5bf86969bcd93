"""Damaged manifests are set aside in the same way, whatever goes wrong once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

import pytest

from lancecy.errors import LanceError
from lancecy.table.commit.options import Committed
from lancecy.table.commit.set_aside import SetAside, set_aside
from lancecy.table.operations import Append
from lancecy.table.requests import Request
from tests.simulator.actors import Simulation, files, make
from tests.simulator.single_faults import STORES
from tests.simulator.world import Crash, Fault, possible, run

DAMAGED = (3, 5)


def begun(store: str) -> Simulation:
    """A table of five versions with two damaged ones, always the same."""
    simulation = Simulation.of(5, versions=STORES[store]())
    world = simulation.world
    for version, kind in enumerate(("append", "delete", "append", "append"), 1):
        simulation.commit_now(make(kind, world, simulation.history(), version), version)
    for version in DAMAGED:
        world.objects[world.manifests()[version]] = b"torn %d" % version
    return simulation


def repaired(simulation: Simulation, faults: Iterable[Fault | None] = ()) -> tuple[list[Request], object]:
    """Repair the table: the requests, and what came of it."""
    made: list[Request] = []
    running = run(set_aside(simulation.versions, every=True, foreign=True), simulation.world, iter(faults))
    try:
        while True:
            made.append(next(running))
    except StopIteration as end:
        return made, end.value
    except (LanceError, Crash) as error:
        return made, error


@pytest.mark.parametrize(
    "store", [name if name == "put" else pytest.param(name, marks=pytest.mark.slow) for name in STORES]
)
def test_repair_gives_one_result_whatever_goes_wrong_once(store: str) -> None:
    undisturbed = begun(store)
    requests, found = repaired(undisturbed)
    assert isinstance(found, tuple) and [(one.version, one.rows_of) for one in found] == [(5, 4), (3, 2)]
    expected = undisturbed.world.objects
    for place, request in enumerate(requests):
        for fault in possible(request):
            simulation = begun(store)
            world = simulation.world
            if fault is Fault.LATE and simulation.versions.fails_at_once:
                continue
            # From now on nothing but these bytes may become a version.
            world.copies = True
            world.archive |= {version: expected[world.manifests()[version]] for version in DAMAGED}
            _, outcome = repaired(simulation, chain(repeat(None, place), [fault]))
            where = f"{fault} at request {place} ({type(request).__name__}): {outcome!r}"
            assert isinstance(outcome, tuple | LanceError | Crash), where
            for _ in range(2):
                _, again = repaired(simulation)
                assert isinstance(again, tuple), where
                world.deliver()
            assert not world.broken, where
            written = {path: data for path, data in world.objects.items() if path in expected}
            assert written == expected, where
            assert all(path.startswith("_transactions/") for path in world.objects.keys() - expected.keys())
            assert isinstance(simulation.commit_now(Append(files(world, 1)), 5), Committed), where


@pytest.mark.parametrize("store", STORES)
def test_repair_is_one_of_many_writers(store: str) -> None:
    # Two repairs and an append take turns in every proportion.
    for first in range(1, 8):
        for second in range(1, 8):
            simulation = begun(store)
            world = simulation.world
            running = [
                run(set_aside(simulation.versions, every=True, foreign=True), world, iter(()))
                for _ in range(2)
            ]
            done: list[SetAside] = []
            turns = [0] * first + [1] * second
            while turns:
                for number in [*turns]:
                    if number in turns:
                        try:
                            next(running[number])
                        except StopIteration as end:
                            done += end.value
                            turns = [turn for turn in turns if turn != number]
            assert {(one.version, one.rows_of) for one in done} == {(5, 4), (3, 2)}
            assert isinstance(simulation.commit_now(Append(files(world, 1)), 5), Committed)
