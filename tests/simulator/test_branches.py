"""Whatever goes wrong, whoever is at work: a branch that was promised is whole, and a deletion removes only its own."""

from __future__ import annotations

import copy
import functools
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest

from lancecy.errors import CommitUnknownError, LanceError
from lancecy.table.answers import run as run_steps
from lancecy.table.branches.creation import NewBranch, create_branch
from lancecy.table.branches.removal import Work, delete_branch, remove_leftover
from lancecy.table.cleanup.run import CleanupOptions, Scope, cleanup
from lancecy.table.manifest import Manifest
from lancecy.table.operations import Clone, Transaction
from lancecy.table.paths import Naming, parse_manifest_name
from lancecy.table.refs.names import branch_folder, branch_of, branch_path
from lancecy.table.requests import Request, Steps
from lancecy.table.versions import ConditionalPut, ManifestLocation
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file
from tests.simulator.actors import Simulation, make
from tests.simulator.world import Crash, Fault, World, possible, run

ROOT = "/t"
VERSIONS = ConditionalPut()
DAY = 86_400 * 10**9
# A turn that comes after all requests.
AFTER = 1_000

Act = Callable[[], Any]


def begun() -> Simulation:
    return copy.deepcopy(_made())


@functools.cache
def _made() -> Simulation:
    """A table of five versions, and the branches a (of version 4) and a/data (of version 5)."""
    simulation = Simulation.of(7)
    world = simulation.world
    for kind in ("append", "delete", "append", "overwrite"):
        newest = max(world.archive)
        simulation.commit_now(make(kind, world, simulation.history(), newest), newest)
    for name, version in (("a", 4), ("a/data", 5)):
        run_steps(creation(world, name, version), world.carry_out)
        # Both have a data file; that of the first is in the folder of the second.
        world.objects[f"{branch_folder(name)}/data/{'01' * 20}.lance"] = b"own"
    return simulation


def stored(world: World, path: str) -> ManifestFile:
    name = parse_manifest_name(path.rpartition("/")[2])
    assert name is not None
    return decode_manifest_file(np.frombuffer(world.objects[path], np.uint8), path, name.version)


def creation(world: World, name: str, version: int, parent: str | None = None) -> Steps[Any]:
    """The creation of a branch."""
    unique = uuid.UUID(int=world.rng.getrandbits(128))
    place = ManifestLocation.canonical(version, Naming.V2)
    folder = "" if parent is None else f"{branch_folder(parent)}/"
    source = stored(world, folder + place.path)
    root = f"{ROOT}/{folder}".rstrip("/")
    clone = Transaction(version, str(unique), Clone(version, root, parent, name, source=source))
    new = NewBranch(name, parent, place, clone, unique.hex, len(source.raw))
    return create_branch(new, VERSIONS)


def work(world: World, older_than_ns: int = 7 * DAY) -> Work:
    return Work(VERSIONS, f"{world.rng.getrandbits(128):x}", older_than_ns)


def outcome(
    steps: Steps[Any], world: World, faults: Iterable[Fault | None] = (), before: dict[int, Act] | None = None
) -> tuple[list[Request], Any]:
    """The requests of an actor, with other things done before some of them, and what came of it."""
    made: list[Request] = []
    try:
        running = run(steps, world, iter(faults))
        while True:
            request = next(running)
            (before or {}).get(len(made), lambda: None)()
            made.append(request)
    except StopIteration as end:
        return made, end.value
    except (LanceError, Crash) as error:
        return made, error


def single_faults(requests: list[Request]) -> Iterator[tuple[int, Fault | None]]:
    yield 0, None
    for place, request in enumerate(requests):
        for fault in possible(request):
            yield place, fault


def names(world: World) -> set[str]:
    """The branches that are listed."""
    return {name for path in world.objects if (name := branch_of(path)) is not None}


def needed(world: World, name: str, manifest: Manifest) -> set[str]:
    """Paths of the files of a version."""
    home = branch_folder(name)

    def place(base: int | None) -> str:
        root = home if base is None else manifest.base_paths[base].path.removeprefix(ROOT).strip("/")
        return f"{root}/" if root else ""

    paths = set()
    for fragment in manifest.fragments:
        paths |= {f"{place(file.base_id)}data/{file.path}" for file in fragment.files}
        gone = fragment.deletion_file
        if gone is not None:
            paths.add(f"{place(gone.base_id)}_deletions/{gone.name(fragment.id)}")
    return paths


