"""Labels of rows and divisions: positions, row ids, none; with filters, deletions and moved rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy.dask.collection import row_ids_ascend
from lancecy.table.rows.row_ids import ArraySegment, HolesSegment, RangeSegment, RowIdSequence
from tests.interop.live import peer, write

pytestmark = pytest.mark.interop

ROWS = 4000


@pytest.fixture(autouse=True)
def _sync() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


def _write(place: Path, **options: Any) -> str:
    """Four fragments; deleted rows at the start of one, in the middle and at the end of others."""
    path = str(place / "t.lance")
    rows = pa.table({"row": range(ROWS), "k": [i % 10 for i in range(ROWS)]})
    write(rows, path, max_rows_per_file=1000, max_rows_per_group=100, data_storage_version="2.0", **options)
    peer(path).delete("row < 30 OR (row >= 1500 AND row < 1600) OR row >= 3990 OR row = 2999")
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """With row addresses for ids, or stable ones."""
    return _write(tmp_path_factory.mktemp("labels"), enable_stable_row_ids=request.param)


def _expected(path: str, column: str | None = None) -> pd.DataFrame:
    """The table with its positions, or another column of pylance's, as labels."""
    table = peer(path).to_table(with_row_id=True)
    index = table[column].to_pylist() if column else range(table.num_rows)
    return pd.DataFrame({"row": table["row"].to_pylist()}, index=index)


def _same(found: dd.DataFrame, expected: pd.DataFrame) -> None:
    computed = found[["row"]].compute()
    assert computed.index.tolist() == expected.index.tolist()
    assert computed["row"].tolist() == expected["row"].tolist()


@pytest.mark.parametrize("blocksize", [1, "4kB", None])
@pytest.mark.parametrize(("index", "column"), [("position", None), ("rowid", "_rowid")])
def test_rows_are_labelled(path: str, index: Any, column: str | None, blocksize: Any) -> None:
    ddf = lancecy.scan(path, index=index, blocksize=blocksize)
    expected = _expected(path, column)
    _same(ddf, expected)
    assert ddf.known_divisions
    assert ddf.index.name == (column or None)
    firsts = ddf.map_partitions(lambda part: part.index.min(), meta=("first", "int64")).compute().tolist()
    lasts = ddf.map_partitions(lambda part: part.index.max(), meta=("last", "int64")).compute().tolist()
    assert all(d <= first for d, first in zip(ddf.divisions, firsts))
    assert all(last < d for d, last in zip(ddf.divisions[1:-1], lasts))
    assert lasts[-1] <= ddf.divisions[-1]


@pytest.mark.parametrize(("index", "column"), [("position", None), ("rowid", "_rowid")])
@pytest.mark.parametrize("given", ["in the scan", "on the frame"])
def test_rows_that_pass_a_filter_keep_their_labels(
    path: str, index: Any, column: str | None, given: str
) -> None:
    expected = _expected(path, column)
    expected = expected[expected.row % 10 == 3]
    ddf = lancecy.scan(path, index=index, blocksize=None, filter="k = 3" if given == "in the scan" else None)
    _same(ddf if given == "in the scan" else ddf[ddf.k == 3], expected)
    assert ddf.known_divisions == (given == "on the frame")


@pytest.mark.parametrize("index", ["position", "rowid"])
def test_loc_reads_one_partition(path: str, reads: list[Any], index: Any) -> None:
    ddf = lancecy.scan(path, index=index, blocksize=None)
    expected = _expected(path, None if index == "position" else "_rowid")
    label = int(expected.index[2500])
    assert (
        ddf.loc[label : label + 5][["row"]]
        .compute()
        .equals(expected.loc[label : label + 5].astype("int64[pyarrow]"))
    )
    assert len(reads) == 1
    assert ddf.loc[label].row.compute().tolist() == expected.loc[[label]].row.tolist()
    assert len(reads) == 2


def test_filtered_scan_in_table_order_has_divisions(path: str) -> None:
    ddf = lancecy.scan(path, filter="k = 3", interleave=False, blocksize=None)
    expected = _expected(path)
    expected = expected[expected.row % 10 == 3]
    label = int(expected.index[100])
    assert ddf.loc[label].row.compute().tolist() == [expected.loc[label].row]


def test_no_labels_are_numbers_from_zero(path: str) -> None:
    for filter_ in (None, "k = 3"):
        ddf = lancecy.scan(path, index=None, blocksize=None, filter=filter_)
        assert not ddf.known_divisions
        for part in ddf.partitions:
            found = part.compute()
            assert found.index.tolist() == list(range(len(found)))


def test_ids_that_do_not_ascend_have_no_divisions(tmp_path: Path) -> None:
    """Updated rows move to the end and keep their ids."""
    path = _write(tmp_path, enable_stable_row_ids=True)
    peer(path).update({"k": "77"}, where="row >= 2000 AND row < 2010")
    ddf = lancecy.scan(path, index="rowid", blocksize=None)
    assert not ddf.known_divisions
    _same(ddf, _expected(path, "_rowid"))


@pytest.mark.parametrize(
    ("segments", "ascend"),
    [
        ([[RangeSegment(0, 5)], [RangeSegment(5, 9)]], True),
        ([[RangeSegment(5, 9)], [RangeSegment(0, 5)]], False),
        ([[RangeSegment(0, 5), RangeSegment(4, 9)]], False),
        ([[HolesSegment(0, 9, np.array([1, 3]))], [RangeSegment(9, 12)]], True),
        ([[ArraySegment(3, np.array([0, 2, 9], np.uint16))], [RangeSegment(13, 14)]], True),
        ([[ArraySegment(3, np.array([0, 2, 9], np.uint16))], [RangeSegment(12, 14)]], False),
        ([[ArraySegment(3, np.array([0, 9, 2], np.uint16))]], False),
        ([[RangeSegment(7, 7)], [RangeSegment(0, 5)]], True),
    ],
)
def test_ascending_ids_are_recognised(segments: list[list[Any]], ascend: bool) -> None:
    sequences = [
        RowIdSequence(tuple(each), np.concatenate([[0], np.cumsum([s.count for s in each])]))
        for each in segments
    ]
    assert row_ids_ascend(sequences) is ascend


def test_row_ids_are_read_without_columns(path: str, reads: list[Any]) -> None:
    found = lancecy.scan(path, index="rowid", blocksize=None)[[]].compute()
    assert found.index.tolist() == _expected(path, "_rowid").index.tolist()
    assert {names for _, names in reads} == {("_rowid",)}


@pytest.mark.parametrize("filter", [None, "row >= 0"])
def test_divisions_are_unknown_where_labels_begin_anew_in_every_partition(
    path: str, filter: str | None
) -> None:
    ddf = lancecy.scan(path, filter, index=None, interleave=False, blocksize=None)
    assert not ddf.known_divisions
    assert [part.compute().index[0] for part in ddf.partitions] == [0, 0, 0, 0]
