"""Indices on Spark's executors: parts made apart, one commit, and nothing is visible after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lancecy
from lancecy.spark.source import LancecyDataSource
from lancecy.spark.tasks import divide
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


def test_tasks_are_planned_by_the_rows_that_an_index_names(spark: SparkSession, tmp_path: Path) -> None:
    rows = range(40_000)
    data = pa.table({"n": [n * 7919 % 40_000 for n in rows], "word": [f"w{n % 7}" for n in rows]})
    ds = lancecy.write_dataset(data, tmp_path / "t", max_rows_per_file=10_000, durability="none")
    ds.create_scalar_index("n", "BTREE")
    row = data["n"].to_pylist().index(317)
    units = [(row // 10_000, row % 10_000, row % 10_000 + 1, 1, row)]
    _, parts = divide(ds.scanner(filter="n = 317"), ds.context, 2, None)
    assert parts == units
    _, all_parts = divide(ds.scanner(filter="n = 317", use_scalar_index=False), ds.context, 2, None)
    assert sum(len(part) for part in all_parts) == 4 * 5
    frame = spark.read.format("lancecy").option("filter", "n = 317").load(str(tmp_path / "t"))
    source = LancecyDataSource({"path": str(tmp_path / "t"), "filter": "n = 317"})
    assert [part.value for part in source.reader(frame.schema).partitions()] == units
    for found in (frame, lancecy.spark.read(spark, tmp_path / "t", filter="n = 317")):
        assert found.rdd.getNumPartitions() == 1
        assert [tuple(values) for values in found.collect()] == [(317, f"w{row % 7}")]


@pytest.mark.parametrize("is_format", [False, True])
def test_executors_make_the_zone_maps_of_what_they_write(
    spark: SparkSession, tmp_path: Path, is_format: bool
) -> None:
    frame = spark.range(0, 30_000, 1, 3).selectExpr("id", "id / 2 AS half", "CAST(id AS STRING) AS word")
    path = str(tmp_path / "t")
    if is_format:
        frame.write.format("lancecy").option("zonemaps", "id, half").mode("append").save(path)
    else:
        lancecy.spark.write(frame, path, zonemaps=["id", "half"])
    ds = lancecy.dataset(path)
    assert ds.version == 2
    assert {(index.name, index.num_rows_indexed) for index in ds.describe_indices()} == {
        ("id_zonemap_idx", 30_000),
        ("half_zonemap_idx", 30_000),
    }
    for where in ("id BETWEEN 20005 AND 20010", "half > 14990"):
        plain = ds.to_table(filter=where, use_scalar_index=False)
        assert plain.num_rows
        assert ds.to_table(filter=where).equals(plain)
        assert ds.scanner(filter=where).explain().kept_rows <= 10_000
    lancecy.spark.write(frame, path, "append", zonemaps=True)
    assert {index.num_rows_indexed for index in lancecy.dataset(path).describe_indices()} == {30_000, 60_000}
