"""``LanceFileReader`` and ``LanceFileWriter``: one file, whole or not at all."""

from __future__ import annotations

import gc
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    FormatError,
    LanceError,
    RowNotFoundError,
    SchemaError,
    StoreError,
    UnsupportedError,
)
from lancecy.store.local import LocalStore
from tests.helpers.faults import Fault, FaultyStore

ROWS = pa.table({"i": range(10), "s": [f"s{n}" for n in range(10)]})


def written(path: Path, table: pa.Table = ROWS, **options: Any) -> lancecy.LanceFileReader:
    with lancecy.LanceFileWriter(path, **options) as writer:
        writer.write_batch(table)
    return lancecy.LanceFileReader(path)


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    reader = written(tmp_path / "new" / "folder" / "a.lance")
    assert reader.read_all().to_table().equals(ROWS)
    assert reader.read_range(3, 4).to_table().equals(ROWS.slice(3, 4))
    assert reader.read_range(10, 0).to_table().num_rows == 0
    assert reader.take_rows(np.array([1, 9])).to_table().equals(ROWS.take([1, 9]))
    assert reader.take_rows([]).to_table().equals(ROWS.slice(0, 0))
    batches = reader.read_range(1, 8, batch_size=3).to_batches()
    assert [batch["i"].to_pylist() for batch in batches] == [[1, 2, 3], [4, 5, 6], [7, 8]]
    assert "10 rows" in repr(reader)


def test_a_table_of_a_file_has_no_chunk_without_rows(tmp_path: Path) -> None:
    reader = written(tmp_path / "a.lance")
    for found in (reader.read_all(), reader.read_range(2, 3), reader.take_rows([1])):
        assert [len(chunk) > 0 for chunk in found.to_table()["i"].chunks] == [True]
    assert reader.take_rows([]).to_table().schema == ROWS.schema


def test_readers_are_sent_to_workers(tmp_path: Path) -> None:
    written(tmp_path / "a.lance")
    reader = lancecy.LanceFileReader(tmp_path / "a.lance", columns=["i"], limits=lancecy.Limits(pages=7))
    reader.read_all().to_table()
    with ProcessPoolExecutor(1, get_context("spawn")) as worker:
        assert worker.submit(_rows_of, reader).result().equals(ROWS.select(["i"]))
    assert pickle.loads(pickle.dumps(reader))._session.limits == lancecy.Limits(pages=7)


def _rows_of(reader: lancecy.LanceFileReader) -> pa.Table:
    return reader.read_all().to_table()


def test_rows_and_options_that_do_not_exist(tmp_path: Path) -> None:
    reader = written(tmp_path / "a.lance")
    for start, count in ((8, 3), (-1, 1)):
        with pytest.raises(RowNotFoundError, match="the file has 10 rows"):
            reader.read_range(start, count)
    for rows in ([1, 10], [-1, 2]):
        with pytest.raises(RowNotFoundError, match="the file has 10 rows"):
            reader.take_rows(rows)
    for rows in ([2, 1], [1, 1]):
        with pytest.raises(ValueError, match="must ascend"):
            reader.take_rows(rows)
    with pytest.raises(ValueError, match="batch_size"):
        reader.read_all(batch_size=0)
    with pytest.raises(IndexError, match="no global buffer -1: the file has 1"):
        reader.read_global_buffer(-1)


def test_files_and_columns_that_do_not_exist(tmp_path: Path) -> None:
    written(tmp_path / "a.lance")
    with pytest.raises(DatasetNotFoundError, match="b.lance"):
        lancecy.LanceFileReader(tmp_path / "b.lance")
    with pytest.raises(ColumnNotFoundError):
        lancecy.LanceFileReader(tmp_path / "a.lance", columns=["z"])
    with pytest.raises(ValueError, match="no column is asked for"):
        lancecy.LanceFileReader(tmp_path / "a.lance", columns=[])
    with pytest.raises(TypeError, match="not the text"):
        lancecy.LanceFileReader(tmp_path / "a.lance", columns="i")
    (tmp_path / "c.lance").write_bytes((tmp_path / "a.lance").read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"c\.lance"):
        lancecy.LanceFileReader(tmp_path / "c.lance")
    with pytest.raises(UnsupportedError, match="storage_options"):
        lancecy.LanceFileReader(tmp_path / "a.lance", namespace_client=object(), table_id=["t"])


