"""Branches that pylance made are brought to their parents, and read, queried and changed by pylance afterwards."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes import branch_files, fast_forward
from lancecy.errors import (
    CommitUnknownError,
    ConflictError,
    MissingFileError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from lancecy.progress import Step
from lancecy.store.fsspec import FsspecStore
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.interop


def words(numbers: Iterable[int], text: str = "w") -> pa.Table:
    found = list(numbers)
    return pa.table({"n": pa.array(found, pa.int64()), "word": [f"{text}{n}" for n in found]})


def made(place: Path, stable: bool = True) -> Any:
    """Rows 0 to 9 in two fragments, with an index of n; branch "exp" of version 2, by pylance."""
    ds = lance.write_dataset(words(range(10)), place, enable_stable_row_ids=stable, max_rows_per_file=5)
    ds.create_scalar_index("n", "BTREE")
    ds.create_branch("exp", 2)
    return ds


def changed(place: Path, stable: bool = True) -> Any:
    """The branch with rows added, updated and deleted, a column and an index more."""
    branch = made(place, stable).checkout_version(("exp", None))
    branch.insert(words([10, 11, 12]))
    branch.update({"word": "'updated'"}, "n IN (0, 7)")
    branch.delete("n = 3")
    branch.add_columns({"twice": "n * 2"})
    branch.create_scalar_index("word", "BITMAP")
    return branch


def sorted_rows(ds: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.to_table().to_pylist()
    return sorted(rows, key=lambda row: row["n"])


def files_of(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("stable", [True, False])
def test_main_is_the_branch_afterwards_for_both_libraries(tmp_path: Path, stable: bool) -> None:
    place = tmp_path / "t"
    branch = changed(place, stable)
    wanted = branch.to_table()
    ds = lancecy.dataset(place)
    stats = ds.fast_forward("exp")
    assert (ds.version, stats.version, stats.branch_version) == (3, 3, branch.version)
    main = lance.dataset(str(place))
    main.validate()
    assert main.version == 3
    assert main.to_table().equals(wanted)
    assert ds.to_table().equals(wanted)
    # Nothing of it is in the branch's folders.
    assert not ds.context.snapshot.manifest.base_paths
    shutil.rmtree(place / "tree")
    assert lance.dataset(str(place)).to_table().equals(wanted)
    assert lancecy.dataset(place).to_table().equals(wanted)


@pytest.mark.parametrize("stable", [True, False])
def test_indexed_queries_equal_scans_before_and_after_later_changes(tmp_path: Path, stable: bool) -> None:
    place = tmp_path / "t"
    changed(place, stable)
    lancecy.dataset(place).fast_forward("exp")
    main = lance.dataset(str(place))
    queries = [f"n = {n}" for n in range(14)] + [
        f"word = '{w}'" for w in ("updated", "w0", "w7", "w11", "late")
    ]

    def check() -> None:
        main = lance.dataset(str(place))
        for query in queries:
            found = main.to_table(filter=query)
            assert found.equals(main.to_table(filter=query, use_scalar_index=False)), query
        assert "ScalarIndexQuery" in main.scanner(filter="n = 5").explain_plan(True)
        assert "ScalarIndexQuery" in main.scanner(filter="word = 'w5'").explain_plan(True)

    check()
    main.insert(pa.table({"n": [13], "word": ["late"], "twice": [26]}))
    check()
    main.update({"word": "'late'"}, "n = 11")
    check()
    main.optimize.compact_files()
    main.optimize.optimize_indices()
    check()
    main.validate()


def test_row_ids_stay_and_versions_are_those_of_main(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = changed(place)
    columns = ["n", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    before = branch.to_table(columns=columns).to_pylist()
    lancecy.dataset(place).fast_forward("exp")
    after = lance.dataset(str(place)).to_table(columns=columns).to_pylist()
    assert [row["_rowid"] for row in after] == [row["_rowid"] for row in before]
    for name in columns[2:]:
        assert [row[name] for row in after] == [min(row[name], 3) for row in before]
    assert lancecy.dataset(place).to_table(columns=columns).to_pylist() == after
    # Row ids go on after those of the branch.
    main = lance.dataset(str(place))
    main.insert(pa.table({"n": [50], "word": ["x"], "twice": [0]}))
    assert main.to_table(columns=["_rowid"])["_rowid"].to_pylist()[-1] == 13


def test_main_and_branch_do_not_differ_afterwards_and_changes_are_seen(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    branch.insert(words([10]))
    branch.update({"word": "'u'"}, "n = 1")
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    same = ds.diff(("exp", None))
    assert (same.num_added, same.num_updated, same.num_removed) == (0, 0, 0)
    assert (same.added_fragments, same.removed_fragments, same.rewritten_fragments) == ((), (), ())
    assert ds.changes(2).count_rows() == {
        "delete": 0,
        "update_preimage": 1,
        "insert": 1,
        "update_postimage": 1,
    }
    branch.delete("n = 10")
    branch.update({"word": "'v'"}, "n = 1")
    ds.append(words([77]))
    again = ds.diff(("exp", None))
    assert (again.num_added, again.num_updated, again.num_removed) == (2, 1, 0)
    back = ds.diff(("main", None), ("exp", None))
    assert (back.num_added, back.num_updated, back.num_removed) == (0, 1, 2)


def test_branch_is_used_and_brought_again(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    ds = lancecy.dataset(place)
    for number in range(10, 14):
        branch.insert(words([number]))
        branch.update({"word": f"'at {number}'"}, "n = 2")
        stats = ds.fast_forward("exp")
        # Only what is new: files of two fragments, and of deletions in two more after the first time.
        assert stats.num_files <= 4
        lance.dataset(str(place)).validate()
        assert sorted_rows(ds) == sorted_rows(branch) == sorted_rows(lance.dataset(str(place)))
    assert ds.version == 6
    rows = ds.to_table(columns=["n", "_row_created_at_version", "_row_last_updated_at_version"]).to_pylist()
    created = {row["n"]: row["_row_created_at_version"] for row in rows}
    assert [created[n] for n in (0, 10, 11, 12, 13)] == [1, 3, 4, 5, 6]
    assert {row["_row_last_updated_at_version"] for row in rows if row["n"] == 2} == {6}
    # The changes that each brought are those of its version.
    assert {row["n"] for row in ds.changes(4, 5).to_table().to_pylist()} == {12, 2}


def test_nothing_new_makes_no_version(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    ds = lancecy.dataset(place)
    assert ds.fast_forward("exp").num_files == 0
    assert ds.version == 2
    branch.insert(words([10]))
    ds.fast_forward("exp")
    assert ds.fast_forward("exp").num_files == 0
    assert ds.version == 3
    # Nor if main went on.
    ds.append(words([11]))
    assert (ds.fast_forward("exp").num_files, ds.version) == (0, 4)


def test_refused_where_main_moved_with_what_stands_in_the_way(tmp_path: Path) -> None:
    place = tmp_path / "t"
    changed(place)
    ds = lancecy.dataset(place)
    stale = lancecy.dataset(place)
    ds.append(words([20, 21]))
    ds.delete("n = 20")
    before = files_of(place)
    for one in (ds, stale):
        with pytest.raises(
            ConflictError,
            match=r"version 4 \(Delete, 11 rows\), version 3 \(Append, 12 rows\); nothing was changed",
        ):
            one.fast_forward("exp")
    assert files_of(place) == before


def test_refused_where_both_went_on_after_a_fast_forward(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    branch.insert(words([10]))
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    branch.insert(words([11]))
    ds.append(words([12]))
    with pytest.raises(ConflictError, match=r"version 4 \(Append, 12 rows\); nothing"):
        ds.fast_forward("exp")


def test_recreated_branch_is_another_one(tmp_path: Path) -> None:
    place = tmp_path / "t"
    main = made(place)
    branch = main.checkout_version(("exp", None))
    branch.insert(words([10]))
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    main = lance.dataset(str(place))
    main.branches.delete("exp")
    again = main.create_branch("exp", 2)
    again.insert(words([11]))
    with pytest.raises(ConflictError, match=r"version 3 \(Overwrite, 11 rows\)"):
        ds.fast_forward("exp")
    main.branches.delete("exp")
    third = main.create_branch("exp", 3)
    third.insert(words([12]))
    ds.fast_forward("exp")
    assert [row["n"] for row in sorted_rows(ds)] == [*range(11), 12]


def test_commit_during_the_copy_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "t"
    changed(place)
    copy = branch_files.copy_files

    def slowly(*arguments: Any) -> int:
        lance.dataset(str(place)).insert(words([30]))
        return copy(*arguments)

    monkeypatch.setattr(fast_forward, "copy_files", slowly)
    ds = lancecy.dataset(place)
    with pytest.raises(ConflictError, match=r"version 3 \(Append, 11 rows\)"):
        ds.fast_forward("exp")
    main = lance.dataset(str(place))
    assert (main.version, main.count_rows()) == (3, 11)


WRITERS: dict[str, Callable[[Any], object]] = {
    "append": lambda ds: lance.LanceDataset.commit(
        ds.uri,
        lance.LanceOperation.Append(lance.fragment.write_fragments(words([99]), ds.uri)),
        read_version=2,
    ),
    "delete": lambda ds: ds.delete("n = 5"),
    "update": lambda ds: ds.update({"word": "'stale'"}, "n = 6"),
    "index": lambda ds: ds.create_scalar_index("word", "BTREE"),
    "columns": lambda ds: ds.add_columns({"more": "n + 1"}),
    "drop": lambda ds: ds.drop_columns(["word"]),
    "compact": lambda ds: ds.optimize.compact_files(),
}


@pytest.mark.parametrize("name", WRITERS)
def test_pylance_writers_that_began_before_get_a_conflict(tmp_path: Path, name: str) -> None:
    place = tmp_path / "t"
    branch = changed(place)
    stale = lance.dataset(str(place))
    lancecy.dataset(place).fast_forward("exp")
    wanted = sorted_rows(branch)
    with pytest.raises(OSError, match=r"(?i)conflict|concurrent"):
        WRITERS[name](stale)
    main = lance.dataset(str(place))
    main.validate()
    assert sorted_rows(main) == wanted
    for row in wanted:
        assert main.to_table(filter=f"word = '{row['word']}' AND n = {row['n']}").to_pylist() == [row]


def test_restore_that_began_before_restores(tmp_path: Path) -> None:
    place = tmp_path / "t"
    changed(place)
    stale = lance.dataset(str(place))
    lancecy.dataset(place).fast_forward("exp")
    stale.restore()
    main = lance.dataset(str(place))
    main.validate()
    assert main.to_table().equals(words(range(10)))
    main.insert(words([10]))
    assert main.to_table(filter="n = 10").num_rows == 1


def test_lancecy_writers_that_began_before_conflict(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = changed(place)
    fragments = lancecy.write_fragments(words([99]), place)
    lancecy.dataset(place).fast_forward("exp")
    with pytest.raises(ConflictError):
        lancecy.commit(place, lancecy.LanceOperation.Append(fragments), read_version=2)
    assert sorted_rows(lancecy.dataset(place)) == sorted_rows(branch)


def test_only_the_parent_can_be_brought_forward(tmp_path: Path) -> None:
    place = tmp_path / "t"
    dev = made(place).checkout_version(("exp", None))
    child = dev.create_branch("team/child", ("exp", 2))
    child.insert(words([10]))
    ds = lancecy.dataset(place)
    with pytest.raises(ValueError, match=r"made from 'exp' and not from 'main'"):
        ds.fast_forward("team/child")
    with pytest.raises(NotFoundError, match=r"no branch 'exq'; it has exp"):
        ds.fast_forward("exq")
    dev_ds = lancecy.dataset(place / "tree" / "exp")
    dev_ds.fast_forward("team/child")
    assert dev_ds.to_table().equals(child.to_table())
    main = lance.dataset(str(place))
    main.branches.delete("team/child")
    assert main.checkout_version(("exp", None)).to_table().equals(dev_ds.to_table())
    ds.fast_forward("exp")
    main.branches.delete("exp")
    assert lance.dataset(str(place)).count_rows() == lancecy.dataset(place).count_rows() == 11


def test_schema_config_and_metadata_are_those_of_the_branch(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    branch.update_config({"colour": "blue"})
    branch.update_metadata({"owner": "me"})
    branch.drop_columns(["word"])
    branch.alter_columns({"path": "n", "name": "number"})
    ds = lancecy.dataset(place)
    stale = lance.dataset(str(place))
    ds.fast_forward("exp")
    # Who sets the same key meanwhile is told; another one is added.
    with pytest.raises(OSError, match="conflict"):
        stale.update_config({"colour": "red"})
    lance.dataset(str(place), version=2).update_config({"shape": "round"})
    main = lance.dataset(str(place))
    assert main.config()["shape"] == "round"
    assert main.config()["colour"] == "blue"
    assert main.metadata["owner"] == "me"
    assert main.schema.names == ds.schema.names == ["number"]


def test_bases_that_the_branch_got_are_kept(tmp_path: Path) -> None:
    place, other = tmp_path / "t", tmp_path / "other"
    made(place)
    branch = lancecy.dataset(place / "tree" / "exp")
    branch.add_bases([lancecy.DatasetBasePath(str(other), name="other")])
    branch.append(words([10]), target_bases=["other"])
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    assert [base.name for base in ds.context.snapshot.manifest.base_paths.values()] == ["other"]
    assert lance.dataset(str(place)).to_table().equals(branch.to_table())
    assert len(list(other.glob("**/*.lance"))) == 1


def test_blobs_are_copied(tmp_path: Path) -> None:
    place = tmp_path / "t"
    values = [bytes([n]) * (70_000 + n) for n in range(3)]

    def blobs(which: list[bytes]) -> pa.Table:
        return pa.table({"n": range(len(which)), "b": lance.blob_array(which)})

    lance.write_dataset(blobs(values[:1]), place, data_storage_version="2.2").create_branch("exp", 1)
    branch = lance.dataset(str(place)).checkout_version(("exp", None))
    lance.write_dataset(blobs(values), branch.uri, mode="append")
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    shutil.rmtree(place / "tree")
    read = lance.dataset(str(place)).take_blobs("b", indices=[0, 1, 2, 3])
    assert [blob.readall() for blob in read if blob is not None] == [values[0], *values]


def test_lost_and_cut_files_of_the_branch_change_nothing(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    branch.insert(words([10]))
    (path,) = (place / "tree" / "exp" / "data").glob("*.lance")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    ds = lancecy.dataset(place)
    with pytest.raises(StoreError, match="bytes instead of"):
        ds.fast_forward("exp")
    path.unlink()
    with pytest.raises(MissingFileError, match="lost"):
        ds.fast_forward("exp")
    assert lancecy.dataset(place).version == 2
    path.write_bytes(whole)
    ds.fast_forward("exp")
    assert ds.count_rows() == 11


def crashed(place: Path) -> set[str]:
    """A fast-forward that ends before its commit; returns the files before it."""
    before = files_of(place)

    class CrashError(Exception):
        pass

    def crash(step: Step) -> None:
        if step.done == step.total:
            raise CrashError

    with pytest.raises(CrashError):
        lancecy.dataset(place).fast_forward("exp", progress=crash)
    assert lance.dataset(str(place)).version == 2
    assert files_of(place) > before
    return before


def test_cleanup_removes_copies_of_a_crash_after_the_branch_is_deleted(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = changed(place)
    before = crashed(place)
    assert branch.count_rows() == 12
    main = lance.dataset(str(place))
    main.branches.delete("exp")
    lancecy.dataset(place).cleanup_old_versions(delete_unverified=True)
    assert files_of(place) == {path for path in before if not path.startswith(("tree/", "_refs/"))}
    assert main.to_table().equals(words(range(10)))


def test_crash_after_the_last_copy_is_repeated(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = changed(place)
    crashed(place)
    ds = lancecy.dataset(place)
    steps: list[Step] = []
    ds.fast_forward("exp", progress=steps.append)
    assert (steps[0].done, steps[-1].done) == (0, steps[-1].total)
    assert ds.to_table().equals(branch.to_table())


def test_cleanup_and_deleting_the_branch_leave_main_whole(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = changed(place)
    wanted = branch.to_table()
    lancecy.dataset(place).fast_forward("exp")
    main = lance.dataset(str(place))
    main.branches.delete("exp")
    lancecy.dataset(place).cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert lance.dataset(str(place)).to_table().equals(wanted)
    assert lance.dataset(str(place)).to_table(filter="n = 11").num_rows == 1


@pytest.mark.parametrize("stable", [True, False])
def test_cleanups_of_both_libraries_remove_only_what_neither_needs(tmp_path: Path, stable: bool) -> None:
    place = tmp_path / "t"
    branch = changed(place, stable)
    wanted = branch.to_table()
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")

    def clean() -> None:
        for one in (None, "exp"):
            opened = lance.dataset(str(place)).checkout_version((one, None))
            opened.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        for folder in (place, place / "tree" / "exp"):
            lancecy.dataset(folder).cleanup_old_versions(timedelta(0), delete_unverified=True)

    clean()
    for one in (None, "exp"):
        assert lance.dataset(str(place)).checkout_version((one, None)).to_table().equals(wanted)
    branch = lance.dataset(str(place)).checkout_version(("exp", None))
    branch.insert(pa.table({"n": [60], "word": ["more"], "twice": [0]}))
    ds.fast_forward("exp")
    ds.append({"n": [61], "word": ["main"], "twice": [0]})
    # The records of the fast-forwards are cleaned up, and the copied files tell the same fragments.
    clean()
    found = lancecy.dataset(place).diff(("exp", None))
    assert (found.num_added, found.num_updated, found.num_removed) == (1, 0, 0)
    assert len(found.added_fragments) == 1
    assert not found.removed_fragments


def test_other_file_of_the_same_name_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(place).checkout_version(("exp", None)).insert(words([10]))
    (path,) = (place / "tree" / "exp" / "data").glob("*.lance")
    other = place / "data" / path.name
    other.write_bytes(b"of another writer")
    with pytest.raises(StoreError, match="another file of its name"):
        lancecy.dataset(place).fast_forward("exp")
    assert other.read_bytes() == b"of another writer"


def test_overwritten_branch_and_restored_main(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place).checkout_version(("exp", None))
    lance.write_dataset(pa.table({"other": [1.5, 2.5]}), branch.uri, mode="overwrite")
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    main = lance.dataset(str(place))
    main.validate()
    assert main.to_table().to_pydict() == ds.to_table().to_pydict() == {"other": [1.5, 2.5]}
    main.checkout_version(2).restore()
    main = lance.dataset(str(place))
    assert main.to_table().equals(words(range(10)))
    main.insert(words([10]))
    main.validate()


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_every_version_of_data_files(tmp_path: Path, version: Any) -> None:
    place = tmp_path / "t"
    lance.write_dataset(words(range(10)), place, data_storage_version=version).create_branch("exp", 1)
    branch = lancecy.dataset(place / "tree" / "exp")
    branch.append(words([10]))
    branch.delete("n = 1")
    ds = lancecy.dataset(place)
    ds.fast_forward("exp")
    wanted = words([0, *range(2, 11)])
    assert lance.dataset(str(place)).to_table().equals(wanted)
    assert ds.to_table().equals(wanted)


def test_vectors_and_texts_are_found_by_their_indices(tmp_path: Path) -> None:
    place = tmp_path / "t"
    rng = np.random.default_rng(7)
    vectors = rng.random((300, 8), np.float32)

    def rows(start: int, stop: int) -> pa.Table:
        column = pa.FixedSizeListArray.from_arrays(vectors[start:stop].ravel(), 8)
        return pa.table({"v": column, "text": [f"word{n} common" for n in range(start, stop)]})

    ds = lance.write_dataset(rows(0, 200), place)
    ds.create_branch("exp", 1)
    branch = ds.checkout_version(("exp", None))
    branch.insert(rows(200, 300))
    branch.create_index("v", "IVF_FLAT", num_partitions=2)
    branch.create_scalar_index("text", "INVERTED")
    lancecy.dataset(place).fast_forward("exp")
    shutil.rmtree(place / "tree")
    main = lance.dataset(str(place))
    query = {"column": "v", "q": vectors[250], "k": 5, "nprobes": 2}
    found = main.to_table(nearest=query, columns=["text"])["text"].to_pylist()
    assert found == main.to_table(nearest={**query, "use_index": False}, columns=["text"])["text"].to_pylist()
    assert main.to_table(full_text_query="word250")["text"].to_pylist() == ["word250 common"]


def test_indices_that_wait_for_a_remapping_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "t"
    branch = made(place, stable=False).checkout_version(("exp", None))
    branch.optimize.compact_files(defer_index_remap=True)
    with pytest.raises(UnsupportedError, match="optimize its indices"):
        lancecy.dataset(place).fast_forward("exp")
    assert lancecy.dataset(place).version == 2


@pytest.mark.s3
def test_object_store_copies_by_itself(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{s3_server.make_bucket('fast-forward')}/{uuid.uuid4().hex}"
    options = {
        "aws_endpoint": s3_server.endpoint,
        "aws_access_key_id": "test",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    main = lance.write_dataset(words(range(10)), place, storage_options=options)
    branch = main.create_branch("exp", 1)
    branch.insert(words([10, 11]))
    branch.delete("n = 3")
    ds = lancecy.dataset(place, storage_options=options)

    put, sent = FsspecStore.put, list[str]()

    def noted(store: FsspecStore, path: str, *arguments: Any) -> Any:
        sent.append(path)
        return put(store, path, *arguments)

    monkeypatch.setattr(FsspecStore, "put", noted)
    monkeypatch.setattr(FsspecStore, "put_stream", noted)
    assert ds.fast_forward("exp").num_files == 2
    assert sent
    assert not [path for path in sent if path.endswith((".lance", ".arrow"))], (
        "these files passed through here"
    )
    wanted = words([0, 1, 2, *range(4, 12)])
    assert ds.to_table().equals(wanted)
    assert lance.dataset(place, storage_options=options).to_table().equals(wanted)
    found = ds.diff(("exp", None))
    assert (found.num_added, found.num_removed, found.added_fragments) == (0, 0, ())


@pytest.mark.parametrize("stable", [True, False])
def test_branches_of_lancecy_in_any_store(stable: bool) -> None:
    place = f"memory://fast_forward/{uuid.uuid4().hex}"
    ds = lancecy.write_dataset(words(range(5)), place, enable_stable_row_ids=stable)
    dev = ds.create_branch("team/dev")
    dev.append(words([5]))
    child = dev.create_branch("team/child")
    child.delete("n = 0")
    child.append(words([6]))
    # The parent of the child is the branch.
    assert dev.fast_forward("team/child").num_files == 2
    assert ds.fast_forward("team/dev").num_files == 3
    assert ds.to_table().equals(child.to_table())
    assert ds.diff(child).num_added == ds.diff(("team/dev", None)).num_removed == 0
    for name in ("team/child", "team/dev"):
        ds.branches.delete(name)
    assert lancecy.dataset(place).to_table().equals(words(range(1, 7)))


def test_branch_of_a_clone_leaves_the_files_of_the_source_where_they_are(tmp_path: Path) -> None:
    source = lancecy.write_dataset(words(range(5)), tmp_path / "source")
    clone = source.shallow_clone(str(tmp_path / "clone"))
    branch = clone.create_branch("exp")
    branch.append(words([5]))
    branch.delete("n = 1")
    assert clone.fast_forward("exp").num_files == 2
    (base,) = clone.context.snapshot.manifest.base_paths.values()
    assert base.path.endswith("source")
    clone.branches.delete("exp")
    read = lance.dataset(str(tmp_path / "clone"))
    assert read.to_table().equals(clone.to_table())
    assert read.to_table().equals(words([0, 2, 3, 4, 5]))


@pytest.mark.parametrize("applied", [False, True])
def test_storage_that_breaks_at_any_write_leaves_main_old_or_new(
    monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    old, new = words(range(5)), words([0, 2, 3, 4, 5])
    left = [1 << 30]

    def breaking(name: str) -> None:
        call = getattr(FsspecStore, name)

        def broken(store: FsspecStore, *arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                if applied and left[0] == -1:
                    call(store, *arguments)
                raise StoreError("the cable is out", path="", store=store.uri)
            return call(store, *arguments)

        monkeypatch.setattr(FsspecStore, name, broken)

    breaking("_write")
    breaking("_create")
    seen = set[int]()
    for allowed in range(20):
        place = f"memory://breaking/{uuid.uuid4().hex}"
        ds = lancecy.write_dataset(old, place)
        branch = ds.create_branch("exp")
        branch.append(words([5]))
        branch.delete("n = 1")
        left[0] = allowed
        try:
            stats = ds.fast_forward("exp")
        except (StoreError, CommitUnknownError):
            stats = None
        left[0] = 1 << 30
        found = lancecy.dataset(place)
        assert found.to_table().equals(new if found.version == 2 else old)
        assert stats is None or found.version == 2
        assert branch.to_table().equals(new)
        seen.add(found.version)
        lancecy.dataset(place).fast_forward("exp")
        assert lancecy.dataset(place).version == 2
        assert lancecy.dataset(place).to_table().equals(new)
        if stats is not None:
            break
    assert stats is not None
    assert seen == {1, 2}


@pytest.mark.filterwarnings("ignore:.*moved with the table:RuntimeWarning")
@pytest.mark.parametrize("cleaner", [lancecy, lance])
def test_main_of_a_moved_table_uses_its_own_files_afterwards(tmp_path: Path, cleaner: Any) -> None:
    """Files of a base at the old place would be unused for a cleanup, which would remove them."""
    ds = lancecy.write_dataset(words([1]), tmp_path / "old")
    branch = ds.create_branch("exp")
    branch.append(words([2]))
    branch.create_branch("exp/next").append(words([3]))
    (tmp_path / "old").rename(tmp_path / "new")
    ds = lancecy.dataset(tmp_path / "new")
    ds.checkout_version(("exp", None)).fast_forward("exp/next")
    ds.fast_forward("exp")
    assert ds.base_paths == {}
    for name in ("exp/next", "exp"):
        ds.branches.delete(name)
    cleaner.dataset(str(tmp_path / "new")).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert [row["n"] for row in sorted_rows(lance.dataset(ds.uri))] == [1, 2, 3]
    assert sorted_rows(lancecy.dataset(ds.uri)) == sorted_rows(lance.dataset(ds.uri))
