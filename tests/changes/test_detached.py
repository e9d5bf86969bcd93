"""Versions outside the history: made, opened, followed and restored, by lancecy and pylance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import LanceFragment, LanceOperation
from lancecy.errors import (
    CommitError,
    CommitUnknownError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedError,
)
from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed, Policy
from lancecy.table.operations import Append, Delete, Transaction
from lancecy.table.paths import DETACHED
from lancecy.table.wire.manifest_file import decode_manifest_file
from tests.changes.rows import rows_of
from tests.simulator.actors import Simulation, files
from tests.simulator.world import Crash, Fault, possible, run

NOW = timedelta(0)


def versions(ds: Any) -> list[int]:
    return [version["version"] for version in ds.versions()]


def appended(ds: lancecy.Dataset, *numbers: int, **options: Any) -> lancecy.Dataset:
    """The version with these rows, outside the history."""
    new = LanceFragment.create(ds, {"n": list(numbers)})
    return lancecy.commit(ds, LanceOperation.Append([new]), detached=True, **options)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_detached_version_is_found_by_its_number_alone(tmp_path: Path, version: str, stable: bool) -> None:
    ds = lancecy.write_dataset(
        {"n": [1, 2]}, tmp_path, data_storage_version=version, enable_stable_row_ids=stable
    )
    made = appended(ds, 3, commit_message="a trial")
    assert made.version >= DETACHED and rows_of(made) == [1, 2, 3]
    assert (ds.latest_version, versions(ds), rows_of(lancecy.dataset(tmp_path))) == (1, [1], [1, 2])
    again = lancecy.dataset(tmp_path, version=made.version)
    assert again == made == ds.checkout_version(made.version)
    assert again.verify().is_ok
    transaction = made.read_transaction(made.version)
    assert transaction is not None
    assert (transaction.commit_message, transaction.read_version) == ("a trial", 1)
    assert again.checkout_latest().version == 1
    if stable:
        lineage = again.to_table(["_rowid", "_row_created_at_version"]).to_pydict()
        assert lineage == {"_rowid": [0, 1, 2], "_row_created_at_version": [1, 1, made.version]}


def test_what_others_commit_meanwhile_is_not_in_it(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1, 2]}, tmp_path)
    lancecy.dataset(tmp_path).delete("n = 1")
    assert rows_of(appended(ds, 3)) == [1, 2, 3]
    change = LanceOperation.Append([LanceFragment.create(tmp_path, {"n": [4]})])
    assert rows_of(lancecy.commit(tmp_path, change, 1, detached=True)) == [1, 2, 4]
    assert rows_of(lancecy.commit(tmp_path, change, 2, detached=True)) == [2, 4]


def test_detached_versions_follow_each_other(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1, 2]}, tmp_path, enable_stable_row_ids=True)
    first = appended(ds, 3)
    second = appended(first, 4)
    new = [part.delete("n = 3") for part in second.get_fragments()]
    kept = [part for part in new if part is not None]
    third = lancecy.commit(second, LanceOperation.Delete(kept, [1], "n = 3"), detached=True)
    assert [rows_of(made) for made in (ds, first, second, third)] == [
        [1, 2],
        [1, 2, 3],
        [1, 2, 3, 4],
        [1, 2, 4],
    ]
    by_number = LanceOperation.Append([LanceFragment.create(tmp_path, {"n": [5]})])
    assert rows_of(lancecy.commit(tmp_path, by_number, third.version, detached=True)) == [1, 2, 4, 5]
    assert versions(ds) == [1]


def test_restore_makes_it_the_newest_version(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1, 2]}, tmp_path, enable_stable_row_ids=True)
    made = appended(ds, 3)
    ds.append({"n": [9]})
    made.restore()
    assert (made.version, rows_of(made), versions(made)) == (3, [1, 2, 3], [1, 2, 3])
    made.append({"n": [4]})
    assert rows_of(lancecy.dataset(tmp_path)) == [1, 2, 3, 4]
    assert lancecy.dataset(tmp_path).verify().is_ok


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.append({"n": [4]}),
        lambda ds: ds.delete("n = 1"),
        lambda ds: ds.update_config({"a": "b"}),
        lambda ds: lancecy.write_dataset({"n": [4]}, ds, mode="append"),
        lambda ds: lancecy.commit(ds, LanceOperation.Append([LanceFragment.create(ds, {"n": [4]})])),
        lambda ds: lancecy.commit(ds.uri, LanceOperation.Append([]), ds.version),
    ],
)
def test_history_does_not_follow_a_detached_version(tmp_path: Path, change: Any) -> None:
    made = appended(lancecy.write_dataset({"n": [1, 2]}, tmp_path), 3)
    with pytest.raises(CommitError, match="is detached, so no version of the history can follow it"):
        change(made)
    assert (made.latest_version, rows_of(made)) == (1, [1, 2, 3])


def test_tables_that_cannot_have_detached_versions_say_so(tmp_path: Path) -> None:
    old = lancecy.write_dataset({"n": [1]}, tmp_path / "v1", enable_v2_manifest_paths=False)
    with pytest.raises(UnsupportedError, match="manifest names of V1"):
        appended(old, 2)
    new = LanceFragment.create(tmp_path / "new", {"n": [1]})
    change = LanceOperation.Overwrite(pa.schema({"n": "int64"}), [new])
    with pytest.raises(UnsupportedError, match="a table is created by"):
        lancecy.commit(tmp_path / "new", change, detached=True)
    assert not list((tmp_path / "new").rglob("*.manifest"))
    with pytest.raises(ValueError, match="a token finds a commit in the history"):
        appended(lancecy.write_dataset({"n": [1]}, tmp_path / "t"), 2, token="x")


def test_version_that_is_gone_cannot_be_followed(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1]}, tmp_path)
    stale = lancecy.dataset(tmp_path)
    ds.append({"n": [2]})
    ds.cleanup_old_versions(NOW)
    with pytest.raises(RetryableConflictError, match="is gone"):
        appended(stale, 3)
    with pytest.raises(NotFoundError):
        lancecy.commit(tmp_path, LanceOperation.Append([]), 1, detached=True)


@pytest.mark.parametrize("by_pylance", [False, pytest.param(True, marks=pytest.mark.interop)])
def test_cleanup_keeps_every_file_of_a_detached_version(tmp_path: Path, by_pylance: bool) -> None:
    ds = lancecy.write_dataset({"n": [1, 2, 3]}, tmp_path)
    ds.delete("n = 1")
    if by_pylance:
        import lance

        part = lance.fragment.LanceFragment.create(ds.uri, pa.table({"n": [4]}))
        change = lance.LanceOperation.Append([part])
        made = lance.LanceDataset.commit(lance.dataset(ds.uri), change, read_version=2, detached=True)
        number = made.version
    else:
        number = appended(ds, 4).version
    # Nothing of the table needs these files any more.
    ds.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    for count in range(3):
        ds.insert({"n": [count]}, mode="overwrite")
    ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert versions(ds) == [6]
    detached = lancecy.dataset(tmp_path, version=number)
    assert rows_of(detached) == [2, 3, 4] and detached.verify().is_ok


def test_bases_that_moved_since_are_not_guessed(tmp_path: Path) -> None:
    base = lancecy.DatasetBasePath(str(tmp_path / "b"), "b")
    ds = lancecy.write_dataset({"n": [1]}, tmp_path / "t", initial_bases=[base], target_bases=["b"])
    made = appended(ds, 2)
    (tmp_path / "b").rename(tmp_path / "moved")
    ds.relocate_base("b", str(tmp_path / "moved"), force=True)
    with pytest.raises(UnsupportedError, match="bases of the table were moved or removed"):
        lancecy.commit(ds, LanceOperation.Restore(made.version))


# -- with pylance ---------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True])
def test_both_libraries_follow_each_others_detached_versions(tmp_path: Path, stable: bool) -> None:
    import lance

    uri = str(tmp_path)
    ds = lancecy.write_dataset({"n": [1, 2]}, uri, enable_stable_row_ids=stable)
    mine = appended(ds, 3)
    part = lance.fragment.LanceFragment.create(uri, pa.table({"n": [4]}))
    opened = lance.dataset(uri, version=mine.version)
    change = lance.LanceOperation.Append([part])
    theirs = lance.LanceDataset.commit(opened, change, read_version=mine.version, detached=True)
    assert theirs.to_table()["n"].to_pylist() == [1, 2, 3, 4]
    last = appended(lancecy.dataset(uri, version=theirs.version), 5)
    assert (
        rows_of(last)
        == lance.dataset(uri, version=last.version).to_table()["n"].to_pylist()
        == [1, 2, 3, 4, 5]
    )
    lance.dataset(uri, version=last.version).validate()
    names = ["n", "_rowid", "_row_created_at_version"] if stable else ["n", "_rowid"]
    read = lance.dataset(uri, version=last.version).to_table(columns=names)
    assert last.to_table(names).to_pydict() == read.to_pydict()
    assert lance.dataset(uri).version == lancecy.dataset(uri).version == 1
    lance.dataset(uri, version=last.version).restore()
    assert rows_of(lancecy.dataset(uri)) == [1, 2, 3, 4, 5]


# -- faults ---------------------------------------------------------------------------------------


def _begun(kind: str, name: str = "1" * 8) -> tuple[Simulation, Any]:
    """A table of two versions, and the requests of a detached commit from the second."""
    simulation = Simulation.of(5)
    simulation.commit_now(Append(files(simulation.world, 2)), 1)
    return simulation, _steps(simulation, kind, name)


def _steps(simulation: Simulation, kind: str, name: str) -> Any:
    part = simulation.history()[2].parts[0]
    operation = Append(files(simulation.world, 1)) if kind == "append" else Delete(removed=(part.id,))
    transaction = Transaction(2, f"{name}-0000-4000-8000-000000000000", operation)
    return commit(transaction, simulation.origin(2), Policy(detached=True), simulation.versions)


def _taken_out(simulation: Simulation) -> list[int]:
    """Detached versions that are there, each of which can be read; they are removed."""
    found, world = [], simulation.world
    for path in [path for path in world.objects if path.startswith("_versions/d")]:
        number = int(path.removeprefix("_versions/d").removesuffix(".manifest"))
        decode_manifest_file(np.frombuffer(world.objects.pop(path), np.uint8), path, number)
        del world.archive[number]
        found.append(number)
    return found


def _outcome(simulation: Simulation, steps: Any, faults: Iterable[Fault | None]) -> object:
    running = run(steps, simulation.world, iter(faults))
    try:
        while True:
            next(running)
    except StopIteration as end:
        return end.value
    except (LanceError, Crash) as error:
        return error


@pytest.mark.parametrize("kind", ["append", "delete"])
def test_detached_commit_tells_the_truth_whatever_goes_wrong_once(kind: str) -> None:
    simulation, steps = _begun(kind)
    requests = list(run(steps, simulation.world, iter(())))
    assert len(_taken_out(simulation)) == 1 and len(requests) >= 5
    for place, request in enumerate(requests):
        for fault in possible(request):
            simulation, steps = _begun(kind)
            before = dict(simulation.world.objects)
            outcome = _outcome(simulation, steps, chain(repeat(None, place), [fault]))
            where = f"{fault} at request {place} ({type(request).__name__}): {outcome!r}"
            found = _taken_out(simulation)
            # The history, and every file of it, is what it was.
            assert before.items() <= simulation.world.objects.items(), where
            assert sorted(simulation.world.manifests()) == [1, 2], where
            if isinstance(outcome, Committed):
                assert found == [outcome.version], where
            elif not isinstance(outcome, CommitUnknownError | Crash):
                assert not found, where


def test_number_that_is_taken_is_not_used_again() -> None:
    simulation, steps = _begun("append")
    other = _steps(simulation, "append", "2" * 8)
    state = simulation.world.rng.getstate()
    first = _outcome(simulation, steps, ())
    simulation.world.rng.setstate(state)
    second = _outcome(simulation, other, ())
    assert isinstance(first, Committed) and isinstance(second, Committed)
    assert (first.attempts, second.attempts) == (1, 2)
    assert sorted(_taken_out(simulation)) == sorted([first.version, second.version])
