"""``ds.sql``: pylance's builder over DuckDB, with columns and filters pushed into the scan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.api.scanners import Scanner
from lancecy.errors import ExpressionError, LanceError, UnsupportedError

pytestmark = pytest.mark.interop

ROWS = pa.table(
    {
        "id": range(1000),
        "s": [f"x{n % 7}" for n in range(1000)],
        "Mixed": [n / 4 for n in range(1000)],
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2000, dtype=np.float32)), 2),
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sql") / "t.lance"
    lancecy.write_dataset(ROWS, place, max_rows_per_file=300)
    lancecy.dataset(place).delete("id = 5")
    return place


def rows(ds: Any, query: str, **options: Any) -> list[dict[str, Any]]:
    """The answer of a query; ``options`` are calls of the builder."""
    builder = ds.sql(query)
    for name, value in options.items():
        builder = getattr(builder, name)(value)
    return [row for batch in builder.build().to_batch_records() for row in batch.to_pylist()]


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("SELECT id, s FROM dataset WHERE id > 3 AND id < 9", {}),
    ("SELECT * FROM dataset WHERE id IN (4, 5, 6)", {}),
    ("SELECT * FROM t WHERE id = 7", {"table_name": "t"}),
    ('SELECT "Mixed" FROM "My table" WHERE s = \'x3\' ORDER BY "Mixed" LIMIT 3', {"table_name": "My table"}),
    ("SELECT _rowid, _rowaddr, id FROM dataset WHERE id > 990", {"with_row_id": True, "with_row_addr": True}),
    ("SELECT * FROM dataset WHERE id = 8", {"with_row_addr": True}),
    ("SELECT id, _rowid FROM dataset WHERE _rowid = 301 OR _rowid = 8589934592", {"with_row_id": True}),
    ("SELECT count(*) AS n FROM dataset", {}),
    ("SELECT s, count(*) AS n FROM dataset WHERE id < 500 GROUP BY s ORDER BY s", {}),
    ("SELECT a.id FROM dataset AS a JOIN dataset AS b ON a.id = b.id + 990 ORDER BY a.id", {}),
    ("SELECT id FROM dataset WHERE id > 2000", {}),
]


def test_answers_are_those_of_pylance(path: Path) -> None:
    import lance

    ds, peer = lancecy.dataset(path), lance.dataset(str(path))
    for query, options in QUERIES:
        assert rows(ds, query, **options) == rows(peer, query, **options), query


def test_columns_and_filters_reach_the_scan(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[tuple[list[str], bool]] = []
    plain = Scanner.to_reader

    def recorded(self: Scanner) -> pa.RecordBatchReader:
        scans.append((self.schema.names, self.request.filter is not None))
        return plain(self)

    monkeypatch.setattr(Scanner, "to_reader", recorded)
    ds = lancecy.dataset(path)
    assert rows(ds, "SELECT s FROM dataset WHERE id = 7") == [{"s": "x0"}]
    assert rows(ds, "SELECT id FROM dataset WHERE _rowid = 7", with_row_id=True) == [{"id": 7}]
    assert rows(ds, "SELECT max(id) AS n FROM dataset") == [{"n": 999}]
    ((first, is_first_filtered), (second, is_second_filtered), third) = scans
    assert set(first) <= {"id", "s"} and is_first_filtered
    assert set(second) <= {"id", "_rowid"} and is_second_filtered
    assert third == (["id"], False)


def test_batches_have_at_most_the_rows_asked_for(path: Path) -> None:
    query = lancecy.dataset(path).sql("SELECT id FROM dataset").batch_size(64).batch_size_bytes(4096).build()
    batches = query.to_batch_records()
    assert max(batch.num_rows for batch in batches) <= 64
    assert sum(batch.num_rows for batch in batches) == 999
    stream = query.to_stream_reader()
    assert stream.schema == pa.schema([("id", pa.int64())])
    assert stream.read_next_batch().num_rows <= 64  # and the rest is not asked for
    assert pa.table(query).num_rows == 999


def test_a_builder_sets_options_and_returns_itself(path: Path) -> None:
    builder = lancecy.dataset(path).sql("SELECT * FROM dataset LIMIT 1")
    assert builder.with_row_id() is builder
    before = builder.build()
    assert builder.with_row_id(False).build().to_stream_reader().schema.names == ROWS.schema.names
    assert before.to_stream_reader().schema.names == [*ROWS.schema.names, "_rowid"]


def test_default_scan_options_do_not_change_the_table(path: Path) -> None:
    ds = lancecy.dataset(path, default_scan_options={"columns": ["s"], "filter": "id < 3"})
    assert rows(ds, "SELECT count(id) AS n FROM dataset") == [{"n": 999}]


def test_half_precision_floats_are_widened(tmp_path: Path) -> None:
    halves = pa.array(np.arange(10, dtype=np.float16) / 4)
    vectors = pa.FixedSizeListArray.from_arrays(halves, 2)
    nested = pa.array([{"h": np.float16(0.5)}] * 5, pa.struct([("h", pa.float16())]))
    table = pa.table(
        {
            "id": range(5),
            "h": halves[:5],
            "v": vectors,
            "l": vectors.cast(pa.list_(pa.float16())),
            "s": nested,
        }
    )
    ds = lancecy.write_dataset(table, tmp_path / "t.lance")
    assert rows(ds, "SELECT * FROM dataset WHERE h < 0.3") == table.slice(0, 2).to_pylist()
    assert rows(ds, "SELECT id FROM dataset WHERE s.h = 0.5 AND h >= 0.75 AND id < 4") == [{"id": 3}]
    maps = pa.table({"m": pa.array([[("a", np.float16(1.5))], None], pa.map_(pa.string(), pa.float16()))})
    ds = lancecy.write_dataset(maps, tmp_path / "maps.lance", data_storage_version="2.2")
    assert rows(ds, "SELECT m['a'] AS a FROM dataset") == [{"a": 1.5}, {"a": None}]


def test_queries_that_are_refused(path: Path) -> None:
    ds = lancecy.dataset(path)
    (path.parent / "other.csv").write_text("a\n1\n")
    secret = pa.table({"a": [1]})
    assert secret.num_rows == 1
    for query in (
        "SELEC",
        "",
        "SELECT zz FROM dataset",
        "SELECT id FROM dataset; SELECT 2",
        "CREATE TABLE x AS SELECT 1",
        f"COPY dataset TO '{path.parent}/out.csv'",
        f"SELECT * FROM '{path.parent}/other.csv'",
        "SELECT * FROM secret",
        "SELECT CAST(s AS INTEGER) FROM dataset",
    ):
        with pytest.raises(ExpressionError) as caught:
            ds.sql(query).build().to_batch_records()
        assert isinstance(caught.value, ValueError)
    assert not (path.parent / "out.csv").exists()
    with pytest.raises(ExpressionError, match=r'column "zz" not found'):
        ds.sql("SELECT zz FROM dataset").build().to_stream_reader()
    with pytest.raises(TypeError, match="must be a str"):
        ds.sql(3)  # type: ignore[arg-type]


def test_bytes_of_blobs(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table({"b": [b"abc", None, b"x"]}, pa.schema([blob]))
    ds = lancecy.write_dataset(table, tmp_path / "t.lance")
    query = ds.sql("SELECT octet_length(b) AS n FROM dataset WHERE b IS NOT NULL").blob_handling("all_binary")
    assert query.build().to_batch_records()[0].to_pylist() == [{"n": 3}, {"n": 1}]


def test_types_that_are_refused(tmp_path: Path) -> None:
    table = pa.table({"d": pa.array([1], pa.decimal256(50, 2)), "b": [b"x"]})
    ds = lancecy.write_dataset(table, tmp_path / "t.lance")
    with pytest.raises(UnsupportedError, match=r"DuckDB cannot read this table.*leave the column out"):
        ds.sql("SELECT 1 FROM dataset").build().to_batch_records()


def test_a_damaged_file_is_named_as_in_a_scan(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=300)
    (file,) = (tmp_path / "t.lance" / "data").glob(ds.get_fragments()[3].data_files()[0].path)
    data = bytearray(file.read_bytes())
    data[-40:] = bytes(40)
    file.write_bytes(data)
    damaged = lancecy.dataset(tmp_path / "t.lance", session=lancecy.Session())
    with pytest.raises(LanceError) as scanned:
        damaged.to_table()
    with pytest.raises(type(scanned.value), match="fragment 3"):
        damaged.sql("SELECT sum(id) FROM dataset").build().to_batch_records()


def test_without_duckdb_the_remedy_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"pip install 'lancecy\[duckdb\]'"):
        lancecy.dataset(path).sql("SELECT 1")
