"""Searches for nearest neighbours: arguments, results, explanations; ``tests/interop`` compares them with pylance."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.api.searches import NearestScanner
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from tests.helpers.folded import folded

ROWS, DIMENSION = 500, 24


def vectors(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), numbers.shape[1])


@pytest.fixture(scope="module")
def numbers() -> np.ndarray[Any, Any]:
    return np.random.default_rng(4).standard_normal((ROWS, DIMENSION)).astype(np.float32)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory, numbers: np.ndarray[Any, Any]) -> lancecy.Dataset:
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "v": vectors(numbers),
            "bytes": vectors((numbers * 20).astype(np.int8).view(np.uint8)),
            "small": vectors((numbers * 20).astype(np.int8)),
            "many": pa.array([[list(row)] for row in numbers], pa.list_(pa.list_(pa.float32(), DIMENSION))),
            "word": ["a"] * ROWS,
        }
    )
    root = str(tmp_path_factory.mktemp("nearest") / "t")
    lancecy.write_dataset(table, root, max_rows_per_file=130)
    made = lancecy.dataset(root)
    made.delete("id % 7 = 3")
    return made


def living(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kept: np.ndarray[Any, Any] = rows[rows % 7 != 3]
    return kept


def test_the_nearest_rows_are_found_among_the_living_ones(
    ds: lancecy.Dataset, numbers: np.ndarray[Any, Any]
) -> None:
    # Row 10 is deleted.
    query = numbers[10]
    found = ds.to_table(columns=["id"], nearest={"column": "v", "q": query, "k": 5})
    rows = living(np.arange(ROWS))
    squares = ((numbers[rows] - query) ** 2).sum(axis=1)
    best = np.argsort(squares)[:5]
    assert found["id"].to_pylist() == rows[best].tolist()
    np.testing.assert_allclose(found["_distance"], squares[best], rtol=1e-5)


def test_a_prefilter_chooses_what_is_compared_and_a_filter_what_is_returned(
    ds: lancecy.Dataset, numbers: np.ndarray[Any, Any]
) -> None:
    search = {"column": "v", "q": numbers[0], "k": 6}
    plain = ds.to_table(columns=["id"], nearest=search)
    after = ds.to_table(columns=["id"], filter="id > 250", nearest=search)
    assert after["id"].to_pylist() == [n for n in plain["id"].to_pylist() if n > 250]
    before = ds.to_table(columns=["id"], filter="id > 250", prefilter=True, nearest=search)
    rows = living(np.arange(251, ROWS))
    squares = ((numbers[rows] - numbers[0]) ** 2).sum(axis=1)
    assert before["id"].to_pylist() == rows[np.argsort(squares)[:6]].tolist()


def test_several_queries_are_answered_one_by_one(ds: lancecy.Dataset, numbers: np.ndarray[Any, Any]) -> None:
    found = ds.to_table(columns=["id"], nearest={"column": "v", "q": numbers[:40], "k": 3})
    assert found.column_names == ["query_index", "id", "_distance"]
    assert found["query_index"].to_pylist() == [n for n in range(40) for _ in range(3)]
    for n in range(40):
        alone = ds.to_table(columns=["id"], nearest={"column": "v", "q": numbers[n], "k": 3})
        assert found["id"].to_pylist()[3 * n : 3 * n + 3] == alone["id"].to_pylist()


def test_every_way_to_run_a_search_gives_its_rows(ds: lancecy.Dataset, numbers: np.ndarray[Any, Any]) -> None:
    search = {"column": "v", "q": numbers[0], "k": 7}
    scanner = ds.scanner(columns=["id"], nearest=search, batch_size=3)
    whole = scanner.to_table()
    assert scanner.schema == scanner.projected_schema == whole.schema
    batches = list(scanner.to_batches())
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    assert pa.Table.from_batches(batches) == whole
    assert scanner.to_reader().read_all() == whole
    assert scanner.count_rows() == 7
    assert scanner.head(2) == ds.head(2, columns=["id"], nearest=search) == whole.slice(0, 2)
    assert ds.to_pandas(columns=["id"], nearest=search)["id"].tolist() == whole["id"].to_pylist()
    assert "7 nearest by l2 in 'v'" in repr(scanner)


def test_a_search_in_some_fragments_compares_these(
    ds: lancecy.Dataset, numbers: np.ndarray[Any, Any]
) -> None:
    search = {"column": "v", "q": numbers[0], "k": 4}
    found = ds.to_table(columns=["id"], fragments=[2], nearest=search)
    rows = living(np.arange(260, 390))
    expected = rows[np.argsort(((numbers[rows] - numbers[0]) ** 2).sum(axis=1))[:4]].tolist()
    assert found["id"].to_pylist() == expected
    assert ds.get_fragments()[2].to_table(columns=["id"], nearest=search) == found


def test_pieces_and_blocks_do_not_change_the_answer(
    ds: lancecy.Dataset, numbers: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan: dict[str, Any] = {"columns": ["id"], "nearest": {"column": "v", "q": numbers[:3], "k": 9}}
    whole = ds.to_table(**scan)
    monkeypatch.setattr("lancecy.scanning.search._PIECE_BYTES", 1000)
    monkeypatch.setattr("lancecy.scanning.search._BLOCK_DISTANCES", 12)
    assert ds.to_table(**scan) == whole


def test_distances_of_doubles_are_computed_in_doubles(tmp_path: Path) -> None:
    third = np.array([[1 / 3, 1 / 7]])
    made = lancecy.write_dataset({"v": vectors(third)}, str(tmp_path / "t"))
    found = made.to_table(columns=["_distance"], nearest={"column": "v", "q": third[0]})
    assert found["_distance"].to_pylist() == [0.0]


def test_an_object_store_answers_as_a_disk_does(numbers: np.ndarray[Any, Any]) -> None:
    table = pa.table({"id": np.arange(ROWS), "v": vectors(numbers)})
    made = lancecy.write_dataset(table, "memory://nearest/t", max_rows_per_file=130)
    made.delete("id % 7 = 3")
    query = numbers[10]
    found = made.to_table(columns=["id"], nearest={"column": "v", "q": query, "k": 5})
    rows = living(np.arange(ROWS))
    assert (
        found["id"].to_pylist() == rows[np.argsort(((numbers[rows] - query) ** 2).sum(axis=1))[:5]].tolist()
    )


def test_an_explanation_says_what_is_compared_and_that_no_index_is_used(
    ds: lancecy.Dataset, numbers: np.ndarray[Any, Any]
) -> None:
    search = {"column": "v", "q": numbers[0], "k": 4, "distance_range": (1, None)}
    found = ds.scanner(nearest=search, filter="_rowid < 20", prefilter=True).explain()
    assert (
        found.search
        == "4 nearest by l2 in 'v', distance from 1; every row is compared, there is no vector index"
    )
    assert found.columns == ("v",)
    assert found.kept_fragments == 1
    assert "4 nearest by l2" in str(found)


def test_an_explanation_names_the_vector_indices_it_does_not_use(
    tmp_path: Path, numbers: np.ndarray[Any, Any]
) -> None:
    import lance

    table = pa.table({"v": vectors(numbers), "w": vectors(numbers)})
    made = lance.write_dataset(table, str(tmp_path / "t"))
    made.create_index("v", "IVF_FLAT", num_partitions=2, name="by_v")
    for column, text in (("v", "vector indices are not used (by_v)"), ("w", "there is no vector index")):
        search = {"column": column, "q": numbers[0]}
        assert text in str(lancecy.dataset(str(tmp_path / "t")).scanner(nearest=search).explain())


REFUSED: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (TypeError, "needs the entry 'q'", {"q": None}),
    (TypeError, "needs the entry 'column'", {"column": None}),
    (TypeError, "did you mean 'metric'", {"metrik": "l2"}),
    (ColumnNotFoundError, "no column 'w'", {"column": "w"}),
    (TypeError, "'word' must hold vectors", {"column": "word"}),
    (UnsupportedError, "'many' holds multivectors", {"column": "many"}),
    (ValueError, "'small' are of int8", {"column": "small"}),
    (ValueError, "no metric 'manhattan'", {"metric": "manhattan"}),
    (ValueError, "give one", {"metric": "l2", "distance_type": "dot"}),
    (ValueError, "hamming' is for vectors of uint8", {"metric": "hamming"}),
    (ValueError, "l2' is for vectors of float16", {"column": "bytes", "metric": "l2"}),
    (ValueError, "whole numbers from 0 to 255", {"column": "bytes", "q": [1.5] * DIMENSION}),
    (ValueError, "k'] must be at least 1", {"k": 0}),
    (TypeError, "k'] is a whole number", {"k": 2.5}),
    (ValueError, "nprobes'] must be at least 1", {"nprobes": 0}),
    (ValueError, "at most nearest['maximum_nprobes']", {"minimum_nprobes": 5, "maximum_nprobes": 2}),
    (ValueError, "queries have 3 numbers", {"q": [1, 2, 3]}),
    (ValueError, "queries have 48 numbers", {"q": [0] * 48}),
    (ValueError, "of one length", {"q": [[1, 2], [1]]}),
    (ValueError, "must be a vector", {"q": []}),
    (TypeError, "must be a vector of numbers", {"q": "near"}),
    (TypeError, "a pair", {"distance_range": 3}),
]


@folded("error, text, change", REFUSED)
def test_a_wrong_search_is_refused(
    ds: lancecy.Dataset, error: type[Exception], text: str, change: dict[str, Any]
) -> None:
    search = {"column": "v", "q": [0.0] * DIMENSION, **change}
    with pytest.raises(error) as caught:
        ds.scanner(nearest=search)
    assert text in str(caught.value)


@folded(
    "error, text, scan",
    [
        (ColumnNotFoundError, "_distance", {"order_by": "_distance"}),
        (ValueError, "order", {"order_by": "v"}),
        (UnsupportedError, "no vector index", {"fast_search": True}),
        (TypeError, "nearest is a mapping", {"nearest": [1, 2]}),
    ],
)
def test_options_that_do_not_go_with_a_search_are_refused(
    ds: lancecy.Dataset, error: type[Exception], text: str, scan: dict[str, Any]
) -> None:
    with pytest.raises(error, match=text):
        ds.scanner(**{"nearest": {"column": "v", "q": [0.0] * DIMENSION}, **scan})


def test_the_error_for_lists_names_the_cast_that_makes_vectors(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"v": [[1.0, 2.0], [3.0, 4.0]]}, tmp_path / "t")
    search = {"column": "v", "q": [3, 4], "k": 1}
    with pytest.raises(TypeError, match="alter_columns"):
        ds.to_table(nearest=search)
    ds.alter_columns({"path": "v", "data_type": pa.list_(pa.float32(), 2)})
    assert ds.to_table(nearest=search)["v"].to_pylist() == [[3, 4]]


def test_a_search_is_not_split_into_tasks(ds: lancecy.Dataset) -> None:
    scanner = ds.scanner(nearest={"column": "v", "q": [0.0] * DIMENSION})
    with pytest.raises(ValueError, match="cannot be split"):
        scanner.plan()
    with pytest.raises(UnsupportedError, match="explain"):
        scanner.analyze()
    found = ds.scanner(order_by="id", nearest={"column": "v", "q": [0.0] * DIMENSION})
    assert isinstance(found, NearestScanner)
    with pytest.raises(ValueError, match="leave order_by out"):
        found.shared()


def test_names_that_the_search_needs_must_be_free(tmp_path: Path) -> None:
    table = {"_distance": [1.0], "v": vectors(np.zeros((1, 2), np.float32))}
    made = lancecy.write_dataset(pa.table(table), str(tmp_path / "t"))
    with pytest.raises(ValueError, match="rename it"):
        made.scanner(nearest={"column": "v", "q": [0, 0]})


@pytest.mark.slow
def test_memory_of_a_search_follows_its_result_not_queries_times_rows(tmp_path: Path) -> None:
    rows, queries, k = 200_000, 200, 1_000
    numbers = np.random.default_rng(5).random((rows, 1), np.float32)
    ds = lancecy.write_dataset({"id": range(rows), "v": vectors(numbers)}, tmp_path / "t.lance")
    asked = np.linspace(0, 1, queries, dtype=np.float32).reshape(-1, 1)
    scanner = ds.scanner(["id"], nearest={"column": "v", "q": asked, "k": k})
    tracemalloc.start()
    try:
        found = scanner.to_table()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (
        peak < 200 << 20
    )  # rows of every block, 1,000 for each query, are 175 MB, and the merge of them a multiple
    for query in (0, 77, queries - 1):
        ids = found.filter(pc.equal(found["query_index"], query))["id"].to_pylist()
        distances = (numbers - asked[query])[:, 0] ** 2
        assert ids == np.lexsort((np.arange(rows), distances))[:k].tolist()
