"""Extension types of pylance, without pylance: bfloat16 numbers and images.

==================================  =====================================================
``lance.bfloat16``                  :class:`BFloat16Type`, two bytes per number
``lance.arrow.image_uri``           :class:`ImageURIType`, text
``lance.arrow.encoded_image``       :class:`EncodedImageType`, bytes of PNG, JPEG, ...
``lance.arrow.fixed_shape_…``       :class:`FixedShapeImageTensorType`, pixels of one shape
==================================  =====================================================

Tables with such columns are read as these types. They are not registered with pyarrow, because the registration that
``lance.arrow`` makes would then fail: where that is imported first, its own types are used. A column is written by the name
of its type, so types of both libraries will do. Names and methods are those of ``lance.arrow``.
"""

from __future__ import annotations

import pyarrow as pa

from lancecy.arrow.bfloat16 import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array, cast
from lancecy.arrow.images import (
    EncodedImageArray,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorType,
    ImageArray,
    ImageURIArray,
    ImageURIType,
)

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Type",
    "EncodedImageArray",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageURIArray",
    "ImageURIType",
    "bfloat16_array",
    "cast",
    "extension_type",
]

_TYPES: dict[str, type[pa.ExtensionType]] = {
    "lance.bfloat16": BFloat16Type,
    "lance.arrow.image_uri": ImageURIType,
    "lance.arrow.encoded_image": EncodedImageType,
    "lance.arrow.fixed_shape_image_tensor": FixedShapeImageTensorType,
}


def extension_type(name: str, storage_type: pa.DataType, serialized: bytes) -> pa.ExtensionType | None:
    """The extension type of this name; None if there is none, or if it does not fit the storage.

    Parameters
    ----------
    name : str
    storage_type : pyarrow.DataType
    serialized : bytes
        Parameters of the type, from the metadata of the field.

    Examples
    --------
    >>> extension_type("lance.bfloat16", pa.binary(2), b"").extension_name
    'lance.bfloat16'
    >>> extension_type("lance.bfloat16", pa.int16(), b"") is None
    True
    """
    known = _TYPES.get(name)
    if known is None:
        return None
    try:
        found: pa.ExtensionType = known.__arrow_ext_deserialize__(storage_type, serialized)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    return found if found.storage_type == storage_type else None
