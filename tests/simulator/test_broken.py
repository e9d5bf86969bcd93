"""The tests are alive: each protocol with a mistake is caught by what the right one passes."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain, combinations, repeat

import numpy as np
import pytest

from lancecy.table.operations import Append, Delete, Overwrite, Restore, Update
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.requests import Create
from tests.simulator.actors import SCHEMA, Running, Simulation, files, rewrite_of, upsert_of
from tests.simulator.broken import VARIANTS
from tests.simulator.histories import check_history
from tests.simulator.model import keys_in
from tests.simulator.world import Fault, World

MOST = 120


def _until_create(mine: Running, then: Callable[[], object]) -> None:
    """Run a commit to its end; something else happens right before it publishes for the first time."""
    done = False
    for request in mine.advance():
        if isinstance(request, Create) and not done:
            done = True
            then()


def _race_to_create() -> list[str]:
    """Two writers create one table; the second only finds out when it is about to publish."""
    simulation = Simulation(World(random.Random(1)))
    mine = simulation.start(simulation.creation(), None)
    _until_create(mine, lambda: simulation.commit_now(simulation.creation(), None))
    return simulation.violations() or (
        ["two creates of one table"] if len(simulation.ledger.acked) > 1 else []
    )


def _late_answer() -> list[str]:
    """A store that carries out every create after everybody gave up."""
    simulation = Simulation.of(2)
    mine = simulation.start(Overwrite((), SCHEMA), 1)
    mine.finish(chain(repeat(None, 5), repeat(Fault.LATE)))
    return simulation.violations()


def _lost_answer() -> list[str]:
    """A create that was carried out and whose answer was lost, then the same change by a process with its token."""
    simulation = Simulation.of(3)
    append = Append(files(simulation.world, 1))
    for fault in (Fault.LOST, Fault.CRASH_AFTER):
        mine = simulation.start(append, 1)
        mine.finish(chain(repeat(None, 6), [fault]))
        again = max(simulation.world.manifests())
        simulation.start(append, again, token=mine.uuid, once=True).finish()
        append = Append(files(simulation.world, 1))
    return simulation.violations()


def _restored() -> list[str]:
    """Rows added after a restore, in a table with stable row ids."""
    simulation = Simulation(World(random.Random(4)), stable=True)
    simulation.commit_now(simulation.creation(), None)
    for operation in (Append(files(simulation.world, 2)), Restore(1), Append(files(simulation.world, 2))):
        simulation.commit_now(operation, max(simulation.world.archive))
    return simulation.violations()


def _two_deletes() -> list[str]:
    """Two writers delete rows of one fragment, the second from a version without what the first did."""
    simulation = Simulation.of(5)
    mine = simulation.start(Delete({0: np.array([0])}), 1)
    _until_create(mine, lambda: simulation.commit_now(Delete({0: np.array([1])}), 1))
    return simulation.violations()


def _cleaned_up() -> list[str]:
    """A commit made from a version so old that those after it were removed."""
    simulation = Simulation.of(6)
    for version in range(1, 6):
        simulation.commit_now(Append(files(simulation.world, 1)), version)
    mine = simulation.start(Append(files(simulation.world, 1)), 2)
    manifests = simulation.world.manifests()
    for version in (1, 3, 4):
        del simulation.world.objects[manifests[version]]
    mine.finish()
    wrong = simulation.violations()
    return wrong or (["nobody knows what was in between"] if mine.uuid in simulation.ledger.acked else [])


def _two_upserts() -> list[str]:
    """Two writers add a row of the same key, because the table had none."""
    simulation = Simulation.of(7)

    def upsert() -> Update:
        keys = KeyFilter.of((0,), np.array([11], np.uint64))
        return Update(fragments=files(simulation.world, 1), fields=(0,), keys=keys)

    mine = simulation.start(upsert(), 1)
    _until_create(mine, lambda: simulation.commit_now(upsert(), 1))
    return simulation.violations()


def _upsert_of_an_appended_key() -> list[str]:
    """An upsert reads what two others appended; the first of them added its key."""
    simulation = Simulation.of(7)
    added = [files(simulation.world, 1) for _ in range(60)]
    first, mine = next((one, two) for one, two in combinations(added, 2) if keys_in(one) == keys_in(two))
    other = next(one for one in added if keys_in(one) != keys_in(mine))
    upsert = simulation.start(upsert_of({}, mine, None), 1)
    simulation.commit_now(Append(first), 1)
    simulation.commit_now(Append(other), 2)
    upsert.finish()
    return simulation.violations()


def _rewritten_under_a_delete() -> list[str]:
    """A rewrite of a fragment with deleted rows, and then more of its rows are deleted."""
    simulation = Simulation.of(8)
    simulation.commit_now(Append(files(simulation.world, 3)), 1)
    part = max(simulation.history()[2].parts, key=lambda part: part.rows)
    assert part.rows > 3
    simulation.commit_now(Delete({part.id: np.array([0])}), 2)
    rewrite = rewrite_of(
        simulation.world, simulation.history()[3], 3, (simulation.history()[3].part(part.id),)
    )
    mine = simulation.start(rewrite, 3)
    _until_create(mine, lambda: simulation.commit_now(Delete({part.id: np.array([2])}), 3))
    return simulation.violations()


SCENARIOS = (_race_to_create, _late_answer, _lost_answer, _restored, _two_deletes, _cleaned_up, _two_upserts,
             _upsert_of_an_appended_key, _rewritten_under_a_delete)  # fmt: skip


def _caught() -> list[str]:
    for scenario in SCENARIOS:
        if found := scenario():
            return found
    return next((found for seed in range(MOST) if (found := check_history(seed))), [])


def test_right_protocol_passes_the_scenarios() -> None:
    assert [scenario() for scenario in SCENARIOS] == [[]] * len(SCENARIOS)


@pytest.mark.parametrize("name", VARIANTS)
def test_mistake_is_noticed(name: str) -> None:
    with VARIANTS[name]():
        assert _caught()