def faulty(world: World, name: str, version: int | None = None) -> list[str]:
    """What is wrong with a branch that is listed; ``version`` is the one it was created from."""
    manifests = [
        path for path in world.objects
        if path.startswith(f"{branch_folder(name)}/_versions/") and path.endswith(".manifest")
        and path.count("/") == branch_folder(name).count("/") + 2
    ]  # fmt: skip
    if len(manifests) != 1:
        return [f"{name} has the versions {manifests}"]
    found = stored(world, manifests[0])
    wrong = [f"{path} of {name} is gone" for path in needed(world, name, found.manifest) - set(world.objects)]
    if found.manifest.branch != name or version not in (None, found.version):
        wrong.append(f"{name} is {found.manifest.branch} from {found.version} instead of {version}")
    return wrong


def is_done(result: object) -> bool:
    return not isinstance(result, BaseException)


def may_be_done(result: object) -> bool:
    return is_done(result) or isinstance(result, CommitUnknownError | Crash)


def healed(simulation: Simulation, name: str) -> None:
    """The name is free again, or its branch can be deleted, with the remedies that errors name."""
    world = simulation.world
    if name in names(world):
        _, result = outcome(delete_branch(name, work(world, 0)), world)
        assert is_done(result), result
    _, result = outcome(creation(world, name, 5), world)
    if not is_done(result):
        assert "remove_leftover" in str(result)
        _, removed = outcome(remove_leftover(name, work(world, 0)), world)
        assert is_done(removed), removed
        _, result = outcome(creation(world, name, 5), world)
    assert is_done(result), result
    assert not faulty(world, name, 5)


def unharmed(world: World, before: dict[str, bytes], but: str) -> list[str]:
    """Files that an actor may not have touched: all but those in the folder of a branch, and its file."""
    mine = (f"{branch_folder(but)}/", branch_path(but))
    return [path for path in before if not path.startswith(mine) and world.objects.get(path) != before[path]]


# --------------------------------------------------------------------------- creating


def test_branch_is_whole_or_not_there_whatever_goes_wrong_once() -> None:
    plain = begun()
    requests, _ = outcome(creation(plain.world, "new", 4), plain.world)
    for place, fault in single_faults(requests):
        simulation = begun()
        world, before = simulation.world, dict(simulation.world.objects)
        _, result = outcome(creation(world, "new", 4), world, chain(repeat(None, place), [fault]))
        for is_late in (False, True):
            where = f"{fault} at {place}, {type(requests[place]).__name__}, late {is_late}: {result!r}"
            if "new" in names(world):
                assert may_be_done(result) and not faulty(world, "new", 4), where
            assert not is_done(result) or "new" in names(world), where
            assert not unharmed(world, before, "new"), where
            world.deliver()
        healed(simulation, "new")


@pytest.mark.slow
@pytest.mark.parametrize("other", [4, 5], ids=["same version", "another version"])
def test_of_two_creators_of_one_name_one_wins(other: int) -> None:
    plain = begun()
    requests, _ = outcome(creation(plain.world, "new", 4), plain.world)
    for turn in range(len(requests) + 1):
        for place, fault in single_faults(requests):
            simulation = begun()
            world, second = simulation.world, list[Any]()

            def rival(world: World = world, second: list[Any] = second) -> None:
                second.append(outcome(creation(world, "new", other), world)[1])

            faults = chain(repeat(None, place), [fault])
            _, first = outcome(creation(world, "new", 4), world, faults, {turn: rival})
            if not second:
                rival()
            world.deliver()
            where = f"second before {turn}, {fault} at {place}: {first!r}, {second[0]!r}"
            won = [version for version, result in ((4, first), (other, second[0])) if is_done(result)]
            assert len(won) <= 1 and (fault is not None or len(won) == 1), where
            if won:
                assert "new" in names(world) and not faulty(world, "new", won[0]), where
            elif "new" in names(world):
                assert not faulty(world, "new") and (may_be_done(first) or may_be_done(second[0])), where


