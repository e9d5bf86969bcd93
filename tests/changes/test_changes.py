"""Datasets that change their table: deletes, restores, bases and maps; what others do meanwhile."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy import DatasetBasePath, LanceOperation
from lancecy.errors import (
    ColumnNotFoundError,
    ConflictError,
    DatasetNotFoundError,
    MissingFileError,
    NotFoundError,
    RetryableConflictError,
)
from lancecy.expr.build import Filter
from tests.changes.rows import data_files, rows_of


def table(tmp_path: Path, count: int = 20, per_file: int = 5, **options: Any) -> lancecy.Dataset:
    rows = {
        "n": pa.array(range(count), pa.int64()),
        "k": [None if i % 4 == 0 else i % 3 for i in range(count)],
    }
    return lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=per_file, **options)


# -- delete ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "left"),
    [
        ("n % 7 = 0", [i for i in range(20) if i % 7]),
        (pc.field("n") >= 3, [0, 1, 2]),
        (lancecy.col("n") < 18, [18, 19]),
        ("k = 1", [i for i in range(20) if i % 4 == 0 or i % 3 != 1]),
        ("k is null", [i for i in range(20) if i % 4]),
        ("true", []),
        ("_rowaddr = 1", [0, *range(2, 20)]),
    ],
)
def test_rows_that_a_predicate_is_true_for_are_deleted(
    tmp_path: Path, predicate: Filter, left: list[int]
) -> None:
    ds = table(tmp_path)
    assert ds.delete(predicate) == {"num_deleted_rows": 20 - len(left)}
    assert (ds.version, rows_of(ds)) == (2, left)
    assert rows_of(lancecy.dataset(ds.uri)) == left
    assert rows_of(ds.checkout_version(1)) == list(range(20))


def test_fragments_without_rows_go(tmp_path: Path) -> None:
    ds = table(tmp_path)
    ds.delete("n between 3 and 9")
    assert [part.fragment_id for part in ds.get_fragments()] == [0, 2, 3]
    ds.delete("n < 3")
    assert [part.fragment_id for part in ds.get_fragments()] == [2, 3]


def test_deletes_add_up(tmp_path: Path) -> None:
    ds = table(tmp_path, per_file=20)
    for number in (3, 7, 1):
        assert ds.delete(f"n = {number}") == {"num_deleted_rows": 1}
    assert ds.delete("n in (1, 3)", durability="none") == {"num_deleted_rows": 0}
    with pytest.raises(ValueError, match="durability"):
        ds.delete("true", durability="maybe")  # type: ignore[arg-type]
    assert ds.version == 4
    assert rows_of(ds) == [i for i in range(20) if i not in (1, 3, 7)]


def test_predicate_may_ask_for_stored_and_virtual_columns(tmp_path: Path) -> None:
    ds = table(tmp_path)
    ds.delete("n = 2 and _rowaddr < 4")
    assert rows_of(ds) == [0, 1, *range(3, 20)]


def test_delete_on_an_old_version_keeps_what_others_did(tmp_path: Path) -> None:
    mine = table(tmp_path)
    other = lancecy.dataset(mine.uri)
    other.append({"n": [100], "k": [0]})
    other.delete("n = 1")
    assert mine.delete("n = 2") == {"num_deleted_rows": 1}
    assert rows_of(mine) == [0, *range(3, 20), 100]


def test_rows_that_somebody_else_deleted_are_looked_up_anew(tmp_path: Path) -> None:
    mine = table(tmp_path)
    lancecy.dataset(mine.uri).delete("n in (1, 2)")
    assert mine.delete("n in (2, 3)") == {"num_deleted_rows": 1}
    assert rows_of(mine) == [0, *range(4, 20)]


def test_delete_gives_up_when_it_is_told_to(tmp_path: Path) -> None:
    mine = table(tmp_path)
    lancecy.dataset(mine.uri).delete("n in (1, 2)")
    with pytest.raises(RetryableConflictError):
        mine.delete("n in (2, 3)", conflict_retries=0)
    with pytest.raises(RetryableConflictError):
        mine.delete("n in (2, 3)", retry_timeout=timedelta(0))
    assert rows_of(lancecy.dataset(mine.uri)) == [0, *range(3, 20)]


def test_predicate_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    ds = table(tmp_path)
    with pytest.raises(ColumnNotFoundError):
        ds.delete("x = 1")
    with pytest.raises(TypeError, match="'true' deletes"):
        ds.delete(None)
    assert ds.latest_version == 1


# -- restore and time -----------------------------------------------------------------------------


def test_restored_version_is_the_newest_one(tmp_path: Path) -> None:
    ds = table(tmp_path, enable_stable_row_ids=True)
    ds.delete("n > 4")
    ds.update_schema_metadata({"a": "b"})
    old = ds.checkout_version(1)
    old.restore()
    assert (old.version, rows_of(old)) == (4, list(range(20)))
    old.append({"n": [20], "k": [0]})
    assert old.to_table(["n"], with_row_id=True)["_rowid"].to_pylist()[-1] == 20


def test_version_that_is_not_there_cannot_be_restored(tmp_path: Path) -> None:
    ds = table(tmp_path)
    with pytest.raises(NotFoundError, match="no version 9"):
        lancecy.commit(ds, LanceOperation.Restore(9))


def test_dataset_moves_and_others_stay(tmp_path: Path) -> None:
    ds = table(tmp_path)
    stays, known = lancecy.dataset(ds.uri), {ds: "by its place"}
    ds.append({"n": [20], "k": [0]})
    assert (ds.version, stays.version, ds.count_rows(), stays.count_rows()) == (2, 1, 21, 20)
    assert (known[ds], ds == stays) == ("by its place", False)


# -- bases ----------------------------------------------------------------------------------------


def test_threads_that_read_meanwhile_never_take_the_dataset_back(tmp_path: Path) -> None:
    ds, names = table(tmp_path), ["k", "m"]
    is_done = threading.Event()

    def versions() -> list[int]:
        seen = []
        while not is_done.is_set():
            seen.append(ds.version)
        return seen

    with ThreadPoolExecutor(2) as threads:
        found = [threads.submit(versions) for _ in range(2)]
        try:
            for number in range(30):
                ds.alter_columns(
                    {"path": names[number % 2], "name": names[1 - number % 2]}, durability="none"
                )
                assert ds.version == number + 2
        finally:
            is_done.set()
    for seen in found:
        assert seen.result() == sorted(seen.result())
    assert ds.schema.names == ["n", "k"]


def test_version_that_was_made_needs_no_storage(tmp_path: Path) -> None:
    ds = table(tmp_path)
    ds.drop_columns(["k"])
    shutil.rmtree(tmp_path / "t")
    assert (ds.version, ds.schema.names, ds.count_rows()) == (2, ["n"], 20)


def test_bases_are_added_and_written_to(tmp_path: Path) -> None:
    ds = table(tmp_path)
    made = ds.add_bases([DatasetBasePath(tmp_path / "b4", name="b4"), DatasetBasePath(tmp_path / "b5", id=9)])
    assert made is ds
    ds.add_bases([DatasetBasePath(tmp_path / "b6", name="b6")])
    assert {number: base.name for number, base in ds.base_paths.items()} == {1: "b4", 9: None, 2: "b6"}
    ds.append({"n": [20], "k": [0]}, target_bases=["b4"])
    assert len(data_files(tmp_path / "b4")) == 1
    assert rows_of(lancecy.dataset(ds.uri))[-1] == 20


def test_base_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    ds = table(tmp_path, initial_bases=[DatasetBasePath(tmp_path / "b1", name="b1")])
    for twice in (
        DatasetBasePath(tmp_path / "b1"),
        DatasetBasePath(tmp_path / "b2", name="b1"),
        DatasetBasePath(tmp_path / "b2", id=1),
    ):
        with pytest.raises(ConflictError):
            ds.add_bases([twice])
    assert (ds.latest_version, len(ds.base_paths)) == (1, 1)


@pytest.mark.parametrize("name", ["b1", "path"])
def test_table_is_read_from_where_a_base_was_moved(tmp_path: Path, name: str) -> None:
    place = DatasetBasePath(tmp_path / "b1", name="b1")
    ds = table(tmp_path, initial_bases=[place], target_bases=["b1"])
    (tmp_path / "b1").rename(tmp_path / "copy")
    assert ds.relocate_base(str(tmp_path / "b1") if name == "path" else name, tmp_path / "copy") is ds
    assert rows_of(ds) == rows_of(lancecy.dataset(ds.uri)) == list(range(20))
    with pytest.raises(NotFoundError, match="no base 'b9'"):
        ds.relocate_base("b9", tmp_path / "other")


# -- maps -----------------------------------------------------------------------------------------


def test_maps_are_changed_and_replaced(tmp_path: Path) -> None:
    ds = table(tmp_path)
    assert ds.update_config({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert ds.update_config({"a": None, "c": "3"}) == {"b": "2", "c": "3"}
    ds.delete_config_keys(["b", "never"])
    assert ds.config == {"c": "3"}
    assert ds.update_metadata({"owner": "me"}) == {"owner": "me"} == ds.metadata
    assert ds.update_metadata({"x": "y"}, replace=True) == {"x": "y"}
    assert ds.update_schema_metadata({"k": "v"}) == {"k": "v"}
    ds.replace_schema_metadata({"l": "w"})
    ds.replace_field_metadata("n", {"unit": "m"})
    ds.update_field_metadata({"n": {"kind": "id"}, "k": {"z": "1"}})
    assert ds.schema.metadata == {b"l": b"w"}
    assert ds.schema.field("n").metadata == {b"unit": b"m", b"kind": b"id"}
    assert rows_of(lancecy.dataset(ds.uri)) == list(range(20))


def test_column_that_is_not_there_gets_no_metadata(tmp_path: Path) -> None:
    with pytest.raises(ColumnNotFoundError):
        table(tmp_path).replace_field_metadata("x", {})


def test_values_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="texts"):
        table(tmp_path).update_config({"a": 1})  # type: ignore[dict-item]


# -- operations of distributed writers ------------------------------------------------------------


def test_operations_are_committed(tmp_path: Path) -> None:
    ds = table(tmp_path)
    updates = LanceOperation.UpdateMap({"a": "1"})
    ds = lancecy.commit(ds, LanceOperation.UpdateConfig(updates, field_metadata_updates={0: updates}))
    ds = lancecy.commit(ds, LanceOperation.UpdateBases([DatasetBasePath(tmp_path / "b", name="b")]))
    ds = lancecy.commit(ds, LanceOperation.ReserveFragments(3))
    ds = lancecy.commit(ds, LanceOperation.Delete([], [0], "n < 5"))
    new = lancecy.write_fragments({"n": [50], "k": [1]}, ds, target_bases=["b"])
    ds = lancecy.commit(ds, LanceOperation.Append(new))
    assert rows_of(ds) == [*range(5, 20), 50]
    assert [part.fragment_id for part in ds.get_fragments()] == [1, 2, 3, 7]
    assert (ds.config, ds.schema.field("n").metadata) == ({"a": "1"}, {b"a": b"1"})
    assert lancecy.commit(ds, LanceOperation.Restore(1)).count_rows() == 20


def test_files_of_a_delete_are_those_of_its_fragments(tmp_path: Path) -> None:
    ds = table(tmp_path)
    deleted = lancecy.dataset(ds.uri)
    deleted.delete("n = 1")
    (changed, *_) = [part.metadata for part in deleted.get_fragments()]
    ds.restore()
    made = lancecy.commit(ds, LanceOperation.Delete([changed], [3], "by hand"))
    assert rows_of(made) == [0, *range(2, 15)]
    # A fragment without a deletion file stays as it is, as ``LanceFragment.delete`` returns it if no row matches.
    made = lancecy.commit(made, LanceOperation.Delete([made.get_fragments()[1].metadata], [0], ""))
    assert rows_of(made) == list(range(5, 15))


def test_change_of_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        lancecy.commit(tmp_path / "none", LanceOperation.Restore(1))
    with pytest.raises(TypeError, match="no operation"):
        lancecy.commit(table(tmp_path), "append")  # type: ignore[arg-type]


# -- several at once ------------------------------------------------------------------------------


def test_changes_of_several_threads_all_happen(tmp_path: Path) -> None:
    ds = table(tmp_path, count=8, per_file=2)

    def work(number: int) -> None:
        mine = lancecy.dataset(ds.uri)
        for turn in range(4):
            mine.append({"n": [1000 + 10 * number + turn], "k": [0]})
        mine.delete(f"n in ({number}, {number + 4})")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    made = [1000 + 10 * number + turn for number in range(4) for turn in range(4)]
    assert sorted(rows_of(lancecy.dataset(ds.uri))) == made
    assert lancecy.dataset(ds.uri).version == 1 + 4 * 5


def spread(tmp_path: Path, num_files: int) -> lancecy.Dataset:
    """A table of two rows per file, all files in one base."""
    place = DatasetBasePath(tmp_path / "b1", name="b1")
    ds: lancecy.Dataset = lancecy.write_dataset(
        {"n": range(2 * num_files)},
        tmp_path / "t.lance",
        initial_bases=[place],
        target_bases=["b1"],
        max_rows_per_file=2,
        durability="none",
    )
    return ds


@pytest.mark.parametrize("num_files", [5, 70], ids=["asked for one by one", "listed"])
def test_base_does_not_move_to_where_a_file_is_missing(tmp_path: Path, num_files: int) -> None:
    ds = spread(tmp_path, num_files)
    lost = ds.get_fragments()[3].data_files()[0].path
    shutil.copytree(tmp_path / "b1", tmp_path / "copy")
    (tmp_path / "copy" / lost).unlink()
    problem = f"1 of the {num_files} files of base 1 are not in .*copy, such as '{lost}' of fragment 3; .*force=True"
    with pytest.raises(MissingFileError, match=problem) as caught:
        ds.relocate_base("b1", tmp_path / "copy")
    assert (caught.value.path, caught.value.fragment, caught.value.base) == (lost, 3, 1)
    with pytest.raises(MissingFileError, match=f"{num_files} of the {num_files} files"):
        ds.relocate_base("b1", tmp_path / "nowhere")
    assert ds.latest_version == 1
    assert ds.count_rows("n >= 0") == 2 * num_files

    ds.relocate_base("b1", tmp_path / "copy", force=True)
    assert ds.version == 2
    with pytest.raises(MissingFileError, match=r"fragment 3 .*base 1 'b1'"):
        ds.to_table()
    shutil.copy(tmp_path / "b1" / lost, tmp_path / "copy")
    assert rows_of(ds) == list(range(2 * num_files))


def test_base_that_cannot_move_there_is_not_looked_at(tmp_path: Path) -> None:
    ds = spread(tmp_path, 2)
    ds.add_bases([DatasetBasePath(tmp_path / "b2", name="b2")])
    with pytest.raises(ConflictError, match="b2 already"):
        ds.relocate_base("b1", tmp_path / "b2")
    ds.relocate_base("b2", tmp_path / "b3")  # no file is in it yet
    assert ds.base_paths[2].path == str(tmp_path / "b3")


@pytest.mark.interop
def test_base_of_a_clone_needs_its_deletion_files_too(tmp_path: Path) -> None:
    import lance

    source = lance.write_dataset(pa.table({"n": range(20)}), str(tmp_path / "old"))
    source.delete("n < 5")
    source.shallow_clone(str(tmp_path / "clone"), 2)
    ds = lancecy.dataset(tmp_path / "clone")
    assert rows_of(ds) == list(range(5, 20))
    shutil.copytree(tmp_path / "old" / "data", tmp_path / "new" / "data")
    with pytest.raises(
        MissingFileError, match=r"1 of the 2 files .* such as '0-1-[0-9]+\.arrow' of fragment 0"
    ):
        ds.relocate_base(tmp_path / "old", tmp_path / "new")
    shutil.copytree(tmp_path / "old" / "_deletions", tmp_path / "new" / "_deletions")
    shutil.rmtree(tmp_path / "old")
    ds.relocate_base(tmp_path / "old", tmp_path / "new")
    assert rows_of(ds) == rows_of(lancecy.dataset(ds.uri)) == list(range(5, 20))


def test_truncation_deletes_every_row_and_keeps_the_rest(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1, 2, 3]}, tmp_path / "t", max_rows_per_file=2)
    ds.update_config({"owner": "me"})
    ds.truncate_table()
    assert (ds.version, ds.count_rows(), ds.schema.names, ds.config) == (3, 0, ["a"], {"owner": "me"})
    ds.truncate_table()
    assert ds.version == 3, "there was nothing to delete"
    ds.append({"a": [4]})
    assert [part.fragment_id for part in ds.get_fragments()] == [2] and lancecy.dataset(
        ds.uri, version=2
    ).count_rows() == 3
