"""Arrays of nulls only, masks of nulls, and the buffers of Arrow types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancecy.errors import LimitError

__all__ = ["VARIABLE_TYPES", "element_type", "is_variable_list", "null_array", "null_mask", "with_members"]

VARIABLE_TYPES: dict[pa.DataType, tuple[bool, int]] = {
    pa.string(): (True, 4),
    pa.large_string(): (True, 8),
    pa.binary(): (False, 4),
    pa.large_binary(): (False, 8),
}
"""Types of byte strings: whether they are text, and bytes per offset."""


def null_mask(array: pa.Array) -> pa.Array | None:
    """Mask of null values for the constructors of nested arrays; None if no value is null.

    Examples
    --------
    >>> null_mask(pa.array([1, None])).to_pylist(), null_mask(pa.array([1]))
    ([False, True], None)
    """
    return array.is_null() if array.null_count else None


def element_type(data_type: pa.DataType) -> pa.DataType:
    """Type of the elements of a list; those of a map are structs of key and value."""
    if pa.types.is_map(data_type):
        return pa.struct([data_type.key_field, data_type.item_field])
    return data_type.value_type


def with_members(data_type: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """The type of structs, lists or maps with every member, item, key and value changed; any other type itself.

    Examples
    --------
    >>> with_members(pa.list_(pa.int8(), 2), lambda item: item.with_type(pa.int64()))
    FixedSizeListType(fixed_size_list<item: int64>[2])
    """
    types = pa.types
    if types.is_struct(data_type):
        return pa.struct([change(field) for field in data_type])
    if types.is_fixed_size_list(data_type):
        return pa.list_(change(data_type.value_field), data_type.list_size)
    if types.is_list(data_type):
        return pa.list_(change(data_type.value_field))
    if types.is_map(data_type):
        return pa.map_(change(data_type.key_field), change(data_type.item_field), data_type.keys_sorted)
    return pa.large_list(change(data_type.value_field)) if types.is_large_list(data_type) else data_type


def null_array(data_type: pa.DataType, length: int) -> pa.Array:
    """An array of nulls.

    All its buffers share one run of zeros whose memory is never written, so a long column of nulls costs address
    space and no memory (``pa.nulls`` writes every byte).

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
    if data_type in VARIABLE_TYPES or is_variable_list(data_type):
        return 8 * (length + 1)
    if pa.types.is_fixed_size_binary(data_type):
        return length * int(data_type.byte_width)  # bit_width wraps at 32 bits
    return (length * data_type.bit_width + 7) // 8 if not pa.types.is_null(data_type) else 0


def is_variable_list(data_type: pa.DataType) -> bool:
    """Whether values are lists of varying length, or maps."""
    types = pa.types
    return bool(types.is_list(data_type) or types.is_large_list(data_type) or types.is_map(data_type))


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
    elif is_variable_list(data_type):
        buffers.append(zeros)
        children = [_nulls(element_type(data_type), 0, zeros)]
    else:
        buffers += [zeros, zeros] if data_type in VARIABLE_TYPES else [zeros]
    return pa.Array.from_buffers(data_type, length, buffers, length, 0, children)
