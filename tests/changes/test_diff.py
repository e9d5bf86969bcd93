"""The differences between versions of different branches, with branches made by pylance."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import NotFoundError, SchemaError

pytestmark = pytest.mark.interop


def words(numbers: Iterable[int], text: str = "w") -> pa.Table:
    found = list(numbers)
    return pa.table({"n": pa.array(found, pa.int64()), "word": [f"{text}{n}" for n in found]})


def made(place: Path, stable: bool = True) -> Any:
    """Rows 0 to 9 in two fragments, by pylance."""
    return lance.write_dataset(words(range(10)), place, enable_stable_row_ids=stable, max_rows_per_file=5)


def parted(place: Path, stable: bool = True) -> lancecy.Dataset:
    """Main: 100 and 101 more, 0 updated, 1 deleted. Branch "exp": 10 to 12 more, 0 and 7 updated, 3 deleted."""
    ds = made(place, stable)
    branch = ds.create_branch("exp", 1)
    branch.insert(words([10, 11, 12]))
    branch.update({"word": "'branch'"}, "n IN (0, 7)")
    branch.delete("n = 3")
    ds.insert(words([100, 101]))
    ds.update({"word": "'main'"}, "n = 0")
    ds.delete("n = 1")
    return lancecy.dataset(place)


def rows_of(found: Any, *kinds: str) -> set[tuple[Any, ...]]:
    return {(row["n"], row["word"]) for row in found.to_table().to_pylist() if row["_change_type"] in kinds}


def test_rows_of_two_branches_are_compared_by_their_ids(tmp_path: Path) -> None:
    ds = parted(tmp_path / "t")
    found = ds.diff(("exp", None))
    assert rows_of(found, "insert") == {(100, "w100"), (101, "w101"), (3, "w3")}
    assert rows_of(found, "delete") == {(10, "w10"), (11, "w11"), (12, "w12"), (1, "w1")}
    assert rows_of(found, "update_preimage") == {(0, "branch"), (7, "branch")}
    assert rows_of(found, "update_postimage") == {(0, "main"), (7, "w7")}
    assert (found.num_added, found.num_updated, found.num_removed) == (3, 2, 4)
    # Both branches gave out the row ids 10 and 11.
    ids = {row["n"]: row["_rowid"] for row in found.to_table().to_pylist()}
    assert (ids[10], ids[100]) == (10, 10)


def test_direction_is_from_the_other_to_this_one(tmp_path: Path) -> None:
    ds = parted(tmp_path / "t")
    there, back = ds.diff(("main", None), ("exp", None)), ds.diff(("exp", None))
    assert rows_of(there, "insert") == rows_of(back, "delete")
    assert rows_of(there, "update_preimage") == rows_of(back, "update_postimage")
    assert (there.num_added, there.num_updated, there.num_removed) == (4, 2, 3)


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize(
    "pair", [(("exp", None), ("main", None)), (("main", 2), ("exp", 3)), (4, 2), (("exp", 4), 1)]
)
def test_difference_leads_from_one_version_to_the_other(
    tmp_path: Path, stable: bool, pair: tuple[Any, Any]
) -> None:
    parted(tmp_path / "t", stable)
    ds = lance.dataset(str(tmp_path / "t"))
    old, new = ({(r["n"], r["word"]) for r in ds.checkout_version(v).to_table().to_pylist()} for v in pair)
    found = lancecy.dataset(tmp_path / "t").diff(*pair)
    assert (
        old - rows_of(found, "delete", "update_preimage") | rows_of(found, "insert", "update_postimage")
        == new
    )


def test_tables_without_row_ids_are_compared_by_fragment(tmp_path: Path) -> None:
    ds = parted(tmp_path / "t", stable=False)
    found = ds.diff(("exp", None))
    # Deletions are exact; rows that an update moved were removed on one side and added on the other.
    assert rows_of(found, "insert") == {(100, "w100"), (101, "w101"), (3, "w3"), (0, "main"), (7, "w7")}
    assert rows_of(found, "delete") == {(n, f"w{n}") for n in (10, 11, 12, 1)} | {
        (0, "branch"),
        (7, "branch"),
    }
    assert found.num_updated == 0


def test_compacted_fragments_without_row_ids_were_removed_and_added(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", stable=False)
    branch = ds.create_branch("exp", 1)
    branch.optimize.compact_files()
    found = lancecy.dataset(tmp_path / "t").diff(("exp", None))
    assert (found.num_added, found.num_updated, found.num_removed) == (10, 0, 10)
    ds = made(tmp_path / "stable")
    ds.create_branch("exp", 1).optimize.compact_files()
    same = lancecy.dataset(tmp_path / "stable").diff(("exp", None))
    assert (same.num_added, same.num_updated, same.num_removed) == (0, 0, 0)


def test_fragments_of_both_are_not_read_and_only_the_columns_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "t"
    ds = made(place)
    ds.create_branch("exp", 1).insert(words([10]))
    main_files = sorted((place / "data").glob("*.lance"))
    for path in main_files:
        path.write_bytes(b"not read" * 100)
    found = lancecy.dataset(place).diff(("exp", None), columns=["word"])
    assert found.to_table().schema.names == ["word", "_rowid", "_change_type", "_commit_version"]
    assert found.to_table()["word"].to_pylist() == ["w10"]
    (path,) = (place / "tree" / "exp" / "data").glob("*.lance")
    path.unlink()
    # Rows are counted from metadata.
    assert lancecy.dataset(place).diff(("exp", None)).num_removed == 1


def test_equal_version_numbers_of_updates_do_not_hide_them(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    branch = ds.create_branch("exp", 1)
    branch.update({"word": "'branch'"}, "n = 5")
    ds.update({"word": "'main'"}, "n = 5")
    found = lancecy.dataset(tmp_path / "t").diff(("exp", None))
    assert rows_of(found, "update_preimage") == {(5, "branch")}
    assert rows_of(found, "update_postimage") == {(5, "main")}


def test_new_columns_of_two_branches_are_told_apart(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    branch = ds.create_branch("exp", 1)
    branch.add_columns({"twice": "n * 2"})
    ds.add_columns({"thrice": "n * 3"})
    # Both have the field id 2.
    found = lancecy.dataset(tmp_path / "t").diff(("exp", None))
    assert (found.added_columns, found.removed_columns, found.changed_columns) == (
        ("thrice: int64",),
        ("twice: int64",),
        (),
    )
    rows = found.to_table().to_pylist()
    assert {(row["n"], row["thrice"]) for row in rows if row["_change_type"] == "update_postimage"} == {
        (n, n * 3) for n in range(10)
    }
    assert {row["thrice"] for row in rows if row["_change_type"] == "update_preimage"} == {None}


def test_branches_of_branches_and_siblings(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    dev = ds.create_branch("team/dev", 1)
    dev.insert(words([10]))
    child = dev.create_branch("team/child", ("team/dev", 2))
    child.insert(words([11]))
    sibling = ds.create_branch("other", 1)
    sibling.insert(words([12]))
    dev.insert(words([13]))
    ds = lancecy.dataset(tmp_path / "t")
    assert rows_of(ds.diff(("team/dev", None), ("team/child", None)), "insert") == {(11, "w11")}
    assert rows_of(ds.diff(("team/dev", None), ("team/child", None)), "delete") == {(13, "w13")}
    assert rows_of(ds.diff(1, ("team/child", None)), "insert") == {(10, "w10"), (11, "w11")}
    assert rows_of(ds.diff(("other", None), ("team/child", None)), "delete") == {(12, "w12")}
    assert ds.diff(("team/dev", 2), ("team/child", 2)).num_added == 0


def test_versions_are_named_by_tag_dataset_and_number(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    branch = ds.create_branch("exp", 1)
    branch.insert(words([10]))
    ds.tags.create("release", ("exp", 2))
    ds = lancecy.dataset(tmp_path / "t")
    branch_ds = lancecy.dataset(tmp_path / "t" / "tree" / "exp")
    assert ds.diff("release").num_removed == ds.diff(branch_ds).num_removed == 1
    # A number counts on the branch that is open.
    assert branch_ds.diff(1).num_added == branch_ds.diff(("main", 1)).num_added == 1
    assert ds.diff(1).num_added == 0


def test_newer_version_than_this_one(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(words(range(3)), tmp_path / "t", enable_stable_row_ids=True)
    ds.append(words([3]))
    found = ds.checkout_version(1).diff(2)
    assert (found.num_added, found.num_removed) == (0, 1)
    assert (found.old, found.new) == (2, 1)


def test_text_names_branches_and_counts(tmp_path: Path) -> None:
    found = parted(tmp_path / "t").diff(("exp", None))
    assert "4 (exp) to 4 (main)" in str(found)
    assert "3 added, 2 updated, 4 removed" in str(found)
    since = str(lancecy.dataset(tmp_path / "t").diff(1))
    assert "fragments added  2 (ids 2, 3)" in since
    assert "fragments with deletions  1 (id 0)" in since
    assert found.branches == ("exp", None)
    assert found.to_dict()["added_fragments"] == found.added_fragments
    assert "<table>" in found._repr_html_()


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    ds = parted(tmp_path / "t")
    with pytest.raises(NotFoundError, match=r"no branch 'exq'; it has exp"):
        ds.diff(("exq", None))
    with pytest.raises(NotFoundError, match="no version 99"):
        ds.diff(("exp", 99))
    with pytest.raises(ValueError, match="tuple as a version"):
        ds.diff(("exp",))  # type: ignore[arg-type]
    other = lancecy.write_dataset(words([1]), tmp_path / "other")
    with pytest.raises(ValueError, match="not branches of one table"):
        ds.diff(other)


def test_cast_column_is_refused_when_rows_are_asked_for(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    branch = ds.create_branch("exp", 1)
    branch.alter_columns({"path": "n", "data_type": pa.int32()})
    found = lancecy.dataset(tmp_path / "t").diff(("exp", None))
    assert found.changed_columns or found.removed_columns
    with pytest.raises(SchemaError, match="types changed"):
        found.to_table()
    only = lancecy.dataset(tmp_path / "t").diff(("exp", None), columns=["word"])
    assert only.num_added == 0


def test_workers_of_dask_read_each_version_from_its_own_branch(tmp_path: Path) -> None:
    ds = parted(tmp_path / "t")
    found = ds.diff(("exp", None))
    frame = lancecy.dask.diff(tmp_path / "t", ("exp", None), columns=["n"], blocksize="1kB")
    computed = frame.compute()
    assert sorted(zip(computed["n"], computed["_change_type"], strict=True)) == sorted(
        (row["n"], row["_change_type"]) for row in found.to_table().to_pylist()
    )


def test_diff_survives_a_pickle_and_equals_another(tmp_path: Path) -> None:
    ds = parted(tmp_path / "t")
    found = pickle.loads(pickle.dumps(ds.diff(("exp", None))))
    assert found == ds.diff(("exp", None))
    assert found.num_added == 3


@pytest.mark.parametrize("stable", [True, False])
def test_detached_versions_part_where_they_were_made(tmp_path: Path, stable: bool) -> None:
    ds = lancecy.write_dataset(words(range(3)), tmp_path / "t", enable_stable_row_ids=stable)
    new = lancecy.LanceFragment.create(ds, words([50]))
    aside = lancecy.commit(ds, lancecy.LanceOperation.Append([new]), detached=True)
    ds.append(words([60]))
    # Both rows have the same id.
    found = ds.diff(aside)
    assert (rows_of(found, "delete"), rows_of(found, "insert")) == ({(50, "w50")}, {(60, "w60")})
    back = ds.diff(ds, aside)
    assert (rows_of(back, "delete"), rows_of(back, "insert")) == ({(60, "w60")}, {(50, "w50")})
