"""Arrow-backed columns through pandas and Dask: nothing turns into text, objects or floats."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

from lancecy.dask.dtypes import NestedArrowArray, NestedArrowDtype, empty_frame, pandas_dtype, to_frame
from tests.dask.frames import cut_frame, every_type, from_frame
from tests.helpers.compare import assert_tables_equal

pytestmark = pytest.mark.slow

ROWS = 120


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return every_type(ROWS)


@pytest.fixture(scope="module")
def frame(table: pa.Table) -> pd.DataFrame:
    return to_frame(table)


@pytest.fixture
def ddf(frame: pd.DataFrame) -> dd.DataFrame:
    with dask.config.set(scheduler="sync"):
        made: dd.DataFrame = dd.from_map(cut_frame(frame, 4), range(4), meta=frame.iloc[:0])
    return made


def check(found: pd.DataFrame, table: pa.Table, *, without: tuple[str, ...] = ()) -> None:
    """The same rows in any order, and the same dtypes."""
    kept = [name for name in table.column_names if name not in without]
    wanted = to_frame(table.select(kept))
    found = found.sort_values("row")[kept]
    assert found.dtypes.to_dict() == wanted.dtypes.to_dict()
    schema = table.select(kept).schema
    assert_tables_equal(from_frame(found, schema), from_frame(wanted, schema))


# -- pandas ------------------------------------------------------------------------------------------------


def test_frame_shares_memory_with_the_table() -> None:
    numbers = pa.array(range(4000), pa.float32())
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(numbers, 4), "i": pa.array(range(1000))})
    frame = to_frame(table)
    addresses = [[b.address for b in pa.array(frame[c].array).buffers() if b] for c in ("v", "i")]
    assert addresses == [[b.address for b in table[c].chunk(0).buffers() if b] for c in ("v", "i")]


def test_every_type_comes_back_as_it_went_in(table: pa.Table, frame: pd.DataFrame) -> None:
    check(frame, table)


def test_index_stored_in_pandas_metadata_stays_a_column() -> None:
    table = pa.Table.from_pandas(pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 8], name="label")))
    assert list(to_frame(table).columns) == ["a", "label"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.int64(), "int64[pyarrow]"),
        (pa.timestamp("us", "UTC"), "timestamp[us, tz=UTC][pyarrow]"),
        (pa.binary(), "lancecy[binary]"),
        (pa.decimal128(9, 2), "lancecy[decimal128(9, 2)]"),
        (pa.list_(pa.float32(), 8), "lancecy[fixed_size_list<item: float>[8]]"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.dictionary(pa.int8(), pa.int32(), ordered=True), "int32[pyarrow]"),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), "lancecy[list<item: string>]"),
        (pa.uuid(), "lancecy[fixed_size_binary[16]]"),
    ],
    ids=str,
)
def test_dtype_of_a_type_has_a_readable_name(kind: pa.DataType, name: str) -> None:
    assert str(pandas_dtype(kind)) == name
    if name != "string":  # pandas reads that one as its default string dtype
        assert pd.api.types.pandas_dtype(name) == pandas_dtype(kind)


def test_equal_dtypes_are_those_of_the_same_type() -> None:
    dtype = NestedArrowDtype(pa.list_(pa.int8()))
    assert dtype == NestedArrowDtype(pa.list_(pa.int8()))
    assert dtype == "lancecy[list<item: int8>]"
    assert dtype != NestedArrowDtype(pa.list_(pa.field("element", pa.int8())))
    assert dtype != pd.ArrowDtype(pa.list_(pa.int8()))
    assert pd.ArrowDtype(pa.list_(pa.int8())) != dtype
    assert pickle.loads(pickle.dumps(dtype)) == dtype


@pytest.mark.parametrize("name", ["lancecy[nonsense]", "lancecy[", "int8", "lancecy[list<item: int8>"])
def test_other_names_are_left_to_other_dtypes(name: str) -> None:
    with pytest.raises(TypeError):
        NestedArrowDtype.construct_from_string(name)


def test_dtype_pickled_here_is_known_in_a_process_that_never_imported_it() -> None:
    series = pd.Series(NestedArrowArray(pa.array([[1, 2], None], pa.list_(pa.int8()))))
    code = "import pickle, sys; s = pickle.load(sys.stdin.buffer); print(s.dtype, s[0], s.isna().sum())"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(series), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "lancecy[list<item: int8>] [1, 2] 1"


def test_results_of_other_types_are_ordinary_columns() -> None:
    colours = pd.Series(NestedArrowArray(pa.array(["red", "blue", None]).dictionary_encode()))
    mask = colours == "red"
    assert mask.dtype == pd.ArrowDtype(pa.bool_())
    assert colours[mask.fillna(False)].dtype == colours.dtype
    points = pd.Series(NestedArrowArray(pa.array([{"x": 1}, {"x": 2}])))
    assert points.struct.field("x").dtype == pd.ArrowDtype(pa.int64())
    lists = pd.Series(NestedArrowArray(pa.array([[1, 2], []])))
    assert lists.list.len().tolist() == [2, 0]


def test_meta_has_the_dtypes_of_the_data(table: pa.Table, frame: pd.DataFrame) -> None:
    meta = empty_frame(table.schema)
    assert len(meta) == 0
    assert meta.dtypes.to_dict() == frame.dtypes.to_dict()


# -- Dask, one process -------------------------------------------------------------------------------------


def _halves(ddf: dd.DataFrame) -> Any:
    return dd.concat([ddf.partitions[:2], ddf.partitions[2:]])


def _merged(ddf: dd.DataFrame) -> Any:
    right = dd.from_pandas(
        to_frame(pa.table({"row": pa.array(range(ROWS)), "extra": pa.array(range(ROWS))})), 3
    )
    return ddf.merge(right, on="row").drop(columns="extra")


OPERATIONS: dict[str, Any] = {
    "compute": lambda ddf: ddf,
    "filter": lambda ddf: ddf[ddf.row >= 0],
    "concat": _halves,
    "merge": _merged,
    "sort_values": lambda ddf: ddf.sort_values("row", ascending=False),
    "set_index": lambda ddf: ddf.set_index("row", drop=False).reset_index(drop=True),
    "repartition": lambda ddf: ddf.repartition(npartitions=2),
    "tasks_shuffle": lambda ddf: ddf.shuffle("row", shuffle_method="tasks"),
    "disk_shuffle": lambda ddf: ddf.shuffle("row", shuffle_method="disk"),
    "map_partitions": lambda ddf: ddf.map_partitions(lambda part: part),
    "assign": lambda ddf: ddf.assign(row=ddf.row + 0),
    "convert_strings": lambda ddf: dd.from_pandas(ddf.compute(), npartitions=3),
}


@pytest.mark.parametrize(
    "operation",
    [pytest.param(n, marks=pytest.mark.slow) if n in ("merge", "disk_shuffle") else n for n in OPERATIONS],
)
def test_dtypes_and_values_survive(operation: str, ddf: dd.DataFrame, table: pa.Table) -> None:
    with dask.config.set(scheduler="sync"):
        result = OPERATIONS[operation](ddf)
        assert result.dtypes.to_dict() == ddf.dtypes.to_dict()
        check(result.compute(), table)


def test_group_apply_keeps_dtypes(ddf: dd.DataFrame, table: pa.Table) -> None:
    columns = [name for name in table.column_names if name != "group"]
    with dask.config.set(scheduler="sync"):
        found = ddf.groupby("group")[columns].apply(_same, meta=ddf._meta[columns]).compute()
    check(found.reset_index(drop=True), table, without=("group",))


def _same(part: pd.DataFrame) -> pd.DataFrame:
    return part


def test_first_of_groups_keeps_dtypes(ddf: dd.DataFrame) -> None:
    chosen = ddf[["vector_float32", "struct", "list_string", "dictionary_int8", "group"]]
    with dask.config.set(scheduler="sync"):
        found = chosen.groupby("group").first().compute()
    assert {name: found.dtypes[name] for name in found} == {name: ddf.dtypes[name] for name in found}
    assert len(found) == 7


def test_group_by_dictionary_counts_values(ddf: dd.DataFrame, table: pa.Table) -> None:
    with dask.config.set(scheduler="sync"):
        found = ddf.groupby("dictionary_int8").row.count().compute().to_dict()
    expected = pd.Series(table["dictionary_int8"].to_pylist()).value_counts().to_dict()
    assert found == expected


def test_left_merge_makes_nulls_of_nested_columns(ddf: dd.DataFrame) -> None:
    left = dd.from_pandas(to_frame(pa.table({"row": pa.array(range(ROWS + 5))})), 2)
    with dask.config.set(scheduler="sync"):
        found = left.merge(ddf, on="row", how="left").compute().sort_values("row")
    assert found.dtypes["vector_float32"] == ddf.dtypes["vector_float32"]
    assert found["vector_float32"].iloc[ROWS:].isna().all()


@pytest.mark.parametrize("reduction", ["sum", "mean", "min", "max"])
def test_decimals_reduce_exactly(reduction: str) -> None:
    values = pa.array([1, 20, None, 300], pa.decimal128(12, 3))
    ddf = dd.from_pandas(to_frame(pa.table({"d": values})), npartitions=2)
    with dask.config.set(scheduler="sync"):
        found = getattr(ddf.d, reduction)().compute()
    assert found == {"sum": 321, "mean": 107, "min": 1, "max": 300}[reduction]


@pytest.mark.parametrize("column", ["date32", "time_us", "duration_us", "timestamp_us"])
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_times_reduce(ddf: dd.DataFrame, table: pa.Table, column: str, reduction: str) -> None:
    with dask.config.set(scheduler="sync"):
        found = getattr(ddf[column], reduction)().compute()
    known = [v for v in table[column].to_pylist() if v is not None]
    assert found == {"min": min, "max": max}[reduction](known)


# Parquet has fewer types than Arrow, and pyarrow writes decimals without naming the dtype.
PARQUET_CHANGES = ("date64", "time_s", "timestamp_s", "duration_s", "decimal", "decimal_wide", "decimal256")
PARQUET_REFUSES = ("decimal_negative_scale",)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_parquet_round_trip_keeps_dtypes(ddf: dd.DataFrame, table: pa.Table, tmp_path: Path) -> None:
    kept = table.drop_columns([c for c in table.column_names if c in PARQUET_REFUSES])
    with dask.config.set(scheduler="sync"):
        ddf[kept.column_names].to_parquet(tmp_path / "t")
        found = dd.read_parquet(tmp_path / "t").compute()
    check(found, kept, without=PARQUET_CHANGES)


# -- clusters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["p2p", "tasks"])
def test_shuffle_on_a_cluster_keeps_dtypes_and_values(
    client: Client, method: str, frame: pd.DataFrame, table: pa.Table
) -> None:
    ddf = dd.from_map(cut_frame(frame, 4), range(4), meta=frame.iloc[:0])
    found = client.compute(ddf.shuffle("row", shuffle_method=method)).result(timeout=270)
    check(found, table)


def test_join_on_a_cluster_keeps_dtypes_and_values(
    client: Client, frame: pd.DataFrame, table: pa.Table
) -> None:
    ddf = dd.from_map(cut_frame(frame, 4), range(4), meta=frame.iloc[:0])
    right = dd.from_pandas(
        to_frame(pa.table({"row": pa.array(range(ROWS)), "extra": pa.array(range(ROWS))})), 3
    )
    joined = ddf.merge(right, on="row", shuffle_method="p2p").drop(columns="extra")
    check(client.compute(joined).result(timeout=270), table)
