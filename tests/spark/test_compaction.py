"""Compaction on Spark's executors: one commit, and nothing is visible after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lancecy
from lancecy.optimize import CompactionMetrics
from tests.changes.rows import data_files, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def table(path: Path) -> lancecy.Dataset:
    ds = lancecy.write_dataset(pa.table({"n": range(100)}), path, durability="none")
    for part in range(1, 6):
        ds.append(pa.table({"n": range(part * 100, part * 100 + 100)}), durability="none")
    return ds


def test_executors_rewrite_and_the_driver_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    ds = table(tmp_path)
    ds.delete("n = 3")
    metrics = lancecy.spark.compact(tmp_path, spark, target_rows_per_fragment=200)
    assert metrics == CompactionMetrics(6, 2, 7, 2)
    after = lancecy.dataset(tmp_path)
    assert (after.version, rows_of(after)) == (8, [n for n in range(600) if n != 3])
    assert lancecy.spark.compact(after) == CompactionMetrics(2, 1, 2, 1)
    assert after.version == 9


def test_a_failed_task_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    ds = table(tmp_path)
    broken = tmp_path / "data" / ds.get_fragments()[4].metadata.files[0].path
    broken.write_bytes(broken.read_bytes()[:-20] + b"\xff" * 20)
    before = data_files(tmp_path)
    with pytest.raises(Exception, match="fragment 4") as caught:
        lancecy.spark.compact(tmp_path, spark, target_rows_per_fragment=200)
    assert "nothing was committed" in "".join(caught.value.__notes__)
    assert data_files(tmp_path) == before
    assert lancecy.dataset(tmp_path).version == 6
