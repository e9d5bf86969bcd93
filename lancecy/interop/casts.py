"""Casts of rows to other types that keep every value, and errors that name the value that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.nulls import null_mask
from lancecy.errors import SchemaError, printable

__all__ = [
    "CAST_ERRORS",
    "cast_array",
    "cast_batch",
    "cast_batches",
    "error_of",
    "exact",
    "first_misfit",
    "first_where_not",
    "misfit_error",
    "num_infinite",
    "storage_schema",
    "storage_type",
]

CAST_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises over values that a type cannot hold."""

_INTEGERS = pa.decimal128(20, 0)
"""Holds all integers of 64 bits."""


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


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, first_row: int = 0) -> pa.RecordBatch:
    """A batch cast to the types of a schema, with every value unchanged.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        A batch with the columns of the schema, in any order.
    schema : pyarrow.Schema
    first_row : int
        Number of the first row, for errors.

    Returns
    -------
    pyarrow.RecordBatch
        With storage types in place of extension types.

    Raises
    ------
    SchemaError
        A value, or a whole column, cannot be cast to the type. The message has column, row and value.

    Examples
    --------
    >>> found = cast_batch(pa.record_batch({"v": [[1, 2]]}), pa.schema({"v": pa.list_(pa.int8(), 2)}))
    >>> found.schema.field("v").type
    FixedSizeListType(fixed_size_list<item: int8>[2])
    """
    target = storage_schema(schema)
    arrays = [cast_array(batch.column(field.name), field, first_row) for field in target]
    return pa.RecordBatch.from_arrays(arrays, names=target.names)


def cast_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, first_row: int = 0
) -> Iterator[pa.RecordBatch]:
    """Batches cast to a schema one after another; errors have the number of the row among all of them.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    schema : pyarrow.Schema
    first_row : int
        Number of the first row.

    Raises
    ------
    SchemaError
        As :func:`cast_batch`.
    """
    for batch in batches:
        yield cast_batch(batch, schema, first_row)
        first_row += batch.num_rows


def cast_array(array: pa.Array, field: pa.Field, first_row: int = 0) -> pa.Array:
    """An array cast to the type of a field, with every value unchanged.

    Parameters
    ----------
    array : pyarrow.Array
    field : pyarrow.Field
        Its type is no extension type.
    first_row : int

    Raises
    ------
    SchemaError
        A value, or the whole array, cannot be cast to the type.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type.equals(field.type):
        return array
    try:
        return exact(array, field.type)
    except (pa.ArrowException, TypeError) as error:
        row = first_misfit(array, field.type)
        value = None if row is None else array[row].as_py()
        place = None if row is None else first_row + row
        error = error_of(array, field.type, row, error)
        raise misfit_error(field, f"is {printable(array.type)} and", place, value, error) from error


def misfit_error(field: pa.Field, what: str, row: int | None, value: object, error: Exception) -> SchemaError:
    """The error for a column whose values cannot become the type of a field.

    Parameters
    ----------
    field : pyarrow.Field
    what : str
        What the column is now.
    row : int or None
        Number of the row with the first value that does not fit; None if no single value is at fault.
    value : object
        Its value.
    error : Exception
        The error of Arrow.
    """
    place = "" if row is None else f" (row {row} is {printable(repr(value))})"
    return SchemaError(
        f"column {printable(field.name)!r} {what} cannot become {printable(field.type)}{place}: {printable(error)}",
        difference=f"{field.name}: {what.removesuffix(' and')} not {field.type}",
    )


def error_of(array: pa.Array, kind: pa.DataType, row: int | None, error: Exception) -> Exception:
    """The error for one value of an array; Arrow's error for the whole array may be about another one.

    Parameters
    ----------
    array : pyarrow.Array
    kind : pyarrow.DataType
    row : int or None
        What :func:`first_misfit` returned.
    error : Exception
        The error for the whole array.
    """
    if row is not None:
        try:
            exact(array.slice(row, 1), kind)
        except CAST_ERRORS as own:
            return own
    return error


def first_misfit(array: pa.Array, kind: pa.DataType) -> int | None:
    """The first value that cannot be cast alone; None if that is so for any value, as for unrelated types.

    Parameters
    ----------
    array : pyarrow.Array
    kind : pyarrow.DataType

    Examples
    --------
    >>> first_misfit(pa.array([1, 300]), pa.int8())
    1
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()

    def fits(start: int, stop: int) -> bool:
        try:
            exact(array.slice(start, stop - start), kind)
        except (pa.ArrowException, TypeError):
            return False
        return True

    return None if _is_unrelated(array, kind) else first_where_not(fits, len(array))


