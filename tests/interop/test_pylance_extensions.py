"""bfloat16 and images: the same types, metadata and values as in pylance, with and without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.arrow import BFloat16Type, EncodedImageType, FixedShapeImageTensorType, ImageURIType
from lancecy.schema import Field
from tests.interop.test_pylance_blobs import write

pytestmark = pytest.mark.interop

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
ROWS = 40


def columns(library: Any, version: str = "2.1") -> pa.Table:
    """A column of every type, made by ``lance.arrow`` or ``lancecy.arrow``; pylance reads no such list in 0.1."""
    numbers = library.bfloat16_array([float(n) / 3 for n in range(ROWS * 4)])
    pixels = np.arange(ROWS * 12, dtype=np.uint8).reshape(ROWS, 2, 2, 3)
    encoded = pa.array([b"x" * (n + 1) for n in range(ROWS)], pa.large_binary())
    rows = pa.table(
        {
            "number": numbers[:ROWS],
            "vector": pa.FixedSizeListArray.from_arrays(numbers, 4),
            "list": pa.ListArray.from_arrays(pa.array(range(0, ROWS * 4 + 1, 4), pa.int32()), numbers),
            "uri": library.ImageURIArray.from_uris([f"file:///{n}.png" for n in range(ROWS)]),
            "encoded": library.ImageArray.from_array(encoded),
            "pixels": library.ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels)),
        }
    )
    return rows.drop_columns(["list"]) if version == "0.1" else rows


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_of_pylance_are_read_and_written(tmp_path: Path, version: str) -> None:
    import lance.arrow

    rows = columns(lance.arrow, version)
    peer = write(rows, tmp_path / "t", version, max_rows_per_file=15)
    ds = lancecy.dataset(tmp_path / "t")
    assert ds.schema.equals(peer.schema, check_metadata=True)
    assert ds.to_table().equals(peer.to_table()) and ds.to_table().equals(rows)
    picked = [30, 2, 2, 17]
    assert ds.take(picked).equals(peer.take(picked))
    ds.append(rows.slice(3, 5))
    assert lance.dataset(str(tmp_path / "t")).to_table().slice(ROWS).equals(rows.slice(3, 5))


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_of_lancecy_are_read_by_pylance(tmp_path: Path, version: str) -> None:
    import lance.arrow

    ds = lancecy.write_dataset(columns(lancecy.arrow, version), tmp_path / "t", data_storage_version=version)
    peer = lance.dataset(str(tmp_path / "t"))
    assert peer.schema.equals(columns(lance.arrow, version).schema, check_metadata=True)
    assert peer.to_table().equals(columns(lance.arrow, version))
    stored = write(columns(lance.arrow, version), tmp_path / "u", version)
    assert lancecy.json_to_schema(lancecy.schema_to_json(ds.schema)) == ds.schema
    mine, theirs = (lancecy.dataset(tmp_path / name).lance_schema.fields for name in ("t", "u"))
    assert [(f.logical_type, f.metadata) for f in mine] == [(f.logical_type, f.metadata) for f in theirs]
    assert stored.count_rows() == ROWS


def test_rows_of_frames_that_know_no_extension_types_are_appended(tmp_path: Path) -> None:
    import lance.arrow

    ds = lancecy.write_dataset(columns(lancecy.arrow), tmp_path / "t")
    plain = lancecy.scan(ds, columns=["number", "vector", "uri"])
    lancecy.write_dask(plain, tmp_path / "t", mode="append")
    peer = lance.dataset(str(tmp_path / "t"))
    assert lancecy.dataset(tmp_path / "t").schema == columns(lance.arrow).schema == peer.schema
    added = peer.to_table(columns=["number", "vector", "uri"]).slice(ROWS)
    assert added.equals(columns(lance.arrow).select(["number", "vector", "uri"]))


WITHOUT_PYLANCE = """
import sys, lancecy, lancecy.arrow, pyarrow as pa
ds = lancecy.dataset(sys.argv[1])
table = ds.to_table()
assert "lance" not in sys.modules
assert [getattr(f.type, "extension_name", "") for f in table.schema] == [
    "lance.bfloat16", "", "", "lance.arrow.image_uri", "lance.arrow.encoded_image",
    "lance.arrow.fixed_shape_image_tensor"], table.schema
