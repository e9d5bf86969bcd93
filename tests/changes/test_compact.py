"""Compaction: fewer and larger fragments, the same rows, ids and versions, whoever else changes the table."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath
from lancecy.errors import FormatError, RetryableConflictError, SchemaError, UnsupportedError
from lancecy.optimize import Compaction, CompactionMetrics, CompactionPlan, CompactionTask, RewriteResult
from lancecy.progress import Step
from tests.changes.rows import data_files, numbers, rows_of
from tests.helpers.folded import folded

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
LINEAGE = ["n", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
NOTHING = CompactionMetrics()


def rows(start: int, count: int) -> pa.Table:
    """Rows that every version of files can hold."""
    values = range(start, start + count)
    vector = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * count), pa.float32()), 2)
    word = [None if i % 7 == 0 else f"w{i % 50}" for i in values]
    return pa.table({"n": values, "word": word, "vector": vector})


def table(
    path: Path, version: str = "2.1", parts: int = 5, size: int = 100, **options: Any
) -> lancecy.Dataset:
    ds = lancecy.write_dataset(
        rows(0, size), path, data_storage_version=version, durability="none", **options
    )
    for part in range(1, parts):
        ds.append(rows(part * size, size), durability="none")
    return ds


def sizes(ds: lancecy.Dataset) -> list[int]:
    return [fragment.count_rows() for fragment in ds.get_fragments()]


# -- rows, files, versions ------------------------------------------------------------------------


@folded("version", VERSIONS)
def test_small_fragments_become_large_ones(version: str, tmp_path: Path) -> None:
    ds = table(tmp_path / version, version)
    ds.delete("n % 10 = 3 and n < 200")
    expected = ds.to_table()
    metrics = ds.optimize.compact_files(target_rows_per_fragment=220, durability="none")
    assert metrics == CompactionMetrics(5, 2, 7, 2)
    assert (ds.version, sizes(ds)) == (7, [240, 240])
    assert ds.to_table().equals(expected)
    assert all(fragment.num_deletions == 0 for fragment in ds.get_fragments())
    assert ds.optimize.compact_files(target_rows_per_fragment=220) == NOTHING
    assert ds.version == 7


@folded("version", VERSIONS)
def test_row_ids_and_versions_stay(version: str, tmp_path: Path) -> None:
    ds = table(tmp_path / version, version, enable_stable_row_ids=True)
    ds.delete("n in (5, 99, 100, 401)")
    expected = ds.to_table(columns=LINEAGE)
    ds.optimize.compact_files(target_rows_per_fragment=200, durability="none")
    assert ds.to_table(columns=LINEAGE).equals(expected)
    ds.append(rows(900, 3), durability="none")
    assert ds.to_table(columns=["_rowid"])["_rowid"].to_pylist()[-3:] == [500, 501, 502]


@folded("version", VERSIONS[2:])
def test_columns_of_every_type_survive(version: str, tmp_path: Path) -> None:
    path = tmp_path / version
    ds = lancecy.write_dataset(numbers(0, 300), path, data_storage_version=version, durability="none")
    ds.append(numbers(300, 50), durability="none")
    ds.delete("n = 7")
    expected = ds.to_table()
    ds.optimize.compact_files(durability="none")
    assert len(ds.get_fragments()) == 1
    assert ds.to_table().to_pylist() == expected.to_pylist()


def test_fragments_with_missing_columns_are_merged(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=1)
    ds.append(rows(100, 10).select(["n"]), durability="none")
    expected = ds.to_table()
    ds.optimize.compact_files(compaction_mode="try_binary_copy", durability="none")
    assert len(ds.get_fragments()) == 1
    assert ds.to_table().equals(expected)


def test_large_pages_are_copied_and_small_ones_merged(tmp_path: Path) -> None:
    def pages(ds: lancecy.Dataset) -> int:
        (part,) = ds.context.files(ds.context.fragments[0].id).parts
        return len(part.reader.page_starts(ds.context.snapshot.schema.fields[0])) - 1

    large = table(tmp_path / "large", parts=3, size=10_000)
    large.drop_columns(["word"])  # its pages have dictionaries
    large.optimize.compact_files(durability="none")
    assert pages(large) == 3
    small = table(tmp_path / "small", parts=3)
    small.optimize.compact_files(durability="none")
    assert pages(small) == 1
    anew = table(tmp_path / "anew", parts=3, size=10_000)
    anew.drop_columns(["word"])
    anew.optimize.compact_files(compaction_mode="reencode", durability="none")
    assert pages(anew) == 1
    assert large.to_table().equals(anew.to_table())


@pytest.mark.parametrize(("kind", "pages"), [("list", 3), ("dictionary", 1)])
def test_pages_with_dictionaries_are_merged_if_they_are_not_larger(
    kind: str, pages: int, tmp_path: Path
) -> None:
    def pages_after(size: int) -> int:
        values: Any = [[n, n + 1] for n in range(size)]
        if kind == "dictionary":
            values = [f"one of a few long texts, number {n % 9}" for n in range(size)]
        uri = str(tmp_path / str(size))
        for _ in range(3):
            lancecy.write_dataset(
                pa.table({"c": values}), uri, mode="append", data_storage_version="2.1", durability="none"
            )
        ds = lancecy.dataset(uri)
        expected = ds.to_table()
        ds.optimize.compact_files(durability="none")
        assert ds.to_table().equals(expected)
        (part,) = ds.context.files(ds.context.fragments[0].id).parts
        return len(part.reader.page_starts(ds.context.snapshot.schema.fields[0])) - 1

    assert pages_after(10_000) == pages
    assert pages_after(70_000) == 3


@folded("version", VERSIONS)
def test_pages_that_must_be_copied_and_cannot_be_stop_it(version: str, tmp_path: Path) -> None:
    ds = table(tmp_path / version, version)
    rows_before = ds.to_table()
    ds.optimize.compact_files(compaction_mode="force_binary_copy", durability="none")
    assert ds.to_table().equals(rows_before)
    ds.append(rows(500, 10), durability="none")
    ds.delete("n = 3")
    before, files = ds.version, data_files(tmp_path / version)
    with pytest.raises(UnsupportedError, match=r"cannot be copied: rows are deleted \(in fragment"):
        ds.optimize.compact_files(compaction_mode="force_binary_copy", durability="none")
    assert (ds.version, data_files(tmp_path / version)) == (before, files)


def test_new_files_may_have_another_version(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    expected = ds.to_table()
    ds.optimize.compact_files(data_storage_version="2.0", durability="none")
    assert [(file.major, file.minor) for file in ds.get_fragments()[0].metadata.files] == [(2, 0)]
    assert ds.to_table().equals(expected)
    with pytest.raises(SchemaError, match=r"version 0\.1"):
        table(tmp_path / "old").optimize.compact_files(data_storage_version="0.1")


def test_new_files_go_to_bases(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", parts=4)
    ds.add_bases([DatasetBasePath(tmp_path / name, name=name) for name in ("b1", "b2")])
    expected = ds.to_table()
    ds.optimize.compact_files(target_rows_per_fragment=200, target_bases=["b1", "b2"], durability="none")
    assert [part.metadata.files[0].base_id for part in ds.get_fragments()] == [1, 2]
    assert ds.to_table().equals(expected)


def test_progress_counts_all_rows_and_options_are_checked(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=4)
    steps: list[Step] = []
    ds.optimize.compact_files(target_rows_per_fragment=200, progress=steps.append, durability="none")
    assert steps[-1] == Step("compact", 400, 400, "rows")
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    with pytest.raises(TypeError, match="did you mean 'num_threads'"):
        ds.optimize.compact_files(num_thread=2)  # type: ignore[call-arg]
    with pytest.raises(UnsupportedError, match="index of moved rows"):
        ds.optimize.compact_files(defer_index_remap=True)


def test_groups_may_be_rewritten_side_by_side(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=8)
    expected = ds.to_table()
    metrics = ds.optimize.compact_files(target_rows_per_fragment=200, num_threads=3, durability="none")
    assert metrics == CompactionMetrics(8, 4, 8, 4)
    assert ds.to_table().equals(expected)


def test_a_message_is_recorded(tmp_path: Path) -> None:
    ds = table(tmp_path)
    ds.optimize.compact_files(commit_message="weekly", transaction_properties={"by": "cron"})
    transaction = ds.read_transaction(ds.version)
    assert transaction is not None
    assert transaction.transaction_properties == {"by": "cron", "__lance_commit_message": "weekly"}


# -- in steps -------------------------------------------------------------------------------------


def test_tasks_and_results_travel_as_pickles_and_as_json(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=4, enable_stable_row_ids=True)
    ds.delete("n = 3")
    expected = ds.to_table(columns=LINEAGE)
    plan = Compaction.plan(ds, {"target_rows_per_fragment": 150})
    assert plan.num_tasks() == 2
    assert CompactionPlan.from_json(plan.json()) == pickle.loads(pickle.dumps(plan)) == plan
    results = []
    for task in plan.tasks:
        assert CompactionTask.from_json(task.json()) == pickle.loads(pickle.dumps(task)) == task
        result = pickle.loads(pickle.dumps(task)).execute(lancecy.dataset(tmp_path))
        assert RewriteResult.from_json(result.json()) == pickle.loads(pickle.dumps(result)) == result
        results.append(RewriteResult.from_json(result.json()))
    assert lancecy.dataset(tmp_path).version == ds.version
    # A task that a scheduler ran twice has two results, and the last worker may be the first to end.
    results = [*results[::-1], plan.tasks[0].execute(ds)]
    assert Compaction.commit(ds, results) == CompactionMetrics(4, 2, 5, 2)
    assert ds.to_table(columns=LINEAGE).equals(expected)


@folded("kind", [CompactionPlan, CompactionTask, RewriteResult])
def test_other_text_is_refused(kind: Any) -> None:
    for text in ("{}", "[]", "no json", json.dumps({"tasks": 3, "task": {}, "read_version": 1})):
        with pytest.raises(ValueError, match="this is not"):
            kind.from_json(text)


def test_some_results_may_be_committed_alone(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=4)
    expected = ds.to_table()
    plan = Compaction.plan(ds, {"target_rows_per_fragment": 200})
    assert Compaction.commit(ds, [plan.tasks[1].execute(ds)]) == CompactionMetrics(2, 1, 2, 1)
    assert sorted(sizes(ds)) == [100, 100, 200]
    assert sorted(rows_of(ds)) == sorted(expected["n"].to_pylist())
    assert Compaction.commit(ds, []) == NOTHING


def test_results_of_two_plans_are_refused(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=4)
    one = Compaction.plan(ds, {"target_rows_per_fragment": 200}).tasks[0].execute(ds)
    other = Compaction.plan(ds, {"target_rows_per_fragment": 400}).tasks[0].execute(ds)
    with pytest.raises(ValueError, match="in several results"):
        Compaction.commit(ds, [one, other])
    ds.append(rows(900, 1), durability="none")
    later = Compaction.plan(ds, {"excluded_fragment_ids": [0, 1]}).tasks[0].execute(ds)
    with pytest.raises(ValueError, match="versions 4 and 5"):
        Compaction.commit(ds, [one, later])


def test_a_task_of_another_table_is_refused(tmp_path: Path) -> None:
    task = Compaction.plan(table(tmp_path / "one")).tasks[0]
    with pytest.raises(ValueError, match="planned for another table"):
        task.execute(table(tmp_path / "two"))


# -- others at the same time ----------------------------------------------------------------------


@folded("stable", [False, True])
def test_rows_deleted_meanwhile_stay_deleted(stable: bool, tmp_path: Path) -> None:
    """The results are committed by a handle that has seen the delete, as after lance#6653."""
    path = tmp_path / str(stable)
    ds = table(path, enable_stable_row_ids=stable)
    ds.delete("n = 150")
    results = [task.execute(ds) for task in Compaction.plan(ds).tasks]
    lancecy.dataset(path).delete("n in (3, 149, 151, 499)")
    fresh = lancecy.dataset(path)
    expected = fresh.to_table(columns=LINEAGE if stable else ["n"])
    Compaction.commit(fresh, results)
    assert fresh.to_table(columns=LINEAGE if stable else ["n"]).equals(expected)
    assert (fresh.count_rows(), len(fresh.get_fragments())) == (495, 1)


