"""Bases on executors: replicas that they read, and files that they copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lancecy
import lancecy.spark
from lancecy import DatasetBasePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_executors_read_the_replica(spark: SparkSession, tmp_path: Path) -> None:
    base = DatasetBasePath(tmp_path / "far", name="far")
    rows = {"n": list(range(100))}
    lancecy.write_dataset(
        rows, tmp_path / "t", max_rows_per_file=10, initial_bases=[base], target_bases=["far"]
    )
    shutil.move(tmp_path / "far", tmp_path / "near")
    replicas = {"far": [str(tmp_path / "near")]}
    lancecy.spark.register(spark)

    reader = spark.read.format("lancecy").option("replicas", json.dumps(replicas))
    assert sum(row.n for row in reader.load(str(tmp_path / "t")).collect()) == sum(range(100))
    frame = lancecy.spark.read(spark, str(tmp_path / "t"), replicas=replicas)
    assert frame.filter("n < 5").count() == 5
    with pytest.raises(Exception, match="no base 'fat' for replicas"):
        spark.read.format("lancecy").option("replicas", '{"fat": []}').load(str(tmp_path / "t")).collect()


def test_executors_copy_and_the_driver_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    base = DatasetBasePath(tmp_path / "hot", name="hot")
    rows = {"n": list(range(200))}
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=10, initial_bases=[base])

    counts = lancecy.spark.copy_files(spark, ds, "n < 150", base="hot")

    assert (counts["num_fragments"], counts["num_files"], ds.version) == (15, 15, 2)
    assert [one.num_files for one in ds.bases(check=False)] == [5, 15]
    assert ds.to_table()["n"].to_pylist() == rows["n"]
