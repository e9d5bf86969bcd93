"""Spark frames become tables, by ``lancecy.spark.write`` and by the data source: exact, once, and without a trace if not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath
from lancecy.errors import ExistsError, SchemaError, UnsupportedError
from tests.changes.rows import data_files
from tests.helpers.buckets import spread_over_buckets
from tests.helpers.s3 import S3Server
from tests.spark.conftest import ROOT
from tests.spark.test_source import NOT_STORED, _load, _told
from tests.spark.values import as_seen, every_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 40
NOT_WRITTEN = {"json"}


def _save(frame: DataFrame, path: Path | str, mode: str = "append", **options: Any) -> None:
    frame.write.format("lancecy").options(**options).mode(mode).save(str(path))


def _by_spark(frame: DataFrame, path: Path | str, mode: Any = "append", **options: Any) -> None:
    lancecy.spark.write(frame, str(path), mode, **options)


def _bare(frame: DataFrame) -> DataFrame:
    """The same columns without a memory of what they were."""
    from pyspark.sql import functions as f

    return frame.select([f.col(f"`{name}`").alias(name, metadata={}) for name in frame.columns])


def _rows(path: Path, column: str = "id") -> list[Any]:
    return sorted(lancecy.dataset(path).to_table([column])[column].to_pylist())


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of every type."""
    table = every_type(ROWS)
    kept = [name for name in table.column_names if name not in NOT_STORED | NOT_WRITTEN]
    path = tmp_path_factory.mktemp("typed") / "t.lance"
    lancecy.write_dataset(table.select(kept), path, data_storage_version="2.2", max_rows_per_file=15)
    return path


# -- types ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [_save, _by_spark])
def test_every_type_goes_through_spark_and_back(
    spark: SparkSession, typed: Path, tmp_path: Path, door: Callable[..., None]
) -> None:
    wanted = lancecy.dataset(typed).to_table().sort_by("row")
    frame = lancecy.spark.read(spark, typed, truncate_nanoseconds=True)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        door(frame, tmp_path / "t", data_storage_version="2.2")
        door(_bare(frame), tmp_path / "t")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    ds = lancecy.dataset(tmp_path / "t")
    kinds = {f.name: f.type for f in wanted.schema}
    assert {f.name: f.type for f in ds.schema if f.type != kinds[f.name]} == {}
    assert ds.verify().is_ok
    for version in (2, 1):
        found = ds.checkout_version(version).to_table().sort_by("row")
        found = found.slice(0, ROWS) if version == 1 else found.take(list(range(1, 2 * ROWS, 2)))
        seen = {name: [as_seen(v) for v in found[name].to_pylist()] for name in wanted.column_names}
        wrong = [name for name in seen if seen[name] != [as_seen(v) for v in wanted[name].to_pylist()]]
        assert wrong == []


def test_columns_made_in_spark_have_sparks_types(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT id, named_struct('a', array(map('k', 1))) AS nested, null AS nothing, date'2024-02-29' AS day, "
        "timestamp'2024-02-29 12:00:00' AS at, X'00ff' AS raw, 1.5BD AS price FROM range(5)"
    )
    ds = lancecy.spark.write(frame, tmp_path / "t", data_storage_version="2.2")
    assert {f.name: str(f.type) for f in ds.schema} == {
        "id": "int64",
        "nested": "struct<a: list<item: map<string, int32>>>",
        "nothing": "null",
        "day": "date32[day]",
        "at": "timestamp[us, tz=UTC]",
        "raw": "binary",
        "price": "decimal128(2, 1)",
    }
    assert _load(spark, tmp_path / "t").orderBy("id").collect() == frame.orderBy("id").collect()


@pytest.mark.parametrize("door", [_save, _by_spark])
def test_lists_that_are_always_empty_are_lists_of_nulls(
    spark: SparkSession, tmp_path: Path, door: Callable[..., None]
) -> None:
    frame = spark.sql(
        "SELECT id, array() AS l, named_struct('a', array(array())) AS s, map('k', array()) AS m FROM range(3)"
    )
    door(frame, tmp_path / "t", data_storage_version="2.2")
    assert lancecy.dataset(tmp_path / "t").schema.field("l").type == pa.list_(pa.null())
    assert _load(spark, tmp_path / "t").orderBy("id").collect() == frame.orderBy("id").collect()
    with pytest.raises(
        Exception, match=r"column 'm' is map<void,void> in Spark, which Lance has no type for"
    ):
        door(spark.sql("SELECT map() AS m"), tmp_path / "m", data_storage_version="2.2")


