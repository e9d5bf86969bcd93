"""Blobs of 2.0 and 2.1 as values: their bytes in place of positions and sizes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.encodings.blocks.memory import allocate
from lancecy.errors import FormatError
from lancecy.schema import Field
from lancecy.session import Session
from lancecy.store.reads import Ranges, SourceFile

__all__ = ["has_plain_blobs", "with_bytes"]

Int64 = NDArray[np.int64]

_DESCRIPTOR = 2
"""Members of a descriptor whose bytes are in the data file; those of 2.2 have five."""


def has_plain_blobs(field: Field) -> bool:
    """Whether the field, in the form of ``Field.scanned``, has such blobs at any depth."""
    return any(map(_is_plain, field.walk()))


def with_bytes(array: pa.Array, field: Field, source: SourceFile, session: Session) -> pa.Array:
    """The array with the bytes of blobs in place of their descriptors.

    Parameters
    ----------
    array : pyarrow.Array
        Of the field.
    field : Field
        In the form of ``Field.scanned``.
    source : SourceFile
        The data file.
    session : Session

    Raises
    ------
    FormatError
        A descriptor exceeds the file.
    """
    return map_nested(array, field, _is_plain, lambda found, _: _fetched(found, source, session))


def _is_plain(field: Field) -> bool:
    return field.is_blob and len(field.children) == _DESCRIPTOR


def _fetched(descriptors: pa.StructArray, source: SourceFile, session: Session) -> pa.Array:
    positions, sizes = (pc.fill_null(part, 0).to_numpy() for part in descriptors.flatten())
    outside = (positions > source.size) | (sizes > source.size - np.minimum(positions, source.size))
    if outside.any() or float(sizes.sum(dtype=np.float64)) > source.size:
        raise FormatError(f"blobs exceed the {source.size} bytes of the file")
    # A null of 2.0 is empty and has a position.
    missing = descriptors.is_null().to_numpy(zero_copy_only=False) | ((sizes == 0) & (positions != 0))
    starts, lengths = positions.astype(np.int64), sizes.astype(np.int64)
    buffer, view = allocate(int(lengths.sum()))
    (span,) = session.fetch([Ranges(source, starts, lengths)])
    kernels.copy_spans(span.memory, span.positions, lengths, view)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    valid = np.packbits(~missing, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), buffer]
    return pa.Array.from_buffers(pa.large_binary(), lengths.size, buffers)
