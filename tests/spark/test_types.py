"""Which Arrow type becomes which Spark type, and what is refused; no Spark session is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancecy.errors import UnsupportedError
from lancecy.spark.types import (
    METADATA_KEY,
    original_schema,
    spark_arrow_schema,
    spark_arrow_type,
    spark_struct,
)
from tests.helpers.folded import folded
from tests.helpers.tables import all_types
from tests.spark.values import EXTRA_TYPES, SPARK_TYPES

ARROW_TYPES = {**all_types(), **EXTRA_TYPES}
REFUSED = {
    "decimal of 60 digits": (pa.decimal256(60, 7), r"needs 60 digits .*CAST\(x AS double\)"),
    "decimal of too many zeros": (pa.decimal128(38, -2), "needs 40 digits"),
    "decimal of too many places": (pa.decimal256(5, 40), "needs 40 digits"),
    "calendar interval": (pa.month_day_nano_interval(), "leave the column out"),
    "names twice": (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "same name"),
}


@folded("name", SPARK_TYPES)
def test_type_becomes_the_spark_type_of_the_table(name: str) -> None:
    struct = spark_struct(pa.schema([pa.field("x", ARROW_TYPES[name])]))
    assert struct["x"].dataType.simpleString() == SPARK_TYPES[name]


def test_every_type_of_the_format_is_in_the_table_or_refused() -> None:
    missing = set(all_types()) - set(SPARK_TYPES)
    assert missing == set()


@folded("name", SPARK_TYPES)
def test_arrow_type_is_what_pyspark_makes_of_the_spark_type(name: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    schema = pa.schema([pa.field("x", ARROW_TYPES[name])])
    target, struct = spark_arrow_schema(schema), spark_struct(schema)
    assert (
        to_arrow_schema(struct, timezone="UTC")
        .field(0)
        .type.equals(target.field(0).type, check_metadata=True)
    )
    assert from_arrow_schema(target)["x"].dataType == struct["x"].dataType


@folded("name", SPARK_TYPES)
def test_types_of_spark_stay_what_they_are(name: str) -> None:
    target = spark_arrow_type(ARROW_TYPES[name])
    assert spark_arrow_type(target).equals(target, check_metadata=True)


@pytest.mark.parametrize("name", REFUSED)
def test_type_without_a_spark_type_is_refused_by_name(name: str) -> None:
    kind, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message) as raised:
        spark_arrow_schema(pa.schema([pa.field("x", kind)]))
    assert "'x'" in str(raised.value)
    assert str(kind) in str(raised.value)


def test_refusal_names_the_nested_field() -> None:
    inner = pa.struct([pa.field("amounts", pa.list_(pa.decimal256(60, 7)))])
    with pytest.raises(UnsupportedError, match=r"'bill\.amounts\[\]'"):
        spark_arrow_schema(pa.schema([pa.field("bill", inner)]))


def test_types_nested_beyond_reason_are_refused() -> None:
    kind = pa.int8()
    for _ in range(100):
        kind = pa.list_(kind)
    with pytest.raises(UnsupportedError, match="nest deeper"):
        spark_arrow_type(kind)


def test_nested_metadata_does_not_make_a_variant_of_a_struct() -> None:
    tagged = pa.struct(
        [pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})]
    )
    struct = spark_struct(pa.schema([pa.field("v", tagged)]))
    assert struct["v"].dataType.simpleString() == "struct<value:binary,metadata:binary>"


@folded("name", SPARK_TYPES)
def test_original_type_is_remembered(name: str) -> None:
    field = pa.field("x", ARROW_TYPES[name], name == "null", metadata={"unit": "m"})
    assert original_schema(spark_struct(pa.schema([field]))).field(0).equals(field, check_metadata=True)


def test_original_type_survives_renaming_and_json() -> None:
    from pyspark.sql.types import StructField, StructType

    struct = spark_struct(
        pa.schema([pa.field("x", pa.list_(pa.uint8(), 3)), pa.field("n", pa.int64(), False)])
    )
    again = StructType.fromJson(struct.jsonValue())
    renamed = StructType([StructField("y", again["x"].dataType, True, again["x"].metadata), again["n"]])
    assert original_schema(renamed) == pa.schema(
        [pa.field("y", pa.list_(pa.uint8(), 3)), pa.field("n", pa.int64(), False)]
    )


def test_column_made_in_spark_has_the_type_spark_holds() -> None:
    from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

    struct = StructType([StructField("made", ArrayType(IntegerType()))])
    assert original_schema(struct).field("made").type == pa.list_(pa.int32())


@pytest.mark.parametrize("text", ["", "nonsense", "AAAA", None])
def test_damaged_memory_of_a_type_is_a_value_error(text: object) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    struct = StructType([StructField("x", IntegerType(), True, {METADATA_KEY: text})])
    if text is None:
        assert original_schema(struct).field("x").type == pa.int32()
    else:
        with pytest.raises(ValueError, match="'x'"):
            original_schema(struct)
