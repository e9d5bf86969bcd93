"""``_rowoffset``: the number of a row among the live rows of the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.datasets import write_table


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    rows = pa.table({"a": range(10), "s": list("abcdefghij")})
    made = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=4)
    made.delete("a IN (1, 5)")
    return made


def test_offset_is_the_number_that_take_wants(ds: lancecy.Dataset) -> None:
    found = ds.to_table(["a", "_rowoffset"], "s > 'c'")
    assert found.to_pydict() == {"a": [3, 4, 6, 7, 8, 9], "_rowoffset": [2, 3, 4, 5, 6, 7]}
    assert ds.take(found["_rowoffset"], ["a"]) == found.select(["a"])
    assert ds.take([5, 0, 3], ["a", "_rowoffset"])["_rowoffset"].to_pylist() == [5, 0, 3]


def test_offset_in_filters_expressions_and_orders(ds: lancecy.Dataset) -> None:
    assert ds.to_table(["a"], "_rowoffset = 4")["a"].to_pylist() == [6]
    assert ds.to_table(["a"], "_rowoffset >= 3 AND s < 'i'")["a"].to_pylist() == [4, 6, 7]
    assert ds.to_table(["a"], "NOT (_rowoffset < 6 OR _rowid = 0)")["a"].to_pylist() == [8, 9]
    assert ds.to_table({"x": "_rowoffset + 1"}, "a > 7")["x"].to_pylist() == [7, 8]
    assert ds.to_table(["a"], limit=2, order_by=[("_rowoffset", "descending")])["a"].to_pylist() == [9, 8]
    assert ds.count_rows("_rowoffset > 2") == 5
    ddf = lancecy.scan(ds.uri, columns=["a", "_rowoffset"], filter="a > 3")
    assert ddf.compute()["_rowoffset"].tolist() == [3, 4, 5, 6, 7]


def test_pages_are_still_pruned_beside_an_offset(tmp_path: Path) -> None:
    write_table(str(tmp_path), fragments=2, rows=64, rows_per_page=16, deleted={0: [3]})
    scanner = lancecy.dataset(tmp_path).scanner(["id"], "id >= 100 AND _rowoffset > 0")
    assert scanner.to_table()["id"].to_pylist() == list(range(100, 128))
    assert scanner.explain().kept_pages < scanner.explain().pages


@pytest.mark.interop
def test_offsets_are_those_of_pylance(ds: lancecy.Dataset) -> None:
    import lance

    theirs = lance.dataset(ds.uri)
    # Values, not schemas, of takes: there pylance says that offsets are never null.
    for columns in (["a", "_rowoffset"], ["_rowoffset"], ["_rowoffset", "s", "_rowid"]):
        assert ds.to_table(columns) == theirs.to_table(columns)
        assert ds.take([0, 3, 5], columns).to_pydict() == theirs.take([0, 3, 5], columns).to_pydict()
        # pylance sees the offset in filters only if it returns it.
        assert ds.to_table(columns, "a > 4") == theirs.to_table(columns, filter="a > 4")
        assert ds.to_table(columns, limit=2, offset=3) == theirs.to_table(columns, limit=2, offset=3)
    mine, other = ds.get_fragments()[1], theirs.get_fragments()[1]
    assert mine.to_table(["a", "_rowoffset"]) == other.to_table(["a", "_rowoffset"])
    addresses = ds.to_table([], with_row_address=True)["_rowaddr"].to_pylist()[2:6]
    taken = ds.take_rows(addresses, ["_rowoffset"])
    assert taken.to_pydict() == theirs._take_rows(addresses, ["_rowoffset"]).to_pydict()
