"""Arrow columns in chunks: joining them, putting their rows in another order, extension types.

A chunk of text or of lists counts its values with 32 bits, so neither joining all chunks
nor taking rows out of the joined ones always works; here rows move chunk by chunk where
they must. Dictionaries are made one by code of ours: Arrow's refuses those that hold nulls.

Imports ``errors``, NumPy and pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.errors import LimitError

__all__ = [
    "ArrowArray",
    "as_array",
    "chunks_of",
    "cut_out",
    "storage_of",
    "taken",
    "typed",
    "unified",
    "validity_of",
]

ArrowArray: TypeAlias = "pa.Array | pa.ChunkedArray"
Int64 = NDArray[np.int64]

# What the offsets of one chunk of text or lists can count.
_MAX_EXTENT = (1 << 31) - 1


def chunks_of(column: ArrowArray) -> list[pa.Array]:
    """The arrays of a column; those without rows are left out."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [chunk for chunk in chunks if len(chunk)]


def as_array(column: ArrowArray) -> pa.Array:
    """The column in one piece, copied if it is in several.

    Raises
    ------
    LimitError
        One array cannot hold it.
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks = chunks_of(column)
    if not chunks:
        return column.chunk(0) if column.num_chunks else column.combine_chunks()
    return chunks[0] if len(chunks) == 1 else _concatenated(chunks)


def _concatenated(chunks: list[pa.Array]) -> pa.Array:
    try:
        return pa.concat_arrays(unified(chunks))
    except pa.ArrowInvalid as error:
        raise LimitError(
            f"{len(chunks)} pieces of type {chunks[0].type} do not fit into one array: "
            "read the column in smaller batches",
            limit="",
            claimed=sum(chunk.nbytes for chunk in chunks),
        ) from error


# -- dictionaries ----------------------------------------------------------------------


def unified(chunks: list[pa.Array]) -> list[pa.Array]:
    """The same values, those of dictionaries over one and the same dictionary.

    A null in a dictionary becomes a null code where dictionaries differ. Chunks come back as they are if
    the codes have no room for all values.
    """
    if not chunks or not pa.types.is_dictionary(chunks[0].type):
        return chunks
    dictionaries = list({_identity(chunk.dictionary): chunk.dictionary for chunk in chunks}.values())
    if all(other.equals(dictionaries[0]) for other in dictionaries[1:]):
        return chunks
    try:
        encoded = pa.concat_arrays(dictionaries).dictionary_encode()
        starts = np.cumsum([0, *(len(values) for values in dictionaries)])
        codes = {
            _identity(values): encoded.indices.slice(first, last - first)
            for values, (first, last) in zip(dictionaries, pairwise(starts), strict=True)
        }
        return [
            pa.DictionaryArray.from_arrays(
                codes[_identity(chunk.dictionary)].take(chunk.indices).cast(chunk.type.index_type),
                encoded.dictionary,
                ordered=chunk.type.ordered,
                safe=False,
            )
            for chunk in chunks
        ]
    except pa.ArrowInvalid:
        return chunks


def _identity(array: pa.Array) -> tuple[object, ...]:
    """Where an array's values are: arrays alike in this are equal, and nothing was compared."""
    buffers = (None if buffer is None else (buffer.address, buffer.size) for buffer in array.buffers())
    return (len(array), array.offset, *buffers)