def test_batches_have_the_columns_of_the_schema_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    with lancecy.LanceFileWriter(path, ROWS.schema) as writer:
        writer.write_batch(ROWS.slice(0, 5).to_batches()[0])
        writer.write_batch(ROWS.select(["s", "i"]).slice(5))
        for wrong, named in (
            (ROWS.select(["i"]), "'s'"),
            (ROWS.append_column("z", ROWS["i"]), "'z'"),
            (ROWS.set_column(0, "i", pa.array(["x"] * 10)), "'i'"),
        ):
            with pytest.raises(SchemaError, match=named):
                writer.write_batch(wrong)
    assert lancecy.LanceFileReader(path).read_all().to_table().equals(ROWS)
    assert (writer.closed, writer.size_bytes, writer.close()) == (True, path.stat().st_size, None)
    for late in (
        lambda: writer.write_batch(ROWS),
        lambda: writer.add_global_buffer(b""),
        lambda: writer.add_schema_metadata("a", "b"),
    ):
        with pytest.raises(ValueError, match="finished"):
            late()


def test_a_file_without_rows_needs_a_schema(tmp_path: Path) -> None:
    writer = lancecy.LanceFileWriter(tmp_path / "a.lance", ROWS.schema)
    assert writer.close() == 0
    assert lancecy.LanceFileReader(tmp_path / "a.lance").read_all().to_table().equals(ROWS.slice(0, 0))
    with pytest.raises(ValueError, match="give a schema"):
        lancecy.LanceFileWriter(tmp_path / "b.lance").close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.lance"]


def test_a_file_at_the_root_of_a_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with lancecy.LanceFileWriter("memory://one.lance") as writer:
        writer.write_batch(ROWS)
    assert lancecy.LanceFileReader("memory://one.lance").num_rows() == ROWS.num_rows
    assert lancecy.inspect("memory://one.lance").num_rows == ROWS.num_rows
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="not the path of a file"):
        lancecy.LanceFileWriter("s3://bucket")


def write_and_stop(writer: lancecy.LanceFileWriter) -> None:
    with writer:
        writer.write_batch(ROWS.slice(0, 2))
        raise RuntimeError("stop")


def test_a_block_left_by_an_exception_writes_nothing(tmp_path: Path) -> None:
    written(tmp_path / "a.lance")
    for path in (tmp_path / "new" / "b.lance", tmp_path / "a.lance"):
        writer = lancecy.LanceFileWriter(path)
        with pytest.raises(RuntimeError, match="stop"):
            write_and_stop(writer)
        assert writer.closed and writer.size_bytes is None
        with pytest.raises(ValueError, match="given up"):
            writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.lance"]
    assert lancecy.LanceFileReader(tmp_path / "a.lance").num_rows() == 10  # the file that was there
    written(tmp_path / "a.lance", ROWS.slice(0, 2))
    assert lancecy.LanceFileReader(tmp_path / "a.lance").num_rows() == 2


def test_a_writer_that_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    writer = lancecy.LanceFileWriter(tmp_path / "a.lance")
    writer.write_batch(ROWS)
    del writer
    gc.collect(1)  # the writer is new: no need to look at everything that other tests left
    assert list(tmp_path.iterdir()) == []


