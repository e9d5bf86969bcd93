"""Compactions of tables larger than their byte budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.peak_memory import peak_memory

BUDGET, FRAGMENTS, ROWS, WIDTH = 20 << 20, 32, 800_000, 34

COMPACT = """
done = ds.optimize.compact_files(
    io_buffer_size=int(sys.argv[2]), compaction_mode=sys.argv[3], target_rows_per_fragment=1 << 30,
    durability="none",
)
assert done.fragments_removed == int(sys.argv[4]) and done.fragments_added == 1, done
"""


def batches() -> Iterator[pa.RecordBatch]:
    """Values that no encoding makes smaller."""
    chance, rows = np.random.default_rng(1), ROWS // FRAGMENTS
    for number in range(FRAGMENTS):
        columns: dict[str, Any] = {"n": np.arange(number * rows, (number + 1) * rows)}
        values = chance.integers(0, 1 << 62, rows * WIDTH)
        columns["vector"] = pa.FixedSizeListArray.from_arrays(values, WIDTH)
        yield pa.record_batch(columns)


def peak(uri: str, mode: str, fragments: int) -> int:
    """Bytes that a compaction takes at most beside the open table, in a process of its own."""
    found = peak_memory(uri, COMPACT, BUDGET, mode, fragments)
    print(f"{found >> 20} MiB")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "mode"), [("0.1", "reencode"), ("2.1", "reencode"), ("2.1", "try_binary_copy")]
)
def test_memory_stays_within_the_budget(tmp_path: Path, version: Any, mode: str) -> None:
    uri = str(tmp_path / "t")
    ds = lancecy.write_dataset(
        batches(),
        uri,
        data_storage_version=version,
        max_rows_per_file=ROWS // FRAGMENTS,
        durability="none",
    )
    ds.delete("n % 1000 = 0")
    assert sum(path.stat().st_size for path in (tmp_path / "t").rglob("*.lance")) > 10 * BUDGET
    assert peak(uri, mode, FRAGMENTS) < BUDGET + (200 << 20)
    found = lancecy.dataset(uri).to_table(["n"])["n"].to_numpy()
    assert (found == np.delete(np.arange(ROWS), np.arange(0, ROWS, 1000))).all()


@pytest.mark.slow
def test_row_ids_take_little_memory(tmp_path: Path) -> None:
    # Rows are narrow, so that ids and versions would take more than all columns.
    uri, rows, fragments = str(tmp_path / "t"), 8_000_000, 16
    values = np.random.default_rng(1).integers(0, 1 << 62, rows).reshape(fragments, -1)
    parts = (pa.record_batch({"n": part}) for part in values)
    ds = lancecy.write_dataset(
        parts, uri, max_rows_per_file=rows // fragments, enable_stable_row_ids=True, durability="none"
    )
    ds.delete("_rowid % 1000 = 0")
    assert peak(uri, "reencode", fragments) < BUDGET + (200 << 20)
    found = lancecy.dataset(uri).to_table(["n"], with_row_id=True)
    expected = np.delete(np.arange(rows), np.arange(0, rows, 1000))
    assert (found["_rowid"].to_numpy() == expected).all()
    assert (found["n"].to_numpy() == values.reshape(-1)[expected]).all()


@pytest.mark.slow
def test_row_ids_of_updated_rows_take_little_memory(tmp_path: Path) -> None:
    # Neither what stays nor what moved is ranges of ids.
    uri, rows, fragments = str(tmp_path / "t"), 8_000_000, 16
    values = np.random.default_rng(1).integers(0, 1 << 62, rows)
    parts = (pa.record_batch({"n": part}) for part in values.reshape(fragments, -1))
    ds = lancecy.write_dataset(
        parts, uri, max_rows_per_file=rows // fragments, enable_stable_row_ids=True, durability="none"
    )
    ds.update({"n": "n + 1"}, "_rowid % 7 = 0", durability="none")
    moved = len(ds.get_fragments()) - fragments
    assert peak(uri, "reencode", fragments + moved) < BUDGET + (200 << 20)
    found = lancecy.dataset(uri).to_table(["n"], with_row_id=True)
    ids = found["_rowid"].to_numpy()
    assert (np.sort(ids) == np.arange(rows)).all()
    assert (found["n"].to_numpy() == values[ids] + (ids % 7 == 0)).all()