def test_appends_meanwhile_are_kept(tmp_path: Path) -> None:
    ds = table(tmp_path)
    results = [task.execute(ds) for task in Compaction.plan(ds).tasks]
    lancecy.dataset(tmp_path).append(rows(500, 10), durability="none")
    Compaction.commit(ds, results)
    assert sorted(rows_of(ds)) == list(range(510))


def test_a_fragment_that_another_compaction_replaced_is_a_conflict(tmp_path: Path) -> None:
    ds = table(tmp_path)
    results = [task.execute(ds) for task in Compaction.plan(ds).tasks]
    lancecy.dataset(tmp_path).optimize.compact_files(durability="none")
    with pytest.raises(RetryableConflictError):
        Compaction.commit(ds, results)
    assert rows_of(lancecy.dataset(tmp_path)) == list(range(500))


def once(change: Callable[[], object]) -> Callable[[Step], None]:
    """A callback that makes another writer's change during the first group."""
    waiting = [change]

    def told(step: Step) -> None:
        if waiting:
            waiting.pop()()

    return told


def test_groups_that_others_did_not_touch_are_committed_after_a_conflict(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=6)

    def change() -> None:
        other = lancecy.dataset(tmp_path)
        other.optimize.compact_files(target_rows_per_fragment=200, max_source_fragments=2, durability="none")

    metrics = ds.optimize.compact_files(
        target_rows_per_fragment=200, progress=once(change), durability="none"
    )
    assert metrics == CompactionMetrics(4, 2, 4, 2)
    assert sorted(sizes(ds)) == [200, 200, 200]
    assert sorted(rows_of(ds)) == list(range(600))
    named = {file.path for part in ds.get_fragments() for file in part.metadata.files}
    old = {path.name for path in (tmp_path / "data").iterdir()} - named
    assert len(old) == 6, "the files of the group that lost were removed"


