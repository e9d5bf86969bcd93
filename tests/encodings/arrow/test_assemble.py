"""Assembly of nested columns from parts, chunk by chunk."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.assemble import assemble, pruned
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import FixedList, FixedWidth, Leaves, Listed, Pieces, Reordered, Structured
from lancecy.errors import FormatError
from lancecy.schema import Field, Schema
from lancecy.schema_wire import decode_fields, encode_fields
from tests.helpers.folded import folded

X, Y = Field("x", 2, 1, "int32"), Field("y", 3, 1, "string")


def struct(*children: Field, kind: str = "struct", **changes: Any) -> Field:
    return Field("s", 1, logical_type=kind, children=children, **changes)


def part_of(field: Field, *ids: int) -> Field:
    found = pruned(field, frozenset(ids))
    assert found is not None
    return found


def part(field: Field, leaf: int, values: list[Any], *cuts: int) -> tuple[Field, pa.ChunkedArray]:
    """One leaf's part of a column, in chunks that end at ``cuts``."""
    held = part_of(field, leaf)
    array = pa.array(values, held.storage_type)
    edges = [0, *cuts, len(values)]
    chunks = [array.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    return held, pa.chunked_array(chunks, held.storage_type)


@pytest.mark.parametrize("cuts", [((), ()), ((2,), ()), ((), (1, 3)), ((2, 4), (1, 2, 5)), ((0, 6), (3, 3))])
def test_structs_in_chunks_that_differ(cuts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    field = struct(X, Y)
    numbers = [{"x": 1}, None, {"x": None}, {"x": 4}, {"x": 5}, None]
    words = [{"y": "a"}, None, {"y": "c"}, {"y": None}, {"y": "e"}, None]
    found = assemble(field, [part(field, 2, numbers, *cuts[0]), part(field, 3, words, *cuts[1])], 6)
    found.validate(full=True)
    assert found.type == field.arrow_type
    expected = [None if a is None or b is None else {**a, **b} for a, b in zip(numbers, words, strict=True)]
    assert found.to_pylist() == expected


@pytest.mark.parametrize("cuts", [((), ()), ((1, 3), (2,))])
def test_a_struct_is_null_where_all_its_parts_are(cuts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    inner = struct(X, Y)
    field = Field("o", 0, logical_type="struct", children=(inner,))
    numbers = [None, {"s": {"x": 1}}, {"s": None}, None, {"s": {"x": None}}]
    words = [{"s": {"y": "a"}}, None, {"s": {"y": "c"}}, None, {"s": None}]
    found = assemble(field, [part(field, 2, numbers, *cuts[0]), part(field, 3, words, *cuts[1])], 5)
    found.validate(full=True)
    assert found.to_pylist() == [
        {"s": {"x": None, "y": "a"}},
        {"s": {"x": 1, "y": None}},
        {"s": {"x": None, "y": "c"}},
        None,
        {"s": {"x": None, "y": None}},
    ]


def test_what_is_below_a_part_that_is_null_is_not_shown() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([7, 8], pa.int32())], ["x"], mask=pa.array([True, False]))
    words = pa.array([{"y": "a"}, None], part_of(struct(X, Y), 3).storage_type)
    parts = [(part_of(struct(X, Y), 2), hidden), (part_of(struct(X, Y), 3), words)]
    assert assemble(struct(X, Y), parts, 2).to_pylist() == [{"x": None, "y": "a"}, {"x": 8, "y": None}]


def test_nulls_of_several_files_are_joined() -> None:
    stub = Field("s", 1, logical_type="bool")
    parts = [(stub, pa.array(values)) for values in ([None, None, True], [None, False, False])]
    assert assemble(stub, parts, 3).is_null().to_pylist() == [True, False, False]


LISTS = [
    [{"x": 1, "y": "a"}],
    None,
    [],
    [{"x": 2, "y": None}, None, {"x": None, "y": "c"}],
    [{"x": 3, "y": "d"}],
]


def only(rows: Any, name: str) -> Any:
    if isinstance(rows, list):
        return [only(row, name) for row in rows]
    return {name: rows[name]} if isinstance(rows, dict) else rows


@pytest.mark.parametrize("kind", ["list.struct", "large_list.struct"])
@pytest.mark.parametrize("cuts", [((), ()), ((1, 4), ()), ((3,), (4,))])
def test_lists_of_structs(kind: str, cuts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    item = struct(X, Y)
    field = Field("l", 0, logical_type=kind, children=(item,))
    parts = [part(field, 2, only(LISTS, "x"), *cuts[0]), part(field, 3, only(LISTS, "y"), *cuts[1])]
    found = assemble(field, parts, 5)
    found.validate(full=True)
    assert found.type == field.arrow_type
    assert found.to_pylist() == LISTS


def test_lists_that_disagree() -> None:
    field = Field("l", 0, logical_type="list.struct", children=(struct(X, Y),))
    other = [*only(LISTS, "y")[:-1], []]
    with pytest.raises(FormatError, match="lengths of the lists of column 'l'"):
        assemble(field, [part(field, 2, only(LISTS, "x")), part(field, 3, other)], 5)
    with pytest.raises(FormatError, match="differ in length"):
        assemble(field, [part(field, 2, only(LISTS, "x")), part(field, 3, other[:-1])], 5)


@pytest.mark.parametrize("cuts", [((), ()), ((1, 2), (1,))])
def test_fixed_lists_of_structs(cuts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    field = Field("f", 0, logical_type="fixed_size_list:struct:2", children=(struct(X, Y),))
    rows = [[{"x": 1, "y": "a"}, None], None, [{"x": None, "y": "c"}, {"x": 4, "y": None}]]
    parts = [part(field, 2, only(rows, "x"), *cuts[0]), part(field, 3, only(rows, "y"), *cuts[1])]
    found = assemble(field, parts, 3)
    found.validate(full=True)
    assert found.type == field.arrow_type
    assert found.to_pylist() == rows


def test_maps_are_made_of_their_keys_and_values() -> None:
    entries = struct(
        Field("key", 2, 1, "string", nullable=False), Field("value", 3, 1, "int32"), nullable=False
    )
    field = Field("m", 0, logical_type="map", children=(entries,))
    keys = [[{"key": "a"}, {"key": "b"}], None, [], [{"key": "a"}]]
    values = [[{"value": 1}, {"value": None}], None, [], [{"value": 3}]]
    assert part_of(field, 2).arrow_type == pa.list_(
        entries.arrow_field.with_type(pa.struct([pa.field("key", pa.string(), False)]))
    )
    found = assemble(field, [part(field, 2, keys, 2), part(field, 3, values, 1, 3)], 4)
    found.validate(full=True)
    assert found.type == pa.map_(pa.string(), pa.int32())
    assert found.to_pylist() == [[("a", 1), ("b", None)], None, [], [("a", 3)]]


def test_leaves_in_no_part_are_null() -> None:
    field = struct(X, Y, Field("z", 4, 1, "fixed_size_list:float:2"))
    found = assemble(field, [part(field, 2, [{"x": 1}, None])], 2)
    assert found.to_pylist() == [{"x": 1, "y": None, "z": None}, None]
    assert assemble(field, [], 2).to_pylist() == [None, None]


def test_leaves_become_one_column() -> None:
    field = Field("l", 0, logical_type="list", children=(struct(X, replace_type(Y, "int8")),))
    offsets = np.array([0, 1, 3], "<i4")
    x = Listed(2, 4, offsets, Structured(3, {2: Pieces(3, (ints(1), ints(2, 3)))}))
    y = Listed(2, 4, offsets, Structured(3, {3: ints(7, 8, 9, dtype="<i1")}))
    leaves = Leaves(2, ((part_of(field, 2), x), (part_of(field, 3), y)))
    rows = [[{"x": 1, "y": 7}], [{"x": 2, "y": 8}, {"x": 3, "y": 9}]]
    assert to_arrow(leaves, field).to_pylist() == rows
    order = np.array([1, 0, 1])
    assert to_arrow(Reordered(3, leaves, order), field).to_pylist() == [rows[1], rows[0], rows[1]]


def replace_type(field: Field, kind: str) -> Field:
    return Field(field.name, field.id, field.parent_id, kind)


def ints(*values: int, dtype: str = "<i4") -> FixedWidth:
    array = np.array(values, dtype)
    return FixedWidth(array.size, array.itemsize * 8, array)


def test_fixed_list_of_structs_as_a_block() -> None:
    field = Field("f", 0, logical_type="fixed_size_list:struct:2", children=(struct(X),))
    block = FixedList(2, 2, Structured(4, {2: ints(1, 2, 3, 4)}, b"\x0d", 1), b"\x01", 1)
    assert to_arrow(block, field).to_pylist() == [[{"x": 1}, None], None]


def test_map_with_null_keys_is_refused() -> None:
    entries = struct(Field("key", 2, 1, "int32", False), X)
    field = Field("m", 0, logical_type="map", children=(entries,))
    keys = FixedWidth(2, 32, ints(1, 2).values, b"\x01", 1)
    child = Structured(2, {2: keys})
    with pytest.raises(FormatError, match="keys that are null"):
        to_arrow(Listed(1, 4, np.array([0, 2], "<i4"), child), field)


# -- types ----------------------------------------------------------------------------------


def test_nested_types_survive_the_wire() -> None:
    entries = struct(Field("key", 2, 1, "string", False), Field("value", 3, 1, "double"), nullable=False)
    top = Field(
        "m",
        0,
        logical_type="map",
        children=(Field("entries", 1, 0, "struct", False, children=entries.children),),
    )
    fixed = Field(
        "f",
        4,
        logical_type="fixed_size_list:struct:3",
        children=(Field("item", 5, 4, "struct", children=(Field("v", 6, 5, "bool"),)),),
    )
    schema = Schema(decode_fields(encode_fields([top, fixed])))
    assert schema.arrow.field("m").type == pa.map_(pa.string(), pa.float64())
    assert schema.arrow.field("f").type == pa.list_(pa.struct([("v", pa.bool_())]), 3)


@folded(
    "field",
    [
        Field("m", 0, logical_type="map"),
        Field("m", 0, logical_type="map", children=(X,)),
        Field("m", 0, logical_type="map", children=(struct(X),)),
        Field("f", 0, logical_type="fixed_size_list:struct:2"),
        Field("f", 0, logical_type="fixed_size_list:struct:x", children=(struct(X),)),
        Field("f", 0, logical_type="fixed_size_list:struct:", children=(struct(X),)),
        Field("f", 0, logical_type="fixed_size_list:struct:99999999999", children=(struct(X),)),
        Field("l", 0, logical_type="list", children=(X, Y)),
    ],
)
def test_nested_types_that_are_none(field: Field) -> None:
    with pytest.raises(FormatError):
        _ = field.arrow_type


def test_scanned_blobs_at_any_depth() -> None:
    v1 = Field("b", 2, 1, "large_binary", metadata={"lance-encoding:blob": b"true"})
    v2 = Field(
        "c", 3, 1, "struct", children=(Field("data", 4, 3, "large_binary"), Field("uri", 5, 3, "string")),
        extension_name="lance.blob.v2", metadata={"ARROW:extension:name": b"lance.blob.v2"},
    )  # fmt: skip
    field = struct(v1, v2, X)
    assert str(field.scanned.arrow_type) == (
        "struct<b: struct<position: uint64, size: uint64>, "
        "c: struct<kind: uint8 not null, position: uint64 not null, size: uint64 not null, "
        "blob_id: uint32 not null, blob_uri: string not null>, x: int32>"
    )
    assert field.scanned.scanned == field.scanned
    assert X.scanned is X
    # A blob is read whole or not at all, whatever the names of its children.
    part = field.scanned.pruned(frozenset([3]))
    assert part is not None
    assert [child.name for child in part.children] == ["c"]
    assert len(part.children[0].children) == 5
    assert field.pruned(frozenset([4])) is None
