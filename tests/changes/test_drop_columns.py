"""Columns dropped, alone and from structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from tests.changes.column_tables import FORMS, IDS, VERSIONS, checked, lance, made, refused

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("version", "stable", "deleted"), FORMS, ids=IDS)
def test_columns_and_members_go(tmp_path: Path, version: str, stable: bool, deleted: bool) -> None:
    ds = made(tmp_path / "t", version, stable, deleted)
    before = checked(ds)
    ds.drop_columns(["word", "point.x"])
    expected = [{"id": row["id"], "point": {"y": row["point"]["y"]}, "list": row["list"]} for row in before]
    assert checked(ds) == expected
    assert set(ds.to_table(["_row_last_updated_at_version"])[0].to_pylist()) == {1}
    ds.drop_columns(["point.y", "list.item"])
    assert checked(ds) == [{"id": row["id"]} for row in before]


@pytest.mark.parametrize("version", VERSIONS)
def test_files_without_columns_leave_the_fragments(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version)
    ds.add_columns({"a": "id"})
    ds.drop_columns(["a"])
    assert [len(part.data_files()) for part in ds.get_fragments()] == [1, 1]
    assert len(list(Path(ds.uri, "data").iterdir())) == 4
    lance.dataset(ds.uri).add_columns({"a": "id * 2"})
    assert [row["a"] for row in checked(lancecy.dataset(ds.uri))] == [2 * i for i in range(10)]


def test_indices_go_with_their_columns(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    theirs = lance.dataset(ds.uri)
    theirs.create_scalar_index("id", "BTREE")
    theirs.create_scalar_index("word", "BTREE")
    ds = lancecy.dataset(ds.uri)
    ds.drop_columns(["id"])
    after = lance.dataset(ds.uri)
    assert [entry.name for entry in after.describe_indices()] == ["word_idx"]
    after.optimize.compact_files()
    assert after.to_table(filter="word = 'w4'").num_rows == 1


def test_an_append_of_another_writer_stays(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append(ds.to_table().slice(0, 2))
    old.drop_columns(["word"])
    assert len(checked(old)) == 12


def test_a_stale_handle_drops_from_the_newest_schema(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.add_columns({"a": "id"})
    ds.drop_columns(["list"])
    old.drop_columns(["word"])
    assert old.schema.names == ["id", "point", "a"]
    checked(old)


def test_nothing_to_drop_makes_no_version(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.drop_columns([])
    assert ds.version == 1


REFUSED: dict[str, tuple[type[Exception], str, Any]] = {
    "unknown": (ColumnNotFoundError, "no column 'wrd' in the schema; did you mean 'word'", ["wrd"]),
    "all": (ValueError, "at least one column", ["id", "word", "point", "list"]),
    "text": (TypeError, "a list", "word"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    error, match, given = REFUSED[name]
    ds = made(tmp_path / "t")
    refused(ds, error, match, lambda: ds.drop_columns(given))


def test_maps_are_dropped_whole(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"n": [1], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))})
    ds = lancecy.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    refused(ds, UnsupportedError, "part of a map", lambda: ds.drop_columns(["m.entries.value"]))
    ds.drop_columns(["m"])
    assert checked(ds) == [{"n": 1}]
