"""Blob columns that lancecy writes: pylance opens the same bytes, and each appends to what the other wrote."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import PathPolicyError, SchemaError, UnsupportedError
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


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_go_both_ways(tmp_path: Path, version: str) -> None:
    columns: list[list[bytes | None]] = [LARGE, MANY, [None, None], [b"", None], [b"one"], []]
    for number, values in enumerate(columns):
        mine, theirs = (str(tmp_path / f"{who}{number}") for who in ("mine", "theirs"))
        table = v1_table(values)
        # Slices, batches and files.
        lancecy.write_dataset(
            table.slice(1).to_reader(500), mine, data_storage_version=version, max_rows_per_file=1300
        )
        lance.write_dataset(table.slice(1), theirs, data_storage_version=version)  # type: ignore[arg-type]
        assert lance.dataset(mine).schema.equals(lance.dataset(theirs).schema, check_metadata=True)
        if len(values) in (len(LARGE), 2) and version < "2.2":
            assert lance.dataset(mine).to_table() == lance.dataset(theirs).to_table()
        lancecy.dataset(theirs).append(table)
        lance.write_dataset(table, mine, mode="append")
        for uri in (mine, theirs):
            check(uri, "b", values[1:] + values)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_in_structs_go_both_ways(tmp_path: Path, version: str) -> None:
    members = [pa.array(range(len(SMALL))), pa.array(SMALL, pa.large_binary())]
    gone = None if version == "2.0" else pa.array([i == 3 for i in range(len(SMALL))])
    column = pa.StructArray.from_arrays(members, fields=[pa.field("n", pa.int64()), FIELD], mask=gone)
    expected = [None if gone is not None and i == 3 else value for i, value in enumerate(SMALL)]
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    table = pa.table({"s": column})
    lancecy.write_dataset(table, mine, data_storage_version=version)
    lance.write_dataset(table, theirs, data_storage_version=version)  # type: ignore[arg-type]
    if version < "2.2":  # where empty blobs have other positions
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
        (FIELD.with_type(pa.string()), "2.2", "make it lance.blob.v2"),
        (lance.blob_field("b"), "2.1", "write version 2.2"),
        (pa.field("m", pa.map_(pa.string(), lance.blob_field("v").type)), "2.2", "list of structs"),
        (pa.field("l", pa.list_(FIELD)), "2.1", "write version 2.2"),
    ],
)
def test_blobs_that_no_file_holds_are_refused(
    tmp_path: Path, field: pa.Field, version: str, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        lancecy.write_dataset([], tmp_path / "t", schema=pa.schema([field]), data_storage_version=version)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_nulls_and_descriptors_are_refused(tmp_path: Path, version: str) -> None:
    options: dict[str, Any] = {"data_storage_version": version}
    null = pa.table([pa.array([None], pa.large_binary())], schema=pa.schema([FIELD.with_nullable(False)]))
    with pytest.raises(SchemaError, match="may not be null, and row 0"):
        lancecy.write_dataset(null, tmp_path / "t", **options)
    ds = lancecy.write_dataset(v1_table(SMALL), tmp_path / "t", **options)
    with pytest.raises((SchemaError, UnsupportedError), match="column 'b[._a-z]*'"):
        lancecy.write_dataset(ds, tmp_path / "copy", **options)
    with pytest.raises((SchemaError, UnsupportedError), match="column 'b[._a-z]*'"):
        ds.append(ds.to_table())


def logical(values: list[Any], **sizes: Any) -> pa.Table:
    return pa.table(
        {"i": range(len(values)), "b": lance.blob_array(values)},
        schema=pa.schema([pa.field("i", pa.int64()), lance.blob_field("b", **sizes)]),
    )


def test_sizes_decide_where_blobs_go_as_with_pylance(tmp_path: Path) -> None:
    edges = [b"x" * size for size in (65_536, 65_537, 4 << 20, (4 << 20) + 1)]
    small = [bytes([65 + n]) * size for n, size in enumerate((70, 70, 10, 70, 200, 30, 500, 20))]
    sizes = {"inline_size_threshold": 15, "dedicated_size_threshold": 300, "pack_file_size_threshold": 150}
    for number, table in enumerate((logical([*LARGE, *edges]), logical([None, *small, b""], **sizes))):
        mine, theirs = (str(tmp_path / f"{who}{number}") for who in ("mine", "theirs"))
        lancecy.write_dataset(table, mine, data_storage_version="2.2")
        lance.write_dataset(table, theirs, data_storage_version="2.2")
        assert lance.dataset(mine).schema.equals(lance.dataset(theirs).schema, check_metadata=True)
        for found, expected in zip(
            *(lance.dataset(uri).to_table()["b"].to_pylist() for uri in (mine, theirs))
        ):
            # pylance gives an empty blob the place of the one after it.
            assert found == expected if found is None or found["size"] else expected["size"] == 0
        lancecy.dataset(theirs).append(table)
        lance.write_dataset(table, mine, mode="append")
        values = table["b"].combine_chunks().storage.field("data").to_pylist()
        for uri in (mine, theirs):
            check(uri, "b", values * 2)


def test_lists_of_blobs_and_both_kinds_of_columns(tmp_path: Path) -> None:
    items = lance.blob_array([b"a", None, b"", b"z" * 70_000])
    kind = pa.list_(pa.field("item", items.type))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 2, 4], pa.int32()), items, type=kind)
    tables = []
    for name, library in (("mine", lancecy), ("theirs", lance)):
        uri = str(tmp_path / name)
        library.write_dataset(pa.table({"l": lists}), uri, data_storage_version="2.2")
        assert lancecy.dataset(uri).verify().is_ok
        tables += [reader.dataset(uri).to_table()["l"].to_pylist() for reader in (lance, lancecy)]
    assert tables[0] == tables[1] and tables[2] == tables[3]
    assert [[b and b["size"] for b in row] for row in tables[0]] == [[1, None], [], [], [0, 70_000]]
    # What is large_binary by its type is appended to what is a struct by its own, if its metadata says so.
    lancecy.write_dataset(logical([b"one"]), tmp_path / "t", data_storage_version="2.2")
    lancecy.dataset(tmp_path / "t").append(v1_table([b"two", None]))
    check(str(tmp_path / "t"), "b", [b"one", b"two", None])


def test_blobs_go_with_the_files_of_a_failed_write(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(logical([b"q" * 100]), tmp_path / "t", data_storage_version="2.2")
    before = sorted(tmp_path.rglob("*"))

    def rows() -> Any:
        yield from logical(LARGE).to_batches()
        yield from logical([b"w" * 90_000]).to_batches()
        raise RuntimeError

    for rows_per_file in (3, 100):
        with pytest.raises(RuntimeError):
            ds.append(rows(), schema=ds.schema, max_rows_per_file=rows_per_file)
        assert sorted(tmp_path.rglob("*")) == before


def test_cleanup_keeps_blobs_in_use_and_takes_the_others(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(logical(LARGE), tmp_path / "t", data_storage_version="2.2")
    ds.insert(logical(LARGE[::-1]), mode="overwrite")
    ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert len(list(tmp_path.rglob("*.blob"))) == 2
    check(str(tmp_path / "t"), "b", LARGE[::-1])


@pytest.mark.parametrize("item", [FIELD, lance.blob_field("b")])
def test_lists_of_blobs_are_appended_by_pylance(tmp_path: Path, item: pa.Field) -> None:
    values = lance.blob_array([b"a", None]) if item is not FIELD else pa.array([b"a", None], item.type)
    kind = pa.list_(item.with_name("item"))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values, type=kind)
    table, uri = pa.table({"l": lists}), str(tmp_path / "t")
    lancecy.write_dataset(table, uri, data_storage_version="2.2")
    lance.write_dataset(table, uri, mode="append")
    for found in (lance.dataset(uri), lancecy.dataset(uri)):
        rows = found.to_table()["l"].to_pylist()
        assert [[blob and blob["size"] for blob in row] for row in rows] == [[1], [None]] * 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"data": None, "uri": "file:///etc/passwd"}, "in no base of the table: .*ingest"),
        ({"data": b"a", "uri": "file:///etc/passwd"}, "both bytes and a URI, or neither"),
        ({"data": None, "uri": None}, "both bytes and a URI, or neither"),
    ],
)
def test_blobs_that_are_no_bytes_are_refused(tmp_path: Path, value: dict[str, Any], message: str) -> None:
    kind = lance.blob_field("b").type
    storage = pa.array([{"data": b"x"}, value], kind.storage_type)
    with pytest.raises((SchemaError, PathPolicyError), match=message):
        lancecy.write_dataset(
            pa.table({"b": pa.ExtensionArray.from_storage(kind, storage)}),
            tmp_path / "t",
            data_storage_version="2.2",
        )
    assert not (tmp_path / "t").exists()
