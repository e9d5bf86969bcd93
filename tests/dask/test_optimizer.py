"""The optimiser changes what is read and nothing else: every expression is computed with it and without."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.base import is_dask_collection

import lancecy
from lancecy.dask.optimizer import LanceScan
from tests.interop.live import peer, write

pytestmark = pytest.mark.interop

ROWS = 900


@pytest.fixture(autouse=True)
def _sync() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


def _column(rng: np.random.Generator, values: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(
        [None if absent else value for value, absent in zip(values, rng.random(ROWS) < 0.15)], type=kind
    )


def _table() -> pa.Table:
    """Few distinct values of many types, a seventh of them null: every comparison has rows on both sides."""
    rng = np.random.default_rng(3)
    small = rng.integers(-100, 100, ROWS).tolist()
    wide = rng.choice([0, 1, 5, -7, 2**53, 2**53 + 1, -(2**63), 2**63 - 1], ROWS).tolist()
    floats = rng.choice([0.0, -0.0, 0.1, 0.5, -2.25, np.nan, np.inf, -np.inf, 3.0, 1e300], ROWS)
    halves = np.where(abs(floats) > 1e100, 3.0, floats).astype(np.float32).tolist()
    base = dt.datetime(2024, 1, 1)
    hours = [base + dt.timedelta(hours=value) for value in small]
    columns: dict[str, tuple[Any, pa.DataType]] = {
        "i8": (small, pa.int8()),
        "i64": (wide, pa.int64()),
        "u8": ([value % 200 for value in small], pa.uint8()),
        "u64": ([abs(value) for value in wide], pa.uint64()),
        "f64": (floats.tolist(), pa.float64()),
        "f32": (halves, pa.float32()),
        "f16": ([np.float16(value % 3) for value in small], pa.float16()),
        "b": ([value > 0 for value in small], pa.bool_()),
        "s": (rng.choice(["", "a", "B", "ab", "é", "10"], ROWS).tolist(), pa.string()),
        "dec": ([Decimal(value) / 4 for value in small], pa.decimal128(9, 2)),
        "bin": ([bytes([value % 5]) for value in small], pa.binary()),
        "fsb": ([bytes([value % 5] * 4) for value in small], pa.binary(4)),
        "ts": (hours, pa.timestamp("us")),
        "tns": (hours, pa.timestamp("ns")),
        "tz": (hours, pa.timestamp("us", "Europe/Berlin")),
        "day": ([value.date() for value in hours], pa.date32()),
        "time": ([value.time() for value in hours], pa.time64("us")),
        "dur": ([dt.timedelta(minutes=value) for value in small], pa.duration("us")),
        "cat": (rng.choice(["red", "blue"], ROWS).tolist(), pa.string()),
        "vec": ([[value, 1] for value in small], pa.list_(pa.float32(), 2)),
        "rank": (rng.permutation(ROWS).tolist(), pa.int32()),
    }
    made = {name: _column(rng, values, kind) for name, (values, kind) in columns.items()}
    made["cat"] = made["cat"].dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    return pa.table({**made, "row": pa.array(range(ROWS))})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments with nulls everywhere and rows deleted here and there."""
    place = str(tmp_path_factory.mktemp("optimizer") / "t.lance")
    write(_table(), place, max_rows_per_file=300, data_storage_version="2.1")
    peer(place).delete("(row >= 310 AND row < 340) OR row % 37 = 5")
    return place


def _pair(path: str, **options: Any) -> tuple[dd.DataFrame, dd.DataFrame]:
    """The same scan with and without the optimiser."""
    optimised = lancecy.scan(path, **options)
    with dask.config.set({"lancecy.dask-expr": False}):
        return optimised, lancecy.scan(path, **options)


def _pushed(optimised: Any) -> str:
    """How much of the filters went into the read: "all", "some" or "none"."""
    above = any(True for _ in optimised.expr.find_operations(dd.dask_expr._expr.Filter))
    below = any(scan.source.is_filtered for scan in optimised.expr.find_operations(LanceScan))
    return {(False, True): "all", (True, True): "some", (True, False): "none"}[above, below]


