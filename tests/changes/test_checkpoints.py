"""Checkpoint files: what a function computed survives errors and crashes."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.checkpoint_files import CheckpointFile
from lancecy.errors import FormatError, LanceError, SchemaError, StoreError
from tests.changes.column_tables import VERSIONS, checked, lance, made, refused, state

pytestmark = pytest.mark.interop

SCHEMA = pa.schema({"a": pa.int64()})


def function(path: Path, seen: list[list[int]], fails_at: int | None = None, schema: Any = SCHEMA) -> Any:
    """A function that records its calls, and fails when it gets some row."""

    @lancecy.batch_udf(output_schema=schema, checkpoint_file=path)
    def computed(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch["id"].to_pylist()
        if fails_at in rows:
            raise RuntimeError("out of memory")
        seen.append(rows)
        return pa.record_batch({"a": [100 + i for i in rows]})

    return computed


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["stated", "inferred"])
def test_only_what_is_missing_is_computed_again(tmp_path: Path, version: str, schema: Any) -> None:
    seen: list[list[int]] = []
    ds, path = made(tmp_path / "t", version, deleted=True), tmp_path / "checkpoint"
    before = state(ds)
    with pytest.raises(RuntimeError, match="out of memory"):
        ds.add_columns(function(path, seen, 9, schema), batch_size=2)
    assert seen == [[0, 2], [3, 4], [5, 6]]
    assert state(ds)[:3] == before[:3]
    seen.clear()
    lancecy.dataset(ds.uri).add_columns(function(path, seen, None, schema), batch_size=2)
    assert seen == [[8, 9]]
    ds = ds.checkout_latest()
    assert [row["a"] for row in checked(ds)] == [100 + row["id"] for row in checked(ds)]
    assert not path.exists()
    assert len(list(Path(ds.uri, "data").iterdir())) == 4


def test_a_killed_process(tmp_path: Path) -> None:
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    code = f"""
import os, signal
import lancecy, pyarrow as pa
@lancecy.batch_udf(output_schema=pa.schema({{"a": pa.int64()}}), checkpoint_file={str(path)!r})
def computed(batch):
    if 8 in batch["id"].to_pylist():
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"a": [100 + i for i in batch["id"].to_pylist()]}}
lancecy.dataset({ds.uri!r}).add_columns(computed, batch_size=3)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ))
    assert ended.returncode == -signal.SIGKILL
    assert lancecy.dataset(ds.uri).version == 1
    seen: list[list[int]] = []
    ds.add_columns(function(path, seen), batch_size=3)
    assert seen == [[8, 9]]
    assert [row["a"] for row in checked(ds)] == list(range(100, 110))


def test_changes_of_others_meanwhile(tmp_path: Path) -> None:
    seen: list[list[int]] = []
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    with pytest.raises(RuntimeError):
        ds.add_columns(function(path, seen, 8), ["id"], batch_size=2)
    assert seen == [[0, 1], [2, 3], [4], [5, 6]]
    theirs = lance.dataset(ds.uri)
    theirs.add_columns({"theirs": "id"})
    theirs.delete("id = 3")
    theirs.delete("id = 9")
    lance.write_dataset(theirs.to_table().slice(0, 1), ds.uri, mode="append")
    seen.clear()
    ds = lancecy.dataset(ds.uri)
    ds.add_columns(function(path, seen), ["id"], batch_size=2)
    # The file of the first fragment is right; the batches of the second are of other rows.
    assert seen == [[5, 6], [7, 8], [0]]
    rows = checked(ds)
    assert [row["a"] for row in rows] == [100 + row["id"] for row in rows]
    assert [row["theirs"] for row in rows] == [row["id"] for row in rows]


def test_a_file_that_is_gone_is_written_again(tmp_path: Path) -> None:
    seen: list[list[int]] = []
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    with pytest.raises(RuntimeError):
        ds.add_columns(function(path, seen, 8))
    files = {file.path for part in ds.get_fragments() for file in part.data_files()}
    (lost,) = [found for found in Path(ds.uri, "data").iterdir() if found.name not in files]
    lost.unlink()
    ds.add_columns(function(path, seen))
    assert seen == [[0, 1, 2, 3, 4]] * 2 + [[5, 6, 7, 8, 9]]
    checked(ds)


