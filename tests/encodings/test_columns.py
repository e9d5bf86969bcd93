"""Columns in chunks: joining them and taking rows out of them."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.columns import as_array, chunks_of, storage_of, taken, typed, unified

WORDS = [None if n % 9 == 0 else "w" * (n % 13) for n in range(200)]
ROWS = [
    np.arange(199, -1, -1),
    np.array([5, 5, 199, 0, 5]),
    np.zeros(50, np.int64),
    np.array([], np.int64),
]


def chunked(values: pa.Array, *cuts: int) -> pa.ChunkedArray:
    edges = [0, *cuts, len(values)]
    return pa.chunked_array([values.slice(a, b - a) for a, b in itertools.pairwise(edges)], values.type)


@pytest.mark.parametrize("rows", ROWS, ids=len)
@pytest.mark.parametrize("most", [1, 40, 500, 1 << 31])
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.string())],
    ids=str,
)
def test_rows_in_order_whatever_fits_into_a_chunk(
    rows: np.ndarray[tuple[int], np.dtype[np.int64]], most: int, kind: pa.DataType
) -> None:
    values = pa.array(WORDS)
    if pa.types.is_dictionary(kind):
        values = values.dictionary_encode().cast(kind)
    elif pa.types.is_list(kind):
        values = pa.array([None if w is None else [w] * (len(w) % 3) for w in WORDS], kind)
    else:
        values = values.cast(kind)
    for column in (values, chunked(values, 3, 100, 100, 150)):
        found = taken(column, rows, most)
        assert found.type == kind
        assert found.to_pylist() == [values[int(row)].as_py() for row in rows]


def test_one_array_is_enough_when_everything_fits() -> None:
    assert isinstance(taken(chunked(pa.array(WORDS), 50), np.array([3, 1])), pa.Array)
    parts = taken(pa.array(["x" * 100] * 4), np.array([0, 1, 2, 3, 3, 2]), 250)
    assert isinstance(parts, pa.ChunkedArray)
    assert max(len(chunk) for chunk in parts.chunks) <= 2
    assert len(parts) == 6


def test_dictionaries_that_differ_become_one() -> None:
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", "b"]))
    two = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["c", None]))
    array = as_array(pa.chunked_array([one, two]))
    assert array.to_pylist() == ["a", "b", None, None, "c"]
    assert array.type == one.type
    same = unified([one, one.slice(1)])
    assert same[0] is one


def test_chunks_without_rows_are_left_out() -> None:
    column = chunked(pa.array([1, 2]), 0, 1, 1)
    assert [len(chunk) for chunk in chunks_of(column)] == [1, 1]
    assert as_array(column).to_pylist() == [1, 2]
    assert as_array(pa.chunked_array([], pa.int8())).equals(pa.array([], pa.int8()))
    assert as_array(chunked(pa.array([], pa.int8()), 0)).equals(pa.array([], pa.int8()))


def test_extension_types_come_and_go() -> None:
    storage = pa.array(["[]", None])
    array = typed(storage, pa.json_())
    assert array.type == pa.json_()
    assert storage_of(array).equals(storage)
    column = typed(chunked(storage, 1), pa.json_())
    assert column.type == pa.json_()
    assert storage_of(column).equals(chunked(storage, 1))
    assert typed(storage, pa.string()) is storage
    assert storage_of(storage) is storage
