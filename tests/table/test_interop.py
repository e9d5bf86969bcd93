"""Tables that pylance writes, seen from their metadata."""

from __future__ import annotations

import os
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import DatasetNotFoundError, FormatError, NotFoundError, PathPolicyError
from lancecy.session import Session
from lancecy.table.manifest import DeletionFileType
from lancecy.table.rows.row_ids import row_ids
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions.locate import list_versions
from tests.helpers.snapshots import snapshot_of

pytestmark = pytest.mark.interop

lance = pytest.importorskip("lance")


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(start, stop), pa.int64()), "s": [f"v{i}" for i in range(start, stop)]}
    )


def write(path: Path, data: pa.Table, **options: Any) -> Any:
    given = {"data_storage_version": "legacy", "max_rows_per_file": 40, "max_rows_per_group": 20, **options}
    return lance.write_dataset(data, str(path), **given)


def opened(path: Path | str, **options: Any) -> Snapshot:
    return snapshot_of(str(path), session=Session(), **options)


def deleted_offsets(snapshot: Snapshot) -> dict[int, list[int]]:
    found = {f.id: snapshot.deletions(f) for f in snapshot.fragments}
    return {number: vector.offsets.tolist() for number, vector in found.items() if vector is not None}


@pytest.mark.parametrize("v2_names", [False, True])
def test_versions_of_both_naming_schemes(tmp_path: Path, v2_names: bool) -> None:
    path = tmp_path / "t"
    write(path, rows(0, 100), enable_v2_manifest_paths=v2_names)
    write(path, rows(100, 150), mode="append")
    theirs = lance.dataset(str(path))
    theirs.delete("id < 7")
    theirs = lance.dataset(str(path))
    names = sorted(n for n in os.listdir(path / "_versions") if n.endswith(".manifest"))
    assert (len(names[0]) == 29) is v2_names

    snapshot = opened(path)
    assert snapshot.version == theirs.version == 3
    assert snapshot.row_counts.num_rows == theirs.count_rows() == 143
    assert snapshot.schema.arrow == theirs.schema
    assert sum(r or 0 for r in snapshot.row_counts.physical) == 150
    listed = list_versions(snapshot.store)
    for ours, other in zip(listed, theirs.versions(), strict=True):
        assert ours.version == other["version"]
        assert ours.timestamp is not None
        # pylance's goes through a float and may be off by the last digit.
        assert abs(ours.timestamp - other["timestamp"].astimezone(UTC)) <= timedelta(microseconds=1)
        assert ours.summary == other["metadata"]
        assert opened(path, version=ours.version).row_counts.num_rows == int(other["metadata"]["total_rows"])
        assert opened(path, asof=ours.timestamp).version == ours.version
    first = listed[0].timestamp
    assert first is not None
    with pytest.raises(NotFoundError):
        opened(path, asof=first - timedelta(microseconds=1))


def test_both_schemes_in_one_folder_are_refused_by_both(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(0, 10), enable_v2_manifest_paths=True)
    data = (path / "_versions" / "18446744073709551614.manifest").read_bytes()
    (path / "_versions" / "2.manifest").write_bytes(data)
    with pytest.raises(FormatError, match="both naming schemes"):
        opened(path)
    with pytest.raises((OSError, ValueError), match="naming schemes"):
        lance.dataset(str(path))


@pytest.mark.parametrize(("count", "form"), [(9, DeletionFileType.ARROW), (6001, DeletionFileType.BITMAP)])
def test_deletion_files_of_both_forms(tmp_path: Path, count: int, form: DeletionFileType) -> None:
    path = tmp_path / "t"
    write(path, rows(0, 20_000), max_rows_per_file=10_000, max_rows_per_group=1000)
    chosen = np.sort(np.random.default_rng(4).choice(10_000, count, replace=False))
    lance.dataset(str(path)).delete(f"id in ({', '.join(map(str, chosen))})")
    snapshot = opened(path)
    file = snapshot.fragments[0].deletion_file
    assert file is not None
    assert file.file_type is form
    assert deleted_offsets(snapshot) == {0: chosen.tolist()}
    assert snapshot.row_counts.live == (10_000 - count, 10_000)


def test_stable_row_ids_after_update_and_compaction(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(0, 100), enable_stable_row_ids=True)
    write(path, rows(100, 130), mode="append")
    lance.dataset(str(path)).update({"s": "'new'"}, where="id % 10 = 3")
    lance.dataset(str(path)).delete("id between 50 and 60")
    compare_row_ids(path)
    lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=1000)
    compare_row_ids(path)


