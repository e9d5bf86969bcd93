"""Blobs: large values that a scan does not read, opened as files.

A scan of a blob column returns descriptors; :func:`take_blobs` reads those of some rows and returns
a :class:`BlobFile` for each, which fetches bytes only when it is read. :func:`read_blobs` and :func:`read_blob_ranges`
read bytes of several blobs at once. The kind of a descriptor tells
where the bytes are::

    kind 0   the data file itself, absolute position          also every blob of 2.0 and 2.1
    kind 1   {data file without .lance}/{name}.blob, with others
    kind 2   {data file without .lance}/{name}.blob, alone
    kind 3   any object: by a path in a base of the table, or by an absolute URI

``name`` is the blob's id as 32 binary digits, the lowest first. The rules for bases (``table.bases``) decide
what kind 3 may name. ``arrays`` has the Arrow arrays that writers give. ``take`` finds the object of a descriptor by its kind, ``files`` reads it. Source: file sheet 2.1, section 3.11; 2.0, section 5.4.
"""

from __future__ import annotations

from lancecy.blobs.files import BUFFER_SIZE, BlobFile
from lancecy.blobs.take import read_blob_ranges, read_blobs, take_blobs

__all__ = ["BUFFER_SIZE", "BlobFile", "read_blob_ranges", "read_blobs", "take_blobs"]