# -- filters ---------------------------------------------------------------------------------------------------

NAMES = {"np": np, "pd": pd, "dt": dt, "Decimal": Decimal}

# Column -> what it is compared with that the reader takes, and that it leaves to pandas. ``!`` marks what pandas
# refuses: then both have to refuse.
COMPARED: dict[str, tuple[list[str], list[str]]] = {
    "i8": (["5", "300", "5.5", "np.int8(5)", "np.float32(0.5)", "float('inf')"], ["True", "'a'", "None", "pd.NA", "float('nan')", "Decimal('5')", "!2**70"]),
    "i64": (["5", "2**53 + 1", "2**63 - 1", "1.5"], ["2.0**53", "!2**63"]),
    "u8": (["5", "-1", "300"], []),
    "u64": (["5", "-1", "5.5", "2**53 - 1"], ["2**53 + 1"]),
    "f64": (["0.1", "0", "-0.0", "2**53", "float('inf')", "np.float32(0.1)"], ["float('nan')", "2**53 + 1", "'a'", "True"]),
    "f32": (["0.1", "np.float32(0.1)", "3", "2**24"], ["2**24 + 1"]),
    "f16": ([], ["0.5"]),
    "b": (["True", "np.bool_(False)"], ["1", "'a'"]),
    "s": (["'a'", "''", "'é'", "np.str_('a')"], ["10", "None", "b'a'"]),
    "dec": (["Decimal('2.25')", "Decimal('2.251')", "2"], ["2.25", "Decimal('nan')"]),
    "bin": (["b'\\x01'"], ["'a'"]),
    "fsb": ([], ["b'\\x01' * 4", "b'x'"]),
    "ts": (["pd.Timestamp('2024-01-02')", "dt.datetime(2024, 1, 2)", "np.datetime64('2024-01-02T00', 's')", "pd.Timestamp('2024-01-02T00:00:00.000000001')"], ["'2024-01-02'", "dt.date(2024, 1, 2)", "pd.Timestamp('2024-01-02', tz='UTC')", "pd.NaT", "dt.datetime(9000, 1, 1)", "np.datetime64('NaT')"]),
    "tns": (["dt.datetime(2024, 1, 2)"], ["dt.datetime(1500, 1, 1)"]),
    "tz": (["pd.Timestamp('2024-01-02', tz='Asia/Tokyo')", "dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)"], ["pd.Timestamp('2024-01-02')", "np.datetime64('2024-01-02T00', 's')"]),
    "day": (["dt.date(2024, 1, 2)"], ["dt.datetime(2024, 1, 2)", "'2024-01-02'"]),
    "time": ([], ["dt.time(0, 5)"]),
    "dur": (["dt.timedelta(minutes=5)", "pd.Timedelta('5min')", "np.timedelta64(300, 's')"], ["5"]),
    "cat": (["'red'", "'nope'"], ["5"]),
    "vec": ([], ["5"]),
}  # fmt: skip
EQUALITY_ONLY = ("b", "bin")


def _comparisons(column: str) -> Iterator[tuple[str, str | None]]:
    """Every way of comparing a column, and how much of each is pushed; None where pandas may refuse it."""
    taken, left = COMPARED[column]
    for index, value in enumerate([*taken, *left]):
        push = "all" if index < len(taken) else None if value.startswith("!") else "none"
        value = value.removeprefix("!")
        for op in ("==", "!=", "<", "<=", ">", ">=") if index == 0 else ("!=", "<", ">="):
            ordered = op not in ("==", "!=")
            yield f"d.{column} {op} {value}", "none" if ordered and column in EQUALITY_ONLY and push else push
        yield f"~(d.{column} == {value})", push
        if not value.startswith("np."):
            yield f"{value} == d.{column}", push
    yield f"d.{column}.isna()", "all"
    yield f"~d.{column}.notnull()", "all"


