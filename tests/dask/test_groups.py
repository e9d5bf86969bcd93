"""Groups, distinct values and joins over many partitions: each value is one value, whichever partition it comes from."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.dask.dtypes import FlatArrowArray, FlatArrowDtype, pandas_array
from tests.helpers.tables import all_types, all_types_table

pytestmark = pytest.mark.slow

ROWS, PER_FILE = 101, 20
# Every way in which pandas hashes; it cannot group by nested columns, nor by half floats, which Arrow does not sort.
KEYS = {
    name: all_types()[name]
    for name in (
        *("bool", "int64", "float32", "decimal", "date32", "timestamp_utc", "string", "binary"),
        *("dictionary_int8", "dictionary_of_int32"),
    )
}


def _keys(kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Few values and some nulls, of which only every other fragment has any; dictionaries differ by fragment."""
    known = all_types_table(60, nulls=0.0, types={"v": kind})["v"]
    values = known.take(pa.array(range(7))).to_pylist()
    dice = np.random.default_rng(5)
    chunks = []
    for start in range(0, rows, PER_FILE):
        count = min(PER_FILE, rows - start)
        codes = dice.permutation(np.arange(count) % len(values))
        has_nulls = start // PER_FILE % 2 == 0
        picked = [None if has_nulls and code == 3 else values[code] for code in codes]
        chunks.append(pa.array(picked, kind))
    return pa.chunked_array(chunks, kind)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dd.DataFrame]:
    """The table whose column ``v`` has a type, over six partitions."""
    folder = tmp_path_factory.mktemp("groups")

    def scan(name: str) -> dd.DataFrame:
        place = folder / f"{name}.lance"
        if not place.exists():
            table = pa.table({"v": _keys(KEYS[name], ROWS), "row": pa.array(np.arange(ROWS))})
            lancecy.write_dataset(table, str(place), max_rows_per_file=PER_FILE)
        return lancecy.scan(str(place), blocksize=None)

    return scan


def _counts(values: Any) -> Counter[object]:
    return Counter(None if pd.isna(v) else v for v in values.astype(object))


QUERIES: dict[str, Callable[[dd.DataFrame], Any]] = {
    "groups split": lambda t: t.groupby("v").row.count(split_out=3),
    "groups with nulls": lambda t: t.groupby("v", dropna=False).row.count(split_out=2),
    "observed groups": lambda t: t.groupby("v", observed=True).row.count(),
    "values split": lambda t: t.v.value_counts(split_out=3),
}


@pytest.mark.parametrize(
    "name", [n if n in ("decimal", "binary") else pytest.param(n, marks=pytest.mark.slow) for n in KEYS]
)
def test_each_value_is_one_group_over_many_partitions(
    name: str, scans: Callable[[str], dd.DataFrame]
) -> None:
    ddf = scans(name)
    with dask.config.set(scheduler="sync"):
        whole = ddf.v.compute()
        everything = _counts(whole)
        known = Counter({value: count for value, count in everything.items() if value is not None})
        for label, query in QUERIES.items():
            found = query(ddf).compute()
            counted = list(zip(found.index.astype(object), found.tolist(), strict=True))
            wanted = everything if label == "groups with nulls" else known
            assert {None if pd.isna(k) else k: n for k, n in counted} == wanted, label
            assert len(counted) == len(wanted), label
        assert _counts(ddf.v.unique().compute()) == Counter(list(everything))
        assert ddf.v.nunique().compute() == len(known)


@pytest.mark.parametrize(
    ("name", "method"), [("bool", "disk"), ("int64", "tasks"), ("dictionary_int8", "tasks")]
)
def test_equal_values_meet_in_one_partition(
    name: str, method: str, scans: Callable[[str], dd.DataFrame]
) -> None:
    ddf = scans(name)
    with dask.config.set(scheduler="sync"):
        parts = [p.compute() for p in ddf.shuffle("v", npartitions=5, shuffle_method=method).partitions]
        left, right = ddf[ddf.v.notnull()], ddf[ddf.row < 2 * PER_FILE].rename(columns={"row": "other"})
        merged = left.merge(right[right.v.notnull()], on="v", shuffle_method=method).compute()
    places: dict[object, int] = {}
    for number, part in enumerate(parts):
        for value in part.v.astype(object).unique():
            assert places.setdefault(None if pd.isna(value) else value, number) == number
    whole = pd.concat(parts)
    expected = whole[whole.v.notnull()].merge(whole[whole.row < 2 * PER_FILE][["v"]].dropna(), on="v")
    assert len(merged) == len(expected)