def test_all_groups_are_rewritten_anew_if_all_lost(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=3)
    metrics = ds.optimize.compact_files(
        progress=once(lambda: lancecy.dataset(tmp_path).optimize.compact_files(durability="none")),
        durability="none",
    )
    assert metrics == NOTHING
    assert (sizes(ds), rows_of(ds)) == ([300], list(range(300)))
    assert len(data_files(tmp_path / "data")) == 4


def test_a_delete_during_a_compaction_costs_no_attempt(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=3)
    metrics = ds.optimize.compact_files(
        progress=once(lambda: lancecy.dataset(tmp_path).delete("n < 10")),
        conflict_retries=0,
        durability="none",
    )
    assert metrics.fragments_added == 1
    assert rows_of(ds) == list(range(10, 300))


def test_a_fragment_removed_during_a_compaction_costs_one(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=3)
    ds.optimize.compact_files(
        progress=once(lambda: lancecy.dataset(tmp_path).delete("n < 100 or n = 250")), durability="none"
    )
    assert (sizes(ds), ds.count_rows(), rows_of(ds)[0]) == ([199], 199, 100)


# -- failures -------------------------------------------------------------------------------------


def test_a_failed_compaction_leaves_no_file(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=6)
    broken = tmp_path / "data" / ds.get_fragments()[4].metadata.files[0].path
    data = bytearray(broken.read_bytes())
    data[-20:-10] = b"\xff" * 10
    broken.write_bytes(bytes(data))
    ds = lancecy.dataset(tmp_path, session=lancecy.Session())
    before = data_files(tmp_path)
    with pytest.raises(FormatError, match="fragment 4|lies outside"):
        ds.optimize.compact_files(target_rows_per_fragment=200, durability="none")
    assert data_files(tmp_path) == before
    assert lancecy.dataset(tmp_path).version == 6