assert table.schema.field("vector").type.value_type.extension_name == "lance.bfloat16"
assert table.schema.field("list").type.value_type.extension_name == "lance.bfloat16"
assert table["number"].chunk(0).to_float32()[3] == 1.0
assert table["pixels"].chunk(0).to_numpy().shape == (40, 2, 2, 3)
assert ds.count_rows("uri = 'file:///7.png'") == 1
assert ds.to_table(filter="uri LIKE '%9.png'", columns=["encoded"])["encoded"].to_pylist()[0] == b"x" * 10
written = lancecy.write_dataset(table, sys.argv[2])
assert written.schema.equals(ds.schema, check_metadata=True) and written.to_table().equals(table)
import lance.arrow  # its types are registered with Arrow, which fails if they already are
assert lance.dataset(sys.argv[2]).to_table().equals(lance.dataset(sys.argv[1]).to_table())
"""


def test_a_process_without_pylance_has_the_types(tmp_path: Path) -> None:
    import lance.arrow

    lance.write_dataset(columns(lance.arrow), str(tmp_path / "t"))
    command = [sys.executable, "-c", WITHOUT_PYLANCE, str(tmp_path / "t"), str(tmp_path / "u")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rounding_is_that_of_pylance() -> None:
    import lance.arrow

    bits = np.random.default_rng(1).integers(0, 1 << 32, 20_000, dtype=np.uint32)
    halves = (np.arange(65536, dtype=np.uint32) << 16) | 0x8000
    for floats in (bits.view(np.float32), halves.view(np.float32)):
        values = [float(value) for value in floats[~np.isnan(floats)]]
        mine, theirs = lancecy.arrow.bfloat16_array(values), lance.arrow.bfloat16_array(values)
        assert mine.storage.equals(theirs.storage)
    special = [float("inf"), -0.0, 1e-45, 3.4e38, None]
    mine, theirs = lancecy.arrow.bfloat16_array(special), lance.arrow.bfloat16_array(special)
    assert mine.storage.equals(theirs.storage)
    assert [value and value.as_float() for value in mine.to_pylist()] == [
        value and value.as_float() for value in theirs.to_pylist()
    ]
    assert np.isnan(lancecy.arrow.bfloat16_array([float("nan")]).to_float32()).all()


def test_types_of_pylance_and_of_lancecy_are_cast_alike() -> None:
    import lance.arrow

    theirs = lance.arrow.bfloat16_array([1.0, None, 2.5])
    assert lancecy.arrow.cast(theirs, pa.float64()).to_pylist() == [1.0, None, 2.5]
    vectors = pa.FixedSizeListArray.from_arrays(lance.arrow.bfloat16_array([1.0, 2.0]), 2)
    assert lancecy.arrow.cast(vectors, pa.list_(pa.float32(), 2)).to_pylist() == [[1.0, 2.0]]
    for mine, peer in (
        (BFloat16Type(), lance.arrow.BFloat16Type()),
        (ImageURIType(), lance.arrow.ImageURIType()),
        (EncodedImageType(), lance.arrow.EncodedImageType()),
        (
            FixedShapeImageTensorType(pa.uint8(), [2, 3]),
            lance.arrow.FixedShapeImageTensorType(pa.uint8(), [2, 3]),
        ),
    ):
        assert (mine.extension_name, mine.storage_type) == (peer.extension_name, peer.storage_type)
        fields = [pa.field("a", kind) for kind in (mine, peer)]
        assert lancecy.schema_to_json(pa.schema(fields[:1])) == lancecy.schema_to_json(pa.schema(fields[1:]))


def test_a_type_of_pylance_that_does_not_fit_its_storage_is_not_restored(tmp_path: Path) -> None:
    """Its bfloat16 takes any storage, and its tensors any shape."""
    import lance.arrow

    assert lance.arrow.BFloat16Type().extension_name == "lance.bfloat16"
    pixels = {
        "ARROW:extension:name": "lance.arrow.fixed_shape_image_tensor",
        "ARROW:extension:metadata": '{"shape": [2]}',
    }
    schema = pa.schema(
        [
            pa.field("n", pa.int64(), metadata={"ARROW:extension:name": "lance.bfloat16"}),
            pa.field("p", pa.list_(pa.uint8(), 3), metadata=pixels),
        ]
    )
    rows = pa.table({"n": [1, 2], "p": pa.array([[1, 2, 3]] * 2, pa.list_(pa.uint8(), 3))}, schema=schema)
    ds = lancecy.write_dataset(rows, tmp_path / "t")
    assert ds.schema == schema and ds.to_table().to_pylist() == rows.to_pylist()
    coded = Field("d", 0, logical_type="dict:lance.bfloat16:int8:false")
    assert coded.arrow_type == pa.dictionary(pa.int8(), pa.binary(2))
