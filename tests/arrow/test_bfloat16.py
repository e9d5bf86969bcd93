"""Numbers of bfloat16 in Arrow and NumPy."""

from __future__ import annotations

import pickle
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from lancecy.arrow import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array, cast, extension_type


def test_numbers_are_rounded_to_the_nearest_with_halves_to_even() -> None:
    assert BFloat16(1.1) == 1.1015625
    assert BFloat16(1.0 + 2**-8) == 1.0
    assert BFloat16(1.0 + 3 * 2**-8) == 1.0 + 2**-6
    assert BFloat16.from_bytes(b"\x80\x3f") == 1.0
    assert (str(BFloat16(2.5)), type(BFloat16(2.5).as_float())) == ("2.5", float)
    with pytest.raises(ValueError, match="two bytes, not 3"):
        BFloat16.from_bytes(b"abc")


def test_arrays_of_lists_numpy_and_arrow() -> None:
    expected = [1.1015625, None, 2.0]
    for values in ([1.1, None, 2], pa.array([1.1, None, 2]), pa.chunked_array([[1.1, None], [2.0]])):
        found = bfloat16_array(values)
        assert isinstance(found, BFloat16Array)
        assert found.to_pylist() == expected
    assert bfloat16_array(np.array([1.1, 2], np.float16)).to_pylist() == [1.1015625, 2.0]
    assert bfloat16_array([]).to_float32().size == 0
    assert [isinstance(value, BFloat16) for value in found.to_pylist()] == [True, False, True]
    assert found.type == BFloat16Type() and pickle.loads(pickle.dumps(found)).equals(found)


def test_the_text_of_an_array_shows_its_numbers() -> None:
    array = bfloat16_array([1.1, None, 3.4])
    assert repr(array).split()[-5:] == ["[", "1.1015625,", "null,", "3.40625", "]"]
    assert str(array.slice(1)).split() == ["[", "null,", "3.40625", "]"]


def test_numpy_values_of_slices_and_nulls() -> None:
    array = bfloat16_array([None if n % 4 == 3 else n for n in range(20)])
    np.testing.assert_array_equal(array.slice(2, 4).to_float32(), np.array([2, np.nan, 4, 5], np.float32))
    with pytest.raises(ValueError, match="to_float32"):
        array.to_numpy()
    plain = array.slice(4, 3).to_numpy()
    assert plain.astype(np.float32).tolist() == [4, 5, 6]
    assert plain.dtype.name == ("bfloat16" if find_spec("ml_dtypes") else "float32")
    again = BFloat16Array.from_numpy(plain)
    assert again.equals(array.slice(4, 3)) and bfloat16_array(plain).equals(again)
    assert np.isnan(bfloat16_array([None, None]).to_float32()).all()
    for wrong in (np.arange(3), np.zeros((2, 2), np.float32)):
        with pytest.raises(ValueError, match="floats in one dimension"):
            BFloat16Array.from_numpy(wrong)


def test_casts() -> None:
    floats = pa.array([1.5, None, -2.0])
    for name in ("bfloat16", "bf16", BFloat16Type()):
        assert cast(floats, name).to_pylist() == [1.5, None, -2.0]
    numbers = cast(floats, "bfloat16")
    for wanted in (pa.float16(), pa.float32(), pa.float64(), "double"):
        assert cast(numbers, wanted).to_pylist() == [1.5, None, -2.0]
    vectors = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2))
    found = cast(vectors.slice(1), pa.list_(BFloat16Type(), 2))
    assert cast(found, pa.list_(pa.float64(), 2)).to_pylist() == [None, [3, 4]]
    assert cast(pa.array([1, 2]), pa.int8()).type == pa.int8()
    for array, target in (
        (numbers, pa.int32()),
        (pa.array([1]), "bf16"),
        (vectors, pa.list_(BFloat16Type(), 3)),
    ):
        with pytest.raises(ValueError, match="only floats|only become floats|lists of 2"):
            cast(array, target)


def test_a_type_that_does_not_fit_its_storage_is_not_made() -> None:
    image = "lance.arrow.fixed_shape_image_tensor"
    assert extension_type(image, pa.list_(pa.uint8(), 6), b'{"shape": [2, 3]}') is not None
    for name, storage, serialized in (
        ("lance.bfloat16", pa.int16(), b""),
        ("lance.arrow.image_uri", pa.binary(), b""),
        ("lance.arrow.encoded_image", pa.string(), b""),
        (image, pa.list_(pa.uint8(), 5), b'{"shape": [2, 3]}'),
        (image, pa.list_(pa.uint8(), 5), b"[" * 100_000),
        (image, pa.list_(pa.uint8(), 6), b'{"shape": [-2, -3]}'),
        (image, pa.list_(pa.uint8(), 6), b'{"shape": 6}'),
        (image, pa.list_(pa.uint8(), 6), b'{"shape": [99999999999999999999, 6]}'),
        (image, pa.list_(pa.uint8(), 6), b"\xff"),
        (image, pa.uint8(), b'{"shape": [1]}'),
        ("other.type", pa.uint8(), b""),
    ):
        assert extension_type(name, storage, serialized) is None, name
