"""How a table is divided into tasks, what is known of its nulls, and what of it travels; no Spark session is needed."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.spark import frames
from lancecy.spark.convert import Converter
from lancecy.spark.tasks import TaskReader, divide, spare_collector
from lancecy.spark.workers import _reason
from tests.interop.live import append, peer, write

pytestmark = pytest.mark.interop

ROWS = 60_000


def _table(rows: int = ROWS, *, holes: tuple[str, ...] = ("gaps",)) -> pa.Table:
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "id": pa.array(np.arange(rows)),
        "x": pa.array(random.standard_normal(rows)),
        "word": pa.array([f"w{n}" for n in range(rows)]),
        "gaps": pa.array(np.arange(rows, dtype=np.int32)),
        "gappy": pa.array(["v"] * rows),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * rows, np.float32)), 2),
    }
    mask = pa.array(np.arange(rows) % 7 == 3)
    for name in holes:
        columns[name] = pc.if_else(mask, pa.scalar(None, columns[name].type), columns[name])
    return pa.table(columns)


def _parts(ds: lancecy.Dataset, cores: int = 2, blocksize: int | None = None, **options: Any) -> Any:
    return divide(ds.scanner(**options), ds.context, cores, blocksize)


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.2"])
def place(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "t.lance"
    write(
        _table(holes=("gaps", "gappy")),
        path,
        data_storage_version=request.param,
        max_rows_per_file=ROWS // 3,
        max_rows_per_group=1024,
    )
    return path


# -- division ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "blocksize"), [(1, None), (2, None), (64, None), (2, 200_000)])
def test_parts_hold_every_row_once(place: Path, cores: int, blocksize: int | None) -> None:
    ds = lancecy.dataset(place)
    _, parts = _parts(ds, cores, blocksize)
    read = sorted(
        (p[i], row) for p in parts for i in range(0, len(p), 5) for row in range(p[i + 1], p[i + 2])
    )
    assert read == [(f.fragment_id, row) for f in ds.get_fragments() for row in range(f.count_rows())]


def test_small_table_is_one_part_and_fragments_are_cut_for_equal_ones(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = lancecy.dataset(place)
    assert len(_parts(ds, 8)[1]) == 1
    monkeypatch.setattr("lancecy.spark.tasks._MIN_TASK_BYTES", 1 << 10)
    _, parts = _parts(ds, 2)
    assert len(parts) == 2
    sizes = [sum(part[3::5]) for part in parts]
    assert max(sizes) < 1.6 * min(sizes), sizes  # three fragments over two parts


def test_large_tables_are_divided_into_rounds(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancecy.spark.tasks._MIN_TASK_BYTES", 1 << 10)
    monkeypatch.setattr("lancecy.spark.tasks._MAX_TASK_BYTES", 1 << 19)
    ds = lancecy.dataset(place)
    count = len(_parts(ds, 2)[1])
    assert count > 2
    assert count % 2 == 0


def test_table_without_rows_has_no_parts(tmp_path: Path) -> None:
    write(_table(0, holes=()), tmp_path / "t.lance")
    assert _parts(lancecy.dataset(tmp_path / "t.lance"))[1] == []


# -- nulls -------------------------------------------------------------------------------------------------


@pytest.fixture
def many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small fragments count as worth asking."""
    monkeypatch.setattr(frames, "_LEAST_ROWS", 1)


@pytest.mark.usefixtures("many_rows")
def test_columns_without_nulls_are_proved(place: Path) -> None:
    ds = lancecy.dataset(place)
    legacy = ds.data_storage_version == "0.1"
    # Files of 0.1 keep no nulls of numbers: such columns never read back as null. Those of 2.0 do not tell of texts.
    expected = {"id", "x"} | ({"gaps", "word"} if legacy else set())
    expected |= {"word"} if ds.data_storage_version == "2.2" else set()
    assert frames.proved(ds.context, _parts(ds)[0]) == expected
    assert ds.to_table()["gaps"].null_count == (0 if legacy else sum(n % 7 == 3 for n in range(ROWS)))


