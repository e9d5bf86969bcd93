"""Sorting by times, and statistics of times and of columns with nulls, answer as pandas does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.dask.dtypes import to_frame
from tests.dask.frames import cut_frame

pytestmark = pytest.mark.slow

ROWS = 60
TIMES = {
    "second": pa.timestamp("s"),
    "micro": pa.timestamp("us"),
    "nano": pa.timestamp("ns"),
    "zoned": pa.timestamp("us", "Europe/Paris"),
    "lasting": pa.duration("ms"),
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Times in no order, a tenth of them null, and numbers with nulls."""
    shuffled = np.random.default_rng(5).permutation(ROWS)
    values = [None if n % 10 == 0 else int(n) * 86_400 for n in shuffled]
    numbers = [None if n % 7 == 0 else int(n) for n in shuffled]
    columns = {name: pa.array(values, pa.int64()).cast(kind) for name, kind in TIMES.items()}
    columns |= {
        "day": pa.array([None if v is None else v // 86_400 for v in values], pa.int32()).cast(pa.date32())
    }
    columns |= {"i": pa.array(numbers), "x": pa.array(numbers, pa.float32()), "row": pa.array(range(ROWS))}
    columns |= {"price": pa.array(numbers).cast(pa.decimal128(21, 2))}
    return pa.table(columns)


@pytest.fixture(scope="module")
def place(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("steps") / "t.lance")
    lancecy.write_dataset(table, place, max_rows_per_file=15)
    return place


@pytest.fixture(params=[True, False], ids=["optimised", "plain"])
def ddf(place: str, request: pytest.FixtureRequest) -> Any:
    with dask.config.set({"scheduler": "sync", "lancecy.dask-expr": request.param}):
        yield lancecy.scan(place, blocksize=None)


def values(column: pd.Series) -> list[Any]:
    return [None if value is pd.NA or value is pd.NaT else value for value in column.tolist()]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("name", [*TIMES, "day"])
def test_rows_are_sorted_by_times(ddf: dd.DataFrame, table: pa.Table, name: str, ascending: bool) -> None:
    found = ddf.sort_values(name, ascending=ascending)[["row", name]].compute()
    expected = to_frame(table).sort_values(name, ascending=ascending)
    assert values(found[name]) == values(expected[name])
    assert found[name].dtype == expected[name].dtype
    assert sorted(found["row"]) == list(range(ROWS))


@pytest.mark.parametrize("name", TIMES)
def test_times_are_labels(ddf: dd.DataFrame, table: pa.Table, name: str) -> None:
    found = ddf.dropna(subset=[name]).set_index(name)[["row"]]
    expected = to_frame(table).dropna(subset=[name]).set_index(name)[["row"]].sort_index()
    assert found.known_divisions
    pd.testing.assert_frame_equal(found.compute(), expected)
    low, high = expected.index[9], expected.index[30]
    pd.testing.assert_frame_equal(found.loc[low:high].compute(), expected.loc[low:high])


@pytest.mark.parametrize("name", [*TIMES, "day"])
def test_times_are_described(ddf: dd.DataFrame, table: pa.Table, name: str) -> None:
    found = ddf[name].describe().compute()
    expected = to_frame(table)[name].describe()
    assert found["count"] == expected["count"]
    if name != "lasting":  # for Dask a column of other values
        ends = [pd.Timestamp(expected[end]) for end in ("min", "max")]
        assert [pd.Timestamp(found[end]) for end in ("min", "max")] == [_naive(end) for end in ends]
        assert found["min"] <= found["25%"] <= found["50%"] <= found["75%"] <= found["max"]


def _naive(instant: pd.Timestamp) -> pd.Timestamp:
    return instant if instant.tz is None else instant.tz_convert("UTC").tz_localize(None)


def test_whole_frames_are_described(ddf: dd.DataFrame) -> None:
    assert {"second", "micro", "nano", "day", "i", "x", "row"} <= set(ddf.describe().compute().columns)


SPREADS: dict[str, Callable[[Any], Any]] = {
    "std": lambda d: d[["i", "x", "row"]].std(),
    "var": lambda d: d[["i", "row"]].var(),
    "std of decimals": lambda d: d[["price", "row"]].std(),
    "std of durations": lambda d: d[["lasting", "i"]].std(),
    "std of a duration": lambda d: d[["lasting"]].std(),
    "std of all": lambda d: d.drop(columns=["lasting"]).std(numeric_only=True),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spread_of_columns_with_nulls(ddf: dd.DataFrame, table: pa.Table, name: str) -> None:
    found, expected = SPREADS[name](ddf).compute(), SPREADS[name](to_frame(table))
    assert list(found.index) == list(expected.index)
    for column, value in expected.items():
        other = found[column]
        if isinstance(value, pd.Timedelta):
            assert abs(other - value) < pd.Timedelta("1ms")
        else:
            assert float(other) == pytest.approx(float(value), rel=1e-6)


def test_frames_without_lancecys_dtypes_are_left_to_dask() -> None:
    data = pd.DataFrame({"t": pd.date_range("2024", periods=8)[::-1], "x": [1.0, np.nan] * 4, "y": range(8)})
    ddf = dd.from_pandas(data, npartitions=2, sort=False)
    with dask.config.set(scheduler="sync"):
        assert ddf.sort_values("t").compute()["y"].tolist() == list(range(8))[::-1]
        assert ddf[["x", "y"]].sum().compute().to_dict() == {"x": 4.0, "y": 28.0}
    assert "lancecy" not in repr(dict(ddf.sort_values("t").optimize().__dask_graph__()))


@pytest.mark.parametrize("method", ["p2p", "tasks"])
def test_times_are_labels_on_a_cluster(client: Client, table: pa.Table, method: str) -> None:
    frame = to_frame(table)
    ddf = dd.from_map(cut_frame(frame, 4), range(4), meta=frame.iloc[:0]).dropna(subset=["zoned"])
    with dask.config.set({"scheduler": client.get}):
        labelled = ddf.set_index("zoned", shuffle_method=method)[["row"]]
        found = client.compute(labelled).result(timeout=270)
    pd.testing.assert_frame_equal(
        found, frame.dropna(subset=["zoned"]).set_index("zoned")[["row"]].sort_index()
    )