@pytest.mark.parametrize("name", ["bool", "int64"])
def test_equal_values_meet_again_after_a_shuffle_of_a_cluster(
    client: Client, name: str, scans: Callable[[str], dd.DataFrame]
) -> None:
    ddf = scans(name)
    moved = ddf.shuffle("row", shuffle_method="p2p", npartitions=9)
    found = client.compute(moved.groupby("v").row.count(split_out=3)).result(timeout=270)
    whole = ddf.v.compute(scheduler="sync")
    assert found.sort_index().to_dict() == whole.value_counts().sort_index().to_dict()
    assert isinstance(client.compute(moved).result(timeout=270).dtypes["v"], FlatArrowDtype)


def test_totals_of_partitions_may_be_null(tmp_path: Path) -> None:
    lancecy.write_dataset({"x": [1.5, 2.0, None, 4.0]}, tmp_path / "t", max_rows_per_file=1)
    ddf = lancecy.scan(tmp_path / "t", blocksize=1)
    total = ddf.x.reduction(lambda x: x.sum(min_count=1), aggregate=lambda x: x.sum())
    assert total.compute(scheduler="sync") == 7.5


def test_masks_and_parts_of_dates_are_one_group_too(tmp_path: Path) -> None:
    times = pa.array([None if i < 3 else i * 20_000_000 for i in range(60)], pa.timestamp("s"))
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(
        pa.table({"ts": times, "x": pa.array(np.arange(60.0))}), place, max_rows_per_file=20
    )
    ddf = lancecy.scan(place, blocksize=None)
    with dask.config.set(scheduler="sync"):
        for key in (
            ddf.ts.dt.year,
            ddf.ts > pd.Timestamp("1980-01-01"),
            (ddf.x + ddf.x).astype("int64[pyarrow]"),
        ):
            whole = key.compute()
            assert key.nunique().compute() == whole.nunique()
            assert len(key.value_counts(split_out=3).compute()) == whole.nunique()


@pytest.mark.parametrize("name", [n for n, kind in all_types().items() if not pa.types.is_nested(kind)])
def test_a_value_has_one_hash_beside_nulls_and_in_chunks(name: str) -> None:
    kind = all_types()[name]
    values = all_types_table(9, nulls=0.0, types={"v": kind})["v"].combine_chunks()
    alone = pd.util.hash_array(pandas_array(values))
    chunks = [pa.nulls(1, kind), values[:4], pa.nulls(1, kind), values[4:]]
    beside = pd.util.hash_array(pandas_array(pa.chunked_array(chunks)))
    assert [*beside[1:5], *beside[6:]] == alone.tolist()
    assert beside[0] == beside[5] == pd.util.hash_array(pandas_array(pa.nulls(1, kind)))[0]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        assert alone.tolist() == pd.util.hash_array(values.to_numpy(zero_copy_only=False)).tolist()


@pytest.mark.parametrize(("kind", "first"), [(pa.int64(), 2**53), (pa.uint64(), 2**63)], ids=str)
def test_great_integers_beside_a_null_stay_distinct(kind: pa.DataType, first: int) -> None:
    series = pd.Series(pandas_array(pa.array([first, first + 1, None, first + 2, first + 1, None], kind)))
    assert series.duplicated().tolist() == [False, False, False, False, True, True]
    assert series.duplicated("last").tolist() == [False, True, True, False, False, False]
    assert (len(series.drop_duplicates()), len(series.unique()), series.nunique()) == (4, 4, 3)
    frame = pd.DataFrame({"v": series, "w": 1})
    assert (len(frame[["v"]].drop_duplicates()), len(frame.groupby("v"))) == (4, 3)
    with dask.config.set(scheduler="sync"):
        ddf = dd.from_pandas(frame, 2)
        assert (ddf.v.nunique().compute(), len(ddf.v.unique().compute())) == (3, 4)


def test_flat_dtype_is_taken_for_that_of_pandas() -> None:
    mine, theirs = FlatArrowDtype(pa.int64()), pd.ArrowDtype(pa.int64())
    assert (mine == theirs, theirs == mine, mine == "int64[pyarrow]", str(mine)) == (
        True,
        True,
        True,
        str(theirs),
    )
    assert hash(mine) == hash(theirs)
    assert mine != pd.ArrowDtype(pa.int32())
    assert type(pickle.loads(pickle.dumps(mine))) is FlatArrowDtype
    series = pd.Series(pandas_array(pa.array([1, 2, None])))
    for result in (series + 1, series.head(2), pd.concat([series, series]), series / 2, series > 1, -series):
        assert isinstance(result.array, FlatArrowArray), result


