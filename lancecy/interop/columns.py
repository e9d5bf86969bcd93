"""Columns of Python and NumPy values as Arrow arrays, without losing a part of a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.errors import SchemaError, printable
from lancecy.interop.casts import (
    CAST_ERRORS,
    cast_array,
    exact,
    first_where_not,
    misfit_error,
    num_infinite,
    storage_schema,
)

__all__ = [
    "check_exact",
    "column_of",
    "extra_column",
    "inferred",
    "is_decimal_of_numbers",
    "nested_array",
    "nested_type",
    "python_column",
    "table_of_columns",
    "table_of_pandas",
]


def nested_type(dtype: np.dtype[Any], shape: Sequence[int]) -> pa.DataType:
    """The type of an element of a NumPy array along its first axis.

    Parameters
    ----------
    dtype : numpy.dtype
    shape : sequence of int
        Of the array; the first length does not matter.

    Examples
    --------
    >>> nested_type(np.dtype("f4"), (10, 3))
    FixedSizeListType(fixed_size_list<item: float>[3])
    """
    kind = pa.from_numpy_dtype(dtype)
    for size in reversed(shape[1:]):
        kind = pa.list_(kind, int(size))
    return kind


def nested_array(values: np.ndarray[Any, Any]) -> pa.Array:
    """A NumPy array as Arrow: further axes become fixed-size lists.

    Parameters
    ----------
    values : (n, …) array

    Raises
    ------
    ValueError, NotImplementedError
        Arrow has no type for the dtype.

    Examples
    --------
    >>> nested_array(np.arange(6, dtype="i2").reshape(3, 2)).type
    FixedSizeListType(fixed_size_list<item: int16>[2])
    """
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.ndim == 1:
        return pa.array(values)
    array = pa.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, int(size))
    return array


def table_of_columns(columns: Mapping[str, Any], schema: pa.Schema | None = None) -> pa.Table:
    """A table of a mapping from names to values.

    Parameters
    ----------
    columns : mapping of str to array or sequence
    schema : pyarrow.Schema, optional
        All columns, and their types.

    Raises
    ------
    SchemaError
        A column is missing or not in the schema, has a value that does not fit, or has another length than the others.
    TypeError
        A value is no sequence.

    Examples
    --------
    >>> table_of_columns({"v": np.ones((3, 4))}).schema.field("v").type
    FixedSizeListType(fixed_size_list<item: double>[4])
    """
    wanted = list(columns) if schema is None else schema.names
    fields = (
        dict.fromkeys(wanted) if schema is None else {field.name: field for field in storage_schema(schema)}
    )
    check_names(wanted)
    for name in wanted:
        if name not in columns:
            raise SchemaError(
                f"the rows have no column {printable(name)!r}, which schema= has", difference=name
            )
    _check_extra(columns, wanted)
    arrays = [column_of(name, columns[name], fields[name]) for name in wanted]
    for name, array in zip(wanted, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise SchemaError(
                f"column {printable(name)!r} has {len(array)} values, and column {printable(wanted[0])!r} "
                f"{len(arrays[0])}",
                difference=name,
            )
    return pa.Table.from_arrays(arrays, names=wanted)


def _check_extra(given: Iterable[object], wanted: Iterable[str]) -> None:
    """Refuse columns that a schema lacks."""
    known = set(wanted)
    extra = [str(name) for name in given if str(name) not in known]
    if extra:
        raise extra_column(min(extra))


def extra_column(name: str, row: int | None = None) -> SchemaError:
    """The error for a column of the rows that ``schema=`` lacks, such as one with a misspelt name.

    Parameters
    ----------
    name : str
    row : int or None
        Number of the first row with a value in the column, if the rows are dictionaries.

    Examples
    --------
    >>> str(extra_column("nmae", 7))
    "the rows have a column 'nmae', which schema= lacks (row 7 has a value there)"
    """
    place = "" if row is None else f" (row {row} has a value there)"
    return SchemaError(
        f"the rows have a column {printable(name)!r}, which schema= lacks{place}", difference=name
    )


def check_names(names: Iterable[object]) -> None:
    """Refuse names of columns that are no text.

    Parameters
    ----------
    names : iterable

    Raises
    ------
    SchemaError
        A name is not a string.
    """
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"column names must be texts, not {printable(repr(name))}", difference="names")


def table_of_pandas(frame: Any, schema: pa.Schema | None = None) -> pa.Table:
    """A table of a pandas frame, with its index as pyarrow records it.

    Parameters
    ----------
    frame : pandas.DataFrame
    schema : pyarrow.Schema, optional
        All columns, and their types; it may have columns of the index too.

    Returns
    -------
    pyarrow.Table
        Of the types of the schema, except for columns of numbers that become decimals: those are still to be cast.

    Raises
    ------
    SchemaError
        A column is missing or not in the schema, or has a value that does not fit.
    """
    wanted = None if schema is None else storage_schema(schema)
    if wanted is not None:
        _check_extra(frame.columns, wanted.names)
        wanted = _with_own_numbers(frame, wanted)
    try:
        found = pa.Table.from_pandas(frame, schema=wanted)
    except (*CAST_ERRORS, KeyError) as error:
        _check_frame(frame, wanted)
        raise SchemaError(f"the frame has no Arrow form: {printable(error)}", difference="frame") from error
    if wanted is not None:
        _check_frame(frame.select_dtypes(object), wanted)
    return found


def _with_own_numbers(frame: Any, schema: pa.Schema) -> pa.Schema:
    """The schema with the frame's own types for numbers that become decimals."""
    for place, name in enumerate(frame.columns):
        column, index = frame.iloc[:0, place], schema.get_field_index(str(name))
        if index >= 0 and is_decimal_of_numbers(column, schema.types[index]):
            schema = schema.set(index, schema.field(index).with_type(pa.array(column).type))
    return schema


