"""Old versions, and what nobody needs, are removed; whatever anybody needs stays."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath
from lancecy.errors import ConflictError, FormatError, NotFoundError, PathPolicyError, UnsupportedError
from lancecy.progress import Step
from lancecy.table.cleanup.plan import CleanupStats
from lancecy.table.paths import manifest_name
from lancecy.table.versions import version_store
from tests.changes.rows import rows_of

NOW = timedelta(0)
EIGHT_DAYS = 8 * 86_400


def table(root: Path, **options: Any) -> lancecy.Dataset:
    """Four versions: two files, one replaced by another, one row of that deleted, one more file."""
    ds = lancecy.write_dataset({"n": [0, 1, 2, 3]}, root, max_rows_per_file=2, **options)
    ds.insert({"n": [4, 5, 6]}, mode="overwrite")
    ds.delete("n = 5")
    ds.append({"n": [7]})
    return ds


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def old(path: Path, age: int = EIGHT_DAYS) -> Path:
    """A file, there and old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"left")
    os.utime(path, (time.time() - age,) * 2)
    return path


def readable(ds: lancecy.Dataset) -> dict[int, list[int]]:
    """Rows of every version there is."""
    return {v["version"]: rows_of(ds.checkout_version(v["version"])) for v in ds.versions()}


ROWS = {1: [0, 1, 2, 3], 2: [4, 5, 6], 3: [4, 6], 4: [4, 6, 7]}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, [1, 2, 3, 4]),
        ({"older_than": NOW}, [4]),
        ({"older_than": timedelta(hours=1)}, [1, 2, 3, 4]),
        ({"retain_versions": 2}, [3, 4]),
        ({"retain_versions": 9}, [1, 2, 3, 4]),
        ({"older_than": NOW, "retain_versions": 3}, [2, 3, 4]),
        ({"versions": [2, 4, 9]}, [1, 3, 4]),
    ],
)
def test_versions_go_by_age_count_or_name(tmp_path: Path, given: dict[str, Any], left: list[int]) -> None:
    ds = table(tmp_path)
    before = files(tmp_path)
    planned = ds.cleanup_old_versions(**given, dry_run=True)
    assert files(tmp_path) == before
    stats = ds.cleanup_old_versions(**given)
    assert stats == planned
    assert stats.old_versions == 4 - len(left)
    assert readable(ds) == {version: ROWS[version] for version in left}
    assert ds.cleanup_old_versions(**given) == CleanupStats()


def test_counts_are_those_of_what_went(tmp_path: Path) -> None:
    ds = table(tmp_path)
    before = {path: (tmp_path / path).stat().st_size for path in files(tmp_path)}
    seen: list[Step] = []
    stats = ds.cleanup_old_versions(NOW, progress=seen.append)
    gone = set(before) - files(tmp_path)
    assert stats == CleanupStats(sum(before[path] for path in gone), 3, 2, 3)
    assert str(stats).endswith("bytes, 3 old versions, 2 data files, 3 transaction files")
    assert str(CleanupStats(1, 1, 1)) == "1 byte, 1 old version, 1 data file"
    assert str(CleanupStats()) == "no files"
    assert (seen[-1].what, seen[-1].fraction, seen[-1].total) == ("remove", 1.0, 8)


def test_open_version_and_all_after_it_stay(tmp_path: Path) -> None:
    ds = table(tmp_path)
    assert ds.checkout_version(2).cleanup_old_versions(NOW).old_versions == 1
    assert readable(ds) == {version: ROWS[version] for version in (2, 3, 4)}


def test_restored_versions_keep_their_files(tmp_path: Path) -> None:
    ds = table(tmp_path)
    old_one = ds.checkout_version(1)
    old_one.restore()
    assert old_one.cleanup_old_versions(NOW).data_files_removed == 2
    assert readable(old_one) == {5: ROWS[1]}


def test_young_versions_stay_whichever_clock_says_so(tmp_path: Path) -> None:
    ds = table(tmp_path)
    day = timedelta(days=1)
    for path in tmp_path.rglob("*"):
        os.utime(path, (time.time() - EIGHT_DAYS,) * 2)
    # Written a moment ago by the clock of the writer, though the store says otherwise.
    assert ds.cleanup_old_versions(day).old_versions == 0


# -- what nobody names ----------------------------------------------------------------------------


