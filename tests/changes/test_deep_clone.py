"""Deep clones: one version with all its files in a new table, from any tables to any storage, also after interruptions."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    FormatError,
    NotFoundError,
    PathPolicyError,
    StoreError,
    UnsupportedError,
)
from lancecy.progress import Step
from lancecy.proto import table_pb2
from lancecy.store.local import LocalStore
from lancecy.table.manifest import ExternalFile
from lancecy.table.operations.transaction import decode_transaction
from lancecy.table.paths import parse_manifest_name
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file
from lancecy.write.targets import DatasetBasePath
from tests.helpers.builders import write_manifest
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.interop
PLAN = "_versions/.tmp_clone.json"


def rows(numbers: Iterable[int]) -> pa.Table:
    numbers = list(numbers)
    return pa.table({"a": numbers, "s": [f"row {n}" for n in numbers]})


def a_table(path: Path | str, **options: Any) -> Any:
    """Five versions: appended rows, a deletion file, an index, and a configuration."""
    ds = lance.write_dataset(rows(range(10)), str(path), **options)
    ds = lance.write_dataset(rows(range(10, 20)), str(path), mode="append")
    ds.delete("a = 1")
    ds.create_scalar_index("a", "BTREE")
    ds.update_config({"key": "value"})
    ds.tags.create("first", 1)
    return ds


def numbers(ds: Any) -> list[int]:
    return sorted(ds.to_table(columns=["a"])["a"].to_pylist())


def blobs_of(ds: Any) -> list[bytes]:
    return [blob.read() for blob in ds.take_blobs("blob", indices=list(range(ds.count_rows())))]


def files(path: Path) -> dict[str, bytes]:
    """Contents of all files except manifests and transactions, by path."""
    found = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return {
        name: data for name, data in found.items() if name.split("/")[0] not in ("_versions", "_transactions")
    }


def only_version(path: Path) -> ManifestFile:
    (file,) = (path / "_versions").glob("*.manifest")
    name = parse_manifest_name(file.name)
    assert name is not None
    return decode_manifest_file(np.fromfile(file, np.uint8), file.name, name.version)


def stored(path: Path) -> tuple[Any, ...]:
    """What the only version of a table holds, without times, writer and the id of the transaction."""
    found = only_version(path)
    message = table_pb2.Manifest()
    message.CopyFrom(found.message)
    for name in ("timestamp", "transaction_file", "writer_version", "index_section", "transaction_section"):
        message.ClearField(name)
    assert found.transaction is not None
    transaction = decode_transaction(found.transaction)
    return message, found.indices, found.dictionaries, transaction.read_version, transaction.operation


def check_usable_by_both(path: Path | str, options: Any = None) -> None:
    """Both libraries read a table and change it in turn."""
    before = numbers(lancecy.dataset(path, storage_options=options))
    theirs = lance.dataset(str(path), storage_options=options and s3_of_pylance(options))
    assert numbers(theirs) == before
    theirs.delete(f"a = {before[0]}")
    mine = lancecy.dataset(path, storage_options=options)
    mine.append(rows([100]))
    mine.delete(f"a = {before[1]}")
    theirs = lance.dataset(str(path), storage_options=options and s3_of_pylance(options))
    theirs.optimize.compact_files()
    assert numbers(theirs) == [*before[2:], 100]
    assert numbers(lancecy.dataset(path, storage_options=options)) == [*before[2:], 100]


def s3_of_pylance(options: dict[str, Any]) -> dict[str, str]:
    return {
        "access_key_id": options["key"],
        "secret_access_key": options["secret"],
        "endpoint": options["client_kwargs"]["endpoint_url"],
        "region": "us-east-1",
        "allow_http": "true",
    }


class Interrupted(Exception):
    """Raised by a callback of these tests."""


def stop_after(steps: int) -> Any:
    """A callback that ends the work at its nth call."""
    count = itertools.count(1)

    def callback(step: Step) -> None:
        if next(count) > steps:
            raise Interrupted

    return callback


class TestResult:
    @pytest.mark.parametrize("stable", [False, True])
    def test_it_is_what_pylance_makes(self, tmp_path: Path, stable: bool) -> None:
        source = a_table(tmp_path / "t", enable_stable_row_ids=stable)
        source.deep_clone(str(tmp_path / "theirs"), source.version)
        mine = lancecy.dataset(tmp_path / "t").deep_clone(tmp_path / "mine")
        assert mine.version == source.version
        assert [version["version"] for version in mine.versions()] == [source.version]
        assert files(tmp_path / "mine") == files(tmp_path / "theirs")
        assert stored(tmp_path / "mine") == stored(tmp_path / "theirs")
        assert not (tmp_path / "mine" / PLAN).exists()
        shutil.rmtree(tmp_path / "t")
        check_usable_by_both(tmp_path / "mine")

    def test_only_the_files_of_that_version_are_copied(self, tmp_path: Path) -> None:
        a_table(tmp_path / "t")
        mine = lancecy.dataset(tmp_path / "t").deep_clone(tmp_path / "mine", "first")
        assert mine.version == 1
        assert len(files(tmp_path / "mine")) == 1
        assert numbers(mine) == list(range(10))

    def test_a_version_of_a_branch(self, tmp_path: Path) -> None:
        source = a_table(tmp_path / "t")
        branch = source.create_branch("dev", 3)
        lance.write_dataset(rows([50]), branch.uri, mode="append")
        mine = lancecy.dataset(tmp_path / "t").deep_clone(tmp_path / "mine", ("dev", None))
        assert numbers(mine) == [0, *range(2, 20), 50]
        source.deep_clone(str(tmp_path / "theirs"), ("dev", None))
        assert stored(tmp_path / "mine") == stored(tmp_path / "theirs")
        shutil.rmtree(tmp_path / "t")
        check_usable_by_both(tmp_path / "mine")

    def test_a_clone_of_a_clone_of_a_clone(self, tmp_path: Path) -> None:
        source = a_table(tmp_path / "t")
        for name, after in (("one", "two"), ("two", "three")):
            made = source.shallow_clone(str(tmp_path / name), source.version)
            source = lance.write_dataset(rows([len(after)]), made.uri, mode="append")
        source.delete("a = 3")
        mine = lancecy.dataset(source.uri).deep_clone(tmp_path / "mine")
        assert numbers(mine) == numbers(lance.dataset(source.uri)) == sorted([0, 2, 5, *range(4, 20)])
        assert only_version(tmp_path / "mine").manifest.base_paths == {}
        for name in ("t", "one", "two"):
            shutil.rmtree(tmp_path / name)
        check_usable_by_both(tmp_path / "mine")

    def test_files_of_several_bases_are_brought_together(self, tmp_path: Path) -> None:
        bases = [DatasetBasePath(str(tmp_path / name), name=name) for name in ("b1", "b2")]
        ds = lancecy.write_dataset(
            rows(range(40)),
            tmp_path / "t",
            initial_bases=bases,
            target_bases=["b1", "b2"],
            max_rows_per_file=10,
        )
        ds.append(rows([40]))
        mine = ds.deep_clone(tmp_path / "mine")
        assert len(files(tmp_path / "mine")) == 5
        for name in ("b1", "b2", "t"):
            shutil.rmtree(tmp_path / name)
        assert numbers(mine) == list(range(41))
        check_usable_by_both(tmp_path / "mine")

    def test_equal_names_in_several_bases_are_kept_apart(self, tmp_path: Path) -> None:
        bases = [DatasetBasePath(str(tmp_path / name), name=name) for name in ("b1", "b2")]
        ds = lancecy.write_dataset(
            rows(range(40)),
            tmp_path / "t",
            initial_bases=bases,
            target_bases=["b1", "b2"],
            max_rows_per_file=10,
        )
        ds = with_equal_names(ds, tmp_path)
        assert numbers(ds) == list(range(40))
        names = {file.path for fragment in ds.get_fragments() for file in fragment.data_files()}
        assert len(names) == 2
        mine = ds.deep_clone(tmp_path / "mine")
        assert len(files(tmp_path / "mine")) == 4
        assert numbers(mine) == list(range(40))
        # The names follow from the version, so that a clone that continues knows its files.
        ds.deep_clone(tmp_path / "again")
        assert files(tmp_path / "again") == files(tmp_path / "mine")
        check_usable_by_both(tmp_path / "mine")

    def test_blobs_are_copied(self, tmp_path: Path) -> None:
        values = [b"a", b"b" * 100_000, b"c" * 5_000_000]
        ds = lance.write_dataset(
            pa.table({"blob": lance.blob_array(values)}), str(tmp_path / "t"), data_storage_version="2.2"
        )
        mine = lancecy.dataset(ds.uri).deep_clone(tmp_path / "mine")
        assert files(tmp_path / "mine") == files(tmp_path / "t")
        shutil.rmtree(tmp_path / "t")
        assert blobs_of(mine) == blobs_of(lance.dataset(mine.uri)) == values

    def test_blobs_outside_of_the_table_stay_there(self, tmp_path: Path) -> None:
        """Their base stays with them: pylance drops it, and cannot read these blobs of its deep clones."""
        media = tmp_path / "media"
        media.mkdir()
        (media / "a.bin").write_bytes(b"outside")
        blobs = lance.blob_array([b"inside", lance.Blob.from_uri((media / "a.bin").as_uri())])
        ds = lance.write_dataset(
            pa.table({"blob": blobs}),
            str(tmp_path / "t"),
            data_storage_version="2.2",
            initial_bases=[
                lance.DatasetBasePath(str(media)),
                lance.DatasetBasePath(str(tmp_path / "unused")),
            ],
        )
        mine = lancecy.dataset(ds.uri).deep_clone(tmp_path / "mine")
        assert [base.path for base in mine.base_paths.values()] == [str(media)]
        assert blobs_of(mine) == blobs_of(lance.dataset(mine.uri)) == [b"inside", b"outside"]

    def test_row_ids_in_files_of_their_own_are_copied(self, tmp_path: Path) -> None:
        """As old releases wrote them. A shallow clone of such a table is refused: no base is stored with these files."""
        ds = lancecy.write_dataset(rows(range(5)), tmp_path / "t", enable_stable_row_ids=True)
        ds.delete("a = 0")
        ds.optimize.compact_files()
        manifest = ds.context.snapshot.manifest
        (fragment,) = manifest.fragments
        assert isinstance(fragment.row_ids, bytes)
        (tmp_path / "t" / "_row_ids").mkdir()
        (tmp_path / "t" / "_row_ids" / "ids.bin").write_bytes(b"xyz" + fragment.row_ids)
        outside = ExternalFile("_row_ids/ids.bin", 3, len(fragment.row_ids))
        write_manifest(LocalStore(ds.uri), replace(manifest, fragments=(replace(fragment, row_ids=outside),)))
        ds = lancecy.dataset(tmp_path / "t", session=lancecy.Session())
        with pytest.raises(UnsupportedError):
            ds.shallow_clone(tmp_path / "shallow")
        mine = ds.deep_clone(tmp_path / "mine")
        shutil.rmtree(tmp_path / "t")
        found = mine.to_table(with_row_id=True)
        assert dict(zip(found["a"].to_pylist(), found["_rowid"].to_pylist(), strict=True)) == {
            number: number for number in range(1, 5)
        }

    def test_a_table_without_rows(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows([]), tmp_path / "t")
        mine = ds.deep_clone(tmp_path / "mine")
        assert mine.count_rows() == 0
        assert mine.schema == ds.schema

    def test_few_open_files_are_enough_on_a_disk(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows(range(200)), tmp_path / "t", max_rows_per_file=1)
        ds.append(rows([200]))
        code = """
            import resource, sys, lancecy
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            source, clone, copy = sys.argv[1:]
            lancecy.dataset(source).deep_clone(clone)
            lancecy.copy(source, copy)
            """
        places = [str(tmp_path / name) for name in ("t", "clone", "copy")]
        subprocess.run([sys.executable, "-c", dedent(code), *places], check=True, timeout=120)
        assert all(numbers(lancecy.dataset(place)) == list(range(201)) for place in places)

    def test_a_table_of_the_first_format(self, tmp_path: Path) -> None:
        ds = lance.write_dataset(rows(range(5)), str(tmp_path / "t"), data_storage_version="legacy")
        mine = lancecy.dataset(ds.uri).deep_clone(tmp_path / "mine")
        shutil.rmtree(tmp_path / "t")
        assert numbers(mine) == numbers(lance.dataset(mine.uri)) == list(range(5))


def with_equal_names(ds: Any, tmp_path: Path) -> Any:
    """A table whose bases have files of the same names."""
    manifest = ds.context.snapshot.manifest
    by_base: dict[int, list[Any]] = {}
    for fragment in manifest.fragments:
        by_base.setdefault(fragment.files[0].base_id, []).append(fragment.files[0])
    (_, first), (_, second) = sorted(by_base.items())
    renamed = {}
    for one, other in zip(first, second, strict=True):
        folder = tmp_path / "b2"
        place = next(path for path in folder.rglob(other.path))
        place.rename(place.with_name(one.path))
        renamed[other.path] = one.path
    (newest,) = Path(ds.uri, "_versions").glob("*.manifest")
    data = newest.read_bytes()
    for old, new in renamed.items():
        data = data.replace(old.encode(), new.encode())
    newest.write_bytes(data)
    return lancecy.dataset(ds.uri, session=lancecy.Session())


class TestInterruption:
    def many(self, path: Path) -> lancecy.Dataset:
        return lancecy.write_dataset(rows(range(200)), path, max_rows_per_file=1)

    def test_the_same_call_continues(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        target = tmp_path / "mine"
        with pytest.raises(Interrupted) as caught:
            ds.deep_clone(target, progress=stop_after(4))
        copied = {name: (target / name).stat().st_ino for name in files(target)}
        assert 0 < len(copied) < 200
        (note,) = caught.value.__notes__
        assert f"{len(copied)} of 200 files" in note
        with pytest.raises(DatasetNotFoundError):
            lancecy.dataset(target)
        steps: list[Step] = []
        mine = ds.deep_clone(target, progress=steps.append)
        assert steps[0].done > 0
        assert (steps[-1].done, steps[-1].unit) == (steps[-1].total, "bytes")
        assert {name: (target / name).stat().st_ino for name in copied} == copied
        assert numbers(mine) == list(range(200))
        assert not (target / PLAN).exists()

    def test_unfinished_files_are_copied_again(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        target = tmp_path / "mine"
        with pytest.raises(Interrupted):
            ds.deep_clone(target, progress=stop_after(4))
        name = min(files(target))
        data = (target / name).read_bytes()
        (target / name).write_bytes(data[:-1])
        assert numbers(ds.deep_clone(target)) == list(range(200))
        assert (target / name).read_bytes() == data

    def test_damaged_files_are_found_by_verify(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        target = tmp_path / "mine"
        with pytest.raises(Interrupted):
            ds.deep_clone(target, progress=stop_after(4))
        name = min(files(target))
        data = (target / name).read_bytes()
        (target / name).write_bytes(bytes(len(data)))
        ds.deep_clone(target, verify=True)
        assert files(target) == files(tmp_path / "t")

    def test_before_the_first_file_nothing_is_left(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        with pytest.raises(Interrupted):
            ds.deep_clone(tmp_path / "mine", progress=stop_after(0))
        assert not (tmp_path / "mine").exists()

    def test_another_version_is_not_mixed_in(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        ds.delete("a = 3")
        with pytest.raises(Interrupted):
            ds.deep_clone(tmp_path / "mine", progress=stop_after(4))
        before = files(tmp_path / "mine")
        with pytest.raises(ExistsError, match=r"unfinished clone of version 2 of .*/t: finish it"):
            ds.deep_clone(tmp_path / "mine", 1)
        assert files(tmp_path / "mine") == before
        assert ds.deep_clone(tmp_path / "mine").count_rows() == 199

    def test_a_damaged_plan_is_named(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        for text in (
            "",
            "[]",
            '{"source": 1}',
            '{"source": "a", "version": "b", "identity": "", "transaction": ""}',
        ):
            with pytest.raises(Interrupted):
                ds.deep_clone(tmp_path / "mine", progress=stop_after(4))
            (tmp_path / "mine" / PLAN).write_text(text)
            with pytest.raises(FormatError, match="plan of an unfinished clone"):
                ds.deep_clone(tmp_path / "mine")
            shutil.rmtree(tmp_path / "mine")

    def test_a_crash_after_the_commit_is_healed(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        with pytest.raises(Interrupted):
            ds.deep_clone(tmp_path / "mine", progress=stop_after(4))
        plan = (tmp_path / "mine" / PLAN).read_bytes()
        ds.deep_clone(tmp_path / "mine")
        (tmp_path / "mine" / PLAN).write_bytes(plan)
        assert numbers(ds.deep_clone(tmp_path / "mine")) == list(range(200))
        assert not (tmp_path / "mine" / PLAN).exists()

    def test_a_table_made_meanwhile_is_left_alone(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")

        def other(step: Step) -> None:
            if step.done == step.total:
                lancecy.write_dataset(rows([7]), tmp_path / "mine")

        with pytest.raises(ExistsError):
            ds.deep_clone(tmp_path / "mine", progress=other)
        assert numbers(lancecy.dataset(tmp_path / "mine")) == [7]
        assert not (tmp_path / "mine" / PLAN).exists()

    def test_two_at_once_make_one_table(self, tmp_path: Path) -> None:
        ds = self.many(tmp_path / "t")
        made: list[list[int]] = []

        def run() -> None:
            try:
                mine = lancecy.dataset(ds.uri).deep_clone(tmp_path / "mine")
            except ExistsError:
                return  # the other one had finished before
            made.append(numbers(mine))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made
        assert all(found == list(range(200)) for found in made)
        assert len(lancecy.dataset(tmp_path / "mine").versions()) == 1


class TestRefusals:
    def test_a_target_with_a_table(self, tmp_path: Path) -> None:
        a_table(tmp_path / "t")
        other = lancecy.write_dataset(rows([7]), tmp_path / "other")
        before = files(tmp_path / "other")
        with pytest.raises(ExistsError, match="has a table already"):
            lancecy.dataset(tmp_path / "t").deep_clone(tmp_path / "other")
        assert files(tmp_path / "other") == before
        assert numbers(other.checkout_latest()) == [7]

    def test_references_that_name_nothing(self, tmp_path: Path) -> None:
        a_table(tmp_path / "t")
        ds = lancecy.dataset(tmp_path / "t")
        for reference in (99, "nope", ("nope", 1)):
            with pytest.raises(NotFoundError):
                ds.deep_clone(tmp_path / "mine", reference)
            assert not (tmp_path / "mine").exists()

    def test_places_inside_of_each_other(self, tmp_path: Path) -> None:
        a_table(tmp_path / "t")
        with pytest.raises(PathPolicyError, match="outside of it"):
            lancecy.dataset(tmp_path / "t").deep_clone(tmp_path / "t" / "copy")

    def test_a_missing_file_is_found_before_anything_is_written(self, tmp_path: Path) -> None:
        a_table(tmp_path / "t")
        for kind in ("data/*.lance", "_deletions/*", "_indices/*/*"):
            place = next((tmp_path / "t").glob(kind))
            aside = place.rename(tmp_path / "aside")
            with pytest.raises(DatasetNotFoundError, match=place.name):
                lancecy.dataset(tmp_path / "t", session=lancecy.Session()).deep_clone(tmp_path / "mine")
            assert not (tmp_path / "mine").exists()
            aside.rename(place)


class TestStorage:
    def test_from_any_storage_to_any(self, tmp_path: Path, s3_server: S3Server) -> None:
        options = s3_server.storage_options
        buckets = [s3_server.make_bucket(f"deep-{name}") for name in ("one", "two")]
        unique = uuid.uuid4().hex
        ds = lancecy.dataset(a_table(tmp_path / "t").uri)
        for number, (target, given) in enumerate(
            [
                (f"{buckets[0]}/{unique}/a", options),
                (f"{buckets[1]}/{unique}/b", None),
                (str(tmp_path / "back"), None),
            ]
        ):
            steps: list[Step] = []
            ds = ds.deep_clone(target, storage_options=given, verify=True, progress=steps.append)
            assert steps[-1].fraction == 1, number
            assert numbers(ds) == [0, *range(2, 20)], number
            if number:
                check_usable_by_both(target, None if number == 2 else options)
        assert len(lancecy.dataset(f"{buckets[0]}/{unique}/a", storage_options=options).versions()) == 1

    def test_a_shallow_clone_in_another_bucket(self, tmp_path: Path, s3_server: S3Server) -> None:
        options = s3_server.storage_options
        place = f"{s3_server.make_bucket('deep-shallow')}/{uuid.uuid4().hex}"
        source = lance.write_dataset(rows(range(10)), f"{place}/t", storage_options=s3_of_pylance(options))
        source.shallow_clone(f"{place}/clone", 1)
        mine = lancecy.dataset(f"{place}/clone", storage_options=options).deep_clone(f"{place}/mine")
        assert mine.base_paths == {}
        check_usable_by_both(mine.uri, options)

    def test_a_broken_copy_is_not_committed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk that writes other bytes than it was given."""
        import lancecy.changes.clone_copies as copies

        ds = lancecy.write_dataset(rows(range(10)), tmp_path / "t")

        def broken(source: Any, path: str, target: Any, name: str, size: int) -> None:
            target.put(name, bytes(size))

        monkeypatch.setattr(copies, "copy_object", broken)
        with pytest.raises(StoreError, match="differs from"):
            ds.deep_clone(tmp_path / "mine", verify=True)
        assert not list((tmp_path / "mine").rglob("*.manifest"))
        monkeypatch.undo()
        assert numbers(ds.deep_clone(tmp_path / "mine", verify=True)) == list(range(10))
