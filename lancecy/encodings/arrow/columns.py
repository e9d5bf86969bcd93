"""Operations on chunked Arrow columns: concatenation, order of rows, extension types.

A chunk of text or of lists has 32-bit offsets, which may be too narrow for all chunks together or for the rows
taken from them; rows are then taken chunk by chunk. Dictionaries are unified here: Arrow's own function refuses
dictionaries that hold nulls.

A registered extension type stands for its whole storage, so access to a child of a struct goes through the storage. (A
type that lost children to a projection is plain storage already: ``assemble.pruned``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.arrow.nulls import is_variable_list, null_mask
from lancecy.encodings.blocks.memory import allocate
from lancecy.errors import LimitError, UnsupportedError
from lancecy.kernels.sorting import sorted_order

__all__ = [
    "ArrowArray",
    "as_array",
    "bare",
    "bare_type",
    "byte_order",
    "chunks_of",
    "cut_out",
    "filtered",
    "joined",
    "storage_of",
    "taken",
    "typed",
    "unified",
    "unsliced",
    "unsliced_rows",
    "validity_of",
]


ArrowArray: TypeAlias = "pa.Array | pa.ChunkedArray"
Rows = TypeVar("Rows", "pa.RecordBatch", "pa.Table")
Int64 = NDArray[np.int64]

# Most bytes or elements that 32-bit offsets of one chunk can count.
_MAX_EXTENT = (1 << 31) - 1


def chunks_of(column: ArrowArray) -> list[pa.Array]:
    """The chunks of a column that have rows."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [chunk for chunk in chunks if len(chunk)]


