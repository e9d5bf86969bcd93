"""Columns renamed, cast, and made nullable or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.alter_columns import AlterColumn
from lancecy.errors import ColumnNotFoundError, RetryableConflictError, SchemaError, UnsupportedError
from tests.changes.column_tables import FORMS, IDS, VERSIONS, checked, lance, made, refused

pytestmark = pytest.mark.interop


def field_ids(ds: lancecy.Dataset) -> dict[str, int]:
    return {field.name: field.id for field in ds.lance_schema.fields}


@pytest.mark.parametrize(("version", "stable", "deleted"), FORMS, ids=IDS)
def test_a_rename_keeps_ids_files_and_versions_of_rows(
    tmp_path: Path, version: str, stable: bool, deleted: bool
) -> None:
    ds = made(tmp_path / "t", version, stable, deleted)
    before, files = checked(ds), [part.data_files() for part in ds.get_fragments()]
    ds.alter_columns({"path": "id", "name": "number"}, {"path": "point.x", "name": "left"})
    rows = checked(ds)
    assert [(row["number"], row["point"]["left"]) for row in rows] == [
        (row["id"], row["point"]["x"]) for row in before
    ]
    assert [part.data_files() for part in ds.get_fragments()] == files
    assert set(ds.to_table(["_row_last_updated_at_version"])[0].to_pylist()) == {1}


def test_two_columns_swap_their_names(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.alter_columns({"path": "id", "name": "word"}, {"path": "word", "name": "id"})
    assert [(row["word"], row["id"]) for row in checked(ds)][:2] == [(0, "w0"), (1, "w1")]


@pytest.mark.parametrize(("version", "stable", "deleted"), FORMS, ids=IDS)
def test_casts_keep_the_values(tmp_path: Path, version: str, stable: bool, deleted: bool) -> None:
    ds = made(tmp_path / "t", version, stable, deleted)
    before = checked(ds)
    ds.alter_columns(
        {"path": "id", "data_type": pa.int16(), "name": "number"},
        {"path": "word", "data_type": pa.large_string()},
        {"path": "point.y", "data_type": pa.float32(), "name": "up"},
    )
    ds.alter_columns(
        {"path": "list.item", "data_type": pa.int64()}, {"path": "point.x", "data_type": pa.int8()}
    )
    rows = checked(ds)
    assert ds.schema.names == ["number", "word", "point", "list"]
    assert ds.schema.field("number").type == pa.int16()
    assert ds.schema.field("point").type == pa.struct({"x": pa.int8(), "up": pa.float32()})
    assert ds.schema.field("list").type == pa.list_(pa.int64())
    for old, new in zip(before, rows, strict=True):
        assert (new["number"], new["word"], new["list"]) == (old["id"], old["word"], old["list"])
        assert new["point"] == {"x": old["point"]["x"], "up": old["point"]["y"]}
    if stable:
        assert set(ds.to_table(["_row_last_updated_at_version"])[0].to_pylist()) == {ds.version}
        assert set(ds.to_table(["_row_created_at_version"])[0].to_pylist()) == {1}


@pytest.mark.parametrize("version", VERSIONS)
def test_both_libraries_go_on(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version, deleted=True)
    ds.alter_columns({"path": "point.x", "data_type": pa.int64()}, {"path": "id", "data_type": pa.int32()})
    theirs = lance.dataset(ds.uri)
    theirs.alter_columns({"path": "id", "data_type": pa.int64()})
    theirs.alter_columns({"path": "word", "name": "text"})
    theirs.add_columns({"more": "point.x + 1"})
    theirs.optimize.compact_files()
    ds = lancecy.dataset(ds.uri)
    ds.alter_columns({"path": "more", "data_type": pa.int8()}, {"path": "text", "name": "word"})
    assert all(row["more"] == row["id"] + 1 for row in checked(ds))


TYPES = {
    "int to text": ([1, None, -3], pa.int64(), pa.string(), ["1", None, "-3"]),
    "int to float": ([1, None, 3], pa.int64(), pa.float64()),
    "text to dictionary": (["a", None, "a"], pa.string(), pa.dictionary(pa.int8(), pa.string())),
    "dictionary to text": (["a", None, "a"], pa.dictionary(pa.int8(), pa.string()), pa.string()),
    "timestamp": ([1, None, 3], pa.timestamp("s"), pa.timestamp("ms")),
    "vector": ([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2), pa.list_(pa.float16(), 2)),
    "list to vector": ([[1, 2], None, [3, 4]], pa.list_(pa.float32()), pa.list_(pa.float32(), 2)),
    "members": ([{"a": 1}, None, {"a": 2}], pa.struct({"a": pa.int8()}), pa.struct({"a": pa.int32()})),
    "decimal": ([1, None, 2], pa.int32(), pa.decimal128(10, 2)),
    "null": ([None] * 3, pa.null(), pa.int32()),
}


@pytest.mark.parametrize("name", TYPES)
def test_casts_of_many_types(tmp_path: Path, name: str) -> None:
    values, old, new, *others = TYPES[name]
    expected = others[0] if others else pa.array(values, old).to_pylist()
    ds = lancecy.write_dataset(pa.table({"n": [1, 2, 3], "a": pa.array(values, old)}), tmp_path / "t")
    ds.alter_columns({"path": "a", "data_type": new})
    assert ds.schema.field("a").type == new
    assert [row["a"] for row in checked(ds)] == expected


def test_a_cast_after_a_conflict_writes_new_fragments_only(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append(ds.to_table().slice(0, 2))
    ds.add_columns({"other": "id"})
    old.alter_columns({"path": "id", "data_type": pa.int32()})
    rows = checked(old)
    assert [row["id"] for row in rows] == [*range(10), 0, 1]
    assert [row["other"] for row in rows] == [row["id"] for row in rows]


# -- nullability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_nulls_are_forbidden_where_there_are_none(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version)
    ds.alter_columns({"path": "id", "nullable": False}, {"path": "point.x", "nullable": False})
    assert not ds.schema.field("id").nullable
    checked(ds)
    with pytest.raises(SchemaError, match="id"):
        ds.append({"id": [None], "word": ["x"], "point": [{"x": 1, "y": 1.0}], "list": [[1]]}, cast=True)
    ds.alter_columns({"path": "id", "nullable": True})
    assert ds.schema.field("id").nullable


def test_a_cast_may_forbid_nulls_too(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.alter_columns({"path": "id", "data_type": pa.int32(), "nullable": False})
    assert ds.schema.field("id").equals(pa.field("id", pa.int32(), nullable=False))
    checked(ds)


def test_an_append_with_nulls_wins_over_a_stale_handle(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append({"id": [None]}, schema=pa.schema({"id": pa.int64()}))
    refused(
        ds, SchemaError, "row 10 has a null", lambda: old.alter_columns({"path": "id", "nullable": False})
    )


# -- refused --------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[type[Exception], str, Any]] = {
    "unknown": (ColumnNotFoundError, "no column 'nope'", {"path": "nope", "name": "x"}),
    "unknown member": (ColumnNotFoundError, "point.z", {"path": "point.z", "name": "x"}),
    "taken": (SchemaError, "two columns would be called 'word'", {"path": "id", "name": "word"}),
    "taken member": (SchemaError, "called 'point.y'", {"path": "point.x", "name": "y"}),
    "dots": (SchemaError, "dot in its name", {"path": "id", "name": "a.b"}),
    "empty": (SchemaError, "name that filters", {"path": "id", "name": ""}),
    "nothing": (ValueError, "changes nothing", {"path": "id"}),
    "no path": (ValueError, "needs the path", {"name": "x"}),
    "key": (ValueError, "did you mean 'name'", {"path": "id", "nam": "x"}),
    "kind": (TypeError, "is a dictionary", "id"),
    "type": (TypeError, "data_type of an alteration", {"path": "id", "data_type": "int32"}),
    "nulls": (
        SchemaError,
        "'word' cannot be made non-nullable, because row 3",
        {"path": "word", "nullable": False},
    ),
    "loses": (SchemaError, "'id'.*row 2 is 2", {"path": "id", "data_type": pa.bool_()}),
    "text": (SchemaError, "'word'.*row 0 is 'w0'", {"path": "word", "data_type": pa.int32()}),
    "fraction": (SchemaError, "'point.y'.*row 1", {"path": "point.y", "data_type": pa.int32()}),
    "unrelated": (SchemaError, "'list'", {"path": "list", "data_type": pa.int32()}),
    "no type": (UnsupportedError, "month", {"path": "id", "data_type": pa.month_day_nano_interval()}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    error, match, given = REFUSED[name]
    ds = made(tmp_path / "t")
    refused(ds, error, match, lambda: ds.alter_columns(given))


def test_a_lost_value_is_named_by_its_row_among_the_live_ones(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", deleted=True)
    ds.add_columns({"big": "CASE WHEN id = 8 THEN 300 ELSE id END"})
    refused(
        ds,
        SchemaError,
        "'big'.*row 6 is 300",
        lambda: ds.alter_columns({"path": "big", "data_type": pa.int8()}),
    )


def test_values_of_deleted_rows_need_not_fit(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1, 300, 3]}, tmp_path / "t")
    ds.delete("a = 300")
    ds.alter_columns({"path": "a", "data_type": pa.int8()})
    assert [row["a"] for row in checked(ds)] == [1, 3]


def test_nulls_within_lists_are_named_by_row(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [[1], [], None, [2, None]]}, tmp_path / "t")
    refused(ds, SchemaError, "row 3", lambda: ds.alter_columns({"path": "a.item", "nullable": False}))
    ds.delete("a IS NOT NULL AND array_length(a) = 2")
    ds.alter_columns({"path": "a.item", "nullable": False})
    assert [row["a"] for row in checked(ds)] == [[1], [], None]


def test_one_alteration_per_column(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    twice: list[AlterColumn] = [{"path": "id", "name": "a"}, {"path": "id", "nullable": False}]
    refused(ds, ValueError, "altered twice", lambda: ds.alter_columns(*twice))
    ds.alter_columns()
    assert ds.version == 1


def test_a_column_with_an_index_keeps_its_type(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    lance.dataset(ds.uri).create_scalar_index("id", "BTREE")
    ds = lancecy.dataset(ds.uri)
    cast: AlterColumn = {"path": "id", "data_type": pa.int32()}
    refused(ds, UnsupportedError, "index 'id_idx'", lambda: ds.alter_columns(cast))
    ds.alter_columns({"path": "id", "name": "number"})
    assert lance.dataset(ds.uri).to_table(filter="number = 3").num_rows == 1


def test_a_retry_that_is_not_allowed(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append(ds.to_table().slice(0, 1))
    cast: AlterColumn = {"path": "id", "data_type": pa.int32()}
    refused(ds, RetryableConflictError, "version", lambda: old.alter_columns(cast, conflict_retries=0))


@pytest.mark.parametrize("change", [{"name": "element"}, {"nullable": False}])
def test_elements_of_lists_stay_as_files_of_0_1_have_them(tmp_path: Path, change: AlterColumn) -> None:
    ds = made(tmp_path / "old", "0.1")
    altered: AlterColumn = {"path": "list.item", **change}
    refused(ds, UnsupportedError, "column 'list.item' has the elements", lambda: ds.alter_columns(altered))
    ds.alter_columns({"path": "list.item", "name": "item"})
    new = made(tmp_path / "new", "2.1")
    new.alter_columns(altered)
    assert [row["list"] for row in checked(new)] == [row["list"] for row in checked(ds)]


CHANGES: dict[str, list[tuple[str, Any]]] = {
    "cast": [("alter_columns", {"path": "id", "data_type": pa.int32()})],
    "cast of a member": [("alter_columns", {"path": "point.x", "data_type": pa.int64()})],
    "dropped and added": [("drop_columns", ["id"]), ("add_columns", {"id": "word"})],
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [*CHANGES, "cast and renamed"])
def test_rows_written_before_a_column_was_replaced_are_not_added_without_its_values(
    tmp_path: Path, name: str, version: str
) -> None:
    ds = made(tmp_path / "t", version)
    rows, files = ds.to_table(), lancecy.write_fragments(ds.to_table(), ds)
    other = lancecy.dataset(ds.uri)
    if name in CHANGES:
        other = lance.dataset(ds.uri) if "member" not in name or version != "2.0" else other
        for method, argument in CHANGES[name]:
            getattr(other, method)(argument)
    else:
        other.alter_columns({"path": "id", "name": "number", "data_type": pa.int32()})
    append = lancecy.LanceOperation.Append(files)
    for _ in range(2):
        with pytest.raises(RetryableConflictError, match="repeat it from the newest version"):
            lancecy.commit(ds.uri, append, read_version=1)
        lancecy.dataset(ds.uri).update_config({"other": "change"})
    assert lancecy.dataset(ds.uri).count_rows() == rows.num_rows


def test_a_cast_during_a_long_append_is_a_conflict(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    rows = ds.to_table()

    def batches() -> Any:
        yield from rows.to_batches()
        lancecy.dataset(ds.uri).alter_columns({"path": "id", "data_type": pa.int32()})
        yield from rows.to_batches()

    with pytest.raises(RetryableConflictError):
        ds.append(batches(), schema=rows.schema)
    assert len(checked(lancecy.dataset(ds.uri))) == 10


def test_rows_written_before_a_column_was_dropped_or_renamed_are_added(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    files = lancecy.write_fragments(ds.to_table(), ds)
    ds.drop_columns(["list", "point.y"])
    ds.alter_columns({"path": "id", "name": "number"})
    ds.add_columns({"id": "number + 1"})
    added = lancecy.commit(ds.uri, lancecy.LanceOperation.Append(files), read_version=1)
    assert [row["number"] for row in checked(added)] == [*range(10)] * 2
    assert added.to_table()["id"].to_pylist() == [*range(1, 11), *[None] * 10]
