"""Rows of fixed-size lists of fixed-size lists, of slices of which Arrow takes the wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy

MATRIX = pa.list_(pa.list_(pa.int64(), 2), 2)
ROWS = 40
VALUES = [[[4 * i, 4 * i + 1], [4 * i + 2, 4 * i + 3]] for i in range(ROWS)]


def _table() -> pa.Table:
    matrices = pa.array(VALUES, MATRIX)
    members = [pa.array([str(i) for i in range(ROWS)]), matrices]
    inside = pa.StructArray.from_arrays(members, names=["s", "m"])
    return pa.table({"id": np.arange(ROWS), "m": matrices, "st": inside})


def _check(found: pa.Table, numbers: list[int]) -> None:
    assert found["id"].to_pylist() == numbers
    assert found["m"].to_pylist() == [VALUES[i] for i in numbers]
    assert found["st"].to_pylist() == [{"s": str(i), "m": VALUES[i]} for i in numbers]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("files", [1, 3])
def test_filters_limits_and_takes_find_their_rows(tmp_path: Path, version: Any, files: int) -> None:
    ds = lancecy.write_dataset(
        _table(), tmp_path / "t", max_rows_per_file=-(-ROWS // files), data_storage_version=version
    )
    for text, numbers in (
        ("id % 3 = 1", [*range(1, ROWS, 3)]),
        ("id > 17 AND st.s IS NOT NULL", [*range(18, ROWS)]),
        ("id % 2 = 0 OR id = 39", [*range(0, ROWS, 2), 39]),
    ):
        _check(ds.to_table(filter=text), numbers)
        _check(ds.to_table(filter=text, offset=2, limit=5), numbers[2:7])
        _check(pa.Table.from_batches(ds.to_batches(filter=text, batch_size=4)), numbers)
        _check(ds.to_table(filter=text, order_by=[("id", "descending")]), numbers[::-1])
    _check(ds.take([30, 3, 30, 17]), [30, 3, 30, 17])
    ds.delete("id % 4 = 2")
    ds.optimize.compact_files()
    _check(ds.to_table(filter="id > 20"), [i for i in range(21, ROWS) if i % 4 != 2])


def test_changes_store_their_rows(tmp_path: Path) -> None:
    rows = _table()
    ds = lancecy.write_dataset(rows.slice(0, 20), tmp_path / "t")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows.slice(7))
    _check(ds.to_table(order_by=["id"]), [*range(ROWS)])
    ds.add_columns({"twice": "id * 2"})
    ds.update({"twice": "0"}, "id % 5 = 3")
    _check(ds.to_table(order_by=["id"]), [*range(ROWS)])
    ds.merge_insert("id").when_matched_update_all("source.id % 2 = 1").execute(
        rows.slice(11).select(["id", "m"])
    )
    _check(ds.to_table(order_by=["id"]), [*range(ROWS)])
    ds.drop_columns(["m"])
    ds.merge(rows.slice(0).select(["id", "m"]), "id")
    _check(ds.to_table(order_by=["id"]), [*range(ROWS)])


def test_results_are_filtered_rightly_by_arrow(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(_table(), tmp_path / "t", max_rows_per_file=15)
    mask = np.arange(ROWS) % 3 == 1
    _check(ds.to_table().filter(pa.array(mask)), [*range(1, ROWS, 3)])
    found = [batch.filter(pa.array(batch["id"].to_numpy() % 3 == 1)) for batch in ds.to_batches(batch_size=7)]
    _check(pa.Table.from_batches(found), [*range(1, ROWS, 3)])
