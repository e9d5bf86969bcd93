"""Commits through a key-value store with readers in between: every fault at every request of the writer and the reader."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import pytest

from lancecy.errors import FormatError, LanceError
from lancecy.store.key_values import KeyedTable, ManifestItem, MemoryKeyValue
from lancecy.table.answers import run as run_steps
from lancecy.table.operations import Append
from lancecy.table.requests import KeyValueCall, Request
from lancecy.table.versions import ExternalVersions, ManifestLocation
from tests.simulator.actors import Running, Simulation, files, make
from tests.simulator.single_faults import finish, recover
from tests.simulator.world import Crash, Fault, possible, run

pytestmark = pytest.mark.slow


class Retried(MemoryKeyValue):
    """As a client that loses an answer and asks again: it finds what it has put itself."""

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        super().put_if_absent(table, version, item)
        return False

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        super().put_if(table, version, item, expected)
        return False


class Unconditional(MemoryKeyValue):
    """As pylance's finishing step, which replaces any item that there is."""

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        return super().put_if(table, version, item, self.get(table, version) or expected)


KINDS: dict[str, Callable[[], MemoryKeyValue]] = {
    "plain": MemoryKeyValue,
    "retried": Retried,
    "unconditional": Unconditional,
}


@dataclass
class Reader:
    """Opens the newest version now and then; what it has seen may not go away or change."""

    simulation: Simulation
    version: int = 0
    data: bytes = b""

    def look(self) -> None:
        world = self.simulation.world
        location: ManifestLocation | None = run_steps(self.simulation.versions.latest(), world.carry_out)
        assert location is not None
        data = world.objects[location.path]
        assert len(data) == location.size
        if self.version:
            seen = world.objects[ManifestLocation.canonical(self.version, location.naming).path]
            assert seen == self.data, f"version {self.version} changed"
        assert location.version >= self.version, f"version {self.version} went away"
        self.version, self.data = location.version, data


def begun(kind: str, kinds: str = "plain") -> tuple[Simulation, Running, Reader]:
    """A table of two versions, a change of it on its way, and a reader that has opened it."""
    simulation = Simulation.of(5, versions=ExternalVersions(KeyedTable(KINDS[kinds](), "t")))
    simulation.commit_now(Append(files(simulation.world, 2)), 1)
    reader = Reader(simulation)
    reader.look()
    return simulation, simulation.start(make(kind, simulation.world, simulation.history(), 2), 2), reader


def advanced(mine: Running, place: int, fault: Fault | None, reader: Reader, look: int) -> object:
    """Run a commit with a fault at one of its requests, and a reader before another."""
    running = mine.advance(chain(repeat(None, place), [fault]))
    number = 0
    while True:
        try:
            next(running)
        except StopIteration as end:
            return end.value
        if number == look:
            reader.look()
        number += 1


@pytest.mark.parametrize("kinds", KINDS)
def test_readers_in_between_see_a_right_history_whatever_goes_wrong_once(kinds: str) -> None:
    simulation, mine, reader = begun("append", kinds)
    requests, _ = finish(simulation, mine, (), rival=False)
    for place, request in enumerate(requests):
        for fault in possible(request):
            for look in range(len(requests) + 4):
                simulation, mine, reader = begun("append", kinds)
                outcome = advanced(mine, place, fault, reader, look)
                where = f"{fault} at request {place} ({type(request).__name__}), read at {look}: {outcome!r}"
                reader.look()
                simulation.world.deliver()
                reader.look()
                assert not simulation.violations(), where
                recover(simulation, mine, "append", outcome, where)
                reader.look()