def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    ds = table(tmp_path, parts=6)
    before = data_files(tmp_path)

    def stop(step: Step) -> None:
        if step.done > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.optimize.compact_files(target_rows_per_fragment=200, progress=stop, durability="none")
    assert data_files(tmp_path) == before


# -- pylance --------------------------------------------------------------------------------------


@pytest.mark.interop
@folded(("version", "stable"), [(v, s) for v in VERSIONS for s in (False, True)])
def test_pylance_goes_on_with_the_table(version: str, stable: bool, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    path = tmp_path / f"{version}-{stable}"
    for part in range(4):
        theirs = lance.write_dataset(
            rows(part * 100, 100),
            path,
            mode="append",
            data_storage_version=version,
            enable_stable_row_ids=stable,
        )
    theirs.delete("n % 9 = 4 and n < 150")
    columns = LINEAGE if stable else ["n", "word", "vector"]
    expected = theirs.to_table(columns=columns)
    lancecy.dataset(path).optimize.compact_files(target_rows_per_fragment=150, durability="none")
    theirs = lance.dataset(path)
    theirs.validate()
    assert theirs.to_table(columns=columns).equals(expected)
    if stable:
        assert theirs._take_rows([300, 7]).column("n").to_pylist() == [300, 7]
    theirs.delete("n = 399")
    lance.write_dataset(rows(400, 10), path, mode="append")
    theirs = lance.dataset(path)
    theirs.optimize.compact_files()
    mine = lancecy.dataset(path)
    assert (len(mine.get_fragments()), mine.count_rows()) == (1, expected.num_rows + 9)
    assert rows_of(mine) == [*expected["n"].to_pylist()[:-1], *range(400, 410)]


@folded("version", ("2.0", "2.1", "2.2"))
def test_blobs_are_written_again_with_their_bytes(version: str, tmp_path: Path) -> None:
    path = tmp_path / version
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("n", pa.int64()), blob])
    values = [b"x" * 10, None, b"", b"y" * 100_000, b"z" * 5_000_000]

    def part(start: int) -> pa.Table:
        return pa.table([range(start, start + 5), pa.array(values, pa.large_binary())], schema=schema)

    ds = lancecy.write_dataset(part(0), path, data_storage_version=version, durability="none")
    ds.append(part(5), durability="none")
    ds.delete("n = 0")
    expected = [blob and blob.read() for blob in ds.take_blobs("b", indices=range(9))]
    ds.optimize.compact_files(durability="none")
    assert (len(ds.get_fragments()), ds.count_rows()) == (1, 9)
    ds.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert [blob and blob.read() for blob in ds.take_blobs("b", indices=range(9))] == expected