def _is_unrelated(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether not even an array without values can be cast."""
    try:
        exact(array.slice(0, 0), kind)
    except (pa.ArrowException, TypeError):
        return True
    return False


def first_where_not(fits: Callable[[int, int], bool], length: int) -> int | None:
    """The first position that does not fit, found by halving; None if all positions fit alone.

    Parameters
    ----------
    fits : function
        Whether all positions from a start up to a stop fit.
    length : int

    Examples
    --------
    >>> first_where_not(lambda start, stop: 5 not in range(start, stop), 9)
    5
    """
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(low, middle) else (low, middle)
    return None if high == low or fits(low, high) else low


def exact(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The cast of an array, refused where Arrow's own would change a value silently.

    Parameters
    ----------
    array : pyarrow.Array
    kind : pyarrow.DataType

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        A value, or the whole array, cannot be cast to the type.
    """
    made = _as(array, kind)
    if num_infinite(made) and num_infinite(made) > num_infinite(array):
        raise pa.ArrowInvalid(f"a value is too large for {kind}")
    if _is_bounded(kind):
        # Arrow takes any integer as a time of day, and as the milliseconds of a date.
        for given, values in _flat(array, made):
            if not _is_bounded(given.type):
                values.validate(full=True)
    if _may_lose(kind) and not all(starmap(_is_kept, _flat(array, made))):
        raise pa.ArrowInvalid(f"a part of a value would be lost in {kind}")
    return made


def num_infinite(array: pa.Array | pa.ChunkedArray) -> int:
    """Number of infinite values, those of lists and structs included.

    Parameters
    ----------
    array : pyarrow.Array or ChunkedArray
    """
    types = pa.types
    if isinstance(array, pa.ChunkedArray):
        return sum(map(num_infinite, array.chunks))
    array = _decoded(array)
    if types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False)
        return int(np.count_nonzero(np.isinf(values)))
    if types.is_struct(array.type):
        return sum(map(num_infinite, array.flatten()))
    if _is_list(array.type) or types.is_fixed_size_list(array.type):
        return num_infinite(array.flatten())
    return 0


def _is_bounded(kind: pa.DataType) -> bool:
    """Whether a type is or has a time or a date of milliseconds, which not every integer of its width is."""
    if pa.types.is_dictionary(kind):
        return _is_bounded(kind.value_type)
    if kind.num_fields:
        return any(_is_bounded(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_time(kind) or pa.types.is_date64(kind))


def _may_lose(kind: pa.DataType) -> bool:
    """Whether a type is or has one for which Arrow's safe cast may drop a part of a value."""
    types = pa.types
    if types.is_dictionary(kind):
        return _may_lose(kind.value_type)
    if kind.num_fields:
        return any(_may_lose(kind.field(i).type) for i in range(kind.num_fields))
    return bool(types.is_date(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _flat(given: pa.Array, made: pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The arrays of values below lists and structs, each with what the cast has made of it."""
    given, made = _decoded(given), _decoded(made)
    if not made.type.num_fields:
        yield given, made
    elif pa.types.is_struct(made.type) and pa.types.is_struct(given.type):
        parts = dict(zip(made.type.names, made.flatten(), strict=True))
        for name, part in zip(given.type.names, given.flatten(), strict=True):
            if name in parts:
                yield from _flat(part, parts[name])
    elif pa.types.is_map(made.type) and given.type.num_fields:
        for parts_of_pairs in zip(_pairs(given), _pairs(made), strict=True):
            yield from _flat(*parts_of_pairs)
    elif given.type.num_fields:
        yield from _flat(given.flatten(), made.flatten())


def _pairs(array: pa.Array) -> list[pa.Array]:
    """The keys and the items of maps, or of lists of structs."""
    if not pa.types.is_map(array.type):
        return list(array.flatten().flatten())
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return [part.slice(start, stop - start) for part in (array.keys, array.items)]


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _is_kept(given: pa.Array, made: pa.Array) -> bool:
    """Whether the values of a cast, cast back, are those given."""
    if not _is_silent(given.type, made.type):
        return True
    if pa.types.is_decimal(made.type):
        # By way of text: Arrow's cast of a decimal is not always the nearest float.
        made = made.cast(pa.string())
    return bool(made.cast(given.type, safe=False).equals(given))


def _is_silent(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Arrow's safe cast between two types may drop a part of a value."""
    types = pa.types
    if types.is_decimal(kind):
        return bool(types.is_floating(given))
    if types.is_timestamp(given):
        return bool(types.is_date(kind))
    return bool(types.is_boolean(kind) and (types.is_integer(given) or types.is_floating(given)))


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
        and _has_own_way(kind)
    ):
        return _members(array, kind)
    if _is_list(kind) and _is_list(array.type) and _has_own_way(kind.value_type):
        return _lists(pa.concat_arrays([array]), kind)
    if types.is_decimal(kind) and types.is_integer(_decoded(array).type):
        # Arrow asks for room for every integer of the type, not for those of the array.
        return array.cast(_INTEGERS).cast(kind)
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


def _has_own_way(kind: pa.DataType) -> bool:
    """Whether a type is or contains a fixed-size list or a decimal, for which Arrow's cast alone is not enough."""
    if pa.types.is_fixed_size_list(kind) or pa.types.is_decimal(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_has_own_way(field.type) for field in kind)
    return _is_list(kind) and _has_own_way(kind.value_type)


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