LEFT = [
    "data/0101.lance",
    "data/.tmp_0123456789abcdef.lance",
    "data/0101/1.blob",
    "_deletions/0-1-77.arrow",
    "_deletions/0-1-78.bin",
    "_transactions/1-0f7f6a2c-0000-4000-8000-000000000000.txn",
    "_indices/0f7f6a2c-0000-4000-8000-000000000000/page.lance",
    "_versions/.tmp_0123456789abcdef",
]
FOREIGN = [
    "data/notes.txt",
    "data/deep/er/x.lance",
    "_indices/mine/x.lance",
    "_versions/x.bak",
    "x.lance",
    "tree.txt",
]


def test_leftovers_go_after_seven_days_or_when_told(tmp_path: Path) -> None:
    ds = table(tmp_path)
    kept = files(tmp_path)
    for name in (*LEFT, *FOREIGN):
        old(tmp_path / name)
    young = [old(tmp_path / name, 6 * 86_400) for name in ("data/0110.lance", "_transactions/9-a.txn")]
    index = old(tmp_path / LEFT[6]).with_name("young.lance")
    index.write_bytes(b"of an index that is being written")
    assert ds.cleanup_old_versions() == CleanupStats(28, 0, 3, 1, 0, 2, 1)
    assert files(tmp_path) - kept == {
        *FOREIGN,
        *(str(p.relative_to(tmp_path)) for p in (*young, index)),
        LEFT[6],
    }
    stats = ds.cleanup_old_versions(delete_unverified=True)
    assert (stats.data_files_removed, stats.index_files_removed, stats.old_versions) == (1, 2, 0)
    assert files(tmp_path) == kept | set(FOREIGN)


@pytest.mark.parametrize("torn", [False, True])
def test_manifest_staged_by_a_writer_that_died_goes_with_its_store(tmp_path: Path, torn: bool) -> None:
    """Without the store it may be a version. If its commit may still come, it stays, and is damage if it is torn."""
    through = {"manifest_store": f"sqlite:///{tmp_path}/manifests.db"}
    ds = lancecy.write_dataset({"x": [1]}, tmp_path / "t", storage_options=through)
    ds.append({"x": [2]})
    versions = tmp_path / "t" / "_versions"
    (newest, _) = sorted(versions.iterdir())
    staged = newest.with_name(f"{newest.name}-{uuid.uuid4()}")
    staged.write_bytes(newest.read_bytes()[: 4 if torn else None])
    expected = pytest.raises(FormatError, match="staged.*delete_unverified=True") if torn else nullcontext()
    with expected:
        ds.cleanup_old_versions(timedelta(0), retain_versions=9)
    old(staged)
    with expected:
        lancecy.dataset(ds.uri).cleanup_old_versions(timedelta(0), retain_versions=9)
    assert staged.exists()
    assert ds.cleanup_old_versions(timedelta(0), retain_versions=9).temporary_files_removed == 1
    assert not staged.exists()
    staged.write_bytes(b"torn")
    ds.cleanup_old_versions(timedelta(0), retain_versions=9, delete_unverified=True)
    assert not staged.exists()
    assert ds.checkout_latest().to_table()["x"].to_pylist() == [1, 2]


def test_detached_versions_keep_their_files(tmp_path: Path) -> None:
    """The reference forgets them, and leaves them unreadable."""
    from lancecy.table.wire import manifest as manifest_wire
    from lancecy.table.wire.manifest_file import decode_manifest_file

    ds = table(tmp_path)
    snapshot = ds.checkout_version(1)._snapshot
    number = 1 << 63 | 5
    stored = decode_manifest_file(snapshot.store.get(snapshot.manifest_file.path), "1", 1)
    stored.message.version = number
    (tmp_path / f"_versions/d{number}.manifest").write_bytes(manifest_wire.encode(stored.message))
    assert ds.cleanup_old_versions(NOW).data_files_removed == 0
    assert rows_of(lancecy.dataset(tmp_path, number)) == ROWS[1]


# -- who else needs it ----------------------------------------------------------------------------


def tag(root: Path, name: str, version: int, branch: str | None = None) -> Path:
    path = root / "_refs" / "tags" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"branch": branch, "version": version, "manifestSize": 1}))
    return path