@pytest.mark.parametrize("column", COMPARED)
def test_comparisons_give_the_rows_of_pandas(path: str, column: str) -> None:
    """One test per column, many expressions in it: what costs time is Dask, not the table."""
    pair = _pair(path, columns=[column, "row"], blocksize=None)
    whole = pair[1].compute()
    for text, push in _comparisons(column):
        _assert_same(f"d[{text}]", pair, whole, push)


def _assert_same(text: str, pair: tuple[dd.DataFrame, dd.DataFrame], whole: Any, push: str | None) -> None:
    """The optimised scan gives the rows and labels that pandas selects from the table."""
    optimised, reference = pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas on comparisons of different types
        expected, lazy = _outcome(text, whole), _outcome(text, optimised, compute=False)
        found = lazy if isinstance(lazy, Exception) else _outcome("lazy", lazy)
        if isinstance(expected, Exception) or isinstance(found, Exception):
            expected = _outcome(text, reference)
            assert type(found) is type(expected), text
            return
    if push is not None:
        assert _pushed(lazy) == push, text
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, obj=text, check_column_type=False)
    else:
        pd.testing.assert_series_equal(found, expected, obj=text)


def _outcome(text: str, d: Any, compute: bool = True) -> Any:
    try:
        found = d if text == "lazy" else eval(text, NAMES, {"d": d})
        if not is_dask_collection(found):
            return found
        # Optimised once: what is computed is what _pushed looks at.
        return found.compute() if text == "lazy" or compute else found.optimize(fuse=False)
    except (TypeError, ValueError, OverflowError, NotImplementedError, pa.ArrowException) as error:
        return error


FILTERS: dict[str, str] = {
    "d[(d.i8 > 5) & (d.s == 'a')]": "all",
    "d[(d.i8 > 5) | (d.s == 'a')]": "all",
    "d[~((d.i8 > 5) | (d.s == 'a'))]": "all",
    "d[~((d.i8 > 5) & d.f64.notnull())]": "all",
    "d[((d.i8 > 50) | d.i8.isna()) & (d.f64 != 0.1)]": "all",
    "d[d.i8 > 5][d[d.i8 > 5].s == 'a']": "all",
    "d[d.b]": "all",
    "d[~d.b]": "all",
    "d[d.b & (d.i8 > 3)]": "all",
    "d[d.i8 == d.i8]": "all",
    "d[d.i8 == d.i64]": "none",
    "d[d.f64 != d.f64]": "all",
    "d[d.i8.between(-5, 5)]": "all",
    "d[d.i8.between(-5, 5, inclusive='left')]": "all",
    "d[d.f64.between(-5, float('nan'))]": "none",
    "d[d.i8.isin([1, 2, 5])]": "all",
    "d[~d.i8.isin([1, 2, 5])]": "all",
    "d[d.i8.isin([])]": "none",
    "d[d.i8.isin(range(3))]": "all",
    "d[d.u8.isin([1, -1])]": "none",
    "d[d.s.isin(['a', 'é'])]": "all",
    "d[~d.s.isin(['a', 'é'])]": "all",
    "d[d.s.isin(['a', None])]": "none",
    "d[d.f64.isin([0.1, 0.5])]": "all",
    "d[d.f64.isin([0.1, 0.0])]": "none",
    "d[d.f64.isin([0.1, float('nan')])]": "none",
    "d[d.f32.isin([0.1, 0.5])]": "none",
    "d[d.cat.isin(['red'])]": "all",
    "d[(d.i8 > 5) & (d.s.str.len() > 1)]": "some",
    "d[(d.i8 > 5) & (d.s.str.len() > 1) & (d.u8 < 100)]": "some",
    "d[(d.i8 > 5) & (d.i8 + d.u8 > 50)]": "some",
    "d[(d.i8 > 5) & d.day.dt.month.isin([1, 2])]": "some",
    "d[(d.i8 > 5) & (d.f16 == 0.5)]": "some",
    "d[(d.i8 > 5) & (d.u8 > d.u8.mean())]": "none",  # the mean is that of all rows
    "d[(d.i8 > 5) | (d.s.str.len() > 1)]": "none",
    "d[d.s.str.len() > 1]": "none",
    "d[(d.i8 > 5)][['row', 's']]": "all",
    "d[['row', 'i8']][d.i8 > 5]": "none",
    "d.row[d.i8 > 5]": "all",
    "d.i8[d.i8 > 5]": "all",
    "d.row[(d.i8 > 5) & (d.s.str.len() > 1)]": "none",
    "d[d.i8 > 5].row": "all",
    "d[d.i8 > 5].row + 1": "all",
    "d[d.i8 > 5].assign(y=d.u8)[['row', 'y']]": "none",
    "d[d.i8 > 5].sort_values('row', ascending=False)[['row']]": "all",
    "d[(d.i8 > 5)].row.to_frame()": "all",
}


