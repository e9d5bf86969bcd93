"""Searches for nearest neighbours in Dask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.dask import searching

ROWS, DIMENSION = 4000, 64
BLOCK = 64 << 10


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    numbers = np.random.default_rng(2).integers(-9, 10, (ROWS, DIMENSION)).astype(np.float32)
    place = tmp_path_factory.mktemp("searching") / "t"
    rows = {
        "id": np.arange(ROWS),
        "word": [f"w{n % 7}" for n in range(ROWS)],
        "v": vectors(numbers),
    }
    ds = lancecy.write_dataset(rows, place, max_rows_per_file=1200)
    ds.delete("id % 5 = 2")
    return ds


def vectors(numbers: np.ndarray[Any, Any]) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), numbers.shape[1])


QUERIES = np.random.default_rng(6).integers(-9, 10, (3, DIMENSION)).astype(np.float32)

SCANS: list[dict[str, Any]] = [
    {"nearest": {"column": "v", "q": QUERIES[0], "k": 12}},
    {"nearest": {"column": "v", "q": QUERIES, "k": 5, "metric": "cosine"}, "columns": ["id"]},
    {"nearest": {"column": "v", "q": QUERIES[1], "k": 40}, "filter": "_distance < 3700 AND word = 'w3'"},
    {"nearest": {"column": "v", "q": QUERIES[1], "k": 4}, "filter": "word = 'w3'", "prefilter": True},
    {"nearest": {"column": "v", "q": QUERIES[0]}, "columns": {"d": "_distance * 2"}, "with_row_id": True},
]


@pytest.mark.parametrize("scan", SCANS)
def test_workers_find_the_rows_that_one_process_finds(
    table: lancecy.Dataset, client: Client, scan: dict[str, Any]
) -> None:
    ddf = lancecy.scan(table, blocksize=BLOCK, **scan)
    # Of 64 kB each.
    assert len([key for key in ddf.__dask_graph__() if "compare" in str(key)]) >= 13
    assert ddf.npartitions == 1
    found = client.compute(ddf, sync=True)
    expected = table.to_table(**scan)
    assert found.equals(lancecy.dask.to_frame(expected))
    assert list(found.dtypes) == list(ddf.dtypes)
    assert len(found) > 0


@pytest.mark.parametrize("scan", SCANS[:2])
def test_what_many_tasks_find_is_merged_a_few_at_a_time(
    table: lancecy.Dataset, scan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_MERGED_AT_ONCE", 3)
    ddf = lancecy.scan(table, blocksize=BLOCK, **scan)
    graph = ddf.__dask_graph__()
    compared = [key for key in graph if "compare" in str(key)]
    merges = [key for key in graph if "merge" in str(key)]
    assert len(compared) / 3 <= len(merges) < len(compared)
    assert ddf.compute(scheduler="sync").equals(lancecy.dask.to_frame(table.to_table(**scan)))


def test_a_search_is_a_frame_like_any_other(table: lancecy.Dataset) -> None:
    search = {"column": "v", "q": QUERIES[0], "k": 30}
    ddf = lancecy.scan(table.uri, columns=["id", "word"], nearest=search)
    expected = table.to_pandas(columns=["id", "word"], nearest=search)
    assert ddf.word.value_counts().compute().to_dict() == expected["word"].value_counts().to_dict()
    assert ddf[ddf["_distance"] < 3300]["id"].compute().tolist() == (
        expected[expected["_distance"] < 3300]["id"].tolist()
    )
    assert len(ddf) == 30


def test_the_version_is_that_of_the_call(tmp_path: Path) -> None:
    rows = {"id": [1, 2], "v": vectors(np.array([[0, 0], [1, 1]], np.float32))}
    ds = lancecy.write_dataset(rows, tmp_path / "t")
    ddf = lancecy.scan(str(tmp_path / "t"), columns=["id"], nearest={"column": "v", "q": [0, 0], "k": 1})
    ds.delete("id = 1")
    assert ddf.compute()["id"].tolist() == [1]


def test_a_table_without_rows_has_no_neighbours(tmp_path: Path) -> None:
    rows = {"id": [1], "v": vectors(np.zeros((1, 2), np.float32))}
    ds = lancecy.write_dataset(rows, tmp_path / "t")
    ds.delete("true")
    found = lancecy.scan(ds, nearest={"column": "v", "q": [0, 0]}).compute()
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == ["id", "v", "_distance"]
    assert found.empty


def test_the_same_search_has_the_same_keys_and_another_one_others(table: lancecy.Dataset) -> None:
    def keys(**change: Any) -> set[str]:
        search = {"column": "v", "q": QUERIES[0], **change}
        return {str(key) for key in lancecy.scan(table, nearest=search).__dask_graph__()}

    assert keys() == keys()
    assert not keys() & keys(k=3)
    assert not keys() & keys(q=QUERIES[1])


def test_options_that_do_not_fit_a_search_are_refused(table: lancecy.Dataset) -> None:
    search = {"column": "v", "q": QUERIES[0]}
    with pytest.raises(ValueError, match="with_row_id=True"):
        lancecy.scan(table, nearest=search, index="rowid")
    with pytest.raises(ValueError, match="leave interleave out"):
        lancecy.scan(table, nearest=search, interleave=False)
    with dask.config.set(scheduler="sync"), pytest.raises(TypeError, match="must hold vectors"):
        lancecy.scan(table, nearest={"column": "id", "q": [1]})
