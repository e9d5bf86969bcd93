"""Compaction on Dask workers: one commit, whatever schedulers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
import lancecy.dask
from lancecy.changes.shared_compaction import SharedCompaction
from lancecy.errors import FormatError
from lancecy.optimize import CompactionMetrics
from tests.changes.rows import data_files, rows_of
from tests.helpers.waiting import wait_until_it_stays


def table(path: Path, parts: int = 6, **options: Any) -> lancecy.Dataset:
    ds = None
    for part in range(parts):
        rows = pa.table({"n": range(part * 100, part * 100 + 100)})
        mode = "append" if ds else "create"
        ds = lancecy.write_dataset(rows, path, mode=mode, durability="none", **options)  # type: ignore[arg-type]
    assert ds is not None
    return ds


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_workers_rewrite_and_one_version_is_made(tmp_path: Path, scheduler: str) -> None:
    ds = table(tmp_path, enable_stable_row_ids=True)
    ds.delete("n % 50 = 3")
    expected = ds.to_table(columns=["n", "_rowid", "_row_created_at_version"])
    metrics = lancecy.dask.compact(
        ds,
        target_rows_per_fragment=150,
        durability="none",
        commit_message="weekly",
        compute_kwargs={"scheduler": scheduler},
    )
    assert metrics == CompactionMetrics(6, 3, 12, 3)
    assert ds.version == lancecy.dataset(tmp_path).version == 8
    assert ds.to_table(columns=["n", "_rowid", "_row_created_at_version"]).equals(expected)
    assert not list((tmp_path / "_versions").glob(".tmp*"))


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    table(tmp_path, parts=1)
    assert lancecy.dask.compact(tmp_path) == CompactionMetrics()
    assert lancecy.dataset(tmp_path).version == 1


def test_repeated_tasks_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path)
    run = SharedCompaction.run

    def twice(self: SharedCompaction, number: int) -> str:
        run(self, number)
        return run(self, number)

    monkeypatch.setattr(SharedCompaction, "run", twice)
    lancecy.dask.compact(ds, target_rows_per_fragment=200, durability="none")
    assert rows_of(ds) == list(range(600))
    ds.cleanup_old_versions(delete_unverified=True)
    assert rows_of(ds) == list(range(600))


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_failed_task_leaves_no_file(tmp_path: Path, scheduler: str) -> None:
    ds = table(tmp_path)
    broken = tmp_path / "data" / ds.get_fragments()[4].metadata.files[0].path
    broken.write_bytes(broken.read_bytes()[:-20] + b"\xff" * 20)
    ds = lancecy.dataset(tmp_path, session=lancecy.Session())
    before = data_files(tmp_path)
    with pytest.raises(FormatError) as caught:
        lancecy.dask.compact(
            ds, target_rows_per_fragment=200, durability="none", compute_kwargs={"scheduler": scheduler}
        )
    assert "nothing was committed" in "".join(caught.value.__notes__)
    # A task that runs while another fails removes its file when it ends.
    wait_until_it_stays(lambda: data_files(tmp_path) == before)
    assert data_files(tmp_path) == before
    assert lancecy.dataset(tmp_path).version == 6


def test_rows_deleted_while_workers_rewrite_stay_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = table(tmp_path)
    run = SharedCompaction.run

    def disturbed(self: SharedCompaction, number: int) -> str:
        result = run(self, number)
        lancecy.dataset(tmp_path).delete(f"n = {number * 200 + 7}")
        return result

    monkeypatch.setattr(SharedCompaction, "run", disturbed)
    lancecy.dask.compact(ds, target_rows_per_fragment=200, durability="none")
    assert rows_of(ds) == [n for n in range(600) if n % 200 != 7]
    assert len(ds.get_fragments()) == 3
