"""Rows that Spark's executors update, in one version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lancecy
from lancecy.changes.shared_update import SharedUpdate
from lancecy.spark import updating
from lancecy.spark.tasks import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def table(place: Path) -> lancecy.Dataset:
    rows = {"a": range(10), "s": [f"s{n}" for n in range(10)]}
    return lancecy.write_dataset(rows, place, max_rows_per_file=3, enable_stable_row_ids=True)


def test_executors_update_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, ds = table(tmp_path / "alone"), table(tmp_path / "t")

    def twice(spark: SparkSession, update: SharedUpdate, numbers: Any) -> Any:
        # All executors work twice, and results of the first time are lost, as those of killed attempts.
        results(spark, update, numbers)
        return results(spark, update, numbers)

    monkeypatch.setattr(updating, "results", twice)
    values: dict[str, Any] = {"s": lancecy.lit("new"), "a": "a + 100"}
    done = lancecy.spark.update(spark, ds, values, "a % 4 = 3")
    assert done == alone.update(values, "a % 4 = 3") == {"num_rows_updated": 2}
    columns = ["a", "s", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found, expected = (
        lancecy.dataset(each.uri).to_table(columns=columns).sort_by("a").to_pylist() for each in (ds, alone)
    )
    assert found == expected
    assert ds.version == 2


def test_value_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(Exception, match="zero|ExpressionError") as raised:
        lancecy.spark.update(spark, ds, {"a": "10 / (a - 7)"})
    assert "nothing was committed" in str(raised.value.__notes__)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