def test_values_that_cannot_be_written_give_the_file_up(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("i", pa.int64(), nullable=False)])
    writer = lancecy.LanceFileWriter(tmp_path / "new" / "a.lance", schema)
    writer.write_batch(pa.table({"i": [1, None]}))
    with pytest.raises(SchemaError, match="'i'"):
        writer.close()
    with pytest.raises(ValueError, match="given up"):
        writer.write_batch(ROWS)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.lance").mkdir()  # a file cannot be published under this name
    with pytest.raises(StoreError), lancecy.LanceFileWriter(tmp_path / "a.lance") as writer:
        writer.write_batch(ROWS)
    assert writer.closed and [path.name for path in tmp_path.iterdir()] == ["a.lance"]
    session = lancecy.Session()
    broken = FaultyStore(LocalStore(str(tmp_path)), [Fault("put_stream", error=StoreError("no space"))])
    monkeypatch.setattr(session, "file_store", lambda path, options: (broken, "b.lance"))
    with pytest.raises(StoreError, match="no space"), lancecy.LanceFileWriter("b", session=session) as writer:
        writer.write_batch(ROWS)
    with pytest.raises(ValueError, match="given up"):
        writer.write_batch(ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.lance"]


def test_versions_and_sizes_are_checked_before_a_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    for version in ("2.3", "9", "0.1", "legacy"):
        with pytest.raises(UnsupportedError):
            lancecy.LanceFileWriter(path, version=version)
    with pytest.raises(UnsupportedError, match="a map"):
        lancecy.LanceFileWriter(path, pa.schema({"m": pa.map_(pa.int8(), pa.int8())}))
    with pytest.raises(ValueError, match="data_cache_bytes"):
        lancecy.LanceFileWriter(path, data_cache_bytes=0)
    with pytest.raises(ValueError, match="max_page_bytes"):
        lancecy.LanceFileWriter(path, max_page_bytes=0)
    assert list(tmp_path.iterdir()) == []
    written(path, version="stable")
    assert lancecy.inspect(path).version == "2.1"


def test_sizes_of_pages(tmp_path: Path) -> None:
    table = pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 100_000), "b": range(100_000)})

    def pages(**options: int) -> int:
        reader = written(tmp_path / "a.lance", table, **options)
        assert reader.read_all().to_table().equals(table)
        return reader.file_statistics().columns[0].num_pages

    assert pages() == 1
    assert pages(max_page_bytes=100_000) == 8
    assert pages(data_cache_bytes=400_000) == 4


def test_other_arrow_data_and_json_are_written(tmp_path: Path) -> None:
    reader = written(tmp_path / "a.lance", {"i": [1, 2], "j": pa.array(['{"a":1}', None], pa.json_())})
    assert reader.read_all().to_table().to_pydict() == {"i": [1, 2], "j": ['{"a":1}', None]}
    assert reader.metadata().schema.field("j").type == pa.json_()


def test_large_values_are_read_in_windows(tmp_path: Path) -> None:
    noise = np.random.default_rng(2).bytes(1 << 20)
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    values = [noise[n:] if n % 3 else None for n in range(60)]
    reader = written(
        tmp_path / "a.lance", pa.table({"b": pa.array(values, pa.large_binary())}, schema=schema)
    )
    assert reader.read_all(batch_size=7).to_table()["b"].to_pylist() == values
    plain = pa.table(
        {"v": pa.FixedSizeListArray.from_arrays(np.random.default_rng(3).random(6_000_000), 1000)}
    )
    found = written(tmp_path / "b.lance", plain).read_all(batch_size=1000).to_batches()
    assert [batch.num_rows for batch in found] == [1000] * 6


def test_damaged_files_raise_errors_of_lancecy(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table({"i": range(10), "b": pa.array([b"x" * n for n in range(10)], pa.large_binary())})
    with lancecy.LanceFileWriter(tmp_path / "a.lance", pa.schema([("i", pa.int64()), blob])) as writer:
        writer.write_batch(rows)
        writer.add_global_buffer(b"more")
    whole = (tmp_path / "a.lance").read_bytes()
    rng, outcomes = np.random.default_rng(7), set()
    for number in range(250):
        data = bytearray(whole)
        # Half of the damage goes to the metadata at the end.
        start = 0 if number % 2 else len(data) - 500
        data[int(rng.integers(start, len(data)))] ^= 1 << int(rng.integers(8))
        (tmp_path / "b.lance").write_bytes(data)
        try:
            reader = lancecy.LanceFileReader(tmp_path / "b.lance", session=lancecy.Session(threads=1))
            reader.read_all().to_table()
            reader.metadata()
            reader.read_global_buffer(1)
        except (LanceError, IndexError) as error:
            outcomes.add(type(error).__name__)
        else:
            outcomes.add("read")
    assert outcomes >= {"read", "FormatError"}