@pytest.mark.parametrize("index", ["position", "rowid", None])
def test_filters_give_the_same_rows_and_labels(path: str, index: Any) -> None:
    pair = _pair(path, blocksize=None, index=index)
    whole = pair[1].compute()
    for text, push in FILTERS.items():
        columns = "" if "'row'" in text or ".row" in text or "i8[" in text else "[['row', 'i8']]"
        _assert_same(text + columns, pair, whole, push)


def test_filters_of_a_filtered_scan(path: str) -> None:
    # Ranks among the rows that passed are known once it has been seen which did.
    for options, push in (({}, "all"), ({"index": "rowid"}, "all"), ({"index": None}, "some")):
        pair = _pair(path, filter="i8 > -50", blocksize=None, **options)
        _assert_same("d[d.u8 < 100][['row']]", pair, pair[1].compute(), push)


def test_computed_and_renamed_columns_are_not_pushed(path: str) -> None:
    pair = _pair(path, columns={"row": "row", "s": "u8", "twice": "rank * 2"}, blocksize=None)
    whole = pair[1].compute()
    _assert_same("d[d.s > 5]", pair, whole, "none")
    _assert_same("d[d.twice > 5]", pair, whole, "none")
    _assert_same("d[d.row > 5]", pair, whole, "all")


def test_conditions_too_deep_for_the_reader_stay_above(path: str) -> None:
    pair = _pair(path, columns=["i8", "row"], blocksize=None)
    text = "d.i8 > 100"
    for value in range(80):
        text = f"({text} {'|' if value % 2 else '&'} (d.i8 != {value}))"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _assert_same(f"d[{text}]", pair, pair[1].compute(), "none")


def test_two_filters_share_one_read(path: str, reads: list[Any]) -> None:
    optimised, reference = _pair(path, blocksize=None)
    for d in (optimised, reference):
        reads.clear()
        found = (d[d.i8 > 5].row.sum() + d[d.i8 < -5].row.sum()).compute()
        assert len(reads) == d.npartitions
    assert found == (reference[reference.i8 > 5].row.sum() + reference[reference.i8 < -5].row.sum()).compute()


# -- what is read ------------------------------------------------------------------------------------------------

READS: dict[str, tuple[Any, tuple[str, ...] | None]] = {
    "mean of a column": (lambda d: d.i8.mean(), ("i8",)),
    "filter on another column": (lambda d: d[d.i8 > 5].u8.mean(), ("u8",)),
    "filtered column": (lambda d: d.u8[d.i8 > 5].mean(), ("u8",)),
    "condition in part": (lambda d: d[(d.i8 > 5) & (d.s.str.len() > 1)].u8.sum(), ("u8", "s")),
    "count of a filter": (lambda d: d[d.i8 > 5].index.size, ()),
    "groups": (lambda d: d[d.i8 > 5].groupby("s").u8.sum(), ("u8", "s")),
    "labels": (lambda d: d.index.max(), None),
    "labels of a filter": (lambda d: d[d.i8 > 5].index.max(), ()),
    "no columns": (lambda d: d[[]], None),
}


