"""Images in columns: PNG and JPEG, known by their first bytes. Nothing is decoded here; the browser does that."""

from __future__ import annotations

import struct

import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.errors import LimitError, NotFoundError
from lancecy.schema import Field
from lancecy.ui.found_rows import quoted
from lancecy.ui.options import Bounds
from lancecy.ui.texts import escaped, size_text

__all__ = ["HEAD_BYTES", "image_bytes", "image_type", "is_bytes", "stored"]

HEAD_BYTES = 16
"""Bytes that tell the type of an image."""

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_MOST_PIXELS = 100_000_000
# Markers of JPEG that start a frame, whose header has the height and the width.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_type(head: bytes) -> str | None:
    """The media type of an image, None if the bytes are none.

    Parameters
    ----------
    head : bytes
        Its first bytes, ``HEAD_BYTES`` or more.

    Examples
    --------
    >>> image_type(bytes([0xFF, 0xD8, 0xFF, 0xE0])), image_type(b"<svg/>")
    ('image/jpeg', None)
    """
    if head.startswith(_PNG):
        return "image/png"
    return "image/jpeg" if head.startswith(_JPEG) else None


def _pixels(data: bytes) -> int:
    """Pixels that the header states; 0 if it states none."""
    if data.startswith(_PNG):
        width, height = struct.unpack(">II", data[16:24]) if len(data) >= 24 else (0, 0)
        return int(width * height)
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return int(width * height)
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return 0


def image_bytes(ds: Dataset, field: Field, row_id: int, bounds: Bounds) -> tuple[bytes, str]:
    """An image in a row, and its media type.

    Parameters
    ----------
    ds : Dataset
    field : Field
        A column of binary values or of blobs.
    row_id : int
    bounds : Bounds

    Raises
    ------
    NotFoundError
        The value is no image.
    LimitError
        It is too large to be shown.
    """
    data = _blob(ds, field, row_id, bounds) if field.is_blob else _value(ds, field, row_id)
    kind = image_type(data)
    if kind is None:
        raise NotFoundError(f"the value in column {escaped(field.name)!r} is no PNG or JPEG", kind="image")
    _check_size(len(data), bounds)
    pixels = _pixels(data)
    if not 0 < pixels <= _MOST_PIXELS:
        raise LimitError(f"the image states {pixels:,} pixels", limit="", claimed=pixels)
    return data, kind


def _check_size(size: int, bounds: Bounds) -> None:
    if size > bounds.image_bytes:
        raise LimitError(
            f"the image has {size_text(size)}; up to {size_text(bounds.image_bytes)} are shown",
            limit="",
            claimed=size,
        )


def _blob(ds: Dataset, field: Field, row_id: int, bounds: Bounds) -> bytes:
    (blob,) = ds.take_blobs(quoted(field.name), ids=[row_id])
    if blob is None:
        return b""
    with blob:
        _check_size(blob.size(), bounds)
        return blob.read()


def _value(ds: Dataset, field: Field, row_id: int) -> bytes:
    values = stored(ds.take_rows([row_id], columns=[quoted(field.name)]).column(0))
    return (values[0].as_py() or b"") if len(values) and is_bytes(values.type) else b""


def stored(values: pa.ChunkedArray) -> pa.Array:
    """The values in one array, those of extension types and dictionaries as they are stored.

    Examples
    --------
    >>> stored(pa.chunked_array([["a"], ["b"]]).dictionary_encode()).to_pylist()
    ['a', 'b']
    """
    array = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )
