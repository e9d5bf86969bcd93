"""Schemas as JSON: the same JSON as pylance's, and each library reads the other's."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import SchemaError

TYPES = [
    pa.null(), pa.bool_(), pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float32(), pa.float64(),
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(5), pa.date32(), pa.date64(),
    pa.time32("ms"), pa.time64("ns"), pa.timestamp("us"), pa.timestamp("ns", "Europe/Paris"),
    pa.timestamp("s", "+02:00"), pa.duration("s"), pa.decimal128(10, 2), pa.decimal256(50, -3),
    pa.list_(pa.int32()), pa.large_list(pa.field("x", pa.string(), False)), pa.list_(pa.float32(), 4),
    pa.list_(pa.list_(pa.float32(), 3), 2), pa.dictionary(pa.int8(), pa.string()),
    pa.struct([pa.field("a", pa.int8(), False), pa.field("b", pa.list_(pa.field("item", pa.int8(), metadata={"k": "v"})))]),
    pa.list_(pa.large_list(pa.struct([("q", pa.int64()), ("é`.", pa.date32())]))),
]  # fmt: skip


def schema_of(kind: pa.DataType) -> pa.Schema:
    field = pa.field("c", kind, metadata={"k": "v"})
    return pa.schema([field, pa.field("d", pa.int8(), False)], {"m": "n"})


@pytest.mark.interop
def test_json_is_that_of_pylance_both_ways() -> None:
    import lance.schema

    for kind in TYPES:
        schema = schema_of(kind)
        made = lancecy.schema_to_json(schema)
        assert made == lance.schema.schema_to_json(schema), kind
        assert lance.schema.json_to_schema(made).equals(schema, check_metadata=True), kind
        assert lancecy.json_to_schema(json.loads(json.dumps(made))).equals(schema, check_metadata=True), kind
    assert lancecy.schema_to_json(pa.schema([])) == lance.schema.schema_to_json(pa.schema([]))


@pytest.mark.interop
def test_extension_types_are_storage_and_metadata() -> None:
    import lance.schema

    schema = pa.schema(
        [("u", pa.uuid()), ("t", pa.fixed_shape_tensor(pa.int8(), (2, 2))), ("l", pa.list_(pa.uuid()))]
    )
    made = lancecy.schema_to_json(schema)
    assert made == lance.schema.schema_to_json(schema)
    assert lancecy.json_to_schema(made).types[:2] == schema.types[:2]
    # A dictionary's order is not in the JSON.
    ordered = pa.schema([("d", pa.dictionary(pa.int32(), pa.string(), ordered=True))])
    assert lancecy.schema_to_json(ordered) == lance.schema.schema_to_json(ordered)


@pytest.mark.interop
@pytest.mark.parametrize(
    "kind",
    [pa.map_(pa.string(), pa.int8()), pa.string_view(), pa.month_day_nano_interval(), pa.decimal32(5, 2)],
)
def test_types_without_a_form_are_refused_as_by_pylance(kind: pa.DataType) -> None:
    import lance.schema

    schema = pa.schema([("s", pa.struct([("x", kind)]))])
    with pytest.raises(ValueError, match="Failed to convert schema"):
        lance.schema.schema_to_json(schema)
    with pytest.raises(SchemaError, match=r"column 's.x': type .* has no form in JSON"):
        lancecy.schema_to_json(schema)


INT8 = {"name": "a", "nullable": True, "type": {"type": "int8"}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "the schema has no 'fields' of type list"),
        ({"fields": [{"name": "a", "type": {"type": "int8"}}]}, "column 'a' has no 'nullable'"),
        ({"fields": [3]}, "a field of the schema has no 'name'"),
        (
            {"fields": [{**INT8, "type": {"type": "foo"}}]},
            "the type of column 'a': unknown type string 'foo'",
        ),
        ({"fields": [{**INT8, "type": {"type": "list"}}]}, "has no 'fields' of type list"),
        ({"fields": [{**INT8, "type": {"type": "list", "fields": [INT8, INT8]}}]}, "one field, not 2"),
        ({"fields": [{**INT8, "type": {"type": "fixed_size_list:int8:4"}}]}, "the length .* is a member"),
        ({"fields": [{**INT8, "type": {"type": "fixed_size_binary", "length": -1}}]}, "-1 is not a length"),
        ({"fields": [{**INT8, "metadata": {"a": 3}}]}, "metadata of column 'a' is not a mapping of texts"),
    ],
)
def test_json_that_is_no_schema_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        lancecy.json_to_schema(value)


def test_nesting_without_end_is_refused() -> None:
    value: dict[str, Any] = INT8
    for _ in range(5000):
        value = {**INT8, "type": {"type": "list", "fields": [value]}}
    with pytest.raises(lancecy.errors.LimitError, match="nesting"):
        lancecy.json_to_schema({"fields": [value]})
