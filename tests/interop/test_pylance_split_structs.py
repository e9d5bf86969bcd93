"""Structs whose members are in several files of a fragment, as pylance's merges and added members leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import UnsupportedError

pytestmark = pytest.mark.interop

AB = pa.struct([("a", pa.string()), ("b", pa.string())])
ROWS = [None, {"a": "q", "b": "q"}, {"a": None, "b": "r"}, None]
FILTERS = {
    "u IS NULL": [3],
    "u IS NOT NULL": [0, 1, 2],
    "u.b = 'new'": [0, 2],
    "u.a = 'q' AND u.b = 'q'": [1],
    "u.a IS NULL AND u.b IS NOT NULL": [0, 2],
    "u.a IS NULL OR u.b IS NULL": [0, 2, 3],
}
CHANGES: dict[str, Callable[[Any], object]] = {
    "update": lambda ds: ds.update({"k": "'changed'"}),
    "compact": lambda ds: (
        ds.delete("id = 9"),
        ds.optimize.compact_files(materialize_deletions_threshold=0.0),
    ),
    "merge": lambda ds: (
        ds.merge_insert("id").when_matched_update_all().execute({"id": [0, 1], "k": ["m", "n"]})
    ),
    "append": lambda ds: ds.insert(ds.to_table(filter="id < 0")),
}


def merged(path: Path, version: Any) -> list[Any]:
    """A table in which pylance has put the member b of two rows into a file of its own; its column u."""
    import lance

    table = pa.table({"id": range(4), "k": list("wxyz"), "u": pa.array(ROWS, AB)})
    lance.write_dataset(table, str(path), data_storage_version=version)
    source = pa.table({"id": [0, 2], "u": pa.array([{"b": "new"}] * 2, pa.struct([("b", pa.string())]))})
    lance.dataset(str(path)).merge_insert("id").when_matched_update_all().execute(source)
    return [{"a": None, "b": "new"}, {"a": "q", "b": "q"}, {"a": None, "b": "new"}, None]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_values_of_members_in_another_file_are_read(tmp_path: Path, version: str) -> None:
    import lance

    wanted = merged(tmp_path / "t", version)
    ds = lancecy.dataset(tmp_path / "t")
    assert max(len(fragment.data_files()) for fragment in ds.get_fragments()) > 1
    assert ds.to_table().sort_by("id")["u"].to_pylist() == wanted
    assert ds.to_table(columns={"id": "id", "a": "u.a", "b": "u.b"}).sort_by("id")["b"].to_pylist() == [
        row and row["b"] for row in wanted
    ]
    for text, ids in FILTERS.items():
        assert sorted(ds.to_table(filter=text)["id"].to_pylist()) == ids, text
        assert ds.count_rows(text) == len(ids) == lance.dataset(str(tmp_path / "t")).count_rows(text)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_keep_members_in_another_file(tmp_path: Path, version: str, change: str) -> None:
    import lance

    wanted = merged(tmp_path / "t", version)
    CHANGES[change](lancecy.dataset(tmp_path / "t"))
    for found in (lancecy.dataset(tmp_path / "t"), lance.dataset(str(tmp_path / "t"))):
        assert found.to_table().sort_by("id")["u"].to_pylist() == wanted
    assert lancecy.dataset(tmp_path / "t").verify().is_ok


def test_members_added_to_structs_in_lists(tmp_path: Path) -> None:
    import lance

    a, c = pa.list_(pa.struct([("a", pa.int32())])), pa.list_(pa.struct([("c", pa.string())]))
    first, second = [[{"a": 1}, None], [], None], [[None, {"c": "x"}], [], None]
    lance.write_dataset(
        pa.table({"id": range(3), "u": pa.array(first, a)}), str(tmp_path / "t"), data_storage_version="2.2"
    )
    lance.dataset(str(tmp_path / "t")).add_columns(pa.table({"u": pa.array(second, c)}).to_reader())
    wanted = [[{"a": 1, "c": None}, {"a": None, "c": "x"}], [], None]
    assert lancecy.dataset(tmp_path / "t").to_table()["u"].to_pylist() == wanted
    lancecy.dataset(tmp_path / "t").update({"id": "id + 1"})
    for found in (lancecy.dataset(tmp_path / "t"), lance.dataset(str(tmp_path / "t"))):
        assert found.to_table()["u"].to_pylist() == wanted


def test_structs_of_2_0_are_never_null(tmp_path: Path) -> None:
    import lance

    inner = pa.struct([("c", pa.int64()), ("d", pa.int64())])
    whole = pa.struct([("a", pa.bool_()), ("b", pa.int64()), ("s", inner)])
    part = pa.struct([("a", pa.bool_()), ("s", pa.struct([("c", pa.int64())]))])
    row, short = {"a": True, "b": 1, "s": {"c": 1, "d": 2}}, {"a": False, "s": {"c": 3}}
    table = pa.table({"id": [1], "u": pa.array([row], whole)})
    ds = lancecy.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    ds.append(pa.table({"id": [2], "u": pa.array([short], part)}))
    ds.drop_columns(["u.a", "u.s.c"])
    wanted = [{"b": 1, "s": {"d": 2}}, {"b": None, "s": {"d": None}}]
    assert (
        ds.to_table()["u"].to_pylist()
        == lance.dataset(str(tmp_path / "t")).to_table()["u"].to_pylist()
        == wanted
    )
    assert [ds.count_rows(f"{name} IS NULL") for name in ("u", "u.s", "u.b", "u.s.d")] == [0, 0, 1, 1]
    ds.update({"id": "id + 1"})
    ds.optimize.compact_files()
    for found in (ds, lance.dataset(str(tmp_path / "t"))):
        assert found.to_table()["u"].to_pylist() == wanted
    with pytest.raises(UnsupportedError, match="structs that are null"):
        ds.append(pa.table({"id": [3], "u": pa.array([None], ds.schema.field("u").type)}))