@pytest.mark.parametrize("name", READS)
def test_no_more_is_read_than_needed(path: str, reads: list[Any], name: str) -> None:
    use, columns = READS[name]
    optimised, reference = _pair(path, blocksize=None)
    found = use(optimised).compute()
    assert [set(names) for _, names in reads] == ([] if columns is None else [set(columns)] * 3)
    expected = use(reference).compute()
    if isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(found.sort_index(), expected.sort_index())
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    else:
        assert found == expected


LENGTHS: dict[str, Any] = {
    "frame": len,
    "column": lambda d: len(d.i8),
    "columns": lambda d: len(d[["i8", "s"]]),
    "partitions": lambda d: len(d.partitions[1:3]),
    "labels": lambda d: len(d.index),
    "shape": lambda d: d.shape[0].compute(),
    "size": lambda d: d.size.compute(),
    "size of a column": lambda d: d.i8.size.compute(),
    "new columns": lambda d: len(d.assign(y=d.i8 + 1)),
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("index", ["position", "rowid", None])
def test_lengths_come_from_metadata(path: str, reads: list[Any], name: str, index: Any) -> None:
    optimised, reference = _pair(path, blocksize=None, index=index)
    found = LENGTHS[name](optimised)
    assert reads == []
    assert found == LENGTHS[name](reference)
    assert len(lancecy.scan(path)) == lancecy.dataset(path).count_rows()


def test_length_has_no_task(path: str) -> None:
    lengths = dd.dask_expr._reductions.Len(lancecy.scan(path, blocksize=None)).optimize()
    assert isinstance(lengths, dd.dask_expr._expr.Literal)


@pytest.mark.parametrize(
    "use",
    [lambda d: len(d[d.i8 > 5]), lambda d: len(d[d.i8 > 5].s), lambda d: len(d.s[d.i8 > 5])],
    ids=["frame", "column of a filter", "filtered column"],
)
def test_lengths_of_filters_are_counted(path: str, reads: list[Any], use: Any) -> None:
    optimised, reference = _pair(path, blocksize=None)
    found = use(optimised)
    assert {names for _, names in reads} == {()}
    assert found == use(reference) == lancecy.dataset(path).count_rows("i8 > 5")


def test_length_of_a_filtered_scan_reads_no_column(path: str, reads: list[Any]) -> None:
    assert len(lancecy.scan(path, filter="i8 > 5", blocksize=None)) == lancecy.dataset(path).count_rows(
        "i8 > 5"
    )
    assert {names for _, names in reads} == {()}


HEADS: dict[str, tuple[Any, list[int]]] = {
    "frame": (lambda d: d.head(7, compute=False), [7]),
    "column": (lambda d: d.s.head(7, compute=False), [7]),
    "beyond deleted rows": (lambda d: d.partitions[1].head(50, compute=False), [50]),
    "arithmetic": (lambda d: (d.row + 1).head(7, compute=False), [7]),
    "two partitions": (lambda d: d.head(7, npartitions=2, compute=False), [7, 7]),
    "filter": (lambda d: d[d.i8 > 5].head(7, compute=False), [7]),
    "filter in pandas": (lambda d: d[d.s.str.len() > 1].head(7, compute=False), [292]),
    "more than there is": (lambda d: d.partitions[2].head(1000, compute=False), [292]),
    "none": (lambda d: d.head(0, compute=False), [0]),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("index", ["position", "rowid", None])
@pytest.mark.filterwarnings("ignore:Insufficient elements")
def test_head_reads_the_rows_it_shows(path: str, reads: list[Any], name: str, index: Any) -> None:
    use, rows = HEADS[name]
    optimised, reference = _pair(path, blocksize=None, index=index)
    found = use(optimised).compute()
    assert [count for count, _ in reads] == rows
    expected = use(reference).compute()
    same = pd.testing.assert_frame_equal if found.ndim == 2 else pd.testing.assert_series_equal
    same(found, expected)


# -- reading partitions together -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixty fragments, in which one column takes a small part of the bytes."""
    place = str(tmp_path_factory.mktemp("scattered") / "t.lance")
    rows = pa.table({"k": [i % 7 for i in range(600)], "row": range(600), "text": ["x" * 200] * 600})
    write(rows, place, max_rows_per_file=10, data_storage_version="2.0")
    peer(place).delete("row >= 100 AND row < 105")
    return place


TOGETHER: dict[str, Any] = {
    "mean": lambda d: d.row.mean(),
    "arithmetic": lambda d: ((d.row + 1) * d.k).sum(),
    "groups": lambda d: d.groupby("k").row.max(),
    "filter": lambda d: d[d.row > 300].k.mean(),
    "filter in pandas": lambda d: d[d.row + 1 > 300].k.sum(),
    "all rows": lambda d: d[["row"]],
    "all labels": lambda d: d[d.k > 3][["row"]],
    "some partitions": lambda d: d.partitions[3:50].row.mean(),
    "two sums": lambda d: d.row.sum() + d.k.sum(),
}
APART: dict[str, Any] = {
    "map_partitions": lambda d: d[["row"]].map_partitions(len),
    "map_partitions later": lambda d: (d.row + 1).map_partitions(len),
    "head": lambda d: d[["row"]].head(20, compute=False, npartitions=2),
    "sample": lambda d: d.row.sample(frac=0.2, random_state=1),
    "cumulated": lambda d: d.row.cumsum(),
    "reset labels": lambda d: d[["row"]].reset_index(),
    "memory": lambda d: d[["row"]].memory_usage(),
    "own reduction": lambda d: d.row.reduction(len, aggregate=lambda counts: counts),
    "one of two uses": lambda d: d.row.sum() + d.row.map_partitions(len).sum(),
}


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, pd.DataFrame | pd.Series):
        # Groups come in any order.
        return bool(
            (found.sort_index() if expected.index.name == "k" else found).equals(
                expected.sort_index() if expected.index.name == "k" else expected
            )
        )
    return bool(found == expected)


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("index", ["position", None])
def test_small_partitions_are_read_together(scattered: str, reads: list[Any], name: str, index: Any) -> None:
    optimised, reference = _pair(scattered, blocksize=None, index=index)
    found = TOGETHER[name](optimised).compute()
    assert 16 <= len(reads) < 30
    assert _equal(found, TOGETHER[name](reference).compute())


@pytest.mark.parametrize("name", APART)
def test_partitions_that_can_be_told_apart_stay_apart(scattered: str, name: str) -> None:
    optimised, reference = _pair(scattered, blocksize=None)
    assert _equal(APART[name](optimised).compute(), APART[name](reference).compute())


def test_ranks_of_partitions_read_together_start_anew(scattered: str) -> None:
    optimised, reference = _pair(scattered, blocksize=None, index=None, filter="k < 5")
    pd.testing.assert_frame_equal(optimised[["row"]].compute(), reference[["row"]].compute())


def test_few_partitions_are_left_alone(path: str, reads: list[Any]) -> None:
    lancecy.scan(path, blocksize=None).i8.mean().compute()
    assert len(reads) == 3


# -- reductions in one task ----------------------------------------------------------------------------------------

REDUCED = ("sum", "prod", "min", "max", "any", "all", "count")


def _same_value(one: Any, other: Any) -> bool:
    if isinstance(one, Exception):
        return type(one) is type(other)
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-12, equal_nan=True))
    if one is other or (pd.api.types.is_scalar(one) and pd.isna(one)):
        return bool(one is other or pd.isna(other))
    return bool(one == other)


