"""Casts batches to the types of a plan, because engines hold some values in other types than the table."""

from __future__ import annotations

import pyarrow as pa

from lancecy.encodings.arrow.nulls import null_mask
from lancecy.errors import SchemaError, printable

__all__ = ["cast_batch", "storage_schema", "storage_type"]


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The storage type of an extension type; any other type itself.

    Examples
    --------
    >>> storage_type(pa.uuid())
    FixedSizeBinaryType(fixed_size_binary[16])
    """
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def storage_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with storage types in place of extension types, as files hold them."""
    return pa.schema([field.with_type(storage_type(field.type)) for field in schema])


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch cast to the types of a schema, with every value unchanged.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        A batch with the columns of the schema, in any order.
    schema : pyarrow.Schema

    Raises
    ------
    SchemaError
        A value, or a whole column, cannot be cast to the type.

    Examples
    --------
    >>> found = cast_batch(pa.record_batch({"v": [[1, 2]]}), pa.schema({"v": pa.list_(pa.int8(), 2)}))
    >>> found.schema.field("v").type
    FixedSizeListType(fixed_size_list<item: int8>[2])
    """
    target = storage_schema(schema)
    arrays = [_cast(batch.column(field.name), field) for field in target]
    return pa.RecordBatch.from_arrays(arrays, names=target.names)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type.equals(field.type):
        return array
    try:
        return _as(array, field.type)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(
            f"column {printable(field.name)!r} is {printable(array.type)} and cannot become {printable(field.type)}: "
            f"{printable(error)}",
            difference=f"{field.name}: {array.type} is not {field.type}",
        ) from error


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_dictionary(kind):
        return _coded(array, kind)
    if types.is_fixed_size_list(kind) and _is_list(array.type) and array.null_count == len(array):
        # Arrow's cast reads the values of null lists even where they are missing, and crashes the process.
        return pa.nulls(len(array), kind)
    if (
        types.is_struct(kind)
        and types.is_struct(array.type)
        and array.type.names == kind.names
        and _has_vectors(kind)
    ):
        return _members(array, kind)
    if _is_list(kind) and _is_list(array.type) and _has_vectors(kind.value_type):
        return _lists(pa.concat_arrays([array]), kind)
    try:
        return array.cast(kind)
    except pa.ArrowNotImplementedError:
        if types.is_null(kind) and array.null_count == len(array):
            return pa.nulls(len(array))
        if _is_list(kind) and _is_list(array.type):
            return _lists(pa.concat_arrays([array]), kind)
        if types.is_struct(kind) and types.is_struct(array.type) and array.type.names == kind.names:
            return _members(array, kind)
        raise


def _has_vectors(kind: pa.DataType) -> bool:
    """Whether a type is or contains a fixed-size list."""
    if pa.types.is_fixed_size_list(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_has_vectors(field.type) for field in kind)
    return _is_list(kind) and _has_vectors(kind.value_type)


def _members(array: pa.StructArray, kind: pa.StructType) -> pa.Array:
    # Flattened members are null where their struct is, so values below a null struct need not fit.
    parts = [_as(part, field.type) for part, field in zip(array.flatten(), kind, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=null_mask(array))


def _lists(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A list array built from its parts: Arrow's cast of lists of nulls confuses the numbers of lists and nulls."""
    values, is_large = _as(array.values, kind.value_type), pa.types.is_large_list(kind)
    offsets = array.offsets.cast(pa.int64() if is_large else pa.int32())
    made = pa.LargeListArray if is_large else pa.ListArray
    return made.from_arrays(offsets, values, type=kind, mask=null_mask(array))


def _coded(array: pa.Array, kind: pa.DictionaryType) -> pa.Array:
    if not pa.types.is_dictionary(array.type):
        array = array.cast(kind.value_type).dictionary_encode()
    indices, values = array.indices.cast(kind.index_type), array.dictionary.cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
