"""The data source of ``format("lancecy")`` as Spark's Python processes call it, without a Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructType

from lancecy.errors import ColumnNotFoundError, ExpressionError, NotFoundError, UnsupportedError
from lancecy.spark.source import LancecyDataSource, LancecyReader
from tests.interop.live import mixed_table, peer, write
from tests.spark.values import as_seen

pytestmark = pytest.mark.interop

ROWS = 3000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments, 500 rows of the second deleted."""
    place = str(tmp_path_factory.mktemp("reader") / "t.lance")
    write(mixed_table(ROWS), place, max_rows_per_file=1000, data_storage_version="2.2")
    peer(place).delete("id >= 1200 AND id < 1700")
    return place


def _batches(path: Path | str, given: StructType | None = None, **options: Any) -> list[pa.RecordBatch]:
    """What the workers hand over, each batch held against the schema that Spark was told."""
    source = LancecyDataSource({"path": str(path), **options})
    held = source.schema() if given is None else given
    reader = source.reader(held)
    found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    told = to_arrow_schema(held, timezone="UTC")
    assert all(batch.schema.equals(told, check_metadata=False) for batch in found)
    return found


def _rows(path: Path | str, given: StructType | None = None, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.Table.from_batches(_batches(path, given, **options)).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("options", "least"),
    # Small fragments of one part are read together.
    [({}, 1), ({"batch_size": "7"}, ROWS // 14), ({"blocksize": "9000", "filter": "k < 9"}, 3)],
    ids=["plain", "rows", "bytes"],
)
def test_every_batch_has_exactly_the_schema_that_was_told(
    path: str, options: dict[str, str], least: int
) -> None:
    found = _batches(path, None, **options)
    assert len(found) >= least
    assert max(batch.num_rows for batch in found) <= int(options.get("batch_size", ROWS))
    expected = peer(path).to_table(filter=options.get("filter"), columns=["id"])["id"].to_pylist()
    assert sorted(n for batch in found for n in batch["id"].to_pylist()) == expected


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("word, id", ["word", "id"]),
        ('["id", "vector"]', ["id", "vector"]),
        ('{"id": "id", "double": "k * 2"}', ["id", "double"]),
    ],
    ids=["names", "list", "expressions"],
)
def test_columns_and_filter_are_applied_while_reading(path: str, columns: str, names: list[str]) -> None:
    rows = [row for row in peer(path).to_table().to_pylist() if row["k"] < 10 and row["x"] > 0]
    seen = [{name: 2 * row["k"] if name == "double" else row[name] for name in names} for row in rows]
    assert as_seen(_rows(path, columns=columns, filter="k < 10 AND x > 0")) == as_seen(seen)
    assert 0 < len(seen) < ROWS


def test_schema_of_the_user_selects_columns(path: str) -> None:
    given = StructType().add("word", "string").add("id", LongType())
    assert _rows(path, given, filter="k = 3") == peer(path).to_table(["word", "id"], "k = 3").to_pylist()


def test_schema_of_the_user_is_held_against_the_table(path: str) -> None:
    with pytest.raises(UnsupportedError, match="'id' is bigint, but the given schema says int"):
        _rows(path, StructType().add("id", IntegerType()))
    with pytest.raises(ColumnNotFoundError, match="word"):
        _rows(path, StructType().add("wort", "string"))


def test_row_ids_and_addresses(path: str) -> None:
    found = _rows(
        path, columns="id", filter="id BETWEEN 1999 AND 2000", with_row_id="true", with_row_address="1"
    )
    assert list(found[0]) == ["id", "_rowid", "_rowaddr"]
    assert [int(row["_rowaddr"]) for row in found] == [(1 << 32) + 999, 2 << 32]


def test_version_is_settled_by_the_first_step(tmp_path: Path) -> None:
    from pyspark.cloudpickle import dumps, loads

    rows = mixed_table(30).select(["id"])
    write(rows, tmp_path / "t.lance")
    source = LancecyDataSource({"path": str(tmp_path / "t.lance")})
    held = source.schema()
    write(rows, tmp_path / "t.lance", mode="append")
    planned = loads(dumps(source)).reader(held)
    sent = loads(dumps(planned))
    assert sum(len(batch) for partition in planned.partitions() for batch in sent.read(partition)) == 30
    assert len(_rows(tmp_path / "t.lance")) == 60
    assert len(_rows(tmp_path / "t.lance", version="1")) == 30


def test_table_without_rows_has_no_partitions(tmp_path: Path) -> None:
    write(mixed_table(0, colour=False), tmp_path / "t.lance")
    assert _batches(tmp_path / "t.lance") == []


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"filtre": "k < 7"}, ValueError, "no option 'filtre'; did you mean 'filter'"),
        ({"columns": "wort"}, ColumnNotFoundError, "'wort'"),
        ({"columns": ","}, ValueError, "select at least one"),
        ({"filter": "k <"}, ExpressionError, "k <"),
        ({"version": "99"}, NotFoundError, "no version 99"),
    ],
    ids=["name", "column", "no columns", "filter", "version"],
)
def test_wrong_option_is_an_error_of_the_first_step(
    path: str, options: dict[str, str], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        LancecyDataSource({"path": path, **options}).schema()


def test_filters_are_not_pushed() -> None:
    assert LancecyReader.pushFilters is DataSourceReader.pushFilters