def as_array(column: ArrowArray) -> pa.Array:
    """The column as one array; several chunks are copied.

    Raises
    ------
    LimitError
        The column is too large for one array.
    UnsupportedError
        The dictionaries of its chunks cannot be unified.
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks = chunks_of(column)
    if not chunks:
        return column.chunk(0) if column.num_chunks else column.combine_chunks()
    return chunks[0] if len(chunks) == 1 else _concatenated(unified(chunks))


def unsliced(column: ArrowArray) -> ArrowArray:
    """The column with copies of slices of which Arrow would take, or filter, the wrong rows.

    Arrow (26.0) starts at the wrong value in slices of fixed-size lists of fixed-size lists without nulls.

    Examples
    --------
    >>> column = pa.array([[[1], [2]], [[3], [4]]], pa.list_(pa.list_(pa.int64(), 1), 2))[1:]
    >>> unsliced(column).take(pa.array([0])).to_pylist()
    [[[3], [4]]]
    """
    if not _has_nested_vectors(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([unsliced(chunk) for chunk in column.chunks], column.type)
    # A single array would be returned as it is.
    return pa.concat_arrays([column, column.slice(0, 0)]) if _is_slice(column) else column


def _has_nested_vectors(data_type: pa.DataType) -> bool:
    data_type = _storage_type(data_type)
    inner = [_storage_type(data_type.field(i).type) for i in range(data_type.num_fields)]
    if pa.types.is_fixed_size_list(data_type) and pa.types.is_fixed_size_list(inner[0]):
        return True
    return any(map(_has_nested_vectors, inner))


def _storage_type(data_type: pa.DataType) -> pa.DataType:
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type


def _is_slice(array: pa.Array) -> bool:
    if isinstance(array, pa.ExtensionArray):
        return _is_slice(array.storage)
    if array.offset:
        return True
    if isinstance(array, pa.StructArray):
        return any(_is_slice(array.field(i)) for i in range(array.type.num_fields))
    return bool(array.type.num_fields) and _is_slice(array.values)


def unsliced_rows(rows: Rows) -> Rows:
    """A batch or table with :func:`unsliced` columns, and the same rows."""
    if not any(_has_nested_vectors(field.type) for field in rows.schema):
        return rows
    return type(rows).from_arrays([unsliced(column) for column in rows.columns], schema=rows.schema)


def filtered(column: ArrowArray, mask: pa.Array) -> ArrowArray:
    """The rows of a column for which a mask is true.

    Parameters
    ----------
    column : pa.Array or pa.ChunkedArray
    mask : (n,) pa.BooleanArray

    Examples
    --------
    >>> filtered(pa.array([5, None, 7]), pa.array([True, True, False])).to_pylist()
    [5, None]
    """
    kind = column.type
    if mask.null_count or len(mask) != len(column) or not _is_kept_here(kind):
        return unsliced(column).filter(mask)
    if not isinstance(column, pa.ChunkedArray):
        return _kept(column, mask)
    edges = [0, *accumulate(len(chunk) for chunk in column.chunks)]
    pieces = [
        _kept(chunk, mask.slice(first, len(chunk)))
        for chunk, first in zip(column.chunks, edges, strict=False)
    ]
    return pa.chunked_array(pieces, kind)


def _is_kept_here(kind: pa.DataType) -> bool:
    """Whether values, or codes of a dictionary, are of whole bytes or single bits; or structs, lists and maps."""
    types = pa.types
    if types.is_dictionary(kind) or is_variable_list(kind) or (types.is_struct(kind) and kind.num_fields):
        return True
    if not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind)):
        return False
    bits: int = kind.bit_width
    return bits == 1 or (bits > 0 and bits % 8 == 0)


def _kept(values: pa.Array, mask: pa.Array) -> pa.Array:
    """:func:`filtered` for values that need no copy of strings: Arrow takes four times as long where 10 % or half of them are kept."""
    count, kind = mask.true_count, values.type
    if count == 0 or count == len(values):
        return values.slice(0, count)
    if pa.types.is_dictionary(kind):
        codes = _kept(values.indices, mask)
        return pa.DictionaryArray.from_arrays(codes, values.dictionary, ordered=kind.ordered, safe=False)
    first, stop = values.offset, values.offset + len(values)
    which = np.frombuffer(mask.buffers()[1], np.uint8), mask.offset, len(mask)
    valid, num_valid = None, count
    if values.null_count:
        valid, num_valid = _kept_bits(values.buffers()[0], first, stop, count, which)
    if pa.types.is_struct(kind):
        members = [filtered(values.field(i), mask) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, count, [valid], count - num_valid, children=members)
    memory = values.buffers()[1]
    if is_variable_list(kind):
        offsets = np.frombuffer(memory, "<i8" if pa.types.is_large_list(kind) else "<i4")[first : stop + 1]
        buffer, found = allocate((count + 1) * offsets.itemsize)
        begin, end = int(offsets[0]), int(offsets[-1])
        marks = np.zeros((end - begin + 7) // 8, np.uint8)
        kernels.filter_lists(offsets, *which[:2], found.view(offsets.dtype), marks)
        chosen = pa.Array.from_buffers(pa.bool_(), end - begin, [None, pa.py_buffer(marks)], 0)
        elements = _kept_elements(values, begin, end, chosen)
        return pa.Array.from_buffers(kind, count, [valid, buffer], count - num_valid, children=[elements])
    bits = kind.bit_width
    if bits == 1:
        buffer, _ = _kept_bits(memory, first, stop, count, which)
    else:
        width = bits // 8
        buffer, out = allocate(count * width)
        stored = np.frombuffer(memory, np.uint8)[first * width : stop * width]
        kernels.filter_fixed(stored, width, *which, out)
    return pa.Array.from_buffers(kind, count, [valid, buffer], count - num_valid)


def _kept_elements(lists: pa.Array, begin: int, end: int, mask: pa.Array) -> pa.Array:
    """The kept ones of some elements; entries of maps are no slice, as Arrow (26.0) ignores where these begin."""
    if not pa.types.is_map(lists.type):
        return filtered(lists.values.slice(begin, end - begin), mask)
    kind = lists.type
    parts = [filtered(part.slice(begin, end - begin), mask) for part in (lists.keys, lists.items)]
    return pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])


def _kept_bits(
    bitmap: pa.Buffer, first: int, stop: int, count: int, which: tuple[NDArray[np.uint8], int, int]
) -> tuple[pa.Buffer, int]:
    """The kept ones of some bits of a bitmap, and how many of them are set."""
    skipped = first & ~7
    memory = np.frombuffer(bitmap, np.uint8)[skipped >> 3 : (stop + 7) >> 3]
    bits = np.unpackbits(memory, count=stop - skipped, bitorder="little")
    kept = np.empty(count, np.uint8)
    kernels.filter_fixed(bits[first - skipped :], 1, *which, kept)
    return pa.py_buffer(np.packbits(kept, bitorder="little")), int(np.count_nonzero(kept))


def joined(columns: Iterable[ArrowArray], data_type: pa.DataType) -> pa.ChunkedArray:
    """Concatenate columns of the same type; only codes of dictionaries that differ are copied."""
    chunks = [chunk for column in columns for chunk in chunks_of(column)]
    return pa.chunked_array(unified(chunks), data_type)


def _concatenated(chunks: Sequence[pa.Array]) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    try:
        return pa.concat_arrays(chunks)
    except pa.ArrowInvalid as error:
        what = f"{len(chunks)} pieces of type {chunks[0].type}"
        if sum(_extent(chunk) for chunk in chunks) > _MAX_EXTENT:
            raise LimitError(
                f"{what} do not fit into one array: read the column in smaller batches",
                limit="",
                claimed=sum(chunk.nbytes for chunk in chunks),
            ) from error
        raise UnsupportedError(
            f"rows of {what} cannot be brought together: {error}", feature="dictionaries that differ"
        ) from error


# -- dictionaries ----------------------------------------------------------------------


def unified(chunks: list[pa.Array]) -> list[pa.Array]:
    """Recode all chunks to one dictionary.

    Fragments without the column have an empty dictionary, and files of later versions each have their own. A null
    in a dictionary becomes a null code where dictionaries differ. Chunks are returned unchanged if the type of the
    codes cannot count even the used values.
    """
    if not chunks or not pa.types.is_dictionary(chunks[0].type):
        return chunks
    first, *others = _dictionaries(chunks).values()
    if all(other.equals(first) for other in others):
        return chunks
    for candidates in (chunks, map(_only_used, chunks)):
        try:
            return _over_one_dictionary(list(candidates))
        except pa.ArrowInvalid:
            continue
    return chunks


def _dictionaries(chunks: Iterable[pa.DictionaryArray]) -> dict[tuple[object, ...], pa.Array]:
    """The distinct dictionaries of the chunks."""
    return {_identity(chunk.dictionary): chunk.dictionary for chunk in chunks}


def _over_one_dictionary(chunks: list[pa.DictionaryArray]) -> list[pa.DictionaryArray]:
    distinct = _dictionaries(chunks)
    encoded = pa.concat_arrays(list(distinct.values())).dictionary_encode()
    starts = np.cumsum([0, *(len(values) for values in distinct.values())])
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
    """The same array with a dictionary that has no unused values."""
    used = chunk.indices.unique().drop_null().sort()
    codes = pc.index_in(chunk.indices, used).cast(chunk.indices.type)
    return pa.DictionaryArray.from_arrays(
        codes, chunk.dictionary.take(used), ordered=chunk.type.ordered, safe=False
    )


def _recoded(indices: pa.Array, codes: pa.Array) -> pa.Array:
    """Replace each code by its new one, ``codes[code]``."""
    new = codes.cast(indices.type)
    if new.null_count or indices.offset:
        return new.take(indices)
    table = numbers_of(new)
    if np.array_equal(table, np.arange(table.size)):
        return indices
    validity, data = indices.buffers()
    old = np.frombuffer(data, table.dtype, len(indices))
    bits = None if validity is None else np.frombuffer(validity, np.uint8)[: (len(indices) + 7) // 8]
    buffer, out = allocate(old.nbytes)
    kernels.take_fixed(old, table.view(np.uint8), table.dtype.itemsize, out, bits)
    return pa.Array.from_buffers(indices.type, len(indices), [validity, buffer])


def _identity(array: pa.Array) -> tuple[object, ...]:
    """Addresses of an array's values: arrays with the same addresses are equal, without comparing values."""
    buffers = (None if buffer is None else (buffer.address, buffer.size) for buffer in array.buffers())
    return (len(array), array.offset, *buffers)


