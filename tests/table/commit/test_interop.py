"""Versions made here, read, checked and changed by pylance; and back again."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import ConflictError, RetryableConflictError, SchemaError
from lancecy.table.commit.options import Policy
from lancecy.table.manifest import BasePath, DeletionFile, DeletionFileType
from lancecy.table.operations import (
    Append,
    Delete,
    MapUpdate,
    Overwrite,
    ReserveFragments,
    Restore,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.paths import Naming
from tests.helpers.committing import (
    append,
    change,
    create,
    delete_where,
    numbers,
    schema_of,
    written_by_pylance,
)
from tests.helpers.snapshots import snapshot_of

pytestmark = pytest.mark.interop

STABLE = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])


def checked(uri: str) -> Any:
    """The newest version as pylance opens it, found to be sound."""
    dataset = lance.dataset(uri)
    dataset.validate()
    return dataset


def rows(uri: str) -> list[int]:
    found: list[int] = checked(uri).to_table(columns=["n"])["n"].to_pylist()
    assert len(found) == lance.dataset(uri).count_rows()
    return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("version", "stable"),
    [("0.1", False), *[(version, stable) for version in ("2.0", "2.1", "2.2") for stable in (False, True)]],
)
def test_pylance_reads_what_is_created_appended_and_deleted(uri: str, version: str, stable: bool) -> None:
    create(uri, numbers(0, 100), data_version=version, stable_row_ids=stable)
    append_as(uri, numbers(100, 40), version)
    change(uri, delete_where(snapshot_of(uri), lambda n: n % 7 == 0))
    dataset = checked(uri)
    assert rows(uri) == [n for n in range(140) if n % 7]
    assert dataset.data_storage_version == version
    lance.write_dataset(numbers(140, 10), uri, mode="append")
    assert len(rows(uri)) == len([n for n in range(140) if n % 7]) + 10


def append_as(uri: str, table: pa.Table, version: str) -> None:
    change(uri, Append(written_by_pylance(uri, table, data_storage_version=version)))


@STABLE
def test_fifty_alternations_agree_with_a_plain_model(uri: str, stable: bool) -> None:
    create(uri, numbers(0, 30), stable_row_ids=stable)
    model, following, rng = list(range(30)), 30, random.Random(7)
    for step in range(50):
        ours, kind = step % 2 == 0, rng.choice(("append", "append", "delete", "overwrite", "config"))
        if kind == "append":
            table = numbers(following, 5)
            append(uri, table) if ours else lance.write_dataset(table, uri, mode="append")
            model += range(following, following + 5)
            following += 5
        elif kind == "delete":
            k = rng.randrange(2, 9)
            if ours:
                change(uri, delete_where(snapshot_of(uri), lambda n, k=k: n % k == 1))
            else:
                lance.dataset(uri).delete(f"n % {k} = 1")
            model = [n for n in model if n % k != 1]
        elif kind == "overwrite":
            table = numbers(following, 20)
            if ours:
                change(uri, Overwrite(written_by_pylance(uri, table), schema_of(table)))
            else:
                lance.write_dataset(table, uri, mode="overwrite")
            model, following = list(range(following, following + 20)), following + 20
        elif ours:
            change(uri, UpdateConfig(MapUpdate({"step": str(step)})))
        else:
            lance.dataset(uri).update_config({"step": str(step)})
        assert rows(uri) == model, (step, kind)
    assert snapshot_of(uri).manifest.num_rows == len(model)


def test_large_deletions_are_bitmaps_and_small_ones_arrow_files(uri: str) -> None:
    create(uri, numbers(0, 20_000))
    change(uri, delete_where(snapshot_of(uri), lambda n: n < 10))
    small = snapshot_of(uri).fragments[0].deletion_file
    change(uri, delete_where(snapshot_of(uri), lambda n: n % 3 == 0))
    large = snapshot_of(uri).fragments[0].deletion_file
    assert small is not None and small.file_type is DeletionFileType.ARROW
    assert large is not None and large.file_type is DeletionFileType.BITMAP
    assert rows(uri) == [n for n in range(20_000) if n % 3 and n >= 10]


def test_fragment_without_rows_left_is_removed(uri: str) -> None:
    create(uri, numbers(0, 10))
    append(uri, numbers(10, 10))
    change(uri, delete_where(snapshot_of(uri), lambda n: n < 4))
    change(uri, delete_where(snapshot_of(uri), lambda n: n < 12))
    assert [fragment.id for fragment in snapshot_of(uri).fragments] == [1]
    assert rows(uri) == list(range(12, 20))


# -- both write at once ---------------------------------------------------------------------------


@STABLE
def test_stale_delete_is_merged_with_one_of_pylance(uri: str, stable: bool) -> None:
    create(uri, numbers(0, 60), stable_row_ids=stable)
    old, theirs = snapshot_of(uri), lance.dataset(uri)
    theirs.delete("n % 5 = 0")
    change(uri, delete_where(old, lambda n: n % 5 == 1), snapshot=old)
    assert rows(uri) == [n for n in range(60) if n % 5 > 1]


@STABLE
def test_pylance_merges_its_stale_delete_with_ours(uri: str, stable: bool) -> None:
    create(uri, numbers(0, 60), stable_row_ids=stable)
    theirs = lance.dataset(uri)
    change(uri, delete_where(snapshot_of(uri), lambda n: n % 5 == 1))
    append(uri, numbers(60, 5))
    theirs.delete("n % 5 = 0 AND n < 60")
    assert rows(uri) == [n for n in range(60) if n % 5 > 1] + list(range(60, 65))


def test_overlapping_deletes_have_to_be_made_anew(uri: str) -> None:
    create(uri, numbers(0, 60))
    old = snapshot_of(uri)
    lance.dataset(uri).delete("n < 5")
    with pytest.raises(RetryableConflictError, match="deleted in version 2 already"):
        change(uri, delete_where(old, lambda n: n < 8), snapshot=old)
    assert lance.dataset(uri).version == 2


def test_update_and_compaction_of_pylance_stand_in_the_way_of_a_stale_delete(uri: str) -> None:
    create(uri, numbers(0, 60))
    append(uri, numbers(60, 20))
    old = snapshot_of(uri)
    lance.dataset(uri).optimize.compact_files()
    with pytest.raises(RetryableConflictError, match="Rewrite"):
        change(uri, delete_where(old, lambda n: n < 8), snapshot=old)
    append(uri, numbers(80, 5), snapshot=old)
    assert rows(uri) == list(range(85))


def test_append_follows_every_harmless_change_of_pylance(uri: str) -> None:
    create(uri, numbers(0, 60))
    old = snapshot_of(uri)
    dataset = lance.dataset(uri)
    dataset.delete("n = 3")
    dataset.update({"rest": "rest + 1"}, where="n = 5")
    dataset.add_columns({"double": "n * 2"})
    dataset.create_scalar_index("n", "BTREE")
    dataset.update_config({"k": "v"})
    append(uri, numbers(60, 5), snapshot=old)
    found = checked(uri).to_table(columns=["n", "double"]).sort_by("n").to_pylist()
    assert [row["n"] for row in found] == [n for n in range(65) if n != 3]
    assert [row["double"] for row in found[-6:]] == [118, *[None] * 5]


def test_append_after_overwrite_or_restore_is_refused_both_ways(uri: str) -> None:
    create(uri, numbers(0, 10))
    append(uri, numbers(10, 10))
    old, theirs = snapshot_of(uri), lance.dataset(uri)
    change(uri, Restore(1))
    with pytest.raises(ConflictError, match="cannot both be applied"):
        append(uri, numbers(20, 1), snapshot=old)
    with pytest.raises(Exception, match="(?i)conflict"):
        theirs.delete("n = 4")
    lance.write_dataset(numbers(0, 3), uri, mode="overwrite")
    with pytest.raises(ConflictError, match="cannot both be applied"):
        append(uri, numbers(20, 1), snapshot=old)


def test_files_for_a_column_id_that_was_given_out_again_are_refused(uri: str) -> None:
    create(uri, numbers(0, 10))
    old = snapshot_of(uri)
    files = written_by_pylance(uri, numbers(10, 5))
    dataset = lance.dataset(uri)
    dataset.drop_columns(["word"])
    dataset.optimize.compact_files()
    dataset.add_columns({"again": "n + 1"})
    known = {field.name: field.id for field in snapshot_of(uri).schema.fields}
    if known["again"] == 2:
        with pytest.raises(RetryableConflictError, match="is about"):
            change(uri, Append(files), snapshot=old)
    else:
        change(uri, Append(files), snapshot=old)
        assert checked(uri).to_table()["again"].to_pylist() == [*range(1, 11), *[None] * 5]


# -- ids ------------------------------------------------------------------------------------------


def test_stable_row_ids_are_given_once_and_survive(uri: str) -> None:
    create(uri, numbers(0, 10), stable_row_ids=True)
    old = snapshot_of(uri)
    lance.write_dataset(numbers(100, 5), uri, mode="append")
    append(uri, numbers(10, 5), snapshot=old)  # numbered anew behind what pylance appended meanwhile
    found = checked(uri).to_table(columns=["n"], with_row_id=True)
    assert dict(zip(found["n"].to_pylist(), found["_rowid"].to_pylist())) == {
        **{n: n for n in range(10)}, **{100 + n: 10 + n for n in range(5)}, **{10 + n: 15 + n for n in range(5)}
    }  # fmt: skip
    table = numbers(500, 4)
    change(uri, Overwrite(written_by_pylance(uri, table), schema_of(table)))
    assert checked(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [20, 21, 22, 23]
    change(uri, Restore(1))
    append(uri, numbers(10, 2))
    assert checked(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [*range(10), 24, 25]
    lance.write_dataset(numbers(12, 1), uri, mode="append")
    assert checked(uri).to_table(with_row_id=True)["_rowid"].to_pylist()[-1] == 26


def test_row_versions_say_when_rows_came(uri: str) -> None:
    create(uri, numbers(0, 3), stable_row_ids=True)
    append(uri, numbers(3, 2))
    columns = ["n", "_row_created_at_version", "_row_last_updated_at_version"]
    found = checked(uri).to_table(columns=columns)
    assert found[columns[1]].to_pylist() == found[columns[2]].to_pylist() == [1, 1, 1, 2, 2]
    lance.dataset(uri).update({"rest": "9"}, where="n = 4")
    append(uri, numbers(5, 1))
    found = checked(uri).to_table(columns=columns).sort_by("n")
    assert found[columns[1]].to_pylist() == [1, 1, 1, 2, 2, 4]
    assert found[columns[2]].to_pylist() == [1, 1, 1, 2, 3, 4]


def test_fragment_ids_continue_over_reservations_and_overwrites(uri: str) -> None:
    create(uri, numbers(0, 4))
    change(uri, ReserveFragments(3))
    append(uri, numbers(4, 4))
    assert [fragment.fragment_id for fragment in checked(uri).get_fragments()] == [0, 4]
    table = numbers(50, 3)
    change(uri, Overwrite(written_by_pylance(uri, table), schema_of(table)))
    lance.write_dataset(numbers(53, 3), uri, mode="append")
    assert [fragment.fragment_id for fragment in checked(uri).get_fragments()] == [5, 6]


# -- indices --------------------------------------------------------------------------------------


def _answers(uri: str) -> None:
    """Queries that use each index say what a scan without them says."""
    dataset = lance.dataset(uri)
    for condition in ("n = 12", "n >= 25 AND n < 140", "rest = 3", "n IN (1, 30, 133, 205)"):
        used = dataset.to_table(filter=condition, columns=["n"])
        scanned = dataset.to_table(filter=condition, columns=["n"], use_scalar_index=False)
        assert sorted(used["n"].to_pylist()) == sorted(scanned["n"].to_pylist()), condition
    if any(index.name == "word_idx" for index in dataset.describe_indices()):
        found = dataset.to_table(full_text_query="zebra", columns=["n"])["n"].to_pylist()
        present = dataset.to_table(columns=["n"])["n"].to_pylist()
        assert sorted(found) == sorted(n for n in present if n % 3 == 0)


@STABLE
def test_indices_answer_right_after_every_commit(uri: str, stable: bool) -> None:
    create(uri, numbers(0, 100), stable_row_ids=stable)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("n", "BTREE")
    dataset.create_scalar_index("rest", "BITMAP")
    dataset.create_scalar_index("word", "INVERTED")
    names = {"n_idx", "rest_idx", "word_idx"}
    section = snapshot_of(uri).indices()
    steps: tuple[Callable[[], object], ...] = (
        lambda: append(uri, numbers(100, 40)),
        lambda: change(uri, delete_where(snapshot_of(uri), lambda n: n % 6 == 0)),
        lambda: change(uri, ReserveFragments(2)),
        lambda: change(uri, UpdateConfig(MapUpdate({"k": "v"}))),
        lambda: change(uri, UpdateBases((BasePath(0, "/nowhere", "b"),))),
        lambda: change(uri, Delete(removed=(0,))),
        lambda: append(uri, numbers(200, 10)),
    )
    for step in steps:
        step()
        assert {index.name for index in lance.dataset(uri).describe_indices()} == names
        assert [entry.raw for entry in snapshot_of(uri).indices()] == [entry.raw for entry in section]
        _answers(uri)
    lance.dataset(uri).optimize.optimize_indices()
    append(uri, numbers(300, 10))
    _answers(uri)
    table = numbers(0, 50)
    change(uri, Overwrite(written_by_pylance(uri, table), schema_of(table)))
    assert lance.dataset(uri).describe_indices() == []
    _answers(uri)
    change(uri, Restore(4))
    assert [entry.raw for entry in snapshot_of(uri).indices()] == [entry.raw for entry in section]
    _answers(uri)
    append(uri, numbers(100, 40))
    _answers(uri)
    checked(uri).optimize.compact_files()
    _answers(uri)


# -- maps, bases, names ---------------------------------------------------------------------------


def test_all_four_maps_change_and_are_what_pylance_sees(uri: str) -> None:
    create(uri, numbers(0, 4), config={"first": "1"})
    maps = MapUpdate({"a": "1", "b": "2"})
    change(uri, UpdateConfig(maps, maps, maps, {0: maps, 2: MapUpdate({"w": "x"})}))
    lance.dataset(uri).update_config({"theirs": "3"})
    gone = MapUpdate({"a": None, "c": ""})
    change(uri, UpdateConfig(gone, gone, gone, {0: gone}))
    dataset = checked(uri)
    assert dataset.config() == {"first": "1", "b": "2", "c": "", "theirs": "3"}
    assert dataset.metadata == {"b": "2", "c": ""}
    assert dataset.schema.metadata == {b"b": b"2", b"c": b""}
    assert dataset.schema.field("n").metadata == {b"b": b"2", b"c": b""}
    assert dataset.schema.field("word").metadata == {b"w": b"x"}
    only = MapUpdate({"only": "1"}, replace=True)
    change(uri, UpdateConfig(only, only, only, {0: only}))
    dataset = checked(uri)
    assert dataset.config() == dataset.metadata == {"only": "1"}
    assert dataset.schema.metadata == dataset.schema.field("n").metadata == {b"only": b"1"}


def test_primary_key_is_set_once_as_in_pylance(uri: str) -> None:
    key = "lance-schema:unenforced-primary-key"
    table = pa.table(
        {"n": pa.array([1, 2], pa.int64())}, pa.schema([pa.field("n", pa.int64(), nullable=False)])
    )
    create(uri, table)
    change(uri, UpdateConfig(field_metadata={0: MapUpdate({key: "true", f"{key}:position": "1"})}))
    assert snapshot_of(uri).schema.fields[0].unenforced_primary_key_position == 1
    with pytest.raises(SchemaError, match="cannot be changed"):
        change(uri, UpdateConfig(field_metadata={0: MapUpdate({key: None})}))
    with pytest.raises(Exception, match="cannot be changed"):
        lance.dataset(uri).update_field_metadata({"n": {key: None}})
    merged = pa.table({"n": pa.array([2, 3], pa.int64())}, table.schema)
    lance.dataset(uri).merge_insert("n").when_not_matched_insert_all().execute(merged)
    assert sorted(rows(uri)) == [1, 2, 3]


def test_bases_are_registered_and_files_in_them_read(uri: str, tmp_path: Path) -> None:
    create(
        uri,
        numbers(0, 5),
        initial_bases=(BasePath(0, f"{tmp_path}/b1", "one"), BasePath(7, f"{tmp_path}/b7", "seven")),
    )
    change(uri, UpdateBases((BasePath(0, f"{tmp_path}/b2", "two", is_dataset_root=True),)))
    found = {base.id: base.name for base in snapshot_of(uri).manifest.base_paths.values()}
    assert found == {1: "one", 7: "seven", 2: "two"}
    lance.write_dataset(numbers(5, 4), uri, mode="append", target_bases=["one", "two"], max_rows_per_file=2)
    append(uri, numbers(9, 1))
    assert rows(uri) == list(range(10))
    lance.dataset(uri).add_bases([lance.DatasetBasePath(f"{tmp_path}/b3", "three")])
    with pytest.raises(Exception, match="(?i)conflict|exists"):
        lance.dataset(uri).add_bases([lance.DatasetBasePath(f"{tmp_path}/b9", "two")])
    assert snapshot_of(uri).manifest.base_paths[3].name == "three"


def test_bases_that_look_alike_are_refused_where_pylance_forgets_to(uri: str, tmp_path: Path) -> None:
    first = BasePath(4, f"{tmp_path}/b", "one")
    create(uri, numbers(0, 5), initial_bases=(first,))
    for base in (
        BasePath(4, f"{tmp_path}/c", "two"),  # pylance replaces the base, and its files are gone
        BasePath(0, f"{tmp_path}/c", "one"),
        BasePath(0, f"{tmp_path}/b", "two"),
        BasePath(0, f"file://{tmp_path}/b/", "two"),
    ):
        with pytest.raises(ConflictError, match="already"):
            change(uri, UpdateBases((base,)))
    with pytest.raises(ConflictError, match="already"):
        change(uri, UpdateBases((BasePath(0, "/x", "x"), BasePath(0, "/y", "x"))))
    assert dict(snapshot_of(uri).manifest.base_paths) == {4: first}


def test_base_that_moved_is_found_at_its_new_place(uri: str, tmp_path: Path) -> None:
    create(uri, numbers(0, 5), initial_bases=(BasePath(0, f"{tmp_path}/b1", "one"),))
    lance.write_dataset(numbers(5, 4), uri, mode="append", target_bases=["one"])
    (tmp_path / "b1").rename(tmp_path / "copy")
    change(uri, UpdateBases((BasePath(1, f"{tmp_path}/copy", "one"),), relocate=True))
    assert rows(uri) == list(range(9))
    with pytest.raises(SchemaError, match="no base 5 to relocate"):
        change(uri, UpdateBases((BasePath(5, "/x"),), relocate=True))


def test_files_written_for_a_base_that_moved_meanwhile_are_refused(uri: str, tmp_path: Path) -> None:
    create(uri, numbers(0, 5), initial_bases=(BasePath(0, f"{tmp_path}/b1", "one"),))
    old = snapshot_of(uri)
    lance.write_dataset(numbers(5, 4), uri, mode="append", target_bases=["one"])
    files = snapshot_of(uri).fragments[1:]
    change(uri, Restore(1))
    change(uri, UpdateBases((BasePath(1, f"{tmp_path}/elsewhere", "one"),), relocate=True))
    with pytest.raises(ConflictError):
        change(uri, Append(files), snapshot=old)
    with pytest.raises(Exception, match="is missing; nothing was committed"):
        change(uri, Append(files))


def test_old_names_of_manifests_are_kept(uri: str) -> None:
    create(uri, numbers(0, 5), policy=Policy(naming=Naming.V1))
    for first in range(5, 65, 5):
        append(uri, numbers(first, 5))
    lance.write_dataset(numbers(65, 5), uri, mode="append")
    append(uri, numbers(70, 5))
    assert rows(uri) == list(range(75))
    assert {len(path.name) for path in (Path(uri) / "_versions").glob("*.manifest")} == {10, 11}


def test_version_of_data_files_may_differ_from_the_table_s(uri: str) -> None:
    create(uri, numbers(0, 5), data_version="2.0")
    append_as(uri, numbers(5, 5), "2.1")
    manifest = snapshot_of(uri).manifest
    assert (manifest.reader_flags, manifest.writer_flags, manifest.data_version) == (256, 256, "2.0")
    assert rows(uri) == list(range(10))
    table = numbers(0, 3)
    files = written_by_pylance(uri, table, data_storage_version="2.2")
    change(uri, Overwrite(files, schema_of(table), data_version="2.2"))
    assert snapshot_of(uri).manifest.reader_flags == 0
    assert rows(uri) == [0, 1, 2]


def test_branch_of_pylance_takes_commits(uri: str, tmp_path: Path) -> None:
    create(uri, numbers(0, 5))
    lance.dataset(uri).create_branch("b")
    branch = f"{uri}/tree/b"
    append(branch, numbers(5, 5))
    change(branch, delete_where(snapshot_of(branch), lambda n: n == 2))
    found = lance.dataset(uri).checkout_version(("b", None)).to_table()["n"].to_pylist()
    assert found == [0, 1, 3, 4, *range(5, 10)]
    assert snapshot_of(branch).manifest.branch == "b"
    assert rows(uri) == list(range(5))


def test_deletes_of_distributed_workers_are_committed_as_they_wrote_them(uri: str) -> None:
    create(uri, numbers(0, 10))
    fragment: Any = lance.dataset(uri).get_fragments()[0].delete("n < 3")
    written = fragment.deletion_file
    file = DeletionFile(written.read_version, written.id, DeletionFileType.ARROW, written.num_deleted_rows)
    change(uri, Delete(files={0: file}))
    assert rows(uri) == list(range(3, 10))
    wrong = DeletionFile(written.read_version, written.id, DeletionFileType.ARROW, 9)
    with pytest.raises(ValueError, match="3 rows where the manifest says 9"):
        change(uri, Delete(files={0: wrong}))


def test_numbers_helper_is_what_it_says() -> None:
    table = numbers(3, 2)
    assert table.to_pylist() == [
        {"n": 3, "rest": 3, "word": "w3 zebra"}, {"n": 4, "rest": 4, "word": "w4 quail"}
    ]  # fmt: skip
    assert np.array_equal(table["n"], [3, 4])


def test_both_libraries_append_at_the_same_time(uri: str) -> None:
    create(uri, numbers(0, 3), stable_row_ids=True)
    waiting = [(first, written_by_pylance(uri, numbers(first, 2))) for first in range(1000, 1024, 2)]
    failed: list[BaseException] = []

    def ours(part: int) -> None:
        for _, fragments in waiting[part::2]:
            change(uri, Append(fragments))

    def theirs(part: int) -> None:
        for first in range(2000 + 100 * part, 2012 + 100 * part, 2):
            lance.write_dataset(numbers(first, 2), uri, mode="append")

    def guarded(work: Callable[[int], None], part: int) -> None:
        try:
            work(part)
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=guarded, args=(work, part)) for work in (ours, theirs) for part in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(rows(uri)) == [*range(3), *range(1000, 1024), *range(2000, 2012), *range(2100, 2112)]
    assert lance.dataset(uri).version == 25
    ids = checked(uri).to_table(with_row_id=True)["_rowid"].to_pylist()
    assert sorted(ids) == list(range(3 + 24 + 24))


def test_what_a_crash_leaves_behind_disturbs_nobody(uri: str) -> None:
    create(uri, numbers(0, 3))
    (Path(uri) / "_versions" / ".tmp_0123456789abcdef").write_bytes(b"")
    lance.write_dataset(numbers(3, 2), uri, mode="append")
    append(uri, numbers(5, 2))
    assert rows(uri) == list(range(7))


OURS: dict[str, tuple[Callable[[str], object], bool]] = {
    "append": (lambda uri: append(uri, numbers(50, 5)), True),
    "delete": (lambda uri: change(uri, delete_where(snapshot_of(uri), lambda n: n == 5)), True),
    "delete whole": (lambda uri: change(uri, Delete(removed=(0,))), True),
    "reserve": (lambda uri: change(uri, ReserveFragments(2)), True),
    "config": (lambda uri: change(uri, UpdateConfig(MapUpdate({"k": "1"}))), True),
    "field": (lambda uri: change(uri, UpdateConfig(field_metadata={0: MapUpdate({"k": "1"})})), True),
    "bases": (lambda uri: change(uri, UpdateBases((BasePath(0, "/nowhere", "b"),))), True),
    "restore": (lambda uri: change(uri, Restore(1)), False),
    "overwrite": (lambda uri: change(uri, Overwrite((), schema_of(numbers(0, 1)))), False),
}


@pytest.mark.parametrize("name", OURS)
def test_stale_append_of_pylance_understands_what_happened_here(uri: str, name: str) -> None:
    create(uri, numbers(0, 10))
    append(uri, numbers(10, 10))
    stale = lance.dataset(uri)
    act, follows = OURS[name]
    act(uri)
    before = rows(uri)
    if follows:
        lance.write_dataset(numbers(90, 2), stale, mode="append")
        assert rows(uri) == [*before, 90, 91]
    else:
        with pytest.raises(Exception, match="(?i)conflict|incompatible"):
            lance.write_dataset(numbers(90, 2), stale, mode="append")
        assert rows(uri) == before


def test_stale_changes_of_configuration_collide_by_key_in_both_directions(uri: str) -> None:
    create(uri, numbers(0, 10))
    ours, theirs = snapshot_of(uri), lance.dataset(uri)
    change(uri, UpdateConfig(MapUpdate({"k": "1"})))
    theirs.update_config({"other": "2"})
    with pytest.raises(ConflictError):
        change(uri, UpdateConfig(MapUpdate({"other": "3"})), snapshot=ours)
    stale = lance.dataset(uri).checkout_version(1)
    with pytest.raises(Exception, match="(?i)conflict|incompatible"):
        stale.update_config({"k": "9"})
    assert lance.dataset(uri).config() == {"k": "1", "other": "2"}
