"""Columns added by SQL, functions, fields and rows."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy import col
from lancecy.changes.new_columns import batch_starts, new_files
from lancecy.errors import (
    ColumnNotFoundError,
    ConflictError,
    ExpressionError,
    SchemaError,
    UnsupportedError,
)
from tests.changes.column_tables import FORMS, IDS, VERSIONS, checked, lance, made, refused

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("version", "stable", "deleted"), FORMS, ids=IDS)
def test_columns_of_every_kind(tmp_path: Path, version: str, stable: bool, deleted: bool) -> None:
    ds = made(tmp_path / "t", version, stable, deleted)
    ds.add_columns(
        {"next": "id + 1", "double": "point.x * 2", "text": "'k'", "sum": col("id") + col("point.y")}
    )
    ds.add_columns(
        lambda batch: {"half": [i / 2 for i in batch["id"].to_pylist()]}, read_columns=["id", "_rowid"]
    )
    count = ds.count_rows()
    ds.add_columns(
        {"row": list(range(count)), "words": pa.array(["a", "b"] * (count // 2)).dictionary_encode()}
    )
    rows = checked(ds)
    for number, row in enumerate(rows):
        i = row["id"]
        assert (row["next"], row["double"], row["text"], row["sum"]) == (i + 1, 2 * i, "k", i * 1.5)
        assert (row["half"], row["row"], row["words"]) == (i / 2, number, "ab"[number % 2])
    files = ds.get_fragments()[0].data_files()
    assert [len(file.fields) for file in files[1:]] == [4, 1, 2]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_lists_and_structs_of_sql(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version, deleted=True)
    columns = {
        "more": "array_append(list, id)",
        "parts": "string_to_array(word, 'w')",
        "both": "named_struct('a', id, 'b', array_concat(list, [1]))",
        "all": "range(0, id % 3)",
        "count": "array_length(list)",
        "constant": "[1, 2]",
    }
    if version == "2.2":
        columns["map"] = "map([coalesce(word, '')], [list])"
    theirs = lance.dataset(ds.uri).to_table(columns=columns | {"id": "id"})
    ds.add_columns(columns)
    checked(ds)
    found = ds.to_table(columns=[*columns, "id"])
    assert found.schema.types == theirs.schema.types
    assert found.to_pylist() == theirs.to_pylist()
    ds.update({"more": "[9]", "both": "named_struct('a', 0, 'b', more)"}, "array_has(list, id) AND id > 4")
    rows = {row["id"]: (row["more"], row["both"]) for row in checked(ds)}
    assert rows[5] == ([9], {"a": 0, "b": [5, 5, 5]})
    assert rows[4] == ([4, 4], {"a": 4, "b": [4, 1]})


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_fields_without_values_write_no_file(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version)
    ds.add_columns([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.string()))])
    ds.add_columns(pa.schema({"c": pa.float32()}))
    assert {(row["a"], row["b"], row["c"]) for row in checked(ds)} == {(None, None, None)}
    assert [len(part.data_files()) for part in ds.get_fragments()] == [1, 1]


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_structs_get_members_without_values_as_in_pylance(tmp_path: Path, version: str) -> None:
    kind = pa.struct({"x": pa.int64(), "in": pa.struct({"p": pa.int8()})})
    rows = pa.array([{"x": 1, "in": {"p": 2}}, None, {"x": None, "in": None}], kind)
    lists = pa.array([[{"e": 1}, None], None, []], pa.list_(pa.struct({"e": pa.int8()})))
    new = pa.schema(
        {
            "s": pa.struct({"in": pa.struct({"q": pa.string()}), "y": pa.int8()}),
            "l": pa.list_(pa.struct({"f": pa.int8()})),
            "n": pa.int8(),
        }
    )
    for name, library in (("ours", lancecy), ("theirs", lance)):
        lance.write_dataset(
            pa.table({"s": rows, "l": lists}), str(tmp_path / name), data_storage_version=version
        )
        library.dataset(str(tmp_path / name)).add_columns(new)
    ours, theirs = lancecy.dataset(tmp_path / "ours"), lancecy.dataset(tmp_path / "theirs")
    assert checked(ours) == ours.to_table().to_pylist() == theirs.to_table().to_pylist()
    assert ours.schema == theirs.schema
    with pytest.raises(SchemaError, match="a column 's.y' already"):
        ours.add_columns(pa.field("s", pa.struct({"y": pa.int8()})))
    with pytest.raises(SchemaError, match="column 's.z' may not be null"):
        ours.add_columns(pa.field("s", pa.struct([pa.field("z", pa.int8(), nullable=False)])))
    if version == "2.2":
        more = {"s": {"x": 3, "in": {"p": 1, "q": "q"}, "y": 4}, "l": [{"e": 5, "f": 6}], "n": 7}
        ours.append(pa.Table.from_pylist([more], ours.schema))
        ours.optimize.compact_files()
        assert checked(ours)[-1] == more


def test_packed_structs_and_blobs_get_no_members(tmp_path: Path) -> None:
    packed = pa.field("s", pa.struct({"x": pa.int64()}), metadata={"lance-encoding:packed": "true"})
    blobs = pa.field(
        "b",
        pa.struct({"data": pa.large_binary(), "uri": pa.string()}),
        metadata={"ARROW:extension:name": "lance.blob.v2"},
    )
    rows = pa.Table.from_pylist([{"s": {"x": 1}, "b": {"data": b"a"}}], pa.schema([packed, blobs]))
    ds = lancecy.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.2")
    for name, what in (("s", "a packed struct"), ("b", "a column of blobs")):
        with pytest.raises(UnsupportedError, match=f"column '{name}' is {what}.*add a column of its own"):
            ds.add_columns(pa.field(name, pa.struct({"y": pa.int64()})))
    assert ds.version == 1


def test_nothing_to_add_makes_no_version(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.add_columns({})
    ds.add_columns(pa.schema([]))
    assert (ds.version, lancecy.dataset(ds.uri).version) == (1, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_libraries_go_on(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version, deleted=True)
    ds.add_columns({"a": "id * 10"})
    theirs = lance.dataset(ds.uri)
    theirs.add_columns({"b": "a + 1"})
    lance.write_dataset(theirs.to_table(), ds.uri, mode="append")
    ds = lancecy.dataset(ds.uri)
    ds.add_columns({"c": "b + 1"})
    ds.delete("id = 3")
    lance.dataset(ds.uri).update({"c": "0"}, where="id = 4")
    rows = checked(lancecy.dataset(ds.uri))
    assert len(rows) == 14
    assert all(row["c"] == (0 if row["id"] == 4 else row["id"] * 10 + 2) for row in rows)


def test_rows_of_a_table_with_stable_ids_have_the_new_version(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", stable=True)
    ds.add_columns({"a": "id"})
    columns = ["_row_created_at_version", "_row_last_updated_at_version"]
    assert {tuple(row.values()) for row in ds.to_table(columns).to_pylist()} == {(1, 2)}
    assert ds.to_table(columns).to_pylist() == lance.dataset(ds.uri).to_table(columns).to_pylist()
    ds.add_columns(pa.field("b", pa.int8()))
    assert {tuple(row.values()) for row in ds.to_table(columns).to_pylist()} == {(1, 2)}


def test_now_is_one_time_for_all_rows(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.add_columns({"time": "now()"})
    assert len(set(ds.to_table(["time"])["time"].to_pylist())) == 1


def test_batches_of_a_function(tmp_path: Path) -> None:
    seen: list[Any] = []
    ds = made(tmp_path / "t", deleted=True)

    def record(batch: pa.RecordBatch) -> pd.DataFrame:
        seen.append(batch["id"].to_pylist())
        return pd.DataFrame({"a": batch["id"].to_pandas() * 2})

    ds.add_columns(record, read_columns=["id"], batch_size=3)
    assert seen == [[0, 2, 3], [4], [5, 6, 8], [9]]
    assert [row["a"] for row in checked(ds)] == [0, 4, 6, 8, 10, 12, 16, 18]


def test_a_function_is_called_by_the_thread_that_started_it(tmp_path: Path) -> None:
    seen: set[Any] = set()
    ds = made(tmp_path / "t")

    def record(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.add(threading.current_thread())
        return pa.record_batch({"a": batch["id"]})

    ds.add_columns(record)
    assert seen == {threading.current_thread()}


def test_a_function_with_a_schema_may_return_only_nulls(tmp_path: Path) -> None:
    @lancecy.batch_udf(output_schema=pa.schema({"a": pa.string(), "b": pa.int32()}))
    def nothing(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"b": [None] * batch.num_rows, "a": ["x"] * batch.num_rows}

    ds = made(tmp_path / "t")
    ds.add_columns(nothing)
    assert checked(ds)[0]["a"] == "x"
    assert ds.schema.field("b").type == pa.int32()
    assert nothing(pa.record_batch({"id": [1]})) == {"a": ["x"], "b": [None]}


@pytest.mark.parametrize("version", VERSIONS)
def test_values_of_any_type_beside_deleted_rows(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version, deleted=True)
    ds.delete("id < 4")
    count = ds.count_rows()
    columns = {
        "flag": pa.array([True] * count),
        "bytes": pa.array([b"x"] * count, pa.large_binary()),
        "fixed": pa.array([b"abc"] * count, pa.binary(3)),
        "vector": pa.array([[1, 2]] * count, pa.list_(pa.float32(), 2)),
        "lists": pa.array([["a"]] * count, pa.list_(pa.string())),
        "structs": pa.array([{"a": 1, "b": "x"}] * count),
        "decimal": pa.array([1] * count, pa.decimal128(20, 2)),
        "time": pa.array([1] * count, pa.timestamp("us", "UTC")),
    }
    schema = pa.schema([pa.field(name, array.type, nullable=False) for name, array in columns.items()])
    if version == "0.1":
        schema = schema.remove(schema.get_field_index("lists"))
    ds.add_columns(pa.table([columns[name] for name in schema.names], schema=schema))
    assert [row["structs"] for row in checked(ds)] == [{"a": 1, "b": "x"}] * count
    lance.dataset(ds.uri).add_columns({"after": "id"})
    checked(lancecy.dataset(ds.uri))


EXTENSIONS: dict[str, tuple[Any, Any]] = {
    "uuid": (pa.uuid(), b"u" * 16),
    "tensor": (pa.fixed_shape_tensor(pa.float32(), [2, 50]), [1.5] * 100),
    "json": (pa.json_(), "[1]"),
    "bool8": (pa.bool8(), 1),
}


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_extension_types_beside_deleted_rows(tmp_path: Path, version: str, name: str) -> None:
    ds = made(tmp_path / "t", version, deleted=True)
    kind, value = EXTENSIONS[name]
    values = pa.ExtensionArray.from_storage(kind, pa.array([value] * ds.count_rows(), kind.storage_type))
    offsets = pa.array(range(len(values) + 1), pa.int32())
    table = pa.table(
        {
            "whole": values,
            "structs": pa.StructArray.from_arrays([values], ["member"]),
            "lists": pa.ListArray.from_arrays(offsets, values),
        }
    )
    ds.add_columns(table)
    assert lancecy.dataset(ds.uri).to_table(table.column_names).to_pylist() == table.to_pylist()
    theirs = lance.dataset(ds.uri).to_table(columns=table.column_names)
    assert theirs.to_pylist() == table.to_pylist()
    assert ds.verify().is_ok


@pytest.mark.parametrize("kind", ["1", "2"])
def test_blobs_beside_deleted_rows(tmp_path: Path, kind: str) -> None:
    ds = lancecy.write_dataset({"id": range(5)}, tmp_path / "t", data_storage_version="2.2")
    ds.delete("id IN (0, 2)")
    given = [b"one", None, b"four"]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    blobs, field = (
        (pa.array(given, field.type), field)
        if kind == "1"
        else (lance.blob_array(given), lance.blob_field("b"))
    )
    ds.add_columns(pa.table([blobs], pa.schema([field])))
    inner = pa.field("s", pa.struct([field]))
    ds.merge(
        pa.table(
            [[1], pa.StructArray.from_arrays([blobs[:1]], fields=[field])],
            pa.schema([("id", pa.int64()), inner]),
        ),
        "id",
    )
    for library in (lancecy, lance):
        found = library.dataset(ds.uri)
        assert [blob and blob.read() for blob in found.take_blobs("b", indices=range(3))] == given
        assert [blob and blob.read() for blob in found.take_blobs("s.b", indices=range(3))] == [
            b"one",
            None,
            None,
        ]


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("dead", [[0, 1], [4, 5]])
def test_vectors_in_structs_whose_items_cannot_be_null_beside_deleted_rows(
    tmp_path: Path, version: str, dead: list[int]
) -> None:
    ds = lancecy.write_dataset({"id": range(6)}, tmp_path / "t", data_storage_version=version)
    ds.delete(f"id IN {tuple(dead)}")
    kind = pa.struct([("v", pa.list_(pa.field("item", pa.int16(), nullable=False), 2))])
    rows = pa.table({"s": pa.array([{"v": [n, -n]} for n in range(4)], kind)})
    ds.add_columns(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=1)))
    assert [row["s"] for row in checked(ds)] == rows["s"].to_pylist()


def test_batches_of_a_0_1_fragment_stay_aligned(tmp_path: Path) -> None:
    table = pa.table({"id": range(1000)})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="legacy", max_rows_per_group=70)
    ds = lancecy.dataset(tmp_path / "t")
    ds.add_columns({"a": "id + 1"})
    assert all(row["a"] == row["id"] + 1 for row in checked(ds))
    found = lance.dataset(ds.uri).take([69, 70, 140, 999]).to_pylist()
    assert [row["a"] for row in found] == [70, 71, 141, 1000]


def test_a_new_column_never_gets_the_id_of_an_index(tmp_path: Path) -> None:
    """Table sheet, section 10.4: pylance would answer by the index of a column that is gone."""
    ds = made(tmp_path / "t")
    ds.add_columns({"a": "id + 100"})
    lance.dataset(ds.uri).create_scalar_index("a", "BTREE")
    ds = lancecy.dataset(ds.uri)
    ds.drop_columns(["a"])
    ds.add_columns({"b": "id + 200"})
    found = lance.dataset(ds.uri).to_table(filter="b = 203").to_pylist()
    assert [row["id"] for row in found] == [3]
    assert lance.dataset(ds.uri).describe_indices() == []


def test_indices_on_other_columns_stay(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    lance.dataset(ds.uri).create_scalar_index("id", "BTREE")
    ds = lancecy.dataset(ds.uri)
    ds.add_columns({"a": "id + 100"})
    assert [row["a"] for row in lance.dataset(ds.uri).to_table(filter="id = 4").to_pylist()] == [104]
    assert [entry.name for entry in lance.dataset(ds.uri).describe_indices()] == ["id_idx"]


# -- other writers --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_only_new_fragments_are_computed_after_a_conflict(tmp_path: Path, version: str) -> None:
    seen: list[Any] = []
    ds = made(tmp_path / "t", version)
    rows = ds.to_table()

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not seen:
            lancecy.write_dataset(rows.slice(0, 2), ds.uri, mode="append")
            lancecy.dataset(ds.uri).delete("id = 6")
        seen.append(batch["id"].to_pylist())
        return pa.record_batch({"a": batch["id"]})

    ds.add_columns(slow)
    assert seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [0, 1]]
    assert [row["a"] for row in checked(ds)] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 0, 1]
    assert len(list(Path(ds.uri, "data").iterdir())) == 6


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_rows_that_a_restore_brought_back_are_computed_after_a_conflict(
    tmp_path: Path, is_cleaned: bool
) -> None:
    """The append makes the change begin again, so that the restore is no conflict any more."""
    ds = made(tmp_path / "t")
    ds.delete("id IN (2, 7)")
    old, older = lancecy.dataset(ds.uri), lancecy.dataset(ds.uri)
    seen: list[Any] = []

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not seen:
            ds.append(ds.to_table().slice(0, 2))
            lancecy.dataset(ds.uri, 1).restore()
            if is_cleaned:
                lancecy.dataset(ds.uri).cleanup_old_versions(timedelta(0))
        seen.extend(batch["id"].to_pylist())
        return pa.record_batch({"a": batch["id"]})

    old.add_columns(slow)
    assert [row["a"] for row in checked(old)] == list(range(10))
    if not is_cleaned:
        older.alter_columns({"path": "id", "data_type": pa.int32()})
        assert [row["id"] for row in checked(older)] == list(range(10))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_function_is_not_called_again_after_another_column(tmp_path: Path, version: str) -> None:
    seen: list[Any] = []
    ds = made(tmp_path / "t", version, deleted=True)

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not seen:
            lance.dataset(ds.uri).add_columns({"theirs": "id * 2"})
        seen.append(batch.schema.names)
        return pa.record_batch({"mine": batch["id"]})

    ds.add_columns(slow)
    assert seen == [["id", "word", "point", "list"]] * 2
    rows = checked(ds)
    assert [row["mine"] for row in rows] == [row["id"] for row in rows]
    assert [row["theirs"] for row in rows] == [row["id"] * 2 for row in rows]
    lance.dataset(ds.uri).optimize.compact_files()
    assert [row["mine"] for row in checked(lancecy.dataset(ds.uri))] == [row["id"] for row in rows]


def test_values_of_changed_rows_are_computed_again(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    lance.dataset(ds.uri).update({"id": "id + 100"}, where="id = 3")
    old.add_columns({"a": "id + 1"})
    assert all(row["a"] == row["id"] + 1 for row in checked(old))


def test_rows_that_are_read_once_need_all_rows(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append(ds.to_table().slice(0, 1))
    refused(ds, ConflictError, "cannot be read again", lambda: old.add_columns({"a": list(range(10))}))


def test_rows_that_are_read_once_stay_right_after_deletes(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.delete("id = 2")
    old.add_columns(iter(pa.table({"a": list(range(10))}).to_batches(3)))
    assert [row["a"] for row in checked(old)] == [0, 1, 3, 4, 5, 6, 7, 8, 9]


# -- refused --------------------------------------------------------------------------------------


def rows(count: int) -> dict[str, list[int]]:
    return {"a": list(range(count))}


REFUSED: dict[str, tuple[type[Exception], str, Any, dict[str, Any]]] = {
    "existing": (SchemaError, "'word' already", {"word": "id"}, {}),
    "dots": (SchemaError, "dot in its name", {"point.z": "id"}, {}),
    "unknown": (ColumnNotFoundError, "no column 'nope'", {"a": "nope + 1"}, {}),
    "division": (ExpressionError, "zero", {"a": "10 / (id - 3)"}, {}),
    "new from new": (ColumnNotFoundError, "no column 'a'", {"a": "id", "b": "a + 1"}, {}),
    "needs values": (SchemaError, "may not be null", pa.field("a", pa.int8(), nullable=False), {}),
    "few rows": (SchemaError, "have 9 rows, where the table has 10", rows(9), {}),
    "many rows": (SchemaError, "more rows than the table", rows(11), {}),
    "reader type": (
        SchemaError,
        "'a'.*row 0",
        {"a": ["x"] * 10},
        {"reader_schema": pa.schema({"a": pa.int8()})},
    ),
    "short result": (SchemaError, "returned 1 rows for the 5 rows from row 0", lambda _: {"a": [1]}, {}),
    "returns": (TypeError, "returned int", lambda _: 3, {}),
    "reads": (
        ColumnNotFoundError,
        "no column 'nope'",
        lambda b: {"a": b["nope"]},
        {"read_columns": ["nope"]},
    ),
    "kind": (TypeError, "rows cannot be read", 3, {}),
    "no expression": (TypeError, "'a' is SQL text such as '5'", {"a": 5}, {}),
    "no name": (TypeError, "name of a column is text", {5: "id"}, {}),
    "only SQL": (TypeError, "a new column has a name", "id + 1", {}),
    "batch size": (ValueError, "batch_size", {"a": "id"}, {"batch_size": 0}),
    "durability": (ValueError, "durability", {"a": "id"}, {"durability": "some"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    error, match, given, options = REFUSED[name]
    ds = made(tmp_path / "t")
    refused(ds, error, match, lambda: ds.add_columns(given, **options))


def test_a_null_is_refused_by_column_and_row(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    batches = [pa.record_batch([pa.array([None if i == 7 else i for i in range(10)])], schema=schema)]
    refused(ds, SchemaError, "'a' may not be null, and row 7", lambda: ds.add_columns(iter(batches)))


@pytest.mark.parametrize(
    ("second", "match"),
    [
        ({"b": [1] * 5}, "columns b, where a are expected"),
        (pa.record_batch({"a": ["x"] * 5}), "'a' as string, where int64"),
        ({"a": ["x"] * 5}, "'a'.*row 0 is 'x'"),
    ],
)
def test_results_of_a_function_have_one_type(tmp_path: Path, second: Any, match: str) -> None:
    seen: list[Any] = []
    ds = made(tmp_path / "t")

    def fickle(batch: pa.RecordBatch) -> Any:
        seen.append(batch)
        return {"a": [1] * 5} if len(seen) < 2 else second

    refused(ds, SchemaError, match, lambda: ds.add_columns(fickle))


def test_an_error_of_a_function_says_which_rows(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")

    def fails(batch: pa.RecordBatch) -> Any:
        return {"a": [1 // (i - 7) for i in batch["id"].to_pylist()]}

    refused(ds, ZeroDivisionError, "division", lambda: ds.add_columns(fails))
    with pytest.raises(ZeroDivisionError) as caught:
        ds.add_columns(fails)
    assert caught.value.__notes__ == ["The function was called with rows 5 to 9; no column was added."]


def test_an_error_of_the_rows_leaves_nothing(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": list(range(6))})
        raise RuntimeError("the source is gone")

    refused(ds, RuntimeError, "the source is gone", lambda: ds.add_columns(broken()))


def test_0_1_has_no_nulls_of_numbers(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "0.1")
    refused(ds, UnsupportedError, "'a'.*nulls", lambda: ds.add_columns({"a": [None, *range(9)]}))
    refused(ds, SchemaError, "'a' would have no values", lambda: ds.add_columns(pa.field("a", pa.int8())))


def test_a_table_without_rows(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "t")
    ds.add_columns({"a": "id + 1"})
    ds.add_columns({"b": pa.array([], pa.int8())})
    with pytest.raises(ValueError, match="output_schema"):
        ds.add_columns(lambda batch: {"c": batch["id"]})
    assert checked(ds) == []
    assert ds.schema.names == ["id", "a", "b"]


def test_progress_is_told_in_rows(tmp_path: Path) -> None:
    seen: list[Any] = []
    ds = made(tmp_path / "t", deleted=True)
    ds.add_columns({"a": "id"}, progress=seen.append)
    ds.add_columns(lambda batch: {"b": batch["id"]}, progress=seen.append)
    assert [(step.done, step.total, step.unit) for step in seen] == [(4, 8, "rows"), (8, 8, "rows")] * 2


def test_uneven_batches_of_a_0_1_fragment_stay_aligned(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [0]}, tmp_path / "t", data_storage_version="0.1")
    starts, rows = [0, 3, 4, 10], pa.record_batch({"id": list(range(10))})
    files = new_files(ds.context.snapshot)
    written = files.write(ds.lance_schema, [rows.slice(0, 7), rows.slice(7)], row_starts=starts)
    part = lancecy.FragmentMetadata(0, (written,), physical_rows=10)
    ds = lancecy.commit(ds, lancecy.LanceOperation.Append([part]))
    assert batch_starts(ds.context, ds.context.fragments[1]) == starts
    ds.add_columns({"a": "id + 1"})
    ds.add_columns(lambda batch: {"b": batch["a"]}, batch_size=4)
    assert batch_starts(ds.context, ds.context.fragments[1]) == starts
    assert [row["b"] for row in checked(ds)] == [1, *range(1, 11)]
    assert [row["a"] for row in lance.dataset(ds.uri).take([1, 4, 5, 10]).to_pylist()] == [1, 4, 5, 10]


def test_files_of_a_table_over_several_bases(tmp_path: Path) -> None:
    bases = [lancecy.DatasetBasePath(str(tmp_path / name), name=name) for name in ("x", "y")]
    rows = pa.table({"id": range(40)})
    ds = lancecy.write_dataset(
        rows, tmp_path / "t", initial_bases=bases, target_bases=["x", "y"], max_rows_per_file=10
    )
    with pytest.raises(RuntimeError):
        ds.add_columns(failing)
    assert not Path(ds.uri, "data").exists()
    ds.add_columns({"a": "id + 1"})
    assert all(row["a"] == row["id"] + 1 for row in checked(ds))
    assert len(list(Path(ds.uri, "data").iterdir())) == 4


def failing(batch: pa.RecordBatch) -> Any:
    """A function that fails in the second fragment."""
    if 10 in batch["id"].to_pylist():
        raise RuntimeError("out of memory")
    return {"a": batch["id"]}


def test_a_compaction_meanwhile_moves_the_rows(tmp_path: Path) -> None:
    ds, seen = made(tmp_path / "t", deleted=True), list[list[int]]()

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not seen:
            lance.dataset(ds.uri).optimize.compact_files()
        seen.append(batch["id"].to_pylist())
        return pa.record_batch({"a": batch["id"]})

    ds.add_columns(slow, ["id"])
    assert seen[-1] == [0, 2, 3, 4, 5, 6, 8, 9]
    assert all(row["a"] == row["id"] for row in checked(ds))


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path: Path) -> None:
    """A column of a fragment that is many times larger than what is read at once."""
    code = f"""
import resource, numpy as np, pyarrow as pa, pyarrow.compute as pc, dask, lancecy, lancecy.dask
rows = (pa.record_batch({{"id": np.arange(1 << 18) + (number << 18), "x": np.random.rand(1 << 18)}}) for number in range(160))
ds = lancecy.write_dataset(rows, {str(tmp_path / "t")!r}, max_rows_per_file=1 << 30, durability="none")
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
steps = [peak()]
ds.add_columns({{"y": "x * 2 + id"}}, durability="none")
ds.alter_columns({{"path": "y", "data_type": pa.float32()}}, durability="none")
steps.append(peak())
# A worker has the whole fragment as one task: a data file has all rows of its fragment.
lancecy.dask.add_columns(
    ds, lambda batch: {{"z": pc.add(batch["x"], 1)}}, ["x"], pa.schema({{"z": pa.float64()}}),
    compute_kwargs={{"scheduler": "sync"}},
)
steps.append(peak())
print(max(after - before for before, after in zip(steps, steps[1:])))
assert ds.count_rows("z = x + 1") == 160 << 18
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(found.stdout) < 200