@pytest.mark.parametrize("rows", ["d", "d[d.row > 400]", "d[d.row > 5000]", "d.partitions[1:]"])
@pytest.mark.parametrize(
    ("how", "options"),
    [(how, options) for how in REDUCED for options in ("", "skipna=False") if how != "count" or not options],
)
def test_reductions_of_columns_are_those_of_dask(path: str, how: str, options: str, rows: str) -> None:
    optimised, reference = _pair(path, blocksize=None)
    # Of a partition without rows Dask makes a missing value, and of all of them objects: there pandas may be right.
    whole = reference.compute() if rows == "d[d.row > 400]" else None
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in reference.columns:
            text = f"{rows}[{name!r}].{how}({options})"
            found, dasks = (_outcome(text, d) for d in (optimised, reference))
            same = type(found) is type(dasks) and _same_value(found, dasks)
            if not (same or (whole is not None and _same_value(found, _outcome(text, whole)))):
                wrong.append((name, found, dasks))
    assert wrong == []


@pytest.mark.parametrize("how", REDUCED)
def test_reductions_are_read_at_once(scattered: str, reads: list[Any], how: str) -> None:
    optimised, reference = _pair(scattered, blocksize=None)
    found = getattr(optimised[optimised.row > 60].k, how)()
    assert [type(e).__name__ for e in found.optimize().expr.walk()] == ["LanceReduction"]
    assert found.compute() == getattr(reference[reference.row > 60].k, how)().compute()
    assert [names for _, names in reads[:1]] == [("k",)]
    assert optimised.partitions[3:50].row.sum().compute() == reference.partitions[3:50].row.sum().compute()


