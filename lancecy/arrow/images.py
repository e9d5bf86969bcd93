"""Images as Arrow extension types: by URI, encoded, and as pixels.

Pixels are decoded and encoded by a function of the caller, or by Pillow where it is installed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.errors import StoreError, printable

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "EncodedImageArray",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageURIArray",
    "ImageURIType",
]

_TEXT, _BYTES = pa.string(), pa.binary()

Decoder = Callable[[pa.Array], "NDArray[Any] | pa.FixedShapeTensorArray"]
"""From an array of encoded images to (n, …) pixels."""
Encoder = Callable[["NDArray[Any]"], pa.Array]
"""From (n, …) pixels to an array of encoded images."""


class ImageURIType(pa.ExtensionType):  # type: ignore[misc]
    """The extension type ``lance.arrow.image_uri`` over text.

    Parameters
    ----------
    storage_type : pyarrow.DataType
        ``string`` or ``large_string``.

    Raises
    ------
    ValueError
        Another type.
    """

    def __init__(self, storage_type: pa.DataType = _TEXT) -> None:
        if not (pa.types.is_string(storage_type) or pa.types.is_large_string(storage_type)):
            raise ValueError(f"URIs of images are text, not {storage_type}")
        super().__init__(storage_type, "lance.arrow.image_uri")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ImageURIType:
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[ImageURIArray]:
        return ImageURIArray

    def __reduce__(self) -> tuple[Any, ...]:
        return ImageURIType, (self.storage_type,)


class EncodedImageType(pa.ExtensionType):  # type: ignore[misc]
    """The extension type ``lance.arrow.encoded_image`` over bytes.

    Parameters
    ----------
    storage_type : pyarrow.DataType
        ``binary`` or ``large_binary``.

    Raises
    ------
    ValueError
        Another type.
    """

    def __init__(self, storage_type: pa.DataType = _BYTES) -> None:
        if not (pa.types.is_binary(storage_type) or pa.types.is_large_binary(storage_type)):
            raise ValueError(f"encoded images are bytes, not {storage_type}")
        super().__init__(storage_type, "lance.arrow.encoded_image")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> EncodedImageType:
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[EncodedImageArray]:
        return EncodedImageArray

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedImageType, (self.storage_type,)


class FixedShapeImageTensorType(pa.ExtensionType):  # type: ignore[misc]
    """The extension type ``lance.arrow.fixed_shape_image_tensor`` over fixed-size lists.

    Parameters
    ----------
    arrow_type : pyarrow.DataType
        Of a value, such as ``uint8``.
    shape : sequence of int
        Of one image, such as height, width and channels.

    Raises
    ------
    ValueError
        The shape is empty, or has negative numbers.
    """

    def __init__(self, arrow_type: pa.DataType, shape: Sequence[int]) -> None:
        self.arrow_type = arrow_type
        self.shape = list(shape)
        if not self.shape or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in self.shape):
            raise ValueError(f"the shape of an image is a list of sizes, not {printable(shape)}")
        super().__init__(pa.list_(arrow_type, prod(self.shape)), "lance.arrow.fixed_shape_image_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"shape": self.shape}).encode()

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> FixedShapeImageTensorType:
        return cls(storage_type.value_type, json.loads(serialized)["shape"])

    def __arrow_ext_class__(self) -> type[FixedShapeImageTensorArray]:
        return FixedShapeImageTensorArray

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedShapeImageTensorType, (self.arrow_type, self.shape)


class ImageArray(pa.ExtensionArray):  # type: ignore[misc]
    """Base of the arrays of images."""

    @classmethod
    def from_array(cls, images: Any) -> ImageArray:
        """An array of images: of URIs for text, encoded for bytes, of pixels for a tensor.

        Parameters
        ----------
        images : pyarrow.Array or iterable of str
            An iterable is one of URIs.

        Raises
        ------
        TypeError
            None of these.

        Examples
        --------
        >>> ImageArray.from_array(pa.array([b"..."])).type.extension_name
        'lance.arrow.encoded_image'
        """
        if isinstance(images, ImageArray):
            return images
        kind, storage = None, images
        if isinstance(images, pa.BinaryArray | pa.LargeBinaryArray):
            kind = EncodedImageType(images.type)
        elif isinstance(images, pa.FixedShapeTensorArray):
            kind, storage = (
                FixedShapeImageTensorType(images.type.value_type, images.type.shape),
                images.storage,
            )
        if kind is not None:
            found: ImageArray = _stored(kind, storage)
            return found
        if isinstance(images, pa.Array) and not isinstance(images, pa.StringArray | pa.LargeStringArray):
            raise TypeError(f"images cannot be made of {images.type}")
        return ImageURIArray.from_uris(images)


class ImageURIArray(ImageArray):
    """Images by URI."""

    @classmethod
    def from_uris(cls, uris: pa.Array | Iterable[str | PathLike[str] | None]) -> ImageURIArray:
        """An array of URIs; None is null.

        Parameters
        ----------
        uris : pyarrow.Array of text, or iterable of str or path

        Raises
        ------
        TypeError
            Not an iterable.

        Examples
        --------
        >>> ImageURIArray.from_uris(["file:///tmp/1.png", None]).to_pylist()
        ['file:///tmp/1.png', None]
        """
        if isinstance(uris, str) or not isinstance(uris, Iterable):
            raise TypeError(f"URIs of images are a list of text, not {type(uris).__name__}")
        if not isinstance(uris, pa.StringArray | pa.LargeStringArray):
            uris = pa.array([None if uri is None else str(uri) for uri in uris], pa.string())
        found: ImageURIArray = _stored(ImageURIType(uris.type), uris)
        return found

    def read_uris(self, storage_type: pa.DataType = _BYTES) -> EncodedImageArray:
        """Read every image; nulls stay nulls.

        Parameters
        ----------
        storage_type : pyarrow.DataType
            ``large_binary`` for more than 2 GiB.

        Returns
        -------
        EncodedImageArray

        Raises
        ------
        StoreError
            An image could not be read.

        Notes
        -----
        Whatever a URI names is read: with URIs from others, that may be a file of this machine or of its network.
        """
        images = [None if uri is None else _read(uri) for uri in self.storage.to_pylist()]
        found: EncodedImageArray = _stored(EncodedImageType(storage_type), pa.array(images, storage_type))
        return found


class EncodedImageArray(ImageArray):
    """Images as bytes of PNG, JPEG or another format, which the array does not record."""

    def to_tensor(self, decoder: Decoder | None = None) -> FixedShapeImageTensorArray:
        """Decode images of one shape.

        Parameters
        ----------
        decoder : function, optional
            From the array of bytes to (n, …) pixels or a tensor of pyarrow; by default Pillow, if installed.

        Raises
        ------
        ValueError
            No decoder is given, and Pillow is not installed; or there are nulls, or images of several shapes.
        """
        pixels = _decoded(self.storage) if decoder is None else decoder(self.storage)
        if not isinstance(pixels, pa.FixedShapeTensorArray):
            pixels = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(pixels))
        found: FixedShapeImageTensorArray = _stored(
            FixedShapeImageTensorType(pixels.type.value_type, pixels.type.shape), pixels.storage
        )
        return found


class FixedShapeImageTensorArray(ImageArray):
    """Pixels of images of one shape."""

    def to_numpy(self, zero_copy_only: bool = True) -> NDArray[Any]:
        """(n, …) pixels, in the shape of the type.

        Parameters
        ----------
        zero_copy_only : bool
            Accepted as in pyarrow, and ignored.

        Raises
        ------
        ValueError
            There are nulls.
        """
        if self.null_count:
            raise ValueError("nulls have no pixels: leave them out, with drop_null()")
        values = self.storage.flatten().to_numpy(zero_copy_only=False)
        found: NDArray[Any] = values.reshape(len(self), *self.type.shape)
        return found

    def to_encoded(
        self,
        encoder: Encoder | None = None,
        storage_type: pa.DataType = _BYTES,
    ) -> EncodedImageArray:
        """Encode the images.

        Parameters
        ----------
        encoder : function, optional
            From (n, …) pixels to an array of bytes; by default Pillow writes PNG, if installed.
        storage_type : pyarrow.DataType
            ``large_binary`` for more than 2 GiB.

        Raises
        ------
        ValueError
            No encoder is given, and Pillow is not installed; or there are nulls.
        """
        pixels = self.to_numpy()
        encoded = _encoded(pixels) if encoder is None else encoder(pixels)
        found: EncodedImageArray = _stored(EncodedImageType(storage_type), encoded.cast(storage_type))
        return found


def _stored(kind: pa.ExtensionType, storage: pa.Array) -> Any:
    return pa.ExtensionArray.from_storage(kind, storage)


def _read(uri: str) -> bytes:
    try:
        if uri.startswith(("http://", "https://")):
            from urllib.request import urlopen

            with urlopen(uri) as answer:  # noqa: S310
                return bytes(answer.read())
        from pyarrow.fs import FileSystem

        system, path = FileSystem.from_uri(uri)
        with system.open_input_stream(path) as stream:
            return bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"the image {printable(uri)!r} cannot be read: {printable(error)}", path=uri
        ) from error


def _pillow(what: str) -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise ValueError(f"no {what} is given, and Pillow is not installed: pip install pillow") from error
    return Image


def _decoded(images: pa.Array) -> NDArray[Any]:
    if images.null_count:
        raise ValueError("nulls have no pixels: leave them out, with drop_null()")
    reader = _pillow("decoder")
    return np.stack([np.asarray(reader.open(io.BytesIO(image))) for image in images.to_pylist()])


def _encoded(pixels: NDArray[Any]) -> pa.Array:
    writer, images = _pillow("encoder"), []
    for image in pixels:
        buffer = io.BytesIO()
        writer.fromarray(image).save(buffer, format="PNG")
        images.append(buffer.getvalue())
    return pa.array(images, pa.large_binary())
