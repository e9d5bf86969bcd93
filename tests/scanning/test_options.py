"""The options of a scan: completed by editors, checked by name, taken in pylance's places."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy.api.datasets import OPEN_DEFAULTS
from lancecy.errors import UnsupportedError
from lancecy.sampler import ShardedBatchSampler
from lancecy.scanning.options import SCAN_DEFAULTS, UNSUPPORTED_SCANS, BlobHandling, ScanOptions

METHODS = ("scanner", "to_table", "to_batches", "to_pandas", "to_polars", "to_delayed", "head")


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    rows = pa.table({"id": range(100), "x": [n % 7 for n in range(100)]})
    return lancecy.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=30)


def methods(ds: lancecy.Dataset) -> list[Callable[..., Any]]:
    fragment = ds.get_fragments()[0]
    found = [getattr(ds, name) for name in METHODS]
    return found + [getattr(fragment, name) for name in METHODS if hasattr(fragment, name)]


def test_every_option_has_a_default() -> None:
    assert set(SCAN_DEFAULTS) == set(ScanOptions.__annotations__)
    assert not set(SCAN_DEFAULTS) & set(UNSUPPORTED_SCANS)


def test_signatures_list_every_option_of_every_way_to_scan(ds: lancecy.Dataset) -> None:
    for method in methods(ds):
        parameters = inspect.signature(method).parameters
        assert set(SCAN_DEFAULTS) <= set(parameters), method
        assert {n: parameters[n].default for n in SCAN_DEFAULTS} == SCAN_DEFAULTS, method


def test_misspelt_option_is_named_with_its_neighbour(ds: lancecy.Dataset) -> None:
    for method in methods(ds):
        with pytest.raises(TypeError, match=r"takes no argument 'colums'; did you mean 'columns'\?"):
            method(colums=["id"])
        with pytest.raises(TypeError, match=r"did you mean 'with_row_id'\?"):
            method(with_rowid=True)


def test_search_of_pylance_is_refused_with_what_to_do(ds: lancecy.Dataset) -> None:
    for method in methods(ds):
        for name, advice in UNSUPPORTED_SCANS.items():
            if name in inspect.signature(method).parameters:
                continue
            with pytest.raises(UnsupportedError) as caught:
                method(**{name: 1})
            assert advice in str(caught.value)


def test_positional_arguments_are_those_of_pylance(ds: lancecy.Dataset) -> None:
    assert ds.to_table(["id"], "x = 3", 2, 1)["id"].to_pylist() == [10, 17]
    assert ds.to_table(["id"], None, 3).num_rows == 3
    assert [b.num_rows for b in ds.to_batches(["id"], None, 3)] == [3]
    assert ds.scanner(["id"], None, 3, 97).to_table()["id"].to_pylist() == [97, 98, 99]


def test_options_that_tune_pylances_engine_change_nothing(ds: lancecy.Dataset) -> None:
    tuned = ds.to_table(
        batch_readahead=4, fragment_readahead=2, io_buffer_size=1 << 20, late_materialization=["x"],
        use_scalar_index=True, prefilter=True, fast_search=True, disable_scoring_autoprojection=True,
    )  # fmt: skip
    assert tuned.equals(ds.to_table())


def test_search_that_is_not_asked_for_is_no_error(ds: lancecy.Dataset) -> None:
    """Code that passes all options of pylance through, with their defaults, runs."""
    for absent in (None, False):
        found = ds.to_table(filter="x = 3", **dict.fromkeys(UNSUPPORTED_SCANS, absent))
        assert found.equals(ds.to_table(filter="x = 3"))


def test_default_of_batch_size(ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "40")
    assert [len(batch) for batch in ds.to_batches()] == [40, 40, 20]
    assert [len(batch) for batch in ds.to_batches(order_by=["x"])] == [40, 40, 20]
    assert [len(batch) for batch in ds.to_batches(batch_size=50)] == [50, 50]
    for text in ("0", "-4", "many"):
        monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", text)
        with pytest.raises(ValueError, match=f"LANCE_DEFAULT_BATCH_SIZE is '{text}', not a number of rows"):
            ds.to_batches()


def test_strict_batches_have_no_limit_of_bytes(ds: lancecy.Dataset) -> None:
    with pytest.raises(ValueError, match="leave one of them out"):
        ds.to_batches(batch_size=7, strict_batch_size=True, batch_size_bytes=1000)


def test_blob_handling_has_three_values(ds: lancecy.Dataset) -> None:
    for handling in get_args(BlobHandling):
        assert ds.to_table(blob_handling=handling) == ds.to_table()
    with pytest.raises(ValueError, match="blob_handling is 'bytes', not one of blobs_descriptions, "):
        ds.to_table(blob_handling="bytes")  # type: ignore[arg-type]


def blobs(place: Path, version: str = "2.1") -> lancecy.Dataset:
    """Three fragments of five rows: a number, a blob, and a vector."""
    column = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("i", pa.int64()), column, pa.field("v", pa.list_(pa.float32(), 1))])
    rows = [{"i": i, "b": BLOBS[i], "v": [i]} for i in range(15)]
    table = pa.Table.from_pylist(rows, schema)
    return lancecy.write_dataset(table, place, data_storage_version=version, max_rows_per_file=5)


BLOBS = [None if i % 4 == 1 else bytes([i]) * (i % 7) for i in range(15)]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_scans_return_the_bytes_of_blobs(tmp_path: Path, version: str) -> None:
    ds = blobs(tmp_path / "b.lance", version)
    ds.delete("i IN (2, 7)")
    alive = [i for i in range(15) if i not in (2, 7)]
    options: Any = {"blob_handling": "all_binary"}
    assert ds.scanner(**options).schema.field("b").type == pa.large_binary()
    assert ds.to_table(["b"], **options)["b"].to_pylist() == [BLOBS[i] for i in alive]
    nulls = ds.to_table(["i", "b"], "b IS NULL", **options)
    assert nulls.to_pylist() == [{"i": i, "b": None} for i in alive if BLOBS[i] is None]
    assert ds.to_table(["i"], "b IS NULL", **options)["i"] == nulls["i"]
    found = ds.to_table({"x": "b", "known": "b IS NOT NULL"}, **options)
    assert found.to_pylist() == [{"x": BLOBS[i], "known": BLOBS[i] is not None} for i in alive]
    found = ds.to_table(["b", "i"], order_by=[("i", "descending")], limit=3, offset=1, **options)
    assert found.to_pylist() == [{"b": BLOBS[i], "i": i} for i in (13, 12, 11)]
    found = ds.to_table(["i", "b"], nearest={"column": "v", "q": [6.2], "k": 2}, **options)
    assert found.select(["i", "b"]).to_pylist() == [{"i": i, "b": BLOBS[i]} for i in (6, 5)]
    nearest = {"column": "v", "q": [6.2], "k": 2}
    assert ds.to_table(["b"], "_distance IS NOT NULL", nearest=nearest, **options)["b"].to_pylist() == [
        BLOBS[6],
        BLOBS[5],
    ]
    batches = list(ds.to_batches(["b"], batch_size=4, strict_batch_size=True, **options))
    assert [len(batch) for batch in batches] == [4, 4, 4, 1]
    assert pa.Table.from_batches(batches)["b"].to_pylist() == [BLOBS[i] for i in alive]
    assert ds.to_table(["_rowaddr", "b"], **options).column_names == ["_rowaddr", "b"]
    assert ds.scanner(["b"], "i > 9", **options).count_rows() == 5
    fragment = ds.get_fragments()[2]
    assert fragment.to_table(["b"], **options)["b"].to_pylist() == BLOBS[10:]
    default = lancecy.dataset(ds.uri, default_scan_options={**options, "columns": ["b"]})
    assert pa.table(default)["b"].to_pylist() == [BLOBS[i] for i in alive]


def test_batches_of_large_blobs_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancecy.api.binary_scans._BLOB_BYTES", 8)
    batches = list(blobs(tmp_path / "b.lance").to_batches(["b"], blob_handling="all_binary"))
    assert all(
        len(batch) == 1 or sum(map(len, filter(None, batch["b"].to_pylist()))) <= 8 for batch in batches
    )
    assert pa.Table.from_batches(batches)["b"].to_pylist() == BLOBS


def test_bytes_of_blobs_that_a_scan_cannot_return(tmp_path: Path) -> None:
    ds = blobs(tmp_path / "b.lance")
    with pytest.raises(
        UnsupportedError, match=r"scans in tasks: leave it out, .* read_blobs\(column, addresses"
    ):
        ds.to_delayed(blob_handling="all_binary")
    source = lancecy.dataset(ds.uri, default_scan_options={"blob_handling": "all_binary"})
    with pytest.raises(UnsupportedError, match="scans in tasks"):
        lancecy.scan(source)
    with pytest.raises(UnsupportedError, match="scans in tasks"):
        next(ShardedBatchSampler(0, 1)(source, batch_size=4))
    with pytest.raises(UnsupportedError, match="deleted rows have no address"):
        ds.to_table(with_row_id=True, include_deleted_rows=True, blob_handling="all_binary")
    with pytest.raises(ValueError, match="computed column '_rowaddr' has their name"):
        ds.to_table({"b": "b", "_rowaddr": "i + 1"}, blob_handling="all_binary")


def test_none_stands_for_the_default_as_in_pylance(ds: lancecy.Dataset) -> None:
    assert ds.to_table(scan_in_order=None, with_row_id=None, use_stats=None, order_by=None) == ds.to_table()


@pytest.mark.parametrize("size", [1, 7, 30, 64, 100, 1000])
@pytest.mark.parametrize("order_by", [None, ["x"]])
def test_strict_batches_have_the_rows_asked_for(
    ds: lancecy.Dataset, size: int, order_by: list[str] | None
) -> None:
    ds.delete("id IN (3, 4, 60)")
    batches = list(ds.to_batches(batch_size=size, strict_batch_size=True, order_by=order_by))
    whole, rest = divmod(97, size)
    assert [b.num_rows for b in batches] == [size] * whole + [rest] * bool(rest)
    assert pa.Table.from_batches(batches).equals(ds.to_table(order_by=order_by).combine_chunks())


def test_rows_that_one_strict_batch_cannot_hold_are_a_clear_error(tmp_path: Path) -> None:
    codes = pa.array(range(60), pa.int8())
    chunks = [pa.DictionaryArray.from_arrays(codes, [f"{n}-{i}" for i in range(60)]) for n in range(3)]
    for chunk in chunks:
        ds = lancecy.write_dataset(pa.table({"d": chunk}), str(tmp_path / "t"), mode="append")
    found = list(ds.to_batches(batch_size=100, strict_batch_size=True))
    assert [b.num_rows for b in found] == [100, 80]
    with pytest.raises(lancecy.errors.LimitError, match="150 rows do not fit.*smaller batch_size"):
        list(ds.to_batches(batch_size=150, strict_batch_size=True))
    assert sum(b.num_rows for b in ds.to_batches(batch_size=150)) == 180


def test_pylances_names_are_those_of_our_classes(ds: lancecy.Dataset) -> None:
    assert isinstance(ds, lancecy.LanceDataset)
    assert isinstance(ds.scanner(), lancecy.LanceScanner)
    last = ds.to_table(["id"], limit=1, order_by=[lancecy.ColumnOrdering("id", ascending=False)])
    assert last["id"].to_pylist() == [99]
    assert lancecy.dataset(ds.uri, session=ds.session()).session() is ds.session()
    assert ds.schema_metadata == {}


def test_doors_to_other_engines_take_the_options_of_opening(ds: lancecy.Dataset) -> None:
    from lancecy.spark.frames import read

    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lancecy.scan, (ds,)), (lancecy.to_dask_array, (ds, "id")), (read, (None, ds)),
    ]  # fmt: skip
    for door, arguments in calls:
        parameters = inspect.signature(door).parameters
        assert {name: parameters[name].default for name in OPEN_DEFAULTS} == OPEN_DEFAULTS
        with pytest.raises(
            TypeError, match=r"takes no argument 'allowed_base'; did you mean 'allowed_bases'\?"
        ):
            door(*arguments, allowed_base=["/b"])
    for door, arguments in calls[:2]:
        with pytest.raises(ValueError, match="open already"):
            door(*arguments, untrusted=True)
        with pytest.raises(ValueError, match="open already"):
            door(*arguments, version=1)
    assert len(lancecy.scan(ds, version=None, untrusted=False)) == 100


@pytest.mark.parametrize("huge", [sys.maxsize, 2**63, 2**64, 10**40])
def test_huge_numbers_are_no_limit(ds: lancecy.Dataset, huge: int) -> None:
    assert ds.to_table(limit=huge, offset=90).num_rows == 10
    assert ds.to_table(limit=huge, offset=90, filter="id >= 0", order_by=["x"]).num_rows == 10
    assert ds.to_table(offset=huge).num_rows == ds.slice(huge, huge + 1).num_rows == 0
    assert ds.head(huge).num_rows == ds.scanner(limit=huge).count_rows() == 100
    for strict in (False, True):
        batches = ds.to_batches(batch_size=huge, strict_batch_size=strict, memory_bytes=huge)
        assert sum(batch.num_rows for batch in batches) == 100


def test_rows_are_taken_by_objects_that_are_integers(ds: lancecy.Dataset) -> None:
    rows = pa.array([5, 1])
    right: list[Any] = [
        list(rows),
        np.array([5, 1], object),
        [np.int8(5), np.uint64(1)],
        pd.Series([5, 1], dtype=object),
    ]
    for numbers in right:
        for found in (ds.take(numbers), ds.take_rows(numbers)):
            assert found["id"].to_pylist() == [5, 1]
    refused: list[Any] = [list(pa.array([5, None])), np.array([5, True], object), [pa.scalar(1.5)], ["5"]]
    for wrong in refused:
        for take in (ds.take, ds.take_rows):
            with pytest.raises(TypeError, match=r"integers|whole number"):
                take(wrong)


def test_star_among_names_is_every_column_as_in_pylance(ds: lancecy.Dataset, tmp_path: Path) -> None:
    everything = ds.to_table(limit=3)
    assert ds.to_table(["*"], limit=3) == everything
    assert ds.take(range(3), ["*"]) == everything
    assert ds.get_fragments()[0].to_table(["*"], order_by=["id"], limit=3) == everything
    assert ds.scanner(["_rowid", "*"]).schema.names == ["_rowid", "id", "x"]
    assert lancecy.scan(ds, columns=["*"])[["x"]].partitions[0].compute().columns.tolist() == ["x"]
    with pytest.raises(ValueError, match="columns named twice: id$"):
        ds.scanner(["id", "*"])
    starred = lancecy.write_dataset({"*": [1], "n": [2]}, tmp_path / "starred.lance")
    assert starred.to_table(["*"]).column_names == ["*"]