# -- validity ---------------------------------------------------------------------------


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap; its first bit is that of the first row."""
    if array.null_count == 0:
        return None
    if array.offset == 0:
        return array.buffers()[0]
    is_valid = numbers_of(array.is_valid())
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


# -- slices ------------------------------------------------------------------------------


def cut_out(array: pa.Array, start: int, length: int) -> pa.Array:
    """Rows of an array, as a slice wherever that is safe.

    Arrow (26.0 at least) takes and filters the wrong rows of fixed-size lists of fixed-size lists whose
    offset, or whose child's, is not 0; those are copied.
    """
    piece = array.slice(start, length)
    if len(piece) == len(array) or not _has_nested_vectors(array.type):
        return piece
    return pa.concat_arrays([piece, piece.slice(0, 0)])


# -- order -------------------------------------------------------------------------------


def taken(column: ArrowArray, rows: Int64, most: int | None = None) -> ArrowArray:
    """Take the rows at these positions, in that order; rows may repeat.

    Parameters
    ----------
    column : pa.Array or pa.ChunkedArray
    rows : (n,) int64
    most : int, bytes or list elements
        Approximate limit of one chunk of the result, 2 GiB by default; a single row may hold more.

    Returns
    -------
    pa.Array, or pa.ChunkedArray where one array is not enough

    Raises
    ------
    UnsupportedError
        The dictionaries of the chunks cannot be unified.
    """
    most = _MAX_EXTENT if most is None else most
    chunks = unified(chunks_of(unsliced(column)))
    if not chunks:
        return column
    total = sum(_extent(chunk) for chunk in chunks)
    repeats = max(1, -(-rows.size // max(1, len(column))))
    if total * repeats <= most:
        found = _take_array(_concatenated(chunks), rows)
        if found is not None and _extent(found) <= most:
            return found
    starts = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    pieces: list[pa.Array] = []
    for part in np.array_split(rows, min(rows.size, -(-total * repeats // most)) or 1):
        pieces.extend(_take_chunked(chunks, starts, part, most))
    return pa.chunked_array(pieces, column.type)


def _take_array(array: pa.Array, rows: Int64) -> pa.Array | None:
    """Take the rows at these positions; None if offsets of the array's width cannot count their values."""
    try:
        return array.take(array_of(rows))
    except pa.ArrowInvalid:
        return None


