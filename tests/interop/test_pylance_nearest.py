"""Searches for nearest neighbours against pylance's scans without an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering

import lancecy
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop

DIMENSION = 5
ROWS = 60


def vectors(values: np.ndarray[Any, Any], null: np.ndarray[Any, Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), DIMENSION, mask=pa.array(null))


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.1", "2.2"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Small whole numbers, so that many distances are equal and sums are exact; nulls, NaN, infinity, zeros."""
    random = np.random.default_rng(7)
    numbers = random.integers(-3, 4, (ROWS, DIMENSION)).astype(np.float32)
    numbers[3, 1] = np.nan
    numbers[5] = 0
    numbers[11, 0] = np.inf
    numbers[12, 0] = -np.inf
    # 0.1 files lose nulls.
    null = np.zeros(ROWS, bool)
    null[[7, 33]] = request.param != "legacy"
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "v": vectors(numbers, null),
            "wide": vectors(numbers.astype(np.float64), null),
            "half": vectors(numbers.astype(np.float16), null),
            "bytes": vectors(random.integers(0, 4, (ROWS, DIMENSION)).astype(np.uint8), null),
            "s": pa.StructArray.from_arrays([vectors(numbers, null)], ["v"]),
            "word": [f"w{i % 5}" for i in range(ROWS)],
        }
    )
    path = str(tmp_path_factory.mktemp("nearest") / "t")
    ds = lance.write_dataset(table, path, max_rows_per_file=17, data_storage_version=request.param)
    ds.delete("id IN (9, 20, 21, 59)")
    return path


QUERY = [1.0, 0.0, 0.0, 1.0, -2.0]
BATCH = [QUERY, [0.0, 1.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0, 2.0]]
FLOATS = ["v", "wide", "half", "s.v"]


def both(root: str, **scan: Any) -> tuple[pa.Table, pa.Table]:
    return lancecy.dataset(root).to_table(**scan), lance.dataset(root).to_table(**scan)


def assert_same(root: str, **scan: Any) -> pa.Table:
    ours, theirs = both(root, **scan)
    assert ours.schema.names == theirs.schema.names
    assert ours.schema.types == theirs.schema.types
    for name in ours.column_names:
        if name == "_distance":
            np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert ours[name].to_pylist() == theirs[name].to_pylist(), name
    return ours


@folded("column", FLOATS)
@folded("metric", ["l2", "L2", "euclidean", "dot"])
@folded("k", [1, 4, 12, 1000])
def test_rows_and_distances_are_those_of_pylance(root: str, column: str, metric: str, k: int) -> None:
    search = {"column": column, "q": QUERY, "k": k, "metric": metric}
    found = assert_same(root, columns=["id"], nearest=search, with_row_id=True)
    assert not {3, 9, 20, 21, 59} & set(found["id"].to_pylist())


@folded("column", FLOATS)
def test_cosine_distances_are_those_of_pylance(root: str, column: str) -> None:
    # Equal angles are rounded differently, so rows of one distance come in any order.
    ours, theirs = both(
        root, columns=["id"], nearest={"column": column, "q": QUERY, "k": 100, "metric": "cosine"}
    )
    assert set(ours["id"].to_pylist()) == set(theirs["id"].to_pylist())
    expected = dict(zip(theirs["id"].to_pylist(), theirs["_distance"].to_pylist(), strict=True))
    for number, distance in zip(ours["id"].to_pylist(), ours["_distance"].to_pylist(), strict=True):
        assert distance == pytest.approx(expected[number], rel=1e-4, abs=1e-5)


def test_differing_bits_of_bytes_are_those_of_pylance(root: str) -> None:
    query = [1, 2, 3, 0, 1]
    for metric in (None, "hamming", "Hamming"):
        assert_same(root, columns=["id"], nearest={"column": "bytes", "q": query, "k": 9, "metric": metric})


SCANS: list[dict[str, Any]] = [
    {},
    {"columns": ["id"]},
    {"columns": ["_distance", "id"]},
    {"columns": []},
    {"columns": ["_rowid", "id"]},
    {"columns": ["id"], "with_row_id": True, "with_row_address": True},
    {"columns": ["word"], "disable_scoring_autoprojection": True},
    {"columns": ["id"], "filter": "id > 20"},
    {"columns": ["id"], "filter": "id > 20", "prefilter": True},
    {"columns": ["id"], "filter": "word = 'w1' AND id < 40", "prefilter": True},
    {"columns": ["id"], "filter": "_rowid < 9", "prefilter": True},
    {"columns": ["id"], "filter": "id > 1000", "prefilter": True},
    {"columns": ["id"], "filter": "_distance < 9"},
    {"columns": ["id"], "filter": "_distance < 9 AND word = 'w2'"},
    {"columns": ["id"], "limit": 3},
    {"columns": ["id"], "limit": 3, "offset": 2},
    {"columns": ["id"], "offset": 2},
    {"columns": ["id"], "limit": 0},
    {"columns": ["id"], "filter": "id > 20", "limit": 2, "offset": 1},
    {"columns": {"twice": "id * 2", "near": "_distance", "id": "id"}},
]


