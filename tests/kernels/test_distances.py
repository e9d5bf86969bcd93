"""vector_distances and hamming_distances, compiled and in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lancecy.kernels import COSINE, DOT, L2
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same

DTYPES = [np.float32, np.float64]
METRICS = [L2, COSINE, DOT]
# Below, at and above the number of lanes.
DIMENSIONS = [1, 3, 15, 16, 17, 32, 47, 100]


def distances(kernels: Kernels, metric: int, vectors: Any, queries: Any, dtype: Any) -> NDArray[np.float32]:
    rows, wanted = np.array(vectors, dtype), np.array(queries, dtype)
    norms, out = np.empty(len(wanted), dtype), np.empty(len(wanted) * len(rows), np.float32)
    kernels.vector_distances(metric, rows.reshape(-1), wanted.reshape(-1), rows.shape[1], norms, out)
    return out.reshape(len(wanted), len(rows))


@folded("dtype", DTYPES)
@folded("dimension", DIMENSIONS)
def test_distances_are_those_of_the_formulas(kernels: Kernels, dtype: Any, dimension: int) -> None:
    random = np.random.default_rng(dimension)
    vectors = random.integers(-9, 10, (7, dimension)).astype(np.float64)
    queries = random.integers(1, 10, (3, dimension)).astype(np.float64)
    products = queries @ vectors.T
    squares = ((queries[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2)
    with np.errstate(all="ignore"):
        cosines = 1 - products / np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(vectors, axis=1))
    np.testing.assert_array_equal(distances(kernels, L2, vectors, queries, dtype), squares)
    np.testing.assert_array_equal(distances(kernels, DOT, vectors, queries, dtype), 1 - products)
    np.testing.assert_allclose(
        distances(kernels, COSINE, vectors, queries, dtype), cosines, rtol=1e-5, atol=1e-6
    )


@folded("dtype", DTYPES)
def test_nan_and_directions_that_do_not_exist_give_nan(kernels: Kernels, dtype: Any) -> None:
    vectors = [[math.nan, 1.0], [0.0, 0.0], [math.inf, 0.0], [1.0, 0.0]]
    query = [[1.0, 0.0]]
    assert np.isnan(distances(kernels, L2, vectors, query, dtype)).tolist() == [[True, False, False, False]]
    assert np.isnan(distances(kernels, COSINE, vectors, query, dtype)).tolist() == [[True, True, True, False]]
    assert distances(kernels, DOT, vectors, query, dtype)[0, 1:].tolist() == [1.0, -math.inf, 0.0]
    assert np.isnan(distances(kernels, COSINE, vectors, [[0.0, 0.0]], dtype)).all()


def test_differing_bits_are_counted(kernels: Kernels) -> None:
    random = np.random.default_rng(5)
    for dimension in (1, 7, 8, 9, 24, 31):
        vectors = random.integers(0, 256, (5, dimension), dtype=np.uint8)
        queries = random.integers(0, 256, (2, dimension), dtype=np.uint8)
        out = np.empty(10, np.float32)
        kernels.hamming_distances(vectors.reshape(-1), queries.reshape(-1), dimension, out)
        bits = np.unpackbits(queries[:, None, :] ^ vectors[None, :, :], axis=2).sum(axis=2)
        assert out.reshape(2, 5).tolist() == bits.tolist()


@folded("metric", METRICS)
def test_no_vectors_and_no_queries_are_no_distances(kernels: Kernels, metric: int) -> None:
    nothing, one = np.empty(0, np.float32), np.ones(2, np.float32)
    for vectors, queries, norms in ((nothing, nothing, 0), (one, nothing, 0), (nothing, one, 1)):
        out_norms = np.empty(norms, np.float32)
        kernels.vector_distances(metric, vectors, queries, 2, out_norms, np.empty(0, np.float32))
    no_bytes = np.empty(0, np.uint8)
    kernels.hamming_distances(no_bytes, no_bytes, 2, np.empty(0, np.float32))


BAD: list[tuple[str, dict[str, Any]]] = [
    ("metric is not one of 0..2", {"metric": 3}),
    ("metric is not one of 0..2", {"metric": -1}),
    ("dimension is not positive", {"dimension": 0}),
    ("not a multiple of the dimension", {"dimension": 3}),
    ("not a multiple of the dimension", {"queries": np.ones(3, np.float32)}),
    ("one entry per vector and query", {"out": np.empty(3, np.float32)}),
    ("one entry per query", {"out_norms": np.empty(2, np.float32)}),
]


@pytest.mark.parametrize(("text", "change"), BAD)
def test_sizes_that_do_not_fit_are_refused(kernels: Kernels, text: str, change: dict[str, Any]) -> None:
    call: dict[str, Any] = {
        "metric": L2,
        "vectors": np.ones(4, np.float32),
        "queries": np.ones(2, np.float32),
        "dimension": 2,
        "out_norms": np.empty(1, np.float32),
        "out": np.empty(2, np.float32),
    }
    with pytest.raises(ValueError, match=text):
        kernels.vector_distances(**{**call, **change})
    if change.keys() & {"metric", "out_norms"}:
        return
    as_bytes = {
        "vectors": np.ones(4, np.uint8),
        "queries": np.ones(change.get("queries", call["queries"]).size, np.uint8),
    }
    others = {"dimension": change.get("dimension", 2), "out": change.get("out", call["out"])}
    with pytest.raises(ValueError, match=text):
        kernels.hamming_distances(**as_bytes, **others)


def test_both_write_the_same_bytes() -> None:
    random = np.random.default_rng(11)
    for dtype in DTYPES:
        for metric in METRICS:
            vectors = random.integers(-5, 6, 6 * 40).astype(dtype)
            inputs = {
                "metric": metric,
                "vectors": vectors,
                "queries": vectors[40:120].copy(),
                "dimension": 40,
            }
            assert_same("vector_distances", inputs, {"out_norms": (2, dtype), "out": (12, np.float32)})
    memory = random.integers(0, 256, 6 * 13, dtype=np.uint8)
    inputs = {"vectors": memory, "queries": memory[13:39].copy(), "dimension": 13}
    assert_same("hamming_distances", inputs, {"out": (12, np.float32)})


@folded("metric", METRICS)
def test_without_vectors_any_dimension_ends_at_once(kernels: Kernels, metric: int) -> None:
    none, out = np.empty(0, np.float32), np.empty(0, np.float32)
    kernels.vector_distances(metric, none, none, 1 << 40, none.copy(), out)
