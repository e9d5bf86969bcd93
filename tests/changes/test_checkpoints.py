"""Checkpoint files: what a function computed survives errors and crashes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError, SchemaError
from tests.changes.column_tables import VERSIONS, checked, lance, made, state

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
    with sqlite3.connect(tmp_path / "checkpoint") as found:
        assert found.execute("SELECT count(*) FROM batches").fetchone() == (0,)
