"""I8: whatever goes wrong, whoever is at work, a cleanup removes nothing that anybody needs."""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any
from unittest.mock import patch

import pytest

from lancecy.errors import LanceError, StoreError
from lancecy.table.cleanup import plan as cleanup_plan
from lancecy.table.cleanup import run as cleaning
from lancecy.table.cleanup.run import CleanupOptions, CleanupStats, Scope, cleanup
from lancecy.table.commit import loop as commit
from lancecy.table.commit.options import Committed
from lancecy.table.operations import Append, Restore
from lancecy.table.refs.names import GUARDS
from lancecy.table.requests import Create, Remove, Request, Wait
from tests.simulator.actors import Running, Simulation, files, make
from tests.simulator.model import violations
from tests.simulator.world import Crash, Fault, World, possible, run

DAY = 86_400 * 10**9
TAGGED, YOUNG, ORPHAN = 3, "data/0111.lance", "data/0110.lance"


def begun(seed: int = 5) -> Simulation:
    """A copy of :func:`_made`, as that takes longer."""
    return copy.deepcopy(_made(seed))


@functools.cache
def _made(seed: int) -> Simulation:
    """A table of eight versions, all but the last two old, one tagged, and an old and a young file of nobody."""
    simulation = Simulation.of(seed)
    world = simulation.world
    for kind in ("append", "delete", "overwrite", "append", "delete"):
        newest = max(world.archive)
        simulation.commit_now(make(kind, world, simulation.history(), newest), newest)
    world.objects[ORPHAN], world.dates[ORPHAN] = b"left", world.store_clock
    world.objects["_refs/tags/t.json"] = json.dumps({"branch": None, "version": TAGGED}).encode()
    world.store_clock += 20 * DAY
    world.clock += 20 * DAY
    simulation.commit_now(Restore(2), 6)
    simulation.commit_now(Append(files(world, 1)), 7)
    world.objects[YOUNG], world.dates[YOUNG] = b"soon", world.store_clock
    return simulation


def cleaned(
    simulation: Simulation, faults: Iterable[Fault | None] = (), before: dict[int, Any] | None = None
) -> tuple[list[Request], object]:
    """Clean up, with other things done before some of its requests: its requests, and what came of it."""
    options = CleanupOptions(8, 14 * DAY, fail_if_tagged=False)
    running = run(cleanup(Scope(simulation.versions), options), simulation.world, iter(faults))
    made: list[Request] = []
    try:
        while True:
            request = next(running)
            (before or {}).get(len(made), lambda: None)()
            made.append(request)
    except StopIteration as end:
        return made, end.value
    except (LanceError, Crash) as error:
        return made, error


def wrong(simulation: Simulation) -> list[str]:
    """What a cleanup may not leave."""
    world = simulation.world
    found = violations(world, simulation.ledger)
    needed = {TAGGED, 7, *range(8, max(world.archive) + 1)}
    if not needed <= set(world.manifests()):
        found.append(f"I8: versions {sorted(needed - set(world.manifests()))} are gone")
    return found + ([] if YOUNG in world.objects else ["I8: what is about to be committed is gone"])


def test_what_nobody_needs_goes() -> None:
    simulation = begun()
    before = set(simulation.world.objects)
    requests, stats = cleaned(simulation)
    gone = before - set(simulation.world.objects)
    assert isinstance(stats, CleanupStats)
    assert stats.old_versions == 5 and stats.data_files_removed >= 2
    removed = {path for r in requests if isinstance(r, Remove) for path in r.paths}
    assert ORPHAN in gone and gone == {path for path in removed if not path.startswith(GUARDS)}
    assert not any(path.startswith(GUARDS) for path in simulation.world.objects)
    assert sorted(simulation.world.manifests()) == [TAGGED, 7, 8]
    assert not wrong(simulation)


