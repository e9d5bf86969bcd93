"""What values should look like in Spark, worked out from Python values alone."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from typing import Any

import numpy as np
import pyarrow as pa

from tests.helpers.tables import all_types, all_types_table, random_array

__all__ = ["EXTRA_TYPES", "SPARK_TYPES", "arrays", "as_seen", "every_type", "plain_values"]

_POINT = "struct<x:int,y:string>"
SPARK_TYPES: dict[str, str] = {
    "null": "void",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float16": "float",
    "float32": "float",
    "float64": "double",
    **dict.fromkeys(("string", "large_string"), "string"),
    **dict.fromkeys(("binary", "large_binary", "fixed_binary_3", "fixed_binary_100"), "binary"),
    "date32": "date",
    "date64": "date",
    **{f"time_{unit}": "time(6)" for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp_{unit}": "timestamp_ntz" for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp_{zone}": "timestamp" for zone in ("utc", "ny", "offset")},
    **{f"duration_{unit}": "interval day to second" for unit in ("s", "ms", "us", "ns")},
    "decimal": "decimal(12,3)",
    "decimal_wide": "decimal(38,0)",
    "decimal_negative_scale": "decimal(7,0)",
    **{f"dictionary_{k}int{n}": "string" for k in ("", "u") for n in (8, 16, 32, 64)},
    "dictionary_of_large_string": "string",
    **{f"dictionary_of_{name}": "binary" for name in ("binary", "large_binary")},
    "dictionary_of_int32": "int",
    "dictionary_of_int64": "bigint",
    "dictionary_of_uint8": "smallint",
    "vector_float32": "array<float>",
    "vector_float16": "array<float>",
    "vector_float64": "array<double>",
    "vector_int8": "array<tinyint>",
    "vector_uint8": "array<smallint>",
    "vector_bool": "array<boolean>",
    "vector_timestamp": "array<timestamp>",
    "vector_decimal": "array<decimal(12,3)>",
    "vector_fixed_binary": "array<binary>",
    "vector_one": "array<bigint>",
    "matrix": "array<array<smallint>>",
    "list_int": "array<int>",
    "large_list_int": "array<int>",
    "list_string": "array<string>",
    "list_bool": "array<boolean>",
    "list_list": "array<array<smallint>>",
    "list_null": "array<boolean>",
    "list_struct": f"array<{_POINT}>",
    "large_list_struct": f"array<{_POINT}>",
    "list_vector": "array<array<float>>",
    "list_dictionary": "array<string>",
    "struct": "struct<a:bigint,b:float,c:string>",
    "struct_nested": f"struct<p:{_POINT},l:array<int>,t:boolean>",
    "struct_dictionary": "struct<d:string,n:tinyint>",
    "struct_vector": "struct<v:array<float>,ts:timestamp_ntz>",
    # Only in Arrow tables from elsewhere:
    "map": "map<string,array<smallint>>",
    "string_view": "string",
    "binary_view": "binary",
    "list_view": "array<smallint>",
    "large_list_view": "array<smallint>",
    "runs": "bigint",
    "uuid": "binary",
    "json": "string",
    "bool8": "boolean",
    "tensor": "array<float>",
    "scale_beyond_precision": "decimal(5,5)",
    "decimal32": "decimal(5,2)",
    "decimal256": "decimal(30,2)",
    "empty_struct": "struct<>",
    "dictionary_of_list": "array<smallint>",
}

EXTRA_TYPES: dict[str, pa.DataType] = {
    "map": pa.map_(pa.string(), pa.list_(pa.uint8())),
    "string_view": pa.string_view(),
    "binary_view": pa.binary_view(),
    "list_view": pa.list_view(pa.uint8()),
    "large_list_view": pa.large_list_view(pa.uint8()),
    "runs": pa.run_end_encoded(pa.int32(), pa.int64()),
    "uuid": pa.uuid(),
    "json": pa.json_(),
    "bool8": pa.bool8(),
    "tensor": pa.fixed_shape_tensor(pa.float32(), [2, 2]),
    "scale_beyond_precision": pa.decimal128(3, 5),
    "decimal32": pa.decimal32(5, 2),
    "decimal256": pa.decimal256(30, 2),
    "empty_struct": pa.struct([]),
    "dictionary_of_list": pa.dictionary(pa.int8(), pa.list_(pa.uint8())),
}


def every_type(rows: int, *, nulls: float = 0.25) -> pa.Table:
    """A table of every type that arrives in Spark, in the order of SPARK_TYPES; ``row`` counts."""
    kinds = {
        name: kind for name, kind in all_types().items() if name in SPARK_TYPES and name not in EXTRA_TYPES
    }
    table = all_types_table(rows, nulls=nulls, types=kinds)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    columns.update(arrays(rows, nulls=nulls))
    return pa.table({**{name: columns[name] for name in SPARK_TYPES}, "row": pa.array(range(rows))})


def arrays(rows: int, *, nulls: float = 0.25) -> dict[str, pa.Array]:
    """Values of the types in EXTRA_TYPES."""
    rng = np.random.default_rng(3)
    lists = random_array(pa.list_(pa.uint8()), rows, rng, nulls=nulls).to_pylist()
    pairs = [None if v is None else [(f"k{i}", [i, None]) for i in range(len(v))] for v in lists]
    words = random_array(pa.string(), rows, rng, nulls=nulls)
    numbers = random_array(pa.int8(), rows, rng, nulls=nulls)
    digits = pa.array([None if v is None else v + 200 for v in numbers.to_pylist()], pa.int64())
    codes = pa.array([None if v is None else i % 3 for i, v in enumerate(lists)], pa.int8())
    few = pa.array([[1], [], [250, None]], pa.list_(pa.uint8()))
    kinds = EXTRA_TYPES
    sixteen = random_array(pa.binary(16), rows, rng, nulls=nulls)
    vectors = random_array(pa.list_(pa.float32(), 4), rows, rng, nulls=nulls)
    return {
        "map": pa.array(pairs, kinds["map"]),
        "string_view": words.cast(pa.string_view()),
        "binary_view": words.cast(pa.binary_view()),
        "list_view": pa.array(lists, kinds["list_view"]),
        "large_list_view": pa.array(lists, kinds["large_list_view"]),
        "runs": pa.array([i // 4 for i in range(rows)], kinds["runs"]),
        "uuid": pa.ExtensionArray.from_storage(kinds["uuid"], sixteen),
        "json": pa.ExtensionArray.from_storage(kinds["json"], pa.array(["{}"] * rows)),
        "bool8": pa.ExtensionArray.from_storage(kinds["bool8"], numbers),
        "tensor": pa.ExtensionArray.from_storage(kinds["tensor"], vectors),
        "scale_beyond_precision": digits.cast(pa.decimal128(25, 5))
        .view(pa.decimal128(25, 5))
        .cast(pa.decimal128(25, 0))
        .view(pa.decimal128(3, 5)),
        "decimal32": digits.cast(pa.decimal128(25, 2)).cast(pa.decimal32(5, 2)),
        "decimal256": digits.cast(pa.decimal256(30, 2)),
        "empty_struct": pa.array([None if v is None else {} for v in lists], pa.struct([])),
        "dictionary_of_list": pa.DictionaryArray.from_arrays(codes, few),
    }


def as_seen(value: Any) -> Any:
    """A value as it should come out of Spark: microseconds, UTC, no uuid objects, NaN comparable."""
    if isinstance(value, dict):
        return {name: as_seen(v) for name, v in value.items()}
    if isinstance(value, list):
        return [as_seen(v) for v in value]
    if isinstance(value, tuple):
        return tuple(as_seen(v) for v in value)
    if isinstance(value, float | np.floating):
        return "NaN" if math.isnan(value) else float(value)
    if hasattr(value, "to_pydatetime"):  # nanoseconds: pandas objects
        value = value.floor("us").to_pydatetime()
    if hasattr(value, "to_pytimedelta"):
        value = value.floor("us").to_pytimedelta()
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value.bytes if isinstance(value, uuid.UUID) else value


def plain_values(value: Any) -> Any:
    """A value of Spark's as one whose text is the same for equal values: bytes, NaN, numbers without their type."""
    if isinstance(value, list | tuple):
        return tuple(plain_values(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, plain_values(v)) for k, v in value.items()))
    if isinstance(value, bytearray | bytes):
        return bytes(value)
    return None if isinstance(value, float) and math.isnan(value) else value