@pytest.mark.usefixtures("many_rows")
def test_computed_and_virtual_columns_are_not_asked_for(place: Path) -> None:
    ds = lancecy.dataset(place)
    plan, _ = _parts(ds, columns={"id": "id", "y": "id * 2"}, with_row_id=True)
    assert frames.proved(ds.context, plan) == {"id"}


@pytest.mark.usefixtures("many_rows")
def test_column_that_a_fragment_lacks_is_not_proved(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    write(_table(100, holes=()).select(["id"]), path, data_storage_version="2.2")
    peer(path).add_columns(pa.schema({"later": pa.int64()}))
    append(pa.table({"id": [1], "later": [1]}), path, data_storage_version="2.2")
    ds = lancecy.dataset(path)
    assert frames.proved(ds.context, _parts(ds)[0]) == {"id"}


def test_small_fragments_and_many_columns_are_not_worth_asking(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = lancecy.dataset(place)
    plan = _parts(ds)[0]
    assert frames.proved(ds.context, plan) == frozenset()
    monkeypatch.setattr(frames, "_LEAST_ROWS", 1)
    monkeypatch.setattr(frames, "_MOST_COLUMNS", 5)
    assert frames.proved(ds.context, plan) == frozenset()


def test_names_that_spark_cannot_tell_apart_get_no_promise() -> None:
    schema = pa.schema({"a": pa.int64(), "A": pa.int64(), "b": pa.uint8()})
    assert frames.promised(schema, {"a", "A"}) == frozenset()
    # The memory of a type lies in metadata, which a column of Spark's own making would lose.
    assert frames.promised(schema.remove(1), {"a", "b"}) == {"a"}


# -- what travels ------------------------------------------------------------------------------------------


def _reader(place: Path) -> tuple[TaskReader, int]:
    ds = lancecy.dataset(place)
    plan, parts = _parts(ds, 2, 300_000, columns=["id", "word"])
    return TaskReader(plan.tasks[0].spec, tuple(parts), Converter(plan.schema, False)), len(parts)


def _numbers(count: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": list(range(count))})


def test_reader_reads_its_parts_after_the_journey(place: Path) -> None:
    from pyspark.cloudpickle import dumps, loads

    reader, count = _reader(place)
    arrived = loads(dumps(reader))
    assert arrived == reader
    found = pa.Table.from_batches(arrived(_numbers(count)))
    assert found.sort_by("id") == lancecy.dataset(place).to_table(columns=["id", "word"])
    assert found.schema.field("id").type == pa.int64()


@pytest.mark.parametrize(
    ("init", "told"),
    [
        (
            "raise ImportError('not on this machine')\n",
            "cannot import lancecy (not on this machine). Start Spark",
        ),
        ("__version__ = '99.1'\n", f"has lancecy 99.1, not {lancecy.__version__}. Start Spark"),
    ],
    ids=["none", "another release"],
)
def test_reader_says_what_is_missing_where_it_arrives(
    place: Path, tmp_path: Path, init: str, told: str
) -> None:
    from pyspark.cloudpickle import dumps

    (tmp_path / "lancecy").mkdir()
    (tmp_path / "lancecy" / "__init__.py").write_text(init)
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        input=dumps(_reader(place)[0]),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("ImportError: Spark's Python worker ")
    assert told in last
    assert "PYSPARK_PYTHON" in last


def test_collector_is_left_alone_outside_of_workers() -> None:
    gc.unfreeze()  # the tests have frozen what they loaded themselves
    try:
        spare_collector.__wrapped__()
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


def test_worker_of_another_python_is_found_in_the_trace_of_java() -> None:
    from pyspark.errors import PySparkRuntimeError

    versions = {"worker_version": "3.10", "driver_version": "3.11"}
    said = PySparkRuntimeError(errorClass="PYTHON_VERSION_MISMATCH", messageParameters=versions)
    lines = ["Job aborted: Traceback", '  File "worker.py", line 7, in main', f"pyspark.errors.X: {said}", ""]
    reason = _reason("\n".join([*lines, "\tat org.apache.spark.api.python.Runner(Runner.scala:1)"] * 3))
    assert "3.10" in reason
    assert "3.11" in reason
    assert "Runner.scala" not in reason
