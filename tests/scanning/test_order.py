"""``order_by`` against plain Python sorting, and against pylance."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.arrow import columns
from lancecy.errors import ColumnNotFoundError
from lancecy.scanning.order import ColumnOrdering, orderings, sort_positions
from lancecy.schema import Field
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected, write_table
from tests.helpers.pages import plain
from tests.scanning.handmade import write_handmade


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    """Columns ``s.a`` (a child), ``s.b`` (a name with a dot), ``id`` and ``s``, three fragments of two rows."""
    struct = Field(
        "s", 0, logical_type="struct", children=(Field("a", 1, 0, "int64"), Field("x", 2, 0, "int64"))
    )
    fields = [struct, Field("s.b", 3, logical_type="int64"), Field("id", 4, logical_type="int64")]
    keys = [5, 2, 9, 2, 7, 0]
    fragments = [
        [
            (
                {
                    1: [plain(keys[i : i + 2], "<i8")],
                    2: [plain([-i, -i - 1], "<i8")],
                    3: [plain([k % 3 for k in keys[i : i + 2]], "<i8")],
                    4: [plain([i, i + 1], "<i8")],
                },
                (0,),
            )
        ]
        for i in (0, 2, 4)
    ]
    root = str(tmp_path_factory.mktemp("order") / "t")
    return lancecy.dataset(write_handmade(root, fields, fragments, 2))


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ("id", [0, 1, 2, 3, 4, 5]),
        (["s.a"], [5, 1, 3, 0, 4, 2]),
        ([("s.a", "descending")], [2, 4, 0, 1, 3, 5]),
        (["s.b", ("id", "descending")], [5, 2, 4, 3, 1, 0]),
        ([("s.b", "asc"), ("id", "desc")], [5, 2, 4, 3, 1, 0]),
        (["`s.b`", "s.a"], [5, 2, 4, 1, 3, 0]),
        (["`s`.`x`"], [5, 4, 3, 2, 1, 0]),
        (["s"], [5, 3, 1, 0, 4, 2]),
        ([ColumnOrdering("_rowid", ascending=False)], [5, 4, 3, 2, 1, 0]),
        (ColumnOrdering("s.a"), [5, 1, 3, 0, 4, 2]),
        ([], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_keys_name_stored_columns(ds: lancecy.Dataset, keys: Any, rows: list[int]) -> None:
    assert ds.to_table(order_by=keys)["id"].to_pylist() == rows
    table = ds.to_table(["id"], order_by=keys)
    assert table.column_names == ["id"] and table["id"].to_pylist() == rows
    assert ds.to_table(["id"], order_by=keys, offset=1, limit=3)["id"].to_pylist() == rows[1:4]
    assert [
        n for b in ds.to_batches(["id"], order_by=keys, batch_size=4) for n in b["id"].to_pylist()
    ] == rows
    assert ds.to_table(["s.a"], order_by=keys).column_names == ["s.a"]
    assert ds.to_table([], order_by=keys, limit=4).num_rows == 4


def test_schema_of_a_sorted_scan_is_that_of_the_scan(ds: lancecy.Dataset) -> None:
    scanner = ds.scanner(["id"], order_by="s.a", with_row_id=True)
    assert scanner.schema.names == ["id", "_rowid"]
    assert scanner.to_table().schema.equals(scanner.schema, check_metadata=True)


def test_stored_columns_come_before_computed_ones_of_the_same_name(ds: lancecy.Dataset) -> None:
    table = ds.to_table({"id": "0 - id", "y": "s.a * 2"}, order_by=[("id", "descending")])
    assert table["id"].to_pylist() == [-5, -4, -3, -2, -1, 0]
    assert ds.to_table({"y": "s.a * 2"}, order_by="y")["y"].to_pylist() == [0, 4, 4, 10, 14, 18]


@pytest.mark.parametrize(("name", "hint"), [("i", "id"), ("s.aa", "s.a"), ("ID", "id")])
def test_unknown_key_says_what_was_meant(ds: lancecy.Dataset, name: str, hint: str) -> None:
    with pytest.raises(ColumnNotFoundError, match="did you mean") as caught:
        ds.scanner(order_by=[name])
    assert repr(hint) in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        ([("id", "up")], ValueError, "not 'up'"),
        ([3], TypeError, "must be a name"),
        (7, TypeError, "a name or a list"),
    ],
)
def test_what_is_no_key_is_refused(
    ds: lancecy.Dataset, keys: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        ds.scanner(order_by=keys)


def test_types_without_order_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t")))
    with pytest.raises(ValueError, match="'v' of type fixed_size_list.* has no order"):
        ds.scanner(order_by="v")


NAN = float("nan")
FLOATS = [1.0, NAN, -0.0, 0.0, math.inf, None, 2.0, -NAN, -math.inf, None, -2.0]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), "dict"])
def test_floats_sort_in_total_order(ascending: bool, nulls_first: bool, kind: Any) -> None:
    numbers = np.array([0.0 if f is None else f for f in FLOATS], np.float64)
    numbers[7] = np.copysign(np.nan, -1)
    mask = np.array([f is None for f in FLOATS])
    if kind == "dict":
        values = pa.array(numbers[::-1].copy())
        column = pa.DictionaryArray.from_arrays(
            pa.array(np.arange(11)[::-1].astype(np.int8), mask=mask), values
        )
    else:
        column = pa.array(numbers, mask=mask).cast(kind)
    order = [7, 8, 10, 2, 3, 0, 6, 4, 1]
    expected = order if ascending else order[::-1]
    expected = [5, 9, *expected] if nulls_first else [*expected, 5, 9]
    key = ColumnOrdering("f", ascending, nulls_first)
    assert sort_positions(pa.table({"f": column}), (key,)).tolist() == expected


def test_nulls_are_ties_for_the_next_key() -> None:
    table = pa.table({"f": pa.array([None, 1.0, None, None]), "k": [3, 0, 1, 2]})
    # What lies under a null must not matter.
    noise = pa.Array.from_buffers(
        pa.float64(), 4, [table["f"].chunk(0).buffers()[0], pa.py_buffer(np.arange(4.0))]
    )
    keys = orderings(["f", "k"])
    assert sort_positions(table.set_column(0, "f", noise), keys).tolist() == [1, 2, 3, 0]


@pytest.mark.interop
@pytest.mark.parametrize("name", ["s", "f", "st.a", "b", "x", "st"])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_order_is_that_of_pylance(tmp_path: Path, name: str, ascending: bool, nulls_first: bool) -> None:
    import lance

    table = pa.table(
        {
            "id": range(8),
            "s": ["b", None, "a", None, "", "c", "a", "z"],
            "f": [1.0, NAN, -0.0, 0.0, math.inf, -math.inf, 2.0, -NAN],
            "st": [{"a": 9 - i, "b": str(i)} for i in range(8)],
            "b": [True, False, False, True] * 2,
            "x": pa.array([b"aa", b"bb"] * 4, pa.binary(2)),
        }
    )
    path = str(tmp_path / "t")
    lance.write_dataset(table, path, data_storage_version="legacy", max_rows_per_file=3)
    keys: Any = [sys.modules["lance.dataset"].ColumnOrdering(name, ascending, nulls_first), "id"]
    theirs = lance.dataset(path).to_table(order_by=keys)["id"].to_pylist()
    assert lancecy.dataset(path).to_table(order_by=keys)["id"].to_pylist() == theirs


def test_take_and_sort_of_more_text_than_one_chunk_counts(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, data_version: str
) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), data_version=data_version))
    monkeypatch.setattr(columns, "_MAX_EXTENT", 40)
    rows = [149, 3, 77, 3, 20, 148, 51, 52, 0]
    taken = ds.take(rows)
    assert_tables_equal(taken, expected(rows))
    assert taken["s"].num_chunks > 1
    backwards = ds.to_table(order_by=[("id", "descending")], filter="id < 130", offset=5, limit=40)
    assert_tables_equal(backwards, expected(range(124, 84, -1)))
    assert backwards["s"].num_chunks > 1
