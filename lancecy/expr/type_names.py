"""Names of Arrow types as pylance writes them: ``arrow_typeof(x)``."""

from __future__ import annotations

import pyarrow as pa

from lancecy.errors import printable
from lancecy.expr.kinds import is_clock

__all__ = ["type_name"]

_PLAIN: dict[pa.DataType, str] = {
    pa.null(): "Null",
    pa.bool_(): "Boolean",
    **{getattr(pa, f"int{bits}")(): f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): f"UInt{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"float{bits}")(): f"Float{bits}" for bits in (16, 32, 64)},
    pa.string(): "Utf8",
    pa.large_string(): "LargeUtf8",
    pa.string_view(): "Utf8View",
    pa.binary(): "Binary",
    pa.large_binary(): "LargeBinary",
    pa.binary_view(): "BinaryView",
    pa.date32(): "Date32",
    pa.date64(): "Date64",
    pa.month_day_nano_interval(): "Interval(MonthDayNano)",
}
_UNITS = {"us": "µs"}


def type_name(data_type: pa.DataType) -> str:
    """The name of a type; extension types by their storage.

    Examples
    --------
    >>> type_name(pa.timestamp("us", "UTC")), type_name(pa.list_(pa.int8()))
    ('Timestamp(µs, "UTC")', 'List(Int8)')
    """
    types = pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        return type_name(data_type.storage_type)
    if data_type in _PLAIN:
        return _PLAIN[data_type]
    unit = _UNITS.get(getattr(data_type, "unit", ""), getattr(data_type, "unit", ""))
    if types.is_timestamp(data_type):
        zone = "" if data_type.tz is None or is_clock(data_type) else f', "{printable(data_type.tz)}"'
        return f"Timestamp({unit}{zone})"
    if types.is_time(data_type):
        return f"Time{data_type.bit_width}({unit})"
    if types.is_duration(data_type):
        return f"Duration({unit})"
    if types.is_decimal(data_type):
        return f"Decimal{data_type.bit_width}({data_type.precision}, {data_type.scale})"
    if types.is_fixed_size_binary(data_type):
        return f"FixedSizeBinary({data_type.byte_width})"
    if types.is_dictionary(data_type):
        return f"Dictionary({type_name(data_type.index_type)}, {type_name(data_type.value_type)})"
    if types.is_fixed_size_list(data_type):
        return f"FixedSizeList({data_type.list_size} x {_item(data_type.value_field)})"
    if types.is_list(data_type) or types.is_large_list(data_type):
        return f"{'Large' * types.is_large_list(data_type)}List({_item(data_type.value_field)})"
    if types.is_struct(data_type):
        fields = (data_type.field(i) for i in range(data_type.num_fields))
        return f"Struct({', '.join(map(_member, fields))})"
    if types.is_map(data_type):
        entries = pa.field("entries", pa.struct([data_type.key_field, data_type.item_field]), nullable=False)
        return f"Map({_member(entries)}, {'sorted' if data_type.keys_sorted else 'unsorted'})"
    return printable(data_type)


def _item(field: pa.Field) -> str:
    name = "" if field.name == "item" else f", field: '{printable(field.name)}'"
    return f"{_type_of(field)}{name}"


def _member(field: pa.Field) -> str:
    return f'"{printable(field.name)}": {_type_of(field)}'


def _type_of(field: pa.Field) -> str:
    return f"{'' if field.nullable else 'non-null '}{type_name(field.type)}"
