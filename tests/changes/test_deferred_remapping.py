"""Compactions of pylance that leave the remapping of indices for later: answers are those of a scan, and changes go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

FRAGMENT_REUSE = "__lance_frag_reuse"
FILTERS = ("a = 3", "a = 25", "a >= 0", "a > 12 AND a < 33", "b = 7", "z < 20")
KINDS = {"a": "BTREE", "b": "BITMAP", "z": "ZONEMAP"}


def deferred(folder: Path) -> str:
    """A table whose indices name rows by addresses from before a compaction, and list its new fragments."""
    rows = pa.table({"a": range(40), "b": [n % 10 for n in range(40)], "z": range(40), "c": [0] * 40})
    theirs = lance.write_dataset(rows, folder / "t", max_rows_per_file=5)
    for column, kind in KINDS.items():
        theirs.create_scalar_index(column, kind)
    theirs.optimize.compact_files(target_rows_per_fragment=10, defer_index_remap=True)
    theirs.update({"c": "c + 1"}, where="a = 3")
    return str(folder / "t")


def check(uri: str, *, by_both: bool = True) -> None:
    ds, theirs = lancecy.dataset(uri), lance.dataset(uri)
    assert ds.verify().is_ok
    theirs.validate()
    rows = theirs.to_table().to_pylist()
    for text in FILTERS:
        expected = sorted(ds.to_table(["a"], filter=text, use_scalar_index=False)["a"].to_pylist())
        for each in (ds, theirs) if by_both else (ds,):
            found = each.scanner(columns=["a"], filter=text, use_scalar_index=True).to_table()
            assert sorted(found["a"].to_pylist()) == expected, (text, type(each))
        assert ds.count_rows(text) == len(expected)
    assert len(rows) == ds.count_rows()


def names(ds: Any) -> set[str]:
    return {entry.name for entry in ds._snapshot.indices()}


def test_indices_do_not_hide_rows_of_the_new_fragments(tmp_path: Path) -> None:
    """A later commit of pylance lists these fragments in entries whose files know the old addresses only."""
    uri = deferred(tmp_path)
    assert FRAGMENT_REUSE in names(lancecy.dataset(uri))
    check(uri)
    theirs = lance.dataset(uri)
    theirs.optimize.compact_files(target_rows_per_fragment=20, defer_index_remap=True)
    check(uri)
    theirs.update({"c": "c + 1"}, where="a = 30")
    check(uri)
    lancecy.dataset(uri).update({"c": "c + 1"}, where="a = 31")
    check(uri)


def test_indices_do_not_hide_rows_that_are_compacted_again(tmp_path: Path) -> None:
    """A later compaction of pylance lists its fragments in indices that it copies with the first addresses; it then misses rows."""
    uri = deferred(tmp_path)
    theirs = lance.dataset(uri)
    theirs.optimize.compact_files(target_rows_per_fragment=100)
    found = theirs.scanner(filter="a >= 0", use_scalar_index=True).to_table()
    assert found.num_rows < 40
    check(uri, by_both=False)
    ds = lancecy.dataset(uri)
    ds.optimize.compact_files(target_rows_per_fragment=1000)
    check(uri, by_both=False)
    ds.optimize.optimize_indices()
    check(uri)


def test_grams_are_not_moved_by_old_addresses(tmp_path: Path) -> None:
    rows = pa.table({"g": [f"gram{n % 4} tail" for n in range(40)], "c": [0] * 40})
    theirs = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=5)
    theirs.create_scalar_index("g", "NGRAM")
    theirs.optimize.compact_files(target_rows_per_fragment=10, defer_index_remap=True)
    theirs.update({"c": "c + 1"}, where="g = 'gram3 tail'")
    ds = lancecy.dataset(theirs.uri)
    for _ in range(2):
        for each in (ds, lance.dataset(theirs.uri)):
            found = each.scanner(filter="contains(g, 'ram2')", use_scalar_index=True).to_table()
            assert found.num_rows == 10
        ds.optimize.compact_files(target_rows_per_fragment=1000)


def _columns(ds: Any) -> None:
    merge = ds.merge_insert("a").write_mode("rewrite_columns").when_matched_update_all()
    merge.execute({"a": [4, 25], "b": [7, 8], "z": [90, 91]})


CHANGES: dict[str, Callable[[Any], object]] = {
    "columns in place": _columns,
    "added column": lambda ds: ds.add_columns({"d": "a + 1"}),
    "compaction": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=100),
    "optimized": lambda ds: ds.optimize.optimize_indices(),
    "further segments": lambda ds: ds.optimize.optimize_indices(num_indices_to_merge=0),
    "one index": lambda ds: ds.optimize.optimize_indices(index_names=["b_idx"], num_indices_to_merge=0),
    "new index": lambda ds: ds.create_scalar_index("a", "BITMAP"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_listed", [False, True])
def test_changes_go_on_under_indices_that_wait(tmp_path: Path, name: str, is_listed: bool) -> None:
    uri = deferred(tmp_path)
    if not is_listed:
        lance.dataset(uri, version=lance.dataset(uri).version - 1).restore()
    CHANGES[name](lancecy.dataset(uri))
    check(uri)
    theirs = lance.dataset(uri)
    theirs.update({"c": "c + 1"}, where="a = 25")
    check(uri)
    theirs.optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
    theirs.delete("a = 12")
    check(uri)
    theirs.optimize.optimize_indices()
    check(uri)


def test_optimized_indices_wait_for_nothing(tmp_path: Path) -> None:
    uri = deferred(tmp_path)
    ds = lancecy.dataset(uri)
    ds.optimize.optimize_indices()
    assert names(ds) == {f"{column}_idx" for column in KINDS}
    assert [ds.index_statistics(name)["num_unindexed_rows"] for name in names(ds)] == [0, 0, 0]
    assert "a_idx" in str(ds.scanner(filter="a = 25").explain())
    version = ds.version
    ds.optimize.optimize_indices()
    assert ds.version == version
