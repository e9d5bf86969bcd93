"""Blobs: large values that a scan leaves where they are, opened as files.

A blob column delivers descriptors; :func:`take_blobs` reads those of some rows and gives
a :class:`BlobFile` for each, which fetches bytes when it is read and not before. Where
the bytes are::

    kind 0   the data file itself, absolute position          also every blob of 2.0 and 2.1
    kind 1   {data file without .lance}/{name}.blob, with others
    kind 2   {data file without .lance}/{name}.blob, alone
    kind 3   any object: by a path in a base of the table, or by an absolute URI

``name`` is the blob's id as 32 binary digits, the lowest first. What kind 3 may name is decided by
the rules for bases (``table.bases``). Source: file sheet 2.1, section 3.11; 2.0, section 5.4.
"""

from __future__ import annotations

from lancecy.blobs.files import BUFFER_SIZE, BlobFile
from lancecy.blobs.take import take_blobs

__all__ = ["BUFFER_SIZE", "BlobFile", "take_blobs"]
