"""Nested arrays keep their shape when their leaves are replaced, also if they are slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.schema import Field
from tests.helpers.compare import assert_arrays_equal
from tests.helpers.nested import random_nested_table
from tests.helpers.written import schema_of


def same(array: pa.Array, _field: Field) -> pa.Array:
    return array


@pytest.mark.parametrize("seed", range(20))
def test_shape_stays_when_leaves_do(seed: int) -> None:
    table = random_nested_table(np.random.default_rng(seed), "2.2", 3, 60)
    for field, column in zip(schema_of(table.schema).fields, table.columns, strict=True):
        array = column.chunk(0).slice(seed, 30)
        found = map_nested(array, field, lambda node: not node.children, same)
        found.validate(full=True)
        assert_arrays_equal(found, array)


@pytest.mark.parametrize(
    "array",
    [
        pa.FixedSizeListArray.from_arrays(
            pa.StructArray.from_arrays([pa.array(["bad", "bad", "b", "c"])], ["t"]),
            2,
            mask=pa.array([True, False]),
        ),
        pa.StructArray.from_arrays([pa.array(["bad", "a"])], ["t"], mask=pa.array([True, False])),
        pa.ListArray.from_arrays([0, 1, 2], pa.array(["bad", "a"]), mask=pa.array([True, False])),
    ],
    ids=["fixed_size_list", "struct", "list"],
)
def test_values_under_nulls_are_ignored(array: pa.Array) -> None:
    (field,) = schema_of(pa.schema([("c", array.type)])).fields
    seen: list[str | None] = []

    def note(texts: pa.Array, _field: Field) -> pa.Array:
        seen.extend(texts.to_pylist())
        return texts

    rest = array.slice(1)
    found = map_nested(array, field, lambda node: node.is_leaf, note)
    assert "bad" not in seen
    assert found.slice(1).to_pylist() == rest.to_pylist()
    assert map_nested(array, field, lambda node: False, note) is array


@pytest.mark.parametrize("kind", ["list", "large_list", "map"])
def test_nulls_and_items_under_nulls_do_no_harm_to_extension_types(kind: str) -> None:
    """Arrow (26.0) neither flattens such lists if all are null nor casts such maps."""
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array([None, "1", "2", "3"]))
    required = pa.list_(pa.field("item", pa.json_(), nullable=False))
    hidden, offsets = pa.py_buffer(b"\x06"), pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    inner = pa.Array.from_buffers(required, 3, [hidden, offsets], children=[texts])
    assert inner.to_pylist() == [None, ["1", "2"], ["3"]]
    array: pa.Array
    if kind == "map":
        outer = pa.map_(pa.int8(), pa.field("value", required, nullable=False))
        entries = pa.StructArray.from_arrays(
            [pa.array([7, 8, 9], pa.int8()), inner], fields=[outer.key_field, outer.item_field]
        )
        places = pa.py_buffer(np.array([0, 1, 2, 3], np.int32))
        array = pa.Array.from_buffers(outer, 3, [hidden, places], children=[entries])
        expected: list[object] = [None, [(8, ["1", "2"])], [(9, ["3"])]]
    else:
        make = pa.ListArray if kind == "list" else pa.LargeListArray
        array = make.from_arrays(pa.array([0, 1, 2, 3]), inner, mask=pa.array([True, True, True]))
        expected = [None, None, None]
    (field,) = schema_of(pa.schema([("c", array.type)])).fields
    for start in range(3):
        found = map_nested(array.slice(start), field, lambda node: node.is_leaf, same)
        found.validate(full=True)
        assert found.to_pylist() == expected[start:]
    assert map_nested(array.slice(1, 0), field, lambda node: node.is_leaf, same).to_pylist() == []
