"""Every fault at every request of every kind of change: alone, and against a writer that was faster."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from lancecy.errors import ContentionError
from lancecy.table.commit.options import Policy
from lancecy.table.operations import Append, Clone, Foreign
from lancecy.table.operations.registry import REGISTRY
from lancecy.table.requests import Create
from tests.simulator.actors import MAKERS, files
from tests.simulator.single_faults import STORES, begun, check_single_faults, decides, finish, recover
from tests.simulator.world import Fault, possible

pytestmark = pytest.mark.slow

RACED = {"append", "delete", "create", "overwrite"}

# Quick: each kind of change alone, and some against a faster writer.
CASES = [
    pytest.param(
        kind,
        rival,
        store,
        marks=[] if store == "put" and (not rival or kind in RACED) else pytest.mark.slow,
        id=f"{kind}-{'raced' if rival else 'alone'}-{store}",
    )
    for kind in ("create", *MAKERS)
    for rival in (False, True)
    for store in STORES
]


@pytest.mark.parametrize(("kind", "rival", "store"), CASES)
def test_history_is_right_whatever_goes_wrong_once(kind: str, rival: bool, store: str) -> None:
    check_single_faults(kind, rival, store)


def test_every_operation_that_is_made_is_among_them() -> None:
    made = {operation for operation in REGISTRY.values() if not issubclass(operation, Foreign | Clone)}
    started = [begun(kind) for kind in MAKERS]
    assert {type(simulation.ledger.intents[mine.uuid].operation) for simulation, mine in started} == made


@pytest.mark.parametrize("kind", ["append", "delete"])
def test_history_is_right_whatever_goes_wrong_twice(kind: str) -> None:
    requests, _ = finish(*begun(kind), (), rival=True)
    single = [(place, fault) for place, request in enumerate(requests) for fault in possible(request)]
    for first, one in single:
        # After the first fault other requests follow, which may meet another set of faults.
        for distance in range(1, 5):
            for other in Fault:
                plan = chain(repeat(None, first), [one], repeat(None, distance - 1), [other])
                simulation, mine = begun(kind)
                _, outcome = finish(simulation, mine, plan, rival=True)
                if mine.met[1:] != [other]:
                    continue
                where = f"{one} at {first}, {other} {distance} later: {outcome!r}"
                assert not simulation.violations(), where
                recover(simulation, mine, kind, outcome, where)


def test_store_that_never_answers_leaves_nothing_decided() -> None:
    simulation, mine = begun("append")
    requests, _ = finish(*begun("append"), (), rival=False)
    place = next(number for number, request in enumerate(requests) if isinstance(request, Create))
    finish(simulation, mine, chain(repeat(None, place), repeat(Fault.LATE)), rival=False)
    assert list(simulation.ledger.unknown) == [mine.uuid]
    simulation.world.deliver()
    assert mine.uuid.encode() in simulation.world.archive[3]


def test_writer_that_always_loses_says_so_and_commits_nothing() -> None:
    simulation, mine = begun("append")
    running, outcome = mine.advance(), None
    while outcome is None:
        try:
            if decides(next(running)):
                newest = max(simulation.world.archive)
                simulation.commit_now(Append(files(simulation.world, 1)), newest)
        except StopIteration as end:
            outcome = end.value
    assert isinstance(outcome, ContentionError)
    assert not simulation.violations()
    assert len(simulation.world.archive) == 2 + Policy().attempts


def test_writer_that_loses_gives_up_when_its_time_is_up() -> None:
    simulation, _ = begun("append")
    # Every question for the time takes up to a second here.
    mine = simulation.start(Append(files(simulation.world, 1)), 2, timeout_ns=5 * 10**9)
    running, outcome = mine.advance(), None
    while outcome is None:
        try:
            if decides(next(running)):
                newest = max(simulation.world.archive)
                simulation.commit_now(Append(files(simulation.world, 1)), newest)
        except StopIteration as end:
            outcome = end.value
    assert isinstance(outcome, ContentionError)
    assert not simulation.violations()
    assert 2 < len(simulation.world.archive) < 2 + Policy().attempts
