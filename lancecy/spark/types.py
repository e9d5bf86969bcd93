"""Maps Arrow types to Spark's types.

:func:`spark_arrow_schema` gives the Arrow type in which Spark holds each column, and
refuses what Spark cannot hold with the column's name and a remedy. :class:`Converter`
converts tables and batches to exactly those types without losing a value: unsigned integers
widen, ``float16`` becomes ``float32``, vectors become arrays, dictionaries their values.
The original type is kept in the field metadata; :func:`original_schema` restores it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.errors import UnsupportedError, printable

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "METADATA_KEY",
    "normalize",
    "original_schema",
    "spark_arrow_schema",
    "spark_arrow_type",
    "spark_struct",
]

METADATA_KEY = "lancecy.arrow_field"
_MAX_DEPTH = 64
_MAX_PRECISION = 38

_LEAVES: dict[pa.DataType, pa.DataType] = {
    **{t: t for t in (pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{t: t for t in (pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())},
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def _refuse(path: str, arrow_type: pa.DataType, why: str, remedy: str) -> UnsupportedError:
    name = printable(str(arrow_type))
    return UnsupportedError(
        f"Spark has no type for column {path!r} of Arrow type {name}: {why}; {remedy}",
        feature=f"Spark: {name}",
    )


def _decimal(path: str, arrow_type: pa.DataType) -> pa.DataType:
    # Spark requires 0 <= scale <= precision <= 38; other scales are other notations of the same numbers.
    precision, scale = arrow_type.precision, arrow_type.scale
    wider = precision - scale if scale < 0 else max(precision, scale)
    if wider > _MAX_PRECISION:
        remedy = f"select it with a cast, for example columns={{{path!r}: 'CAST({path} AS double)'}}"
        raise _refuse(
            path, arrow_type, f"it needs {wider} digits and Spark's decimal has {_MAX_PRECISION}", remedy
        )
    return pa.decimal128(wider, max(scale, 0))


def _leaf(path: str, arrow_type: pa.DataType) -> pa.DataType:
    types = pa.types
    known = _LEAVES.get(arrow_type)
    if known is not None:
        return known
    if types.is_fixed_size_binary(arrow_type):
        return pa.binary()
    if types.is_decimal(arrow_type):
        return _decimal(path, arrow_type)
    if types.is_time(arrow_type):
        return pa.time64("ns")
    if types.is_duration(arrow_type):
        return pa.duration("us")
    if types.is_timestamp(arrow_type):
        return pa.timestamp("us", None if arrow_type.tz is None else "UTC")
    raise _refuse(
        path, arrow_type, "none of its types can hold these values", "leave the column out, or cast it"
    )


def _is_list(arrow_type: pa.DataType) -> bool:
    types = pa.types
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view)
    return any(kind(arrow_type) for kind in (*kinds, types.is_large_list_view))


def spark_arrow_type(arrow_type: pa.DataType, path: str = "", depth: int = 0) -> pa.DataType:
    """The Arrow type in which Spark accepts and returns values of a type.

    Parameters
    ----------
    arrow_type : pyarrow.DataType
    path : str
        Name of the column, for messages.

    Returns
    -------
    pyarrow.DataType
        Exactly the result of PySpark's ``to_arrow_schema`` for the Spark type: elements of lists are
        called ``element``, zoned timestamps are in UTC, no views, dictionaries, large or fixed-size types.

    Raises
    ------
    UnsupportedError
        Spark has no type that holds every value; the message names the column and the remedy.

    Examples
    --------
    >>> import pyarrow as pa
    >>> spark_arrow_type(pa.list_(pa.uint8(), 4))
    ListType(list<element: int16>)
    """
    types = pa.types
    if depth > _MAX_DEPTH:
        raise _refuse(path, pa.null(), f"its types nest deeper than {_MAX_DEPTH}", "flatten it first")
    if isinstance(arrow_type, pa.Bool8Type):
        return pa.bool_()
    if isinstance(arrow_type, pa.BaseExtensionType):
        return spark_arrow_type(arrow_type.storage_type, path, depth + 1)
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return spark_arrow_type(arrow_type.value_type, path, depth + 1)
    if _is_list(arrow_type):
        return pa.list_(_member("element", arrow_type.value_field, f"{path}[]", depth))
    if types.is_map(arrow_type):
        key = pa.field("key", spark_arrow_type(arrow_type.key_type, f"{path}.key", depth + 1), False)
        return pa.map_(key, _member("value", arrow_type.item_field, f"{path}.value", depth))
    if types.is_struct(arrow_type):
        return _struct(path, arrow_type, depth)
    return _leaf(path, arrow_type)


def _member(name: str, field: pa.Field, path: str, depth: int) -> pa.Field:
    """Element of a list or value of a map.

    The null type becomes boolean here, with all values null: Arrow's cast, which PySpark applies to everything,
    gets the number of rows wrong for it.
    """
    return pa.field(name, _typed(spark_arrow_type(field.type, path, depth + 1)), field.nullable)


def _typed(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(arrow_type):
        return pa.struct([f.with_type(_typed(f.type)) for f in arrow_type])
    return pa.bool_() if pa.types.is_null(arrow_type) else arrow_type


def _struct(path: str, arrow_type: pa.StructType, depth: int) -> pa.DataType:
    names = [f.name for f in arrow_type]
    if len(set(names)) != len(names):
        raise _refuse(
            path, arrow_type, "two of its fields have the same name", "rename or select fields first"
        )
    # Field metadata is dropped: Spark takes some keys ("variant", "geometry") for its own types.
    return pa.struct(
        [
            pa.field(f.name, spark_arrow_type(f.type, f"{path}.{f.name}", depth + 1), f.nullable)
            for f in arrow_type
        ]
    )


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """:func:`spark_arrow_type` of every column.

    Raises
    ------
    UnsupportedError
        For the first column that Spark cannot hold.
    """
    return pa.schema([pa.field(f.name, spark_arrow_type(f.type, f.name), f.nullable) for f in schema])


def normalize(schema: pa.Schema) -> pa.Schema:
    """A schema in Spark's types, with the original types in its metadata.

    A table cast to it can be passed to ``spark.createDataFrame``; :func:`lancecy.spark.dataframe` does that and
    handles what a cast cannot (nanoseconds, vectors, views). :func:`original_schema` is the inverse.

    Parameters
    ----------
    schema : pyarrow.Schema

    Returns
    -------
    pyarrow.Schema
        :func:`spark_arrow_schema`, with the original type in the metadata of each field whose type changed.

    Raises
    ------
    UnsupportedError
        For the first column that Spark cannot hold.

    Examples
    --------
    >>> import pyarrow as pa
    >>> given = pa.schema({"vec": pa.list_(pa.float16(), 2), "n": pa.uint64()})
    >>> normalize(given).types
    [ListType(list<element: float>), Decimal128Type(decimal128(20, 0))]
    >>> original_schema(normalize(given)) == given
    True
    """
    target = spark_arrow_schema(schema)
    return pa.schema([f.with_metadata(_memory(o, f)) for o, f in zip(schema, target, strict=True)])


def _memory(original: pa.Field, target: pa.Field) -> dict[str, str]:
    return {} if _is_kept(original, target) else {METADATA_KEY: _encoded(original)}


def _leaf_classes() -> Iterator[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], DataType]]]:
    from pyspark.sql import types as spark

    simple = {
        pa.null(): spark.NullType,
        pa.bool_(): spark.BooleanType,
        pa.int8(): spark.ByteType,
        pa.int16(): spark.ShortType,
        pa.int32(): spark.IntegerType,
        pa.int64(): spark.LongType,
        pa.float32(): spark.FloatType,
        pa.float64(): spark.DoubleType,
        pa.string(): spark.StringType,
        pa.binary(): spark.BinaryType,
        pa.date32(): spark.DateType,
        pa.timestamp("us"): spark.TimestampNTZType,
        pa.timestamp("us", "UTC"): spark.TimestampType,
        pa.duration("us"): spark.DayTimeIntervalType,
    }
    yield simple.__contains__, lambda t: simple[t]()
    yield pa.types.is_decimal, lambda t: spark.DecimalType(t.precision, t.scale)
    if hasattr(spark, "TimeType"):
        yield pa.types.is_time, lambda t: spark.TimeType(6)


def _spark_type(path: str, arrow_type: pa.DataType) -> DataType:
    from pyspark.sql import types as spark

    if pa.types.is_map(arrow_type):
        key, value = arrow_type.key_type, arrow_type.item_field
        return spark.MapType(_spark_type(path, key), _spark_type(path, value.type), value.nullable)
    if pa.types.is_list(arrow_type):
        item = arrow_type.value_field
        return spark.ArrayType(_spark_type(path, item.type), item.nullable)
    if pa.types.is_struct(arrow_type):
        return spark.StructType(
            [
                spark.StructField(f.name, _spark_type(f"{path}.{f.name}", f.type), f.nullable)
                for f in arrow_type
            ]
        )
    for matches, make in _leaf_classes():
        if matches(arrow_type):
            return make(arrow_type)
    raise _refuse(path, arrow_type, "this release of Spark does not have it", "use Spark 4.1 or later")


def spark_struct(schema: pa.Schema) -> StructType:
    """The Spark schema for an Arrow schema.

    Columns whose Arrow type Spark does not keep have it in their metadata, under :data:`METADATA_KEY`, so
    that a later write can restore it.

    Raises
    ------
    UnsupportedError
        As for :func:`spark_arrow_type`.
    """
    from pyspark.sql import types as spark

    fields = []
    for original, target in zip(schema, spark_arrow_schema(schema), strict=True):
        held = _spark_type(target.name, target.type)
        fields.append(spark.StructField(target.name, held, target.nullable, _memory(original, target)))
    return spark.StructType(fields)


def _is_kept(original: pa.Field, target: pa.Field) -> bool:
    is_same = bool(original.type.equals(target.type, check_metadata=True))
    return original.metadata is None and is_same and _may_be_null(original)


def _may_be_null(field: pa.Field) -> bool:
    """Whether a field and everything inside may be null; keys of maps may not."""
    kind = field.type
    if pa.types.is_map(kind):
        inside = [kind.item_field]
    elif pa.types.is_struct(kind) or pa.types.is_list(kind):
        inside = [kind.field(number) for number in range(kind.num_fields)]
    else:
        inside = []
    return field.nullable and all(map(_may_be_null, inside))


def _encoded(field: pa.Field) -> str:
    return base64.b64encode(pa.schema([field]).serialize().to_pybytes()).decode("ascii")


def original_schema(held: StructType | pa.Schema) -> pa.Schema:
    """The original Arrow schema of a schema that lancecy made for Spark.

    Parameters
    ----------
    held : pyspark.sql.types.StructType or pyarrow.Schema
        Schema of a DataFrame, or from :func:`normalize`. Columns renamed in Spark keep their original type under
        the new name; columns without a recorded type get the type in which Spark holds them.

    Raises
    ------
    ValueError
        The metadata under :data:`METADATA_KEY` was not written by lancecy.
    """
    if isinstance(held, pa.Schema):
        memories = [(f.metadata or {}).get(METADATA_KEY.encode()) for f in held]
        return pa.schema([f if m is None else _recalled(m, f) for m, f in zip(memories, held, strict=True)])
    return pa.schema([_original_field(field) for field in held.fields])


def _original_field(field: Any) -> pa.Field:
    encoded = (field.metadata or {}).get(METADATA_KEY)
    if encoded is None:
        from pyspark.sql.pandas.types import to_arrow_type

        return pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), field.nullable)
    return _recalled(encoded, field)


def _recalled(encoded: str | bytes, field: Any) -> pa.Field:
    try:
        original = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded, validate=True))).field(0)
    except (ValueError, TypeError, IndexError, OSError, pa.ArrowException) as error:
        raise ValueError(f"column {field.name!r} has no valid record of its Arrow type") from error
    return original.with_name(field.name).with_nullable(field.nullable)
