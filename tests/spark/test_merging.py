"""A Spark DataFrame is merged into a table by the executors, in one version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.merging.distributed import SharedMerge
from lancecy.spark import merging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def table(place: Path, **options: Any) -> lancecy.Dataset:
    """Ten rows in four fragments, keyed by unsigned numbers, which Spark has no type for."""
    rows = {
        "id": pa.array(range(10), pa.uint64()),
        "word": [f"old {n}" for n in range(10)],
        "vec": pa.array([[n, n + 1] for n in range(10)], pa.list_(pa.float32(), 2)),
    }
    return lancecy.write_dataset(pa.table(rows), place, max_rows_per_file=3, **options)


def source(spark: SparkSession, ids: list[int]) -> DataFrame:
    rows = [(n, f"new {n}") for n in ids]
    return spark.createDataFrame(rows, "id bigint, word string").selectExpr(
        "cast(id AS decimal(20, 0)) AS id", "word"
    )


def words(place: Path) -> dict[Any, Any]:
    found = lancecy.dataset(place).to_table(columns=["id", "word"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["word"] for row in found}


def files(place: Path) -> list[str]:
    return sorted(str(path) for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("num_partitions", [None, 3])
def test_executors_update_and_insert(spark: SparkSession, tmp_path: Path, num_partitions: int | None) -> None:
    ds = table(tmp_path / "t", enable_stable_row_ids=True)
    ids = dict(zip(*ds.to_table(columns=["id"], with_row_id=True).to_pydict().values(), strict=True))
    done = lancecy.spark.merge(
        source(spark, [3, 7, 8, 12, 11]), tmp_path / "t", "id", num_partitions=num_partitions
    )
    assert done == {"num_inserted_rows": 2, "num_updated_rows": 3, "num_deleted_rows": 0}
    expected = {n: f"new {n}" if n in (3, 7, 8) else f"old {n}" for n in range(10)}
    assert words(tmp_path / "t") == {**expected, 11: "new 11", 12: "new 12"}
    after = lancecy.dataset(tmp_path / "t")
    rows = {row["id"]: row for row in after.to_table(with_row_id=True).to_pylist()}
    assert after.version == 2
    assert {n: rows[n]["_rowid"] for n in range(10)} == ids
    assert (rows[7]["vec"], rows[12]["vec"]) == ([7.0, 8.0], None)


def test_clauses_and_conditions(spark: SparkSession, tmp_path: Path) -> None:
    table(tmp_path / "t")
    rows = source(spark, [3, 7, 11])
    deleted = lancecy.spark.merge(rows, tmp_path / "t", "id", when_matched="delete", when_not_matched=None)
    assert deleted == {"num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 2}
    only = lancecy.spark.merge(
        source(spark, [1, 2]),
        tmp_path / "t",
        "id",
        condition="source.word > target.word AND target.id = 2",
        when_not_matched_by_source="delete",
        delete_condition="id < 5",
    )
    assert only == {"num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 2}
    assert sorted(words(tmp_path / "t")) == [1, 2, 5, 6, 8, 9]


def test_failures_leave_nothing_and_name_the_key(spark: SparkSession, tmp_path: Path) -> None:
    table(tmp_path / "t")
    before = files(tmp_path)
    with pytest.raises(Exception, match="two rows of the source have the key id = 5"):
        lancecy.spark.merge(source(spark, [1, 5, 6, 5, 30]), tmp_path / "t", "id")
    bad = source(spark, [3, 12]).selectExpr("id", "if(id = 12, raise_error('twelve'), word) AS word")
    with pytest.raises(Exception, match="twelve") as raised:
        lancecy.spark.merge(bad, tmp_path / "t", "id")
    assert "nothing was committed" in str(raised.value.__notes__)
    assert files(tmp_path) == before


def test_task_that_runs_twice_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path / "t")

    def twice(engine: Any, merge: SharedMerge, tasks: Any) -> list[str]:
        # All executors work twice, and results of the first time are lost, as those of killed attempts.
        real(engine, merge, tasks)
        return real(engine, merge, tasks)

    real = merging._SparkEngine.run
    monkeypatch.setattr(merging._SparkEngine, "run", twice)
    done = lancecy.spark.merge(source(spark, [3, 12]), tmp_path / "t", "id")
    assert done == {"num_inserted_rows": 1, "num_updated_rows": 1, "num_deleted_rows": 0}
    found = words(tmp_path / "t")
    assert (len(found), found[3], found[12]) == (11, "new 3", "new 12")