# -- modes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [_save, _by_spark])
def test_text_of_a_json_column_stays_json(spark: SparkSession, tmp_path: Path, door: Any) -> None:
    path = tmp_path / "t.lance"
    lancecy.write_dataset(pa.table({"id": [1], "j": pa.array(['{"a":1}'], pa.json_())}), path)
    frame = lancecy.spark.read(spark, str(path))
    door(frame, path)
    assert lancecy.spark.merge(frame.selectExpr("id + 1 AS id", "j"), path, on="id")["num_inserted_rows"] == 1
    found = lancecy.dataset(path).to_table()
    assert found["j"].type == pa.json_()
    assert found["j"].to_pylist() == ['{"a":1}'] * 3


def test_new_columns_may_be_null_inside_where_spark_says_so(spark: SparkSession, tmp_path: Path) -> None:
    byte = pa.field("a", pa.uint8(), False)
    kinds = {"s": pa.struct([byte]), "l": pa.list_(byte.with_name("item")), "m": pa.map_(pa.string(), byte)}
    columns = pa.table({name: pa.array([None], kind) for name, kind in kinds.items()})
    lancecy.write_dataset(columns, tmp_path / "strict", data_storage_version="2.2")
    strict = lancecy.spark.read(spark, str(tmp_path / "strict"))
    none = "CAST(null AS smallint)"
    loose = strict.union(spark.sql(f"SELECT named_struct('a', {none}), array({none}), map('k', {none})"))
    for door, name in ((_save, "saved"), (_by_spark, "written")):
        door(strict, tmp_path / f"{name} strict", data_storage_version="2.2")
        assert lancecy.dataset(tmp_path / f"{name} strict").schema.field("s").type == kinds["s"]
        door(loose, tmp_path / name, data_storage_version="2.2")
        rows = lancecy.dataset(tmp_path / name).to_table().to_pylist()
        assert {"s": {"a": None}, "l": [None], "m": [("k", None)]} in rows


def test_columns_of_a_table_stay_not_null(spark: SparkSession, tmp_path: Path) -> None:
    strict = pa.schema(
        [pa.field("id", pa.int64(), False), pa.field("s", pa.struct([pa.field("a", pa.int32(), False)]))]
    )
    lancecy.write_dataset(pa.table({"id": [1], "s": [{"a": 1}]}, schema=strict), tmp_path / "t")
    for door, name in ((_save, "saved"), (_by_spark, "written")):
        door(lancecy.spark.read(spark, str(tmp_path / "t")), tmp_path / name)
        assert lancecy.dataset(tmp_path / name).schema.equals(strict)


def test_literals_make_columns_that_may_be_null(spark: SparkSession, tmp_path: Path) -> None:
    for door, name in ((_save, "saved"), (_by_spark, "written")):
        door(spark.sql("SELECT 1 AS id, named_struct('a', 1, 'b', 'x') AS s"), tmp_path / name)
        door(spark.sql("SELECT CAST(null AS int) AS id, named_struct('a', 2) AS s"), tmp_path / name)
        assert lancecy.dataset(tmp_path / name).to_table(order_by="id").to_pylist() == [
            {"id": 1, "s": {"a": 1, "b": "x"}},
            {"id": None, "s": {"a": 2, "b": None}},
        ]


def test_schema_gives_a_new_table_types_that_spark_lacks(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(1, [0.5, 1.5], b"x"), (2, None, None)], "id bigint, v array<double>, b binary"
    )
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([blob, ("v", pa.list_(pa.float16(), 2)), ("id", pa.int32())])
    ds = lancecy.spark.write(frame, tmp_path / "t", schema=schema)
    assert ds.schema == schema
    found = ds.to_table(["id", "v", "b"], blob_handling="all_binary")
    assert found.sort_by("id").to_pylist() == [
        {"id": 1, "v": [0.5, 1.5], "b": b"x"},
        {"id": 2, "v": None, "b": None},
    ]
    assert ds.to_table(["id"], nearest={"column": "v", "q": [0, 0]})["_distance"].to_pylist() == [2.5]
    assert lancecy.spark.write(frame, ds, "append", schema=schema).count_rows() == 4
    with pytest.raises(SchemaError, match="the rows have a column 'b', which schema= lacks"):
        lancecy.spark.write(frame, tmp_path / "u", schema=schema.remove(0))
    longer = schema.set(1, pa.field("v", pa.list_(pa.float16(), 3)))
    assert "column 'v' is list<element: double> and cannot become fixed_size_list" in _told(
        lambda: lancecy.spark.write(frame, tmp_path / "u", schema=longer)
    )


