"""Rows that Dask's workers update: in one version, as ds.update does it, also if tasks fail or run twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from distributed import Client

import lancecy
from lancecy.changes.shared_update import SharedUpdate
from lancecy.errors import ColumnNotFoundError, ExpressionError, RetryableConflictError

COLUMNS = ["a", "s", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def table(place: Path, **options: Any) -> lancecy.Dataset:
    """Ten rows in four fragments; row 4 is deleted, and rows 10 and 11 are of version 3."""
    rows = {"a": range(10), "s": [f"s{n}" for n in range(10)]}
    ds = lancecy.write_dataset(rows, place, max_rows_per_file=3, **options)
    ds.delete("a = 4")
    ds.append({"a": [10, 11], "s": ["s10", "s11"]})
    return ds


def rows_of(ds: lancecy.Dataset, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lancecy.dataset(ds.uri).to_table(**options).sort_by("a").to_pylist()
    return found


def files(place: Path) -> list[str]:
    return sorted(str(path) for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_workers_update_as_one_process_does(
    tmp_path: Path, thread_client: Client, version: str, stable: bool
) -> None:
    options: dict[str, Any] = {"data_storage_version": version, "enable_stable_row_ids": stable}
    alone, shared = table(tmp_path / "alone", **options), table(tmp_path / "shared", **options)
    values, where = {"s": "concat(s, '!')"}, "a % 3 = 1 OR a > 8"
    expected = alone.update(values, where)
    done = lancecy.dask.update(shared, values, where, compute_kwargs={"scheduler": thread_client})
    assert done == expected == {"num_rows_updated": 5}
    assert (shared.version, alone.version) == (4, 4)
    columns = COLUMNS if stable else COLUMNS[:2]
    assert rows_of(shared, columns=columns) == rows_of(alone, columns=columns)
    assert {row["s"] for row in rows_of(shared)} >= {"s1!", "s7!", "s9!", "s10!", "s11!", "s0"}


@pytest.mark.interop
def test_pylance_reads_what_workers_updated(tmp_path: Path) -> None:
    import lance

    ds = table(tmp_path / "t", enable_stable_row_ids=True)
    lancecy.dask.update(ds, {"s": pc.field("s"), "a": 7}, lancecy.col("a") == 6)
    theirs = lance.dataset(ds.uri)
    theirs.validate()
    assert theirs.to_table().sort_by([("a", "ascending"), ("s", "ascending")])["a"].to_pylist() == [
        *(0, 1, 2, 3, 5, 7, 7, 8, 9, 10, 11)
    ]
    made = theirs.read_transaction(4)
    assert made is not None and type(made.operation).__name__ == "Update"


def test_all_rows_or_none(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    assert lancecy.dask.update(str(tmp_path / "t"), {"s": None}, "a > 100") == {"num_rows_updated": 0}
    assert lancecy.dask.update(ds, {"s": None}, "s = 'none'") == {"num_rows_updated": 0}
    assert lancecy.dataset(ds.uri).version == 3
    assert lancecy.dask.update(ds, {"s": pa.scalar("all")}) == {"num_rows_updated": 11}
    assert ds.count_rows("s = 'all'") == 11 and ds.version == 4
    assert not [name for name in files(tmp_path) if "_write_" in name], "no marker is left"


@pytest.mark.slow
def test_workers_in_other_processes_update(tmp_path: Path, process_client: Client) -> None:
    ds = table(tmp_path / "t")
    with process_client.as_current():
        done = lancecy.dask.update(tmp_path / "t", {"a": lancecy.col("a") + 100}, pc.field("a") < 5)
    assert done == {"num_rows_updated": 4}
    assert [row["a"] for row in rows_of(ds)] == [5, 6, 7, 8, 9, 10, 11, 100, 101, 102, 103]


def test_wrong_values_leave_the_table_as_it_was(tmp_path: Path, thread_client: Client) -> None:
    ds = table(tmp_path / "t")
    before = files(tmp_path)
    options: dict[str, Any] = {"compute_kwargs": {"scheduler": thread_client}}
    with pytest.raises(ColumnNotFoundError, match="missing"):
        lancecy.dask.update(ds, {"missing": "1"}, **options)
    with pytest.raises(ValueError, match="at least one column"):
        lancecy.dask.update(ds, {}, **options)
    with pytest.raises(ExpressionError) as raised:
        lancecy.dask.update(ds, {"a": "10 / (a - 7)"}, "a > 2", **options)
    assert "nothing was committed" in str(raised.value.__notes__)
    for worker in thread_client.scheduler_info(n_workers=-1)["workers"]:
        thread_client.submit(int, 1, workers=[worker], pure=False).result()
    assert (files(tmp_path), lancecy.dataset(tmp_path / "t").version) == (before, 3)


def test_task_that_runs_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path / "t", enable_stable_row_ids=True)
    real = SharedUpdate.run

    def twice(self: SharedUpdate, number: int, session: Any = None) -> str:
        real(self, number, session)
        return real(self, number, session)

    monkeypatch.setattr(SharedUpdate, "run", twice)
    done = lancecy.dask.update(ds, {"s": "'x'"}, "a > 5", compute_kwargs={"scheduler": "sync"})
    assert done == {"num_rows_updated": 6}
    rows = rows_of(ds, with_row_id=True)
    assert len({row["_rowid"] for row in rows}) == len(rows) == 11
    assert sum(row["s"] == "x" for row in rows) == 6


def test_lost_race_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path / "t")
    real, runs = SharedUpdate.run, list[int]()

    def raced(self: SharedUpdate, number: int, session: Any = None) -> str:
        found = real(self, number, session)
        runs.append(number)
        if len(runs) == 1:
            lancecy.dataset(ds.uri).update({"a": "a + 100"}, "a % 100 = 7")
        return found

    monkeypatch.setattr(SharedUpdate, "run", raced)
    options: dict[str, Any] = {"compute_kwargs": {"scheduler": "sync"}}
    assert lancecy.dask.update(ds, {"s": "'x'"}, "a >= 7", **options) == {"num_rows_updated": 5}
    assert {row["a"] for row in rows_of(ds) if row["s"] == "x"} == {8, 9, 10, 11, 107}
    runs.clear()
    before = files(tmp_path / "t" / "data")
    with pytest.raises(RetryableConflictError):
        lancecy.dask.update(ds, {"s": "'y'"}, "a = 107", conflict_retries=0, **options)
    assert len(files(tmp_path / "t" / "data")) == len(before) + 1, "only the rival's file is new"