@pytest.mark.slow
@folded("version", ("0.1", "2.1"))
def test_a_table_of_ten_times_the_byte_budget_is_compacted_within_it(version: str, tmp_path: Path) -> None:
    path, size, budget = tmp_path / version, 1 << 17, 8 << 20
    random = np.random.default_rng(1)
    ds = None
    for _ in range(8):
        part = pa.table({name: random.integers(0, 1 << 62, size) for name in "abcdefgh"})
        ds = lancecy.write_dataset(
            part, path, mode="append" if ds else "create", data_storage_version=version, durability="none"
        )
    assert ds is not None
    ds.delete("a % 9 = 0")
    expected, before, peak = ds.count_rows(), pa.total_allocated_bytes(), [0]

    def watch(step: Step) -> None:
        peak.append(pa.total_allocated_bytes() - before)

    ds.optimize.compact_files(io_buffer_size=budget, progress=watch, durability="none")
    assert (len(ds.get_fragments()), ds.count_rows()) == (1, expected)
    # Each column collects a page of 8 MiB, which is copied once when it is full.
    assert max(peak) < budget + (136 << 20)
    assert len(peak) > 16


def test_an_optimizer_shows_its_table() -> None:
    ds = lancecy.write_dataset({"id": [1]}, "memory://shown optimizers")
    ds.append({"id": [2]})
    assert repr(ds.optimize) == f"DatasetOptimizer({ds.uri!r}, version=2, fragments=2)"