def compare_row_ids(path: Path) -> None:
    theirs = lance.dataset(str(path))
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    try:
        expected = theirs.scanner(columns=columns, with_row_id=True).to_table()
    except (OSError, ValueError, KeyError):
        expected = theirs.scanner(columns=["id"], with_row_id=True).to_table()
    snapshot = opened(path)
    assert snapshot.manifest.has_stable_row_ids
    assert snapshot.manifest.next_row_id == 130
    ids, created, updated = [], [], []
    for fragment in snapshot.fragments:
        assert fragment.physical_rows is not None
        alive = np.ones(fragment.physical_rows, np.bool_)
        vector = snapshot.deletions(fragment)
        if vector is not None:
            alive[vector.offsets] = False
        offsets = np.flatnonzero(alive)
        addresses = offsets.astype(np.uint64) + (np.uint64(fragment.id) << np.uint64(32))
        ids.append(row_ids(snapshot, fragment, offsets, addresses))
        made, changed = snapshot.created_versions(fragment), snapshot.updated_versions(fragment)
        assert made is not None
        assert changed is not None
        created.append(made.take(offsets))
        updated.append(changed.take(offsets))
    assert np.concatenate(ids).tolist() == expected["_rowid"].to_pylist()
    for name, values in (("_row_created_at_version", created), ("_row_last_updated_at_version", updated)):
        if name in expected.column_names:
            assert np.concatenate(values).tolist() == expected[name].to_pylist()


@pytest.mark.parametrize("is_root", [True, False])
@pytest.mark.parametrize("form", ["{}", "{}/", "file://{}"])
def test_files_in_bases_are_found(tmp_path: Path, is_root: bool, form: str) -> None:
    bases = [
        lance.DatasetBasePath(form.format(tmp_path / name), name=name, is_dataset_root=is_root)
        for name in ("b1", "b2")
    ]
    for name in ("b1", "b2"):
        (tmp_path / name).mkdir()
    path = tmp_path / "t"
    write(path, rows(0, 160), mode="create", initial_bases=bases, target_bases=["b1", "b2"])
    write(path, rows(160, 170), mode="append")
    lance.dataset(str(path)).delete("id in (3, 50)")
    snapshot = opened(path)
    places = []
    for fragment in snapshot.fragments:
        (file,) = fragment.files
        source = snapshot.source(file)
        places.append(source.store.uri.rpartition("/")[2])
        folder = "data/" if is_root or file.base_id is None else ""
        assert source.path == folder + file.path
        assert source.size == (Path(source.store.uri) / source.path).stat().st_size
    assert places == ["b1", "b2", "b1", "b2", "t"]
    # Deletion files go to the root of the table, whatever base the data is in.
    assert deleted_offsets(snapshot) == {0: [3], 1: [10]}
    assert snapshot.row_counts.num_rows == lance.dataset(str(path)).count_rows()
    with pytest.raises(PathPolicyError):
        opened(path, untrusted=True).source(snapshot.fragments[0].files[0])
    allowed = opened(path, untrusted=True, allowed_bases=[tmp_path / "b1", tmp_path / "b2"])
    assert allowed.source(snapshot.fragments[1].files[0]).size > 16


def test_branch_and_clones_open_by_their_uri(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows(0, 90))
    theirs = lance.dataset(str(path))
    theirs.delete("id = 5")
    theirs = lance.dataset(str(path))
    theirs.create_branch("dev/one")
    branch = opened(path / "tree" / "dev" / "one")
    assert (branch.manifest.branch, branch.version) == ("dev/one", 2)
    check_same_files(branch, opened(path))

    clone = tmp_path / "clone"
    theirs.shallow_clone(str(clone), 2)
    again = tmp_path / "again"
    lance.dataset(str(clone)).delete("id = 6")
    lance.dataset(str(clone)).shallow_clone(str(again), 3)
    check_same_files(opened(clone, version=2), opened(path))
    assert deleted_offsets(opened(again)) == {0: [5, 6]}
    assert opened(again).row_counts.num_rows == lance.dataset(str(again)).count_rows() == 88


def check_same_files(ours: Snapshot, source: Snapshot) -> None:
    def places(snapshot: Snapshot) -> list[tuple[str, str]]:
        found = [snapshot.source(f) for fragment in snapshot.fragments for f in fragment.files]
        return [(s.store.uri, s.path) for s in found]

    # The root of a branch's parent is a base; from inside the parent the same files have relative paths.
    assert [os.path.join(*p) for p in places(ours)] == [os.path.join(*p) for p in places(source)]
    assert deleted_offsets(ours) == deleted_offsets(source) == {0: [5]}


def test_index_section_is_carried(tmp_path: Path) -> None:
    path = tmp_path / "t"
    theirs = write(path, rows(0, 90))
    theirs.create_scalar_index("id", "BTREE")
    theirs = lance.dataset(str(path))
    (entry,) = opened(path).indices()
    (described,) = theirs.describe_indices()
    assert (entry.name, list(entry.fields)) == (described.name, [0])
    assert entry.details_type == "lance.table.BTreeIndexDetails"
    assert entry.fragment_bitmap is not None
    assert opened(path).manifest.transaction_section is not None


def test_missing_table_is_missing_for_both(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        opened(tmp_path / "none")
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(str(tmp_path / "none"))