def _take_chunked(chunks: Sequence[pa.Array], starts: Int64, rows: Int64, most: int) -> Iterator[pa.Array]:
    """Take the rows at these positions, as arrays of at most ``most`` each unless it is one row."""
    which = np.searchsorted(starts, rows, side="right") - 1
    order = sorted_order(which)
    edges = np.searchsorted(which[order], np.arange(len(chunks) + 1))
    picked = (
        _take_array(chunks[i], rows[order[first:last]] - starts[i])
        for i, (first, last) in enumerate(pairwise(edges))
        if last > first
    )
    parts: list[pa.Array] = []
    size = 0
    for part in picked:
        size = most + 1 if part is None else size + _extent(part)
        if rows.size > 1 and size > most:
            # Sizes of rows vary, and these are larger than average.
            parts.clear()
            for half in np.array_split(rows, 2):
                yield from _take_chunked(chunks, starts, half, most)
            return
        parts.append(part)
    if parts:
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        yield _concatenated(parts).take(array_of(back))


def _extent(array: pa.Array) -> int:
    """Upper bound of the values that offsets of the array count: bytes of text or elements of lists."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _extent(array.storage)
    if pa.types.is_dictionary(data_type):
        return int(array.indices.nbytes)
    if pa.types.is_struct(data_type):
        return max((_extent(array.field(i)) for i in range(data_type.num_fields)), default=0)
    if is_variable_list(data_type):
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
    """The column as an array of ``data_type`` if that is an extension type; unchanged if it already is one."""
    if not isinstance(data_type, pa.BaseExtensionType) or column.type == data_type:
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = [pa.ExtensionArray.from_storage(data_type, chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, data_type)
    return pa.ExtensionArray.from_storage(data_type, column)


def byte_order(offsets: Int64, values: NDArray[np.uint8]) -> Int64:
    """Sort byte strings: (num_strings,) int64 indices, from the least string to the greatest.

    Parameters
    ----------
    offsets : (num_strings + 1,) int64
    values : (num_bytes,) uint8

    Examples
    --------
    >>> byte_order(np.array([0, 2, 3, 4]), np.frombuffer(b"baab", np.uint8)).tolist()
    [1, 2, 0]
    """
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    strings = pa.Array.from_buffers(pa.large_binary(), offsets.size - 1, buffers)
    found: Int64 = numbers_of(pc.array_sort_indices(strings)).astype(np.int64)
    return found


# -- structs under extension types ------------------------------------------------------------


def bare_type(data_type: pa.DataType) -> pa.DataType:
    """Replace extension types over structs by their storage, so that children can be named."""
    if isinstance(data_type, pa.BaseExtensionType):
        storage = bare_type(data_type.storage_type)
        return storage if pa.types.is_struct(storage) else data_type
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(bare_type(field.type)) for field in data_type])
    return data_type


def bare(column: ArrowArray) -> ArrowArray:
    """The column as :func:`bare_type`, sharing its memory."""
    wanted = bare_type(column.type)
    if wanted == column.type:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([bare(chunk) for chunk in column.chunks], wanted)
    array = storage_of(column)
    children = [bare(array.field(i)) for i in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null_mask(array))