def test_tagged_versions_stay(tmp_path: Path) -> None:
    ds = table(tmp_path)
    tag(tmp_path, "first", 1)
    tag(tmp_path, "of a branch", 2, "other")
    with pytest.raises(ConflictError, match=r"1 versions to remove are tagged: 1 \(_refs/tags/first.json\)"):
        ds.cleanup_old_versions(NOW)
    assert len(ds.versions()) == 4
    assert ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False).old_versions == 2
    assert readable(ds) == {1: ROWS[1], 4: ROWS[4]}


def test_files_in_bases_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a base that is the very folder of the table's own data files, which lancecy itself would refuse."""
    for module in ("planning", "commit"):
        monkeypatch.setattr(f"lancecy.changes.{module}.check_outside", lambda *_: None)
    root, other = tmp_path / "t", tmp_path / "other"
    bases = [DatasetBasePath(other, "other"), DatasetBasePath(root / "data", "own")]
    ds = lancecy.write_dataset(
        {"n": [1, 2]}, root, initial_bases=bases, target_bases=["other", "own"], max_rows_per_file=1
    )
    ds.insert({"n": [3]}, mode="overwrite")
    before = files(tmp_path)
    stats = ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert (stats.old_versions, stats.data_files_removed) == (1, 0)
    assert {path for path in before - files(tmp_path) if path.endswith(".lance")} == set()


@pytest.mark.parametrize("noted", [False, True])
def test_tables_said_to_use_files_keep_them(tmp_path: Path, noted: bool) -> None:
    source = table(tmp_path / "source")
    user = lancecy.write_dataset(
        {"n": [9]}, tmp_path / "user", initial_bases=[DatasetBasePath(tmp_path / "source", "s", is_dataset_root=True)],
        target_bases=["s"],
    )  # fmt: skip
    if noted:
        source.update_config({"lancecy.used_by": user.uri + "\n"})
    given: dict[str, Any] = {} if noted else {"used_by": [tmp_path / "user"]}
    source.cleanup_old_versions(NOW, delete_unverified=True, **given)
    assert rows_of(lancecy.dataset(user.uri)) == [9]
    shutil.rmtree(tmp_path / "user")
    with pytest.raises(NotFoundError, match="no table at .*user"):
        source.cleanup_old_versions(NOW, **given)


@pytest.mark.parametrize("base", [0, 1])
def test_options_of_a_base_are_no_grant_for_a_table_that_the_metadata_names(
    tmp_path: Path, base: int
) -> None:
    table(tmp_path / "t").update_config({"lancecy.used_by": "memory://elsewhere/t"})
    ds = lancecy.dataset(tmp_path / "t", storage_options={f"base_{base}.token": "of another place"})
    with pytest.raises(PathPolicyError, match="a user of this table is memory://elsewhere/t"):
        ds.cleanup_old_versions(NOW)


def test_links_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "t", old(tmp_path / "outside" / "0.lance")
    ds = table(root)
    (root / "data" / "1.lance").symlink_to(outside)
    (root / "data" / "far").symlink_to(outside.parent)
    old(outside.parent / "1.blob")
    ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert readable(ds) == {4: ROWS[4]}
    assert (
        outside.exists() and (outside.parent / "1.blob").exists() and (root / "data" / "1.lance").is_symlink()
    )
    shutil.move(root / "data", tmp_path / "moved")
    (root / "data").symlink_to(tmp_path / "moved")
    before = files(tmp_path)
    with pytest.raises(PathPolicyError):
        ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert files(tmp_path) == before


# -- what nobody can tell -------------------------------------------------------------------------


def _spoil(root: Path, what: str) -> None:
    manifests = sorted((root / "_versions").glob("*.manifest"))  # the newest first
    if what == "manifest":
        manifests[1].write_bytes(manifests[1].read_bytes()[:-40])
    elif what == "name":
        shutil.copy(manifests[0], root / "_versions" / "2.manifest")
    elif what == "branch":
        folder = root / "tree" / "b" / "_versions"
        folder.mkdir(parents=True)
        (folder / manifests[0].name).write_bytes(b"torn")
    else:
        path = tag(root, "t", 1)
        path.write_text({"tag": "{", "tag without version": "{}", "tag of none": '{"version": true}'}[what])


@pytest.mark.parametrize("what", ["manifest", "name", "branch", "tag", "tag without version", "tag of none"])
def test_nothing_goes_while_something_cannot_be_read(tmp_path: Path, what: str) -> None:
    ds = table(tmp_path)
    _spoil(tmp_path, what)
    before = files(tmp_path)
    with pytest.raises(FormatError, match="a cleanup that removed nothing|both naming schemes"):
        ds.cleanup_old_versions(NOW, delete_unverified=True)
    assert files(tmp_path) == before


