"""Columns that Spark's executors compute: one file per fragment, one commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.shared_columns import SharedColumns
from lancecy.spark import columns
from lancecy.spark.tasks import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_executors_compute_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lancecy.write_dataset({"a": range(10)}, tmp_path / "t", max_rows_per_file=3).delete("a = 4")
    schema = pa.schema({"vec": pa.list_(pa.float16(), 2), "big": pa.uint64()})
    factor = 2

    def embed(batch: Any) -> dict[str, Any]:
        numbers = batch["a"].to_pylist()
        return {"vec": [[n, n * factor] for n in numbers], "big": numbers}

    def twice(spark: SparkSession, found: SharedColumns, fragments: Any) -> list[str]:
        # All executors work twice, and results of the first time are lost, as those of killed attempts.
        results(spark, found, fragments)
        return results(spark, found, fragments)

    monkeypatch.setattr(columns, "results", twice)
    ds = lancecy.spark.add_columns(spark, tmp_path / "t", embed, ["a"], schema)
    assert ds.version == 3
    assert ds.schema.field("vec").type == pa.list_(pa.float16(), 2)
    rows = lancecy.dataset(tmp_path / "t").to_table().to_pydict()
    assert [list(map(float, vec)) for vec in rows["vec"]] == [[n, 2 * n] for n in rows["a"]]
    assert rows["big"] == rows["a"] == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_failing_function_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lancecy.write_dataset({"a": range(10)}, tmp_path / "t", max_rows_per_file=3)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())

    def fails(batch: Any) -> dict[str, Any]:
        if 7 in batch["a"].to_pylist():
            raise RuntimeError("the user's own")
        return {"b": batch["a"]}

    with pytest.raises(Exception, match="the user's own") as raised:
        lancecy.spark.add_columns(spark, tmp_path / "t", fails, ["a"])
    assert "nothing was committed" in str(raised.value.__notes__)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
