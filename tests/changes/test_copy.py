"""``lancecy.copy``: whole tables with their bases, and bases alone, into other stores, also after kills."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.commit import commit_operation
from lancecy.errors import (
    ConflictError,
    DatasetNotFoundError,
    ExistsError,
    NotFoundError,
    PathPolicyError,
    StoreError,
    UnsupportedError,
)
from lancecy.progress import Step
from lancecy.proto import table_pb2
from lancecy.table.wire.manifest_file import decode_manifest_file
from tests.helpers.s3 import S3Server, start_s3

pytestmark = pytest.mark.interop

VERSIONS = {"main": [1, 2, 3, 4], "dev": [3, 4]}


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": list(numbers)})


def numbers(ds: Any) -> list[int]:
    return sorted(ds.to_table()["a"].to_pylist())


def history(ds: Any) -> dict[tuple[str | None, int], list[int]]:
    """The values in every version of every branch."""
    pairs = [(None if branch == "main" else branch, v) for branch, found in VERSIONS.items() for v in found]
    return {pair: numbers(ds.checkout_version(pair)) for pair in pairs}


def a_table(folder: str, options: Any = None) -> Any:
    """Files in the table's folder and in two bases, a deletion file, a branch and tags."""
    bases = [
        lancecy.DatasetBasePath(f"{folder}/hot", name="hot"),
        lancecy.DatasetBasePath(f"{folder}/cold", name="cold", is_dataset_root=True),
    ]
    ds = lancecy.write_dataset(
        rows(1, 2), f"{folder}/t.lance", storage_options=options, initial_bases=bases, target_bases=["hot"]
    )
    ds.append(rows(3, 4), target_bases=["cold"])
    ds.append(rows(5, 6))
    dev = ds.create_branch("dev")
    dev.append(rows(50), target_bases=["hot"])
    ds.delete("a = 1")
    ds.tags.create("start", 1)
    ds.tags.create("dev-tag", ("dev", 4))
    return ds