@folded("scan", SCANS)
@folded("q", [QUERY, BATCH[:1], BATCH])
def test_columns_filters_and_limits_are_those_of_pylance(root: str, scan: dict[str, Any], q: Any) -> None:
    assert_same(root, nearest={"column": "v", "q": q, "k": 8}, **scan)


SORTED: list[dict[str, Any]] = [
    {"columns": ["word"], "order_by": ["id"]},
    {"columns": ["id"], "order_by": ["word", "id"], "limit": 3, "offset": 1},
    {"order_by": ["id"], "filter": "id > 20", "limit": 2, "offset": 1},
    {
        "columns": ["id"],
        "order_by": [ColumnOrdering("id", ascending=False)],
        "disable_scoring_autoprojection": True,
    },
]


@folded("scan", SORTED)
def test_rows_found_are_sorted_as_by_pylance(root: str, scan: dict[str, Any]) -> None:
    assert_same(root, nearest={"column": "v", "q": QUERY, "k": 8}, **scan)


@folded("low", [None, 9, 14.0])
@folded("high", [None, 8, 20.0])
@folded("q", [QUERY, BATCH])
def test_bounds_of_distances_are_those_of_pylance(root: str, low: Any, high: Any, q: Any) -> None:
    search = {"column": "v", "q": q, "k": 6, "distance_range": (low, high)}
    assert_same(root, columns=["id"], nearest=search)


@folded(
    "q",
    [
        [np.nan, 0, 0, 0, 0],
        [np.inf, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [1, 2, 3, 4, 5],
        np.arange(5),
        np.arange(5.0),
        (1.0, 2, 3, 4, 5),
    ],
)
@folded("metric", ["l2", "dot", "cosine"])
def test_special_queries_are_answered_as_by_pylance(root: str, q: Any, metric: str) -> None:
    ours, theirs = both(root, columns=["id"], nearest={"column": "v", "q": q, "k": 100, "metric": metric})
    assert sorted(ours["id"].to_pylist()) == sorted(theirs["id"].to_pylist())


def test_rows_of_one_distance_come_by_row_id_where_rows_have_moved(tmp_path: Path) -> None:
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(40, np.float32)), 2)
    for stable in (False, True):
        path = str(tmp_path / str(stable))
        ds = lance.write_dataset(
            pa.table({"id": np.arange(20), "v": zeros}),
            path,
            max_rows_per_file=6,
            enable_stable_row_ids=stable,
        )
        ds.update({"id": "id + 100"}, where="id IN (1, 7, 8)")
        for k in (1, 3, 9, 30):
            assert_same(path, columns=["id"], with_row_id=True, nearest={"column": "v", "q": [0, 0], "k": k})


def test_random_searches_are_answered_as_by_pylance(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for number in range(12):
        rows, dimension = int(random.integers(1, 400)), int(random.choice([1, 2, 8, 17, 40]))
        dtype = ("f2", "f4", "f8")[int(random.integers(0, 3))]
        values = random.integers(-4, 5, rows * dimension).astype(dtype)
        table = pa.table(
            {
                "id": np.arange(rows),
                "v": pa.FixedSizeListArray.from_arrays(pa.array(values), dimension),
                "x": random.integers(0, 10, rows),
            }
        )
        path = str(tmp_path / str(number))
        ds = lance.write_dataset(table, path, max_rows_per_file=int(random.integers(5, 200)))
        ds.delete(f"x = {int(random.integers(0, 10))}")
        q = random.integers(-4, 5, (int(random.integers(1, 4)), dimension)).astype(np.float32)
        for metric in ("l2", "dot"):
            for prefilter in (False, True):
                search = {"column": "v", "q": q, "k": int(random.integers(1, 30)), "metric": metric}
                assert_same(path, columns=["id"], filter="x > 4", prefilter=prefilter, nearest=search)


@folded("shape", [[4], [2, 2]])
def test_tensors_are_vectors(tmp_path: Path, shape: list[int]) -> None:
    numbers = np.random.default_rng(1).standard_normal((30, 4)).astype(np.float32)
    kind = pa.fixed_shape_tensor(pa.float32(), shape)
    stored = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 4)
    tensors = pa.ExtensionArray.from_storage(kind, stored)
    theirs = lance.write_dataset(pa.table({"id": range(30), "v": tensors}), tmp_path / "t", mode="overwrite")
    ds = lancecy.dataset(tmp_path / "t")
    for query in (numbers[3], tensors[3], stored[3]):
        search = {"column": "v", "q": query, "k": 5}
        assert ds.to_table(["id"], nearest=search)["id"].to_pylist()[0] == 3
    wanted = theirs.to_table(columns=["id"], nearest={"column": "v", "q": numbers[3], "k": 5})
    assert ds.to_table(["id"], nearest=search)["id"].to_pylist() == wanted["id"].to_pylist()
