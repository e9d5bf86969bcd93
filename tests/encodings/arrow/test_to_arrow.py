"""Blocks to Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.nulls import null_array
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Listed,
    Pieces,
    Structured,
    VariableWidth,
)
from lancecy.errors import FormatError, LimitError
from lancecy.schema import Field
from tests.helpers.folded import folded
from tests.helpers.tables import all_types


def words(*values: bytes, width: int = 4) -> VariableWidth:
    offsets = np.cumsum([0, *(len(v) for v in values)]).astype(f"<i{width}")
    return VariableWidth(len(values), width, offsets, b"".join(values))


def ints(*values: int, dtype: str = "<i4") -> FixedWidth:
    array = np.array(values, dtype)
    return FixedWidth(array.size, array.itemsize * 8, array)


def test_allocated_memory_is_that_of_the_buffer() -> None:
    buffer, view = allocate(1000)
    view[:] = 3
    assert view.flags.writeable
    assert buffer.address == view.__array_interface__["data"][0]
    assert allocate(0)[1].size == 0


def test_values_are_shared_and_not_copied() -> None:
    memory = np.arange(12, dtype="<i8")
    array = to_arrow(FixedWidth(12, 64, memory), pa.timestamp("us", "UTC"))
    assert array.type == pa.timestamp("us", "UTC")
    assert array.buffers()[1].address == memory.__array_interface__["data"][0]


def test_validity_is_kept() -> None:
    array = to_arrow(FixedWidth(3, 32, ints(1, 2, 3).values, b"\x05", 1), pa.int32())
    assert array.to_pylist() == [1, None, 3]
    assert array.null_count == 1


def test_booleans_are_bits() -> None:
    assert to_arrow(FixedWidth(3, 1, b"\x06"), pa.bool_()).to_pylist() == [False, True, True]


@pytest.mark.parametrize(("kind", "width"), [(pa.string(), 4), (pa.large_string(), 8)])
def test_text(kind: pa.DataType, width: int) -> None:
    array = to_arrow(words(b"a", "ß漢".encode(), b"", width=width), kind)
    assert array.to_pylist() == ["a", "ß漢", ""]


def test_lists_of_lists() -> None:
    inner = Listed(3, 4, np.array([0, 2, 2, 3], "<i4"), ints(7, 8, 9))
    outer = Listed(2, 8, np.array([0, 1, 3], "<i8"), inner)
    array = to_arrow(outer, pa.large_list(pa.list_(pa.int32())))
    array.validate(full=True)
    assert array.to_pylist() == [[[7, 8]], [[], [9]]]


def test_fixed_size_lists() -> None:
    block = FixedList(2, 3, ints(1, 2, 3, 4, 5, 6))
    assert to_arrow(block, pa.list_(pa.int32(), 3)).to_pylist() == [[1, 2, 3], [4, 5, 6]]


def test_struct_takes_children_by_id_and_fills_in_nulls() -> None:
    children = (
        Field("b", 4, 2, "string"),
        Field("missing", 6, 2, "double"),
        Field("a", 3, 2, "int32"),
    )
    field = Field("s", 2, logical_type="struct", children=children)
    block = Structured(2, {3: ints(5, 6), 4: words(b"x", b"yz")})
    expected = [{"b": "x", "missing": None, "a": 5}, {"b": "yz", "missing": None, "a": 6}]
    assert to_arrow(block, field.arrow_type, field).to_pylist() == expected
    assert to_arrow(block, field).type == field.arrow_type


def test_dictionary_with_a_null_value() -> None:
    values = VariableWidth(2, 4, np.array([0, 1, 1], "<i4"), b"k", b"\x01", 1)
    block = Coded(4, ints(0, 1, 0, 0, dtype="<u2"), values)
    array = to_arrow(block, pa.dictionary(pa.uint16(), pa.string()))
    assert array.to_pylist() == ["k", None, "k", "k"]


def test_pieces_become_chunks() -> None:
    block = Pieces(3, (ints(1, 2), ints(3)))
    array = to_arrow(block, pa.int32())
    assert isinstance(array, pa.ChunkedArray)
    assert [len(c) for c in array.chunks] == [2, 1]
    assert array.to_pylist() == [1, 2, 3]


def test_pieces_below_another_block_are_joined() -> None:
    block = Listed(2, 4, np.array([0, 1, 3], "<i4"), Pieces(3, (ints(1), ints(2, 3))))
    assert to_arrow(block, pa.list_(pa.int32())).to_pylist() == [[1], [2, 3]]


@folded(
    ("block", "kind"),
    [
        (ints(1), pa.int64()),
        (ints(1), pa.list_(pa.int32(), 1)),
        (words(b"a"), pa.large_string()),
        (words(b"a"), pa.int32()),
        (Listed(0, 4, b"\0" * 4, AllNull(0)), pa.large_list(pa.null())),
        (FixedList(1, 2, ints(1, 2)), pa.list_(pa.int32(), 3)),
        (Structured(1, {}), pa.struct([("a", pa.int8())])),
        (Coded(1, ints(0), words(b"a")), pa.int32()),
    ],
)
def test_type_that_does_not_fit_is_refused(block: Block, kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="does not fit"):
        to_arrow(block, kind)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf8\x88\x80\x80\x80"])
def test_text_that_is_not_utf8_is_refused_with_its_row(bad: bytes) -> None:
    block = words(*[b"ok", "ä".encode()] * 40, bad, *[b"ok"] * 20)
    with pytest.raises(FormatError, match="row 80 of column 'name' is not UTF-8") as caught:
        to_arrow(block, Field("name", 0, logical_type="string"))
    assert caught.value.position == 80
    assert to_arrow(block, pa.binary())[80].as_py() == bad
    assert len(to_arrow(block, pa.string(), check_text=False)) == 101


def test_character_split_over_two_values_is_refused() -> None:
    first, second = "ä".encode()[:1], "ä".encode()[1:]
    with pytest.raises(FormatError, match="row 0"):
        to_arrow(words(first, second), pa.string())


def test_bad_text_inside_nested_values_is_refused() -> None:
    with pytest.raises(FormatError, match="row 1"):
        to_arrow(Listed(1, 4, np.array([0, 2], "<i4"), words(b"a", b"\xfe")), pa.list_(pa.string()))
    with pytest.raises(FormatError, match="row 1"):
        to_arrow(Coded(1, ints(0), words(b"a", b"\xfe")), pa.dictionary(pa.int32(), pa.string()))


def test_extension_type_wraps_its_storage() -> None:
    values = FixedWidth(2, 128, bytes(range(32)))
    array = to_arrow(values, pa.uuid())
    assert array.type == pa.uuid()
    assert array.storage.to_pylist() == [bytes(range(16)), bytes(range(16, 32))]
    pieces = to_arrow(Pieces(2, (values,)), pa.uuid())
    assert pieces.type == pa.uuid()
    assert len(pieces) == 2


@folded("length", [0, 1, 9, 70_000])
@folded("name", all_types())
def test_null_array_of_every_type(name: str, length: int) -> None:
    kind = all_types()[name]
    array = null_array(kind, length)
    array.validate(full=True)
    assert array.type == kind
    assert len(array) == array.null_count == length
    assert to_arrow(AllNull(length), kind).equals(array)
    if not isinstance(kind, pa.BaseExtensionType):
        assert array.equals(pa.nulls(length, kind))


def test_null_array_of_an_extension_type() -> None:
    assert null_array(pa.uuid(), 3).to_pylist() == [None, None, None]


def test_null_array_beyond_memory_is_a_limit() -> None:
    with pytest.raises(LimitError, match="take too much memory"):
        null_array(pa.list_(pa.float64(), 1 << 27), 1 << 40)