@pytest.mark.parametrize(
    "kinds", [name if name == "plain" else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]
)
def test_reader_finishes_a_dead_writers_version_or_refuses_whatever_goes_wrong_once(kinds: str) -> None:
    simulation, mine, _ = begun("append", kinds)
    count = len(finish(simulation, mine, (), rival=False)[0])
    finished = 0
    for died in range(count + 1):
        faults = [Fault.CRASH_AFTER] if died else [Fault.CRASH_BEFORE]
        simulation, mine, reader = begun("append", kinds)
        mine.finish(chain(repeat(None, max(died - 1, 0)), faults))
        waiting = run(simulation.versions.latest(), simulation.world, iter(()))
        requests = []
        try:
            while True:
                requests.append(next(waiting))
        except StopIteration as end:
            expected = end.value
        finished += any(type(request).__name__ == "Copy" for request in requests)
        for place, request in enumerate(requests):
            for fault in possible(request):
                simulation, mine, reader = begun("append", kinds)
                mine.finish(chain(repeat(None, max(died - 1, 0)), faults))
                where = f"writer died after {died}, {fault} at request {place} of the reader"
                found: object = None
                reading = run(
                    simulation.versions.latest(), simulation.world, chain(repeat(None, place), [fault])
                )
                try:
                    while True:
                        next(reading)
                except StopIteration as end:
                    found = end.value
                except (LanceError, Crash) as error:
                    found = error
                # A store that does not find what is there may make it refuse, and never see another version.
                assert (
                    found == expected or isinstance(found, LanceError | Crash) or fault is Fault.STALE_LIST
                ), f"{where}: {found!r}"
                for _ in range(2):
                    reader.look()
                    simulation.world.deliver()
                assert reader.version == expected.version, where
                assert not simulation.violations(), where
                last = simulation.commit_now(Append(files(simulation.world, 1)), reader.version)
                assert not isinstance(last, LanceError), f"{where}: {last!r}"
                reader.look()
                assert not simulation.violations(), where
    # After the item was put, and until it points to the final name.
    assert finished >= 2


def test_readers_and_writers_at_random_agree() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        simulation = Simulation.of(seed, versions=ExternalVersions(KeyedTable(MemoryKeyValue(), "t")))
        readers = [Reader(simulation) for _ in range(2)]
        for _ in range(4):
            newest = max(simulation.world.manifests())
            commits = [
                simulation.start(Append(files(simulation.world, 1)), newest).advance(_faults(rng))
                for _ in range(3)
            ]
            while commits:
                one = rng.choice(commits)
                try:
                    next(one)
                except StopIteration:
                    commits.remove(one)
                if rng.random() < 0.3:
                    rng.choice(readers).look()
                if rng.random() < 0.05:
                    simulation.world.deliver()
            for reader in readers:
                reader.look()
        assert not simulation.violations(), seed


def _faults(rng: random.Random) -> chain[Fault | None]:
    everything = list(Fault)
    return chain(rng.choice(everything) if rng.random() < 0.08 else None for _ in range(200))


def test_version_whose_item_was_lost_is_never_replaced() -> None:
    # An item may vanish, as by a time to live: a second writer of that version must not win.
    simulation, mine, _ = begun("append")
    finish(simulation, mine, (), rival=False)
    keyed = simulation.versions.keyed  # type: ignore[attr-defined]
    for version in (3, 2):
        keyed.key_values.delete("t", [version])
        before = dict(simulation.world.archive)
        late = simulation.commit_now(Append(files(simulation.world, 1)), version - 1)
        assert late.version == max(before) + 1
        assert before.items() <= simulation.world.archive.items()
        assert not simulation.violations()


def test_item_without_its_manifest_is_named_in_the_error() -> None:
    simulation, mine, _ = begun("append")
    finish(simulation, mine, (), rival=False)
    del simulation.world.objects[simulation.world.manifests()[3]]
    with pytest.raises(FormatError, match="version 3 of 't', and the object store has neither"):
        run_steps(simulation.versions.latest(), simulation.world.carry_out)


def test_version_that_a_cleanup_removes_while_the_newest_is_looked_for_is_no_damage() -> None:
    simulation, mine, _ = begun("append")
    finish(simulation, mine, (), rival=False)
    world, asked = simulation.world, 0

    def carry_out(request: Request) -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:  # the item is known, and the manifest is not read yet
            simulation.commit_now(Append(files(world, 1)), 3)
            run_steps(simulation.versions.remove((world.manifests()[3],)), world.carry_out)
        return world.carry_out(request)

    found = run_steps(simulation.versions.latest(), carry_out)
    assert found is not None and found.version == 4


def test_staged_manifest_that_a_cleanup_takes_for_a_leftover_is_written_again() -> None:
    simulation, mine, reader = begun("append")
    world = simulation.world
    for request in mine.advance():
        if isinstance(request, KeyValueCall) and request.changes:
            for path in [path for path in world.objects if ".manifest-" in path]:
                del world.objects[path]
    reader.look()
    assert reader.version == simulation.ledger.acked[mine.uuid] == 3
    assert not simulation.violations()
