"""Bases of old versions, followed through relocations and restores to where they are by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.table.manifest import BasePath
from lancecy.table.operations.restore import BasesAt, followed
from tests.helpers.folded import folded


def at(version: int, restored: int | None = None, **paths: str) -> BasesAt:
    """A version whose bases b1, b2 and so on are at these paths."""
    bases = {int(name[1:]): BasePath(int(name[1:]), path) for name, path in paths.items()}
    return BasesAt(version, bases, restored)


@folded(
    ("since", "path"),
    [
        ([], "/a"),
        ([at(3, b1="/b")], "/b"),
        ([at(3, b1="/b"), at(4, b1="/c", b2="/a")], "/c"),
        # Versions between that were removed by a cleanup.
        ([at(9, b1="/c")], "/c"),
        # Taken out by a restore and registered anew: another base under the same id.
        ([at(3, restored=1), at(4, b1="/x")], "/a"),
        ([at(3, b1="/b"), at(4, restored=1), at(5, b1="/x"), at(6, b1="/y")], "/b"),
        # A restore brings the same base back.
        ([at(3, restored=1), at(4, b1="/x"), at(5, restored=2, b1="/a"), at(6, b1="/b")], "/b"),
        ([at(3, restored=1), at(4, b1="/x"), at(5, restored=2, b1="/a"), at(6, restored=4, b1="/x")], "/a"),
        # What was restored since is another base than the old one's.
        ([at(3, b1="/b"), at(4, restored=1), at(5, restored=0, b1="/x")], "/b"),
        # Another writer's restore brought the old path back.
        ([at(3, b1="/b"), at(4, restored=2, b1="/a")], "/a"),
    ],
)
def test_a_base_is_followed_to_where_it_is(since: list[BasesAt], path: str) -> None:
    assert followed(2, [at(1), at(2, b1="/a"), *since]) == {1: BasePath(1, path)}


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)})


def values(ds: Any) -> list[int]:
    return sorted(ds.to_table()["n"].to_pylist())


def with_base(tmp_path: Path, name: str = "one", is_dataset_root: bool = False) -> lancecy.Dataset:
    """Version 1 has rows in its own folder, 2 a base, and 3 rows in that."""
    ds = lancecy.write_dataset(rows(1), tmp_path / "t", durability="none")
    ds.add_bases([lancecy.DatasetBasePath(tmp_path / name, name, is_dataset_root)])
    ds.append(rows(2), target_bases=[name])
    return ds


def moved(ds: lancecy.Dataset, name: str, path: Path) -> None:
    (base,) = [base for base in ds.base_paths.values() if base.name == name]
    Path(base.path).rename(path)
    ds.relocate_base(name, path)


@folded("is_dataset_root", [False, True])
def test_a_version_from_before_a_relocation_is_restored_to_where_its_files_are(
    is_dataset_root: bool, tmp_path: Path
) -> None:
    folder = tmp_path / f"{is_dataset_root}"
    ds = with_base(folder, is_dataset_root=is_dataset_root)
    moved(ds, "one", folder / "copy")
    ds.append(rows(3), target_bases=["one"])
    moved(ds, "one", folder / "copy2")
    ds.checkout_version(3).restore()
    ds = lancecy.dataset(folder / "t")
    assert values(ds) == [1, 2]
    assert [base.path for base in ds.base_paths.values()] == [str(folder / "copy2")]
    assert ds.verify()
    ds.append(rows(4), target_bases=["one"])
    assert values(ds) == [1, 2, 4]


def test_other_doors_to_a_restore_follow_bases_as_well(tmp_path: Path) -> None:
    ds = with_base(tmp_path)
    moved(ds, "one", tmp_path / "copy")
    lancecy.commit(ds.uri, lancecy.LanceOperation.Restore(3))
    assert values(lancecy.dataset(ds.uri)) == [1, 2]


def test_an_id_that_another_base_has_by_now_is_not_taken_for_it(tmp_path: Path) -> None:
    ds = with_base(tmp_path)
    moved(ds, "one", tmp_path / "copy")
    ds.checkout_version(1).restore()
    ds = lancecy.dataset(tmp_path / "t")
    ds.add_bases([lancecy.DatasetBasePath(tmp_path / "two", "two")])
    ds.append(rows(5), target_bases=["two"])
    version = ds.version
    assert [base.id for base in ds.base_paths.values()] == [1]
    ds.checkout_version(3).restore()
    assert values(lancecy.dataset(ds.uri)) == [1, 2]
    moved(lancecy.dataset(ds.uri), "one", tmp_path / "copy2")
    lancecy.dataset(ds.uri).checkout_version(version).restore()
    ds = lancecy.dataset(ds.uri)
    assert values(ds) == [1, 5]
    assert [base.name for base in ds.base_paths.values()] == ["two"]


def test_versions_that_were_cleaned_up_leave_the_newest_place(tmp_path: Path) -> None:
    ds = with_base(tmp_path)
    moved(ds, "one", tmp_path / "copy")
    ds.append(rows(3))
    (version,) = (tmp_path / "t" / "_versions").glob(f"{2**64 - 1 - 4:020}.manifest")
    version.unlink()
    ds.checkout_version(3).restore()
    assert values(lancecy.dataset(ds.uri)) == [1, 2]


def test_an_append_from_an_old_dataset_goes_to_where_the_base_is(tmp_path: Path) -> None:
    ds = with_base(tmp_path)
    old = lancecy.dataset(ds.uri)
    moved(ds, "one", tmp_path / "copy")
    old.append(rows(7), target_bases=["one"])
    lancecy.write_dataset(rows(8), ds.checkout_version(3), mode="append", target_bases=["one"])
    assert values(lancecy.dataset(ds.uri)) == [1, 2, 7, 8]
    assert not (tmp_path / "one").exists()


@pytest.mark.interop
def test_pylance_reads_and_extends_what_was_restored(tmp_path: Path) -> None:
    import lance

    ds = with_base(tmp_path)
    ds.delete("n = 1")
    moved(ds, "one", tmp_path / "copy")
    ds.checkout_version(4).restore()
    theirs = lance.dataset(ds.uri)
    theirs.validate()
    assert values(theirs) == [2]
    lance.write_dataset(rows(9), ds.uri, mode="append", target_bases=["one"])
    assert values(lancecy.dataset(ds.uri)) == [2, 9]
    assert values(lance.dataset(ds.uri)) == [2, 9]
    # Its own restore takes the bases as they were; ours mends that.
    lance.dataset(ds.uri, version=3).restore()
    lancecy.dataset(ds.uri).relocate_base("one", tmp_path / "copy")
    assert values(lance.dataset(ds.uri)) == values(lancecy.dataset(ds.uri)) == [1, 2]