def test_functions_of_numpy_give_arrow_columns() -> None:
    series = pd.Series(pandas_array(pa.array([1.0, 4.0, None])))
    for function in (np.sqrt, np.isnan, np.floor):
        found, expected = (
            function(series),
            function(pd.Series(series.array._pa_array, dtype="double[pyarrow]")),
        )
        assert found.dtype == expected.dtype
        assert found.astype(object).isna().tolist() == expected.astype(object).isna().tolist()
    assert isinstance(np.add(series, series).array, FlatArrowArray)


def test_groups_of_floats_with_nulls_and_nan_are_found_over_chunks() -> None:
    chunks = [pa.array([1.0, float("nan"), None]), pa.array([float("nan"), 1.0, None])]
    series = pd.Series(pandas_array(pa.chunked_array(chunks)))
    assert series.groupby(series, dropna=False).size().tolist() == [2, 2, 2]


TOTALS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda d: d.v.sum(),
    "product": lambda d: d.v.prod(),
    "mean": lambda d: d.v.mean(),
    "in steps": lambda d: d.v.sum(**({"split_every": 2} if hasattr(d, "dask") else {})),
    "with nulls": lambda d: d.v.sum(skipna=False),
    "filtered": lambda d: d[d.k * 2 > 2].v.sum(),
    "without NaN": lambda d: d.row.sum() + d[d.k == 2].v.sum(),
    "of arithmetic": lambda d: (d.v * 2).sum(),
    "of a frame": lambda d: d[["v"]].sum(),
    "of several columns": lambda d: d[["v", "row"]].sum(),
    "products of several columns": lambda d: d[["v", "row"]].prod(),
    "means of several columns": lambda d: d[["v", "row"]].mean(),
    "sums of groups": lambda d: d.groupby("k").v.sum(),
    "products of groups": lambda d: d.groupby("k").v.prod(),
    "variances of groups": lambda d: d.groupby("k").v.var(),
    "of groups": lambda d: d.groupby("k").agg({"v": ["sum", "mean", "count"], "row": "sum"}),
}  # fmt: skip


@pytest.mark.parametrize("is_optimised", [True, False])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_in_one_partition_is_in_the_totals(kind: pa.DataType, is_optimised: bool, tmp_path: Path) -> None:
    values = pa.array([float("nan"), 1.0, 2.0, 3.0, None, 4.0, None, None, None, 5.0], kind)
    table = pa.table({"v": values, "k": [1, 1, 2, 2, 1, 2, 3, 3, 3, 2], "row": np.arange(10.0)})
    lancecy.write_dataset(table, tmp_path / "t.lance", max_rows_per_file=2)
    with dask.config.set({"scheduler": "sync", "lancecy.dask-expr": is_optimised}):
        parted, whole = (lancecy.scan(tmp_path / "t.lance", blocksize=size) for size in (None, "1MiB"))
        expected = {name: use(whole.compute()) for name, use in TOTALS.items()}
        assert np.isnan(expected["sum"])
        for name, use in TOTALS.items():
            for ddf in (parted, whole):
                assert _shown(use(ddf).compute()) == _shown(expected[name]), name
        assert type(parted.v.sum()._meta) is np.float64


def _shown(found: Any) -> Any:
    """A number, or the rows of a frame, in which NaN and null differ and equal themselves."""
    if isinstance(found, pd.DataFrame | pd.Series):
        return str(found.sort_index().to_numpy(dtype=object).tolist())
    return str(found)