def test_a_checkpoint_is_for_one_table_and_its_columns(tmp_path: Path) -> None:
    seen: list[list[int]] = []
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    with pytest.raises(RuntimeError):
        ds.add_columns(function(path, seen, 8))
    with pytest.raises(FormatError, match="another table"):
        made(tmp_path / "other").add_columns(function(path, seen))
    with pytest.raises(FormatError, match="other columns, a"):
        ds.add_columns(function(path, seen, None, pa.schema({"b": pa.int64()})))
    path.write_bytes(b"no database" * 100)
    with pytest.raises(FormatError, match=r"checkpoint file cannot be used.*Remove it"):
        ds.add_columns(function(path, seen))


def test_a_refused_result_is_not_kept(tmp_path: Path) -> None:
    @lancecy.batch_udf(output_schema=SCHEMA, checkpoint_file=tmp_path / "checkpoint")
    def wrong(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"a": [1]}

    ds = made(tmp_path / "t")
    with pytest.raises(SchemaError, match="returned 1 rows for the 5"):
        ds.add_columns(wrong)
    assert entries(tmp_path / "checkpoint", "batch") == 0


def entries(path: Path, kind: str) -> int:
    with closing(sqlite3.connect(path)) as found:
        (count,) = found.execute("SELECT count(*) FROM entries WHERE kind = ?", (kind,)).fetchone()
    return int(count)


def interrupted(tmp_path: Path, seen: list[list[int]]) -> tuple[lancecy.Dataset, Path]:
    """A table, and the checkpoint of a change with one file and one batch in it."""
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    with pytest.raises(RuntimeError):
        ds.add_columns(function(path, seen, 8), ["id"], batch_size=3)
    assert (entries(path, "file"), entries(path, "batch")) == (1, 1)
    seen.clear()
    return ds, path


def test_a_function_of_another_name_is_refused(tmp_path: Path) -> None:
    ds, path = interrupted(tmp_path, [])

    def other(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"a": [-i for i in batch["id"].to_pylist()]}

    for another in (other, functools.partial(other)):
        refused(
            ds,
            FormatError,
            "another function, 'computed', and not for 'other'",
            lambda function=another: ds.add_columns(lancecy.batch_udf(SCHEMA, path)(function), ["id"]),
        )


@pytest.mark.parametrize("what", ["pylance", "database"])
def test_a_database_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, what: str) -> None:
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    if what == "pylance":
        lance.udf.BatchUDFCheckpoint(path).insert_fragment(0, "{}")
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("CREATE TABLE precious (a INT); INSERT INTO precious VALUES (1);")
    before = path.read_bytes()
    refused(ds, FormatError, "none of this release", lambda: ds.add_columns(function(path, [])))
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["batch", "file"])
def test_damaged_results_are_computed_again(tmp_path: Path, kind: str) -> None:
    seen: list[list[int]] = []
    ds, path = interrupted(tmp_path, seen)
    with closing(sqlite3.connect(path)) as connection, connection:
        ((rowid, value),) = connection.execute("SELECT rowid, value FROM entries WHERE kind = ?", (kind,))
        # A value of the batch, or a digit of the file's size.
        place = (
            value.index((105).to_bytes(8, "little")) if kind == "batch" else value.rindex(b"size_bytes") + 13
        )
        damaged = value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
        connection.execute("UPDATE entries SET value = ? WHERE rowid = ?", (damaged, rowid))
    ds.add_columns(function(path, seen), ["id"], batch_size=3)
    assert seen == ([[5, 6, 7], [8, 9]] if kind == "batch" else [[0, 1, 2], [3, 4], [8, 9]])
    assert [row["a"] for row in checked(ds)] == list(range(100, 110))


def test_damage_anywhere_is_an_error_or_has_no_effect(tmp_path: Path) -> None:
    ds, path = interrupted(tmp_path, [])
    kept, chance, outcomes = path.read_bytes(), random.Random(1), set()
    for _ in range(60):
        bad = bytearray(kept)
        for place in chance.sample(range(len(bad)), chance.choice([1, 1, 40])):
            bad[place] ^= 1 << chance.randrange(8)
        path.write_bytes(bad[: chance.randrange(len(bad))] if chance.random() < 0.2 else bad)
        try:
            ds.add_columns(function(path, []), ["id"], batch_size=3)
        except LanceError:
            outcomes.add("refused")
            continue
        outcomes.add("added")
        assert ds.to_table()["a"].to_pylist() == list(range(100, 110))
        ds.drop_columns(["a"])
    assert outcomes == {"refused", "added"}