def is_decimal_of_numbers(column: Any, kind: pa.DataType) -> bool:
    """Whether a pandas column has floats or integers, and a type is decimal: pyarrow makes no such array at once.

    Parameters
    ----------
    column : pandas.Series
    kind : pyarrow.DataType
    """
    return bool(pa.types.is_decimal(kind) and getattr(column.dtype, "kind", "O") in "iuf")


def _check_frame(frame: Any, schema: pa.Schema | None) -> None:
    """Raise the error of the first column of a frame that does not fit."""
    fields = {} if schema is None else {field.name: field for field in schema}
    for place, name in enumerate(frame.columns):
        if schema is None or name in fields:
            column = frame.iloc[:, place]
            if column.dtype == np.dtype(object):
                # pandas has NaN for missing objects.
                python_column(str(name), column.where(column.notna(), None).tolist(), fields.get(name))
            else:
                column_of(str(name), column, fields.get(name))


def column_of(name: str, values: Any, field: pa.Field | None = None) -> pa.Array | pa.ChunkedArray:
    """One column, of the type of a field or of the type that the values have.

    Parameters
    ----------
    name : str
    values : array of Arrow, NumPy, pandas or Polars, or sequence
    field : pyarrow.Field, optional

    Raises
    ------
    SchemaError
        A value has another type than the rest, or does not fit the field.
    TypeError
        A single value, where a list is needed.
    """
    if isinstance(values, str | bytes | Mapping) or not (
        isinstance(values, Iterable)
        or hasattr(values, "__arrow_c_array__")
        or hasattr(values, "__arrow_c_stream__")
    ):
        raise TypeError(
            f"column {printable(name)!r} is {printable(repr(values))}, and not a list of values, one for each row"
        )
    if isinstance(values, list | tuple):
        return python_column(name, values, field)
    found = _given_array(name, values)
    if found is None:
        return python_column(name, list(values), field)
    return found if field is None else _cast(found, field)


