"""Families of Arrow types: comparable types and their common types.

The binder takes every decision about a pair of types from here; ``literals`` fits constants to types.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import lib

from lancecy.encodings.arrow.nulls import with_members

__all__ = [
    "CLOCK_TYPE",
    "common_type",
    "family",
    "int_limits",
    "is_clock",
    "is_number",
    "is_utc",
    "plain_members",
    "plain_type",
    "schema_without_views",
]

CLOCK_TYPE = pa.timestamp("ns", "-00:00")
"""The type of ``now()`` inside an expression: an instant that also has a reading on clocks without a zone, in UTC.

The zone is the mark. It is UTC to Arrow, so that arithmetic keeps it, and no writer gives it to a column: RFC 3339
has "-00:00" for times whose local offset is unknown."""


_FINENESS = ("s", "ms", "us", "ns")


_FAMILIES: dict[int, str] = {
    **dict.fromkeys((lib.Type_NA,), "null"),
    **dict.fromkeys((lib.Type_BOOL,), "boolean"),
    **dict.fromkeys((lib.Type_INT8, lib.Type_INT16, lib.Type_INT32, lib.Type_INT64), "integer"),
    **dict.fromkeys((lib.Type_UINT8, lib.Type_UINT16, lib.Type_UINT32, lib.Type_UINT64), "integer"),
    **dict.fromkeys((lib.Type_HALF_FLOAT, lib.Type_FLOAT, lib.Type_DOUBLE), "float"),
    **dict.fromkeys((lib.Type_DECIMAL128, lib.Type_DECIMAL256), "decimal"),
    **dict.fromkeys((lib.Type_STRING, lib.Type_LARGE_STRING, lib.Type_STRING_VIEW), "text"),
    **dict.fromkeys((lib.Type_BINARY, lib.Type_LARGE_BINARY, lib.Type_BINARY_VIEW), "binary"),
    **dict.fromkeys((lib.Type_FIXED_SIZE_BINARY,), "binary"),
    **dict.fromkeys((lib.Type_DATE32, lib.Type_DATE64), "date"),
    **dict.fromkeys((lib.Type_TIMESTAMP,), "timestamp"),
    **dict.fromkeys((lib.Type_TIME32, lib.Type_TIME64), "time"),
    **dict.fromkeys((lib.Type_DURATION,), "interval"),
    **dict.fromkeys((lib.Type_INTERVAL_MONTH_DAY_NANO,), "period"),
    **dict.fromkeys((lib.Type_LIST, lib.Type_LARGE_LIST, lib.Type_FIXED_SIZE_LIST), "list"),
    **dict.fromkeys((lib.Type_STRUCT,), "struct"),
}


def family(data_type: pa.DataType | None) -> str:
    """One word for a type: null, boolean, integer, float, decimal, text, binary, date, timestamp, time,
    interval, period, list, struct or other; "constant" for None.
    """
    if data_type is None:
        return "constant"
    return _FAMILIES.get(data_type.id, "other")


def is_number(data_type: pa.DataType | None) -> bool:
    """Whether values are integers, floating-point numbers or decimals."""
    return family(data_type) in ("integer", "float", "decimal")


def is_clock(data_type: pa.DataType | None) -> bool:
    """Whether values come from ``now()``, see :data:`CLOCK_TYPE`."""
    return data_type is not None and family(data_type) == "timestamp" and data_type.tz == CLOCK_TYPE.tz


def is_utc(zone: str) -> bool:
    """Whether the clock of a time zone always shows UTC."""
    return zone in ("UTC", "Etc/UTC", "Z", "+00:00", CLOCK_TYPE.tz)


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type that an expression reads a column's values as.

    Dictionaries are read as their values, extensions as their storage, views as ordinary strings,
    and half floats as floats: Arrow's kernels do not support the originals.
    """
    types = pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if types.is_string_view(data_type):
        return pa.string()
    if types.is_binary_view(data_type):
        return pa.binary()
    if types.is_float16(data_type):
        return pa.float32()
    return data_type


def plain_members(data_type: pa.DataType) -> pa.DataType:
    """:func:`plain_type` of the members of lists and structs, at any depth; half floats among them stay."""
    if family(data_type) in ("list", "struct"):
        return with_members(data_type, lambda field: field.with_type(plain_members(field.type)))
    return data_type if pa.types.is_float16(data_type) else plain_type(data_type)


