"""Tables with V1 names of manifests get V2 names, whatever interrupts it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path

import pytest

import lancecy
from lancecy.errors import FormatError, LanceError, UnsupportedError
from lancecy.table.requests import Request
from lancecy.table.versions import ConditionalPut, LocalLink, VersionStore
from lancecy.table.versions.renaming import rename_manifests
from tests.helpers.external_versions import external_versions
from tests.simulator.world import Crash, Fault, World, possible, run

V2_NAMES = [f"{2**64 - 1 - version}.manifest" for version in (3, 2, 1)]


def table(place: Path) -> lancecy.Dataset:
    """Three versions with V1 names; rows 1 and 3."""
    ds = lancecy.write_dataset({"a": [1, 2]}, place, enable_v2_manifest_paths=False)
    ds.append({"a": [3]})
    ds.delete("a = 2")
    assert names(place) == ["1.manifest", "2.manifest", "3.manifest"]
    return ds


def names(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "_versions").glob("*.manifest"))


@pytest.mark.interop
def test_the_names_are_those_of_pylance(tmp_path: Path) -> None:
    import lance

    ds = table(tmp_path / "t")
    for _ in range(2):
        ds.migrate_manifest_paths_v2()
        assert (names(tmp_path / "t"), ds.version) == (V2_NAMES, 3)
    ds.append({"a": [4]})
    theirs = lance.dataset(ds.uri)
    theirs.validate()
    assert theirs.to_table()["a"].to_pylist() == ds.to_table()["a"].to_pylist() == [1, 3, 4]
    assert [each["version"] for each in theirs.versions()] == [1, 2, 3, 4]
    assert ds.checkout_version(1).count_rows() == 2
    other = table(tmp_path / "other")
    lance.dataset(other.uri).migrate_manifest_paths_v2()
    assert names(tmp_path / "other") == V2_NAMES
    other.migrate_manifest_paths_v2()
    assert other.to_table()["a"].to_pylist() == [1, 3]


def test_an_older_version_stays_open(tmp_path: Path) -> None:
    old = table(tmp_path / "t").checkout_version(2)
    old.migrate_manifest_paths_v2()
    assert (old.version, old.count_rows(), old.latest_version) == (2, 3, 3)


def test_repair_finishes_what_was_interrupted(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table(place)
    assert not lancecy.repair(place) and names(place)[0] == "1.manifest"
    os.link(place / "_versions" / "3.manifest", place / "_versions" / V2_NAMES[0])
    with pytest.raises(FormatError, match=r"both naming schemes.* lancecy.repair finishes"):
        lancecy.dataset(place)
    found = lancecy.repair(place)
    assert (found.renamed, names(place)) == ((1, 2, 3), V2_NAMES)
    assert "the manifests of 3 versions got V2 names" in str(found)
    assert lancecy.dataset(place).to_table()["a"].to_pylist() == [1, 3]


def test_two_manifests_of_one_version_are_left_to_the_user(tmp_path: Path) -> None:
    place = tmp_path / "t"
    ds = table(place)
    os.link(place / "_versions" / "2.manifest", place / "_versions" / V2_NAMES[0])
    before = names(place)
    with pytest.raises(FormatError, match="version 3 has two different manifests"):
        ds.migrate_manifest_paths_v2()
    assert names(place) == before


def test_names_in_an_external_store_stay(tmp_path: Path) -> None:
    options = {"manifest_store": f"sqlite:///{tmp_path}/versions.db"}
    ds = lancecy.write_dataset(
        {"a": [1]}, tmp_path / "t", enable_v2_manifest_paths=False, storage_options=options
    )
    with pytest.raises(UnsupportedError, match="external manifest store"):
        ds.migrate_manifest_paths_v2()


def renamed(
    world: World, versions: VersionStore, faults: Iterable[Fault | None] = ()
) -> tuple[list[Request], object]:
    """Give a table V2 names: the requests, and what came of it."""
    made: list[Request] = []
    running = run(rename_manifests(versions), world, iter(faults))
    try:
        while True:
            made.append(next(running))
    except StopIteration as end:
        return made, end.value
    except (LanceError, Crash) as error:
        return made, error


def begun() -> World:
    """A table of three versions with V1 names, and other files."""
    objects = {f"_versions/{version}.manifest": b"%d" % version for version in (1, 2, 3)}
    others = {"_versions/latest_version_hint.json": b"{}", "data/1.manifest": b"x"}
    return World(random.Random(5), {**objects, **others}, copies=True)


@pytest.mark.parametrize("versions", [ConditionalPut(), LocalLink()], ids=["put", "link"])
def test_every_fault_leaves_what_the_next_run_finishes(versions: VersionStore) -> None:
    undisturbed = begun()
    requests, found = renamed(undisturbed, versions)
    assert found == (1, 2, 3)
    expected = undisturbed.objects
    assert {path: data for path, data in expected.items() if path.endswith("t") and "data" not in path} == {
        f"_versions/{name}": data for name, data in zip(V2_NAMES, (b"3", b"2", b"1"), strict=True)
    }
    for place, request in enumerate(requests):
        for fault in possible(request):
            if fault is Fault.LATE and versions.fails_at_once:
                continue
            world = begun()
            _, outcome = renamed(world, versions, chain(repeat(None, place), [fault]))
            where = f"{fault} at request {place} ({type(request).__name__}): {outcome!r}"
            assert isinstance(outcome, tuple | LanceError | Crash), where
            world.deliver()
            _, again = renamed(world, versions)
            assert isinstance(again, tuple), where
            assert world.objects == expected, where


def test_two_runs_at_once_do_the_same() -> None:
    world, versions = begun(), ConditionalPut()
    running = [run(rename_manifests(versions), world, iter(())) for _ in range(2)]
    while running:
        for one in [*running]:
            try:
                next(one)
            except StopIteration:
                running.remove(one)
    assert len(world.manifests()) == 3 and not any(len(path) < 30 for path in world.manifests().values())


def test_an_external_store_refuses_v1_names() -> None:
    _, found = renamed(begun(), external_versions())
    assert isinstance(found, UnsupportedError)
