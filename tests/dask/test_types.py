"""A Lance table of every type through whatever moves rows between partitions, on both kinds of cluster.

All operations of one cluster are one test: what costs time is the cluster, not the 43 rows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.dask.dtypes import to_frame
from tests.dask.frames import from_frame
from tests.helpers.compare import assert_tables_equal
from tests.helpers.golden import golden

PATH = golden("14.0.2_v22_types").path
# Parquet has fewer types than Arrow, and pyarrow writes decimals without naming their dtype.
PARQUET_CHANGES = ("date64", "time_s", "timestamp_s", "duration_s", "decimal", "decimal_wide", "decimal256")
PARQUET_REFUSES = ("decimal_negative_scale",)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Every type, 80 columns; ``id`` is unique."""
    return lancecy.dataset(PATH).to_table()


@pytest.fixture
def ddf() -> dd.DataFrame:
    """The same, a partition per fragment."""
    return lancecy.scan(PATH, blocksize=None)


def _check(found: pd.DataFrame, table: pa.Table, without: tuple[str, ...] = ()) -> None:
    """The same rows in any order, in columns of the same dtypes."""
    kept = table.drop_columns([name for name in without if name in table.column_names])
    wanted = to_frame(kept)
    found = found.sort_values("id")[kept.column_names]
    assert found.dtypes.to_dict() == wanted.dtypes.to_dict()
    wanted = wanted.sort_values("id")
    assert_tables_equal(from_frame(found, kept.schema), from_frame(wanted, kept.schema))


def _merged(ddf: dd.DataFrame) -> Any:
    ids = ddf.id.compute(scheduler="sync")
    right = dd.from_pandas(pd.DataFrame({"id": ids, "extra": np.arange(len(ids))}).reset_index(drop=True), 2)
    return ddf.merge(right, on="id", shuffle_method="p2p").drop(columns="extra")


def _grouped(ddf: dd.DataFrame) -> Any:
    columns = list(ddf.columns)
    groups = ddf.assign(group=ddf.id // 7).groupby("group")[columns]
    return groups.apply(_same, meta=ddf._meta).reset_index(drop=True)


def _same(part: pd.DataFrame) -> pd.DataFrame:
    return part


OPERATIONS: dict[str, Callable[[dd.DataFrame], Any]] = {
    "p2p shuffle": lambda ddf: ddf.shuffle("id", shuffle_method="p2p"),
    "tasks shuffle": lambda ddf: ddf.shuffle("id", shuffle_method="tasks"),
    "merge": _merged,
    "sort": lambda ddf: ddf.sort_values("id", ascending=False),
    "groups": _grouped,
    "set_index": lambda ddf: ddf.set_index("id", drop=False).reset_index(drop=True),
    "filter": lambda ddf: ddf[ddf.id >= 0],
}


@pytest.mark.slow
def test_every_type_moves_between_partitions(client: Client, ddf: dd.DataFrame, table: pa.Table) -> None:
    assert ddf.npartitions > 1
    # One after the other: until Python 3.12 a cached property locks its whole class, so that Dask planning here
    # and its scheduler, in another thread of this process, can wait for each other for ever.
    for operation, use in OPERATIONS.items():
        try:
            _check(client.compute(use(ddf)).result(timeout=270), table)
        except AssertionError as error:
            raise AssertionError(f"{operation}: {error}") from error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_every_type_goes_to_parquet_and_back(
    process_client: Client, ddf: dd.DataFrame, table: pa.Table, tmp_path: Path
) -> None:
    kept = table.drop_columns([c for c in PARQUET_REFUSES if c in table.column_names])
    written = ddf[kept.column_names].shuffle("id").to_parquet(tmp_path / "t", compute=False)
    process_client.compute(written).result(timeout=270)
    back = dd.read_parquet(tmp_path / "t")
    _check(process_client.compute(back).result(timeout=270), kept, without=PARQUET_CHANGES)


# -- frames without lancecy's dtype ------------------------------------------------------------------------------

COLUMNS = [
    "id",
    "vector_float32",
    "list_string",
    "struct",
    "dictionary_int8",
    "binary",
    "decimal",
    "string",
    "int8",
]


def test_plain_frames_have_pandas_dtypes_and_the_same_values(ddf: dd.DataFrame, table: pa.Table) -> None:
    found = lancecy.plain(ddf)
    computed = found.compute(scheduler="sync")
    assert found.dtypes.to_dict() == computed.dtypes.to_dict()
    assert not [t for t in computed.dtypes if str(t).startswith("lancecy[")]
    assert str(computed.dtypes["vector_float32"]) == "fixed_size_list<item: float>[5][pyarrow]"
    assert str(computed.dtypes["string"]) == "string"
    assert_tables_equal(from_frame(computed, table.schema), from_frame(to_frame(table), table.schema))
    assert computed.index.equals(ddf.compute(scheduler="sync").index)


def test_plain_takes_series_and_pandas(ddf: dd.DataFrame) -> None:
    series = lancecy.plain(ddf.vector_float32)
    assert str(series.dtype) == "fixed_size_list<item: float>[5][pyarrow]"
    assert series.compute(scheduler="sync").dtype == series.dtype
    frame = ddf[COLUMNS].compute(scheduler="sync")
    assert lancecy.plain(frame).dtypes["struct"] == pd.ArrowDtype(frame.dtypes["struct"].pyarrow_dtype)
    assert lancecy.plain(frame[["id"]]).equals(frame[["id"]])
    with pytest.raises(TypeError, match="not a list"):
        lancecy.plain([1])


READ_ELSEWHERE = """
import sys
import pandas as pd
import pyarrow.parquet as pq
assert b"lancecy" not in pq.read_schema(sys.argv[1] + "/part.0.parquet").metadata[b"pandas"]
frame = pd.read_parquet(sys.argv[1], dtype_backend="pyarrow").sort_values("id")
assert "lancecy" not in sys.modules
print(len(frame), frame.dtypes["vector_float32"], list(frame["list_string"].iloc[2]), sep="|")
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_parquet_of_plain_frames_is_read_without_lancecy(
    ddf: dd.DataFrame, table: pa.Table, tmp_path: Path
) -> None:
    found = lancecy.plain(ddf[COLUMNS])
    found.to_parquet(tmp_path / "t", compute_kwargs={"scheduler": "sync"})
    arguments = [sys.executable, "-c", READ_ELSEWHERE, str(tmp_path / "t")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=tmp_path)
    rows, kind, words = done.stdout.strip().split("|")
    assert (int(rows), kind) == (table.num_rows, "fixed_size_list<element: float>[5][pyarrow]")
    assert words == str(table.sort_by("id")["list_string"][2].as_py())