def schema_without_views(schema: pa.Schema) -> pa.Schema:
    """The schema with ordinary strings and bytes for views, at any depth: Arrow takes no rows of views.

    Parameters
    ----------
    schema : pyarrow.Schema

    Examples
    --------
    >>> schema_without_views(pa.schema({"a": pa.list_(pa.string_view())})).field("a").type
    ListType(list<item: string>)
    """
    return pa.schema([_field_without_views(field) for field in schema], schema.metadata)


def _field_without_views(field: pa.Field) -> pa.Field:
    types, kind = pa.types, field.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return field.with_type(plain_type(kind))
    return field.with_type(with_members(kind, _field_without_views))


def int_limits(data_type: pa.DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits: int = data_type.bit_width
    if pa.types.is_unsigned_integer(data_type):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both can be mixed; None if they cannot even be compared.

    Integers widen without loss; an integer or a decimal with a float becomes a double; an unsigned 64-bit
    integer with a signed one becomes a decimal; timestamps, times and intervals take the finer unit. Where the
    type does not hold every value of both, ``exact`` compares them unconverted.

    Examples
    --------
    >>> common_type(pa.int8(), pa.uint8())
    DataType(int16)
    """
    if left == right:
        return left
    one, two = family(left), family(right)
    if one == "null" or two == "null":
        return right if one == "null" else left
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    pair = {one, two}
    if pair == {"text"}:
        return pa.large_string()
    if pair == {"binary"}:
        large = pa.types.is_large_binary(left) or pa.types.is_large_binary(right)
        return pa.large_binary() if large else pa.binary()
    if pair <= {"date", "timestamp"}:
        return _common_instant(left, right)
    if pair == {"time"}:
        unit = _finest(left, right)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if pair == {"interval"}:
        return pa.duration(_finest(left, right))
    return _common_nested(left, right) if pair in ({"list"}, {"struct"}) else None


def _common_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Lists of a common type of elements; structs with the same names and common types of members."""
    if family(left) == "list":
        element = common_type(left.value_type, right.value_type)
        large = pa.types.is_large_list(left) or pa.types.is_large_list(right)
        return None if element is None else pa.large_list(element) if large else pa.list_(element)
    names = [[kind.field(i).name for i in range(kind.num_fields)] for kind in (left, right)]
    if names[0] != names[1]:
        return None
    kinds = [common_type(left.field(i).type, right.field(i).type) for i in range(len(names[0]))]
    return None if None in kinds else pa.struct(list(zip(names[0], kinds, strict=True)))


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    one, two = family(left), family(right)
    if "float" in (one, two):
        both32 = one == two and max(left.bit_width, right.bit_width) <= 32
        return pa.float32() if both32 else pa.float64()
    if "decimal" in (one, two):
        return _common_decimal(_as_decimal(left), _as_decimal(right))
    signed = [t for t in (left, right) if pa.types.is_signed_integer(t)]
    unsigned = [t for t in (left, right) if pa.types.is_unsigned_integer(t)]
    if len(signed) != 1:
        return left if left.bit_width >= right.bit_width else right
    need = max(signed[0].bit_width, 2 * unsigned[0].bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(need, pa.decimal128(20, 0))


def _as_decimal(data_type: pa.DataType) -> pa.DataType:
    if family(data_type) == "decimal":
        return data_type
    return pa.decimal128({8: 3, 16: 5, 32: 10, 64: 20}[data_type.bit_width], 0)


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(min(digits, 76), scale)


def _common_instant(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    zones = [t.tz for t in (left, right) if pa.types.is_timestamp(t)]
    if not zones:
        return pa.date64()
    if is_clock(left) != is_clock(right):
        # The time now is taken on the clock of the other side.
        other = right if is_clock(left) else left
        return pa.timestamp(_finest(left, right), tz=getattr(other, "tz", None))
    if any(zones) and (None in zones or len(zones) == 1):
        return None
    return pa.timestamp(_finest(left, right), tz=zones[0])


def _finest(left: pa.DataType, right: pa.DataType) -> str:
    units = [_unit(t) for t in (left, right)]
    return max(units, key=_FINENESS.index)


def _unit(data_type: pa.DataType) -> str:
    if pa.types.is_date(data_type):
        return "s" if pa.types.is_date32(data_type) else "ms"
    return str(data_type.unit)
