"""Blob columns that lancecy writes: pylance opens the same bytes, and each appends to what the other wrote."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import SchemaError, UnsupportedError
from tests.interop.test_pylance_blobs import BLOB, LARGE, SMALL, contents, v1_table

pytestmark = pytest.mark.interop

FIELD = pa.field("b", pa.large_binary(), metadata=BLOB)
MANY = [None if i % 7 == 0 else bytes([i % 251]) * (i % 90) for i in range(3000)]


def check(uri: str, column: str, expected: list[bytes | None]) -> None:
    theirs, mine = lance.dataset(uri), lancecy.dataset(uri)
    theirs.validate()
    assert mine.verify().is_ok
    rows = list(range(len(expected)))
    assert contents(mine.take_blobs(column, indices=rows)) == expected
    rows = [row for row in rows if row % 50 == 0 or row < 20]
    assert contents(theirs.take_blobs(column, indices=rows)) == [expected[row] for row in rows]
    assert mine.to_table() == theirs.to_table()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_go_both_ways(tmp_path: Path, version: str) -> None:
    for number, values in enumerate((LARGE, MANY, [None, None], [b"", None], [b"one"], [])):
        mine, theirs = (str(tmp_path / f"{who}{number}") for who in ("mine", "theirs"))
        table = v1_table(values)
        # Slices, batches and files.
        lancecy.write_dataset(
            table.slice(1).to_reader(500), mine, data_storage_version=version, max_rows_per_file=1300
        )
        lance.write_dataset(table.slice(1), theirs, data_storage_version=version)
        assert lance.dataset(mine).schema.equals(lance.dataset(theirs).schema, check_metadata=True)
        if len(values) in (len(LARGE), 2):
            assert lance.dataset(mine).to_table() == lance.dataset(theirs).to_table()
        lancecy.dataset(theirs).append(table)
        lance.write_dataset(table, mine, mode="append")
        for uri in (mine, theirs):
            check(uri, "b", values[1:] + values)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_in_structs_go_both_ways(tmp_path: Path, version: str) -> None:
    members = [pa.array(range(len(SMALL))), pa.array(SMALL, pa.large_binary())]
    gone = None if version == "2.0" else pa.array([i == 3 for i in range(len(SMALL))])
    column = pa.StructArray.from_arrays(members, fields=[pa.field("n", pa.int64()), FIELD], mask=gone)
    expected = [None if gone is not None and i == 3 else value for i, value in enumerate(SMALL)]
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    table = pa.table({"s": column})
    lancecy.write_dataset(table, mine, data_storage_version=version)
    lance.write_dataset(table, theirs, data_storage_version=version)
    assert lance.dataset(mine).to_table() == lance.dataset(theirs).to_table()
    lancecy.dataset(theirs).append(table)
    for uri, times in ((mine, 1), (theirs, 2)):
        check(uri, "s.b", expected * times)


def test_lists_of_blobs_of_2_0(tmp_path: Path) -> None:
    values = [[b"a", None], None, [], [b"", b"bcd" * 9]]
    column = pa.array(values, pa.list_(FIELD.with_name("item")))
    tables = []
    for name, library in (("mine", lancecy), ("theirs", lance)):
        library.write_dataset(pa.table({"l": column}), str(tmp_path / name), data_storage_version="2.0")
        tables += [reader.dataset(str(tmp_path / name)).to_table() for reader in (lance, lancecy)]
    assert all(table == tables[0] for table in tables)


def test_bytes_under_nulls_are_not_written(tmp_path: Path) -> None:
    values = pa.array([random.Random(2).randbytes(100_000), b"x"], pa.large_binary())
    column = pa.StructArray.from_arrays([values], fields=[FIELD], mask=pa.array([True, False]))
    lancecy.write_dataset(pa.table({"s": column}), tmp_path / "t")
    assert sum(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir()) < 5000
    check(str(tmp_path / "t"), "s.b", [None, b"x"])


@pytest.mark.parametrize(
    ("field", "version", "message"),
    [
        (FIELD, "0.1", "write version 2.0"),
        (FIELD.with_type(pa.binary()), "2.1", "make it large_binary"),
        (pa.field("l", pa.list_(FIELD)), "2.1", "write version 2.2"),
    ],
)
def test_blobs_that_no_file_holds_are_refused(
    tmp_path: Path, field: pa.Field, version: str, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        lancecy.write_dataset(pa.schema([field]).empty_table(), tmp_path / "t", data_storage_version=version)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_nulls_and_descriptors_are_refused(tmp_path: Path, version: str) -> None:
    options: dict[str, Any] = {"data_storage_version": version}
    null = pa.table([pa.array([None], pa.large_binary())], schema=pa.schema([FIELD.with_nullable(False)]))
    with pytest.raises(SchemaError, match="nulls"):
        lancecy.write_dataset(null, tmp_path / "t", **options)
    ds = lancecy.write_dataset(v1_table(SMALL), tmp_path / "t", **options)
    with pytest.raises((SchemaError, UnsupportedError), match="column 'b'"):
        lancecy.write_dataset(ds, tmp_path / "copy", **options)
    with pytest.raises((SchemaError, UnsupportedError), match="column 'b'"):
        ds.append(ds.to_table())
