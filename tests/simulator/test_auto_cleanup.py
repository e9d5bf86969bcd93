"""Commits that clean up afterwards: every fault at every request, and writers in any order."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, repeat

import pytest

from lancecy.errors import CommitUnknownError, LanceError, RetryableConflictError
from lancecy.table.cleanup.automatic import auto_cleanup
from lancecy.table.cleanup.run import Scope, cleanup
from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.operations import Append, Delete, MapUpdate, Operation, Restore, Transaction, UpdateConfig
from lancecy.table.refs.contents import Tag, encode_tag
from lancecy.table.refs.names import tag_path
from lancecy.table.requests import Create, Remove, Request, Steps, Wait
from lancecy.table.versions import ConditionalPut, LocalLink, VersionStore
from tests.helpers.external_versions import external_versions
from tests.simulator.actors import Simulation, files, make
from tests.simulator.reused_numbers import check_reused_numbers
from tests.simulator.single_faults import finish
from tests.simulator.world import possible

pytestmark = pytest.mark.slow

YOUNG = "data/0111.lance"
STORES: dict[str, type[ConditionalPut | LocalLink]] = {"put": ConditionalPut, "disk": LocalLink}
REUSING: dict[str, Callable[[], VersionStore]] = {**STORES, "external": external_versions}
KINDS = ["append", "delete", "overwrite", "restore", "config"]
QUICK = {("put", "append"), ("disk", "delete")}
CASES = [
    pytest.param(store, kind, marks=[] if (store, kind) in QUICK else pytest.mark.slow)
    for store in STORES
    for kind in KINDS
]


def commit_and_clean(
    transaction: Transaction, origin: Origin | None, policy: Policy, versions: VersionStore
) -> Steps[Committed]:
    """What ``changes.commit`` does: the result of a commit does not depend on the cleanup after it."""
    committed = yield from commit(transaction, origin, policy, versions)
    automatic = auto_cleanup(committed.config)
    if automatic is not None and automatic.is_due(committed.version):
        with suppress(LanceError):
            yield from cleanup(Scope(versions), automatic.options(committed.version))
    return committed


def begun(store: str, seed: int = 5) -> Simulation:
    """A copy of :func:`_made`, as that takes longer."""
    return copy.deepcopy(_made(store, seed))


@functools.cache
def _made(store: str, seed: int) -> Simulation:
    """A table of six versions that begins to clean up now, and a file of a commit in progress."""
    simulation = Simulation.of(seed, versions=STORES[store]())
    world = simulation.world
    for kind in ("append", "delete", "overwrite", "append"):
        newest = max(world.archive)
        simulation.commit_now(make(kind, world, simulation.history(), newest), newest)
    config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    simulation.commit_now(UpdateConfig(MapUpdate(config)), 5)
    simulation.protocol = commit_and_clean
    world.objects[YOUNG], world.dates[YOUNG] = b"soon", world.store_clock
    return simulation


def _operation(simulation: Simulation, kind: str, version: int) -> Operation:
    # The one that is still there when it is committed.
    return (
        Restore(version) if kind == "restore" else make(kind, simulation.world, simulation.history(), version)
    )


def wrong(simulation: Simulation) -> list[str]:
    """What a commit with a cleanup may not leave."""
    newest = max(simulation.world.archive)
    found = simulation.violations()
    if newest not in simulation.world.manifests():
        found.append(f"I8: version {newest}, the newest, is gone")
    return found + (
        [] if YOUNG in simulation.world.objects else ["I8: what is about to be committed is gone"]
    )


def ended(running: Iterator[Request], meanwhile: Callable[[Request], None] | None = None) -> object:
    """The outcome of a commit; ``meanwhile`` is called with each of its requests."""
    while True:
        try:
            request = next(running)
        except StopIteration as end:
            return end.value
        if meanwhile is not None:
            meanwhile(request)


@pytest.mark.parametrize(("store", "kind"), CASES)
def test_nothing_needed_goes_whatever_goes_wrong_once(store: str, kind: str) -> None:
    plain = begun(store)
    requests, outcome = finish(plain, plain.start(_operation(plain, kind, 6), 6), (), rival=False)
    assert isinstance(outcome, Committed) and sorted(plain.world.manifests()) == [6, 7]
    removal = next(number for number, request in enumerate(requests) if isinstance(request, Remove))
    for place, request in enumerate(requests):
        for fault in possible(request):
            simulation = begun(store)
            mine = simulation.start(_operation(simulation, kind, 6), 6)
            _, outcome = finish(simulation, mine, chain(repeat(None, place), [fault]), rival=False)
            where = f"{fault} at request {place} ({type(request).__name__}): {outcome!r}"
            assert not wrong(simulation), where
            # Whatever the cleanup met, the commit before it stands.
            assert place < removal or outcome is None or isinstance(outcome, Committed), where
            newest = max(simulation.world.archive)
            last = simulation.commit_now(Append(files(simulation.world, 1)), newest)
            assert isinstance(last, Committed) and not wrong(simulation), where
            # After a clock went back, fewer versions are old.
            assert {newest, newest + 1} <= set(simulation.world.manifests()), where


@pytest.mark.parametrize("others", [2, 3, 4], ids="{} others".format)
@pytest.mark.parametrize("kind", ["append", "delete", "overwrite", "config"])
@pytest.mark.parametrize("store", STORES)
def test_writer_finds_out_that_its_version_was_made_and_removed_before(
    store: str, kind: str, others: int
) -> None:
    simulation = begun(store)
    world = simulation.world
    operation = (
        UpdateConfig(MapUpdate({"mine": "1"})) if kind == "config" else _operation(simulation, kind, 6)
    )
    running = simulation.start(operation, 6).advance()
    for request in running:
        if isinstance(request, Create):
            break
    for _ in range(others):
        simulation.commit_now(Append(files(world, 1)), max(world.manifests()))
    there = world.manifests()
    assert (7 in there) is (others == 2)
    objects = dict(world.objects)
    outcome = ended(running)
    if others > 2:
        assert isinstance(outcome, RetryableConflictError) and "removed it" in str(outcome)
        assert world.manifests() == there
    else:
        # Version 7 is there, so the race is lost, and the next attempt is checked against it.
        assert world.objects.get(there[7], objects[there[7]]) == objects[there[7]]
        assert not isinstance(outcome, Committed) or outcome.version == 9
    assert not isinstance(outcome, Committed) or not wrong(simulation)


@pytest.mark.parametrize("store", STORES)
def test_fragment_id_that_others_gave_to_another_fragment_is_no_proof_of_being_in_time(store: str) -> None:
    simulation = begun(store)
    world = simulation.world
    running = simulation.start(Append(files(world, 1)), 6).advance()
    for request in running:
        if isinstance(request, Create):
            break
    simulation.commit_now(Append(files(world, 1)), 6)
    (added,) = simulation.history()[7].parts[-1:]
    simulation.commit_now(Delete(removed=(added.id,)), 7)
    simulation.commit_now(Append(files(world, 1)), 8)
    there = world.manifests()
    assert sorted(there) == [8, 9]
    outcome = ended(running)
    assert isinstance(outcome, RetryableConflictError) and "removed it" in str(outcome)
    assert world.manifests() == there


@pytest.mark.parametrize("store", STORES)
def test_version_that_others_built_on_is_in_time(store: str) -> None:
    simulation = begun(store)
    world = simulation.world
    running = simulation.start(Append(files(world, 1)), 6).advance()
    made = False

    def others(request: Request) -> None:
        nonlocal made
        if made and 7 in world.manifests() and len(world.archive) == 7:
            for _ in range(3):
                simulation.commit_now(Append(files(world, 1)), max(world.manifests()))
        made = made or isinstance(request, Create)

    outcome = ended(running, others)
    assert isinstance(outcome, Committed) and outcome.version == 7
    assert sorted(world.manifests()) == [9, 10] and not wrong(simulation)


@pytest.mark.parametrize("why", ["it has a tag", "a cleanup is about to remove it"])
def test_version_before_may_be_there_although_the_number_was_used(why: str) -> None:
    simulation = begun("disk")
    world = simulation.world
    before, manifest = world.manifests()[6], world.objects[world.manifests()[6]]
    if why == "it has a tag":
        world.objects[tag_path("kept")] = encode_tag(Tag(6))
    running = simulation.start(make("update", world, simulation.history(), 6), 6).advance()
    made = False

    def others(request: Request) -> None:
        nonlocal made
        if isinstance(request, Create):
            for newest in (6, 7, 8):
                simulation.commit_now(make("overwrite", world, simulation.history(), newest), newest)
            assert 7 not in world.manifests()
            world.objects[before] = manifest
        elif made:
            # A disk dates a manifest before it has its name.
            world.dates[world.manifests()[7]] = 0
        if isinstance(request, Wait) and why != "it has a tag":
            del world.objects[before]
        made = isinstance(request, Create)

    assert isinstance(ended(running, others), CommitUnknownError)


@pytest.mark.parametrize(
    "seeds", [range(25, 40), pytest.param(range(40, 150), marks=pytest.mark.slow)], ids=["some", "others"]
)
@pytest.mark.parametrize("store", REUSING)
def test_writers_are_told_the_truth_in_any_order(store: str, seeds: range) -> None:
    wrong = {seed: check_reused_numbers(seed, REUSING[store](), commit_and_clean) for seed in seeds}
    assert not {seed: found for seed, found in wrong.items() if found}
