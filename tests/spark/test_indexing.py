"""Indices on Spark's executors: parts made apart, one commit, and nothing is visible after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lancecy
from tests.dask.test_indexing import KINDS, check, folders, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_executors_make_parts_and_the_driver_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    ds = table(tmp_path)
    for count, (column, kind) in enumerate(KINDS.items(), 1):
        lancecy.spark.create_scalar_index(spark, ds, column, kind, num_parts=2)
        assert ds.version == lancecy.dataset(tmp_path).version == 2 + count
        assert len(folders(tmp_path)) == count
    assert {index.num_rows_indexed for index in ds.describe_indices()} == {ds.count_rows()}
    check(ds)


def test_a_failed_task_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    ds = table(tmp_path)
    broken = tmp_path / "data" / ds.get_fragments()[4].metadata.files[0].path
    broken.write_bytes(broken.read_bytes()[:-20] + b"\xff" * 20)
    with pytest.raises(Exception, match="fragment 4") as caught:
        lancecy.spark.create_scalar_index(spark, tmp_path, "n")
    assert "Nothing was committed" in "".join(caught.value.__notes__)
    assert folders(tmp_path) == set()
    assert lancecy.dataset(tmp_path).version == 2