def test_nothing_needed_goes_whatever_goes_wrong_once() -> None:
    plain = begun()
    requests, _ = cleaned(plain)
    for place, request in enumerate(requests):
        for fault in possible(request):
            simulation = begun()
            _, outcome = cleaned(simulation, chain(repeat(None, place), [fault]))
            where = f"{fault} at request {place} ({type(request).__name__}): {outcome!r}"
            assert not wrong(simulation), where
            if isinstance(outcome, LanceError):
                told = "removed nothing" in str(outcome)
                assert told or "was cut short" in str(outcome), where
                assert not told or len(simulation.world.manifests()) == 8, where
            # The next one finishes the work; what has to wait for its seventh day has had it.
            simulation.world.clock = plain.world.clock
            _, again = cleaned(simulation)
            assert isinstance(again, CleanupStats), f"{where}, then {again!r}"
            # An announcement that was left counts for a day; then it goes as well.
            simulation.world.store_clock += 2 * DAY
            _, last = cleaned(simulation)
            assert isinstance(last, CleanupStats), f"{where}, then {last!r}"
            assert set(simulation.world.objects) == set(plain.world.objects), where


@pytest.mark.parametrize("most", [1, 3, 5, 99])
def test_full_disk_is_cleaned_up(most: int) -> None:
    plain, simulation = begun(), begun()
    cleaned(plain)
    world, present = simulation.world, len(simulation.world.manifests())
    # Only writes can meet it.
    full = (Fault.NO_SPACE if present - len(world.manifests()) < most else None for _ in repeat(None))
    requests, stats = cleaned(simulation, full)
    assert isinstance(stats, CleanupStats) and stats.old_versions == 5
    assert set(world.objects) == set(plain.world.objects) and not wrong(simulation)
    # What is not announced goes one by one.
    removed = [len(r.paths) for r in requests if isinstance(r, Remove) and "_versions/" in r.paths[0]]
    assert removed == [1] * min(most, 5) + [5 - most] * (most < 5)


def _commit(simulation: Simulation, kind: str) -> Any:
    def act() -> None:
        world = simulation.world
        newest = max(world.archive)
        operation = Restore(2) if kind == "restore" else make(kind, world, simulation.history(), newest)
        simulation.commit_now(operation, newest)

    return act


def _tag(simulation: Simulation) -> None:
    simulation.world.objects["_refs/tags/u.json"] = json.dumps({"branch": None, "version": 5}).encode()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["append", "delete", "overwrite", "restore", "tag"])
def test_nothing_needed_goes_whatever_happens_in_between(kind: str) -> None:
    requests, _ = cleaned(begun())
    for place in range(len(requests)):
        simulation = begun()
        act = (lambda s=simulation: _tag(s)) if kind == "tag" else _commit(simulation, kind)
        _, outcome = cleaned(simulation, before={place: act})
        assert not wrong(simulation), f"{kind} before request {place}: {outcome!r}"
        removes = [n for n, r in enumerate(requests) if isinstance(r, Remove)]
        if kind == "tag" and place < removes[0] - 1:
            assert 5 in simulation.world.manifests(), f"tag before request {place}: {outcome!r}"


def _interleaved(seed: int) -> list[str]:
    """A cleanup, and a commit that restores a version, request by request in any order."""
    rng = random.Random(seed)
    simulation = begun(seed)
    mine: Running = simulation.start(Restore(rng.choice((2, 4, 5))), 8)
    cleaner = run(
        cleanup(Scope(simulation.versions), CleanupOptions(8, 14 * DAY, fail_if_tagged=False)),
        simulation.world,
        iter(()),
    )
    active: list[Any] = [mine.advance(), cleaner]
    while active:
        one = rng.choice(active)
        for _ in range(rng.choice((1, 1, 2, 9))):
            try:
                next(one)
            except (StopIteration, LanceError):
                active.remove(one)
                break
    return wrong(simulation)