# -- validity ---------------------------------------------------------------------------


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap, its first bit being that of the first row."""
    if array.null_count == 0:
        return None
    if array.offset == 0:
        return array.buffers()[0]
    is_valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


# -- slices ------------------------------------------------------------------------------


def cut_out(array: pa.Array, start: int, length: int) -> pa.Array:
    """Some rows of an array, as a slice wherever that is safe.

    Arrow (26.0 at least) takes and filters the wrong rows of fixed-size lists of fixed-size lists whose
    offset, or whose child's, is not 0; those are copied.
    """
    piece = array.slice(start, length)
    if len(piece) == len(array) or not _has_matrices(array.type):
        return piece
    return pa.concat_arrays([piece, piece.slice(0, 0)])


@lru_cache(maxsize=1024)
def _has_matrices(data_type: pa.DataType) -> bool:
    if isinstance(data_type, pa.BaseExtensionType):
        return _has_matrices(data_type.storage_type)
    if pa.types.is_fixed_size_list(data_type):
        inner = data_type.value_type
        inner = inner.storage_type if isinstance(inner, pa.BaseExtensionType) else inner
        if pa.types.is_fixed_size_list(inner):
            return True
    return any(_has_matrices(data_type.field(i).type) for i in range(data_type.num_fields))


# -- order -------------------------------------------------------------------------------


def taken(column: ArrowArray, rows: Int64, most: int = _MAX_EXTENT) -> ArrowArray:
    """The rows at these positions, in that order; rows may be wanted several times.

    Parameters
    ----------
    column : pa.Array or pa.ChunkedArray
    rows : (n,) int64
    most : int, bytes or list elements
        About what one chunk of the result may hold; a single row may hold more.

    Returns
    -------
    pa.Array, or pa.ChunkedArray where one array is not enough
    """
    chunks = unified(chunks_of(column))
    if not chunks:
        return column
    total = sum(_extent(chunk) for chunk in chunks)
    repeats = max(1, -(-rows.size // max(1, len(column))))
    if total * repeats <= most:
        source = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        found = source.take(_int64(rows))
        if _extent(found) <= most:
            return found
    starts = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    pieces: list[pa.Array] = []
    for part in np.array_split(rows, min(rows.size, -(-total * repeats // most)) or 1):
        pieces.extend(_gathered(chunks, starts, part, most))
    return pa.chunked_array(pieces, column.type)


def _gathered(chunks: Sequence[pa.Array], starts: Int64, rows: Int64, most: int) -> Iterator[pa.Array]:
    """The rows at these positions as arrays that hold no more than ``most`` each, unless it is one row."""
    which = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[order], np.arange(len(chunks) + 1))
    try:
        parts = [
            chunks[i].take(_int64(rows[order[first:last]] - starts[i]))
            for i, (first, last) in enumerate(pairwise(edges))
            if last > first
        ]
        size = sum(_extent(part) for part in parts)
    except pa.ArrowInvalid:
        size = most + 1
    if rows.size > 1 and size > most:
        # Rows of uneven size: these are more than their share.
        for half in np.array_split(rows, 2):
            yield from _gathered(chunks, starts, half, most)
    elif rows.size:
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        yield (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)).take(_int64(back))


def _int64(rows: Int64) -> pa.Array:
    # Made by hand, because pa.array imports pandas to look at what it is given.
    return pa.Array.from_buffers(pa.int64(), rows.size, [None, pa.py_buffer(np.ascontiguousarray(rows))])


def _extent(array: pa.Array) -> int:
    """An upper bound of what offsets into the array's values count: bytes of text or elements of lists."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _extent(array.storage)
    if pa.types.is_dictionary(data_type):
        return int(array.indices.nbytes)
    if pa.types.is_struct(data_type):
        return max((_extent(array.field(i)) for i in range(data_type.num_fields)), default=0)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_map(data_type):
        if len(array) == 0:
            return 0
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return max(int(last - first), _extent(array.values.slice(first, last - first)))
    return int(array.nbytes)


# -- extension types ---------------------------------------------------------------------


def storage_of(column: ArrowArray) -> ArrowArray:
    """The column without its extension type."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column.storage


def typed(column: ArrowArray, data_type: pa.DataType) -> ArrowArray:
    """The column under its extension type, if ``data_type`` is one."""
    if not isinstance(data_type, pa.BaseExtensionType):
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = [pa.ExtensionArray.from_storage(data_type, chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, data_type)
    return pa.ExtensionArray.from_storage(data_type, column)