def test_total_is_a_number_like_others() -> None:
    total = pd.Series(pandas_array(pa.array([1.0, 2.5]))).sum()
    assert isinstance(total, float) and pd.api.types.is_scalar(total)
    assert (total, hash(total), repr(total + 1)) == (3.5, hash(3.5), "np.float64(4.5)")
    assert type(pickle.loads(pickle.dumps(total))) is type(total)
    assert np.array([total, 1]).tolist() == [3.5, 1.0]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_of_both_signs_are_one_group_and_so_are_all_nans(kind: pa.DataType, tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, np.nan, np.copysign(np.nan, -1.0), 1.5, 1.5], kind.to_pandas_dtype())
    table = pa.table({"v": pa.array(values), "row": pa.array(range(6))})
    lancecy.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=1)
    ddf = lancecy.scan(str(tmp_path / "t.lance"), blocksize=None)
    with dask.config.set(scheduler="sync"):
        for found in (
            ddf.v.value_counts(dropna=False).compute(),
            ddf.v.value_counts(dropna=False, split_out=3).compute(),
            ddf.groupby("v", dropna=False).row.count(split_out=2).compute(),
        ):
            assert found.tolist() == [2, 2, 2]
        assert len(ddf.v.unique().compute()) == len(ddf[["v"]].drop_duplicates(split_out=2).compute()) == 3
        other = dd.from_pandas(pd.DataFrame({"v": ddf.v.compute()}).iloc[:1], npartitions=1)
        assert len(ddf.merge(other, on="v", shuffle_method="tasks", broadcast=False).compute()) == 2


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_large_integers_beside_nulls_are_not_taken_for_duplicates(kind: pa.DataType, tmp_path: Path) -> None:
    values = [2**62 + 1, None, 2**62 + 2, 2**62 + 1, None, 2**62]
    lancecy.write_dataset(pa.table({"v": pa.array(values, kind)}), str(tmp_path / "t.lance"))
    ddf = lancecy.scan(str(tmp_path / "t.lance"))
    with dask.config.set(scheduler="sync"):
        assert len(ddf.drop_duplicates().compute()) == 4
    series = ddf.v.compute(scheduler="sync")
    assert series.duplicated().tolist() == [False, False, False, True, True, False]
    assert series.duplicated(keep="last").tolist() == [True, True, False, False, False, False]
    assert series.duplicated(keep=False).tolist() == [True, True, False, True, True, False]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_decoded_dictionaries_are_written_back_as_dictionaries(tmp_path: Path, mode: Any) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    table = pa.table(
        {
            "d": pa.array(["a", None, "b", "a"], kind),
            "n": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array([50, 7])),
            "l": pa.ListArray.from_arrays([0, 1, 1, 3, 4], pa.array(["x", "y", None, "x"], kind)),
            "s": pa.StructArray.from_arrays([pa.array(["p", "q", None, "p"], kind)], ["k"]),
        }
    )
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(table, place, max_rows_per_file=2)
    ddf = lancecy.scan(place, blocksize=None)
    assert [str(t) for t in ddf.dtypes] == [
        "string",
        "int64[pyarrow]",
        "lancecy[list<item: string>]",
        "lancecy[struct<k: string>]",
    ]
    schema = table.schema if mode == "overwrite" else None
    ds = lancecy.write_dask(ddf, place, mode=mode, schema=schema)
    assert [str(t) for t in ds.schema.types] == [str(t) for t in table.schema.types]
    times = 2 if mode == "append" else 1
    assert ds.to_table().to_pylist() == table.to_pylist() * times


def test_dictionaries_are_decoded_below_null_structs_and_where_they_are_empty() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    nothing = pa.array([None, {"k": None}], pa.struct({"k": kind}))
    column = pa.chunked_array([nothing, pa.array([{"k": "a"}, None], pa.struct({"k": kind}))])
    assert pa.array(pandas_array(column)).to_pylist() == [None, {"k": None}, {"k": "a"}, None]
    assert pa.array(pandas_array(pa.nulls(2, kind))).to_pylist() == [None, None]
    strict = pa.struct([pa.field("k", kind, False), pa.field("n", pa.int8(), False, metadata={"unit": "m"})])
    assert pa.array(pandas_array(pa.array([None, {"k": "a", "n": 1}], strict))).to_pylist() == [
        None,
        {"k": "a", "n": 1},
    ]
    lists = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array([[1], [2, 3]]))
    assert pa.array(pandas_array(lists)).to_pylist() == [[2, 3], None, [1]]


def test_plain_frames_are_unpickled_without_lancecy(tmp_path: Path) -> None:
    ddf = lancecy.scan("tests/golden/example.lance", columns=["id", "x", "vec"])
    frame = lancecy.plain(ddf).compute(scheduler="sync")
    code = "import pickle, sys; f = pickle.load(sys.stdin.buffer); print(len(f), 'lancecy' in sys.modules)"
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, input=pickle.dumps(frame), capture_output=True, check=True, cwd=tmp_path)
    assert done.stdout.decode().split() == ["1000", "False"]
