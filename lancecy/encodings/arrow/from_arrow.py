"""Conversion of Arrow arrays to blocks, for writers; the inverse of ``to_arrow``.

Blocks have no slices or offsets: bitmaps begin with their first bit, offsets with 0, children with the first used
element. Data under nulls is dropped: null lists, lists below null structs and null strings have no elements or
bytes in a block. Fixed-width values and the bytes of strings share the memory of the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.conversions import filled, scalar_of
from lancecy.encodings.arrow.map_nested import elements_of, map_nested
from lancecy.encodings.arrow.nulls import VARIABLE_TYPES, is_variable_list
from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.blocks.select import compacted, select
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Listed,
    Structured,
    VariableWidth,
)
from lancecy.errors import SchemaError, printable
from lancecy.schema import Field

__all__ = ["bits_of", "block_of", "narrowed", "size_of", "without_views"]

Mask = NDArray[np.bool_]
Bits = NDArray[np.uint8]

_OFFSET_WIDTHS = {kind.id: width for kind, (_, width) in VARIABLE_TYPES.items()}
"""Bytes of an offset, by the number of the kind of type."""
_SMALL: dict[object, object] = {
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.LargeListType: pa.ListType,
}
_DICTIONARY = "dictionary"


def narrowed(array: pa.Array, field: Field) -> pa.Array:
    """Convert the array to the storage type of a field.

    Extension types become their storage, and views plain types: the format has neither. Text, bytes and lists get
    the offset width of the field, because some libraries use only large types and others none.

    Raises
    ------
    SchemaError
        The array is of another type, or too long for the offsets of the field.

    Examples
    --------
    >>> narrowed(pa.array(["a"], pa.large_string()), Field("a", 0, logical_type="string")).type
    DataType(string)
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    wanted = field.storage_type
    if array.type == wanted:
        return array
    if _without_view(array.type) == wanted:
        return array.cast(wanted)
    found, stored = _shape(array.type), _shape(wanted, is_stored=True)
    if found == stored:
        return array
    if _small(found) == _small(stored):
        return _in_width(array, field)
    raise SchemaError(
        f"column {printable(field.name)!r} is {array.type}, where the schema has {wanted}",
        difference=f"{array.type} is not {wanted}",
    )


def _in_width(array: pa.Array, field: Field) -> pa.Array:
    if field.children:
        return map_nested(array, field, lambda node: not node.children, narrowed)
    try:
        return array.cast(field.storage_type)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {printable(field.name)!r} is {array.type} and has more than 2 GiB in a batch, where the schema "
            f"has {field.storage_type}: write it in smaller batches",
            difference=f"{array.type} is not {field.storage_type}",
        ) from error


def _shape(kind: pa.DataType, is_stored: bool = False) -> object:
    """A type without names of children, nullability, metadata and extension types.

    Stored JSON differs from its text.
    """
    if is_stored and isinstance(kind, pa.JsonType):
        return _shape(pa.large_binary())
    if isinstance(kind, pa.BaseExtensionType):
        return _shape(kind.storage_type, is_stored)
    types = pa.types
    inner = tuple(_shape(kind.field(i).type, is_stored) for i in range(kind.num_fields))
    if types.is_struct(kind):
        return "struct", tuple(kind.field(i).name for i in range(kind.num_fields)), inner
    if types.is_fixed_size_list(kind):
        return "fixed", kind.list_size, inner
    if types.is_dictionary(kind):
        return _DICTIONARY, kind.index_type, _without_view(kind.value_type)
    return (type(kind), inner) if inner else _without_view(kind)


def _small(shape: object) -> object:
    """The shape with one width for all offsets, except those of dictionaries."""
    if isinstance(shape, tuple):
        return shape if shape[:1] == (_DICTIONARY,) else tuple(map(_small, shape))
    return _SMALL.get(shape, shape)


def without_views(array: pa.Array) -> pa.Array:
    """The array, with string and binary views cast to plain strings and bytes."""
    kind = _without_view(array.type)
    return array if kind is array.type else array.cast(kind)


def _without_view(kind: pa.DataType) -> object:
    types = pa.types
    if types.is_string_view(kind):
        return pa.string()
    return pa.binary() if types.is_binary_view(kind) else kind