def test_frames_that_are_not_of_spark_are_refused_with_the_remedy(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [1]}, tmp_path / "t")
    others: dict[str, Any] = {
        r"not pyarrow\.Table: lancecy\.spark\.dataframe\(spark, rows\) makes one": ds.to_table(),
        r"not dask\.DataFrame: lancecy\.write_dask": lancecy.scan(ds),
    }
    for told, rows in others.items():
        with pytest.raises(TypeError, match=told):
            lancecy.spark.write(rows, tmp_path / "u")
        with pytest.raises(TypeError, match=told):
            lancecy.spark.merge(rows, ds, on="id")


def test_modes_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    path, few, more = tmp_path / "t", spark.range(3), spark.range(10, 12)
    assert lancecy.spark.write(few, path).version == 1
    for mode in ("create", "error", "errorifexists"):
        with pytest.raises(ExistsError):
            lancecy.spark.write(more, path, mode)
    assert lancecy.spark.write(more, path, "ignore").version == 1
    assert lancecy.spark.write(more, path, "append").version == 2
    assert _rows(path) == [0, 1, 2, 10, 11]
    _save(more, path)
    assert _rows(path) == [0, 1, 2, 10, 10, 11, 11]
    _save(more.selectExpr("cast(id AS string) AS word"), path, "overwrite")
    assert (_rows(path, "word"), lancecy.dataset(path).version) == (["10", "11"], 4)
    assert lancecy.spark.write(few, path, "overwrite").count_rows() == 3
    assert lancecy.spark.write(few, tmp_path / "u", "ignore").count_rows() == 3
    assert lancecy.spark.write(few.limit(0), tmp_path / "v").schema.names == ["id"]
    # What Spark does not hand on to sources in Python.
    assert "ErrorIfExists" in _told(lambda: _save(few, path, "errorifexists"))
    assert "Ignore" in _told(lambda: _save(few, path, "ignore"))
    with pytest.raises(ValueError, match="it can be 'create', 'append'"):
        lancecy.spark.write(few, path, "upsert")  # type: ignore[arg-type]


def test_token_names_a_write(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        lancecy.spark.write(spark.range(3), tmp_path / "t", "append", token="job")
        _save(spark.range(3), tmp_path / "u", token="job")
    assert _rows(tmp_path / "t") == _rows(tmp_path / "u") == [0, 1, 2]


def test_a_stream_that_is_restarted_writes_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    """The query ends between the commit of a batch and its checkpoint, and is started again."""
    path, failing = tmp_path / "t", {0, 1}
    for number in range(3):
        lancecy.spark.dataframe(spark, pa.table({"id": [2 * number, 2 * number + 1]})).write.mode(
            "append"
        ).parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))

    def write(batch: DataFrame, number: int) -> None:
        lancecy.spark.write(batch, path, "append", token=f"query {number}")
        if number in failing:
            failing.remove(number)
            raise RuntimeError("killed before the checkpoint")

    def run() -> None:
        query = rows.writeStream.foreachBatch(write).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        query.trigger(availableNow=True).start().awaitTermination()

    while failing:
        assert "killed before the checkpoint" in _told(run)
    run()
    assert _rows(path) == list(range(6))
    assert data_files(path / "data") == {
        file.path for fragment in lancecy.dataset(path).get_fragments() for file in fragment.data_files()
    }


def test_a_stream_into_the_format_is_refused_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    def run() -> None:
        query = spark.readStream.format("rate").load().writeStream.format("lancecy")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start(str(tmp_path / "t")).awaitTermination()

    told = _told(run)
    assert "UnsupportedError" in told and "foreachBatch" in told


def test_files_go_over_bases_evenly(spark: SparkSession, tmp_path: Path) -> None:
    bases = [DatasetBasePath(tmp_path / name, name=name) for name in "xy"]
    ds = lancecy.spark.write(
        spark.range(0, 40, 1, 4),
        tmp_path / "t",
        initial_bases=bases,
        target_bases=["x", "y"],
        max_rows_per_file=5,
    )
    _save(spark.range(40, 80, 1, 4), tmp_path / "t", targetBases="y,x", maxRowsPerFile="5")
    ds = ds.checkout_latest()
    assert Counter(p.data_files()[0].base_id for p in ds.get_fragments()) == {1: 8, 2: 8}
    assert _rows(tmp_path / "t") == list(range(80))
    given = f'[{{"path": "{tmp_path / "z"}", "name": "z"}}]'
    _save(spark.range(5), tmp_path / "u", initialBases=given, targetBases="z")
    assert len(data_files(tmp_path / "z")) == len(lancecy.dataset(tmp_path / "u").get_fragments())


