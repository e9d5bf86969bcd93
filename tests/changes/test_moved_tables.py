"""Tables that were copied or renamed as a whole, with their branches."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import MissingFileError, NotFoundError, PathPolicyError
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import CountingStore

pytestmark = pytest.mark.interop

MOVED = "moved with the table and are read from .*; relocate_base gives the base this path"
DEV, DEEP = [1, 3, 4], [1, 3, 4, 5]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)})


def values(ds: Any) -> list[int]:
    return sorted(ds.to_table()["n"].to_pylist())


def branched(root: Path) -> Path:
    """pylance's table with a branch, and a branch of that: files are in all three places, deletions in two."""
    import lance

    main = lance.write_dataset(rows(1, 2, 3), str(root))
    dev = main.create_branch("dev")
    dev.insert(rows(4), mode="append")
    dev.delete("n = 2")
    deep = dev.create_branch("team/deep")
    deep.insert(rows(5), mode="append")
    main.insert(rows(9), mode="append")
    return root


def quiet(uri: Any, **options: Any) -> lancecy.Dataset:
    """The table without warnings; later reads of it warn no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = lancecy.dataset(uri, **options)
        ds.to_table()
    return ds


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Path]:
    branched(tmp_path / "old")
    yield (tmp_path / "old").rename(tmp_path / "new")
    assert not (tmp_path / "old").exists()


def test_a_branch_is_read_where_the_table_moved_to(moved: Path) -> None:
    import lance

    assert values(lancecy.dataset(moved)) == [1, 2, 3, 9]
    for branch, expected in (("dev", DEV), ("team/deep", DEEP)):
        with pytest.warns(RuntimeWarning, match=MOVED):
            assert values(lancecy.dataset(moved / "tree" / branch)) == expected
        with pytest.raises((OSError, ValueError), match="(?i)not found"):
            lance.dataset(str(moved / "tree" / branch)).to_table()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # told once
            ds = lancecy.dataset(moved / "tree" / branch)
            assert values(ds) == expected and ds.count_rows(filter="n > 2") == len(expected) - 1
            assert ds.verify()
            assert values(lancecy.dataset(ds.uri, untrusted=True)) == expected


def test_relocate_base_mends_it_for_both_libraries(moved: Path) -> None:
    import lance

    for branch, expected in (("dev", DEV), ("team/deep", DEEP)):
        ds = quiet(moved / "tree" / branch)
        version = ds.version
        ds.relocate_base(moved.with_name("old"), moved)
        assert ds.version == version + 1
        assert {base.path for base in ds.base_paths.values()} <= {str(moved), str(moved / "tree" / "dev")}
        assert values(lancecy.dataset(ds.uri)) == values(lance.dataset(ds.uri)) == expected


def test_a_branch_alone_is_relocated_alone(moved: Path) -> None:
    ds = quiet(moved / "tree" / "team" / "deep")
    ds.relocate_base("dev", moved / "tree" / "dev")
    assert {base.path for base in ds.base_paths.values()} == {
        str(moved.with_name("old")), str(moved / "tree" / "dev"),
    }  # fmt: skip
    assert values(quiet(ds.uri)) == DEEP


def test_clones_and_branches_of_a_moved_branch(moved: Path, tmp_path: Path) -> None:
    import lance

    deep = quiet(moved / "tree" / "team" / "deep")
    for made in (
        deep.shallow_clone(tmp_path / "clone"),
        deep.deep_clone(tmp_path / "deep"),
        deep.create_branch("next"),
    ):
        assert values(lancecy.dataset(made.uri)) == values(lance.dataset(made.uri)) == DEEP


def test_a_base_in_a_folder_below_is_relocated(tmp_path: Path) -> None:
    import lance

    main = lance.write_dataset(rows(1), str(tmp_path / "old"))
    below = main.create_branch("a/b")
    below.insert(rows(2), mode="append")
    below.create_branch("a")
    new = (tmp_path / "old").rename(tmp_path / "new")
    ds = quiet(new / "tree" / "a")
    ds.relocate_base("a/b", new / "tree" / "a" / "b")
    ds.relocate_base(tmp_path / "old", new)
    assert values(lancecy.dataset(ds.uri)) == values(lance.dataset(ds.uri)) == [1, 2]
    ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
    lance.dataset(ds.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert values(lancecy.dataset(ds.uri)) == values(lance.dataset(ds.uri)) == [1, 2]


def test_a_moved_branch_is_written_like_any_other(moved: Path) -> None:
    ds = quiet(moved / "tree" / "team" / "deep")
    ds.append(rows(6, 7))
    ds.delete("n = 1")
    ds.update({"n": "n * 10"}, where="n = 3")
    ds.add_columns({"m": "n + 1"})
    ds.merge_insert("n").when_matched_update_all().execute({"n": [4], "m": [0]})
    assert sorted(ds.to_table()["m"].to_pylist()) == [0, 6, 7, 8, 31]
    ds.append({"n": [8], "m": [9]}, target_all_bases=True)
    ds.optimize.compact_files()
    assert values(ds) == [4, 5, 6, 7, 8, 30]
    main = lancecy.dataset(moved)
    main.insert(rows(10), mode="overwrite")
    for one in (main, quiet(moved / "tree" / "dev"), ds):
        one.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert values(lancecy.dataset(ds.uri)) == [4, 5, 6, 7, 8, 30]
    assert values(lancecy.dataset(moved / "tree" / "dev")) == DEV


def test_nothing_is_written_to_the_place_it_left(moved: Path) -> None:
    ds = quiet(moved / "tree" / "dev")
    with pytest.raises(NotFoundError, match="is gone, so nothing is written there; relocate_base"):
        ds.append(rows(6), target_bases=[ds.base_paths[0].path])
    assert values(lancecy.dataset(ds.uri)) == DEV


def test_a_recorded_place_with_anything_in_it_is_never_left(tmp_path: Path) -> None:
    old, new = branched(tmp_path / "old"), tmp_path / "new"
    shutil.copytree(old, new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(lancecy.dataset(new / "tree" / "dev")) == DEV  # from the old place, as by pylance
    for file in (old / "data").iterdir():
        file.unlink()
    with pytest.raises(MissingFileError, match=r"base 0 .*/old.*relocate_base"):
        lancecy.dataset(new / "tree" / "dev").to_table()
    shutil.rmtree(old)
    lancecy.write_dataset(rows(8), old)
    with pytest.raises(MissingFileError, match=r"base 0 .*/old"):
        lancecy.dataset(new / "tree" / "dev").to_table()
    shutil.rmtree(old)
    (old / "data" / "empty").mkdir(parents=True)
    assert values(quiet(new / "tree" / "dev")) == DEV


def test_a_missing_file_is_told_of_its_recorded_base(moved: Path) -> None:
    for file in (moved / "data").iterdir():
        file.unlink()
    with pytest.raises(MissingFileError, match=r"base 0 .*/old"):
        lancecy.dataset(moved / "tree" / "dev").to_table()


@pytest.mark.filterwarnings("ignore:path of base:RuntimeWarning")
def test_branches_of_a_table_opened_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    branched(Path("old"))
    monkeypatch.chdir(tmp_path)
    for options in ({}, {"untrusted": True}):
        assert values(quiet(tmp_path / "cwd" / "old" / "tree" / "team" / "deep", **options)) == DEEP


# -- clones ---------------------------------------------------------------------------------------


def test_a_branch_of_a_clone_moves_with_the_clone(tmp_path: Path) -> None:
    import lance

    source = branched(tmp_path / "source")
    clone = lance.dataset(str(source)).shallow_clone(str(tmp_path / "clone"), 1)
    clone.insert(rows(6), mode="append")
    clone.create_branch("own").insert(rows(7), mode="append")
    new = (tmp_path / "clone").rename(tmp_path / "there")
    assert values(quiet(new / "tree" / "own")) == [1, 2, 3, 6, 7]
    with pytest.raises(PathPolicyError, match="base 0"):
        lancecy.dataset(new / "tree" / "own", untrusted=True).to_table()
    shutil.rmtree(source)
    with pytest.raises(MissingFileError, match=r"base 0 .*/source"):
        lancecy.dataset(new / "tree" / "own").to_table()


def test_a_clone_that_holds_the_files_of_its_source(tmp_path: Path) -> None:
    import lance

    source = branched(tmp_path / "source")
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "clone"), 1)
    shutil.copytree(source / "data", tmp_path / "clone" / "data", dirs_exist_ok=True)
    assert values(lancecy.dataset(tmp_path / "clone")) == [1, 2, 3]
    shutil.rmtree(source)
    with pytest.warns(RuntimeWarning, match=MOVED):
        assert values(lancecy.dataset(tmp_path / "clone")) == [1, 2, 3]
    lancecy.write_dataset(rows(7), source)
    with pytest.raises(MissingFileError, match=r"base 0 .*/source"):
        lancecy.dataset(tmp_path / "clone").to_table()
    # What was copied becomes the clone's own, and no cleanup of either library removes it.
    lancecy.dataset(tmp_path / "clone").relocate_base(source, tmp_path / "clone")
    for library in (lancecy, lance):
        ds: Any = library.dataset(str(tmp_path / "clone"))
        ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
        assert values(library.dataset(ds.uri)) == [1, 2, 3]
    assert not lancecy.dataset(tmp_path / "clone").base_paths
    assert values(lance.dataset(str(tmp_path / "clone")).checkout_version(2)) == [1, 2, 3]


def test_a_base_that_was_registered_for_files_is_looked_for_nowhere_else(tmp_path: Path) -> None:
    base = lancecy.DatasetBasePath(tmp_path / "disk", "disk", is_dataset_root=True)
    ds = lancecy.write_dataset(rows(1), tmp_path / "t", initial_bases=[base], target_bases=["disk"])
    shutil.copytree(tmp_path / "disk" / "data", tmp_path / "t" / "data")
    shutil.rmtree(tmp_path / "disk")
    with pytest.raises(MissingFileError, match="base 1 'disk'"):
        lancecy.dataset(ds.uri).to_table()


# -- other stores ---------------------------------------------------------------------------------


def copied(source: str, target: str) -> None:
    old, new = open_store(source), open_store(target)
    for meta in old.list(""):
        new.put(meta.path, bytes(old.get(meta.path)))


def test_a_table_copied_to_another_store(tmp_path: Path) -> None:
    branched(tmp_path / "old")
    copied(str(tmp_path / "old"), "memory://copied/one")
    # A bucket's table reads no local files, so it does not matter whether the old table is still there.
    with pytest.warns(RuntimeWarning, match=f"which this table may not read; its files {MOVED}"):
        assert values(lancecy.dataset("memory://copied/one/tree/team/deep")) == DEEP
    ds = quiet("memory://copied/one/tree/dev")
    ds.relocate_base(tmp_path / "old", "memory://copied/one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(lancecy.dataset(ds.uri)) == values(lancecy.dataset(ds.uri, untrusted=True)) == DEV

    copied("memory://copied/one", "memory://copied/two")
    assert values(lancecy.dataset("memory://copied/two/tree/dev")) == DEV
    one = open_store("memory://copied/one")
    one.delete([meta.path for meta in one.list("")])
    # The default session has kept the bytes of these small files.
    with pytest.warns(RuntimeWarning, match=f"where nothing is any more; its files {MOVED}"):
        assert values(lancecy.dataset("memory://copied/two/tree/dev", session=lancecy.Session())) == DEV


def test_it_takes_no_request_while_the_recorded_place_is_there(tmp_path: Path) -> None:
    stores: dict[str, CountingStore] = {}

    def opened(uri: str, options: object, **_: object) -> Store:
        made = CountingStore(MemoryStore(traits=StoreTraits(create_is_atomic=True)), uri=uri)
        return stores.setdefault(uri, made)

    register_store("bucket", opened)
    branched(tmp_path / "old")
    copied(str(tmp_path / "old"), "bucket://a/t")
    copied(str(tmp_path / "old" / "tree" / "dev"), "bucket://a/t/tree/dev")
    quiet("bucket://a/t/tree/dev").relocate_base(tmp_path / "old", "bucket://a/t")
    ds = lancecy.dataset("bucket://a/t/tree/dev", session=lancecy.Session())
    for store in stores.values():
        store.clear()
    assert values(ds) == DEV
    assert stores["bucket://a/t"].count("head", "list") == 0
    assert {request.path.partition("/")[0] for request in stores["bucket://a/t"].requests} == {"data"}