def test_reductions_are_values_like_others(scattered: str) -> None:
    optimised, reference = _pair(scattered, blocksize=None)
    uses: dict[str, Any] = {
        "arithmetic": lambda d: d.row.sum() / d.row.max() + 1,
        "beside rows": lambda d: d.row - d.row.min(),
        "beside labels": lambda d: (d.k == d.k.max()).sum(),
        "as a series": lambda d: d.row.sum().to_series(),
        "persisted": lambda d: d.row.sum().persist(),
        "delayed": lambda d: d.row.max().to_delayed(),
        "least": lambda d: d.row.sum(min_count=10**6),
    }
    for name, use in uses.items():
        found, expected = use(optimised).compute(), use(reference).compute()
        assert type(found) is type(expected), name
        assert _same_value(found, expected) if np.isscalar(expected) else found.equals(expected), name
    assert optimised.row.sum().dtype == reference.row.sum().dtype
    first, again = (lancecy.scan(scattered, blocksize=None).row.sum().optimize() for _ in range(2))
    assert first.expr._name == again.expr._name != optimised.row.max().optimize().expr._name
    assert first.expr._name != optimised.partitions[1:].row.sum().optimize().expr._name
    assert pickle.loads(pickle.dumps(first)).compute() == reference.row.sum().compute()


def test_reductions_that_share_a_column_read_it_once(path: str, reads: list[Any]) -> None:
    optimised, reference = _pair(path, blocksize=None)
    found, expected = ((d.i8.sum() + d.i8.max()).compute() for d in (optimised, reference))
    assert found == expected
    assert len(reads) == 6


