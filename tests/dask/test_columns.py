"""Columns that Dask's workers compute: one file per fragment and one commit, also if tasks fail or run twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from distributed import Client

import lancecy
from lancecy.changes.shared_columns import SharedColumns
from lancecy.errors import SchemaError, UnsupportedError

TWICE = pa.schema({"twice": pa.int64()})


def table(place: Path, **options: Any) -> lancecy.Dataset:
    rows = {"a": range(10), "s": [f"s{n}" for n in range(10)]}
    return lancecy.write_dataset(rows, place, max_rows_per_file=3, **options)


def twice(batch: pa.RecordBatch) -> dict[str, Any]:
    assert batch.schema.names == ["a"]
    return {"twice": pc.multiply(batch["a"], 2)}


def files(place: Path) -> list[str]:
    return sorted(str(path) for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_workers_compute_columns(tmp_path: Path, thread_client: Client, version: str) -> None:
    ds = table(tmp_path / "t", data_storage_version=version)
    ds.delete("a = 4")
    before = files(tmp_path / "t" / "data")
    factor = 2

    def embed(batch: pa.RecordBatch) -> dict[str, Any]:
        vectors = [[n, n * factor] for n in batch["a"].to_pylist()]
        return {
            "vec": pa.array(vectors, pa.list_(pa.float32(), 2)),
            "size": [batch.num_rows] * batch.num_rows,
        }

    new = lancecy.dask.add_columns(
        ds, embed, ["a"], batch_size=2, compute_kwargs={"scheduler": thread_client}
    )
    assert (new is ds, ds.version, len(files(tmp_path / "t" / "data"))) == (True, 3, len(before) + 4)
    assert not [name for name in files(tmp_path) if "_write_" in name], "a marker would keep old versions"
    rows = lancecy.dataset(tmp_path / "t").to_table().to_pydict()
    assert rows["a"] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert rows["vec"] == [[n, 2 * n] for n in rows["a"]]
    assert rows["size"] == [2, 2, 1, 2, 2, 2, 2, 1, 1]


@pytest.mark.slow
def test_workers_in_other_processes_get_the_function(tmp_path: Path, process_client: Client) -> None:
    table(tmp_path / "t")
    factor = 3
    with process_client.as_current():
        ds = lancecy.dask.add_columns(
            tmp_path / "t", lambda batch: {"more": pc.multiply(batch["a"], factor)}, ["a"]
        )
    assert ds.to_table()["more"].to_pylist() == [3 * n for n in range(10)]


def test_wrong_results_are_refused_and_nothing_is_left(tmp_path: Path, thread_client: Client) -> None:
    ds = table(tmp_path / "t")
    before = files(tmp_path)

    def short(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"twice": batch["a"].to_pylist()[:2]}

    def fails(batch: pa.RecordBatch) -> dict[str, Any]:
        if 7 in batch["a"].to_pylist():
            raise RuntimeError("the user's own")
        return twice(batch)

    options: dict[str, Any] = {"compute_kwargs": {"scheduler": thread_client}}
    with pytest.raises(SchemaError, match="returned 2 rows for the 3 rows"):
        lancecy.dask.add_columns(ds, short, ["a"], TWICE, **options)
    with pytest.raises(RuntimeError, match="the user's own") as raised:
        lancecy.dask.add_columns(ds, fails, ["a"], TWICE, **options)
    assert "rows 6 to 8" in str(raised.value.__notes__)
    assert "nothing was committed" in str(raised.value.__notes__)
    with pytest.raises(SchemaError, match="'a'"):
        lancecy.dask.add_columns(ds, lambda batch: {"a": batch["a"]}, ["a"])
    with pytest.raises(TypeError, match=r"ds\.add_columns takes expressions"):
        lancecy.dask.add_columns(ds, {"twice": "a * 2"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no checkpoint file"):
        lancecy.dask.add_columns(ds, lancecy.batch_udf(TWICE, tmp_path / "kept")(twice), ["a"])
    # A worker that is at another fragment removes its file afterwards; its next task begins then.
    for worker in thread_client.scheduler_info(n_workers=-1)["workers"]:
        thread_client.submit(int, 1, workers=[worker], pure=False).result()
    assert (files(tmp_path), lancecy.dataset(tmp_path / "t").version) == (before, 1)


def test_dictionaries_of_old_files_are_refused(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", data_storage_version="0.1")
    before = files(tmp_path)
    with pytest.raises(UnsupportedError, match="dictionaries"):
        lancecy.dask.add_columns(ds, lambda batch: {"d": batch["s"].dictionary_encode()}, ["s"])
    assert files(tmp_path) == before


def test_task_that_runs_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path / "t")
    real = SharedColumns.run

    def again(columns: SharedColumns, fragment: int, session: Any = None) -> str:
        real(columns, fragment, session)
        return real(columns, fragment, session)

    monkeypatch.setattr(SharedColumns, "run", again)
    lancecy.dask.add_columns(ds, twice, ["a"], TWICE)
    assert ds.to_table()["twice"].to_pylist() == [2 * n for n in range(10)]
    assert [len(fragment.data_files()) for fragment in ds.get_fragments()] == [2, 2, 2, 2]


def test_only_new_fragments_are_computed_after_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = table(tmp_path / "t")
    real = SharedColumns.run
    filled: list[int] = []

    def overtaken(columns: SharedColumns, fragment: int, session: Any = None) -> str:
        filled.append(fragment)
        if fragment == 3 and len(filled) <= 4:
            lancecy.dataset(tmp_path / "t").append({"a": [10], "s": ["s10"]})
        return real(columns, fragment, session)

    monkeypatch.setattr(SharedColumns, "run", overtaken)
    lancecy.dask.add_columns(ds, twice, ["a"], TWICE)
    assert sorted(filled) == [0, 1, 2, 3, 4]
    assert ds.to_table()["twice"].to_pylist() == [2 * n for n in range(11)]
