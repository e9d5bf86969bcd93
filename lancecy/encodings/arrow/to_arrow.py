"""Conversion of blocks to Arrow arrays: the only place where decoded buffers become Arrow.

``to_arrow`` gives a block a type and shares its memory, that of ``memory.allocate``. Kernels have checked
offsets, codes and lengths before a block exists; only text remains to be checked: Arrow's kernels trust UTF-8,
so the strings of a file are scanned once (a maximum over the bytes, 40 GB/s; only text that is not ASCII is
validated value by value).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.assemble import assemble
from lancecy.encodings.arrow.columns import ArrowArray, as_array, chunks_of, storage_of, taken, typed
from lancecy.encodings.arrow.conversions import filled, scalar_of
from lancecy.encodings.arrow.json import to_texts
from lancecy.encodings.arrow.nulls import VARIABLE_TYPES, element_type, null_array
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Leaves,
    Listed,
    Pieces,
    Reordered,
    Structured,
    VariableWidth,
)
from lancecy.errors import FormatError, printable
from lancecy.schema import Field

__all__ = ["json_column", "to_arrow"]


def to_arrow(
    block: Block, kind: pa.DataType | Field, field: Field | None = None, *, check_text: bool = True
) -> ArrowArray:
    r"""Convert the block to an Arrow array of the given type, sharing its memory.

    Parameters
    ----------
    block : Block
    kind : pa.DataType or Field
        The type, which must fit the block's layout; an extension type wraps its storage. A field means its own
        type.
    field : Field or None
        Needed for structs when ``kind`` is a type: the children name the blocks by id, and a child without
        a block is null. Errors use its name.
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
    if isinstance(data_type, pa.JsonType):
        name = None if field is None else field.name
        return json_column(to_arrow(block, pa.large_binary(), field), data_type, name)
    return typed(to_arrow(block, data_type.storage_type, field, check_text=check), data_type)


def json_column(stored: ArrowArray, kind: pa.JsonType, name: str | None = None) -> ArrowArray:
    r"""Convert a JSON column from its stored form to text, in as many chunks as 32-bit offsets need.

    Parameters
    ----------
    stored : pa.LargeBinaryArray or pa.ChunkedArray
    kind : pa.JsonType
    name : str or None
        Of the column, for errors.

    Raises
    ------
    FormatError, LimitError
        See :func:`lancecy.encodings.arrow.json.to_texts`.

    Examples
    --------
    >>> json_column(pa.array([b"\x80\0\0\0"], pa.large_binary()), pa.json_()).to_pylist()
    ['[]']
    """
    try:
        chunks = [to_texts(chunk) for chunk in chunks_of(stored)]
    except FormatError as error:
        raise error.within(f"column {name!r}" if name else "a JSON column") from error.__cause__
    if len(chunks) == 1:
        return typed(chunks[0], kind)
    texts = pa.chunked_array(chunks, kind.storage_type) if chunks else null_array(kind.storage_type, 0)
    return typed(texts, kind)


def _buffer(data: object) -> pa.Buffer | None:
    if data is None or isinstance(data, pa.Buffer):
        return data
    return pa.py_buffer(data)


def _array(block: Block, data_type: pa.DataType, field: Field | None, check: bool) -> pa.Array:
    """Convert the block to one array, with pieces joined: only top-level columns have chunks."""
    return as_array(to_arrow(block, data_type, field, check_text=check))


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
    if field is not None and field.in_codes and pa.types.is_dictionary(data_type):
        return _variable_width(block, data_type.value_type, field, check).dictionary_encode()
    is_text, width = VARIABLE_TYPES.get(data_type, (False, 0))
    if width != block.offset_width:
        raise _misfit(block, data_type)
    values = pa.py_buffer(block.values)
    buffers = [_buffer(block.validity), _buffer(block.offsets), values]
    array = pa.Array.from_buffers(data_type, block.length, buffers, block.null_count)
    if is_text and check:
        _check_text(array, np.frombuffer(values, np.uint8), field)
    return array


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
    types = pa.types
    is_map, is_large = types.is_map(data_type), types.is_large_list(data_type)
    if not (is_large or is_map or types.is_list(data_type)) or block.offset_width != (8 if is_large else 4):
        raise _misfit(block, data_type)
    child = _array(block.child, element_type(data_type), _element(field), check)
    if is_map and (child.null_count or child.field(0).null_count):
        raise FormatError("a map has keys that are null")
    buffers = [_buffer(block.validity), _buffer(block.offsets)]
    return pa.Array.from_buffers(data_type, block.length, buffers, block.null_count, 0, [child])


