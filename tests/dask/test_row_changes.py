"""The rows that differ between two versions, in Dask."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from distributed import Client

import lancecy


def changed(place: Path) -> lancecy.Dataset:
    rows = {"n": range(1000), "word": [f"w{n}" for n in range(1000)], "vec": [[n, n] for n in range(1000)]}
    ds = lancecy.write_dataset(rows, place, enable_stable_row_ids=True, max_rows_per_file=250)
    ds.append({"n": [1000], "word": ["new"], "vec": [[0, 0]]})
    ds.delete("n >= 200 AND n < 300")
    return ds


def test_workers_read_the_changes(tmp_path: Path, client: Client) -> None:
    ds = changed(tmp_path / "t")
    ddf = lancecy.dask.changes(ds, since=1)
    # Two fragments have deletions, in both versions, and one is new.
    assert ddf.npartitions == 5
    found = client.compute(ddf, sync=True)
    expected = ds.changes(since=1).to_table()
    assert found["n"].tolist() == expected["n"].to_pylist()
    assert found["_change_type"].tolist() == expected["_change_type"].to_pylist()
    assert list(found.dtypes) == list(ddf.dtypes)
    kinds = client.compute(ddf["_change_type"].value_counts(), sync=True)
    assert kinds.to_dict() == {"delete": 100, "insert": 1}
    assert len(ddf) == 101


def test_small_blocks_are_more_partitions_of_the_same_rows(tmp_path: Path) -> None:
    ds = changed(tmp_path / "t")
    small = lancecy.dask.changes(str(tmp_path / "t"), 1, 3, ["n"], blocksize="2kB")
    assert small.npartitions > 5
    assert sorted(small["n"].compute().tolist()) == sorted(ds.changes(1).to_table()["n"].to_pylist())
    assert list(small.columns) == ["n", "_rowid", "_change_type", "_commit_version"]
    assert small[["_commit_version"]].compute().shape == (101, 1)


def test_no_change_is_an_empty_frame_with_the_columns(tmp_path: Path) -> None:
    ds = changed(tmp_path / "t")
    found = lancecy.dask.changes(ds, since=3).compute()
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == ds.changes(3).schema.names
    assert found.empty
