"""Merges that insert keys while others append: appended rows are read, and only a key that is there begins the merge again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.merging.keys import key_hashes
from lancecy.errors import RetryableConflictError
from tests.helpers.folded import folded

Rows: TypeAlias = dict[str, list[Any]] | pa.Table


def upsert(ds: lancecy.Dataset, rows: Rows, on: str | list[str] = "id", retries: int = 0) -> dict[str, int]:
    """An upsert from the version of ``ds``, whatever was committed since."""
    merge = ds.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
    return merge.conflict_retries(retries).execute(rows)


def content(ds: lancecy.Dataset, *columns: str) -> list[tuple[Any, ...]]:
    table = lancecy.dataset(ds.uri).to_table(list(columns))
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


@pytest.mark.slow
@folded("stable", [False, True])
@folded("version", ["0.1", "2.0", "2.1", "2.2"])
def test_appended_rows_conflict_only_by_their_keys(version: Any, stable: bool, tmp_path: Path) -> None:
    old = lancecy.write_dataset(
        {"id": [0, 1], "by": [0, 0]},
        tmp_path / f"{version}-{stable}",
        data_storage_version=version,
        enable_stable_row_ids=stable and version != "0.1",
    )
    for key in range(2, 8):
        lancecy.dataset(old.uri).append({"id": [key, key + 10], "by": [1, 1]})
    mine = lancecy.dataset(old.uri, 1)
    assert upsert(mine, {"id": [1, 8], "by": [2, 2]})["num_inserted_rows"] == 1, "no append has the key 8"
    assert (mine.version, len(content(mine, "id"))) == (8, 15)
    stale = lancecy.dataset(old.uri, 1)
    with pytest.raises(RetryableConflictError, match="may have keys"):
        upsert(stale, {"id": [9, 15], "by": [3, 3]})
    assert content(old, "id", "by") == content(mine, "id", "by"), "nothing was committed"
    assert upsert(stale, {"id": [9, 15], "by": [3, 3]}, retries=1)["num_updated_rows"] == 1
    ids = [key for (key,) in content(old, "id")]
    assert (len(ids), sorted(set(ids))) == (16, sorted([*range(10), *range(12, 18)]))
    row_ids = lancecy.dataset(old.uri).to_table(["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) == 16


PAIRS = pa.struct([("a", pa.int64()), ("b", pa.string())])
KEYS: dict[str, tuple[pa.DataType, list[Any], list[Any], list[Any]]] = {
    # The type, keys that the merge gives, keys of an append that clash with none of them, and some that clash.
    "numbers": (pa.int64(), [5, None, -1], [6, None, 1], [7, -1]),
    "narrow": (pa.int8(), [5, None, -1], [6, None, 1], [7, -1]),
    "floats": (pa.float64(), [0.0, float("nan")], [-0.0, 1.0], [float("nan")]),
    "texts": (pa.string(), ["a", "", None], ["A", None, "b"], ["x", ""]),
    "times": (pa.timestamp("us"), [1, None], [2, None], [1]),
    "bytes": (pa.binary(), [b"a", b"\0"], [b"", b"\0\0"], [b"\0"]),
    "decimals": (pa.decimal128(9, 2), [1, 2], [3, None], [2]),
    "dictionaries": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], ["c", None], ["c", "b"]),
    "structs": (
        PAIRS,
        [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, None],
        [{"a": 1, "b": "y"}, {"a": None, "b": "x"}, {"a": 0, "b": "y"}, None],
        [{"a": None, "b": "y"}],
    ),
}


@folded("name", KEYS)
def test_keys_of_any_type_are_found(name: str, tmp_path: Path) -> None:
    kind, given, others, same = KEYS[name]

    def rows(keys: list[Any], by: int) -> pa.Table:
        return pa.table({"id": pa.array(keys, kind), "by": pa.array([by] * len(keys), pa.int64())})

    old = lancecy.write_dataset(rows([], 0), tmp_path / name)
    lancecy.dataset(old.uri).append(rows(others, 1))
    upsert(lancecy.dataset(old.uri, 1), rows(given, 2))
    assert [by for (by,) in content(old, "by")] == [1] * len(others) + [2] * len(given)
    again = lancecy.write_dataset(rows([], 0), tmp_path / f"{name} again")
    lancecy.dataset(again.uri).append(rows(same, 1))
    with pytest.raises(RetryableConflictError):
        upsert(lancecy.dataset(again.uri, 1), rows(given, 2))
    upsert(lancecy.dataset(again.uri, 1), rows(given, 2), retries=1)
    assert [by for (by,) in content(again, "by")] == [1] * (len(same) - 1) + [2] * len(given)


def test_what_is_stored_below_a_null_is_no_part_of_a_key() -> None:
    validity = pa.py_buffer(bytes([0b10]))
    hidden = [
        pa.Array.from_buffers(pa.int64(), 2, [validity, pa.py_buffer(np.array([n, 4]))]) for n in (0, 9)
    ]
    one, other = (key_hashes([pa.StructArray.from_arrays([member], ["a"])]) for member in hidden)
    assert one.tolist() == other.tolist()
    assert one[0] != one[1]


@pytest.mark.parametrize(
    ("appended", "is_there"), [([(1, "b"), (2, "a")], False), ([(2, "b"), (1, "a")], True)]
)
def test_keys_of_several_columns_are_compared_whole(
    appended: list[tuple[int, str]], is_there: bool, tmp_path: Path
) -> None:
    old = lancecy.write_dataset({"n": [0], "s": ["a"], "by": [0]}, tmp_path / "t")
    numbers, texts = map(list, zip(*appended, strict=True))
    lancecy.dataset(old.uri).append({"n": numbers, "s": texts, "by": [1, 1]})
    rows: Rows = {"s": ["a", None], "n": [1, 2], "by": [2, 2]}
    if is_there:
        with pytest.raises(RetryableConflictError):
            upsert(old, rows, on=["n", "s"])
    assert upsert(old, rows, on=["n", "s"], retries=5)["num_inserted_rows"] == 2 - is_there
    assert len(content(old, "n", "s")) == 5 - is_there


OTHERS: dict[str, tuple[Callable[[lancecy.Dataset], object], bool]] = {
    # What another writer does after an append of the keys 5 and 6, and whether the merge of key 5 begins again.
    "nothing": (lambda ds: None, True),
    "moves a key": (lambda ds: ds.update({"id": "9"}, "id = 5"), True),
    "compacts": (lambda ds: ds.optimize.compact_files(), True),
    "renames the key": (lambda ds: ds.alter_columns({"path": "id", "name": "key"}), True),
    "adds a base": (lambda ds: ds.update_config({"k": "v"}), True),
    "deletes and appends": (lambda ds: (ds.delete("id = 5"), ds.append({"id": [7], "by": [1]})), True),
}


@folded("what", OTHERS)
def test_later_changes_hide_no_appended_key(what: str, tmp_path: Path) -> None:
    old = lancecy.write_dataset({"id": [0, 1], "by": [0, 0]}, tmp_path / what)
    ds = lancecy.dataset(old.uri)
    ds.append({"id": [5, 6], "by": [1, 1]})
    OTHERS[what][0](ds)
    with pytest.raises(RetryableConflictError):
        upsert(lancecy.dataset(old.uri, 1), {"id": [5], "by": [2]})


def test_keys_that_another_update_gives_are_found(tmp_path: Path) -> None:
    old = lancecy.write_dataset({"id": [0, 1], "by": [0, 0]}, tmp_path / "t")
    lancecy.dataset(old.uri).update({"id": "5"}, "id = 1")
    stale = lancecy.dataset(old.uri, 1)
    with pytest.raises(RetryableConflictError):
        upsert(stale, {"id": [5], "by": [2]})
    assert upsert(stale, {"id": [4], "by": [2]})["num_inserted_rows"] == 1
    assert content(old, "id") == [(0,), (4,), (5,)]


def test_two_merges_of_many_other_keys_pass_each_other(tmp_path: Path) -> None:
    """Bloom filters of different sizes cannot be compared, and the keys can."""
    old = lancecy.write_dataset({"id": [-1], "by": [0]}, tmp_path / "t")
    for first, count in ((0, 2_000), (10_000, 20_000)):
        keys = list(range(first, first + count))
        assert (
            upsert(lancecy.dataset(old.uri, 1), {"id": keys, "by": [1] * count})["num_inserted_rows"] == count
        )
    with pytest.raises(RetryableConflictError):
        upsert(lancecy.dataset(old.uri, 1), {"id": [29_999], "by": [2]})
    assert lancecy.dataset(old.uri).count_rows() == 22_001


def test_an_append_after_a_merge_adds_its_rows_as_they_are(tmp_path: Path) -> None:
    """An append compares no keys, whichever version it was made from."""
    old = lancecy.write_dataset({"id": [0], "by": [0]}, tmp_path / "t")
    fragments = lancecy.write_fragments({"id": [5], "by": [1]}, old.uri)
    upsert(old, {"id": [5], "by": [2]})
    lancecy.commit(old.uri, lancecy.LanceOperation.Append(fragments), 1)
    assert content(old, "id", "by") == [(0, 0), (5, 1), (5, 2)]


def test_a_file_that_was_cleaned_up_meanwhile_begins_the_merge_again(tmp_path: Path) -> None:
    old = lancecy.write_dataset({"id": [0], "by": [0]}, tmp_path / "t")
    before = set((tmp_path / "t" / "data").iterdir())
    ds = lancecy.dataset(old.uri)
    ds.append({"id": [6], "by": [1]})
    ds.delete("id = 6")
    for file in set((tmp_path / "t" / "data").iterdir()) - before:
        file.unlink()
    with pytest.raises(RetryableConflictError):
        upsert(lancecy.dataset(old.uri, 1), {"id": [5], "by": [2]})
    assert upsert(lancecy.dataset(old.uri, 1), {"id": [5], "by": [2]}, retries=1)["num_inserted_rows"] == 1


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True])
def test_appends_and_updates_of_pylance_are_read_too(stable: bool, tmp_path: Path) -> None:
    import lance

    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": [0, 1], "by": [0, 0]}), uri, enable_stable_row_ids=stable)
    lance.write_dataset(pa.table({"id": [5], "by": [1]}), uri, mode="append")
    lance.dataset(uri).update({"id": "7"}, "id = 1")
    stale = lancecy.dataset(uri, 1)
    for key in (5, 7):
        with pytest.raises(RetryableConflictError):
            upsert(stale, {"id": [key], "by": [2]})
    assert upsert(stale, {"id": [6], "by": [2]})["num_inserted_rows"] == 1
    theirs = lance.dataset(uri)
    theirs.validate()
    assert sorted(theirs.to_table()["id"].to_pylist()) == [0, 5, 6, 7]
