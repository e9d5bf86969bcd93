"""Images by URI, encoded, and as pixels."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancecy.arrow import (
    EncodedImageArray,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorType,
    ImageArray,
    ImageURIArray,
    ImageURIType,
)
from lancecy.errors import StoreError

PIXELS = np.random.default_rng(1).integers(0, 256, (5, 4, 3, 3), dtype=np.uint8)


def tensors() -> FixedShapeImageTensorArray:
    found = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(PIXELS))
    assert isinstance(found, FixedShapeImageTensorArray)
    return found


def test_kinds_of_images() -> None:
    uris = ImageArray.from_array(["a.png", None])
    assert isinstance(uris, ImageURIArray) and uris.to_pylist() == ["a.png", None]
    assert ImageArray.from_array(pa.array(["a"], pa.large_string())).type == ImageURIType(pa.large_string())
    encoded = ImageArray.from_array(pa.array([b"a", None]))
    assert isinstance(encoded, EncodedImageArray) and encoded.to_pylist() == [b"a", None]
    assert ImageArray.from_array(encoded) is encoded
    assert tensors().type == FixedShapeImageTensorType(pa.uint8(), (4, 3, 3))
    for array in (uris, encoded, tensors()):
        assert pickle.loads(pickle.dumps(array)).equals(array)
    for wrong in (pa.array([1]), 3, "a.png"):
        with pytest.raises(TypeError):
            ImageArray.from_array(wrong)
    with pytest.raises(ValueError, match="are text"):
        ImageURIType(pa.int8())
    with pytest.raises(ValueError, match="are bytes"):
        EncodedImageType(pa.string())
    for shape in ((), (2, -1), ("a",)):
        with pytest.raises(ValueError, match="shape"):
            FixedShapeImageTensorType(pa.uint8(), shape)  # type: ignore[arg-type]


def test_pixels_are_encoded_and_decoded_by_pillow() -> None:
    array = tensors()
    np.testing.assert_array_equal(array.slice(1, 3).to_numpy(), PIXELS[1:4])
    encoded = array.slice(1, 3).to_encoded()
    assert isinstance(encoded, EncodedImageArray)
    assert encoded[0].as_py().startswith(b"\x89PNG")
    assert encoded.to_tensor().equals(array.slice(1, 3))
    assert array.to_encoded(storage_type=pa.large_binary()).type == EncodedImageType(pa.large_binary())


def test_pixels_are_encoded_and_decoded_by_functions_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    array = tensors()
    encoded = array.to_encoded(lambda pixels: pa.array([image.tobytes() for image in pixels]))

    def decoded(images: pa.Array) -> np.ndarray:
        return np.stack([np.frombuffer(image, np.uint8).reshape(4, 3, 3) for image in images.to_pylist()])

    assert encoded.to_tensor(decoded).equals(array)
    as_tensor = encoded.to_tensor(lambda images: pa.FixedShapeTensorArray.from_numpy_ndarray(decoded(images)))
    assert as_tensor.equals(array)
    with pytest.raises(ValueError, match=r"no decoder is given.*pip install pillow"):
        encoded.to_tensor()
    with pytest.raises(ValueError, match=r"no encoder is given.*pip install pillow"):
        array.to_encoded()


def test_nulls_have_no_pixels() -> None:
    array = ImageArray.from_array(pa.array([b"", None]))
    assert isinstance(array, EncodedImageArray)
    with pytest.raises(ValueError, match="nulls have no pixels"):
        array.to_tensor()
    storage = pa.array([[1, 2], None], pa.list_(pa.uint8(), 2))
    missing = pa.ExtensionArray.from_storage(FixedShapeImageTensorType(pa.uint8(), (2,)), storage)
    with pytest.raises(ValueError, match="nulls have no pixels"):
        missing.to_numpy()


def test_uris_are_read(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"one")
    uris = ImageURIArray.from_uris([tmp_path / "1.png", None, f"file://{tmp_path}/1.png"])
    assert uris.read_uris().to_pylist() == [b"one", None, b"one"]
    assert uris.read_uris(pa.large_binary()).type == EncodedImageType(pa.large_binary())
    for bad in (f"file://{tmp_path}/2.png", "nowhere://a", "http://127.0.0.1:9/a.png"):
        with pytest.raises(StoreError, match="cannot be read"):
            ImageURIArray.from_uris([bad]).read_uris()
