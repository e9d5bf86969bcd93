"""Scalar indices are made so that pylance uses them and answers as it does without them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.index_training import IndexPlan, trained
from lancecy.errors import ColumnNotFoundError, NotFoundError, UnsupportedError
from lancecy.progress import Step
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from lancecy.write.indices import index_view
from tests.changes.index_tables import COLUMNS, FORMS, LISTS, check_answers, filters_of, lance, made

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("version", "stable"), FORMS)
def test_pylance_uses_btree_indices(tmp_path: Path, version: str, stable: bool) -> None:
    ds = made(tmp_path / "t", version, stable)
    for column in COLUMNS if version == "legacy" else (*COLUMNS, "st.x"):
        ds.create_scalar_index(column, "BTREE")
    check_answers(ds.uri, filters_of(version))


@pytest.mark.parametrize(("version", "stable"), FORMS)
def test_pylance_uses_bitmap_indices(tmp_path: Path, version: str, stable: bool) -> None:
    ds = made(tmp_path / "t", version, stable)
    for column in COLUMNS if version == "legacy" else (*COLUMNS, "st.x"):
        ds.create_scalar_index(column, "BITMAP")
    check_answers(ds.uri, filters_of(version))


@pytest.mark.parametrize(("version", "stable"), FORMS)
def test_pylance_uses_label_list_indices(tmp_path: Path, version: str, stable: bool) -> None:
    ds = made(tmp_path / "t", version, stable)
    ds.create_scalar_index("l", "LABEL_LIST")
    check_answers(ds.uri, LISTS)


def test_lists_that_a_filter_makes_are_not_looked_up_in_an_index(tmp_path: Path) -> None:
    rows = {"l": pa.array([["a", "b"], ["a"], None, [], ["c"], [None]] * 20), "s": ["a", "x", "c"] * 40}
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=50)
    ds.create_scalar_index("l", "LABEL_LIST")
    filters = {
        "array_has(array_remove_all(l, 'a'), 'a')": 0,
        "array_has(array_reverse(l), 'a')": 40,
        "array_has_any(array_distinct(l), ['b', 'c'])": 40,
        "NOT array_has(array_append(l, 'z'), 'z')": 0,
        "array_has(l, s)": 20,
        "array_has_any(l, make_array(s))": 20,
        "array_has_all(l, ['a']) AND array_has(array_pop_back(l), 'a')": 20,
        "array_has(l, 'a')": 40,
    }
    for text, count in filters.items():
        for kept in (lancecy.dataset(ds.uri), lance.dataset(ds.uri)):
            assert kept.count_rows(text) == count, text


@pytest.mark.parametrize(("version", "stable"), FORMS)
def test_pylance_uses_indices_of_zones(tmp_path: Path, version: str, stable: bool) -> None:
    ds = made(tmp_path / "t", version, stable)
    for column in COLUMNS if version == "legacy" else (*COLUMNS, "st.x"):
        ds.create_scalar_index(column, "ZONEMAP")
    check_answers(ds.uri, filters_of(version), must_use=False)
    check_answers(ds.uri, ("a = 7", "f > 1.0", "s = 'ab'", "a is null"))
    for column in COLUMNS if version == "legacy" else (*COLUMNS, "st.x"):
        if column != "flag":
            ds.create_scalar_index(column, "BLOOMFILTER", name=f"{column}_bloom")
        ds.drop_index(f"{column}_idx")
    check_answers(ds.uri, filters_of(version), must_use=False)
    check_answers(ds.uri, ("a = 7", "f = 2.5", "s = 'ab'", "u = 9223372036854775900", "a is null"))


@pytest.mark.parametrize(
    ("column", "index_type"),
    [
        ("s", "BITMAP"),
        ("f", "BITMAP"),
        ("a", "BITMAP"),
        ("flag", "BITMAP"),
        ("l", "LABEL_LIST"),
        ("a", "ZONEMAP"),
        ("f", "ZONEMAP"),
        ("s", "ZONEMAP"),
        ("flag", "ZONEMAP"),
        ("a", "BLOOMFILTER"),
        ("f", "BLOOMFILTER"),
        ("s", "BLOOMFILTER"),
        ("d", "BLOOMFILTER"),
    ],
)
@pytest.mark.parametrize("stable", [False, True])
def test_files_hold_what_those_of_pylance_hold(
    tmp_path: Path, column: str, index_type: str, stable: bool
) -> None:
    ds = made(tmp_path / "t", "2.1", stable)
    ds.create_scalar_index(column, index_type, name="ours")
    lance.dataset(ds.uri).create_scalar_index(column, index_type, name="theirs")
    ((name, mine),), ((_, others),) = (_files(ds.uri, name).items() for name in ("ours", "theirs"))
    ours, theirs = (file.read_all().to_table() for file in (mine, others))
    assert ours.schema.equals(theirs.schema)
    # NaN is unlike itself, and what it is written as is no NaN.
    assert list(map(str, ours.to_pylist())) == list(map(str, theirs.to_pylist())), name
    assert mine.metadata().schema.equals(others.metadata().schema, check_metadata=True)
    buffers = mine.metadata().schema.metadata.keys() & {b"null_bitmap", b"lance:label_list_nulls"}
    for _ in buffers:
        assert mine.read_global_buffer(1) == others.read_global_buffer(1)
    assert _described(ds.uri, "ours").type_url == _described(ds.uri, "theirs").type_url
    ours, theirs = (_entry(ds.uri, each) for each in ("ours", "theirs"))
    assert (ours.index_details, ours.index_version) == (theirs.index_details, theirs.index_version)


def test_pages_are_those_of_pylance(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    ds.create_scalar_index("a", name="ours")
    lance.dataset(ds.uri).create_scalar_index("a", "BTREE", name="theirs")
    ours, theirs = (_files(ds.uri, name) for name in ("ours", "theirs"))
    assert ours.keys() == theirs.keys() == {"page_data.lance", "page_lookup.lance"}
    for name in ours:
        mine, others = ours[name].read_all().to_table(), theirs[name].read_all().to_table()
        assert mine.schema.equals(others.schema)
        assert ours[name].metadata().schema.metadata == theirs[name].metadata().schema.metadata
        if name == "page_lookup.lance":
            assert mine.equals(others)
        else:
            assert mine["values"].equals(others["values"])
    stats = lance.dataset(ds.uri).stats
    mine, others = stats.index_stats("ours"), stats.index_stats("theirs")
    told = ("index_type", "segments", "num_indexed_rows", "num_indexed_fragments", "num_unindexed_rows")
    assert {key: mine[key] for key in told} == {key: others[key] for key in told}


def test_entry_says_what_pylance_says(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", True)
    ds.create_scalar_index("a", name="ours")
    lance.dataset(ds.uri).create_scalar_index("a", "BTREE", name="theirs")
    ours, theirs = (_described(ds.uri, name) for name in ("ours", "theirs"))
    for told in ("index_type", "type_url", "fields", "field_names", "num_rows_indexed", "details"):
        assert getattr(ours, told) == getattr(theirs, told)
    mine, others = ours.segments[0], theirs.segments[0]
    assert (mine.index_version, mine.fragment_ids) == (others.index_version, others.fragment_ids)
    assert mine.dataset_version_at_last_update + 1 == others.dataset_version_at_last_update


def test_an_index_is_replaced(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    ds.create_scalar_index("a")
    before = _described(ds.uri, "a_idx").segments[0].uuid
    with pytest.raises(ValueError, match="replace=True"):
        ds.create_scalar_index("a", replace=False)
    ds.create_scalar_index("a")
    assert [segment.uuid for segment in _described(ds.uri, "a_idx").segments] != [before]
    with pytest.raises(ValueError, match="another column"):
        ds.create_scalar_index("f", name="a_idx")


def test_indices_of_several_types_stand_side_by_side(tmp_path: Path) -> None:
    """The second has a number in its name, as in pylance, which gives the same names on the same table."""
    ds = made(tmp_path / "t", "2.1", False)
    theirs = lance.write_dataset(ds.to_table(), tmp_path / "theirs")
    for kind in ("BTREE", "BITMAP", "BTREE", "ZONEMAP", "BITMAP"):
        ds.create_scalar_index("a", kind)
        theirs.create_scalar_index("a", kind)
        found = [(index.name, index.index_type) for index in ds.describe_indices()]
        assert found == [(index.name, index.index_type) for index in theirs.describe_indices()]
    assert [name for name, _ in found] == ["a_idx", "a_idx_2", "a_idx_3"]
    check_answers(ds.uri, ("a = 7", "a is null"))
    ds.drop_index("a_idx")
    ds.create_scalar_index("a", "BITMAP")
    assert {index.name: index.index_type for index in ds.describe_indices()}["a_idx"] == "Bitmap"
    with pytest.raises(ValueError, match="'a_idx': choose another name"):
        ds.create_scalar_index("a", "BITMAP", replace=False)


def test_some_fragments_are_covered(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    ds.create_scalar_index("a", fragment_ids=[1])
    assert _described(ds.uri, "a_idx").segments[0].fragment_ids == {1}
    check_answers(ds.uri, ("a = 7", "a is null"))
    with pytest.raises(ValueError, match="no fragment 9"):
        ds.create_scalar_index("a", fragment_ids=[9])


def test_an_index_without_training_covers_nothing(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    ds.create_scalar_index("a", train=False)
    assert _described(ds.uri, "a_idx").num_rows_indexed == 0
    check_answers(ds.uri, ("a = 7", "a is null"), must_use=False)
    theirs = lance.dataset(ds.uri)
    theirs.optimize.optimize_indices()
    assert _described(ds.uri, "a_idx").num_rows_indexed == ds.count_rows()
    check_answers(ds.uri, ("a = 7", "a is null"))


def test_rows_of_later_writes_are_found(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", True)
    ds.create_scalar_index("a")
    ds.update({"a": "a + 1"}, where="a = 7")
    ds.delete("a = 9")
    lancecy.write_dataset(ds.head(50), ds.uri, mode="append")
    check_answers(ds.uri, ("a = 7", "a = 8", "a = 9", "a is null"))
    lance.dataset(ds.uri).optimize.optimize_indices()
    check_answers(ds.uri, ("a = 7", "a = 8", "a = 9", "a is null"))


def test_empty_tables_have_indices(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "t")
    ds.create_scalar_index("a")
    check_answers(ds.uri, ("a = 7",), must_use=False)


def test_indices_are_listed_and_described_as_pylance_does(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    assert not ds.has_index
    for column, index_type in (
        ("a", "BTREE"),
        ("st.x", "ZONEMAP"),
        ("s", "BITMAP"),
        ("l", "LABEL_LIST"),
        ("f", "BLOOMFILTER"),
    ):
        ds.create_scalar_index(column, index_type)
    assert ds.has_index
    lancecy.write_dataset(ds.head(50), ds.uri, mode="append")
    ds, theirs = lancecy.dataset(ds.uri), lance.dataset(ds.uri)
    with pytest.warns(DeprecationWarning, match="list_indices"):
        listed = [{**index, "fragment_ids": set(index["fragment_ids"])} for index in theirs.list_indices()]
    assert ds.list_indices() == listed
    assert len(ds.describe_indices()) == 5
    for mine, other in zip(ds.describe_indices(), theirs.describe_indices(), strict=True):
        for told in ("name", "index_type", "type_url", "num_rows_indexed", "total_size_bytes"):
            assert getattr(mine, told) == getattr(other, told)
        assert (mine.fields, mine.field_names) == (other.fields, other.field_names)
        (one,), (another,) = mine.segments, other.segments
        for told in ("uuid", "fragment_ids", "index_version", "size_bytes", "base_id"):
            assert getattr(one, told) == getattr(another, told)
        assert ds.index_statistics(mine.name) == theirs.stats.index_stats(mine.name)
        assert ds.stats.index_stats(mine.name) == ds.index_statistics(mine.name)


ALL = (("a", "BTREE"), ("s", "BITMAP"), ("l", "LABEL_LIST"), ("u", "ZONEMAP"), ("f", "BLOOMFILTER"))
CHANGED = ("a = 7", "a = 8", "a is null", "s = 'ab'", "u > 9223372036854775900", "f = 2.5", *LISTS)
UNTYPED = (
    "a = 7",
    "a = 8",
    "a is null",
    "s = 'ab'",
    "s is null",
    "array_has(l, 'b')",
    "array_has(l, 'missing')",
)


def _changed(path: Path, stable: bool) -> lancecy.Dataset:
    """A table with an index of each type, rows of which changed since."""
    ds = made(path, "2.1", stable)
    for column, index_type in ALL:
        ds.create_scalar_index(column, index_type)
    ds.update({"a": "a + 1", "s": "'ab'"}, where="a = 7 or s = 'zz'")
    ds.delete("a = 9")
    ds.merge_insert("u").when_matched_update_all().execute(
        pa.table({"u": ds.to_table(["u"], limit=5)["u"], "a": np.full(5, 8)})
    )
    return lancecy.write_dataset(ds.head(50), ds, mode="append")


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("merged", [None, 0, 1, 5])
def test_indices_are_optimized(tmp_path: Path, stable: bool, merged: int | None) -> None:
    ds = _changed(tmp_path / "t", stable)
    check_answers(ds.uri, CHANGED)
    version = ds.version
    ds.optimize.optimize_indices(num_indices_to_merge=merged)
    assert ds.version == version + 1
    for index in ds.describe_indices():
        stats = ds.index_statistics(index.name)
        assert stats["num_unindexed_fragments"] == 0
        # Rows were updated, which segments that name rows by stable id know by their old values.
        is_merged = merged != 0 or (stable and index.index_type in ("Bitmap", "LabelList"))
        assert stats["num_segments"] == (1 if is_merged else 2)
        assert lance.dataset(ds.uri).stats.index_stats(index.name)["num_unindexed_rows"] == 0
    check_answers(ds.uri, CHANGED)
    ds.optimize.optimize_indices(num_indices_to_merge=merged)
    assert ds.version == version + 1
    lancecy.write_dataset(ds.head(50), ds.uri, mode="append")
    lance.dataset(ds.uri).optimize.optimize_indices()
    check_answers(ds.uri, CHANGED)


@pytest.mark.parametrize("kind", ["BITMAP", "LABEL_LIST"])
def test_old_values_of_updated_rows_are_in_no_segment(tmp_path: Path, kind: str) -> None:
    """pylance takes the rows of a segment from every fragment that any segment covers."""
    old, new = ("'old'", "'new'") if kind == "BITMAP" else ("['old']", "['new']")
    value: Any = "old" if kind == "BITMAP" else ["old"]
    rows = pa.table({"id": np.arange(90), "v": pa.array([value] * 90)})
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=30, enable_stable_row_ids=True)
    ds.create_scalar_index("v", kind)
    asked = f"v = {old}" if kind == "BITMAP" else f"array_has_any(v, {old})"
    for step, segments in ((0, 1), (1, 1), (2, 2)):
        if step == 2:  # new rows may get a segment of their own
            ds.append(rows.slice(0, 5))
        else:
            ds.update({"v": new if kind == "BITMAP" else f"make_array({new[1:-1]})"}, f"id % 3 = {step}")
        ds.optimize.optimize_indices(num_indices_to_merge=0)
        assert ds.index_statistics("v_idx")["num_segments"] == segments
        expected = 90 - 30 * (min(step, 1) + 1) + (5 if step == 2 else 0)
        for uses in (True, False):
            found = lance.dataset(ds.uri).scanner(filter=asked, use_scalar_index=uses).to_table()
            assert found.num_rows == ds.count_rows(asked) == expected


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "LABEL_LIST", "ZONEMAP", "BLOOMFILTER"])
def test_old_values_of_columns_changed_in_place_are_in_no_segment(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    """pylance takes the rows of a segment from every fragment that any segment covers."""
    is_list = kind == "LABEL_LIST"

    def values(each: list[Any]) -> pa.Array:
        listed = [[v] if v is not None else None for v in each]
        return pa.array(listed if is_list else each, pa.list_(pa.int32()) if is_list else pa.int32())

    rows = pa.table({"id": range(20), "k": values([None, 7] * 10), "z": range(20)})
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=10, enable_stable_row_ids=stable)
    ds.create_scalar_index("k", kind)
    ds.append(rows.slice(0, 5))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    assert ds.index_statistics("k_idx")["num_segments"] == 2
    changed = pa.table({"id": np.arange(5, 10), "k": values([3] * 5)})
    ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(changed)
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    asked = ["array_has(k, 7)", "NOT array_has(k, 7)"] if is_list else ["k = 7", "k > 5", "k = 3"]
    check_answers(ds.uri, (*asked, "k IS NULL"), must_use=False)


def test_a_column_whose_whole_file_was_replaced_is_in_no_old_segment(tmp_path: Path) -> None:
    rows = pa.table({"k": [7] * 20})
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=10)
    ds.create_scalar_index("k")
    last = ds.get_fragments()[1]
    row_ids = pa.array(range(1 << 32, (1 << 32) + 10), pa.uint64())
    changed, fields = last.update_columns(
        pa.table({"_rowid": row_ids, "k": [3] * 10}), left_on="_rowid", right_on="_rowid"
    )
    assert len(changed.files) == 1
    update = lancecy.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    ds = lancecy.commit(ds, update, read_version=ds.version)
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    check_answers(ds.uri, ("k = 7", "k = 3"))


def test_segments_stay_where_only_another_column_was_changed_in_place(tmp_path: Path) -> None:
    def rows(start: int, value: float | None) -> pa.Table:
        ids = np.arange(start, start + 10)
        return pa.table({"id": ids, "x": ids % 3, "late": pa.array([value] * 10, pa.float64())})

    ds = lancecy.write_dataset(rows(0, 1.0), tmp_path / "t")
    ds.create_scalar_index("x")
    for number in (1, 2):
        ds.append(rows(10 * number, None))
        filled = rows(10 * number, 2.0).select(["id", "late"])
        ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(filled)
        ds.optimize.optimize_indices(num_indices_to_merge=0)
        assert ds.index_statistics("x_idx")["num_segments"] == number + 1
    ds.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    ds.append(rows(30, None))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    assert ds.index_statistics("x_idx")["num_segments"] == 4
    check_answers(ds.uri, ("x = 1", "x = 2"))


def test_segments_are_merged_and_made_anew(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", True)
    ds.create_scalar_index("a")
    ds.create_scalar_index("s", "BITMAP")
    for _ in range(3):
        ds = lancecy.write_dataset(ds.head(50), ds, mode="append")
        ds.optimize.optimize_indices(num_indices_to_merge=0, index_names=["a_idx"])
    told = ds.index_statistics("a_idx")
    assert (told["num_segments"], told["num_unindexed_rows"]) == (4, 0)
    assert ds.index_statistics("s_idx")["num_unindexed_fragments"] == 3
    ds.optimize.optimize_indices(num_indices_to_merge=2, index_names=["a_idx"])
    assert ds.index_statistics("a_idx")["num_indexed_rows_per_delta"][-1] == 100
    check_answers(ds.uri, ("a = 7", "s = 'ab'"))
    before = {index["uuid"] for index in ds.list_indices()}
    ds.optimize.optimize_indices(retrain=True)
    assert [ds.index_statistics(name)["num_segments"] for name in ("a_idx", "s_idx")] == [1, 1]
    assert before.isdisjoint(index["uuid"] for index in ds.list_indices())
    check_answers(ds.uri, ("a = 7", "s = 'ab'"))


def test_indices_of_pylance_are_optimized(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", True)
    theirs = lance.dataset(ds.uri)
    for column, index_type in ALL:
        theirs.create_scalar_index(column, index_type)
    theirs.create_scalar_index("s", "NGRAM", name="grams")
    ds = lancecy.write_dataset(ds.head(50), ds.uri, mode="append")
    ds.optimize.optimize_indices()
    unindexed = {
        each.name: ds.index_statistics(each.name)["num_unindexed_rows"] for each in ds.describe_indices()
    }
    assert unindexed == {f"{column}_idx": 0 for column, _ in ALL} | {"grams": 50}
    check_answers(ds.uri, CHANGED, must_use=False)
    with pytest.raises(UnsupportedError, match="NGram"):
        ds.optimize.optimize_indices(index_names=["grams"])
    with pytest.raises(NotFoundError, match="nothing"):
        ds.optimize.optimize_indices(index_names=["nothing"])
    with pytest.raises(ValueError, match="negative"):
        ds.optimize.optimize_indices(num_indices_to_merge=-1)


@pytest.mark.parametrize("stable", [False, True])
def test_indices_cover_compacted_rows(tmp_path: Path, stable: bool) -> None:
    ds = _changed(tmp_path / "t", stable)
    ds.optimize.optimize_indices()
    before = {index["name"]: index["uuid"] for index in ds.list_indices()}
    ds.delete("a = 10")
    ds.optimize.compact_files()
    assert len(ds.get_fragments()) == 1
    for index in ds.describe_indices():
        assert index.num_rows_indexed == ds.count_rows(), index.name
        assert lance.dataset(ds.uri).stats.index_stats(index.name)["num_indexed_rows"] == ds.count_rows()
    kept = {index["name"] for index in ds.list_indices() if index["uuid"] == before[index["name"]]}
    assert kept == ({"s_idx", "l_idx"} if stable else set())
    check_answers(ds.uri, CHANGED)
    lancecy.write_dataset(ds.head(50), ds.uri, mode="append")
    theirs = lance.dataset(ds.uri)
    theirs.optimize.optimize_indices()
    theirs.optimize.compact_files()
    check_answers(ds.uri, CHANGED, must_use=False)


def test_compacted_rows_that_no_index_covered_stay_uncovered(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", True)
    ds.create_scalar_index("s", "BITMAP")
    ds.create_scalar_index("a")
    for _ in range(2):
        ds = lancecy.write_dataset(ds.head(50), ds, mode="append")
    ds.update({"s": "'ab'"}, where="a = 8")
    version = ds.version
    ds.optimize.compact_files()
    assert ds.version == version + 1
    assert all(ds.index_statistics(name)["num_unindexed_rows"] >= 100 for name in ("a_idx", "s_idx"))
    check_answers(ds.uri, ("a = 8", "s = 'ab'", "s = 'zz'"))


def test_an_index_that_cannot_be_remade_covers_less(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    ds.create_scalar_index("a")
    indices = tmp_path / "t" / "_indices"
    indices.rename(tmp_path / "gone")
    indices.write_text("no folder")
    with pytest.warns(RuntimeWarning, match="optimize_indices"):
        ds.optimize.compact_files()
    assert len(ds.get_fragments()) == 1
    assert ds.describe_indices()[0].num_rows_indexed == 0


def _untyped(path: Path, stable: bool) -> lancecy.Dataset:
    """A table with indices of pylance, whose entries are those of old releases, which did not state the type."""
    ds = made(path, "2.1", stable)
    for column, index_type in ALL[:3]:
        lance.dataset(ds.uri).create_scalar_index(column, index_type)
    ds = ds.checkout_latest()
    new = [index_view(entry) for entry in ds._snapshot.indices()]
    old = [replace(index, index_details=None, index_version=0, files=None) for index in new]
    if stable:
        old[0] = _old_b_tree(ds, is_stated=False)
    return lancecy.commit(ds, lancecy.LanceOperation.CreateIndex(old, new))


def _old_b_tree(
    ds: lancecy.Dataset, is_stated: bool, fragments: Sequence[lancecy.LanceFragment] | None = None
) -> lancecy.Index:
    """A B-tree that names rows by stable ids, as pylance does not make any more."""
    plan = IndexPlan.of(ds._snapshot.schema, "a", "BTREE", None)
    plan = replace(plan, type=replace(plan.type, has_row_ids=True, stable_version=0))
    chosen = ds.get_fragments() if fragments is None else fragments
    index = index_view(trained(ds.context, plan, [fragment.fragment_id for fragment in chosen]).entry)
    return index if is_stated else replace(index, index_details=None)


def _check_covered(ds: lancecy.Dataset) -> None:
    """Check that all indices know all rows, and that both libraries answer by them as they do without."""
    for index in ds.describe_indices():
        assert ds.index_statistics(index.name)["num_unindexed_rows"] == 0
        assert lance.dataset(ds.uri).stats.index_stats(index.name)["num_unindexed_rows"] == 0
    check_answers(ds.uri, UNTYPED)
    for text in UNTYPED:
        found = ds.to_table(["_rowid"], filter=text)
        assert found.equals(ds.to_table(["_rowid"], filter=text, use_scalar_index=False)), text
        explained = ds.scanner(filter=text).explain().fragments
        assert any(source.indices for line in explained for source in line.sources), text


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("merged", [None, 0, 5])
def test_indices_that_state_no_type_are_optimized(tmp_path: Path, stable: bool, merged: int | None) -> None:
    ds = _untyped(tmp_path / "t", stable)
    assert {index.index_type for index in ds.describe_indices()} == {"Unknown"}
    for index in ds.describe_indices():  # statistics look into the files
        told = ds.index_statistics(index.name)
        assert told == lance.dataset(ds.uri).stats.index_stats(index.name)
        assert told["index_type"] != "Unknown"
    ds.update({"a": "a + 1", "s": "'ab'", "l": "make_array('b')"}, where="a = 7 or s = 'zz'")
    ds = lancecy.write_dataset(ds.head(50), ds, mode="append")
    ds.optimize.optimize_indices(num_indices_to_merge=merged)
    _check_covered(ds)
    if merged != 0:
        assert {index.index_type for index in ds.describe_indices()} == {"BTree", "Bitmap", "LabelList"}
    lance.dataset(ds.uri).optimize.optimize_indices()
    _check_covered(ds.checkout_latest())


@pytest.mark.parametrize("stable", [False, True])
def test_indices_that_state_no_type_cover_compacted_rows(tmp_path: Path, stable: bool) -> None:
    ds = _untyped(tmp_path / "t", stable)
    ds.delete("a = 10")
    ds.optimize.compact_files()
    assert len(ds.get_fragments()) == 1
    if stable:  # their files name rows by ids, which stay
        ds.optimize.optimize_indices()
    _check_covered(ds)


@pytest.mark.parametrize("is_stated", [False, True])
def test_b_trees_of_ids_are_not_mixed_with_those_of_addresses(tmp_path: Path, is_stated: bool) -> None:
    """pylance refuses to read an index that has both."""
    ds = made(tmp_path / "t", "2.1", True)
    first = _old_b_tree(ds, is_stated)
    ds = lancecy.commit(ds, lancecy.LanceOperation.CreateIndex([first], []))
    for _ in range(2):
        ds = lancecy.write_dataset(ds.head(50), ds, mode="append")
    second = _old_b_tree(ds, is_stated, ds.get_fragments()[-2:])
    with pytest.raises(UnsupportedError, match=r"names rows by their stable ids"):
        ds.merge_existing_index_segments([first, second])
    ds = lancecy.commit(ds, lancecy.LanceOperation.CreateIndex([second], []))
    filters = ("a = 7", "a = 8", "a is null")
    check_answers(ds.uri, filters)
    ds.delete("a = 10")
    ds.optimize.compact_files(target_rows_per_fragment=100)
    assert len(ds.list_indices()) == 2
    assert ds.index_statistics("a_idx")["num_unindexed_fragments"] == (0 if is_stated else 1)
    check_answers(ds.uri, filters)
    ds = lancecy.write_dataset(ds.head(50), ds, mode="append")
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    assert [index["type"] for index in ds.list_indices()] == ["BTree"]
    assert ds.index_statistics("a_idx")["num_unindexed_rows"] == 0
    check_answers(ds.uri, filters)


def test_files_of_no_known_index_are_left_alone(tmp_path: Path) -> None:
    """An index of vectors or words of an old release, say."""
    ds = _untyped(tmp_path / "t", False)
    for file in (tmp_path / "t" / "_indices").rglob("*.lance"):
        file.rename(file.with_suffix(".idx"))
    ds = lancecy.write_dataset(ds.head(50), ds, mode="append")
    version = ds.version
    ds.optimize.optimize_indices()
    assert ds.version == version
    with pytest.raises(UnsupportedError, match="'a_idx' is of type Unknown"):
        ds.optimize.optimize_indices(index_names=["a_idx"])


def test_upkeep_asks_only_for_files_that_it_needs() -> None:
    """The files of vector indices of old releases were looked for at each compaction, and those of rows that did not move."""
    store = CountingStore(MemoryStore())
    register_store("asked", lambda uri, options, **_: store)
    rows = pa.table({"a": range(100), "v": pa.array([[1.0, 2.0]] * 100, pa.list_(pa.float32(), 2))})
    ds = lancecy.write_dataset(rows, "asked://here/t")
    ds.create_scalar_index("a", "BTREE")
    (new,) = (index_view(entry) for entry in ds._snapshot.indices())
    old = replace(new, index_details=None, index_version=0, files=None)
    vectors = replace(old, uuid=str(uuid.uuid4()), name="v_idx", fields=[1])
    ds = lancecy.commit(ds, lancecy.LanceOperation.CreateIndex([old, vectors], [new]))
    for _ in range(2):
        ds = lancecy.write_dataset(rows[:10], ds, mode="append")
    store.clear()
    ds.optimize.compact_files(target_rows_per_fragment=50)
    assert len(ds.get_fragments()) == 2
    assert not any("_indices" in request.path for request in store.requests)
    ds.optimize.optimize_indices()
    assert {str(vectors.uuid) in request.path for request in store.requests} == {False}
    assert ds.index_statistics("a_idx")["num_unindexed_rows"] == 0


def test_an_index_is_dropped(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    ds.create_scalar_index("a")
    ds.create_scalar_index("f")
    ds.drop_index("a_idx")
    assert [index["name"] for index in ds.list_indices()] == ["f_idx"]
    check_answers(ds.uri, ("a = 7",), must_use=False)
    for act in (ds.drop_index, ds.index_statistics):
        with pytest.raises(NotFoundError, match="'f_idx'"):
            act("a_idx")


def test_progress_counts_rows(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    steps: list[Step] = []
    ds.create_scalar_index("a", progress=steps.append)
    assert steps[-1] == Step("index", ds.count_rows(), ds.count_rows(), "rows")


@pytest.mark.parametrize(
    ("column", "index_type", "error", "text"),
    [
        ("missing", "BTREE", ColumnNotFoundError, "missing"),
        ("l", "BTREE", TypeError, "list"),
        ("st", "BTREE", TypeError, "struct"),
        ("a", "BTREES", ValueError, "BTREE"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, column: str, index_type: str, error: type[Exception], text: str
) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    version = ds.version
    with pytest.raises(error, match=text):
        ds.create_scalar_index(column, index_type)
    assert lancecy.dataset(ds.uri).version == version
    with pytest.raises(ValueError, match="__lance_"):
        ds.create_scalar_index("a", name="__lance_a")


def test_a_failed_build_leaves_no_files(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)

    def stopped(step: Step) -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        ds.create_scalar_index("a", progress=stopped)
    assert not os.path.exists(tmp_path / "t" / "_indices")
    assert lance.dataset(ds.uri).describe_indices() == []


def test_two_writers_replace_one_index(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    other = lancecy.dataset(ds.uri)
    ds.create_scalar_index("a")
    other.create_scalar_index("a")
    assert len(_described(ds.uri, "a_idx").segments) == 1
    check_answers(ds.uri, ("a = 7",))


def test_fragments_changed_meanwhile_are_not_covered(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "2.1", False)
    other = lancecy.dataset(ds.uri)
    ds.merge_insert("u").when_matched_update_all().execute(
        pa.table({"u": ds.to_table(["u"], limit=5)["u"], "a": np.full(5, 12345)})
    )
    other.create_scalar_index("a")
    check_answers(ds.uri, ("a = 7", "a = 12345"))


def _described(uri: str, name: str) -> Any:
    return next(index for index in lance.dataset(uri).describe_indices() if index.name == name)


def _entry(uri: str, name: str) -> Any:
    (made,) = (
        index
        for version in lancecy.dataset(uri).versions()
        if (found := lancecy.dataset(uri).read_transaction(version["version"])) is not None
        for index in getattr(found.operation, "new_indices", ())
        if index.name == name
    )
    return made


def _files(uri: str, name: str) -> dict[str, Any]:
    from lance.file import LanceFileReader

    folder = Path(uri, "_indices", str(_described(uri, name).segments[0].uuid))
    return {path.name: LanceFileReader(str(path)) for path in folder.iterdir()}


def test_updated_rows_stay_in_indices_of_other_columns(tmp_path: Path) -> None:
    """As after pylance's update, indices by stable row ids cover the rows where they are now; others do not."""
    covered: dict[str, dict[str, list[int]]] = {}
    for name, library in (("ours", lancecy), ("theirs", lance)):
        ds = made(tmp_path / name, "2.1", True)
        for column, index_type in (*ALL, ("d", "BITMAP")):
            ds.create_scalar_index(column, index_type)
        library.dataset(ds.uri).update({"d": "date '1970-01-05'", "f": "2.5"}, where="a = 7 or s = 'zz'")
        theirs = lance.dataset(ds.uri)
        covered[name] = {
            index.name: sorted(index.segments[0].fragment_ids) for index in theirs.describe_indices()
        }
        check_answers(ds.uri, (*CHANGED, "d = date '1970-01-05'"))
        newest = max(fragment.fragment_id for fragment in theirs.get_fragments())
        assert {each for each, ids in covered[name].items() if newest in ids} >= {"s_idx", "l_idx"}
        # Rows of a fragment that the index does not cover are not taken in with the others.
        appended = lancecy.write_dataset(ds.head(50), ds.uri, mode="append")
        appended.update({"f": "3.5"}, where="a = 8 or s = 'ab'")
        check_answers(ds.uri, (*CHANGED, "f = 3.5"))
    assert covered["ours"] == covered["theirs"]