def contents(path: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of each file."""
    found = (file for file in path.rglob("*") if file.is_file())
    return {str(f.relative_to(path)): (f.stat().st_size, f.stat().st_mtime_ns) for f in found}


class Interrupted(Exception):
    """Raised by a callback of these tests."""


def stop_after(steps: int) -> Any:
    """A callback that ends the work at its nth call."""
    count = itertools.count(1)

    def callback(step: Step) -> None:
        if next(count) > steps:
            raise Interrupted

    return callback


class TestWholeTables:
    def test_every_version_is_read_when_the_source_is_gone(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "old"))
        before, tags = history(source), source.tags.list()
        new = tmp_path / "new"
        copy = lancecy.copy(
            tmp_path / "old/t.lance", new / "t.lance", bases={"hot": new / "hot", "cold": new / "cold"}
        )
        assert (copy.versions, copy.tags) == (VERSIONS, ["dev-tag", "start"])
        assert copy.bases == {
            str(tmp_path / "old/hot"): str(new / "hot"),
            str(tmp_path / "old/cold"): str(new / "cold"),
        }
        shutil.rmtree(tmp_path / "old")
        theirs, mine = lance.dataset(str(new / "t.lance")), lancecy.dataset(new / "t.lance")
        assert history(theirs) == history(mine) == before
        assert mine.tags.list() == theirs.tags.list() == tags
        assert mine.verify().is_ok
        mine.append(rows(9), target_bases=["hot"])
        assert numbers(lance.dataset(str(new / "t.lance"))) == [2, 3, 4, 5, 6, 9]

    def test_only_base_paths_differ(self, tmp_path: Path) -> None:
        a_table(str(tmp_path / "old"))
        lancecy.copy(tmp_path / "old/t.lance", tmp_path / "new", bases={"hot": tmp_path / "hot"})
        old, new = tmp_path / "old/t.lance", tmp_path / "new"
        names = {name for name in contents(old) if not name.endswith("latest_version_hint.json")}
        assert names == {name for name in contents(new) if not name.endswith("latest_version_hint.json")}
        for name in sorted(names):
            one, other = (old / name).read_bytes(), (new / name).read_bytes()
            assert (one == other) is not name.endswith(".manifest"), name
        for name in sorted(name for name in names if name.endswith(".manifest")):
            number = int(Path(name).stem)
            version = number if number < 100 else (1 << 64) - 1 - number
            before, after = (
                decode_manifest_file(np.fromfile(folder / name, np.uint8), name, version)
                for folder in (old, new)
            )
            messages = [
                table_pb2.Manifest.FromString(part.message.SerializeToString()) for part in (before, after)
            ]
            places = {base.id: base.path for base in messages[1].base_paths}
            assert (places[1], places[2]) == (str(tmp_path / "hot"), str(tmp_path / "old/cold")), name
            for message in messages:
                del message.base_paths[:]
            assert messages[0] == messages[1], name
            assert (before.indices, before.transaction) == (after.indices, after.transaction), name
        assert numbers(lance.dataset(str(new))) == [2, 3, 4, 5, 6]

    def test_bases_that_are_not_named_stay(self, tmp_path: Path) -> None:
        before = history(a_table(str(tmp_path / "old")))
        copy = lancecy.copy(tmp_path / "old/t.lance", tmp_path / "new")
        assert (copy.bases, sorted(os.listdir(tmp_path))) == ({}, ["new", "old"])
        shutil.rmtree(tmp_path / "old/t.lance")
        assert history(lance.dataset(copy.uri)) == before

    def test_blobs_and_indices_in_a_base(self, tmp_path: Path) -> None:
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        table = pa.table([[b"x" * 1000, b"y"], [1, 2]], schema=pa.schema([field, ("a", pa.int64())]))
        source = lancecy.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
        lance.dataset(str(tmp_path / "t")).create_scalar_index("a", "BTREE")
        clone = source.checkout_latest().shallow_clone(tmp_path / "clone")
        copy = lancecy.copy(clone, tmp_path / "copy", bases={str(tmp_path / "t"): tmp_path / "base"})
        shutil.rmtree(tmp_path / "t")
        shutil.rmtree(tmp_path / "clone")
        found = lancecy.dataset(copy.uri).take_blobs("b", indices=[0, 1])
        assert [blob.read() for blob in found if blob] == [b"x" * 1000, b"y"]
        theirs = lance.dataset(copy.uri)
        assert theirs.to_table(columns=["a"], filter="a = 2").num_rows == 1
        assert "ScalarIndexQuery" in theirs.scanner(columns=["a"], filter="a = 2").explain_plan()


class TestMovedBases:
    def test_only_their_paths_change(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path))
        before = contents(tmp_path / "t.lance/data")
        moved = lancecy.copy(source, bases={"hot": tmp_path / "fast"})
        assert moved.bases == {str(tmp_path / "hot"): str(tmp_path / "fast")}
        assert moved.num_files == 2  # that of the branch too
        assert contents(tmp_path / "t.lance/data") == before
        assert contents(tmp_path / "fast").keys() == contents(tmp_path / "hot").keys()
        ds, dev = lancecy.dataset(source.uri), lancecy.dataset(source.uri, ("dev", None))
        assert (ds.version, dev.version) == (5, 5)
        assert history(lance.dataset(source.uri)) == history(ds)
        shutil.rmtree(tmp_path / "hot")
        assert numbers(lance.dataset(ds.uri)) == numbers(ds) == [2, 3, 4, 5, 6]
        assert numbers(lance.dataset(dev.uri)) == numbers(dev) == [1, 2, 3, 4, 5, 6, 50]
        assert ds.version == 5
        ds.checkout_version(1).restore()  # names the base's new place
        assert numbers(lancecy.dataset(ds.uri)) == [1, 2]
        again = lancecy.copy(ds, bases={"hot": tmp_path / "fast"})
        assert (again.num_files, again.bases, lancecy.dataset(ds.uri).version) == (0, {}, 6)

    def test_a_writer_meanwhile(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path))
        others = iter([7, 8])

        def append(step: Step) -> None:
            if step.what == "copy" and step.done == step.total:
                for number in itertools.islice(others, 1):
                    lancecy.dataset(source.uri).append(rows(number), target_bases=["hot"])

        lancecy.copy(source, bases={"hot": tmp_path / "fast"}, progress=append)
        shutil.rmtree(tmp_path / "hot")
        assert numbers(lance.dataset(source.uri)) == [2, 3, 4, 5, 6, 7, 8]

    def test_between_two_branches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import lancecy.changes.move_bases as module

        source, real, done = a_table(str(tmp_path)), commit_operation, list[Any]()

        def once(*arguments: Any) -> Any:
            if done:
                raise StoreError("the disk is gone")
            done.append(real(*arguments))

        monkeypatch.setattr(module, "commit_operation", once)
        with pytest.raises(StoreError, match="the disk is gone") as told:
            lancecy.copy(source, bases={str(tmp_path / "hot"): tmp_path / "fast"})
        assert "the same call continues" in told.value.__notes__[0]
        monkeypatch.undo()
        lancecy.copy(source, bases={str(tmp_path / "hot"): tmp_path / "fast"})
        shutil.rmtree(tmp_path / "hot")
        assert numbers(lance.dataset(source.uri)) == [2, 3, 4, 5, 6]
        assert numbers(lance.dataset(f"{source.uri}/tree/dev")) == [1, 2, 3, 4, 5, 6, 50]


class TestInterruptions:
    def test_at_every_step(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "old"))
        before = history(source)
        for number in itertools.count():
            new = tmp_path / f"new{number}"
            places = {"hot": new / "hot", "cold": new / "cold"}
            try:
                lancecy.copy(source, new / "t", bases=places, progress=stop_after(number))
            except Interrupted:
                there = contents(new) if new.exists() else {}
                kept = {
                    name: is_at for name, is_at in there.items() if name.endswith((".lance", ".manifest"))
                }
                if not any(name.startswith("t/_versions/") and "manifest" in name for name in kept):
                    with pytest.raises(DatasetNotFoundError):
                        lancecy.dataset(new / "t")
                lancecy.copy(source, new / "t", bases=places)
                after = contents(new)
                assert {name: after[name] for name in kept} == kept, number  # nothing was copied twice
            else:
                break
            assert history(lance.dataset(str(new / "t"))) == before, number
        assert number > 8

    def test_a_killed_process(self, tmp_path: Path) -> None:
        ds = a_table(str(tmp_path / "old"))
        for number in range(100, 130):
            ds.append(rows(*range(number, number + 50)), target_bases=["hot", "cold"])
        before = numbers(ds)
        new = tmp_path / "new"
        script = f"""
import sys, time, lancecy
def slow(step):
    print(step.what, step.done, flush=True)
    time.sleep(0.2 if step.what == "copy" else 0)
lancecy.copy({ds.uri!r}, {str(new / "t")!r}, bases={{"hot": {str(new / "hot")!r}}}, progress=slow)
"""
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process.stdout as told:
            next(line for line in told if line.startswith("copy") and not line.startswith("copy 0"))
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        kept = {name: at for name, at in contents(new).items() if name.endswith(".lance")}
        assert kept
        assert not list(new.rglob("*.manifest"))
        time.sleep(0.01)
        lancecy.copy(ds.uri, new / "t", bases={"hot": new / "hot"})
        after = contents(new)
        assert {name: after[name] for name in kept} == kept
        shutil.rmtree(tmp_path / "old/hot")
        assert numbers(lance.dataset(str(new / "t"))) == before

    def test_a_damaged_copy_is_copied_again(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path))
        (file,) = (file for file in (tmp_path / "hot").iterdir() if file.name in _named(source))
        (tmp_path / "fast").mkdir()
        (tmp_path / "fast" / file.name).write_bytes(bytes(file.stat().st_size))
        lancecy.copy(source, bases={"hot": tmp_path / "fast"})
        assert numbers(lance.dataset(source.uri)) == [2, 3, 4, 5, 6]

    def test_other_bases_are_another_copy(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "old"))
        with pytest.raises(Interrupted):
            lancecy.copy(source, tmp_path / "t", bases={"hot": tmp_path / "hot"}, progress=stop_after(6))
        with pytest.raises(ExistsError, match="unfinished copy of .* and bases="):
            lancecy.copy(source, tmp_path / "t", bases={"hot": tmp_path / "other"})
        with pytest.raises(ExistsError, match="unfinished copy"):
            lancecy.copy_dataset(source, tmp_path / "t")


def _named(ds: Any) -> set[str]:
    return {file.path for fragment in ds.get_fragments() for file in fragment.metadata.files}


class TestRefusals:
    def test_wrong_arguments(self, tmp_path: Path) -> None:
        ds = a_table(str(tmp_path))
        before = contents(tmp_path)
        wrong: list[tuple[type[Exception], str, Any]] = [
            (ValueError, "name a target", {}),
            (ValueError, "versions chooses", {"bases": {"hot": "/x"}, "versions": 1}),
            (TypeError, "bases maps names", {"bases": ["hot"]}),
            (NotFoundError, "has no base 'warm', only hot, cold", {"bases": {"warm": tmp_path / "x"}}),
            (ConflictError, "'hot' and 'cold' would both be at", {"bases": {"hot": tmp_path / "cold"}}),
            (PathPolicyError, "own folder", {"bases": {"hot": tmp_path / "t.lance/data"}}),
            (PathPolicyError, "in the folder of the other", {"bases": {"hot": tmp_path / "hot/below"}}),
            (PathPolicyError, "credentials", {"bases": {"hot": "s3://key:secret@bucket/hot"}}),
        ]
        for error, said, arguments in wrong:
            with pytest.raises(error, match=said):
                lancecy.copy(ds, **arguments)
        assert contents(tmp_path) == before

    def test_a_lost_file(self, tmp_path: Path) -> None:
        ds = a_table(str(tmp_path))
        for file in (tmp_path / "hot").iterdir():
            file.unlink()
        for target in (None, tmp_path / "copy"):
            with pytest.raises(DatasetNotFoundError, match=r"of version \d of \w+ is missing"):
                lancecy.copy(ds, target, bases={"hot": tmp_path / "fast"})
        assert lancecy.dataset(ds.uri).version == 4
        assert not (tmp_path / "copy").exists()

    def test_blobs_that_name_objects_of_a_base(self, tmp_path: Path) -> None:
        (tmp_path / "media").mkdir()
        (tmp_path / "media/one.bin").write_bytes(b"outside")
        base = lance.DatasetBasePath(str(tmp_path / "media"), name="media")
        table = pa.table({"b": lance.blob_array([f"file://{tmp_path}/media/one.bin"])})
        made = lance.write_dataset(
            table, str(tmp_path / "t"), data_storage_version="2.2", initial_bases=[base]
        )
        with pytest.raises(UnsupportedError, match="are no files of the table: copy all objects"):
            lancecy.copy(made.uri, bases={"media": tmp_path / "new"})

    def test_a_dry_run_writes_nothing(self, tmp_path: Path) -> None:
        ds = a_table(str(tmp_path))
        before = contents(tmp_path)
        for target in (None, tmp_path / "copy"):
            told = lancecy.copy(ds, target, bases={"hot": tmp_path / "fast"}, dry_run=True)
            assert told.bases == {str(tmp_path / "hot"): str(tmp_path / "fast")}
            assert (contents(tmp_path), (tmp_path / "fast").exists()) == (before, False)
            done = lancecy.copy(ds, target, bases={"hot": tmp_path / "fast"}) if target else told
            assert done == told


@pytest.fixture(scope="module")
def other_server() -> Iterator[S3Server]:
    with start_s3() as server:
        yield server


@pytest.mark.s3
class TestStores:
    def test_each_place_has_its_own_server(
        self, tmp_path: Path, s3_server: S3Server, other_server: S3Server
    ) -> None:
        """From one service to another, a base to a third place with options of its own."""
        for server, bucket in ((s3_server, "old"), (other_server, "new"), (other_server, "newhot")):
            server.make_bucket(bucket)
        old, new = s3_server.storage_options, other_server.storage_options
        source = a_table("s3://old/copy", old)
        before = history(source)
        copy = lancecy.copy(
            source.uri,
            "s3://new/t.lance",
            bases={"hot": "s3://newhot/files", "cold": str(tmp_path / "cold")},
            storage_options=old,
            target_options=new,
        )
        options = {**new}
        mine = lancecy.dataset(copy.uri, storage_options=options, allowed_bases=[str(tmp_path)])
        assert history(mine) == before
        assert len(list((tmp_path / "cold").rglob("*.lance"))) == 1
        moved = lancecy.copy(
            source.uri,
            bases={"hot": "s3://newhot/moved"},
            storage_options=old,
            target_options={f"base_1.{key}": value for key, value in new.items()},
        )
        assert moved.num_files == 2
        with_base = {**old, **{f"base_1.{key}": value for key, value in new.items()}}
        assert numbers(lancecy.dataset(source.uri, storage_options=with_base)) == [2, 3, 4, 5, 6]
