"""Columns in chunks: joining them, and putting their rows in another order.

A chunk of text or of lists counts its values with 32 bits, so neither joining all chunks
nor taking rows out of the joined ones always works; here rows move chunk by chunk where
they must. Dictionaries are made one by code of ours: Arrow's refuses those that hold nulls.

Imports ``kernels``, ``errors``, NumPy and pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.errors import UnsupportedError

__all__ = ["Column", "as_array", "joined", "one_dictionary", "reordered"]

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Int64 = NDArray[np.int64]

# What the offsets of one chunk of text or lists can count.
_MAX_EXTENT = (1 << 31) - 1


def as_array(column: Column) -> pa.Array:
    """The column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def joined(columns: Iterable[Column], data_type: pa.DataType) -> pa.ChunkedArray:
    """One column out of several of the same type, nothing copied but codes of dictionaries that differ."""
    chunks: list[pa.Array] = []
    for column in columns:
        pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        chunks.extend(piece for piece in pieces if len(piece))
    if pa.types.is_dictionary(data_type):
        chunks = one_dictionary(chunks)
    return pa.chunked_array(chunks, data_type)


# -- dictionaries ----------------------------------------------------------------------


def one_dictionary(chunks: list[pa.DictionaryArray]) -> list[pa.DictionaryArray]:
    """The same values over one and the same dictionary.

    Fragments without the column have an empty dictionary, and files of later versions each have
    their own. A null in a dictionary becomes a null code where dictionaries differ. Chunks come back as
    they are if the codes have no room even for the values that are used.
    """
    distinct = {_identity(chunk.dictionary): chunk.dictionary for chunk in chunks}
    if len(distinct) < 2:
        return chunks
    first, *others = distinct.values()
    if all(other.equals(first) for other in others):
        return chunks
    try:
        return _over_one_dictionary(chunks, distinct)
    except pa.ArrowInvalid:
        pass
    chunks_used = [_only_used(chunk) for chunk in chunks]
    try:
        return _over_one_dictionary(
            chunks_used, {_identity(chunk.dictionary): chunk.dictionary for chunk in chunks_used}
        )
    except pa.ArrowInvalid:
        return chunks


def _over_one_dictionary(
    chunks: list[pa.DictionaryArray], distinct: dict[tuple[object, ...], pa.Array]
) -> list[pa.DictionaryArray]:
    dictionaries = list(distinct.values())
    encoded = pa.concat_arrays(dictionaries).dictionary_encode()
    starts = np.cumsum([0, *(len(values) for values in dictionaries)])
    codes = dict(zip(distinct, (encoded.indices.slice(a, b - a) for a, b in pairwise(starts)), strict=True))
    return [
        pa.DictionaryArray.from_arrays(
            _recoded(chunk.indices, codes[_identity(chunk.dictionary)]),
            encoded.dictionary,
            ordered=chunk.type.ordered,
            safe=False,
        )
        for chunk in chunks
    ]


def _only_used(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values over a dictionary without those that no row has."""
    used = chunk.indices.unique().drop_null().sort()
    codes = pc.index_in(chunk.indices, used).cast(chunk.indices.type)
    return pa.DictionaryArray.from_arrays(
        codes, chunk.dictionary.take(used), ordered=chunk.type.ordered, safe=False
    )


def _recoded(indices: pa.Array, codes: pa.Array) -> pa.Array:
    """The new code of each old one."""
    new = codes.cast(indices.type)
    if new.null_count or indices.offset:
        return new.take(indices)
    table = new.to_numpy()
    if np.array_equal(table, np.arange(table.size)):
        return indices
    validity, data = indices.buffers()
    old = np.frombuffer(data, table.dtype, len(indices))
    bits = None if validity is None else np.frombuffer(validity, np.uint8)[: (len(indices) + 7) // 8]
    out = np.empty(old.nbytes, np.uint8)
    kernels.take_fixed(old, table.view(np.uint8), table.dtype.itemsize, out, bits)
    return pa.Array.from_buffers(indices.type, len(indices), [validity, pa.py_buffer(out)])


def _identity(array: pa.Array) -> tuple[object, ...]:
    """Where an array's values are: arrays alike in this are equal, and nothing was compared."""
    buffers = (None if buffer is None else (buffer.address, buffer.size) for buffer in array.buffers())
    return (len(array), array.offset, *buffers)


# -- order -------------------------------------------------------------------------------


def reordered(column: pa.ChunkedArray, positions: Int64, most: int | None = None) -> pa.ChunkedArray:
    """The rows at these positions, in that order.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    positions : (n,) int64
        Each row at most once.
    most : int, bytes or list elements
        About what one chunk of the result may hold, 2 GiB if not given; a single row may hold more.

    Returns
    -------
    pyarrow.ChunkedArray
        One chunk if it fits.

    Raises
    ------
    UnsupportedError
        The dictionaries of the chunks cannot be made one.
    """
    most = _MAX_EXTENT if most is None else most
    chunks = joined([column], column.type).chunks
    if not chunks:
        return column
    total = sum(_extent(chunk) for chunk in chunks)
    if total <= most:
        return pa.chunked_array([_concatenated(chunks).take(_int64(positions))], column.type)
    starts = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    pieces: list[pa.Array] = []
    for part in np.array_split(positions, min(positions.size, -(-total // most)) or 1):
        pieces.extend(_gathered(chunks, starts, part, most))
    return pa.chunked_array(pieces, column.type)


def _gathered(chunks: Sequence[pa.Array], starts: Int64, positions: Int64, most: int) -> Iterator[pa.Array]:
    """The rows at these positions as arrays that hold no more than ``most`` each, unless it is one row."""
    which = np.searchsorted(starts, positions, side="right") - 1
    order = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[order], np.arange(len(chunks) + 1))
    parts = [
        chunks[i].take(_int64(positions[order[first:last]] - starts[i]))
        for i, (first, last) in enumerate(pairwise(edges))
        if last > first
    ]
    if positions.size > 1 and sum(_extent(part) for part in parts) > most:
        # Rows of uneven size: these are more than their share.
        del parts
        for half in np.array_split(positions, 2):
            yield from _gathered(chunks, starts, half, most)
    elif parts:
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        yield _concatenated(parts).take(_int64(back))


def _int64(positions: Int64) -> pa.Array:
    # Made by hand, because pa.array imports pandas to look at what it is given.
    return pa.Array.from_buffers(pa.int64(), positions.size, [None, pa.py_buffer(positions)])


def _concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"rows of {len(arrays)} pieces of type {arrays[0].type} cannot be brought together: {error}",
            feature="dictionaries that differ",
        ) from error


def _extent(array: pa.Array) -> int:
    """An upper bound of what offsets into the array's values count: bytes of text or elements of lists."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _extent(array.storage)
    if pa.types.is_dictionary(data_type):
        return int(array.indices.nbytes)
    if pa.types.is_struct(data_type):
        return max((_extent(array.field(i)) for i in range(data_type.num_fields)), default=0)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        if len(array) == 0:
            return 0
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return max(int(last - first), _extent(array.values.slice(first, last - first)))
    return int(array.nbytes)
