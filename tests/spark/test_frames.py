"""Arrow tables in a real Spark session: every type arrives as what it is."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import UnsupportedError
from lancecy.spark.frames import _setting, dataframe
from lancecy.spark.types import original_schema
from tests.spark.test_source import NOT_STORED
from tests.spark.values import SPARK_TYPES, as_seen, every_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# What PySpark 4.3 itself cannot take: these need lancecy.spark.dataframe.
NOT_DIRECTLY = {
    *(
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "date64",
        "time_s",
        "time_ms",
        "decimal_negative_scale",
    ),
    *(
        "dictionary_of_uint8",
        "vector_float16",
        "vector_uint8",
        "duration_ns",
        "map",
        "string_view",
        "binary_view",
    ),
    *("list_view", "large_list_view", "runs", "uuid", "json", "bool8", "tensor", "scale_beyond_precision"),
    *("dictionary_of_list", "list_null"),
}
# What PySpark takes but changes: wall-clock times become instants of the session's zone.
CHANGED_DIRECTLY = {"timestamp_s", "timestamp_ms", "timestamp_us", "timestamp_ns", "struct_vector"}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return every_type(40)


def _seen(column: Any) -> list[Any]:
    return [as_seen(v) for v in column.to_pylist()]


def test_every_type_arrives_right(spark: SparkSession, table: pa.Table) -> None:
    frame = dataframe(spark, table, truncate_nanoseconds=True)
    assert {f.name: f.dataType.simpleString() for f in frame.schema} == {**SPARK_TYPES, "row": "bigint"}
    found = frame.toArrow()
    wrong = [name for name in table.column_names if _seen(found[name]) != _seen(table[name])]
    assert wrong == []


def test_every_type_can_be_computed_with_in_spark(spark: SparkSession, table: pa.Table) -> None:
    # Sorting and caching move the values through Spark's own row format.
    frame = dataframe(spark, table, truncate_nanoseconds=True).orderBy("row", ascending=False)
    found = frame.toArrow().sort_by("row")
    wrong = [name for name in table.column_names if _seen(found[name]) != _seen(table[name])]
    assert wrong == []


def test_rows_collect_as_python_values(spark: SparkSession) -> None:
    given = pa.table(
        {
            "n": pa.array([2**64 - 1], pa.uint64()),
            "v": pa.array([[0.5, None]], pa.list_(pa.float16(), 2)),
            "t": pa.array([0], pa.timestamp("s")),
            "d": pa.array(["x"]).dictionary_encode(),
        }
    )
    row = dataframe(spark, given).collect()[0]
    assert (int(row["n"]), row["v"], row["t"], row["d"]) == (
        2**64 - 1,
        [0.5, None],
        dt.datetime(1970, 1, 1),
        "x",
    )


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_session_zone_changes_neither_instants_nor_wall_clocks(spark: SparkSession, zone: str) -> None:
    given = pa.table(
        {
            "wall": pa.array([1_700_000_000_000], pa.timestamp("ms")),
            "instant": pa.array([1_700_000_000_000], pa.timestamp("ms", "+05:30")),
        }
    )
    with _setting(spark, "spark.sql.session.timeZone", zone):
        shown = dataframe(spark, given).selectExpr("string(wall)", "unix_millis(instant)").collect()[0]
    assert tuple(shown) == ("2023-11-14 22:13:20", 1_700_000_000_000)


@pytest.mark.parametrize("name", [name for name in SPARK_TYPES if name not in NOT_DIRECTLY])
def test_other_types_go_straight_in(spark: SparkSession, table: pa.Table, name: str) -> None:
    column = table.select([name])
    found = spark.createDataFrame(column).toArrow()
    assert (_seen(found[name]) == _seen(column[name])) == (name not in CHANGED_DIRECTLY)


@pytest.mark.parametrize("name", sorted(NOT_DIRECTLY))
def test_types_that_need_dataframe_are_refused_by_spark(
    spark: SparkSession, table: pa.Table, name: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, pa.ArrowException, ValueError)):
        spark.createDataFrame(table.select([name])).toArrow()


def test_refused_type_names_the_column_and_starts_no_job(spark: SparkSession) -> None:
    given = pa.table({"big": pa.array([1], pa.decimal256(60, 0))})
    with pytest.raises(UnsupportedError, match=r"'big'.*CAST\(big AS double\)"):
        dataframe(spark, given)


def test_original_types_come_back_from_the_frame(spark: SparkSession, table: pa.Table) -> None:
    frame = dataframe(spark, table, truncate_nanoseconds=True)
    assert (
        original_schema(frame.select("vector_float16", "uuid").schema)
        == table.select(["vector_float16", "uuid"]).schema
    )


@pytest.mark.parametrize("shape", ["batch", "reader", "stream", "slice"])
def test_any_arrow_data_is_taken(spark: SparkSession, shape: str) -> None:
    nested = pa.array([[{"a": 1}], None, [{"a": 2}, {"a": 3}]], pa.list_(pa.struct([("a", pa.uint8())])))
    given = pa.table({"x": nested})
    data: Any = {
        "batch": given.to_batches()[0],
        "reader": given.to_reader(),
        "stream": _Stream(given),
        "slice": pa.concat_tables([given, given]).slice(2, 3),
    }[shape]
    expected = given["x"].to_pylist()
    found = dataframe(spark, data).toArrow()["x"].to_pylist()
    assert found == ([expected[2], *expected[:2]] if shape == "slice" else expected)


class _Stream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def test_other_data_is_a_type_error(spark: SparkSession) -> None:
    import dask.dataframe as dd

    with pytest.raises(TypeError, match="int"):
        dataframe(spark, [1, 2])
    with pytest.raises(TypeError, match=r"a Dask collection has no rows .* pass data\.compute\(\)"):
        dataframe(spark, dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1))


def test_computed_dask_frames_are_taken_without_their_row_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = {"id": [1, 2, 3], "s": [{"a": [1]}, None, {"a": None}], "k": ["x", None, "z"]}
    ds = lancecy.write_dataset(rows, tmp_path / "t")
    found = lancecy.scan(ds).query("id != 2").compute()
    frame = dataframe(spark, found)
    assert frame.toArrow().to_pylist() == [row for row in ds.to_table().to_pylist() if row["id"] != 2]
    assert dataframe(spark, found.set_index("id")).columns == ["s", "k", "id"]


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_frames_of_spark_are_rows_with_instants_in_utc(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    given = every_type(40).drop_columns(list(NOT_STORED))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = dataframe(spark, given, truncate_nanoseconds=True)
        ds = lancecy.write_dataset(frame, tmp_path / "t", data_storage_version="2.2")
        ds.append(frame.limit(0))
        expected = frame.toArrow()
        merged = ds.merge_insert("row").when_matched_update_all().execute(frame.where("row < 5"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert merged["num_updated_rows"] == 5
    assert ds.schema.field("timestamp_ny").type == pa.timestamp("us", "UTC")
    found = lancecy.dataset(ds.uri).to_table().sort_by("row")
    for name in expected.column_names:
        assert _seen(found[name]) == _seen(expected[name]), name
    read = lancecy.spark.read(spark, ds, columns=["row", "timestamp_ny"])
    assert lancecy.write_dataset(read, tmp_path / "u").count_rows() == 40


@pytest.mark.parametrize("rows", [0, 1])
def test_small_tables_keep_rows_and_columns(spark: SparkSession, rows: int) -> None:
    given = pa.table({"a": pa.array([7] * rows, pa.uint8()), "b.c": pa.array(["x"] * rows)})
    frame = dataframe(spark, given)
    assert frame.columns == ["a", "b.c"]
    assert frame.count() == rows


def test_large_table_has_three_partitions_per_core(spark: SparkSession) -> None:
    # Above 48 MB Spark makes a partition of every record batch: these are 500 small ones.
    numbers = np.arange(7_000_000)
    given = pa.table({"n": pa.chunked_array(np.array_split(numbers, 500))})
    frame = dataframe(spark, given)
    assert frame.rdd.getNumPartitions() == 3 * spark.sparkContext.defaultParallelism
    assert frame.selectExpr("sum(n)").collect()[0][0] == int(numbers.sum())
    assert dataframe(spark, given, num_partitions=4).rdd.getNumPartitions() == 4


@pytest.mark.parametrize("before", [None, "777"])
def test_configuration_is_as_before(spark: SparkSession, before: str | None) -> None:
    if before is not None:
        spark.conf.set(BATCH_ROWS, before)
    try:
        dataframe(spark, pa.table({"a": [1]}))
        with pytest.raises(UnsupportedError):
            dataframe(spark, pa.table({"a": pa.array([1], pa.timestamp("ns"))}))
        assert spark.conf.get(BATCH_ROWS, None) == before
    finally:
        spark.conf.unset(BATCH_ROWS)


def test_large_var_types_setting_changes_nothing(spark: SparkSession) -> None:
    given = pa.table({"s": ["a", None], "l": [["b"], None]})
    with _setting(spark, "spark.sql.execution.arrow.useLargeVarTypes", "true"):
        assert dataframe(spark, given).toArrow().to_pylist() == given.to_pylist()


def test_names_are_reached_from_the_package() -> None:
    assert lancecy.spark.dataframe is dataframe
    assert set(lancecy.spark.__all__) <= set(dir(lancecy.spark))
    with pytest.raises(AttributeError, match="datafrane"):
        lancecy.spark.datafrane  # noqa: B018
