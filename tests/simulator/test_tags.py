"""Whatever goes wrong, and whoever is at work, a tag names a version that is there, and no acknowledged tag is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from lancecy.errors import LanceError, RefExistsError, StoreError
from lancecy.table.cleanup import run as cleaning
from lancecy.table.cleanup.run import CleanupOptions, Scope, cleanup
from lancecy.table.refs import guards
from lancecy.table.refs.contents import Tag, decode_tag
from lancecy.table.refs.files import create_tag, remove_tag, replace_tag
from lancecy.table.refs.names import GUARDS, TAGS
from lancecy.table.requests import Request, Steps
from tests.simulator.actors import Simulation
from tests.simulator.test_cleanup import DAY, TAGGED, begun, cleaned
from tests.simulator.world import Crash, Fault, possible, run

pytestmark = pytest.mark.slow

# Cleanups of these tables remove version 5; the tag t names version 3.
OLD = 5
MAKERS: dict[str, Callable[[], Steps[Any]]] = {
    "create": lambda: create_tag("u", Tag(OLD)),
    "update": lambda: replace_tag("t", Tag(OLD, None, 1, 2)),
}


def done(
    simulation: Simulation,
    steps: Steps[Any],
    faults: Iterable[Fault | None] = (),
    before: dict[int, Any] | None = None,
) -> tuple[list[Request], object]:
    """Run steps to their end, with other things done before some requests: the requests, and the result."""
    running, made = run(steps, simulation.world, iter(faults)), list[Request]()
    try:
        while True:
            request = next(running)
            (before or {}).get(len(made), lambda: None)()
            made.append(request)
    except StopIteration as end:
        return made, end.value
    except (LanceError, Crash) as error:
        return made, error


def stored(simulation: Simulation) -> dict[str, Tag]:
    simulation.world.deliver()
    return {
        path.removeprefix(f"{TAGS}/").removesuffix(".json"): decode_tag(np.frombuffer(data, np.uint8), path)
        for path, data in simulation.world.objects.items()
        if path.startswith(f"{TAGS}/")
    }


def wrong(simulation: Simulation, outcome: object, name: str) -> list[str]:
    """What tags may not be after somebody made one of them name version 5."""
    found, there = stored(simulation), simulation.world.manifests()
    faults = [f"{tag} names version {at.version}" for tag, at in found.items() if at.version not in there]
    if isinstance(outcome, Tag) and found.get(name) != outcome:
        faults.append(f"{name} was acknowledged and is {found.get(name)}")
    if "t" not in found:
        faults.append("t is gone")
    return faults


@pytest.mark.parametrize("kind", MAKERS)
def test_a_tag_names_a_version_that_is_there_whatever_goes_wrong_once(kind: str) -> None:
    name = "u" if kind == "create" else "t"
    requests, _ = done(begun(), MAKERS[kind]())
    acknowledged = set()
    for place, request in enumerate(requests):
        # A listing without its newest object is that of no store that lancecy writes to.
        for fault in [None, *(fault for fault in possible(request) if fault is not Fault.STALE_LIST)]:
            for other in range(len(requests) + 1):
                simulation = begun()
                before = {other: lambda s=simulation: cleaned(s)}
                faults = chain(repeat(None, place), [fault])
                _, outcome = done(simulation, MAKERS[kind](), faults, before)
                cleaned(simulation)
                where = f"{fault} at {place}, a cleanup before {other}: {outcome!r}"
                assert not wrong(simulation, outcome, name), where
                acknowledged.add(isinstance(outcome, Tag))
                if fault is None:
                    assert not any(path.startswith(GUARDS) for path in simulation.world.objects), where
    assert acknowledged == {True, False}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_cleanup_that_meets_a_new_tag_keeps_its_version_whatever_goes_wrong_once(kind: str) -> None:
    name = "u" if kind == "create" else "t"
    requests, _ = cleaned(begun())
    for place, request in enumerate(requests):
        for fault in [None, *(fault for fault in possible(request) if fault is not Fault.STALE_LIST)]:
            simulation, results = begun(), list[object]()

            def tag(simulation: Simulation = simulation, results: list[object] = results) -> None:
                results.append(done(simulation, MAKERS[kind]())[1])

            _, outcome = cleaned(simulation, chain(repeat(None, place), [fault]), {place: tag})
            where = f"{fault} at {place} ({type(request).__name__}): {outcome!r}, {results}"
            assert not wrong(simulation, results[0], name), where


def _interleaved(seed: int) -> list[str]:
    """Two cleanups, a new tag and one that moves, request by request in any order."""
    rng, simulation = random.Random(seed), begun(seed)
    results: dict[str, object] = {}

    def note(kind: str) -> Steps[None]:
        results[kind] = yield from MAKERS[kind]()

    options = CleanupOptions(8, 14 * DAY, fail_if_tagged=False)
    work = [note("create"), note("update"), *(cleanup(Scope(simulation.versions), options) for _ in range(2))]
    active = [run(steps, simulation.world, iter(())) for steps in work]
    while active:
        one = rng.choice(active)
        for _ in range(rng.choice((1, 1, 2, 9, 30))):
            try:
                next(one)
            except (StopIteration, LanceError):
                active.remove(one)
                break
    return wrong(simulation, results.get("create"), "u") + wrong(simulation, results.get("update"), "t")


def test_tags_name_versions_that_are_there_in_any_order() -> None:
    assert not {seed: found for seed in range(60) if (found := _interleaved(seed))}


def _nothing(*given: Any) -> Any:
    return ""
    yield


MISTAKES: dict[str, Any] = {
    "cleanups announce nothing": patch.object(cleaning, "announce", _nothing),
    "announcements are not read": patch.object(guards, "_check_stays", _nothing),
    "cleanups do not look at tags again": patch.object(cleaning._Cleanup, "announced", _nothing),
}


def _created_before(place: int) -> list[str]:
    """A new tag before some request of a cleanup."""
    simulation, results = begun(), list[object]()
    cleaned(simulation, before={place: lambda: results.append(done(simulation, MAKERS["create"]())[1])})
    return wrong(simulation, results[0], "u")


def _caught() -> bool:
    requests, _ = cleaned(begun())
    return any(map(_created_before, range(len(requests)))) or any(map(_interleaved, range(100)))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_noticed(name: str) -> None:
    with MISTAKES[name]:
        assert _caught()


def test_one_of_two_creators_of_a_name_wins_whatever_goes_wrong_once() -> None:
    requests, _ = done(begun(), create_tag("u", Tag(7)))
    for place, request in enumerate(requests):
        for fault in [None, *possible(request)]:
            for other in range(len(requests) + 1):
                simulation, results = begun(), list[object]()

                def rival(simulation: Simulation = simulation, results: list[object] = results) -> None:
                    results.append(done(simulation, create_tag("u", Tag(8)))[1])

                faults = chain(repeat(None, place), [fault])
                _, outcome = done(simulation, create_tag("u", Tag(7)), faults, {other: rival})
                results.append(outcome)
                where = f"{fault} at {place}, the other before {other}: {results}"
                winners = [result for result in results if isinstance(result, Tag)]
                assert len(winners) <= 1, where
                assert not winners or stored(simulation)["u"] == winners[0], where
                if fault is None and other < len(requests):
                    assert winners and any(isinstance(result, RefExistsError) for result in results), where


def test_a_tag_that_is_deleted_and_created_at_once_is_one_or_the_other() -> None:
    requests, _ = done(begun(), create_tag("u", Tag(7)))
    for place in range(len(requests)):
        for exists in (False, True):
            simulation, results = begun(), list[object]()
            if exists:
                done(simulation, create_tag("u", Tag(8)))

            def delete(simulation: Simulation = simulation, results: list[object] = results) -> None:
                results.append(done(simulation, remove_tag("u"))[1])

            _, outcome = done(simulation, create_tag("u", Tag(7)), before={place: delete})
            found = stored(simulation).get("u")
            if isinstance(outcome, Tag) and (exists or results == [False]):
                assert found == outcome
            elif isinstance(outcome, Tag):
                assert results == [True] and found is None
            else:
                assert isinstance(outcome, RefExistsError) and exists


def test_a_tag_is_deleted_whatever_goes_wrong_once() -> None:
    requests, _ = done(begun(), remove_tag("t"))
    for place, request in enumerate(requests):
        for fault in possible(request):
            simulation = begun()
            _, outcome = done(simulation, remove_tag("t"), chain(repeat(None, place), [fault]))
            if outcome is True:
                assert "t" not in stored(simulation)
            else:
                assert outcome is False or isinstance(outcome, Crash | StoreError)


def test_a_hold_that_was_left_counts_until_a_cleanup_removes_it_after_a_day() -> None:
    simulation = begun()
    _, outcome = done(simulation, create_tag("u", Tag(OLD)), [None, Fault.CRASH_AFTER])
    assert isinstance(outcome, Crash)
    cleaned(simulation)
    assert {TAGGED, OLD, 7, 8} == set(simulation.world.manifests())
    simulation.world.store_clock += 2 * DAY
    cleaned(simulation)
    cleaned(simulation)
    assert {TAGGED, 7, 8} == set(simulation.world.manifests())
