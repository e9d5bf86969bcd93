"""Blocks and Arrow: the one seam between decoded buffers and Arrow arrays.

``allocate`` makes the memory that kernels fill, ``to_arrow`` gives a block a type and
shares its memory, ``null_array`` makes columns that no file holds. Offsets, codes and
lengths have been checked by the kernels before a block exists; what is left to check
here is text: Arrow's kernels take UTF-8 on trust, so strings of a file are looked at
once (a maximum over the bytes, 40 GB/s; only text that is not ASCII is validated value
by value).

Imports ``block``, ``schema``, ``errors``, NumPy and pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Listed,
    Pieces,
    Structured,
    VariableWidth,
)
from lancecy.errors import FormatError, LimitError, printable
from lancecy.schema import Field

__all__ = ["ArrowArray", "allocate", "null_array", "to_arrow"]

ArrowArray: TypeAlias = "pa.Array | pa.ChunkedArray"


def allocate(nbytes: int) -> tuple[pa.Buffer, NDArray[np.uint8]]:
    r"""Fresh memory for a kernel to fill, as an Arrow buffer and as an array over the same bytes.

    Parameters
    ----------
    nbytes : int, bytes
        At least 0; bounded by the caller. The content is undefined.

    Returns
    -------
    buffer : pa.Buffer
        From Arrow's default pool, whose pages stay warm from one scan to the next.
    view : (nbytes,) uint8, writable

    Examples
    --------
    >>> buffer, view = allocate(4)
    >>> view[:] = 7
    >>> buffer.to_pybytes()
    b'\x07\x07\x07\x07'
    """
    buffer = pa.allocate_buffer(nbytes)
    return buffer, np.frombuffer(buffer, np.uint8)


def to_arrow(
    block: Block, kind: pa.DataType | Field, field: Field | None = None, *, check_text: bool = True
) -> ArrowArray:
    r"""The block as an Arrow array of the given type, sharing its memory.

    Parameters
    ----------
    block : Block
    kind : pa.DataType or Field
        The type, which must fit the block's layout; an extension type is laid over its storage. A field
        stands for its own type.
    field : Field or None
        Needed for structs when ``kind`` is a type: the children name the blocks by id, and a child without
        a block is null. Its name goes into errors.
    check_text : bool
        Whether strings are checked to be UTF-8.

    Returns
    -------
    pa.Array, or pa.ChunkedArray for a block in pieces

    Raises
    ------
    FormatError
        Text is not UTF-8; ``position`` is the row within the array concerned.
    TypeError
        The type does not fit the block (a mistake of the caller).

    Examples
    --------
    >>> to_arrow(FixedWidth(2, 16, b"\x01\x00\x02\x00"), pa.int16()).to_pylist()
    [1, 2]
    """
    if isinstance(kind, Field):
        kind, field = kind.arrow_type, kind
    if isinstance(kind, pa.BaseExtensionType):
        return _extension(block, kind, field, check_text)
    return _MAKERS[type(block)](block, kind, field, check_text)


def _extension(block: Block, data_type: pa.BaseExtensionType, field: Field | None, check: bool) -> ArrowArray:
    storage = to_arrow(block, data_type.storage_type, field, check_text=check)
    if isinstance(storage, pa.ChunkedArray):
        chunks = [pa.ExtensionArray.from_storage(data_type, chunk) for chunk in storage.chunks]
        return pa.chunked_array(chunks, data_type)
    return pa.ExtensionArray.from_storage(data_type, storage)


def _buffer(data: object) -> pa.Buffer | None:
    if data is None or isinstance(data, pa.Buffer):
        return data
    return pa.py_buffer(data)


def _array(block: Block, data_type: pa.DataType, field: Field | None, check: bool) -> pa.Array:
    """A child array: pieces are for whole columns only."""
    if isinstance(block, Pieces):
        raise TypeError("a child of another block cannot be in pieces")
    return to_arrow(block, data_type, field, check_text=check)


def _misfit(block: Block, data_type: pa.DataType) -> TypeError:
    return TypeError(f"a {type(block).__name__} block does not fit the type {data_type}")


def _fixed_width(block: FixedWidth, data_type: pa.DataType, _field: Field | None, _check: bool) -> pa.Array:
    if data_type.num_fields or data_type.bit_width != block.bits:
        raise _misfit(block, data_type)
    buffers = [_buffer(block.validity), _buffer(block.values)]
    return pa.Array.from_buffers(data_type, block.length, buffers, block.null_count)


def _variable_width(
    block: VariableWidth, data_type: pa.DataType, field: Field | None, check: bool
) -> pa.Array:
    is_text, width = _VARIABLE_TYPES.get(data_type, (False, 0))
    if width != block.offset_width:
        raise _misfit(block, data_type)
    values = pa.py_buffer(block.values)
    buffers = [_buffer(block.validity), _buffer(block.offsets), values]
    array = pa.Array.from_buffers(data_type, block.length, buffers, block.null_count)
    if is_text and check:
        _check_text(array, np.frombuffer(values, np.uint8), field)
    return array


_VARIABLE_TYPES: dict[pa.DataType, tuple[bool, int]] = {
    pa.string(): (True, 4),
    pa.large_string(): (True, 8),
    pa.binary(): (False, 4),
    pa.large_binary(): (False, 8),
}


def _check_text(array: pa.Array, values: NDArray[np.uint8], field: Field | None) -> None:
    if values.size == 0 or int(values.max()) < 0x80 or _is_valid(array):
        return
    first, last = 0, len(array)
    while last - first > 1:
        middle = (first + last) // 2
        if _is_valid(array.slice(first, middle - first)):
            first = middle
        else:
            last = middle
    where = f" of column {printable(field.name)!r}" if field is not None else ""
    raise FormatError(f"text of row {first}{where} is not UTF-8", position=first)


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _listed(block: Listed, data_type: pa.DataType, field: Field | None, check: bool) -> pa.Array:
    large = pa.types.is_large_list(data_type)
    if not (large or pa.types.is_list(data_type)) or block.offset_width != (8 if large else 4):
        raise _misfit(block, data_type)
    child_field = field.children[0] if field is not None and field.children else None
    child = _array(block.child, data_type.value_type, child_field, check)
    buffers = [_buffer(block.validity), _buffer(block.offsets)]
    return pa.Array.from_buffers(data_type, block.length, buffers, block.null_count, 0, [child])


def _fixed_list(block: FixedList, data_type: pa.DataType, _field: Field | None, check: bool) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != block.size:
        raise _misfit(block, data_type)
    child = _array(block.child, data_type.value_type, None, check)
    return pa.Array.from_buffers(
        data_type, block.length, [_buffer(block.validity)], block.null_count, 0, [child]
    )


def _structured(block: Structured, data_type: pa.DataType, field: Field | None, check: bool) -> pa.Array:
    if field is None or not pa.types.is_struct(data_type) or data_type.num_fields != len(field.children):
        raise _misfit(block, data_type)
    children = []
    for index, child in enumerate(field.children):
        child_block = block.children.get(child.id) or AllNull(block.length)
        children.append(_array(child_block, data_type.field(index).type, child, check))
    return pa.Array.from_buffers(
        data_type, block.length, [_buffer(block.validity)], block.null_count, 0, children
    )


def _coded(block: Coded, data_type: pa.DataType, field: Field | None, check: bool) -> pa.Array:
    if not pa.types.is_dictionary(data_type):
        raise _misfit(block, data_type)
    codes = _fixed_width(block.codes, data_type.index_type, None, check)
    values = _array(block.dictionary, data_type.value_type, field, check)
    # The codes were checked against the dictionary by a kernel; safe=True would do it again.
    return pa.DictionaryArray.from_arrays(codes, values, ordered=data_type.ordered, safe=False)


def _all_null(block: AllNull, data_type: pa.DataType, _field: Field | None, _check: bool) -> pa.Array:
    return null_array(data_type, block.length)


def _pieces(block: Pieces, data_type: pa.DataType, field: Field | None, check: bool) -> pa.ChunkedArray:
    chunks = [_array(piece, data_type, field, check) for piece in block.blocks]
    return pa.chunked_array(chunks, data_type)


_MAKERS: dict[type[object], Callable[[Any, pa.DataType, Field | None, bool], ArrowArray]] = {
    FixedWidth: _fixed_width,
    VariableWidth: _variable_width,
    Listed: _listed,
    FixedList: _fixed_list,
    Structured: _structured,
    Coded: _coded,
    AllNull: _all_null,
    Pieces: _pieces,
}


# -- columns that no file holds ----------------------------------------------------


def null_array(data_type: pa.DataType, length: int) -> pa.Array:
    """An array of nulls.

    All its buffers share one run of zeros that is not touched when it is made, so a long column of nulls
    costs address space and no memory (``pa.nulls`` writes every byte).

    Raises
    ------
    LimitError
        It would take more memory than can be addressed.

    Examples
    --------
    >>> null_array(pa.int32(), 2).to_pylist()
    [None, None]
    """
    try:
        zeros = pa.py_buffer(np.zeros(max(64, _zeros_needed(data_type, length)), np.uint8))
    except (MemoryError, OverflowError, ValueError) as error:
        raise LimitError(
            f"{length} nulls of type {data_type} take too much memory", limit="rows_per_file", claimed=length
        ) from error
    return _nulls(data_type, length, zeros)


def _zeros_needed(data_type: pa.DataType, length: int) -> int:
    if pa.types.is_dictionary(data_type):
        return _zeros_needed(data_type.index_type, length)
    if pa.types.is_struct(data_type):
        return max([length // 8 + 1, *(_zeros_needed(child.type, length) for child in data_type)])
    if pa.types.is_fixed_size_list(data_type):
        return max(length // 8 + 1, _zeros_needed(data_type.value_type, length * data_type.list_size))
    if isinstance(data_type, pa.BaseExtensionType):
        return _zeros_needed(data_type.storage_type, length)
    if _has_offsets(data_type):
        return 8 * (length + 1)
    if pa.types.is_fixed_size_binary(data_type):
        return length * int(data_type.byte_width)  # bit_width wraps at 32 bits
    return (length * data_type.bit_width + 7) // 8 if not pa.types.is_null(data_type) else 0


def _has_offsets(data_type: pa.DataType) -> bool:
    return data_type in _VARIABLE_TYPES or pa.types.is_list(data_type) or pa.types.is_large_list(data_type)


def _nulls(data_type: pa.DataType, length: int, zeros: pa.Buffer) -> pa.Array:
    types = pa.types
    if types.is_null(data_type):
        return pa.nulls(length)
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, _nulls(data_type.storage_type, length, zeros))
    if types.is_dictionary(data_type):
        codes = _nulls(data_type.index_type, length, zeros)
        values = _nulls(data_type.value_type, 0, zeros)
        return pa.DictionaryArray.from_arrays(codes, values, ordered=data_type.ordered, safe=False)
    buffers: list[pa.Buffer] = [zeros]
    children: list[pa.Array] = []
    if types.is_struct(data_type):
        children = [_nulls(child.type, length, zeros) for child in data_type]
    elif types.is_fixed_size_list(data_type):
        children = [_nulls(data_type.value_type, length * data_type.list_size, zeros)]
    elif types.is_list(data_type) or types.is_large_list(data_type):
        buffers.append(zeros)
        children = [_nulls(data_type.value_type, 0, zeros)]
    else:
        buffers += [zeros, zeros] if data_type in _VARIABLE_TYPES else [zeros]
    return pa.Array.from_buffers(data_type, length, buffers, length, 0, children)
