"""``default_scan_options``: what every scan of one opened dataset does unless it is told otherwise."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import UnsupportedError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = pa.table({"a": range(10), "b": [n % 3 for n in range(10)]})
    return lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=4).uri


@pytest.mark.interop
def test_scans_are_those_of_pylance(uri: str) -> None:
    import lance

    views: list[dict[str, Any]] = [
        {"with_row_id": True, "limit": 3},
        {"columns": ["a"], "filter": "b = 1", "batch_size": 2},
        {"with_row_address": True, "offset": 2},
    ]
    for options in views:
        mine = lancecy.dataset(uri, default_scan_options=options)
        theirs = lance.dataset(uri, default_scan_options=options)
        assert mine.schema == theirs.schema
        assert mine.to_table() == theirs.to_table()
        assert mine.to_table(["b"], "a > 3", limit=4) == theirs.to_table(["b"], "a > 3", limit=4)
        assert mine.count_rows() == theirs.count_rows()
        assert mine.count_rows("b = 0") == theirs.count_rows("b = 0")
        assert mine.take([1, 5]) == theirs.take([1, 5])
        pairs = zip(mine.get_fragments(), theirs.get_fragments(), strict=True)
        assert all(own.to_table() == other.to_table() for own, other in pairs)


def test_defaults_stay_with_the_dataset(uri: str) -> None:
    ds = lancecy.dataset(uri, default_scan_options={"with_row_id": True, "batch_size": 2})
    ds.delete("a = 0")
    for found in (ds, pickle.loads(pickle.dumps(ds)), ds.checkout_version(1), ds.checkout_latest()):
        assert found.schema.names == ["a", "b", "_rowid"]
        assert next(found.to_batches()).num_rows == 2
    assert ds.to_table(with_row_id=False).schema.names == ["a", "b"]
    ds.append({"a": [99], "b": [1]})
    assert ds.get_fragments()[0].schema.names == ["a", "b"]


@pytest.mark.parametrize("options", [{"filter": "a < 3"}, {"limit": 3}, {"offset": 8}, {"with_row_id": True}])
def test_engines_see_the_whole_table(uri: str, options: dict[str, Any]) -> None:
    ds = lancecy.dataset(uri, default_scan_options=options)
    lazy, arrow = ds.to_polars_lazy(), ds.to_pyarrow_dataset()
    assert lazy.collect_schema().names() == arrow.schema.names == ["a", "b"]
    assert lazy.collect().height == arrow.to_table().num_rows == len(arrow.head(50)) == 10
    assert lazy.head(5).collect()["a"].to_list() == [0, 1, 2, 3, 4]
    assert lazy.filter(pl.col("a") >= 2, pl.col("a") < 9).collect()["a"].to_list() == [*range(2, 9)]
    assert arrow.to_table(filter=pc.field("a") >= 2)["a"].to_pylist() == [*range(2, 10)]
    assert arrow.filter(pc.field("a") > 4).take([0])["a"].to_pylist() == [5]
    found = duckdb.sql("SELECT count(*), max(b) FROM arrow WHERE a >= 2")
    assert found is not None and found.fetchall() == [(8, 2)]


def test_unknown_option_is_refused_on_opening(uri: str) -> None:
    with pytest.raises(ValueError, match="unknown option 'batchsize'; did you mean 'batch_size'"):
        lancecy.dataset(uri, default_scan_options={"batchsize": 3})
    with pytest.raises(UnsupportedError, match="full_text_query=… is not supported"):
        lancecy.dataset(uri, default_scan_options={"full_text_query": "word"})
    harmless: dict[str, Any] = {"nearest": None, "include_deleted_rows": False, "prefilter": True}
    assert lancecy.dataset(uri, default_scan_options=harmless).count_rows() == 10
