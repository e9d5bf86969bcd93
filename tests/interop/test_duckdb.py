"""DuckDB over ``to_pyarrow_dataset``: same answers as over the Arrow table, columns and filters pushed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lancecy
from lancecy.interop.pyarrow_dataset import PyarrowDataset
from tests.interop import live
from tests.interop.doors import every_type

pytestmark = pytest.mark.interop

# Condition -> whether DuckDB 2.0 hands it over. What it keeps for itself it must still answer right.
CONDITIONS = {
    "u16 > 3000": True,
    "u16 < 5000 OR u16 > 55000": True,
    "i8 IN (1, 2, 3)": True,
    "u64 > 4000000000000000000": True,
    "f > 0.5": False,
    "f < 0.5": True,
    "f = 'nan'::double": False,
    "f >= 'nan'::double": False,
    "s = 's3'": True,
    "s IS NULL": True,
    "s IS NOT NULL AND id < 40": True,
    "ls > 's4' AND id < 100": True,
    "b = '\\x05'::blob": True,
    "d > 3.50": True,
    "day >= DATE '2020-05-01'": True,
    "ts > TIMESTAMP '2020-01-20'": True,
    "tz > TIMESTAMPTZ '2020-01-20 00:00:00+00'": True,
    "t64 > TIME '00:00:00.5'": True,
    "dur > INTERVAL 300 MILLISECONDS": False,
    "flag": False,
    "NOT flag": False,
    "flag IS NULL": True,
    "kind = 'c3'": True,
    "st.a > 690": True,
    "id BETWEEN 5 AND 9": True,
    "s LIKE 's1%'": False,
    "NOT (id > 5)": True,
    "id % 2 = 0 AND u16 < 1000": True,
    "(id < 5 OR s = 's9') AND f > 0": True,
}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return every_type()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table) -> PyarrowDataset:
    path = tmp_path_factory.mktemp("duckdb") / "t.lance"
    live.write(rows, path, data_storage_version="2.1", max_rows_per_file=200)
    door: PyarrowDataset = lancecy.dataset(path).to_pyarrow_dataset()
    return door


def _asked(calls: list[tuple[Any, Any]], table: Any, query: str) -> pa.Table:
    import duckdb

    calls.clear()
    with duckdb.connect() as connection:
        connection.register("t", table)
        return connection.sql(query).to_arrow_table()


def test_conditions_are_answered_as_over_the_table(
    rows: pa.Table, table: PyarrowDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, Any]] = []
    plain = PyarrowDataset.scanner

    def recorded(self: Any, columns: Any = None, filter: Any = None, *rest: Any, **more: Any) -> Any:
        calls.append((columns, filter))
        return plain(self, columns, filter, *rest, **more)

    monkeypatch.setattr(PyarrowDataset, "scanner", recorded)
    for condition, is_pushed in CONDITIONS.items():
        query = f"SELECT id, s FROM t WHERE {condition} ORDER BY id"
        expected = _asked(calls, rows, query)
        assert calls == []
        assert _asked(calls, table, query).equals(expected), condition
        assert 0 < expected.num_rows < rows.num_rows, condition
        ((columns, filter_),) = calls
        assert (filter_ is not None) == is_pushed, condition
        assert "vec" not in columns, condition


def test_whole_rows_counts_and_joins(rows: pa.Table, table: PyarrowDataset) -> None:
    calls: list[tuple[Any, Any]] = []
    for query in (
        "SELECT * REPLACE (f = 'nan'::double AS f) FROM t ORDER BY id",
        "SELECT count(*) AS n FROM t",
        "SELECT st.b AS b, list FROM t WHERE id = 3",
        "SELECT kind, sum(d) AS d FROM t GROUP BY kind ORDER BY kind",
        "SELECT count(*) AS n FROM t AS a JOIN t AS b ON a.id = b.i8",
    ):
        expected = _asked(calls, rows, query)
        assert _asked(calls, table, query).to_pylist() == expected.to_pylist(), query


def test_relations_are_written(tmp_path: Path) -> None:
    connection = duckdb.connect()
    numbers = "SELECT i::integer AS id, i * 2 AS x FROM range({}) AS t(i)"
    ds = lancecy.write_dataset(connection.sql(numbers.format(5)), tmp_path / "t.lance")
    ds.append(connection.sql("SELECT 7::integer AS id, NULL::bigint AS x"))
    ds.merge_insert("id").when_not_matched_insert_all().execute(connection.sql(numbers.format(6)))
    found = ds.to_pyarrow_dataset()  # noqa: F841 DuckDB finds it by its name
    lancecy.write_dataset(
        duckdb.sql("SELECT * FROM found WHERE id > 3"), tmp_path / "t.lance", mode="overwrite"
    )
    rows = lancecy.dataset(tmp_path / "t.lance").to_table().sort_by("id")
    assert rows.to_pydict() == {"id": [4, 5, 7], "x": [8, 10, None]}