def test_an_entry_of_a_stranger_leads_to_no_file_elsewhere(tmp_path: Path) -> None:
    seen: list[list[int]] = []
    ds, path = interrupted(tmp_path, seen)
    with CheckpointFile.opened(path) as file:
        ((fragment, first_id, text),) = file.all("file")
        source, added = json.loads(text)
        name = added["files"][0]["path"]
        (tmp_path / "t" / name).write_bytes((tmp_path / "t/data" / name).read_bytes())
        added["files"][0]["path"] = f"../{name}"
        file.put("file", json.dumps([source, added]).encode(), fragment, first_id)
    ds.add_columns(function(path, seen), ["id"], batch_size=3)
    assert seen == [[0, 1, 2], [3, 4], [8, 9]]


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    code = f"""
import sys
import lancecy, pyarrow as pa
@lancecy.batch_udf(output_schema=pa.schema({{"a": pa.int64()}}), checkpoint_file={str(path)!r})
def computed(batch):
    if 5 in batch["id"].to_pylist():
        print("half", flush=True)
        sys.stdin.readline()
    return {{"a": [100 + i for i in batch["id"].to_pylist()]}}
lancecy.dataset({ds.uri!r}).add_columns(computed)
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "half\n"
        seen: list[list[int]] = []
        with pytest.raises(StoreError, match=r"in use.*other process.*name another"):
            ds.add_columns(function(path, seen))
        assert seen == []
        other.stdin.write("\n")
    assert other.returncode == 0
    assert [row["a"] for row in checked(ds.checkout_latest())] == list(range(100, 110))


def test_processes_that_are_killed_again_and_again(tmp_path: Path) -> None:
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    code = f"""
import os, signal
import lancecy, pyarrow as pa
calls = []
@lancecy.batch_udf(output_schema=pa.schema({{"a": pa.int64()}}), checkpoint_file={str(path)!r})
def computed(batch):
    calls.append(batch)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"a": [100 + i for i in batch["id"].to_pylist()]}}
