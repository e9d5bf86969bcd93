"""``spark.read.format("lancecy")``: found by itself, exact in types, right when a frame is used again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.spark.frames import read
from tests.golden.make_broken import MIGRATED, SAME_IDS
from tests.interop.live import append, mixed_table, peer, write
from tests.spark.values import SPARK_TYPES, as_seen, every_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop]

ROWS = 3000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# No file version stores these; `tests/spark/test_frames.py` sends them from memory.
NOT_STORED = {"list_view", "large_list_view", "runs", "decimal32", "empty_struct", "dictionary_of_list"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments, 500 rows of the second deleted."""
    place = str(tmp_path_factory.mktemp("source") / "t.lance")
    write(mixed_table(ROWS), place, max_rows_per_file=1000, data_storage_version="2.2")
    peer(place).delete("id >= 1200 AND id < 1700")
    return place


@pytest.fixture(scope="module")
def expected(path: str) -> pa.Table:
    table: pa.Table = peer(path).to_table()
    return table.sort_by("id")


def _load(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("lancecy").options(**options).load(str(path))


def _told(call: Callable[[], Any]) -> str:
    """What Spark says about a read that fails."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        call()
    return str(raised.value)


# -- reading -----------------------------------------------------------------------------------------------


def test_whole_table_arrives(spark: SparkSession, path: str, expected: pa.Table) -> None:
    found = _load(spark, path).toArrow().sort_by("id")
    assert found.column_names == expected.column_names
    assert as_seen(found.to_pylist()) == as_seen(expected.to_pylist())


def test_table_without_rows_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    write(mixed_table(0).select(["id", "vector"]), tmp_path / "t.lance")
    frame = _load(spark, tmp_path / "t.lance")
    assert (frame.columns, frame.count()) == (["id", "vector"], 0)


def test_sql_views(spark: SparkSession, path: str, expected: pa.Table) -> None:
    options = f"""path "{path}", columns "id, k", filter "k < 7", batch_size "100", version "2" """
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW few USING lancecy OPTIONS ({options})")
    spark.sql(f'CREATE OR REPLACE TEMPORARY VIEW whole USING lancecy OPTIONS (path "{path}")')
    rows = expected.to_pylist()
    few = [row for row in rows if row["k"] < 7]
    assert spark.sql("SELECT count(*), sum(id) FROM few").first() == (len(few), sum(row["id"] for row in few))
    joined = "SELECT count(*) FROM few JOIN whole USING (id) WHERE id > 500"
    assert spark.sql(joined).first() == (sum(row["id"] > 500 for row in few),)


def test_version_is_settled_when_a_frame_or_view_is_made(spark: SparkSession, tmp_path: Path) -> None:
    rows, place = mixed_table(30).select(["id", "x"]), tmp_path / "t.lance"
    write(rows, place)
    frame = _load(spark, place)
    spark.sql(f'CREATE OR REPLACE TEMPORARY VIEW before USING lancecy OPTIONS (path "{place}")')
    append(rows, place)
    assert [frame.count(), spark.table("before").count()] == [30, 30]
    assert [_load(spark, place).count(), _load(spark, place, version=1).count()] == [60, 30]


# -- types -------------------------------------------------------------------------------------------------


def test_every_type_arrives_right_from_storage(spark: SparkSession, tmp_path: Path) -> None:
    table = every_type(40)
    table = table.select([name for name in table.column_names if name not in NOT_STORED]).combine_chunks()
    write(table, tmp_path / "t.lance", data_storage_version="2.2")
    types = {**{name: kind for name, kind in SPARK_TYPES.items() if name not in NOT_STORED}, "row": "bigint"}
    for frame in (
        read(spark, tmp_path / "t.lance", truncate_nanoseconds=True),
        _load(spark, tmp_path / "t.lance", truncate_nanoseconds=True),
    ):
        assert {f.name: f.dataType.simpleString() for f in frame.schema} == types
        # Sorting moves the values through Spark's own row format.
        found = frame.orderBy("row").toArrow()
        seen = {name: [as_seen(v) for v in found[name].to_pylist()] for name in table.column_names}
        wrong = [name for name in seen if seen[name] != [as_seen(v) for v in table[name].to_pylist()]]
        assert wrong == []


# -- used again --------------------------------------------------------------------------------------------


@pytest.fixture
def ten(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    """Ten rows whose ``a`` is 0 to 9, with the setting on under which Spark 4.3 mixes up pushed filters."""
    write(pa.table({"a": np.arange(10), "b": np.arange(10)}), tmp_path / "t.lance")
    spark.conf.set(PUSHDOWN, "true")
    try:
        yield _load(spark, tmp_path / "t.lance")
    finally:
        spark.conf.unset(PUSHDOWN)


def test_frame_is_right_when_it_is_used_again(spark: SparkSession, ten: DataFrame) -> None:
    # With filters pushed into a Python data source, Spark 4.3 answers 10, 2, 2, 2, 10 and 4.
    assert [ten.count(), ten.filter("a > 7").count(), ten.count()] == [10, 2, 10]
    assert ten.filter("a > 7 OR a < 2").count() == 4
    assert ten.filter("a > 7").join(ten, "b").count() == 2
    assert ten.filter("a > 7").union(ten).count() == 12
    ten.createOrReplaceTempView("ten")
    counts = [spark.sql(f"SELECT * FROM ten {where}").count() for where in ("WHERE a > 7", "")]
    assert counts == [2, 10]


def test_frames_with_filters_of_their_own_are_kept_apart(
    spark: SparkSession, path: str, expected: pa.Table
) -> None:
    some, whole = _load(spark, path, filter="k < 7"), _load(spark, path)
    few = sum(k < 7 for k in expected["k"].to_pylist())
    assert whole.union(some).count() == 2500 + few
    assert some.join(whole, "id").count() == few


# -- errors ------------------------------------------------------------------------------------------------


def test_wrong_option_is_told_when_the_frame_is_made(spark: SparkSession, path: str) -> None:
    told = _told(lambda: _load(spark, path, filtre="k < 7"))
    assert (
        "no option 'filtre'; did you mean 'filter'? Its options are allowed_bases, asof, batch_size" in told
    )


def test_missing_table_and_missing_path_are_told_when_the_frame_is_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert "DatasetNotFoundError: " in _told(lambda: _load(spark, tmp_path / "none.lance"))
    assert "say which with .load(path)" in _told(lambda: spark.read.format("lancecy").load())


def test_damage_is_told_by_the_executor_that_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "t.lance"
    write(mixed_table(2000).select(["id", "word"]), place, data_storage_version="2.2")
    frames = [read(spark, place), _load(spark, place)]
    (file,) = (place / "data").glob("*.lance")
    file.write_bytes(file.read_bytes()[:-30])
    for frame in frames:
        told = _told(frame.collect)
        assert "lancecy.errors.TruncatedError: the file has " in told
        assert f"(in data/{file.name} of fragment 0)" in told


def test_executor_without_lancecy_is_told_what_to_set(
    spark: SparkSession, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, package = tmp_path / "python", tmp_path / "site" / "lancecy"
    launcher.write_text(
        f'#!/bin/sh\ncd / && PYTHONPATH={tmp_path}/site:$PYTHONPATH exec {sys.executable} "$@"\n'
    )
    launcher.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(launcher))
    other = spark.newSession()
    lancecy.spark.register(other)
    frame = _load(other, path, columns="id")
    # From here on Python processes are like those of a machine on which lancecy is not installed.
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not on this machine')\n")
    told = _told(frame.collect)
    assert f"Spark's Python worker {sys.executable} cannot import lancecy (not on this machine)" in told
    assert "Start Spark with PYSPARK_PYTHON (or spark.pyspark.python) set to a Python" in told


def test_missing_file_is_told_by_the_executor_as_it_is_here(spark: SparkSession, tmp_path: Path) -> None:
    disk = lancecy.DatasetBasePath(tmp_path / "disk2", name="disk2")
    ds = lancecy.write_dataset(
        {"id": range(100)}, tmp_path / "t.lance", initial_bases=[disk], target_bases=["disk2"]
    )
    frames = [read(spark, tmp_path / "t.lance"), _load(spark, tmp_path / "t.lance")]
    (tmp_path / "disk2").rename(tmp_path / "disk3")
    with pytest.raises(lancecy.errors.MissingFileError) as here:
        ds.to_table()
    for frame in frames:
        assert f"lancecy.errors.MissingFileError: {here.value}" in _told(frame.collect)


def test_time_is_taken_once_for_all_queries_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    import datetime as dt

    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    times = pa.array([now + dt.timedelta(hours=hours) for hours in (-2, -1, 1, 2)], pa.timestamp("us"))
    write(pa.table({"id": [0, 1, 2, 3], "t": times}), tmp_path / "t.lance")
    options = {"filter": "t < now()", "columns": '{"id": "id", "n": "current_timestamp"}'}
    for frame in (_load(spark, tmp_path / "t.lance", **options), _loaded_again(spark, tmp_path, options)):
        first, second = frame.toArrow().sort_by("id"), frame.toArrow().sort_by("id")
        assert first["id"].to_pylist() == [0, 1]
        assert first == second
        assert len(first["n"].unique()) == 1


def _loaded_again(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> DataFrame:
    """The same rows from ``read``, which plans in this process."""
    import json

    columns = json.loads(options["columns"])
    return read(spark, str(tmp_path / "t.lance"), columns=columns, filter=options["filter"])


def test_tables_of_the_catalog_are_refused_with_what_works_instead(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset({"id": [1, 2]}, place)
    told = _told(
        lambda: spark.sql(f"CREATE TABLE bare USING lancecy OPTIONS (path '{place}', filter 'id > 1')")
    )
    assert "lancecy.errors.UnsupportedError: CREATE TABLE … USING lancecy does not work" in told
    assert (
        "CREATE TEMPORARY VIEW name USING lancecy OPTIONS (path '…') reads it, and INSERT INTO name" in told
    )
    told = _told(
        lambda: spark.sql(f"CREATE TABLE made USING lancecy OPTIONS (path '{place}') AS SELECT 1 AS id")
    )
    assert "say which with .save(path). Spark keeps no path and no options of tables" in told
    # With columns Spark makes an entry in its catalog without asking.
    spark.sql(f"CREATE TABLE listed (id bigint) USING lancecy OPTIONS (path '{place}')")
    try:
        told = _told(lambda: spark.sql("SELECT * FROM listed").collect())
        assert "Spark keeps no path and no options of tables made by CREATE TABLE" in told
        spark.sql(f"INSERT INTO listed WITH (path '{place}') VALUES (3)")
        found = spark.sql(f"SELECT id FROM listed WITH (path '{place}', filter 'id > 1') ORDER BY id")
        assert [row.id for row in found.collect()] == [2, 3]
    finally:
        spark.sql("DROP TABLE listed")


def test_views_of_sql_read_and_append(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset({"id": [1, 2]}, place)
    spark.sql(f"CREATE TEMPORARY VIEW appended USING lancecy OPTIONS (path '{place}')")
    try:
        spark.sql("INSERT INTO appended VALUES (3)")
    finally:
        spark.catalog.dropTempView("appended")
    assert lancecy.dataset(place).to_table()["id"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("path", [MIGRATED, SAME_IDS], ids=lambda path: path.stem)
def test_tables_with_mistakes_of_old_writers_are_read(spark: SparkSession, path: Path) -> None:
    expected = sorted(lancecy.dataset(path).to_table()["id"].to_pylist())
    for frame in (read(spark, path), _load(spark, path)):
        assert sorted(row.id for row in frame.collect()) == expected
        assert frame.filter("id > 6").count() == sum(number > 6 for number in expected)


def test_a_stream_from_the_format_is_refused_with_the_remedy(spark: SparkSession, path: str) -> None:
    def run() -> None:
        stream = spark.readStream.format("lancecy").load(path)
        stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()

    told = _told(run)
    assert "UnsupportedError" in told and "lancecy.spark.changes" in told
