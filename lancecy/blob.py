"""Blobs under the names of pylance's ``lance.blob``.

Examples
--------
>>> import lancecy
>>> import pyarrow as pa
>>> from lancecy.blob import Blob, blob_array, blob_field
>>> rows = pa.table([blob_array([b"abc", Blob.empty()])], schema=pa.schema([blob_field("image")]))
>>> ds = lancecy.write_dataset(rows, "memory://doc-blob", data_storage_version="2.2")
>>> [file.read() for file in ds.take_blobs("image", indices=[0, 1])]
[b'abc', b'']
"""

from __future__ import annotations

from lancecy.blobs import BlobFile
from lancecy.blobs.arrays import Blob, BlobArray, BlobType, blob_array, blob_field

__all__ = ["Blob", "BlobArray", "BlobFile", "BlobType", "blob_array", "blob_field"]