@pytest.mark.parametrize("limit", ["_ONE_TASK_BYTES", "_ONE_TASK_UNITS"])
def test_large_columns_are_reduced_in_parts(
    path: str, reads: list[Any], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancecy.dask import optimizer

    monkeypatch.setattr(optimizer, limit, 1)
    found = lancecy.scan(path, blocksize=None).i8.sum().compute()
    assert len(reads) == 3
    assert found == lancecy.scan(path).compute().i8.sum()


def test_columns_of_unknown_size_are_reduced_in_parts(path: str, reads: list[Any]) -> None:
    computed = lancecy.scan(path, blocksize=None, columns={"twice": "row * 2"}, with_row_id=True)
    assert computed.twice.max().compute() == 2 * lancecy.dataset(path).to_table()["row"].to_pandas().max()
    assert len(reads) == 3
    assert computed._rowid.count().compute() == len(computed)
    assert len(reads) == 6


def test_columns_that_came_later_count(
    tmp_path: Path, reads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancecy.dask import optimizer

    place = str(tmp_path / "grown.lance")
    write(pa.table({"a": [1, 2]}), place, max_rows_per_file=1, data_storage_version="2.1")
    peer(place).add_columns(pa.schema([("z", pa.int64()), ("never", pa.int64())]))
    later = pa.table({"a": range(400), "z": range(400), "never": [None] * 400}, schema=peer(place).schema)
    write(later, place, mode="append", max_rows_per_file=10, data_storage_version="2.1")
    monkeypatch.setattr(optimizer, "_ONE_TASK_BYTES", 400)
    scan = lancecy.scan(
        place, blocksize=None, columns={"z": "z", "a": "a", "twice": "z * 2", "never": "never"}
    )
    assert scan.z.max().compute() == 399
    assert scan[scan.z > 5].a.min().compute() == 6
    reads.clear()
    assert scan.twice.max().compute() == 798
    # Nobody knows how large it is: as many reads as partitions.
    assert len(reads) == scan.npartitions == 42


def test_trees_that_dask_refuses_are_refused(path: str) -> None:
    for split_every in (0, 1, "x"):
        with pytest.raises(ValueError, match="split_every"):
            lancecy.scan(path).i8.sum(split_every=split_every).compute()


def test_reductions_show_what_they_are(path: str) -> None:
    shown = "\n".join(lancecy.scan(path).i8.sum().optimize().expr._tree_repr_lines())
    assert "column=i8 kind=Sum" in shown
    assert "kwargs" not in shown


def test_far_columns_are_reduced_in_parts(path: str, reads: list[Any]) -> None:
    import fsspec

    fsspec.filesystem("memory").put(path, "/far/optimizer.lance", recursive=True)
    assert lancecy.scan("memory://far/optimizer.lance", blocksize=None).i8.sum().compute() is not None
    assert len(reads) == 3


# -- the module ------------------------------------------------------------------------------------------------------


def test_it_can_be_switched_off(path: str, reads: list[Any]) -> None:
    _, reference = _pair(path, blocksize=None)
    assert not isinstance(reference.expr, LanceScan)
    assert len(reference) == lancecy.dataset(path).count_rows()
    assert len(reads) == 3


def test_unknown_dask_is_told_and_costs_speed_only(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import lancecy.dask

    expected = lancecy.scan(path).compute()
    monkeypatch.setitem(sys.modules, "lancecy.dask.optimizer", None)
    monkeypatch.delattr(lancecy.dask, "optimizer")
    with pytest.warns(RuntimeWarning, match="does not support this release of Dask"):
        reference = lancecy.scan(path)
    pd.testing.assert_frame_equal(reference.compute(), expected)


def test_optimised_frames_pickle(path: str) -> None:
    d = lancecy.scan(path, blocksize=None)
    found = pickle.loads(pickle.dumps(d[d.i8 > 5]))
    pd.testing.assert_frame_equal(found.compute(), d[d.i8 > 5].compute())


def test_scans_show_where_they_read(path: str) -> None:
    d = lancecy.scan(path, storage_options={"secret": "hunter2-hunter2"}, embed_credentials=True)
    shown = d.expr.tree_repr()
    assert path in shown
    assert "hunter2" not in shown


def test_tree_shows_what_is_pushed(path: str) -> None:
    ddf = lancecy.scan(path, filter="row < 500")
    assert "filter=[row < 500]" in ddf.expr.tree_repr()
    some = ddf[(ddf.rank > 3) & (ddf.s == "a") & (ddf.s.str.len() > 0)][["row"]]
    tree = some.optimize(fuse=False).expr.tree_repr()
    assert "filter=[row < 500 AND rank > 3 AND s = 'a'] columns=['s', 'row']" in tree
    assert "LanceScan: source=<" in some.optimize().expr.tree_repr()
    assert "filter" not in lancecy.scan(path).expr.tree_repr()
    first = lancecy.scan(path).head(3, compute=False).optimize(fuse=False)
    assert "limit=3" in first.expr.tree_repr()
    total = ddf["rank"].sum().optimize(fuse=False)
    assert "LanceReduction: " in total.expr.tree_repr()
    assert "filter=[row < 500] column=rank kind=Sum" in total.expr.tree_repr()
    many = lancecy.scan(path)
    kept = many[many.row.isin(list(range(500)))].optimize(fuse=False).expr.tree_repr()
    assert "… 490 more" in kept