def _element(field: Field | None) -> Field | None:
    """The field of a list's elements, if it has one."""
    return field.children[0] if field is not None and field.children else None


def _fixed_list(block: FixedList, data_type: pa.DataType, field: Field | None, check: bool) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != block.size:
        raise _misfit(block, data_type)
    child = _array(block.child, data_type.value_type, _element(field), check)
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
    values = _array(block.dictionary, data_type.value_type, field, check)
    codes = _codes(block.codes, data_type.index_type, len(values), field, check)
    if values.null_count:
        # Null rows must be null by validity: 2.0 files point them at a null in the dictionary.
        is_null = filled(values.is_null().take(codes), True)
        codes = pc.if_else(is_null, scalar_of(None, codes.type), codes)
    # The codes were checked against the dictionary by a kernel; safe=True would do it again.
    return pa.DictionaryArray.from_arrays(codes, values, ordered=data_type.ordered, safe=False)


def _codes(
    block: FixedWidth, data_type: pa.DataType, num_values: int, field: Field | None, check: bool
) -> pa.Array:
    """Codes of the type; those of a text are stored unsigned, as wide as the page needs."""
    if field is None or not field.in_codes:
        return _fixed_width(block, data_type, None, check)
    stored = _UNSIGNED.get(block.bits)
    if stored is None:
        raise FormatError(f"a page has codes of {block.bits} bits")
    narrow = _fixed_width(block, stored, None, check)
    if block.bits == data_type.bit_width and num_values <= 1 << (block.bits - 1):
        return narrow.view(data_type)  # Codes of so few values are the same numbers in both types.
    if block.bits >= data_type.bit_width:
        return narrow.cast(data_type)
    validity, data = narrow.buffers()
    buffer, out = allocate(len(narrow) * data_type.bit_width // 8)
    out.view(data_type.to_pandas_dtype())[:] = np.frombuffer(data, stored.to_pandas_dtype(), len(narrow))
    return pa.Array.from_buffers(data_type, len(narrow), [validity, buffer], narrow.null_count)


def _all_null(block: AllNull, data_type: pa.DataType, _field: Field | None, _check: bool) -> pa.Array:
    return null_array(data_type, block.length)


def _leaves(block: Leaves, data_type: pa.DataType, field: Field | None, check: bool) -> ArrowArray:
    if field is None:
        raise _misfit(block, data_type)
    whole = _one_struct([leaf for _, leaf in block.parts])
    if whole is not None:
        return to_arrow(whole, data_type, field, check_text=check)
    parts = [(_field(part), to_arrow(leaf, _field(part), check_text=check)) for part, leaf in block.parts]
    return storage_of(assemble(field, parts, block.length, agree=True))


def _one_struct(blocks: Sequence[Block]) -> Structured | None:
    """Structs with the children of all these, or None if they are not structs or a child of several is none."""
    first = blocks[0]
    children: dict[int, Block] = {}
    for block in blocks:
        if not isinstance(block, Structured) or block.length != first.length:
            return None
        for number, child in block.children.items():
            known = children.get(number)
            both = child if known is None else _one_struct([known, child])
            if both is None:
                return None
            children[number] = both
    return replace(first, children=children) if isinstance(first, Structured) else None


def _field(part: object) -> Field:
    if not isinstance(part, Field):
        raise TypeError("a part of a column is named by a field")
    return part


def _reordered(block: Reordered, data_type: pa.DataType, field: Field | None, check: bool) -> ArrowArray:
    return taken(to_arrow(block.block, data_type, field, check_text=check), block.indices)


def _pieces(block: Pieces, data_type: pa.DataType, field: Field | None, check: bool) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for piece in block.blocks:
        column = to_arrow(piece, data_type, field, check_text=check)
        chunks.extend(column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    return pa.chunked_array(chunks, data_type)


_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}

_MAKERS: dict[type[object], Callable[[Any, pa.DataType, Field | None, bool], ArrowArray]] = {
    FixedWidth: _fixed_width,
    VariableWidth: _variable_width,
    Listed: _listed,
    FixedList: _fixed_list,
    Structured: _structured,
    Coded: _coded,
    AllNull: _all_null,
    Pieces: _pieces,
    Leaves: _leaves,
    Reordered: _reordered,
}
