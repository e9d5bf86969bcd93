"""Cleanups here and in pylance: the same goes, or less of it, and whatever is left can be read."""

from __future__ import annotations

import os
import random
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from tests.changes.rows import rows_of
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop

NOW = timedelta(0)
EIGHT_DAYS = 8 * 86_400


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def rows(count: int, start: int = 0) -> pa.Table:
    return pa.table(
        {"n": pa.array(range(start, start + count), pa.int64()), "w": [f"w{i % 7}" for i in range(count)]}
    )


def history(root: Path, seed: int) -> None:
    """A table that both libraries wrote: everything that makes files, and what a crash leaves."""
    rng = random.Random(seed)
    lancecy.write_dataset(rows(40), root, max_rows_per_file=9)
    for step in range(rng.randrange(6, 10)):
        theirs = lance.dataset(str(root))
        kind = rng.choice(
            ["append", "delete", "update", "compact", "index", "overwrite", "restore", "tag", "column"]
        )
        match kind:
            case "append" if step % 2:
                lance.write_dataset(rows(5, 100 * step), str(root), mode="append")
            case "append":
                lancecy.dataset(root).append(rows(5, 100 * step))
            case "delete" if step % 2:
                theirs.delete(f"n % 5 = {rng.randrange(5)}")
            case "delete":
                lancecy.dataset(root).delete(f"n % 5 = {rng.randrange(5)}")
            case "update":
                theirs.update({"w": "'u'"}, where="n % 3 = 1")
            case "compact":
                theirs.optimize.compact_files()
            case "index":
                theirs.create_scalar_index("n", rng.choice(["BTREE", "BITMAP"]), replace=True)
            case "overwrite":
                changed = lancecy.dataset(root)
                changed.insert(rows(6, 500), mode="overwrite", max_rows_per_file=3)
            case "restore":
                lancecy.dataset(root, rng.randrange(1, theirs.version + 1)).restore()
            case "tag":
                theirs.tags.create(f"t{step}", rng.randrange(1, theirs.version + 1))
            case "column" if "x" not in theirs.schema.names:
                theirs.add_columns({"x": "n + 1"})
    for number in range(3):
        left = root / f"data/{number:08b}.lance"
        left.write_bytes(b"left")
        os.utime(left, (time.time() - EIGHT_DAYS,) * 2)


def checked(root: Path) -> dict[int, Any]:
    """What both libraries read of every version; pylance finds nothing wrong."""
    newest = lancecy.dataset(root)
    found = {}
    for version in [v["version"] for v in newest.versions()]:
        theirs = lance.dataset(str(root), version=version)
        theirs.validate()
        found[version] = lancecy.dataset(root, version).to_table().to_pylist()
        assert found[version] == theirs.to_table().to_pylist()
        for number in (1, 3, 503):
            assert (
                theirs.to_table(filter=f"n = {number}").num_rows
                == theirs.to_table(filter=f"n = {number}", use_scalar_index=False).num_rows
            )
    return found


TERMS: list[dict[str, Any]] = [
    {"older_than": NOW},
    {"older_than": NOW, "delete_unverified": True},
    {"retain_versions": 3},
    {"older_than": timedelta(days=1)},
]


@folded("seed", range(8))
def test_ours_removes_what_theirs_does_or_less(tmp_path: Path, seed: int) -> None:
    root, twin = tmp_path / f"{seed}", tmp_path / f"{seed} twin"
    history(root, seed)
    shutil.copytree(root, twin)
    given = {**TERMS[seed % len(TERMS)], "error_if_tagged_old_versions": False}
    before, held = files(root), checked(root)
    stats = lancecy.dataset(root).cleanup_old_versions(**given)
    theirs = lance.dataset(str(twin)).cleanup_old_versions(**given)
    ours_gone, theirs_gone = before - files(root), before - files(twin)
    assert ours_gone == theirs_gone
    assert (stats.old_versions, stats.data_files_removed, stats.index_files_removed, stats.bytes_removed) == (
        theirs.old_versions, theirs.data_files_removed, theirs.index_files_removed, theirs.bytes_removed,
    )  # fmt: skip
    left = checked(root)
    assert left == {version: held[version] for version in left}
    assert max(held) in left
    # Each goes on where the other has cleaned up, and the other's cleanup finds nothing that is needed.
    lance.write_dataset(lance.dataset(str(root)).to_table().slice(0, 2), str(root), mode="append")
    lancecy.dataset(twin).append(lancecy.dataset(twin).head(2))
    lance.dataset(str(root)).cleanup_old_versions(**given)
    lancecy.dataset(twin).cleanup_old_versions(**given)
    assert list(checked(root).values())[-1] == list(checked(twin).values())[-1]
    shutil.rmtree(root)
    shutil.rmtree(twin)


