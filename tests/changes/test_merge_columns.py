"""Columns joined by a key."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.changes import merge_columns
from lancecy.changes.key_positions import KeyPositions
from lancecy.errors import ColumnNotFoundError, SchemaError, UnsupportedError
from tests.changes.column_tables import FORMS, IDS, checked, lance, made, refused

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("version", "stable", "deleted"), FORMS, ids=IDS)
def test_a_left_join_of_all_rows(tmp_path: Path, version: str, stable: bool, deleted: bool) -> None:
    ds = made(tmp_path / "t", version, stable, deleted)
    ds.merge({"key": [9, 8, *range(8), 77], "number": [90, 80, *range(0, 80, 10), 0]}, "id", "key")
    ds.merge({"word": ["w8", "w4", "nope"], "text": ["eight", "four", "x"]}, "word")
    rows = checked(ds)
    assert [row["number"] for row in rows] == [10 * row["id"] for row in rows]
    assert [row["text"] for row in rows] == [{8: "eight", 4: "four"}.get(row["id"]) for row in rows]
    assert ds.schema.names == ["id", "word", "point", "list", "number", "text"]


def test_keys_as_pylance_matches_them(tmp_path: Path) -> None:
    right = pa.table({"word": ["w0", None, "w2", "w0"], "z": ["first", "null", "two", "last"]})
    ds, theirs = made(tmp_path / "a"), lance.dataset(made(tmp_path / "b").uri)
    ds.merge(right, "word")
    theirs.merge(right, "word")
    mine = [row["z"] for row in checked(ds)]
    assert mine == theirs.to_table()["z"].to_pylist()
    assert mine == ["last", None, "two", "null", None, None, None, "null", None, None]


KEYS: dict[str, tuple[str, Any]] = {
    "nested": ("point.x", pa.array([2, 4], pa.int32())),
    "float": ("point.y", pa.array([1.0, 2.0])),
    "other width": ("id", pa.array([2, 4], pa.int8())),
    "other text": ("word", pa.array(["w2", "w4"], pa.large_string())),
    "dictionary": ("word", pa.array(["w2", "w4"]).dictionary_encode()),
    "row id": ("_rowid", pa.array([2, 4], pa.uint64())),
    "row address": ("_rowaddr", pa.array([2, 4], pa.uint64())),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_many_kinds(tmp_path: Path, name: str) -> None:
    left, keys = KEYS[name]
    ds = made(tmp_path / "t")
    ds.merge(pa.table({"key": keys, "z": ["two", "four"]}), left, "key")
    assert [row["z"] for row in checked(ds)] == [None, None, "two", None, "four", *[None] * 5]


def test_no_row_matches(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.merge(pa.table({"id": pa.array([], pa.int64()), "z": pa.array([], pa.string())}), "id")
    assert {row["z"] for row in checked(ds)} == {None}


def test_look_ups_of_several_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_columns, "_WINDOW_ROWS", 7)
    rows = pa.table({"n": [f"k{i}" for i in range(40)]})
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=3)
    ds.delete("n IN ('k4', 'k9', 'k10', 'k11')")
    ds.merge({"n": [f"k{i}" for i in reversed(range(40))], "i": list(reversed(range(40)))}, "n")
    assert all(row["n"] == f"k{row['i']}" for row in checked(ds))


@pytest.mark.parametrize("seed", range(20))
def test_positions_of_keys(seed: int) -> None:
    chance = random.Random(seed)
    spread = chance.choice((10, 100, 10**15))
    kind = chance.choice((pa.int64(), pa.uint64(), pa.int8() if spread == 10 else pa.int64()))
    low = 0 if kind == pa.uint64() else -spread

    def some(count: int) -> list[int | None]:
        return [None if chance.random() < 0.1 else chance.randint(low, spread) for _ in range(count)]

    keys, probes = some(chance.randint(0, 50)), some(60)
    found = KeyPositions(pa.chunked_array([pa.array(keys, kind)]), pa.field("k", kind), "k")
    last = {key: number for number, key in enumerate(keys)}
    assert found.find(pa.array(probes, kind)).tolist() == [last.get(probe, -1) for probe in probes]


def test_new_rows_of_others_are_joined_too(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append(ds.to_table().slice(3, 2))
    old.merge({"id": list(range(10)), "z": [str(i) for i in range(10)]}, "id")
    assert all(row["z"] == str(row["id"]) for row in checked(old))


REFUSED: dict[str, tuple[type[Exception], str, Any, tuple[str, ...]]] = {
    "left": (ColumnNotFoundError, "no column 'nope'", {"id": [1], "z": [1]}, ("nope", "id")),
    "right": (ColumnNotFoundError, "no column 'nope'", {"id": [1], "z": [1]}, ("id", "nope")),
    "default": (ColumnNotFoundError, "no column 'id' in the rows to merge", {"k": [1], "z": [1]}, ("id",)),
    "existing": (SchemaError, "'word' already", {"id": [1], "word": ["x"]}, ("id",)),
    "alone": (SchemaError, "no column besides the key", {"id": [1]}, ("id",)),
    "type": (SchemaError, "cannot be compared", {"id": ["x"], "z": [1]}, ("id",)),
    "list": (SchemaError, "cannot be a key", {"list": [[1]], "z": [1]}, ("list",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    error, match, rows, on = REFUSED[name]
    ds = made(tmp_path / "t")
    refused(ds, error, match, lambda: ds.merge(rows, *on))


def test_a_row_without_a_match_may_need_a_null(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("z", pa.int64(), nullable=False)])
    rows = pa.table({"id": list(range(8)), "z": list(range(8))}, schema=schema)
    ds = made(tmp_path / "t")
    refused(ds, SchemaError, "'z' may not be null, and row 8", lambda: ds.merge(rows, "id"))
    ds.delete("id > 7")
    ds.merge(rows, "id")
    assert not ds.schema.field("z").nullable
    old = made(tmp_path / "old", "0.1")
    refused(old, UnsupportedError, "'z'.*nulls", lambda: old.merge({"id": [1], "z": [1]}, "id"))


def test_nested_views_are_joined(tmp_path: Path) -> None:
    texts, data = pa.string_view(), pa.binary_view()
    kind = pa.struct({"x": texts, "l": pa.list_(data), "m": pa.map_(texts, texts)})
    values = [{"x": "w" * 20, "l": [b"x" * 20, None], "m": [("a", "b" * 20)]}, None]
    right = pa.table(
        {
            "word": pa.array(["w2", "w0"], texts),
            "s": pa.array(values, kind),
            "d": pa.array([None, b"d"], data),
        }
    )
    ds = made(tmp_path / "t", "2.2")
    ds.merge(right, "word")
    assert [(row["s"], row["d"]) for row in checked(ds)[:3]] == [
        (None, b"d"),
        (None, None),
        (values[0], None),
    ]


def test_lists_in_the_form_of_views_are_refused_with_what_to_do(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    views = pa.table({"id": [1], "v": pa.array([[1]], pa.list_view(pa.int64()))})
    with pytest.raises(
        UnsupportedError, match=r"column 'v': .*list_view<item: int64>: cast the column to lists"
    ):
        ds.merge(views, "id")
    with pytest.raises(UnsupportedError, match="run_end_decode"):
        lancecy.write_dataset(pa.table({"v": pc.run_end_encode(pa.array([1, 1]))}), tmp_path / "u")