# -- failures -------------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_buckets_of_the_roots_service_are_read_and_written_by_executors(
    spark: SparkSession, s3_server: S3Server
) -> None:
    uri, options = spread_over_buckets(s3_server), json.dumps(s3_server.storage_options)
    frame = _load(spark, uri, storage_options=options)
    assert sorted(row.id for row in frame.collect()) == list(range(4000))
    _save(frame.filter("id < 10"), uri, storage_options=options, target_bases="b2,b4")
    again = lancecy.dataset(uri, storage_options=s3_server.storage_options)
    assert again.count_rows("id < 10") == 20
    assert {file.base_id for f in again.get_fragments()[4:] for file in f.data_files()} <= {1, 3}
    read = lancecy.spark.read(spark, uri, storage_options=s3_server.storage_options, embed_credentials=True)
    assert read.count() == 4010


def test_refused_before_a_task_runs(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    ds = lancecy.spark.write(spark.range(3), tmp_path / "t")
    before = data_files(tmp_path)
    fails = spark.range(3).select(f.raise_error(f.lit("a task has run")).cast("int").alias("id"))
    with pytest.raises(SchemaError, match="column 'id' is int32, where the table has int64"):
        lancecy.spark.write(fails, ds, "append")
    assert "SchemaError: column 'id' is int32" in _told(lambda: _save(fails, tmp_path / "t"))
    assert "did you mean 'target_bases'" in _told(lambda: _save(fails, tmp_path / "t", targetbase="x"))
    strange = fails.selectExpr("cast(id AS variant) AS v")
    with pytest.raises(UnsupportedError, match="column 'v' is variant in Spark"):
        lancecy.spark.write(strange, tmp_path / "u")
    with pytest.raises(UnsupportedError, match="'y' is interval year"):
        lancecy.spark.write(spark.sql("SELECT INTERVAL '1' YEAR AS y"), tmp_path / "u")
    assert data_files(tmp_path) == before


def test_failed_task_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lancecy.spark.write(spark.range(3), tmp_path / "t")
    before = data_files(tmp_path / "t" / "data")
    # One task: no other task writes after it fails. Before it fails, it finishes nine files.
    bad = spark.range(0, 100, 1, 1).selectExpr("if(id = 99, raise_error('ninety-nine'), id) AS id")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        for door in (_save, _by_spark):
            assert "ninety-nine" in _told(lambda door=door: door(bad, tmp_path / "t", max_rows_per_file=10))  # type: ignore[misc]
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert (data_files(tmp_path / "t" / "data"), _rows(tmp_path / "t")) == (before, [0, 1, 2])
    strict = lancecy.write_dataset(
        pa.table({"n": [1]}, schema=pa.schema([pa.field("n", pa.int64(), False)])), tmp_path / "s"
    )
    nulls = spark.range(0, 4, 1, 1).selectExpr("if(id = 3, null, id) AS n")
    for door in (_save, _by_spark):
        assert "SchemaError: " in _told(lambda door=door: door(nulls, tmp_path / "s"))  # type: ignore[misc]
    assert (strict.latest_version, len(data_files(tmp_path / "s" / "data"))) == (1, 1)


@pytest.mark.parametrize("door", [_save, _by_spark])
def test_failed_create_leaves_nothing(spark: SparkSession, tmp_path: Path, door: Callable[..., None]) -> None:
    place, disk = tmp_path / "new" / "t.lance", str(tmp_path / "disk")
    bases = {_by_spark: [DatasetBasePath(disk, "disk")], _save: json.dumps([{"path": disk, "name": "disk"}])}

    def odd(batches: Any) -> Any:
        for batch in batches:
            if batch.id.max() == 39:
                raise RuntimeError("the user's own")
            yield batch

    def mistyped(batches: Any) -> Any:
        for batch in batches:
            yield batch.assign(id="no number") if batch.id.max() == 39 else batch

    # One task: no other task writes after it fails. Before it fails, it finishes three files.
    rows = spark.range(0, 40, 1, 1)
    frames = [
        rows.mapInPandas(odd, rows.schema),
        rows.mapInPandas(mistyped, rows.schema),
        rows.selectExpr("if(id = 39, raise_error('ninety-nine'), id) AS id"),
    ]
    spread: dict[str, Any] = {"target_all_bases": True, "initial_bases": bases[door]}
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        for frame, options in zip(frames, [{}, spread, {}], strict=True):
            assert _told(partial(door, frame, place, max_rows_per_file=10, **options))
            assert list(tmp_path.iterdir()) == []
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_error_of_a_failed_create_gives_advice_that_works(spark: SparkSession, tmp_path: Path) -> None:
    failing = spark.range(3).selectExpr("raise_error('a task has run') AS id").selectExpr("int(id) AS id")
    with pytest.raises(Exception, match="a task has run") as raised:
        lancecy.spark.write(failing, tmp_path / "t")
    (told,) = raised.value.__notes__
    assert f"there is no table at {tmp_path / 't'}" in told
    assert "cleanup_old_versions" not in told


def test_executor_without_lancecy_is_told_what_to_set(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, package = tmp_path / "python", tmp_path / "site" / "lancecy"
    launcher.write_text(
        f'#!/bin/sh\ncd / && PYTHONPATH={tmp_path}/site:$PYTHONPATH exec {sys.executable} "$@"\n'
    )
    launcher.chmod(0o755)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not on this machine')\n")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(launcher))
    other = spark.newSession()
    with pytest.raises(ImportError, match="Start Spark with PYSPARK_PYTHON"):
        lancecy.spark.write(other.range(3), tmp_path / "t")
    told = _told(lambda: lancecy.spark.write(other.range(3), tmp_path / "t", check_workers=False))
    assert f"Spark's Python worker {sys.executable} cannot import lancecy (not on this machine)" in told
    assert data_files(tmp_path / "t" / "data") == set()


# Every Python process of Spark runs this when it starts: the first task to finish a file, columns, an index or copies
# dies, and is run again.
DYING = """
import os, signal
from pathlib import Path
from lancecy.changes.shared_columns import SharedColumns
from lancecy.changes.shared_copies import SharedCopies
from lancecy.changes.shared_index import SharedIndex
from lancecy.write import fragments

def dying(real):
    def run(*arguments):
        made = real(*arguments)
        try:
            Path(os.environ["DIE_ONCE"]).mkdir()
        except FileExistsError:
            return made
        os.kill(os.getpid(), signal.SIGKILL)
    return run

fragments._finished = dying(fragments._finished)
for kind in (SharedColumns, SharedIndex, SharedCopies):
    kind.run = dying(kind.run)
"""

TWICE = """
import os, shutil, sys
from pyspark.sql import SparkSession
import lancecy

spark = (
    SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    .config("spark.speculation", "true").config("spark.log.level", "OFF")
    .config("spark.python.unix.domain.socket.enabled", "true").getOrCreate()
)
lancecy.spark.register(spark)
for door, path in (("write", sys.argv[1] + "/t"), ("save", sys.argv[1] + "/u")):
    frame = spark.range(0, 1000, 1, 4)
    shutil.rmtree(os.environ["DIE_ONCE"], ignore_errors=True)
    if door == "write":
        lancecy.spark.write(frame, path)
    else:
        frame.write.format("lancecy").mode("append").save(path)
    ds = lancecy.dataset(path)
    rows = ds.to_table()["id"].to_pylist()
    print(door, os.path.exists(os.environ["DIE_ONCE"]), rows == list(range(1000)), ds.version,
          len(os.listdir(path + "/data")) > len(ds.get_fragments()), lancecy.spark.read(spark, path).count())
os.mkdir(sys.argv[1] + "/fast")
base = lancecy.DatasetBasePath(sys.argv[1] + "/fast", name="fast")
ds = lancecy.write_dataset({"id": range(32)}, sys.argv[1] + "/v", max_rows_per_file=2, initial_bases=[base])
for change in (
    lambda: lancecy.spark.add_columns(spark, ds, lambda batch: {"b": batch["id"]}, ["id"]),
    lambda: lancecy.spark.compact(ds, spark, target_rows_per_fragment=8),
    lambda: lancecy.spark.create_scalar_index(spark, ds, "id", "BTREE", num_parts=2),
    lambda: lancecy.spark.copy_files(spark, ds, base="fast"),
    lambda: lancecy.spark.update(spark, ds, {"id": "id"}),
):
    shutil.rmtree(os.environ["DIE_ONCE"], ignore_errors=True)
    change()
    print(os.path.exists(os.environ["DIE_ONCE"]), ds.version, sorted(ds.to_table()["id"].to_pylist()) == list(range(32)),
          ds.count_rows("id > 16"))
"""


@pytest.mark.slow
def test_tasks_that_die_and_are_run_again_write_once(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(DYING)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DIE_ONCE": str(tmp_path / "died"),
    }
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    written = ["write True True 1 True 1000", "save True True 1 True 1000"]
    changed = [f"True {version} True 15" for version in range(2, 7)]
    assert done.stdout.splitlines() == written + changed, done.stderr[-3000:]