def _in_the_middle(place: int) -> tuple[list[str], bool]:
    """A whole cleanup before some request of a commit whose files are old, and whether there was such a request."""
    simulation = begun()
    late = Append(files(simulation.world, 2))
    for fragment in late.fragments:
        simulation.world.dates[f"data/{fragment.files[0].path}"] -= 10 * DAY
    running = simulation.start(late, 8).advance()
    for number, _ in enumerate(running):
        if number == place:
            cleaned(simulation)
            break
    else:
        return [], False
    for _ in running:
        pass
    return wrong(simulation), True


SEEDS = 100


@pytest.mark.slow
def test_restored_version_keeps_its_files_in_any_order() -> None:
    assert not {seed: found for seed in range(SEEDS) if (found := _interleaved(seed))}


def test_old_files_that_are_being_committed_stay_or_are_missed() -> None:
    place = 0
    while (found := _in_the_middle(place))[1]:
        assert not found[0], place
        place += 1
    assert place >= 6


def _no_grace(metas: Any, was_named: bool, options: CleanupOptions, times: Any) -> bool:
    return True


MISTAKES: dict[str, Any] = {
    "new versions are not looked for": patch.object(
        cleaning._Cleanup, "_spared", lambda self, removal: (yield from _same(removal))
    ),
    "commits on their way are not looked for": patch.object(
        cleaning._Cleanup, "_may_be_pending", lambda *given: False
    ),
    "commits do not look again": patch.object(
        commit._Commit, "_check_references", lambda self, *given: (yield from ())
    ),
    "files need no age": patch.object(cleanup_plan, "_may_go", _no_grace),
    "tags are forgotten": patch.object(cleaning._Cleanup, "own_pins", lambda self: []),
    "only the newest version counts": patch.object(
        cleaning, "expired", lambda history, options, times: list(history[:-1])
    ),
}


def _same(removal: Any) -> Any:
    return removal
    yield


def _caught() -> bool:
    simulation = begun()
    requests, _ = cleaned(simulation)
    if wrong(simulation):
        return True
    for place in range(len(requests)):
        simulation = begun()
        cleaned(simulation, before={place: _commit(simulation, "restore")})
        if wrong(simulation):
            return True
    return any(_in_the_middle(place)[0] for place in range(8)) or any(map(_interleaved, range(SEEDS)))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_noticed(name: str) -> None:
    with MISTAKES[name]:
        assert _caught()


def test_error_says_what_was_removed() -> None:
    simulation = begun()
    requests, _ = cleaned(simulation)
    second = [n for n, r in enumerate(requests) if isinstance(r, Remove)][1]
    simulation = begun()
    _, outcome = cleaned(simulation, chain(repeat(None, second), [Fault.FORBIDDEN]))
    assert isinstance(outcome, StoreError) and outcome.errno == 13
    assert "cut short" in str(outcome) and "5 of 5 versions were removed, and no file of theirs yet" in str(
        outcome
    )
    assert isinstance(simulation.commit_now(Append(files(simulation.world, 1)), 8), Committed)
    assert not any(isinstance(request, Create) for request in requests)
    assert isinstance(simulation.world, World)


@pytest.mark.parametrize(
    ("pace", "at_once", "largest"), [(None, None, None), (None, 2, 2), (3, None, 3), (3, 2, 2)]
)
def test_files_are_removed_at_the_pace_that_is_asked_for(
    pace: int | None, at_once: int | None, largest: int | None
) -> None:
    simulation = begun()
    options = CleanupOptions(8, 14 * DAY, fail_if_tagged=False, files_per_second=pace, files_at_once=at_once)
    running = run(cleanup(Scope(simulation.versions), options), simulation.world, iter(()))
    made = list(running)
    removals = [request.paths for request in made if isinstance(request, Remove)]
    # Its own announcement is not a file of the table.
    removed = [len(paths) for paths in removals if not paths[0].startswith(f"{GUARDS}/")]
    assert sum(removed) > 8 and (largest is None or max(removed) == largest)
    seconds = [request.seconds for request in made if isinstance(request, Wait)]
    assert seconds == ([count / pace for count in removed] if pace else [])
    assert not simulation.violations()
