"""``lancecy.spark.read``: executors read their own parts, and what they hand over is right."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from lancecy.spark import workers
from lancecy.spark.frames import read
from tests.helpers.golden import all_goldens
from tests.helpers.tables import all_types
from tests.interop.live import append, mixed_table, peer, write
from tests.meta.example import EXAMPLE
from tests.spark.values import SPARK_TYPES, as_seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop]

ROWS = 6000


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.2"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """Six fragments, 500 rows of the second deleted."""
    place = str(tmp_path_factory.mktemp("spark") / "t.lance")
    write(
        mixed_table(ROWS),
        place,
        max_rows_per_file=1000,
        max_rows_per_group=100,
        data_storage_version=request.param,
    )
    peer(place).delete("id >= 1200 AND id < 1700")
    return place


@pytest.fixture(scope="module")
def expected(path: str) -> pa.Table:
    table: pa.Table = peer(path).to_table()
    return table


def _seen(frame: DataFrame, key: str | None = "id") -> list[dict[str, Any]]:
    table = frame.toArrow()
    rows: list[dict[str, Any]] = as_seen((table.sort_by(key) if key else table).to_pylist())
    return rows


def test_whole_table_arrives(spark: SparkSession, path: str, expected: pa.Table) -> None:
    frame = read(spark, path)
    assert frame.columns == expected.column_names
    assert _seen(frame) == as_seen(expected.sort_by("id").to_pylist())


def test_every_partition_is_read_by_its_own_task(spark: SparkSession, path: str) -> None:
    frame = read(spark, path, columns=["id"], blocksize=8000)
    pids = frame.selectExpr("spark_partition_id() as p", "id").groupBy("p").count().collect()
    assert frame.rdd.getNumPartitions() == len(pids) == 6
    assert sorted(row["count"] for row in pids) == [500, *[1000] * 5]


def test_columns_and_filter_are_applied_while_reading(
    spark: SparkSession, path: str, expected: pa.Table
) -> None:
    frame = read(spark, path, columns=["id", "word"], filter="k < 10 AND x > 0")
    mask = pc.and_(pc.less(expected["k"], 10), pc.greater(expected["x"], 0))
    assert _seen(frame) == expected.filter(mask).select(["id", "word"]).sort_by("id").to_pylist()


def test_frame_answers_again_and_together_with_others(
    spark: SparkSession, path: str, expected: pa.Table
) -> None:
    # What Spark 4.3's own pushdown for Python sources gets wrong.
    some, whole = read(spark, path, ["id", "k"], "k < 7"), read(spark, path, ["id", "k"])
    few = pc.sum(pc.less(expected["k"], 7)).as_py()
    rows = expected.num_rows
    assert [whole.count(), some.count(), whole.count()] == [rows, few, rows]
    assert whole.union(some).count() == rows + few
    assert whole.filter("k < 7").join(whole, "id").count() == few
    assert some.groupBy("k").count().count() == 7


def test_version_is_settled_when_the_frame_is_made(spark: SparkSession, tmp_path: Path) -> None:
    rows = mixed_table(30).select(["id", "x"])
    write(rows, tmp_path / "t.lance")
    before = read(spark, tmp_path / "t.lance")
    append(rows, tmp_path / "t.lance")
    assert before.count() == 30
    assert read(spark, tmp_path / "t.lance").count() == 60
    assert read(spark, tmp_path / "t.lance", version=1).count() == 30
    assert read(spark, lancecy.dataset(tmp_path / "t.lance", version=1)).count() == 30


def test_computed_columns_and_addresses(spark: SparkSession, path: str) -> None:
    frame = read(spark, path, {"id": "id", "y": "k * 2"}, "id < 3", with_row_id=True, with_row_address=True)
    assert frame.dtypes[2:] == [("_rowid", "decimal(20,0)"), ("_rowaddr", "decimal(20,0)")]
    assert [int(row["_rowaddr"]) for row in frame.orderBy("id").collect()] == [0, 1, 2]


def test_small_batches(spark: SparkSession, path: str, expected: pa.Table) -> None:
    assert (
        _seen(read(spark, path, ["id", "tags"], batch_size=7))
        == expected.select(["id", "tags"]).sort_by("id").to_pylist()
    )


def test_empty_results_have_their_schema(spark: SparkSession, path: str, tmp_path: Path) -> None:
    assert read(spark, path, filter="k > 1000").count() == 0
    write(mixed_table(0, colour=False), tmp_path / "t.lance")
    frame = read(spark, tmp_path / "t.lance")
    assert frame.count() == 0
    assert frame.columns == mixed_table(0, colour=False).column_names


@pytest.mark.parametrize("name", [g.name for g in all_goldens() if g.what in ("types", "cpp_types")])
def test_types_of_golden_tables_arrive(spark: SparkSession, name: str) -> None:
    table = next(g for g in all_goldens() if g.name == name)
    kept = [c for c in table.expected().column_names if c in SPARK_TYPES and c != "decimal256"]
    found = read(spark, table.path, columns=kept, truncate_nanoseconds=True)
    expected = table.expected().select(kept)
    # The oldest release forgot zones and nullability.
    known = [c for c in kept if expected.schema.field(c).type == all_types()[c]]
    assert {c: found.schema[c].dataType.simpleString() for c in known} == {c: SPARK_TYPES[c] for c in known}
    columns = found.toArrow()
    wrong = [c for c in kept if as_seen(columns[c].to_pylist()) != as_seen(expected[c].to_pylist())]
    assert wrong == []


def test_table_goes_straight_into_spark(spark: SparkSession, path: str, expected: pa.Table) -> None:
    direct = spark.createDataFrame(
        lancecy.dataset(path).to_table(columns=["id", "word", "vector", "point", "tags"])
    )
    columns = ["id", "word", "vector", "point", "tags"]
    assert _seen(direct) == as_seen(expected.select(columns).sort_by("id").to_pylist())
    scanned = lancecy.spark.dataframe(
        spark, lancecy.dataset(path).scanner(columns=["id", "x"], filter="k < 5")
    )
    assert scanned.count() == pc.sum(pc.less(expected["k"], 5)).as_py()
    whole = lancecy.spark.dataframe(spark, lancecy.dataset(path))
    assert whole.count() == expected.num_rows


# -- errors ------------------------------------------------------------------------------------------------


def test_unknown_column_is_told_by_the_driver(spark: SparkSession, path: str) -> None:
    with pytest.raises(ColumnNotFoundError, match="word"):
        read(spark, path, columns=["wort"])


def test_no_columns_are_refused(spark: SparkSession, path: str) -> None:
    with pytest.raises(ValueError, match="at least one"):
        read(spark, path, columns=[])


def test_options_of_an_open_dataset_are_settled(spark: SparkSession, path: str) -> None:
    with pytest.raises(ValueError, match="open already"):
        read(spark, lancecy.dataset(path), storage_options={"anon": True})


def test_type_spark_cannot_hold_is_refused_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    write(pa.table({"big": pa.array([1], pa.decimal256(60, 0))}), tmp_path / "t.lance")
    with pytest.raises(UnsupportedError, match="'big'"):
        read(spark, tmp_path / "t.lance")


def test_value_spark_cannot_hold_is_named_by_the_executor(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    write(pa.table({"when": pa.array([1001], pa.timestamp("ns"))}), tmp_path / "t.lance")
    with pytest.raises(PySparkException, match=r"'when'.*truncate_nanoseconds=True"):
        read(spark, tmp_path / "t.lance").collect()
    assert read(spark, tmp_path / "t.lance", truncate_nanoseconds=True).count() == 1


def test_secrets_stay_on_the_driver_unless_told_otherwise(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyspark.sql.pandas.map_ops as map_ops
    from pyspark.cloudpickle import dumps

    sent: list[bytes] = []
    real = map_ops.PandasMapOpsMixin.mapInArrow

    def spy(frame: Any, function: Any, *arguments: Any) -> Any:
        sent.append(dumps(function))
        return real(frame, function, *arguments)

    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.mapInArrow", spy)
    options = {"secret": "hunter2-hunter2", "anon": False}
    read(spark, path, storage_options=options, check_workers=False)
    read(spark, path, storage_options=options, check_workers=False, embed_credentials=True)
    assert [b"hunter2" in task for task in sent] == [False, True]


# -- workers -----------------------------------------------------------------------------------------------


@pytest.fixture
def worker(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gives the session's workers another Python: one that finds this text as lancecy's ``__init__``, or none."""

    def use(init: str | None) -> None:
        launcher = tmp_path / "python"
        if init is not None:
            package = tmp_path / "lancecy"
            package.mkdir()
            (package / "__init__.py").write_text(init)
            launcher.write_text(
                f'#!/bin/sh\ncd / && PYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n'
            )
            launcher.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(launcher))
        monkeypatch.setattr(workers, "_checked", weakref.WeakSet())

    return use


@pytest.mark.parametrize(
    ("init", "told"),
    [
        ("raise ImportError('not on this machine')\n", r"cannot import lancecy \(not on this machine\)"),
        ("__version__ = '99.1'\n", r"has lancecy 99\.1, the driver 0\."),
        (None, "does not start"),
    ],
    ids=["none", "another release", "no python"],
)
def test_worker_that_cannot_read_is_named_with_the_remedy(
    spark: SparkSession, worker: Any, init: str | None, told: str
) -> None:
    worker(init)
    with pytest.raises(ImportError, match=told) as raised:
        read(spark, EXAMPLE)
    assert "PYSPARK_PYTHON" in str(raised.value)
    assert sys.executable in str(raised.value)
    assert len(str(raised.value)) < 2000


def test_workers_are_asked_once_per_session(spark: SparkSession, worker: Any) -> None:
    read(spark, EXAMPLE)
    assert spark in workers._checked
