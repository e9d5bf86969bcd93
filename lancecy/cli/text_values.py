"""Values that text formats lack: dates, times, bytes, vectors and so on, from the text that stands for them.

JSON has text, numbers, lists and objects; CSV has text. A column of the table says what a text means:

================  ==================================================================
dates and times   ISO 8601; a timestamp has a zone if, and only if, its column has one
bytes             Base64
durations         numbers in the unit of the column
vectors           lists of as many numbers
maps              lists of objects with ``key`` and ``value``
================  ==================================================================
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import printable

__all__ = ["json_type", "values_of"]

_NULLS = ["", "NA", "N/A", "#N/A", "n/a", "NULL", "null", "None"]
"""Texts of CSV that are null in a column that is not of text."""
_NULLS_OF_FLOATS = pa.array(_NULLS)
_NULLS_OF_OTHERS = pa.array([*_NULLS, "NaN", "nan"])
_MAX_SHOWN = 60
# Holds all integers exactly, takes 5.0 for 5, and leaves it to the cast below to name what does not fit.
_WHOLE = pa.decimal128(38, 9)
_DECIMAL = pa.decimal256(76, 38)


def json_type(kind: pa.DataType) -> pa.DataType | None:
    """The type to ask of pyarrow's JSON reader for a column of this type; None if there is none.

    Parameters
    ----------
    kind : pyarrow.DataType

    Examples
    --------
    >>> json_type(pa.list_(pa.date32(), 2))
    ListType(list<item: string>)
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return json_type(kind.storage_type)
    if types.is_dictionary(kind):
        return json_type(kind.value_type)
    if _is_text_in_json(kind):
        return pa.string()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_integer(kind) or types.is_duration(kind):
        return _WHOLE
    if types.is_decimal(kind):
        return _DECIMAL if kind.precision <= 38 else pa.decimal256(76, max(kind.scale, 0))
    if types.is_map(kind):
        return _json_list(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _json_list(kind.value_type)
    if types.is_struct(kind):
        members = {field.name: json_type(field.type) for field in kind}
        return None if None in members.values() else pa.struct(members)
    is_known = types.is_primitive(kind) or types.is_null(kind)
    return kind if is_known or types.is_string(kind) or types.is_large_string(kind) else None


def _json_list(kind: pa.DataType) -> pa.DataType | None:
    inner = json_type(kind)
    return None if inner is None else pa.list_(inner)


def _is_text_in_json(kind: pa.DataType) -> bool:
    types = pa.types
    is_time = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
    return bool(is_time or _is_binary(kind))


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def values_of(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """The values that text, numbers, lists and objects stand for in a column.

    Parameters
    ----------
    array : (n,) pyarrow.Array
        Of text, or as of :func:`json_type`.
    kind : pyarrow.DataType
        Type of the column.
    path : str
        Its name, for errors.

    Returns
    -------
    (n,) pyarrow.Array of ``kind``

    Raises
    ------
    ValueError
        A value is none of this type.

    Examples
    --------
    >>> values_of(pa.array(["12:30"]), pa.time32("s"), "t").to_pylist()
    [datetime.time(12, 30)]
    """
    types = pa.types
    if array.type.equals(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, values_of(array, kind.storage_type, path))
    if types.is_dictionary(kind):
        found = values_of(array, kind.value_type, path).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            found.indices.cast(kind.index_type), found.dictionary, ordered=kind.ordered
        )
    if types.is_struct(array.type) and types.is_struct(kind):
        members = [values_of(array.field(f.name), f.type, f"{path}.{f.name}") for f in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if types.is_list(array.type):
        return _lists(array, kind, path)
    if types.is_string(array.type):
        return _from_text(array, kind, path)
    if types.is_duration(kind):
        return values_of(array, pa.int64(), path).cast(kind)
    return _checked(array, lambda part: part.cast(kind), kind, path)


def _lists(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    if pa.types.is_map(kind):
        entries = _lists(array, pa.list_(pa.struct([kind.key_field, kind.item_field])), path)
        pairs = [
            None if row is None else [tuple(pair.values()) for pair in row] for row in entries.to_pylist()
        ]
        return pa.array(pairs, kind)
    # Null lists have no values of their own in an array that pyarrow has read, and offsets start at 0 in a copy.
    whole = array if array.offset == 0 else pa.concat_arrays([array, array[:0]])
    values = values_of(whole.values, kind.value_type, f"{path}.item")
    same = pa.ListArray.from_arrays(whole.offsets, values, mask=whole.is_null())
    # Pyarrow's cast of a list of nulls to its own type is not valid.
    return same if same.type.equals(kind) else _checked(same, lambda part: part.cast(kind), kind, path)


def _from_text(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return array.cast(kind)
    texts = pc.utf8_trim_whitespace(array)
    is_null = pc.is_in(texts, _NULLS_OF_FLOATS if types.is_floating(kind) else _NULLS_OF_OTHERS)
    if not _is_binary(kind):
        texts = pc.if_else(is_null, pa.scalar(None, texts.type), texts)
    if types.is_null(kind) and texts.null_count == len(texts):
        return pa.nulls(len(texts))
    return _checked(texts, _parser(kind), kind, path)


def _parser(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    types = pa.types
    if _is_binary(kind):
        return lambda texts: _from_base64(texts).cast(kind)
    if types.is_time(kind):
        # Arrow parses times as a part of timestamps only.
        return lambda texts: (
            pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp(kind.unit)).cast(kind)
        )
    if types.is_duration(kind):
        return lambda texts: texts.cast(pa.int64()).cast(kind)
    return lambda texts: texts.cast(kind)


def _from_base64(texts: pa.Array) -> pa.Array:
    values = [None if v is None else base64.b64decode(v, validate=True) for v in texts.to_pylist()]
    return pa.array(values, pa.large_binary())


def _checked(
    array: pa.Array, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType, path: str
) -> pa.Array:
    """The converted array; the error names the first value that cannot be converted."""
    try:
        return convert(array)
    except (ValueError, pa.ArrowException) as error:
        value = _first_failure(array, convert)
        shown = printable(value if len(str(value)) <= _MAX_SHOWN else str(value)[:_MAX_SHOWN] + "…")
        raise ValueError(f"{shown!r} in column {printable(path)!r} is not {kind}{_example(kind)}") from error


def _first_failure(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> object:
    while len(array) > 1:
        half = array[: len(array) // 2]
        try:
            convert(half)
        except (ValueError, pa.ArrowException):
            array = half
        else:
            array = array[len(half) :]
    value = array[0].as_py()
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _example(kind: pa.DataType) -> str:
    """What the text would be, such as ``, which is a date such as 2024-05-01``."""
    types = pa.types
    if types.is_date(kind):
        return ", a date such as 2024-05-01"
    if types.is_time(kind):
        return ", a time such as 12:30:00"
    if types.is_timestamp(kind):
        zone = "with a zone, such as 2024-05-01T12:30:00Z"
        return f", a time {zone if kind.tz else 'without a zone, such as 2024-05-01T12:30:00'}"
    return ": give it as Base64" if _is_binary(kind) else ""
