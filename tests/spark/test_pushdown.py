"""Aggregates of ``lancecy.spark.read``: what Spark alone says, from fewer rows."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import TruncatedError, UnsupportedError
from lancecy.spark.aggregates import Aggregate
from lancecy.spark.frames import _setting, read
from tests.helpers.tables import all_types, all_types_table, random_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 4000


def _plain(frame: DataFrame) -> DataFrame:
    """The same plan as a frame of Spark's own class."""
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    return Classic(frame._jdf, frame.sparkSession)


def _run(frame: DataFrame) -> DataFrame:
    """The frame whose plan runs when rows of this one are asked for."""
    choose = getattr(frame, "_LanceAggregate__run", None)
    return frame if choose is None else choose()


def _is_begun_by_executors(frame: DataFrame) -> bool:
    return "AggregateReader" in _run(frame)._jdf.queryExecution().toString()


def _close(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        same_sign = math.copysign(1, found) == math.copysign(1, expected)
        return same_sign and math.isclose(found, expected, rel_tol=1e-12)
    return bool(found == expected)


def _assert_same(found: DataFrame, expected: DataFrame) -> None:
    assert found.schema.json() == expected.schema.json()
    mine, theirs = found.collect(), expected.collect()
    assert len(mine) == len(theirs) == 1
    for name, a, b in zip(found.columns, mine[0], theirs[0], strict=True):
        assert _close(a, b), (name, a, b)
    assert mine[0].__fields__ == theirs[0].__fields__


@pytest.fixture(scope="module")
def table() -> pa.Table:
    dice = np.random.default_rng(5)
    n = np.arange(ROWS)
    holes = dice.random(ROWS) < 0.2
    return pa.table(
        {
            "id": pa.array(n),
            "x": pa.array(dice.standard_normal(ROWS)),
            "nan": pa.array(np.where(n % 97 == 0, np.nan, n * 0.5)),
            "small": pa.array(n.astype(np.float32), mask=holes),
            "k": pa.array((n % 1000 - 300).astype(np.int32), mask=holes),
            "u": pa.array(n.astype(np.uint64)),
            "b": pa.array((n % 100).astype(np.int8)),
            "word": pa.array([f"w{v:05}" if v % 3 else None for v in n]),
            "price": pa.array([Decimal(int(v)) for v in n], pa.decimal128(12, 0)),
            "l": pa.array([[int(v)] for v in n]),
            "Upper": pa.array(n),
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> str:
    """Three fragments; rows of the second deleted."""
    place = str(tmp_path_factory.mktemp("aggregates") / "t.lance")
    ds = lancecy.write_dataset(table, place, max_rows_per_file=1500)
    ds.delete("id >= 2000 AND id < 2300")
    return place


@pytest.fixture
def frame(spark: SparkSession, path: str) -> DataFrame:
    return read(spark, path)


def test_aggregates_are_what_spark_alone_says(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    wanted = [f.count("*"), f.count(f.lit(7)), f.count("l"), f.count("word"), f.max("word"), f.min("price")]
    for name in ("id", "x", "nan", "small", "k", "b"):
        wanted += [f.sum(name), f.avg(name), f.min(name), f.max(name), f.count(name)]
    found = frame.agg(*wanted)
    assert _is_begun_by_executors(found)
    _assert_same(found, _plain(frame).agg(*wanted))


def test_each_type_has_its_extremes_and_its_count(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    types = {name: kind for name, kind in all_types().items() if "null" not in name and name != "decimal256"}
    names = list(types)
    held = all_types_table(500, nulls=0.2, types=types)
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(held, place, max_rows_per_file=200)
    frame = read(spark, place, truncate_nanoseconds=True)
    flat = [name for name in names if not pa.types.is_nested(types[name])]
    zone = _setting(spark, "spark.sql.session.timeZone", "America/New_York")
    with zone, _setting(spark, "spark.sql.timeType.enabled", "true"):
        for some in (flat[::2], flat[1::2]):
            wanted = [g(name) for name in some for g in (f.min, f.max, f.count)]
            found = frame.agg(*wanted)
            assert _is_begun_by_executors(found)
            _assert_same(found, _plain(frame).agg(*wanted))
        counts = [f.count(name) for name in names]
        _assert_same(frame.agg(*counts), _plain(frame).agg(*counts))


def test_names_are_found_as_spark_finds_them(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    plain = _plain(frame)
    for wanted in (
        [f.sum("ID"), f.max(frame["k"]).alias("most"), f.min("`upper`").alias("a b`c")],
        [f.sum("id").alias("s", metadata={"unit": "m"}), f.mean(frame.x)],
        [{"id": "sum", "x": "avg", "*": "count"}],
    ):
        found = frame.agg(*wanted)
        assert _is_begun_by_executors(found)
        _assert_same(found, plain.agg(*wanted))
    assert found["sum(id)"] is not None
    assert found.select(found["sum(id)"] + 1).collect()[0][0] == plain.agg(f.sum("id")).collect()[0][0] + 1


def test_aggregates_of_selections_are_begun_there_too(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    plain = _plain(frame)
    cases = [
        (frame.select("x", "id").agg(f.sum("x")), plain.agg(f.sum("x"))),
        (frame[["k", "x"]].select("x").agg(f.max("x")), plain.agg(f.max("x"))),
        (frame.select(frame.id.alias("x"), "k").agg(f.max("k")), plain.agg(f.max("k"))),
        (frame.select(f.sum("id"), f.count("*")), plain.select(f.sum("id"), f.count("*"))),
        (frame.selectExpr("sum(id)", "max(x) AS m"), plain.selectExpr("sum(id)", "max(x) AS m")),
        (frame.selectExpr(["count(1)", "min(x)"]), plain.selectExpr(["count(1)", "min(x)"])),
    ]
    for found, expected in cases:
        assert _is_begun_by_executors(found)
        _assert_same(found, expected)


def test_what_executors_do_not_begin_is_left_to_spark(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    plain = _plain(frame)
    cases: list[Any] = [
        lambda t: t.agg(f.sum("id"), f.stddev("x")),
        lambda t: t.agg(f.count_distinct("k")),
        lambda t: t.agg(f.try_sum("id")),
        lambda t: t.agg(f.try_avg("x")),
        lambda t: t.agg(f.sum(f.col("k") + 1)),
        lambda t: t.agg(f.sum("id") + 1),
        lambda t: t.agg(f.sum("price")),
        lambda t: t.agg(f.sum("u"), f.avg("u")),
        lambda t: t.agg(f.max("l")),
        lambda t: t.agg(f.expr("count(id, k)")),
        lambda t: t.agg(f.expr("sum(id) FILTER (WHERE k > 3)")),
        lambda t: t.agg(f.expr("count(NULL)")),
        lambda t: t.agg(f.sum(f.lit(1))),
        lambda t: t.agg(f.max(f.lit("a"))),
        lambda t: t.agg(f.count_if(t.k > 3)),
        lambda t: t.select((f.col("id") * 2).alias("id")).agg(f.sum("id")),
        lambda t: t.select(t.k.alias("x")).agg(f.sum("x")),
        lambda t: t.select(f.explode("l").alias("e"), "id").agg(f.sum("id"), f.count("*")),
        lambda t: t.select("id").distinct().agg(f.sum("id")),
        lambda t: t.where("k > 3").agg(f.sum("id"), f.count("*")),
        lambda t: t.limit(7).agg(f.count("*")),
        lambda t: t.union(t).agg(f.sum("id")),
        lambda t: t.join(t.select("id"), "id").agg(f.count("*")),
        lambda t: t.select(f.sum("x").over(_window()).alias("x")).agg(f.max("x")),
        lambda t: t.agg(f.lit(1).alias("one")),
        lambda t: t.groupBy().agg(f.sum("id")),
    ]
    for number, make in enumerate(cases):
        found = make(frame)
        assert not _is_begun_by_executors(found), number
        _assert_same(found, make(plain))
    groups = frame.groupBy("b").agg(f.sum("id").alias("s")).orderBy("b")
    assert groups.collect() == plain.groupBy("b").agg(f.sum("id").alias("s")).orderBy("b").collect()
    assert frame.groupBy(frame.b).count().where(frame.b > 3).count() == 96


def _window() -> Any:
    from pyspark.sql import Window

    return Window.partitionBy("b")


def test_what_comes_on_top_of_an_aggregate_is_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    """Conditions and orders may speak of columns and aggregates that are not in the result."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(pa.table({"x": [1, 2, 3], "k": [4, 5, 6], "p0": [100, 200, 300]}), place)
    frame = read(spark, place)
    makers: list[Any] = [
        lambda t: t.agg(f.sum("x").alias("s")),
        lambda t: t.agg(f.count("*").alias("s")),
        lambda t: t.select(f.max("k").alias("s")),
        lambda t: t.selectExpr("avg(x) AS s"),
    ]
    uses: list[Any] = [
        lambda a: a.where(f.sum("p0") > 100),
        lambda a: a.where(f.max("p0") < 100),
        lambda a: a.where(f.sum("x") > 3),
        lambda a: a.filter("sum(k) > 3"),
        lambda a: a.filter("max(k) = 6 AND s > 0"),
        lambda a: a.where("s > 4"),
        lambda a: a.where("id >= 0"),
        lambda a: a.where(frame.k > 1),
        lambda a: a.orderBy(f.sum("k")),
        lambda a: a.orderBy("id"),
        lambda a: a.sort("s"),
        lambda a: a.select("s"),
        lambda a: a.select(a.s + 1, a["s"].alias("p0")),
        lambda a: a.select(f.sum("s")),
        lambda a: a.agg(f.max("s")),
        lambda a: a.withColumn("p0", f.col("s") * 2),
        lambda a: a.withColumnRenamed("s", "x"),
        lambda a: a.toDF("x"),
        lambda a: a.drop("s").withColumn("one", f.lit(1)),
        lambda a: a.union(a),
        lambda a: a.crossJoin(frame.select("k")),
        lambda a: a.join(a.select(f.col("s").alias("t")), f.col("s") == f.col("t")),
        lambda a: frame.crossJoin(a).where("x < s"),
        lambda a: a.limit(0),
        lambda a: a.distinct(),
        lambda a: a.groupBy("s").count(),
        lambda a: a.cache(),
        lambda a: a.unpersist(),
    ]

    def seen(made: Any) -> Any:
        try:
            found = made()
            return found.schema.json(), sorted(map(tuple, found.collect()))
        except PySparkException as error:
            return type(error), error.getCondition()

    for make in makers:
        for number, use in enumerate(uses):
            mine, plain = (seen(lambda t=t, use=use, make=make: use(make(t))) for t in (frame, _plain(frame)))
            assert mine == plain, number


@pytest.mark.filterwarnings("ignore:The copy keyword:DeprecationWarning")
def test_rows_of_an_aggregate_are_the_same_by_every_way(
    frame: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql import functions as f

    found, plain = (t.agg(f.sum("id"), f.max("word").alias("m")) for t in (frame, _plain(frame)))
    assert type(found).__name__ == "LanceAggregate"
    for ask in (
        lambda t: t.collect(),
        lambda t: t.first(),
        lambda t: t.head(),
        lambda t: t.head(2),
        lambda t: t.take(0),
        lambda t: t.tail(1),
        lambda t: list(t.toLocalIterator()),
        lambda t: t.toPandas().to_dict(),
        lambda t: t.count(),
        lambda t: t.isEmpty(),
        lambda t: t.schema.json(),
        lambda t: t.columns,
        repr,
        lambda t: t.rdd.collect(),
        lambda t: (t.show(), t.show(1, False, True), capsys.readouterr().out),
    ):
        assert ask(found) == ask(plain)
    with _setting(found.sparkSession, "spark.sql.repl.eagerEval.enabled", "true"):
        assert repr(found) == repr(plain)
        assert found._repr_html_() == plain._repr_html_() is not None
    arrow = found.toArrow()
    assert arrow.equals(plain.toArrow(), check_metadata=True)
    found.explain()
    assert "AggregateReader" in capsys.readouterr().out
    found.explain(mode="formatted")
    assert "AggregateReader" in capsys.readouterr().out


def test_no_column_is_hidden_by_what_the_frame_knows(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t.lance")
    names = ["lance_scan", "_lineage", "_scan", "scan", "lineage", "_run", "id", "p0"]
    lancecy.write_dataset(pa.table({name: range(3) for name in names}), place)
    frame = read(spark, place)
    for name in names:
        assert frame.where(getattr(frame, name) > 0).count() == 2
        assert frame.agg({name: "sum"}).where(f"`sum({name})` = 3").count() == 1


def test_nothing_of_the_storage_options_is_shown(spark: SparkSession, path: str) -> None:
    frame = read(spark, path, storage_options={"aws_secret_access_key": "TOPSECRET"}, embed_credentials=True)
    found = frame.agg({"id": "sum"})
    for shown in (
        repr(frame),
        repr(vars(frame)),
        repr(found),
        repr(vars(found)),
        _run(found)._jdf.queryExecution().toString(),
    ):
        assert "TOPSECRET" not in shown


def test_functions_of_the_session_are_not_taken_for_sparks(
    spark: SparkSession, frame: DataFrame, path: str
) -> None:
    """A session may have a function called sum, and may look there first."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import DoubleType, LongType

    names = {
        "sum": LongType(),
        "coalesce": LongType(),
        "try_divide": DoubleType(),
        "min": LongType(),
        "max": LongType(),
    }
    for name, kind in names.items():
        spark.udf.register(name, lambda *_: -5, kind)
    few = read(spark, path, filter="id > 50")
    try:
        with _setting(spark, "spark.sql.functionResolution.sessionOrder", "first"):
            wanted = [f.count("k"), f.avg("x")]
            found = frame.agg(*wanted)
            assert _is_begun_by_executors(found)
            _assert_same(found, _plain(frame).agg(*wanted))
            assert few.count() == _plain(few).count() > 0
            assert not _is_begun_by_executors(frame.select(f.sum("id"))), "this sum is the session's"
    finally:
        for name in names:
            with contextlib.suppress(PySparkException):
                spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


def test_very_many_aggregates_are_left_to_spark(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    wanted = [f.sum("id").alias(f"s{i}") for i in range(129)]
    assert _is_begun_by_executors(frame.agg(*wanted[:-1]))
    found = frame.agg(*wanted)
    assert not _is_begun_by_executors(found)
    assert set(found.collect()[0]) == set(frame.agg(*wanted[:-1]).collect()[0])


@pytest.mark.parametrize("release", ["4.1.9", "4.0.0.dev1", "latest"])
def test_older_releases_of_spark_work_aggregates_out_themselves(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    """They have no way to name their own sum where the session has another."""
    monkeypatch.setattr("pyspark.__version__", release)
    assert not _is_begun_by_executors(frame.agg({"id": "sum"}))
    assert type(frame.select("id")) is type(frame)
    assert frame.count() == ROWS - 300


@pytest.mark.parametrize("said", ["string(sum({}))", "no_such_function({})", "sum({}) +"])
def test_plans_that_come_out_otherwise_are_left_to_spark(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(Aggregate, "merged", lambda _, name: said.format(name))
    found = frame.agg({"id": "sum"})
    monkeypatch.undo()
    assert not _is_begun_by_executors(found)
    assert found.collect() == _plain(frame).agg({"id": "sum"}).collect()


def test_errors_are_sparks_own(frame: DataFrame) -> None:
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import functions as f

    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        frame.agg(f.sum("missing"))
    with pytest.raises(AnalysisException, match="DATATYPE_MISMATCH"):
        frame.agg(f.sum("l"))
    with pytest.raises((PySparkException, AssertionError)):
        frame.agg()


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_overflow_as_the_session_says(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    most = (1 << 63) - 1
    places = {
        "one": [most, 1, 5],
        "far": [most] * 50,
        "low": [-most] * 3 + [-7],
        "fits": [most, -most, 3],
        "passes": [most, 1, -5],
    }
    with _setting(spark, "spark.sql.ansi.enabled", ansi):
        for name, values in places.items():
            place = str(tmp_path / name)
            lancecy.write_dataset(pa.table({"n": pa.array(values)}), place)
            frame = read(spark, place)
            found, expected = frame.agg(f.sum("n"), f.avg("n")), _plain(frame).agg(f.sum("n"), f.avg("n"))
            assert _is_begun_by_executors(found)
            if ansi == "true" and name == "passes":
                # The sum fits; Spark alone fails on the way to it, in this order of the rows.
                assert found.collect()[0][0] == most - 4
            elif ansi == "true" and name != "fits":
                for either in (found, expected):
                    with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
                        either.collect()
            else:
                _assert_same(found, expected)


@pytest.mark.parametrize("condition", [None, "id % 7 = 3", "k > 5", "id < 0", "id >= 2100 AND id < 2200"])
def test_count_is_that_of_the_rows(spark: SparkSession, path: str, condition: str | None) -> None:
    frame = read(spark, path, filter=condition)
    expected = lancecy.dataset(path).count_rows(condition)
    assert frame.count() == frame.select("x").count() == _plain(frame).count() == expected
    assert frame.agg({"*": "count"}).collect()[0][0] == expected
    assert frame.select("word", "l").where("id >= 0 OR id < 0").count() == expected


def test_empty_scans_have_null_sums_and_no_rows(spark: SparkSession, path: str) -> None:
    from pyspark.sql import functions as f

    frame = read(spark, path, filter="id < 0")
    wanted = [f.sum("id"), f.avg("x"), f.max("word"), f.count("k"), f.count("*")]
    found = frame.agg(*wanted)
    _assert_same(found, _plain(frame).agg(*wanted))
    assert tuple(found.collect()[0]) == (None, None, None, 0, 0)


def test_count_without_a_filter_runs_no_job(spark: SparkSession, frame: DataFrame) -> None:
    context = spark.sparkContext
    context.setJobGroup("counting", "")
    try:
        assert frame.count() == ROWS - 300
        assert list(context.statusTracker().getJobIdsForGroup("counting")) == []
        assert _plain(frame).count() == ROWS - 300
        assert list(context.statusTracker().getJobIdsForGroup("counting")) != []
    finally:
        context.setJobGroup("", "")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Enough rows that metadata is asked for nulls; of the columns, one is declared to hold none, one holds some."""
    rows = 120_000
    n = np.arange(rows)
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("x", pa.float64()),
            ("word", pa.string()),
            ("gaps", pa.int32()),
        ]
    )
    held = pa.table(
        [n, n * 0.25, [f"w{v}" for v in n], pa.array(n.astype(np.int32), mask=n % 9 == 4)], schema=schema
    )
    place = str(tmp_path_factory.mktemp("large") / "t.lance")
    lancecy.write_dataset(held, place)
    return place


def test_counts_of_columns_without_nulls_read_nothing(spark: SparkSession, large: str) -> None:
    from pyspark.sql import functions as f

    frame = read(spark, large)
    wanted = [f.count("*").alias("a"), f.count("id"), f.count("x"), f.count("word")]
    found = frame.agg(*wanted)
    assert "MapInArrow" not in _run(found)._jdf.queryExecution().toString()
    assert tuple(found.collect()[0]) == (120_000,) * 4
    _assert_same(found, _plain(frame).agg(*wanted))
    other = frame.agg(f.count("gaps"))
    assert _is_begun_by_executors(other)
    _assert_same(other, _plain(frame).agg(f.count("gaps")))


def test_columns_promised_to_hold_no_null_are_aggregated(spark: SparkSession, large: str) -> None:
    """Above the scan is a projection which declares them nullable again."""
    from pyspark.sql import functions as f

    for condition in (None, "id % 5 = 2", "id < 0"):
        frame = read(spark, large, filter=condition)
        assert "CASE WHEN false" in frame._jdf.queryExecution().analyzed().toString()
        wanted = [g(name) for name in ("id", "x", "gaps") for g in (f.sum, f.avg, f.min, f.max, f.count)]
        wanted += [f.max("word"), f.count("word")]
        found = frame.agg(*wanted)
        assert _is_begun_by_executors(found)
        _assert_same(found, _plain(frame).agg(*wanted))


def test_what_metadata_promises_is_held_against_the_rows(spark: SparkSession, large: str) -> None:
    scan = vars(read(spark, large))["_LanceDataFrame__scan"]
    target = scan._reader([Aggregate("sum", "x"), Aggregate("max", "gaps")]).reader.converter.target
    assert [(to.name, to.nullable) for to in target] == [("x", False), ("gaps", True)]


def test_only_what_is_asked_for_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """The other column holds what Spark cannot."""
    from pyspark.errors import PythonException
    from pyspark.sql import functions as f

    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(pa.table({"a": range(10), "t": pa.array(range(10), pa.timestamp("ns"))}), place)
    frame = read(spark, place)
    assert frame.agg(f.sum("a")).collect()[0][0] == 45
    with pytest.raises(PythonException, match="column 't'"):
        frame.agg(f.max("t")).collect()


def test_damage_is_told_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PythonException
    from pyspark.sql import functions as f

    place = tmp_path / "t.lance"
    lancecy.write_dataset(pa.table({"a": range(10)}), place)
    frame = read(spark, str(place))
    (file,) = (place / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-60])
    with pytest.raises(PythonException, match=TruncatedError.__name__):
        frame.agg(f.sum("a")).collect()


def test_frames_in_the_cache_are_read_from_there(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(pa.table({"a": range(10), "b": range(10)}), place)
    frame = read(spark, place)
    middle = frame.select("a")
    last = middle.select("a")
    before = last.agg(f.sum("a"))
    for held in (frame, middle):
        held.cache()
        try:
            assert not _is_begun_by_executors(held.agg(f.sum("a")))
            assert not _is_begun_by_executors(last.agg(f.sum("a")))
            assert not _is_begun_by_executors(before)
            assert before.collect()[0][0] == 45
            assert held.count() == 10
            assert "InMemoryRelation" in last._jdf.queryExecution().withCachedData().toString()
        finally:
            held.unpersist()
    assert _is_begun_by_executors(before)
    before.cache()
    assert not _is_begun_by_executors(before)
    before.unpersist()
    assert _is_begun_by_executors(last.agg(f.sum("a")))
    frame.createOrReplaceTempView("held")
    spark.sql("CACHE TABLE held")
    try:
        assert not _is_begun_by_executors(frame.agg(f.sum("a")))
    finally:
        spark.sql("UNCACHE TABLE held")


def test_computed_and_system_columns_are_aggregated(spark: SparkSession, path: str) -> None:
    from pyspark.sql import functions as f

    frame = read(
        spark, path, columns={"double": "id * 2", "word": "word"}, with_row_id=True, filter="id > 10"
    )
    wanted = [f.sum("double"), f.max("_rowid"), f.count("word"), f.min("word")]
    found = frame.agg(*wanted)
    assert _is_begun_by_executors(found)
    _assert_same(found, _plain(frame).agg(*wanted))


def test_other_methods_give_sparks_own_frames(frame: DataFrame) -> None:
    from lancecy.spark.pushdown import LanceDataFrame

    assert type(frame) is LanceDataFrame
    assert type(frame.select("id")) is LanceDataFrame
    for other in (
        frame.where("id > 1"),
        frame.limit(1),
        frame.distinct(),
        frame.alias("t"),
        frame.groupBy().count(),
    ):
        assert type(other) is not LanceDataFrame
    assert frame.select("id").filter(frame.id < 3).select(frame.id).count() == 3
    assert frame.select("*").toArrow().num_rows == ROWS - 300


def test_aggregates_can_be_used_again_and_together(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    found = frame.agg(f.sum("id").alias("s"))
    total = found.collect()[0][0]
    assert found.union(found).agg(f.sum("s")).collect()[0][0] == 2 * total
    assert found.crossJoin(frame.select("id").limit(3)).count() == 3
    assert found.collect()[0][0] == total


class _Output(str):
    """Java's way to say the text of an object."""

    __slots__ = ()

    def toString(self) -> str:
        return str(self)


def test_what_spark_does_not_tell_is_left_to_it(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as f

    from lancecy.spark.pushdown import _numbered

    expected = _plain(frame).agg(f.sum("id")).collect()
    known = json.loads
    for said in ("[]", "[{}]", "{", '[{"class": 1}, {}, {}, {}]', "[[], 1, 2, 3]", "null"):
        monkeypatch.setattr("lancecy.spark.pushdown.json.loads", lambda _, said=said: known(said))
        found = frame.agg(f.sum("id"))
        monkeypatch.undo()
        assert not _is_begun_by_executors(found)
        assert found.collect() == expected
    for given, attributes in (
        (["id"], "List(x#1)"),
        (["a", "b"], "List(a#1)"),
        (["a"], "a#1"),
        (["a.c"], "List(abc#1)"),
    ):
        with pytest.raises(ValueError, match="attributes"):
            _numbered(given, _Output(attributes))
    assert _numbered(["a b", "c#7)", "d\n"], _Output("ArraySeq(a b#3, c#7)#4L, d\n#5)")) == {
        3: "a b",
        4: "c#7)",
        5: "d\n",
    }


def test_random_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    functions = [f.sum, f.avg, f.min, f.max, f.count]
    for seed in range(6):
        dice = random.Random(seed)
        rows = dice.choice([1, 7, 3000])
        types = [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()]
        names = [f"c{i}" for i in range(5)]
        kinds = [dice.choice(types) for _ in names]
        values = np.random.default_rng(seed)
        held = pa.table(
            {n: random_array(k, rows, values, nulls=0.2) for n, k in zip(names, kinds, strict=True)}
        )
        place = str(tmp_path / f"{seed}")
        lancecy.write_dataset(
            held, place, data_storage_version=dice.choice(["2.0", "2.1", "2.2"]), max_rows_per_file=1000
        )
        frame = read(spark, place, blocksize=dice.choice([None, 4000]))
        with _setting(spark, "spark.sql.ansi.enabled", "false"):
            for _ in range(4):
                chosen = []
                for _ in range(dice.randint(1, 5)):
                    at = dice.randrange(5)
                    allowed = functions[2:] if pa.types.is_string(kinds[at]) else functions
                    chosen.append(dice.choice(allowed)(names[at]))
                if dice.random() < 0.3:
                    chosen.append(f.count("*"))
                _assert_same(frame.agg(*chosen), _plain(frame).agg(*chosen))


@pytest.fixture
def timed(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    """A frame with times of day, in a session whose setting for them is the default."""
    import datetime as dt

    clocks = pa.array([dt.time(1), dt.time(2), None], pa.time64("us"))
    nested = pa.StructArray.from_arrays([clocks], ["at"])
    lancecy.write_dataset({"id": [1, 1, 2], "open": clocks, "s": nested}, tmp_path / "t.lance")
    with _setting(spark, "spark.sql.timeType.enabled", "false"):
        yield read(spark, tmp_path / "t.lance")


def test_refused_times_are_named_with_the_remedy(timed: DataFrame) -> None:
    refused: dict[str, Callable[[], Any]] = {
        "agg": lambda: timed.agg({"id": "max"}),
        "group": lambda: timed.groupBy("id").count(),
        "aggregate of groups": lambda: timed.groupby("id").agg({"id": "max"}),
        "sums": lambda: timed.groupBy("id").sum("id"),
        "rollup": lambda: timed.rollup("id").avg("id"),
        "cube": lambda: timed.cube("id").max(),
        "pivot": lambda: timed.groupBy("id").pivot("id", [1]).min("id"),
        "cache": lambda: timed.cache().count(),
        "selected": lambda: timed.select("open", "id").groupBy("id").mean(),
    }
    for name, call in refused.items():
        with pytest.raises(UnsupportedError, match=r"times of day \('open'") as raised:
            call()
        assert ("'s.at'" in str(raised.value)) == (name != "selected")
        assert 'spark.conf.set("spark.sql.timeType.enabled", "true")' in str(raised.value)
        assert "columns={'open': 'CAST(open AS string)'}" in str(raised.value)
    timed.unpersist()


def test_remedies_for_times_work(spark: SparkSession, timed: DataFrame, tmp_path: Path) -> None:
    assert timed.select("id").groupBy("id").count().count() == 2
    assert len(timed.collect()) == 3
    cast = read(spark, tmp_path / "t.lance", columns={"id": "id", "open": "CAST(open AS string)"})
    found = {row["id"]: row["max(open)"] for row in cast.groupBy("id").agg({"open": "max"}).collect()}
    assert found == {1: "02:00:00", 2: None}
    with _setting(spark, "spark.sql.timeType.enabled", "true"):
        assert timed.groupBy("id").count().count() == 2
        assert timed.agg({"id": "max"}).collect()[0][0] == 2


def test_other_mistakes_in_groups_stay_those_of_spark(frame: DataFrame) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="nothing"):
        frame.groupBy("nothing").count()
