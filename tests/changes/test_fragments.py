"""Fragments that workers write, delete from and describe, and another process commits: lancecy or pylance."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import FragmentMetadata, LanceFragment, LanceOperation
from lancecy.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    FormatError,
    RetryableConflictError,
    RowNotFoundError,
    SchemaError,
)
from tests.changes.rows import rows_of

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
Part = Any


def table(root: Path, rows: int = 9, **options: Any) -> lancecy.Dataset:
    """Fragments of three rows, numbered from 0."""
    data = pa.table({"n": range(rows), "w": [f"w{i}" for i in range(rows)]})
    return lancecy.write_dataset(data, root, max_rows_per_file=3, **options)


def sent(part: FragmentMetadata) -> FragmentMetadata:
    """What arrives of a fragment that is sent as text."""
    return FragmentMetadata.from_json(json.dumps(part.to_json()))


def part_of(ds: Any, number: int) -> Any:
    found = ds.get_fragment(number)
    assert found is not None
    return found


# -- created --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_workers_create_the_fragments_of_a_new_table(tmp_path: Path, version: str) -> None:
    parts = [
        LanceFragment.create(tmp_path, {"n": [number, number + 1]}, data_storage_version=version)
        for number in (0, 10)
    ]
    assert [part.physical_rows for part in parts] == [2, 2] and not (tmp_path / "_versions").exists()
    change = LanceOperation.Overwrite(pa.schema({"n": pa.int64()}), [sent(part) for part in parts])
    ds = lancecy.commit(tmp_path, change)
    assert rows_of(ds) == [0, 1, 10, 11] and ds.verify().is_ok


def test_created_fragment_has_the_columns_of_its_table(tmp_path: Path) -> None:
    ds = table(tmp_path)
    part = LanceFragment.create(ds, {"w": ["x"], "n": [9]}, fragment_id=7)
    assert part.id == 7 and part.files[0].fields == (0, 1)
    made = lancecy.commit(ds, LanceOperation.Append([part]))
    assert [fragment.fragment_id for fragment in made.get_fragments()] == [0, 1, 2, 3]
    assert rows_of(made) == list(range(10))
    with pytest.raises(SchemaError, match="'x'"):
        LanceFragment.create(ds, {"x": [1]})


def test_created_fragment_is_one_file(tmp_path: Path) -> None:
    rows = pa.table({"n": np.arange((1 << 20) + 5)})
    calls: list[Any] = []
    part = LanceFragment.create(tmp_path, rows, progress=calls.append, durability="none")
    assert (len(part.files), part.physical_rows, bool(calls)) == (1, rows.num_rows, True)


def test_fragment_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no rows"):
        LanceFragment.create(tmp_path / "t", pa.table({"n": pa.array([], pa.int64())}))
    assert not list((tmp_path).rglob("*.lance"))


def test_fragments_come_as_the_transaction_that_adds_them(tmp_path: Path) -> None:
    made = lancecy.write_fragments({"n": [1]}, tmp_path, return_transaction=True)
    assert (made.read_version, made.operation_name, made.commit_message) == (0, "Overwrite", None)
    ds = lancecy.commit(tmp_path, made.operation)
    added = lancecy.write_fragments({"n": [2]}, ds, return_transaction=True)
    assert (added.read_version, added.operation_name) == (1, "Append") and added.uuid != made.uuid
    ds = lancecy.commit(ds, pickle.loads(pickle.dumps(added)).operation, added.read_version)
    assert rows_of(ds) == [1, 2]
    other = lancecy.write_fragments({"m": ["x"]}, ds, mode="overwrite", return_transaction=True)
    assert (other.read_version, other.operation_name) == (2, "Overwrite")
    ds = lancecy.commit(ds, other.operation, other.read_version)
    assert (ds.to_table().to_pydict(), ds.version) == ({"m": ["x"]}, 3)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_transactions_of_fragments_are_of_the_kinds_of_pylance(tmp_path: Path, mode: Any) -> None:
    import lance

    rows = pa.table({"n": [1]})
    for is_new in (True, False):
        uri = str(tmp_path / str(is_new))
        if not is_new:
            lancecy.write_dataset(rows, uri)
        if mode == "create" and not is_new:
            continue
        theirs = lance.fragment.write_fragments(rows, uri, mode=mode, return_transaction=True)
        mine = lancecy.write_fragments(rows, uri, mode=mode, return_transaction=True)
        assert mine.operation_name == type(theirs.operation).__name__
        assert mine.read_version == theirs.read_version


# -- deleted from ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_workers_delete_rows_and_one_process_commits(tmp_path: Path, version: str, stable: bool) -> None:
    ds = table(tmp_path, data_storage_version=version, enable_stable_row_ids=stable)
    found = {part.fragment_id: part.delete("n >= 2 AND n < 6") for part in ds.get_fragments()}
    assert rows_of(lancecy.dataset(tmp_path)) == list(range(9))  # nothing is committed
    assert found[0] is not None and found[0].num_deletions == 1
    assert found[1] is None and found[2] == part_of(ds, 2).metadata
    updated = [sent(part) for part in found.values() if part is not None]
    removed = [number for number, part in found.items() if part is None]
    made = lancecy.commit(ds, LanceOperation.Delete(updated, removed, "n >= 2 AND n < 6"))
    assert rows_of(made) == [0, 1, 6, 7, 8] and made.verify().is_ok
    again = part_of(made, 0).delete("n = 0")
    assert again.num_deletions == 2
    made = lancecy.commit(made, LanceOperation.Delete([again], [], "n = 0"))
    assert rows_of(made) == [1, 6, 7, 8]


def test_rows_are_deleted_by_their_offsets(tmp_path: Path) -> None:
    ds = table(tmp_path)
    first = part_of(ds, 0)
    assert first.delete_rows([]) == first.metadata
    assert first.delete_rows([2, 0, 2]).num_deletions == 2
    assert first.delete_rows(range(3)) is None
    new = first.delete_rows(np.array([1], np.uint64))
    made = lancecy.commit(ds, LanceOperation.Delete([new], [], "offset 1"))
    first = part_of(made, 0)
    assert first.delete_rows([1]) == first.metadata  # it is deleted already
    assert first.delete_rows(iter([0, 1])).num_deletions == 2
    assert first.delete_rows([0, 2]) is None
    assert rows_of(made) == [0, 2, 3, 4, 5, 6, 7, 8]


def test_many_deleted_rows_are_a_bitmap(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": np.arange(20_000)}, tmp_path)
    new = part_of(ds, 0).delete("n % 2 = 0")
    assert new.to_json()["deletion_file"]["file_type"] == "bitmap"
    assert lancecy.commit(ds, LanceOperation.Delete([new], [], "")).count_rows() == 10_000


@pytest.mark.parametrize(
    ("offsets", "error", "said"),
    [
        ([3], RowNotFoundError, "fragment 1 has no row at offset 3: it has 3 rows"),
        ([-1], ValueError, "no row at offset -1"),
        ([0.5], TypeError, "whole numbers"),
        (["x"], TypeError, "whole numbers"),
        ([True], TypeError, "whole numbers"),
    ],
)
def test_offsets_that_are_no_rows_are_refused(
    tmp_path: Path, offsets: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        part_of(table(tmp_path), 1).delete_rows(offsets)
    assert not (tmp_path / "_deletions").exists()


def test_wrong_predicate_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ColumnNotFoundError, match="'m'"):
        part_of(table(tmp_path), 1).delete("m = 1")
    assert not (tmp_path / "_deletions").exists()


def test_deletes_of_one_fragment_by_two_writers_conflict(tmp_path: Path) -> None:
    ds = table(tmp_path)
    new = part_of(ds, 0).delete("n = 0")
    lancecy.dataset(tmp_path).delete("n = 1")
    with pytest.raises(RetryableConflictError):
        lancecy.commit(tmp_path, LanceOperation.Delete([new], [], "n = 0"), 1)
    assert rows_of(lancecy.dataset(tmp_path)) == [0, *range(2, 9)]


# -- described ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_is_sent_as_json_and_pickled(tmp_path: Path, version: str) -> None:
    ds = table(tmp_path, data_storage_version=version, enable_stable_row_ids=True)
    ds.delete("n = 4")
    for part in ds.get_fragments():
        assert sent(part.metadata) == part.metadata == pickle.loads(pickle.dumps(part.metadata))
    assert part_of(ds, 1).metadata.num_rows == 2
    assert pickle.loads(pickle.dumps(part_of(ds, 1))).to_table()["n"].to_pylist() == [3, 5]


NESTED = pa.table(
    {
        "n": [0, 1, 2],
        "point": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, {"x": 3, "y": None}],
        "list": [[{"k": 1}], [], None],
        "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        "word": ["x", None, "z"],
    }
)
FLAT = NESTED.select(["n", "vector", "word"])


@pytest.mark.parametrize("version", VERSIONS)
def test_file_that_no_version_names_is_added_again(tmp_path: Path, version: str) -> None:
    rows = FLAT if version == "0.1" else NESTED
    ds = lancecy.write_dataset(rows, tmp_path, data_storage_version=version)
    name = part_of(ds, 0).data_files()[0].path
    shutil.copy(tmp_path / "data" / name, tmp_path / "data" / "found.lance")
    part = LanceFragment.create_from_file("found.lance", ds, 0)
    known = part_of(ds, 0).data_files()[0]
    assert part.files[0].fields == known.fields and part.files[0].column_indices == known.column_indices
    assert part.files[0].size == known.size and (part.physical_rows, part.id) == (3, 0)
    made = lancecy.commit(ds, LanceOperation.Append([part]))
    assert made.to_table().equals(pa.concat_tables([ds.to_table(), ds.to_table()]).combine_chunks())
    assert made.verify().is_ok


def test_columns_of_a_found_file_are_those_of_the_same_names(tmp_path: Path) -> None:
    other = lancecy.write_dataset({"w": ["x"], "n": [9]}, tmp_path / "other")
    name = part_of(other, 0).data_files()[0].path
    ds = table(tmp_path / "t")
    shutil.copy(tmp_path / "other" / "data" / name, tmp_path / "t" / "data")
    part = LanceFragment.create_from_file(name, ds, 0)
    assert (part.files[0].fields, part.files[0].column_indices) == ((1, 0), (0, 1))
    made = lancecy.commit(ds, LanceOperation.Append([part]))
    assert made.to_table().slice(9).to_pylist() == [{"n": 9, "w": "x"}]


@pytest.mark.parametrize(
    ("rows", "said"),
    [({"x": [1]}, "has a column 'x', which the table lacks"), ({"n": ["1"]}, "of type string in .* int64")],
)
def test_found_file_with_other_columns_is_refused(tmp_path: Path, rows: Any, said: str) -> None:
    ds = table(tmp_path / "t")
    name = LanceFragment.create(tmp_path / "t", rows, mode="overwrite").files[0].path
    with pytest.raises(SchemaError, match=said):
        LanceFragment.create_from_file(name, ds, 0)
    with pytest.raises(DatasetNotFoundError):
        LanceFragment.create_from_file("missing.lance", ds, 0)


def test_validation_names_the_damaged_file(tmp_path: Path) -> None:
    ds = table(tmp_path)
    for part in ds.get_fragments():
        part.validate()
    name = part_of(ds, 1).data_files()[0].path
    path = tmp_path / "data" / name
    path.write_bytes(bytes(path.stat().st_size))
    fresh = lancecy.dataset(tmp_path)
    part_of(fresh, 0).validate()
    with pytest.raises(FormatError, match=name):
        part_of(fresh, 1).validate()


# -- with pylance ---------------------------------------------------------------------------------


def _theirs(part: FragmentMetadata) -> Any:
    import lance

    return lance.fragment.FragmentMetadata.from_json(json.dumps(part.to_json()))


def _ours(part: Any) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps(part.to_json()))


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_one_library_prepares_and_the_other_commits(tmp_path: Path, version: str, stable: bool) -> None:
    import lance

    uri = str(tmp_path)
    table(tmp_path, data_storage_version=version, enable_stable_row_ids=stable)
    # Rows of pylance, committed by lancecy, and the other way round.
    rows = pa.table({"n": [9], "w": ["x"]})
    first = lance.fragment.LanceFragment.create(uri, rows, data_storage_version=version)
    ds = lancecy.commit(uri, LanceOperation.Append([_ours(first)]), 1)
    mine = LanceFragment.create(ds, {"n": [10], "w": ["y"]})
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append([_theirs(mine)]), read_version=2)
    # Deletes of both.
    ds = lancecy.dataset(uri)
    theirs = [part.delete("n % 3 = 0") for part in lance.dataset(uri).get_fragments()]
    gone = [number for number, part in enumerate(theirs) if part is None]
    ds = lancecy.commit(ds, LanceOperation.Delete([_ours(p) for p in theirs if p], gone, "n % 3 = 0"))
    assert rows_of(ds) == [1, 2, 4, 5, 7, 8, 10]
    new = [part.delete("n % 2 = 0") for part in ds.get_fragments()]
    gone = [part.fragment_id for part, left in zip(ds.get_fragments(), new, strict=True) if left is None]
    other = lance.LanceOperation.Delete([_theirs(p) for p in new if p], gone, "n % 2 = 0")
    read = lance.LanceDataset.commit(uri, other, read_version=4)
    assert read.to_table()["n"].to_pylist() == rows_of(lancecy.dataset(uri)) == [1, 5, 7]
    read.validate()
    assert lancecy.dataset(uri).verify().is_ok


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_json_of_committed_fragments_is_that_of_pylance(tmp_path: Path, version: str, stable: bool) -> None:
    import lance

    ds = table(tmp_path, data_storage_version=version, enable_stable_row_ids=stable)
    ds.delete("n in (1, 4)")
    lance.write_dataset(ds.to_table(), str(tmp_path), mode="append")
    ds = ds.checkout_latest()
    theirs = lance.dataset(str(tmp_path)).get_fragments()
    assert len(theirs) == len(ds.get_fragments()) == 4
    for mine, other in zip(ds.get_fragments(), theirs, strict=True):
        assert mine.metadata.to_json() == other.metadata.to_json()
        assert _ours(other.metadata) == mine.metadata
        assert _theirs(mine.metadata).to_json() == other.metadata.to_json()


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_found_files_are_described_as_pylance_wrote_them(tmp_path: Path, version: str) -> None:
    import lance

    rows = FLAT if version == "0.1" else NESTED
    options: Any = {"data_storage_version": version}
    written = lance.write_dataset(rows, str(tmp_path), **options).get_fragments()[0].metadata
    # pylance's own ``create_from_file`` gives nested columns of 2.1 more ids than columns.
    mine = LanceFragment.create_from_file(written.files[0].path, lancecy.dataset(tmp_path), 0).to_json()
    size = (tmp_path / "data" / written.files[0].path).stat().st_size
    assert mine["files"][0].pop("file_size_bytes") == size
    other = written.to_json()
    del other["files"][0]["file_size_bytes"]
    assert mine == other


@pytest.mark.interop
def test_the_path_of_a_deletion_file_is_pylances(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    ds = lancecy.write_dataset({"a": range(6)}, tmp_path / "t", max_rows_per_file=3)
    ds.delete("a = 1")
    found = [fragment.deletion_file() for fragment in ds.get_fragments()]
    assert found == [fragment.deletion_file() for fragment in lance.dataset(ds.uri).get_fragments()]
    assert found[1] is None and (tmp_path / "t" / str(found[0])).is_file()
