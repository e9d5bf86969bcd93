"""The rows that differ between two versions, in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lancecy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_executors_read_the_changes(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"n": range(1000), "vec": [[n, n] for n in range(1000)]}
    ds = lancecy.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=250)
    ds.append({"n": [1000], "vec": [[0, 0]]})
    ds.delete("n >= 200 AND n < 300")
    df = lancecy.spark.changes(spark, tmp_path / "t", since=1)
    assert [(field.name, field.dataType.simpleString()) for field in df.schema] == [
        ("n", "bigint"),
        ("vec", "array<bigint>"),
        ("_rowid", "decimal(20,0)"),
        ("_change_type", "string"),
        ("_commit_version", "bigint"),
    ]
    found = [(row["n"], row["_change_type"], row["_commit_version"]) for row in df.collect()]
    expected = ds.changes(since=1).to_table().to_pylist()
    assert sorted(found, key=str) == sorted(
        [(row["n"], row["_change_type"], row["_commit_version"]) for row in expected], key=str
    )
    counts = df.groupBy("_change_type").count().collect()
    assert {row[0]: row[1] for row in counts} == {"delete": 100, "insert": 1}
    assert lancecy.spark.changes(spark, ds, since=3, columns=["n"]).count() == 0


@pytest.mark.interop
def test_executors_read_the_differences_of_two_branches(spark: SparkSession, tmp_path: Path) -> None:
    import lance

    lancecy.write_dataset({"n": range(10)}, tmp_path / "t", enable_stable_row_ids=True)
    main = lance.dataset(str(tmp_path / "t"))
    main.create_branch("exp", 1).delete("n = 3")
    lancecy.dataset(tmp_path / "t").append({"n": [10]})
    df = lancecy.spark.diff(spark, tmp_path / "t", ("exp", None))
    assert sorted((row["n"], row["_change_type"]) for row in df.collect()) == [(3, "insert"), (10, "insert")]