def block_of(array: pa.Array, field: Field, hidden: Mask | None = None) -> Block:
    r"""The block of an array.

    Parameters
    ----------
    array : pa.Array
        Of the field's type, except for names and nullability below it.
    field : Field
        Children of structs are known by its ids.
    hidden : (len(array),) bool or None
        Rows below a null parent.

    Examples
    --------
    >>> block = block_of(pa.array([7, None, 9], pa.int8()).slice(1), Field("a", 0, logical_type="int8"))
    >>> bytes(block.values)[1:], block.null_count
    (b'\t', 1)
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    nested = _NESTED.get(array.type.id)
    return _leaf(array) if nested is None else nested(array, field, hidden)


def size_of(array: pa.Array) -> int:
    """Bytes of the values of an array, without those of other rows and of dictionaries.

    Examples
    --------
    >>> size_of(pa.array(["a", "b"] * 50).dictionary_encode().slice(10, 20))
    80
    """
    if isinstance(array, pa.ExtensionArray):
        return size_of(array.storage)
    kind, types = array.type, pa.types
    if kind.id not in _NESTED:
        return _flat_size(array)
    if types.is_dictionary(kind):
        return int(array.indices.nbytes)
    if types.is_struct(kind):
        return len(array) // 8 + sum(size_of(array.field(i)) for i in range(kind.num_fields))
    if is_variable_list(kind):
        width = 8 if types.is_large_list(kind) else 4
        offsets = _offsets(array.buffers()[1], array.offset, len(array), width)
        return offsets.nbytes + size_of(elements_of(array).slice(offsets[0], offsets[-1] - offsets[0]))
    return int(array.nbytes)


def _flat_size(array: pa.Array) -> int:
    """The same as ``array.nbytes``, which lets other threads run first each time."""
    kind = array.type
    width = _OFFSET_WIDTHS.get(kind.id)
    if width is not None:
        validity, offsets, _ = array.buffers()
        ends = _offsets(offsets, array.offset, len(array), width)
        values = ends.nbytes + int(ends[-1]) - int(ends[0])
    else:
        try:
            bits = kind.bit_width
        except ValueError:  # views and nulls
            return int(array.nbytes)
        validity, values = array.buffers()[0], (len(array) * bits + 7) // 8
    return values + (0 if validity is None else (len(array) + 7) // 8)


def bits_of(buffer: pa.Buffer, offset: int, length: int) -> Bits:
    r"""A bitmap whose first bit is bit ``offset`` of the buffer; memory is shared where possible.

    Examples
    --------
    >>> bits_of(pa.py_buffer(b"\xf0"), 3, 3).tolist()
    [6]
    """
    memory = np.frombuffer(buffer, np.uint8)
    if offset % 8 == 0:
        return memory[offset // 8 : (offset + length + 7) // 8]
    out = np.empty((length + 7) // 8, np.uint8)
    one = np.zeros(1, np.int64)
    kernels.copy_bits(memory, one, one + offset, one + length, out)
    return out


def _validity(array: pa.Array) -> tuple[Bits | None, int]:
    count = array.null_count
    if count == 0:
        return None, 0
    return bits_of(array.buffers()[0], array.offset, len(array)), count


def _null_rows(hidden: Mask | None, validity: Bits | None, length: int) -> Mask | None:
    """Rows that are null or below a null parent."""
    if validity is None:
        return hidden
    gone = ~mask_of(validity, length)
    return gone if hidden is None else gone | hidden


def _leaf(array: pa.Array) -> Block:
    kind = array.type
    number = kind.id
    if number in _VIEWS:
        array = without_views(array)
        kind = array.type
        number = kind.id
    if number in _OFFSET_WIDTHS:
        return _variable(array, _OFFSET_WIDTHS[number])
    length = len(array)
    if number == _BOOLEAN:
        values = bits_of(array.buffers()[1], array.offset, length) if length else np.empty(0, np.uint8)
        return FixedWidth(length, 1, values, *_validity(array))
    bits, start = kind.bit_width, array.offset
    width = bits // 8
    values = _bytes(array.buffers()[1])[start * width : (start + length) * width]
    return FixedWidth(length, bits, values, *_validity(array))


_BOOLEAN = pa.bool_().id
_VIEWS = (pa.string_view().id, pa.binary_view().id)


def _bytes(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _variable(array: pa.Array, width: int) -> VariableWidth:
    validity, nulls = _validity(array)
    offsets = _offsets(array.buffers()[1], array.offset, len(array), width)
    values = _bytes(array.buffers()[2])
    if validity is not None:
        lengths = np.diff(offsets)
        gone = ~mask_of(validity, len(array))
        if bool((lengths[gone] != 0).any()):
            offsets, values = compacted(offsets[:-1], np.where(gone, 0, lengths), values)
    first, last = int(offsets[0]), int(offsets[-1])
    shifted = offsets - first if first else offsets
    return VariableWidth(len(array), width, shifted, values[first:last], validity, nulls)


def _offsets(buffer: pa.Buffer | None, start: int, length: int, width: int) -> NDArray[Any]:
    kind = np.int32 if width == 4 else np.int64
    if buffer is None or buffer.size == 0:
        return np.zeros(length + 1, kind)
    return np.frombuffer(buffer, kind, length + 1, start * width)


def _struct(array: pa.Array, field: Field, hidden: Mask | None) -> Block:
    validity, nulls = _validity(array)
    below = _null_rows(hidden, validity, len(array))
    children = {
        child.id: block_of(array.field(index), child, below) for index, child in enumerate(field.children)
    }
    return Structured(len(array), children, validity, nulls)


def _list(array: pa.Array, field: Field, hidden: Mask | None) -> Block:
    width = 8 if pa.types.is_large_list(array.type) else 4
    validity, nulls = _validity(array)
    offsets = _offsets(array.buffers()[1], array.offset, len(array), width)
    first, last = int(offsets[0]), int(offsets[-1])
    child = elements_of(array)
    gone = _null_rows(hidden, validity, len(array))
    (inner,) = field.children
    items = block_of(child.slice(first, last - first), inner)
    if gone is not None and bool((lengths := np.diff(offsets))[gone].any()):
        items = select(items, np.repeat(~gone, lengths))
        offsets = np.concatenate(([0], np.cumsum(np.where(gone, 0, lengths)))).astype(offsets.dtype)
    elif first:
        offsets = offsets - first
    return Listed(len(array), width, offsets, items, validity, nulls)


def _fixed_list(array: pa.Array, field: Field, hidden: Mask | None) -> Block:
    size = array.type.list_size
    validity, nulls = _validity(array)
    child = array.values.slice(array.offset * size, len(array) * size)
    below = _null_rows(hidden, validity, len(array)) if field.children else None
    inner = field.children[0] if field.children else field
    items = block_of(child, inner, None if below is None else np.repeat(below, size))
    return FixedList(len(array), size, items, validity, nulls)


def _coded(array: pa.DictionaryArray, field: Field, _hidden: Mask | None) -> Block:
    """Codes of values that are not null; a null in the dictionary makes its rows null."""
    values, indices = array.dictionary.cast(_without_view(array.type.value_type)), array.indices
    if values.null_count:
        is_null = values.is_null().take(indices)
        indices = pc.if_else(filled(is_null, True), scalar_of(None, indices.type), indices)
        values = values.fill_null(_empty_value(values.type))
    codes = _leaf(indices)
    if not isinstance(codes, FixedWidth):
        raise TypeError("codes are integers")
    return Coded(len(array), _with_valid_codes(codes, len(values)), block_of(values, field))


def _nulls(array: pa.Array, _field: Field, _hidden: Mask | None) -> Block:
    return AllNull(len(array))


_NESTED: dict[int, Callable[[Any, Field, Mask | None], Block]] = {
    pa.null().id: _nulls,
    pa.struct([]).id: _struct,
    pa.map_(pa.int8(), pa.int8()).id: _list,
    pa.list_(pa.int8()).id: _list,
    pa.large_list(pa.int8()).id: _list,
    pa.list_(pa.int8(), 1).id: _fixed_list,
    pa.dictionary(pa.int8(), pa.int8()).id: _coded,
}
"""By the number of the kind of type; all others are leaves."""


def _empty_value(kind: pa.DataType) -> pa.Scalar:
    types = pa.types
    if types.is_boolean(kind):
        return pa.scalar(False)
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if is_text or types.is_binary(kind) or types.is_large_binary(kind):
        return pa.scalar("" if is_text else b"", kind)
    return pa.scalar(0).cast(kind)


def _with_valid_codes(codes: FixedWidth, num_values: int) -> FixedWidth:
    """The same codes, 0 under nulls: those need not be codes."""
    if codes.validity is None:
        return codes
    stored = np.frombuffer(codes.values, f"u{codes.bits // 8}", codes.length)  # type: ignore[call-overload]
    cleared = np.where(mask_of(codes.validity, codes.length), stored, 0).astype(stored.dtype)
    return FixedWidth(codes.length, codes.bits, cleared.view(np.uint8), codes.validity, codes.null_count)