def test_open_version_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    ds = table(tmp_path)
    stale = ds.checkout_version(2)
    ds.cleanup_old_versions(NOW)
    with pytest.raises(NotFoundError, match="version 2, which is open, is gone"):
        stale.cleanup_old_versions(NOW)


@pytest.mark.parametrize("given", [
    {"retain_versions": 0}, {"older_than": timedelta(days=-1)}, {"delete_rate_limit": 0}, {"delete_concurrency": 0}
])  # fmt: skip
def test_arguments_that_nobody_can_mean_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="negative|has to stay|at least 1"):
        lancecy.write_dataset({"n": [1]}, tmp_path / "t").cleanup_old_versions(**given)


def test_branch_that_was_moved_is_refused(tmp_path: Path) -> None:
    from lancecy.table.location import TableLocation
    from lancecy.table.refs.places import main_location

    with pytest.raises(UnsupportedError, match="not in the folders above"):
        main_location(TableLocation.of("/elsewhere/c"), "a/c")


def test_clock_of_a_store_counts(tmp_path: Path) -> None:
    """Our clock may be years ahead of that which dates the objects."""
    from lancecy.session import default
    from lancecy.store.local import NETWORK, LocalStore
    from lancecy.table.cleanup.run import CleanupOptions, Scope, cleanup
    from lancecy.table.commit.driver import drive
    from lancecy.table.location import TableLocation

    ds = table(tmp_path)
    store = LocalStore(str(tmp_path), traits=NETWORK)  # is asked for its time
    options = CleanupOptions(ds.version, 0)
    before = files(tmp_path)
    steps = cleanup(Scope(version_store(store)), options, dry_run=True)
    stats = drive(steps, store, default(), TableLocation(store.uri))
    assert (stats.old_versions, files(tmp_path)) == (3, before)


def test_new_versions_are_old_enough_where_listings_give_finer_times_than_requests_for_an_object(
    tmp_path: Path,
) -> None:
    """MinIO gives milliseconds in a listing, and whole seconds for one object."""
    from lancecy.session import default
    from lancecy.store.base import ObjectMeta
    from lancecy.store.local import NETWORK, LocalStore
    from lancecy.table.cleanup.run import CleanupOptions, Scope, cleanup
    from lancecy.table.commit.driver import drive
    from lancecy.table.location import TableLocation

    class Coarse(LocalStore):
        def head(self, path: str) -> ObjectMeta:
            meta = super().head(path)
            assert meta.modified is not None
            return replace(meta, modified=meta.modified.replace(minute=0, second=0, microsecond=0))

    ds = table(tmp_path)
    store = Coarse(str(tmp_path), traits=NETWORK)
    steps = cleanup(Scope(version_store(store)), CleanupOptions(ds.version, 0), dry_run=True)
    assert drive(steps, store, default(), TableLocation(store.uri)).old_versions == 3


def test_arrow_reads_what_is_left(tmp_path: Path) -> None:
    ds = table(tmp_path, enable_stable_row_ids=True)
    ds.cleanup_old_versions(NOW)
    assert lancecy.dataset(tmp_path).verify().is_ok
    assert ds.to_table() == pa.table({"n": [4, 6, 7]})


def test_manifest_of_another_table_does_not_cost_the_sound_versions(tmp_path: Path) -> None:
    ds, other = table(tmp_path / "t"), table(tmp_path / "other")
    sound = {version: rows for version, rows in ROWS.items() if version < 4}
    name = Path("_versions", manifest_name(other.version))
    shutil.copy(tmp_path / "other" / name, tmp_path / "t" / name)
    before = files(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(FormatError, match=r"version 4 is another table's: .*lancecy\.repair\(.*/t'\)"):
            lancecy.dataset(ds.uri).cleanup_old_versions(NOW, dry_run=dry_run)
    assert files(tmp_path) == before
    lancecy.repair(ds.uri)
    ds = lancecy.dataset(ds.uri)
    assert readable(ds) == {**sound, 4: ROWS[3]}
    assert ds.cleanup_old_versions(NOW).old_versions == 3
    assert readable(ds) == {4: ROWS[3]}
