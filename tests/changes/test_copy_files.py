"""``copy_files``: data files of fragments on another base, and tables that read them there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
import lancecy.dask
from lancecy import DatasetBasePath
from lancecy.errors import MissingFileError, NotFoundError, RetryableConflictError, StoreError
from lancecy.progress import Step
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.interop
ALL = ["n", "s", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def a_table(folder: Path, *, is_root: bool = False, **options: Any) -> lancecy.LanceDataset:
    """Ten fragments of ten rows; one row is deleted."""
    rows = pa.table({"n": range(100), "s": [f"row {n}" for n in range(100)]})
    hot = DatasetBasePath(folder / "hot", name="hot", is_dataset_root=is_root)
    ds = lancecy.write_dataset(
        rows, folder / "t", max_rows_per_file=10, enable_stable_row_ids=True, initial_bases=[hot], **options
    )
    ds.delete("n = 5")
    return ds


def bases(ds: Any) -> list[int | None]:
    return [file.base_id for fragment in ds.get_fragments() for file in fragment.data_files()]


def both_read(ds: lancecy.LanceDataset) -> bool:
    """Whether both libraries read the same rows at the newest version."""
    return bool(lance.dataset(ds.uri).to_table().equals(lancecy.dataset(ds.uri).to_table()))


class TestCopied:
    @pytest.mark.parametrize("is_root", [False, True])
    def test_fragments_are_read_from_the_base(self, tmp_path: Path, is_root: bool) -> None:
        ds = a_table(tmp_path, is_root=is_root)
        before, version = ds.to_table(columns=ALL), ds.version
        old = [fragment.data_files()[0].path for fragment in ds.get_fragments()]

        counts = ds.copy_files([0, 2], base="hot")

        assert (counts["num_fragments"], counts["num_files"]) == (2, 2)
        assert bases(ds) == [1, None, 1, *[None] * 7]
        assert ds.version == version + 1
        for number in (0, 2):
            (tmp_path / "t" / "data" / old[number]).unlink()
        assert ds.to_table(columns=ALL).equals(before)
        assert both_read(ds)
        folder = tmp_path / "hot" / ("data" if is_root else "")
        assert counts["num_bytes"] == sum(path.stat().st_size for path in folder.glob("*.lance"))

    @pytest.mark.parametrize("condition", ["n < 25", pc.field("n") < 25, lancecy.col("n") < 25])
    def test_a_filter_chooses_the_fragments_with_such_rows(self, tmp_path: Path, condition: Any) -> None:
        ds = a_table(tmp_path)

        ds.copy_files(condition, base="hot")

        assert bases(ds) == [1, 1, 1, *[None] * 7]

    def test_a_filter_within_fragments(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)

        ds.copy_files(ds.get_fragments()[1:], filter="n < 25", base=tmp_path / "hot")

        assert bases(ds) == [None, 1, 1, *[None] * 7]

    def test_everything_there_and_back(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        before = ds.to_table(columns=ALL)

        assert ds.copy_files(base="hot")["num_fragments"] == 10
        shutil.rmtree(tmp_path / "t" / "data")
        assert ds.to_table(columns=ALL).equals(before)
        assert ds.copy_files(base=None)["num_fragments"] == 10

        shutil.rmtree(tmp_path / "hot")
        assert set(bases(ds)) == {None}
        assert ds.to_table(columns=ALL).equals(before)
        version = ds.version
        assert ds.copy_files(base=ds.uri) == {"num_fragments": 0, "num_files": 0, "num_bytes": 0}
        assert ds.version == version

    def test_old_versions_read_the_old_files_until_a_cleanup(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        old, rows = lancecy.dataset(ds.uri), ds.to_table()
        ds.copy_files(base="hot")

        shutil.move(tmp_path / "hot", tmp_path / "away")
        assert old.to_table().equals(rows)
        shutil.move(tmp_path / "away", tmp_path / "hot")
        ds.cleanup_old_versions(timedelta(0), delete_unverified=True)

        assert not list((tmp_path / "t" / "data").glob("*.lance"))
        assert lancecy.dataset(ds.uri).to_table().equals(rows)

    def test_an_index_and_deletions_stay_right_in_pylance(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        lance.dataset(ds.uri).create_scalar_index("n", "BTREE")
        ds = lancecy.dataset(ds.uri)

        ds.copy_files("n < 25", base="hot")

        theirs = lance.dataset(ds.uri)
        assert "ScalarIndexQuery" in theirs.scanner(filter="n = 17").explain_plan()
        assert theirs.stats.index_stats("n_idx")["num_unindexed_fragments"] == 0
        assert [theirs.count_rows(f"n = {n}") for n in (4, 5, 17, 60)] == [1, 0, 1, 1]

    def test_blobs_are_copied_with_their_data_files(self, tmp_path: Path) -> None:
        values = [b"a" * 100, b"b" * 200_000, b"c" * 5_000_000]
        lance.write_dataset(
            pa.table({"blob": lance.blob_array(values)}), tmp_path / "t", data_storage_version="2.2"
        )
        ds = lancecy.dataset(tmp_path / "t")
        ds.add_bases([DatasetBasePath(tmp_path / "hot", name="hot")])

        counts = ds.copy_files(base="hot")

        shutil.rmtree(tmp_path / "t" / "data")
        assert counts["num_files"] > 1
        readers: list[Any] = [ds, lance.dataset(ds.uri)]
        for one in readers:
            assert [blob.read() for blob in one.take_blobs("blob", indices=[0, 1, 2])] == values

    def test_a_clone_gets_files_of_its_own(self, tmp_path: Path) -> None:
        source = a_table(tmp_path)
        rows = source.to_table()
        clone = source.shallow_clone(tmp_path / "clone")

        clone.copy_files(base=None)

        assert set(bases(clone)) == {None}
        shutil.rmtree(tmp_path / "t" / "data")
        assert clone.to_table().equals(rows)

    @pytest.mark.s3
    def test_between_buckets(self, tmp_path: Path, s3_server: S3Server) -> None:
        root, hot = s3_server.make_bucket("staging-root"), s3_server.make_bucket("staging-hot")
        rows = pa.table({"n": range(1000)})
        ds = lancecy.write_dataset(
            rows,
            f"{root}/t",
            max_rows_per_file=100,
            initial_bases=[DatasetBasePath(hot, name="hot")],
            storage_options=s3_server.storage_options,
        )
        steps: list[Step] = []

        counts = ds.copy_files("n < 300", base="hot", progress=steps.append)

        assert bases(ds) == [1, 1, 1, *[None] * 7]
        assert ds.to_table().equals(rows)
        assert (steps[-1].what, steps[-1].done, steps[-1].total) == ("copy files", *[counts["num_bytes"]] * 2)


class TestWorkers:
    @pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
    def test_dask_workers_copy_and_one_version_is_made(self, tmp_path: Path, scheduler: str) -> None:
        ds = a_table(tmp_path)
        before, version = ds.to_table(columns=ALL), ds.version

        counts = lancecy.dask.copy_files(ds, "n < 85", base="hot", compute_kwargs={"scheduler": scheduler})

        assert (counts["num_fragments"], ds.version) == (9, version + 1)
        assert bases(ds) == [*[1] * 9, None]
        assert ds.to_table(columns=ALL).equals(before)

    def test_an_error_on_a_worker_commits_nothing(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        (tmp_path / "hot").write_text("a file, and no folder")

        with pytest.raises(StoreError, match="hot"):
            lancecy.dask.copy_files(ds, base="hot")
        assert lancecy.dataset(ds.uri).version == ds.version


class TestInterrupted:
    def test_a_killed_copy_continues(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        rows = ds.to_table()
        ds.append({"n": list(range(100, 1100)), "s": ["x"] * 1000}, max_rows_per_file=10)
        killed = (
            "import lancecy, os, sys\n"
            "def stop(step):\n"
            "    if step.done: os._exit(9)\n"
            f"lancecy.dataset({str(tmp_path / 't')!r}).copy_files(base='hot', progress=stop)\n"
        )
        assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
        there = {path.name: path.stat().st_ino for path in (tmp_path / "hot").glob("*.lance")}
        assert 0 < len(there) < 110
        assert lancecy.dataset(ds.uri).version == ds.version

        counts = ds.copy_files(base="hot")

        assert counts["num_files"] == 110
        assert {name: (tmp_path / "hot" / name).stat().st_ino for name in there} == there
        assert ds.to_table().slice(0, rows.num_rows).equals(rows)
        assert both_read(ds)

    def test_a_failed_copy_commits_nothing(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        version, rows = ds.version, ds.to_table()
        name = ds.get_fragments()[3].data_files()[0].path
        (tmp_path / "t" / "data" / name).rename(tmp_path / "aside")

        with pytest.raises(MissingFileError, match=name):
            ds.copy_files(base="hot")
        assert lancecy.dataset(ds.uri).version == version

        (tmp_path / "aside").rename(tmp_path / "t" / "data" / name)
        ds.copy_files(base="hot")
        assert ds.to_table().equals(rows)

    def test_a_base_that_cannot_be_written(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        (tmp_path / "hot").write_text("a file, and no folder")

        with pytest.raises(StoreError, match="hot"):
            ds.copy_files(base="hot")
        assert lancecy.dataset(ds.uri).version == ds.version


class TestEarlierCopies:
    """Objects in the base that an earlier call left there."""

    @staticmethod
    def damaged(ds: lancecy.LanceDataset, hot: Path, change: Callable[[bytes], bytes]) -> None:
        """Copy, go back to the version before, and damage a copy."""
        before = ds.version
        ds.copy_files([0], base="hot")
        ds.checkout_version(before).restore()
        (copy,) = hot.glob("*.lance")
        copy.write_bytes(change(copy.read_bytes()))

    @pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"\0" * len(data)])
    def test_a_damaged_one_is_copied_again(self, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
        ds = a_table(tmp_path)
        rows = ds.to_table()
        self.damaged(ds, tmp_path / "hot", change)

        ds.checkout_latest().copy_files([0], base="hot")

        newest = lancecy.dataset(ds.uri)
        assert bases(newest)[:2] == [1, None]
        assert newest.to_table().equals(rows)
        assert both_read(newest)

    def test_without_verify_sizes_count(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        self.damaged(ds, tmp_path / "hot", lambda data: b"\0" * len(data))

        newest = ds.checkout_latest()
        newest.copy_files([0], base="hot", verify=False)

        (copy,) = (tmp_path / "hot").glob("*.lance")
        assert not any(copy.read_bytes())

    def test_other_objects_stay(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        rows, name = ds.to_table(), ds.get_fragments()[0].data_files()[0].path
        (tmp_path / "hot").mkdir()
        (tmp_path / "hot" / name).write_bytes(b"another file of that name")

        ds.copy_files(base="hot")

        assert (tmp_path / "hot" / name).read_bytes() == b"another file of that name"
        assert ds.to_table().equals(rows)


class TestOtherWriters:
    def test_a_delete_meanwhile_is_kept(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        done: list[Any] = []

        def deletes(step: Step) -> None:
            if step.done and not done:
                done.append(lance.dataset(ds.uri).delete("n = 17"))

        ds.copy_files([0, 1], base="hot", progress=deletes)

        assert bases(ds) == [1, 1, *[None] * 8]
        assert ds.count_rows("n in (5, 17)") == 0
        assert ds.count_rows() == 98
        assert both_read(ds)

    def test_a_writer_that_began_earlier_keeps_the_base(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        theirs, mine = lance.dataset(ds.uri), lancecy.dataset(ds.uri)
        ds.copy_files([0, 1], base="hot")

        theirs.delete("n = 17")
        mine.delete("n = 7")
        mine.append({"n": [100], "s": ["new"]})

        newest = lancecy.dataset(ds.uri)
        assert bases(newest) == [1, 1, *[None] * 9]
        assert newest.count_rows("n in (5, 7, 17)") == 0
        assert newest.count_rows() == 98
        assert both_read(newest)

    def test_a_compaction_of_the_files_goes_first(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        done: list[Any] = []

        def compacts(step: Step) -> None:
            if step.done and not done:
                done.append(lancecy.dataset(ds.uri).optimize.compact_files())

        ds.copy_files("n < 25", base="hot", progress=compacts)

        assert bases(ds) == [1]
        assert ds.count_rows() == 99
        assert both_read(ds)

    def test_attempts_end(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        left = iter(range(10, 20))

        def deletes(step: Step) -> None:
            lancecy.dataset(ds.uri).delete(f"n = {next(left)}")

        with pytest.raises(RetryableConflictError):
            ds.copy_files([1], base="hot", conflict_retries=1, progress=deletes)
        assert set(bases(lancecy.dataset(ds.uri))) == {None}


class TestMistakes:
    def test_unknown_names(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)

        with pytest.raises(NotFoundError, match="no base 'cold', only hot"):
            ds.copy_files([0], base="cold")
        with pytest.raises(NotFoundError, match="no fragment 77"):
            ds.copy_files([77], base="hot")
        with pytest.raises(TypeError, match="one filter, not two"):
            ds.copy_files("n < 3", "n < 4", base="hot")
        with pytest.raises(TypeError, match="base"):
            ds.copy_files([0])  # type: ignore[call-arg]
        assert not os.path.exists(tmp_path / "hot")
