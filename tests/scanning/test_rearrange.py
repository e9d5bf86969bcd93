"""Rows in another order, in as many chunks as they need."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancecy
from lancecy.scanning import rearrange
from lancecy.scanning.rearrange import reordered
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected, write_table

TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "text": (pa.string(), lambda n: None if n % 5 == 4 else "x" * (n * 7 % 40)),
    "list": (pa.list_(pa.int8()), lambda n: list(range(n % 6))),
    "nulls": (pa.list_(pa.null()), lambda n: [None] * (n % 9)),
    "struct": (pa.struct([("a", pa.string()), ("b", pa.int64())]), lambda n: {"a": str(n) * (n % 9), "b": n}),
    "int": (pa.int64(), lambda n: n),
    "dict": (pa.dictionary(pa.int8(), pa.string()), lambda n: None if n % 4 == 1 else f"w{n % 3}"),
}


@pytest.mark.parametrize("kind", TYPES)
@given(lengths=st.lists(st.integers(0, 12), max_size=6), most=st.integers(1, 4000), seed=st.integers(0, 99))
def test_rows_come_in_the_order_asked_for(kind: str, lengths: list[int], most: int, seed: int) -> None:
    data_type, value = TYPES[kind]
    rows: list[Any] = [value(n) for n in range(sum(lengths))]
    edges = np.cumsum([0, *lengths])
    column = pa.chunked_array(
        [pa.array([None, *rows[a:b]], data_type).slice(1) for a, b in pairwise(edges)],
        data_type,
    )
    positions = np.random.default_rng(seed).permutation(len(rows))[: max(0, len(rows) - 3)]
    found = reordered(column, positions, most)
    found.validate(full=True)
    assert found.type == data_type
    assert found.to_pylist() == [rows[p] for p in positions]


def test_no_chunk_holds_more_than_it_may_unless_one_row_does() -> None:
    rows = ["x" * (900 if n == 13 else 10) for n in range(200)]
    column = pa.chunked_array([pa.array(rows[:90]), pa.array(rows[90:])])
    found = reordered(column, np.arange(199, -1, -1), 500)
    assert found.to_pylist() == rows[::-1]
    assert all(chunk.nbytes <= 500 or len(chunk) == 1 for chunk in found.chunks)
    assert found.num_chunks < 20


def test_take_and_sort_of_more_text_than_one_chunk_counts(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, data_version: str
) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), data_version=data_version))
    monkeypatch.setattr(rearrange, "_MAX_EXTENT", 40)
    rows = [149, 3, 77, 3, 20, 148, 51, 52, 0]
    taken = ds.take(rows)
    assert_tables_equal(taken, expected(rows))
    assert taken["s"].num_chunks > 1
    backwards = ds.to_table(order_by=[("id", "descending")], filter="id < 130", offset=5, limit=40)
    assert_tables_equal(backwards, expected(range(124, 84, -1)))
    assert backwards["s"].num_chunks > 1


@pytest.mark.slow
def test_rows_of_two_gigabytes_of_text_in_another_order() -> None:
    wide = pa.array(["a" * (1 << 20), "b" * (1 << 20)])
    chunk = wide.take(pa.array([0, 1] * 550))
    column = pa.chunked_array([chunk, chunk])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        column.combine_chunks()
    found = reordered(column, np.arange(2199, -1, -1))
    assert found.num_chunks >= 2 and len(found) == 2200
    assert [found[i].as_py()[0] for i in (0, 1, 2198, 2199)] == ["b", "a", "b", "a"]
