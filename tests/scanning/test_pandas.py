"""pandas frames with dtypes of Arrow, of pandas and of NumPy, and their way through Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.folded import folded

TABLE = pa.table(
    {
        "i": pa.array([1, None], pa.uint16()),
        "whole": pa.array([2**60 + 1, 5], pa.int64()),
        "f": pa.array([1.5, None], pa.float32()),
        "b": [True, None],
        "s": ["x", None],
        "t": pa.array([5, None], pa.timestamp("us", "UTC")),
        "v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        "l": [[1], None],
        "st": [{"a": 1}, None],
        "d": pa.array(["x", None]).dictionary_encode(),
    }
)
NESTED = ("v", "l", "st", "d")


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    return lancecy.write_dataset(TABLE, tmp_path / "t")


def test_the_default_is_arrow(ds: lancecy.Dataset) -> None:
    for frame in (ds.to_pandas(), ds.to_pandas(dtype_backend="pyarrow"), ds.scanner().to_pandas("pyarrow")):
        assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)


def test_numpy_gives_the_frame_of_pylance(ds: lancecy.Dataset) -> None:
    expected = lance.dataset(ds.uri).to_pandas()
    fragment = ds.get_fragments()[0]
    for rows in (ds, ds.scanner(), fragment):
        pd.testing.assert_frame_equal(rows.to_pandas(dtype_backend="numpy"), expected)
    assert isinstance(expected["v"][0], np.ndarray)
    assert ds.to_pandas(["f"], limit=1, dtype_backend="numpy")["f"].to_numpy() == np.float32(1.5)


def test_numpy_nullable_has_the_dtypes_that_pandas_chooses(ds: lancecy.Dataset, tmp_path: Path) -> None:
    TABLE.select(list("ifb")).to_pandas(types_mapper=pd.ArrowDtype).to_parquet(tmp_path / "x.parquet")
    found = ds.to_pandas(dtype_backend="numpy_nullable")
    expected = pd.read_parquet(tmp_path / "x.parquet", dtype_backend="numpy_nullable")
    pd.testing.assert_frame_equal(found[["i", "f", "b"]], expected)
    assert isinstance(found["s"].dtype, pd.StringDtype)
    assert found["s"].isna().tolist() == [False, True]
    assert found["whole"].tolist() == [2**60 + 1, 5]


def test_another_name_is_refused_before_rows_are_read(ds: lancecy.Dataset) -> None:
    backend: Any = "numpy-nullable"
    for rows in (ds, ds.scanner()):
        with pytest.raises(ValueError, match="it can be 'pyarrow', 'numpy_nullable', 'numpy'"):
            rows.to_pandas(dtype_backend=backend)


@pytest.mark.parametrize("backend", ["numpy", "numpy_nullable"])
def test_every_column_goes_through_parquet_and_back_into_the_table(
    ds: lancecy.Dataset, tmp_path: Path, backend: Any
) -> None:
    ds.to_pandas(dtype_backend=backend).to_parquet(tmp_path / "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    ds.append(frame, cast=True)
    assert ds.to_table().slice(2).to_pylist() == TABLE.to_pylist()


def test_arrow_columns_go_through_parquet_with_the_argument_that_the_documentation_names(
    ds: lancecy.Dataset, tmp_path: Path
) -> None:
    ds.to_pandas().to_parquet(tmp_path / "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet", dtype_backend="pyarrow")
    ds.append(frame, cast=True)
    assert ds.to_table().slice(2).to_pylist() == TABLE.to_pylist()
    for column in NESTED:
        ds.to_pandas([column]).to_parquet(tmp_path / "y.parquet")
        with pytest.raises((TypeError, NotImplementedError)):
            pd.read_parquet(tmp_path / "y.parquet")


def test_a_frame_with_an_index_keeps_it_in_every_kind(tmp_path: Path) -> None:
    frame = TABLE.to_pandas(types_mapper=pd.ArrowDtype).set_index(pd.Index([7, 9], name="key"))
    ds = lancecy.write_dataset(frame, tmp_path / "t")
    for backend in ("pyarrow", "numpy_nullable", "numpy"):
        found = ds.to_pandas(dtype_backend=backend)
        assert found.index.name == "key", backend
        assert found.index.tolist() == [7, 9]
    assert not any(isinstance(dtype, pd.ArrowDtype) for dtype in ds.to_pandas(dtype_backend="numpy").dtypes)


ARROW_OPTIONS: list[dict[str, Any]] = [
    {"types_mapper": pd.ArrowDtype},
    {"types_mapper": {pa.string(): pd.StringDtype()}.get},
    {"self_destruct": True, "split_blocks": True, "use_threads": False},
    {"date_as_object": False, "integer_object_nulls": True},
    {"categories": ["s"], "ignore_metadata": True},
    {"maps_as_pydicts": "strict", "strings_to_categorical": True},
]


@folded("options", ARROW_OPTIONS)
def test_options_of_pyarrows_frames_give_those_frames(tmp_path: Path, options: Any) -> None:
    days = pa.array([1, None, 3], pa.date32())
    frame = (
        pa.table({"n": [1, None, 3], "s": ["a", "b", "a"], "d": days}).to_pandas().set_index("s", drop=False)
    )
    table = pa.Table.from_pandas(frame.rename_axis("key"))
    table = table.append_column("m", pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())))
    ds = lancecy.write_dataset(table, tmp_path / "t", mode="overwrite", data_storage_version="2.2")
    expected = ds.to_table().to_pandas(**{**options, "self_destruct": False})
    sources: list[Any] = [ds, ds.get_fragments()[0], ds.scanner(), lance.dataset(ds.uri)]
    for source in sources:
        pd.testing.assert_frame_equal(source.to_pandas(**options), expected)


def test_options_of_pyarrows_frames_go_with_those_of_scans_and_blobs(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    ds = lancecy.write_dataset(pa.table([[1, 2], [b"x", b"y"]], schema=schema), tmp_path / "t")
    for address in (False, True):
        found = ds.to_pandas(filter="a > 1", self_destruct=True, with_row_address=address)
        assert found["a"].dtype == "int64" and [file.read() for file in found["b"]] == [b"y"]
    assert ds.to_pandas(["b"], blob_mode="bytes", types_mapper=pd.ArrowDtype)["b"].tolist() == [b"x", b"y"]
    with pytest.raises(TypeError, match="did you mean 'types_mapper'"):
        ds.to_pandas(type_mapper=pd.ArrowDtype)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="self_destruct is True or False"):
        ds.scanner().to_pandas(self_destruct="yes")  # type: ignore[arg-type]