def test_created_branch_keeps_its_files_from_a_cleanup_at_the_same_time() -> None:
    options = CleanupOptions(5, 0, unverified=True, fail_if_tagged=False)
    created = 0
    for first, second in (("create", "clean"), ("clean", "create")):
        turn, is_over = 0, False
        while not is_over:
            world, results = begun().world, dict[str, Any]()
            steps = {"create": creation(world, "new", 3), "clean": cleanup(Scope(VERSIONS), options)}

            def rival(
                world: World = world, results: Any = results, steps: Any = steps, second: str = second
            ) -> None:
                results[second] = outcome(steps[second], world)[1]

            results[first] = outcome(steps[first], world, (), {turn: rival})[1]
            if second not in results:
                rival()
                is_over = True
            where = f"{second} before {turn} of {first}: {results!r}"
            assert is_done(results["create"]) == ("new" in names(world)), where
            if "new" in names(world):
                assert not faulty(world, "new", 3), where
                assert ManifestLocation.canonical(3, Naming.V2).path in world.objects, where
                created += 1
            turn += 1
    assert created > 10


# --------------------------------------------------------------------------- deleting


def test_deletion_removes_its_own_files_only_whatever_goes_wrong_once() -> None:
    plain = begun()
    requests, result = outcome(delete_branch("a", work(plain.world)), plain.world)
    left = {path for path in plain.world.objects if path.startswith("tree/a/")}
    assert is_done(result) and names(plain.world) == {"a/data"} and not faulty(plain.world, "a/data", 5)
    assert left and all(path.startswith("tree/a/data/") for path in left)
    for place, fault in single_faults(requests):
        simulation = begun()
        world, before = simulation.world, dict(simulation.world.objects)
        _, result = outcome(delete_branch("a", work(world)), world, chain(repeat(None, place), [fault]))
        for _ in range(2):
            where = f"{fault} at {place}, {type(requests[place]).__name__}: {result!r}"
            assert not is_done(result) or "a" not in names(world), where
            assert "a" not in names(world) or not faulty(world, "a", 4), where
            assert "a/data" in names(world) and not faulty(world, "a/data", 5), where
            assert not unharmed(world, before, "a"), where
            kept = {path for path in before if path.startswith("tree/a/data/") and path in left}
            assert kept <= set(world.objects), where
            world.deliver()
        healed(simulation, "a")
        assert not faulty(world, "a/data", 5)


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
def test_branch_created_again_while_it_is_deleted_is_whole(late: bool) -> None:
    plain = begun()
    requests, _ = outcome(delete_branch("a", work(plain.world)), plain.world)
    for turn in (*range(len(requests)), AFTER):
        for place, fault in single_faults(requests):
            simulation = begun()
            world, results = simulation.world, list[Any]()

            def again(world: World = world, results: list[Any] = results) -> None:
                results.append(outcome(creation(world, "a", 4), world)[1])

            faults = chain(repeat(None, place), [fault])
            _, deleted = outcome(delete_branch("a", work(world)), world, faults, {turn: again})
            if not results:
                again()
            if late:
                world.deliver()
            where = f"created before {turn}, {fault} at {place}: {deleted!r}, {results[0]!r}"
            if is_done(results[0]):
                assert "a" in names(world) and not faulty(world, "a", 4), where
            assert "a/data" in names(world) and not faulty(world, "a/data", 5), where


@pytest.mark.parametrize(("name", "parent"), [("a/b", None), ("a/b", "a"), ("a/_x", "a"), ("c", "a")])
def test_branch_created_while_another_is_deleted_is_whole(name: str, parent: str | None) -> None:
    for first in ("delete", "create"):
        turn, is_over = 0, False
        while not is_over:
            world, results = begun().world, dict[str, Any]()
            # The version that the branch starts from is opened before either begins.
            steps = {"create": creation(world, name, 4, parent), "delete": delete_branch("a", work(world))}
            second = "create" if first == "delete" else "delete"

            def rival(
                world: World = world, results: Any = results, steps: Any = steps, second: str = second
            ) -> None:
                results[second] = outcome(steps[second], world)[1]

            results[first] = outcome(steps[first], world, (), {turn: rival})[1]
            if second not in results:
                rival()
                is_over = True
            where = f"{second} before {turn} of {first}: {results!r}"
            assert is_done(results["create"]) or is_done(results["delete"]), where
            assert is_done(results["create"]) == (name in names(world)), where
            assert is_done(results["delete"]) == ("a" not in names(world)), where
            for left in names(world):
                assert not faulty(world, left), where
            turn += 1
