"""Searches for nearest neighbours in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS, DIMENSION = 4000, 64
BLOCK = 64 << 10


def test_executors_find_the_rows_that_one_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    numbers = random.integers(-9, 10, (ROWS, DIMENSION)).astype(np.float32)
    queries = random.integers(-9, 10, (3, DIMENSION)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), DIMENSION)
    rows = {"id": np.arange(ROWS), "word": [f"w{n % 7}" for n in range(ROWS)], "v": vectors}
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=1200)
    ds.delete("id % 5 = 2")
    scans: list[dict[str, Any]] = [
        {"columns": ["id", "word"], "nearest": {"column": "v", "q": queries[0], "k": 12}},
        {"columns": ["id"], "nearest": {"column": "v", "q": queries, "k": 5, "metric": "cosine"}},
        {
            "columns": ["id"],
            "nearest": {"column": "v", "q": queries[1], "k": 4},
            "filter": "word = 'w3'",
            "prefilter": True,
        },
    ]
    for scan in scans:
        df = lancecy.spark.read(spark, str(tmp_path / "t"), blocksize=BLOCK, **scan)
        expected = ds.to_table(**scan)
        assert df.columns == expected.column_names
        assert [row.asDict() for row in df.collect()] == expected.to_pylist()
    plain = lancecy.spark.read(spark, ds, **scans[0])
    assert plain.where("_distance < 0").count() == 0
    assert plain.count() == 12
    assert plain.rdd.getNumPartitions() == 1
    nothing = ds.checkout_version(ds.version)
    nothing.delete("true")
    assert lancecy.spark.read(spark, nothing, nearest=scans[0]["nearest"]).collect() == []
