"""Fields to specs."""

from __future__ import annotations

import pytest

from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.spec import (
    DictionaryOf,
    FixedListOf,
    ListOf,
    NullOf,
    Plain,
    Spec,
    StructOf,
    VarBinary,
    flat_bits,
    flat_leaf,
)
from lancecy.errors import FormatError, LimitError, UnsupportedError
from lancecy.schema import Field
from tests.helpers.folded import folded

LEAVES: list[tuple[str, Spec]] = [
    ("null", NullOf()),
    ("bool", Plain(1)),
    ("int8", Plain(8)),
    ("uint16", Plain(16)),
    ("halffloat", Plain(16)),
    ("float", Plain(32)),
    ("double", Plain(64)),
    ("date32:day", Plain(32)),
    ("date64:ms", Plain(64)),
    ("time32:s", Plain(32)),
    ("time64:ns", Plain(64)),
    ("timestamp:us:-", Plain(64)),
    ("timestamp:us:+05:30", Plain(64)),
    ("timestamp:us", Plain(64)),
    ("duration:ms", Plain(64)),
    ("decimal:128:10:-2", Plain(128)),
    ("decimal:256:50:3", Plain(256)),
    ("fixed_size_binary:7", Plain(56)),
    ("fixed_size_binary:0", Plain(0)),
    ("string", VarBinary(4, True)),
    ("large_string", VarBinary(8, True)),
    ("binary", VarBinary(4, True)),
    ("large_binary", VarBinary(8, True)),
    ("json", VarBinary(8, True)),
    ("fixed_size_list:bool:3", FixedListOf(3, Plain(1))),
    ("fixed_size_list:fixed_size_list:int16:2:3", FixedListOf(3, FixedListOf(2, Plain(16)))),
    ("fixed_size_list:lance.bfloat16:4", FixedListOf(4, Plain(16))),
    ("fixed_size_list:timestamp:us:+05:30:2", FixedListOf(2, Plain(64))),
    ("dict:string:int8:false", DictionaryOf(Plain(8, signed=True), VarBinary(4, True))),
    ("dict:large_binary:uint64:false", DictionaryOf(Plain(64, signed=False), VarBinary(8, True))),
    ("dict:int64:uint16:false", DictionaryOf(Plain(16, signed=False), Plain(64))),
]


@folded(("kind", "expected"), LEAVES)
def test_spec_of_leaf(kind: str, expected: Spec) -> None:
    assert spec_of(Field("a", 3, logical_type=kind)) == expected


def test_spec_ignores_the_stored_encoding() -> None:
    assert spec_of(Field("a", 3, logical_type="int32", encoding=3)) == Plain(32)


def test_spec_of_strings_that_cannot_be_null() -> None:
    assert spec_of(Field("a", 3, logical_type="string", nullable=False)) == VarBinary(4, False)


@pytest.mark.parametrize(
    ("kind", "width"), [("list", 4), ("list.struct", 4), ("large_list", 8), ("large_list.struct", 8)]
)
def test_spec_of_list(kind: str, width: int) -> None:
    child = Field("item", 8, parent_id=5, logical_type="int16")
    field = Field("a", 5, logical_type=kind, children=(child,))
    assert spec_of(field) == ListOf(width, 8, Plain(16))


def test_spec_of_struct_keeps_the_order_of_its_fields() -> None:
    children = (Field("b", 9, 5, logical_type="int8"), Field("a", 7, 5, logical_type="string"))
    spec = spec_of(Field("s", 5, logical_type="struct", children=children))
    assert isinstance(spec, StructOf)
    assert list(spec.children.items()) == [(9, Plain(8)), (7, VarBinary(4, True))]


@pytest.mark.parametrize("children", [(), (Field("a", 1), Field("b", 2))])
def test_list_without_exactly_one_child_is_refused(children: tuple[Field, ...]) -> None:
    with pytest.raises(FormatError, match="children, not 1"):
        spec_of(Field("x", 0, logical_type="list", children=children))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("utf8", FormatError),
        ("fixed_size_list:int8:x", FormatError),
        ("fixed_size_list:" * 100 + "int8" + ":2" * 100, LimitError),
        ("fixed_size_list:string:2", UnsupportedError),
        ("map", UnsupportedError),
        ("dict:string:float:false", FormatError),
    ],
)
def test_type_that_cannot_be_stored_is_refused(kind: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        spec_of(Field("x", 0, logical_type=kind))


def test_flat_bits_multiply_through_nested_lists() -> None:
    spec = FixedListOf(5, FixedListOf(3, Plain(1)))
    assert flat_bits(spec) == 15
    assert flat_leaf(spec) == Plain(1)
