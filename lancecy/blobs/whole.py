"""Blobs as values: their bytes in place of descriptors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.blobs.files import read_whole
from lancecy.blobs.take import FileBlobs
from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs.outside_blobs import MEMBER_TYPES
from lancecy.errors import FormatError
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import FragmentFiles
from lancecy.schema import Field
from lancecy.session import Session
from lancecy.store.reads import Ranges, SourceFile

__all__ = ["blob_runs", "blob_sizes", "has_plain_blobs", "is_plain_blob", "with_bytes", "with_whole_blobs"]

Int64 = NDArray[np.int64]

_DESCRIPTOR = 2
"""Members of a descriptor whose bytes are in the data file; those of 2.2 have five."""
_OUTSIDE = 3
"""Kind of blobs of 2.2 in objects that are no part of the table."""


def has_plain_blobs(field: Field) -> bool:
    """Whether the field, in the form of ``Field.scanned``, has such blobs at any depth."""
    return any(map(is_plain_blob, field.walk()))


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
    return map_nested(array, field, is_plain_blob, lambda found, _: _fetched(found, source, session))


def blob_sizes(array: pa.Array, field: Field) -> NDArray[np.float64]:
    """Bytes of the blobs of each row.

    Parameters
    ----------
    array : pyarrow.Array
        Of the field.
    field : Field
        In the form of ``Field.scanned``.

    Returns
    -------
    (n,) float64
        Of blobs within lists, an average.
    """
    found: list[pa.Array] = []

    def noted(descriptors: pa.StructArray, node: Field) -> pa.Array:
        found.append(pc.fill_null(descriptors.field(descriptors.type.get_field_index("size")), 0))
        return descriptors

    map_nested(array, field, lambda node: node.is_blob, noted)
    total = np.zeros(len(array))
    for sizes in found:
        numbers = numbers_of(sizes).astype(np.float64)
        total += numbers if numbers.size == total.size else numbers.sum() / max(1, total.size)
    return total


def blob_runs(sizes: NDArray[np.float64], most: float) -> Iterator[tuple[int, int]]:
    """Runs of rows, as first and end, of at most some bytes in total; a larger row is alone.

    Parameters
    ----------
    sizes : (n,) float64
        Bytes of each row, from :func:`blob_sizes`.
    most : float

    Examples
    --------
    >>> list(blob_runs(np.array([1.0, 2.0, 9.0, 1.0]), 3))
    [(0, 2), (2, 3), (3, 4)]
    """
    ends, start = np.cumsum(sizes), 0
    while start < sizes.size:
        before = float(ends[start - 1]) if start else 0.0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop
        start = stop


def with_whole_blobs(
    context: ScanContext, files: FragmentFiles, array: pa.Array, field: Field, outside: bool = False
) -> pa.Array:
    """The array of a fragment with the bytes of blobs of any version in place of their descriptors.

    Parameters
    ----------
    context : ScanContext
    files : FragmentFiles
    array : pyarrow.Array
        Of the field.
    field : Field
        In the form of ``Field.scanned``.
    outside : bool
        Read blobs in objects that are no part of the table too. Otherwise columns that have some are structs of
        ``ALL_MEMBERS``, for the writer to store their places again.

    Raises
    ------
    FormatError
        A descriptor is damaged.
    UnsupportedError
        A blob is of an unknown kind.
    PathPolicyError
        A blob is in an object that the table may not read.
    StoreError
        The bytes cannot be read.
    """

    def fetched(descriptors: pa.StructArray, node: Field) -> pa.Array:
        part = next((part for part in files.parts if node.id in part.ids), None)
        if part is None:
            return pa.nulls(len(descriptors), pa.large_binary())
        if is_plain_blob(node):
            return _fetched(descriptors, part.source, context.session)
        return _described(descriptors, FileBlobs(context, files, part), outside, context.session)

    return map_nested(array, field, lambda node: node.is_blob, fetched)


def _described(descriptors: pa.StructArray, blobs: FileBlobs, outside: bool, session: Session) -> pa.Array:
    """The bytes of blobs of 2.2, or the places of those outside of the table."""
    rows = descriptors.to_pylist()
    placed = [None if outside or row is None or row["kind"] != _OUTSIDE else row for row in rows]
    opened = [blobs.blob(row, 0) if place is None else None for row, place in zip(rows, placed, strict=True)]
    data = pa.array(read_whole(session, opened), pa.large_binary())
    if not any(placed):
        return data
    names = {"uri": "blob_uri", "position": "position", "size": "size", "base": "blob_id"}
    members = {
        name: pa.array([place and place[member] for place in placed], MEMBER_TYPES[name])
        for name, member in names.items()
    }
    fields = [pa.field(name, kind) for name, kind in MEMBER_TYPES.items()]
    return pa.StructArray.from_arrays([data, *members.values()], fields=fields, mask=descriptors.is_null())


def is_plain_blob(field: Field) -> bool:
    """Whether the field, in the form of ``Field.scanned``, is a blob whose bytes are in the data file itself."""
    return field.is_blob and len(field.children) == _DESCRIPTOR


def _fetched(descriptors: pa.StructArray, source: SourceFile, session: Session) -> pa.Array:
    positions, sizes = (numbers_of(pc.fill_null(part, 0)) for part in descriptors.flatten())
    outside = (positions > source.size) | (sizes > source.size - np.minimum(positions, source.size))
    if outside.any() or float(sizes.sum(dtype=np.float64)) > source.size:
        raise FormatError(f"blobs exceed the {source.size} bytes of the file")
    # A null of 2.0 is empty and has a position.
    missing = numbers_of(descriptors.is_null()) | ((sizes == 0) & (positions != 0))
    starts, lengths = positions.astype(np.int64), sizes.astype(np.int64)
    buffer, view = allocate(int(lengths.sum()))
    (span,) = session.fetch([Ranges(source, starts, lengths)])
    kernels.copy_spans(span.memory, span.positions, lengths, view)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    valid = np.packbits(~missing, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), buffer]
    return pa.Array.from_buffers(pa.large_binary(), lengths.size, buffers)
