"""Record batches as tensors: types, nulls, and whose memory it is."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
import lancecy.torch
from lancecy.errors import SchemaError, UnsupportedError
from tests.helpers.folded import folded

pytestmark = pytest.mark.slow

F32 = pa.float32()


def converted(values: pa.Array, **options: Any) -> Any:
    """A column with rows before it in the same buffers, as batches of a scan have."""
    before = pa.concat_arrays([values.slice(0, 1), values]).slice(1)
    return lancecy.torch.to_tensor(pa.record_batch({"c": before}), **options)


# Type -> what PyTorch calls it. Functions import it: it takes a second, and its loggers slow every test after it.
NUMBERS = {
    **{name: name for name in ("uint8", "uint16", "uint32", "int8", "int16", "int32", "int64")},
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
}


@folded("name", list(NUMBERS))
def test_numbers_keep_their_type(name: str) -> None:
    import torch

    found = converted(pa.array([1, 2, 3], pa.type_for_alias(name)))
    assert found.dtype == getattr(torch, NUMBERS[name])
    assert found.tolist() == [1, 2, 3]


def test_uint64_is_int64_unless_told_otherwise() -> None:
    import torch

    values = pa.array([1, 2**63], pa.uint64())
    assert converted(values).tolist() == [1, -(2**63)]
    assert converted(values, uint64_as_int64=False).dtype == torch.uint64


def test_booleans() -> None:
    import torch

    found = converted(pa.array([True, False, True]))
    assert found.dtype == torch.bool
    assert found.tolist() == [True, False, True]


def test_vectors_have_two_axes_and_vectors_of_vectors_three() -> None:
    assert converted(pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(F32, 2))).tolist() == [
        [1, 2],
        [3, 4],
        [5, 6],
    ]
    nested = pa.array([[[1, 2, 3], [4, 5, 6]]], pa.list_(pa.list_(pa.int16(), 3), 2))
    assert converted(nested).shape == (1, 2, 3)
    flags = pa.array([[True, False], [False, False]], pa.list_(pa.bool_(), 2))
    assert converted(flags).tolist() == [[True, False], [False, False]]
    images = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(3, 2, 2))
    assert lancecy.torch.to_tensor({"c": images}).shape == (3, 4)  # type: ignore[union-attr]  # a tensor


def test_lists_are_lists_of_tensors() -> None:
    import torch

    found = converted(pa.array([[1, 2], [], [3]], pa.list_(pa.int32())))
    assert [tokens.tolist() for tokens in found] == [[1, 2], [], [3]]
    assert found[0].dtype == torch.int32
    assert converted(pa.array([["a"], ["b", "c"]])) == [["a"], ["b", "c"]]


def test_text_and_bytes_stay_lists() -> None:
    assert converted(pa.array(["a", None])) == ["a", None]
    assert converted(pa.array([b"a", b"b"])) == [b"a", b"b"]
    assert converted(pa.array(["a", "b"]).dictionary_encode()) == ["a", "b"]


def test_several_columns_are_a_dict() -> None:
    found: Any = lancecy.torch.to_tensor(pa.table({"a": [1, 2], "b": ["x", "y"]}))
    assert found["a"].tolist() == [1, 2]
    assert found["b"] == ["x", "y"]


def test_no_rows() -> None:
    assert lancecy.torch.to_tensor({"c": pa.array([], pa.int32())}).shape == (0,)  # type: ignore[union-attr]  # a tensor
    assert lancecy.torch.to_tensor({"c": pa.array([], pa.list_(F32, 4))}).shape == (0, 4)  # type: ignore[union-attr]
    assert lancecy.torch.to_tensor({"c": pa.array([], pa.list_(F32))}) == []


# -- bfloat16 ----------------------------------------------------------------------------------------------


def _bfloat16(values: list[float]) -> pa.Array:
    import torch

    bits = torch.tensor(values, dtype=torch.bfloat16).view(torch.int16).numpy()
    return pa.Array.from_buffers(pa.binary(2), len(values), [None, pa.py_buffer(bits.tobytes())])


def test_bfloat16_by_the_mark_of_the_field_or_within_a_vector() -> None:
    import torch

    values = _bfloat16([1.5, -2, 3, 4])
    marked = pa.schema([pa.field("c", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})])
    found: Any = lancecy.torch.to_tensor(pa.record_batch([values], schema=marked))
    assert found.dtype == torch.bfloat16
    assert found.tolist() == [1.5, -2, 3, 4]
    pairs = converted(pa.FixedSizeListArray.from_arrays(values, 2))
    assert pairs.dtype == torch.bfloat16
    assert pairs.tolist() == [[1.5, -2], [3, 4]]
    assert converted(values) == [v.as_py() for v in values]  # bytes without a mark


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
def test_bfloat16_as_pylance_reads_it(tmp_path: Path) -> None:
    import lance
    import torch
    from lance.arrow import bfloat16_array
    from lance.torch.data import LanceDataset as Other

    place = str(tmp_path / "t.lance")
    pairs = pa.FixedSizeListArray.from_arrays(bfloat16_array([1.5, 2, 3, 4, 5, 6]), 2)
    lance.write_dataset(pa.table({"b": bfloat16_array([1.5, None, -3]), "v": pairs}), place)
    (other,) = Other(place, 10)
    (found,) = lancecy.torch.LanceDataset(place, 10)
    for name in ("b", "v"):
        assert found[name].dtype == other[name].dtype == torch.bfloat16
        assert torch.equal(found[name].nan_to_num(7), other[name].nan_to_num(7))


# -- nulls -------------------------------------------------------------------------------------------------


def test_null_is_nan_among_floats() -> None:
    assert converted(pa.array([1.0, None], F32)).nan_to_num(-1).tolist() == [1, -1]
    assert converted(pa.array([1.0, None], pa.float16())).nan_to_num(-1).tolist() == [1, -1]
    vectors = pa.array([[1, 2], None, [None, 4]], pa.list_(F32, 2))
    assert converted(vectors).nan_to_num(-1).tolist() == [[1, 2], [-1, -1], [-1, 4]]


@folded(
    "values",
    [
        pa.array([1, None]),
        pa.array([True, None]),
        pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
        pa.array([[1, None], [3, 4]], pa.list_(pa.int32(), 2)),
        pa.array([[1], None], pa.list_(pa.int32())),
    ],
)
def test_other_nulls_are_refused_with_a_remedy(values: pa.Array) -> None:
    with pytest.raises(SchemaError, match=r"column 'c' has nulls.*filter='c IS NOT NULL'"):
        converted(values)


def test_the_remedies_help(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, None], "at": [dt.datetime(1970, 1, 1, 0, 0, 1)] * 2})
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(rows, place)
    with pytest.raises(SchemaError, match=r"columns=\{'n': 'coalesce\(n, 0\)'\}"):
        list(lancecy.torch.LanceDataset(place, 2, columns=["n"]))
    with pytest.raises(UnsupportedError, match=r"columns=\{'at': 'CAST\(at AS BIGINT\)'\}"):
        list(lancecy.torch.LanceDataset(place, 2, columns=["at"]))
    columns = {"n": "coalesce(n, 0)", "at": "CAST(at AS BIGINT)"}
    (batch,) = lancecy.torch.LanceDataset(place, 2, columns=columns)
    assert batch["n"].tolist() == [1, 0]
    assert batch["at"].tolist() == [10**6] * 2
    assert next(
        iter(lancecy.torch.LanceDataset(place, 2, columns=["n"], filter="n IS NOT NULL"))
    ).tolist() == [1]


@folded(
    "values",
    [
        pa.array([{"a": 1}]),
        pa.array([None, None]),
        pa.array([1], pa.decimal128(5, 2)),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
    ],
)
def test_types_without_tensors_are_refused(values: pa.Array) -> None:
    with pytest.raises(UnsupportedError, match=r"column 'c' is .*, which tensors do not have: "):
        converted(values)


# -- memory ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    """Vectors that a scan returns as they lie in the mapped file."""
    values = np.arange(4000 * 256, dtype=np.float32)
    rows = pa.table(
        {"v": pa.FixedSizeListArray.from_arrays(pa.array(values), 256), "id": pa.array(range(4000))}
    )
    return lancecy.write_dataset(rows, str(tmp_path_factory.mktemp("tensors") / "t.lance"))


def test_tensors_can_be_changed_in_place(vectors: lancecy.Dataset) -> None:
    before = vectors.to_table()
    raw = next(iter(lancecy.torch.LanceDataset(vectors, 2000, to_tensor_fn=None)))
    assert not raw["v"].values.buffers()[1].is_mutable
    for batch in lancecy.torch.LanceDataset(vectors, 2000, columns={"v": "v", "id": "id", "same": "id"}):
        assert batch["v"].mul_(0).sum() == 0
        batch["id"].zero_()
        assert batch["same"].sum() != 0
    assert vectors.to_table() == before


def test_nothing_is_copied_that_need_not_be(vectors: lancecy.Dataset) -> None:
    rows = vectors.to_table().to_batches()[0]
    mapped = rows["v"].values
    assert not mapped.buffers()[1].is_mutable
    at = mapped.buffers()[1].address + (mapped.offset + rows["v"].offset * 256) * 4
    shared: Any = lancecy.torch.to_tensor(rows.select(["v"]), copy=False)
    assert shared.data_ptr() == at
    assert lancecy.torch.to_tensor(rows.select(["v"])).data_ptr() != at  # type: ignore[union-attr]  # a tensor
    own = pa.array(np.arange(5.0))
    assert lancecy.torch.to_tensor({"c": own}).data_ptr() == own.buffers()[1].address  # type: ignore[union-attr]
    assert lancecy.torch.to_tensor({"c": own}, copy=True).data_ptr() != own.buffers()[1].address  # type: ignore[union-attr]


def test_tensors_are_written_as_columns() -> None:
    import torch

    tensors = {"n": torch.arange(3), "b": torch.tensor([True, False, True]), "v": torch.ones(3, 2)}
    found = lancecy.write_dataset(tensors, "memory://tensors").to_table()
    assert found.schema.types == [pa.int64(), pa.bool_(), pa.list_(F32, 2)]
    assert found.to_pydict() == {name: tensor.tolist() for name, tensor in tensors.items()}
    with pytest.raises(SchemaError, match=r"column 'w' is torch.float32: .*detach"):
        lancecy.write_dataset({"w": torch.ones(3, requires_grad=True)}, "memory://gradients")
    with pytest.raises(TypeError, match="its column has no name"):
        lancecy.write_dataset(torch.ones(3), "memory://nameless")