@pytest.mark.parametrize("library", [lancecy, lance])
def test_tables_with_old_names_of_manifests_are_cleaned_up_as_others_are(
    tmp_path: Path, library: Any
) -> None:
    left = []
    for is_new in (False, True):
        root = tmp_path / f"{is_new}"
        library.write_dataset(rows(40), root, max_rows_per_file=9, enable_v2_manifest_paths=is_new)
        for n in range(12):  # 9 comes after 10 in the order of old names
            library.write_dataset(rows(1, 100 + n), root, mode="append")
        ds = lancecy.dataset(root)
        ds.delete("n = 3")
        ds.create_scalar_index("n")
        ds.tags.create("kept", 9)
        ds.optimize.compact_files()
        orphan = root / "data" / "00000000-0000-4000-8000-000000000000.lance"
        orphan.write_bytes(b"left by a crash")
        os.utime(orphan, (0, 0))
        removed = ds.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
        assert not orphan.exists()
        ds.append(rows(1, 200))
        ds.append(rows(1, 201))
        kept = ds.cleanup_old_versions(retain_versions=2, error_if_tagged_old_versions=False)
        counts = {path.name: len(list(path.iterdir())) for path in root.iterdir() if path.is_dir()}
        versions = sorted(version["version"] for version in ds.versions())
        assert lance.dataset(root).to_table().num_rows == ds.count_rows() == 53
        assert lance.dataset(root, version="kept").count_rows() == 48
        left.append((counts, versions, removed.old_versions, kept.old_versions))
    assert left[0] == left[1]


def test_files_of_branches_stay(tmp_path: Path) -> None:
    root = tmp_path / "t"
    ds = lance.write_dataset(rows(10), str(root))
    ds = lance.write_dataset(rows(10, 10), str(root), mode="append")
    branch = ds.create_branch("b/one", 2)
    lance.write_dataset(rows(3, 50), branch.uri, mode="append")
    far = lance.dataset(branch.uri).create_branch("two")
    lance.dataset(branch.uri).tags.create("kept", ("b/one", 3))
    lance.write_dataset(rows(1, 90), far.uri, mode="overwrite")
    lance.write_dataset(rows(4, 20), str(root), mode="overwrite")
    lance.write_dataset(rows(4, 30), str(root), mode="overwrite")
    lance.write_dataset(rows(4, 40), branch.uri, mode="overwrite")
    uris = [str(root), branch.uri, far.uri]
    held = {
        (uri, v["version"]): rows_of(lancecy.dataset(uri, v["version"]))
        for uri in uris
        for v in lancecy.dataset(uri).versions()
    }
    for uri in uris:
        lancecy.dataset(uri).cleanup_old_versions(
            NOW, delete_unverified=True, error_if_tagged_old_versions=False
        )
        for (other, version), expected in held.items():
            left = {v["version"] for v in lancecy.dataset(other).versions()}
            if version in left:
                assert rows_of(lancecy.dataset(other, version)) == expected
                lance.dataset(other, version=version).validate()
    # The first version of the main table, its third; the branch point and the tag of a branch stay.
    assert [[v["version"] for v in lancecy.dataset(uri).versions()] for uri in uris] == [[2, 4], [3, 4], [4]]


def test_shallow_clones_keep_their_files_if_they_are_named(tmp_path: Path) -> None:
    root, clone = tmp_path / "t", tmp_path / "clone"
    lance.write_dataset(rows(10), str(root)).shallow_clone(str(clone), 1)
    ds = lancecy.write_dataset(rows(2), root, mode="overwrite")
    assert ds.cleanup_old_versions(NOW, dry_run=True).data_files_removed == 1
    ds.cleanup_old_versions(NOW, delete_unverified=True, used_by=[clone])
    assert rows_of(lancecy.dataset(clone)) == list(range(10))
    lance.dataset(str(clone)).validate()


def test_theirs_removes_our_leftovers(tmp_path: Path) -> None:
    """Unfinished files of writers that died, under the names our stores give them."""
    from lancecy.store.local import LocalStore

    ds = lancecy.write_dataset(rows(3), tmp_path)
    names = [
        "data/a.lance",
        "_deletions/0-1-2.bin",
        "_deletions/0-1-2.arrow",
        "_transactions/1-x.txn",
        "_versions/7.manifest",
    ]
    streams = [LocalStore(str(tmp_path)).put_stream(name) for name in names]
    unfinished = [path for path in tmp_path.rglob(".tmp*") if not path.name.endswith("latest")]
    assert len(unfinished) == len(names)
    lance.dataset(str(tmp_path)).cleanup_old_versions(NOW)
    assert all(path.exists() for path in unfinished)
    for path in unfinished:
        os.utime(path, (time.time() - EIGHT_DAYS,) * 2)
    lance.dataset(str(tmp_path)).cleanup_old_versions(NOW)
    assert not any(path.exists() for path in unfinished)
    assert rows_of(ds) == [0, 1, 2]
    for stream in streams:
        stream.abort()  # type: ignore[attr-defined]