def _given_array(name: str, values: Any) -> pa.Array | pa.ChunkedArray | None:
    """An array of another library as Arrow; None for Python objects."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    dtype = getattr(values, "dtype", None)
    # The Arrow stream of an Object column of Polars has addresses in memory.
    if dtype == np.dtype(object) or str(dtype) == "Object":
        return None
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if isinstance(values, np.ndarray):
            return nested_array(values)
        is_tensor = hasattr(values, "__dlpack__") or getattr(values, "ndim", 1) > 1
        is_block = is_tensor and hasattr(values, "__array__")
        return nested_array(np.asarray(values)) if is_block else pa.array(values)
    except (*CAST_ERRORS, RuntimeError) as error:
        kind = printable(type(values).__name__ if dtype is None else str(dtype))
        raise SchemaError(
            f"column {printable(name)!r} is {kind}: {printable(error)}", difference=name
        ) from error


def _cast(array: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(array, pa.Array):
        return cast_array(array, field)
    chunks, row = [], 0
    for chunk in array.chunks:
        chunks.append(cast_array(chunk, field, row))
        row += len(chunk)
    return pa.chunked_array(chunks, field.type)


def python_column(
    name: str, values: Sequence[Any], field: pa.Field | None = None, first_row: int = 0
) -> pa.Array:
    """Python objects as one Arrow array.

    Parameters
    ----------
    name : str
    values : sequence
        None for a null.
    field : pyarrow.Field, optional
        The wanted type; otherwise the type that all values have.
    first_row : int
        Number of the first value, for errors.

    Raises
    ------
    SchemaError
        A value has another type than the rest, or does not fit the field. Other than in Arrow, a float does not fit an
        integer if it has a fraction, and a time not a coarser unit.

    Examples
    --------
    >>> python_column("a", [1.0, None], pa.field("a", pa.int8())).to_pylist()
    [1, None]
    """
    kind = None if field is None else field.type
    try:
        return _array(values, kind)
    except CAST_ERRORS as error:
        row = _first_misfit(values, kind)
        place, value = (None, None) if row is None else (first_row + row, values[row])
        wanted = pa.field(name, pa.null() if kind is None else kind)
        if kind is not None:
            raise misfit_error(wanted, "has values that", place, value, error) from error
        at = "" if row is None else f" (row {place} is {printable(repr(value))})"
        raise SchemaError(
            f"column {printable(name)!r} has no type that fits all of its values{at}: {printable(error)}",
            difference=name,
        ) from error


def _array(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    values = [_nested_lists(value) for value in values] if _has_blocks(values) else values
    if kind is None:
        return pa.array(values)
    made = pa.array(values, kind)
    check_exact(values, kind)
    if num_infinite(made):
        exact(pa.array(values), kind)
    return made


def _has_blocks(values: Sequence[Any]) -> bool:
    """Whether values are arrays of several dimensions, which Arrow takes for no lists."""
    first = next((value for value in values if value is not None), None)
    return isinstance(first, np.ndarray) and first.ndim > 1


def _nested_lists(value: Any) -> Any:
    return list(map(_nested_lists, value)) if isinstance(value, np.ndarray) and value.ndim > 1 else value


def _first_misfit(values: Sequence[Any], kind: pa.DataType | None) -> int | None:
    # Without a type, values are compared with the first one that tells a type.
    first = [next((value for value in values if value is not None), None)] if kind is None else []

    def fits(start: int, stop: int) -> bool:
        try:
            _array([*first, *values[start:stop]], kind)
        except CAST_ERRORS:
            return False
        return True

    return first_where_not(fits, len(values))


# -- values of which Arrow drops a part -----------------------------------------------------------


def check_exact(values: Sequence[Any], kind: pa.DataType) -> None:
    """Refuse values of which Arrow drops a part when it makes an array of a type: 1.5 as an integer.

    Parameters
    ----------
    values : sequence
        Python objects that Arrow accepts for the type.
    kind : pyarrow.DataType

    Raises
    ------
    ValueError, NotImplementedError
        A number has a fraction where the type has none, or a time is finer than the unit of the type.

    Examples
    --------
    >>> check_exact([1.0, None], pa.int8())
    """
    if not _is_coarse(kind) or not _may_lose(inferred(values), kind):
        return
    types, given = pa.types, [value for value in values if value is not None]
    if types.is_map(kind):
        pairs = [pair for value in given for pair in (value.items() if isinstance(value, Mapping) else value)]
        check_exact([key for key, _ in pairs], kind.key_type)
        check_exact([item for _, item in pairs], kind.item_type)
    elif types.is_struct(kind):
        for field in kind:
            check_exact([value.get(field.name) for value in given], field.type)
    elif kind.num_fields:
        check_exact([item for value in given for item in value], kind.value_type)
    else:
        exact(pa.array(given), kind.value_type if types.is_dictionary(kind) else kind)


def inferred(values: Sequence[Any]) -> pa.DataType | None:
    """The Arrow type of Python objects, None if they have no common one."""
    try:
        return pa.infer_type(values)
    except CAST_ERRORS:
        return None


def _is_coarse(kind: pa.DataType) -> bool:
    """Whether a type is or has one for which Arrow drops parts of Python values: integers, and times of a unit."""
    if pa.types.is_dictionary(kind):
        return _is_coarse(kind.value_type)
    if kind.num_fields:
        return any(_is_coarse(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _may_lose(given: Any, kind: Any) -> bool:
    """Whether values of an inferred type may not fit; None is a type that could not be inferred."""
    types = pa.types
    if given is None or types.is_map(kind):
        return bool(kind.num_fields)
    if types.is_dictionary(kind):
        return _may_lose(given, kind.value_type)
    if types.is_struct(kind):
        if not types.is_struct(given):
            return False
        return any(
            _may_lose(given.field(field.name).type, field.type)
            for field in kind
            if given.get_field_index(field.name) >= 0
        )
    if kind.num_fields:
        return given.num_fields == 1 and _may_lose(given.value_type, kind.value_type)
    if types.is_integer(kind):
        return bool(types.is_floating(given) or types.is_decimal(given))
    return bool(types.is_temporal(kind) and types.is_temporal(given) and given != kind)