lancecy.dataset({ds.uri!r}).add_columns(computed, batch_size=2)
"""
    ends = [subprocess.run([sys.executable, "-c", code], check=False).returncode for _ in range(3)]
    # Each ends with two more of the six batches.
    assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert [row["a"] for row in checked(ds.checkout_latest())] == list(range(100, 110))
    # No journal of SQLite stays.
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_table_made_anew_at_the_same_place(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"

    def new(first: int) -> lancecy.Dataset:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        ds = lancecy.write_dataset({"id": range(first)}, tmp_path / "t", enable_stable_row_ids=True)
        for _ in range(2):
            ds = lancecy.write_dataset({"id": range(3)}, tmp_path / "t", mode="append")
        return ds

    def add(ds: lancecy.Dataset, fails_at: int) -> None:
        @lancecy.batch_udf(output_schema=SCHEMA, checkpoint_file=path)
        def computed(batch: pa.RecordBatch) -> dict[str, Any]:
            rows = batch["_rowid"].to_pylist()
            if fails_at in rows:
                raise RuntimeError("out of memory")
            return {"a": rows}

        ds.add_columns(computed, ["_rowid"], batch_size=2)

    with pytest.raises(RuntimeError):
        add(new(5), 10)
    assert (entries(path, "file"), entries(path, "batch")) == (2, 1)
    ds = new(4)
    add(ds, -1)
    rows = ds.to_table(columns=["a"], with_row_id=True).to_pylist()
    assert [row["a"] for row in rows] == [row["_rowid"] for row in rows] == list(range(10))


def test_errors_of_a_database_that_the_function_uses_are_its_own(tmp_path: Path) -> None:
    @lancecy.batch_udf(output_schema=SCHEMA, checkpoint_file=tmp_path / "checkpoint")
    def computed(batch: pa.RecordBatch) -> None:
        raise sqlite3.OperationalError("no such table: cities")

    with pytest.raises(sqlite3.OperationalError, match="cities"):
        made(tmp_path / "t").add_columns(computed)


@pytest.mark.parametrize("reads", [["id"], ["id", "word"]])
def test_files_of_a_committed_column_stay(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    first = function(path, [])
    # The process ended right after the commit.
    monkeypatch.setattr(first.cache, "cleanup", lambda: None)
    ds.add_columns(first, ["id"])
    ds.alter_columns({"path": "a", "name": "b"})
    lancecy.dataset(ds.uri).add_columns(function(path, seen), reads)
    assert seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    ds = lancecy.dataset(ds.uri)
    rows = checked(ds)
    assert [row["a"] for row in rows] == [row["b"] for row in rows] == list(range(100, 110))
    files = [file.path for part in ds.get_fragments() for file in part.data_files()]
    assert len(files) == len(set(files)) == 6


def test_files_that_an_older_version_names_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    first = function(path, [])
    monkeypatch.setattr(first.cache, "cleanup", lambda: None)
    ds.add_columns(first, ["id"])
    version = ds.version
    ds.drop_columns(["a"])
    lancecy.dataset(ds.uri).add_columns(function(path, seen), ["id", "word"])
    assert len(seen) == 2
    checked(ds.checkout_latest())
    older = lancecy.dataset(ds.uri, version=version)
    assert older.to_table()["a"].to_pylist() == list(range(100, 110))
    assert lance.dataset(ds.uri, version=version).to_table().equals(older.to_table())


def test_columns_with_other_metadata_are_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"

    def add(column: pa.Field, fails_at: int) -> None:
        @lancecy.batch_udf(pa.schema([column]), path)
        def computed(batch: pa.RecordBatch) -> dict[str, Any]:
            if fails_at in batch["id"].to_pylist():
                raise RuntimeError("out of memory")
            return {"a": [b"%d" % i for i in batch["id"].to_pylist()]}

        ds.add_columns(computed, ["id"])

    ds, plain = made(tmp_path / "t"), pa.field("a", pa.large_binary())
    with pytest.raises(RuntimeError):
        add(plain, 8)
    blobs = plain.with_metadata({"lance-encoding:blob": "true"})
    # The files so far hold no blobs.
    refused(ds, FormatError, "other columns, a", lambda: add(blobs, -1))
    add(plain, -1)
    assert [row["a"] for row in checked(ds)] == [b"%d" % i for i in range(10)]


def test_a_link_stays_and_its_file_goes(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    ds, path = made(tmp_path / "t"), tmp_path / "checkpoint"
    path.symlink_to(tmp_path / "disk/results")
    with pytest.raises(RuntimeError):
        ds.add_columns(function(path, [], 8))
    assert (tmp_path / "disk/results").exists()
    ds.add_columns(function(path, []))
    assert path.is_symlink()
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_name_that_sqlite_takes_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[list[int]] = []
    ds = made(tmp_path / "t")
    with pytest.raises(RuntimeError):
        ds.add_columns(function(Path(":memory:"), seen, 8))
    ds.add_columns(function(Path(":memory:"), seen))
    assert seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_transaction_that_sqlite_ended(tmp_path: Path) -> None:
    def fill(file: CheckpointFile) -> None:
        with file.together():
            for place in range(100):
                file.put("batch", b"x" * 1000, place=place)

    with CheckpointFile.opened(tmp_path / "checkpoint") as file:
        file._run("PRAGMA max_page_count = 8")
        file._run("PRAGMA cache_size = 1")
        # SQLite takes back the whole transaction when the file is full.
        with pytest.raises(StoreError, match="full"):
            fill(file)
        assert file.all("batch") == []


def test_a_result_that_is_too_large(tmp_path: Path) -> None:
    with CheckpointFile.opened(tmp_path / "checkpoint") as file:
        file._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        with pytest.raises(StoreError, match="no result of a gigabyte.*smaller batch_size"):
            file.put("batch", b"x" * 2000)


def test_a_file_that_was_removed_while_it_was_open(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with CheckpointFile.opened(path):
        pass
    with CheckpointFile.opened(path) as file:
        # As another process does that is done with it.
        path.unlink()
        with pytest.raises(StoreError, match="was removed.*again"):
            file.put("batch", b"x")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    path = tmp_path / "no/folder"
    refused(ds, StoreError, "unable to open", lambda: ds.add_columns(function(path, [])))


@pytest.mark.parametrize("module", [lancecy, lance])
def test_results_of_a_loop_of_ones_own(tmp_path: Path, module: Any) -> None:
    path = tmp_path / "checkpoint"
    kept, batch = module.udf.BatchUDFCheckpoint(path), pa.record_batch({"a": [1, None]})
    info = module.udf.BatchUDFCheckpoint.BatchInfo(fragment_id=2, batch_index=0)
    assert info == (2, 0)
    assert kept.get_batch(info) is None and kept.get_fragment(2) is None
    kept.insert_batch(info, batch)
    kept.insert_batch(info._replace(fragment_id=3), batch.slice(1))
    assert kept.get_batch(info).equals(batch)
    kept.insert_fragment(2, '{"id": 2}')
    again = module.batch_udf(SCHEMA, path)(lambda batch: batch).cache
    assert again.get_fragment(2) == '{"id": 2}'
    assert again.get_batch(info) is None
    assert again.get_batch(info._replace(fragment_id=3)).equals(batch.slice(1))
    again.cleanup()
    assert list(tmp_path.iterdir()) == []
