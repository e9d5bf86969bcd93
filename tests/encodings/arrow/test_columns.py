"""Chunked columns: concatenation, and taking rows in any order into as many chunks as needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.encodings.arrow.columns import (
    as_array,
    chunks_of,
    cut_out,
    filtered,
    joined,
    storage_of,
    taken,
    typed,
    unified,
    unsliced,
)
from lancecy.errors import LimitError, UnsupportedError
from tests.helpers.folded import folded
from tests.helpers.nested_types import Code

WORDS = [None if n % 9 == 0 else "w" * (n % 13) for n in range(200)]
ROWS = [
    np.arange(199, -1, -1),
    np.array([5, 5, 199, 0, 5]),
    np.zeros(50, np.int64),
    np.array([], np.int64),
]


def chunked(values: pa.Array, *cuts: int) -> pa.ChunkedArray:
    edges = [0, *cuts, len(values)]
    return pa.chunked_array([values.slice(a, b - a) for a, b in itertools.pairwise(edges)], values.type)


@folded("rows", ROWS, ids=len)
@folded("most", [1, 40, 500, 1 << 31])
@folded(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.string())],
    ids=str,
)
def test_rows_keep_their_order_with_any_chunk_size(
    rows: np.ndarray[tuple[int], np.dtype[np.int64]], most: int, kind: pa.DataType
) -> None:
    values = pa.array(WORDS)
    if pa.types.is_dictionary(kind):
        values = values.dictionary_encode().cast(kind)
    elif pa.types.is_list(kind):
        values = pa.array([None if w is None else [w] * (len(w) % 3) for w in WORDS], kind)
    else:
        values = values.cast(kind)
    for column in (values, chunked(values, 3, 100, 100, 150)):
        found = taken(column, rows, most)
        assert found.type == kind
        assert found.to_pylist() == [values[int(row)].as_py() for row in rows]


TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "text": (pa.string(), lambda n: None if n % 5 == 4 else "x" * (n * 7 % 40)),
    "list": (pa.list_(pa.int8()), lambda n: list(range(n % 6))),
    "map": (pa.map_(pa.string(), pa.int8()), lambda n: [(str(i), n) for i in range(n % 5)]),
    "nulls": (pa.list_(pa.null()), lambda n: [None] * (n % 9)),
    "struct": (pa.struct([("a", pa.string()), ("b", pa.int64())]), lambda n: {"a": str(n) * (n % 9), "b": n}),
    "int": (pa.int64(), lambda n: n),
    "dict": (pa.dictionary(pa.int8(), pa.string()), lambda n: None if n % 4 == 1 else f"w{n % 3}"),
}


@pytest.mark.parametrize("kind", TYPES)
@given(lengths=st.lists(st.integers(0, 12), max_size=6), most=st.integers(1, 4000), seed=st.integers(0, 99))
def test_rows_of_slices_are_taken_in_the_requested_order(
    kind: str, lengths: list[int], most: int, seed: int
) -> None:
    data_type, value = TYPES[kind]
    rows: list[Any] = [value(n) for n in range(sum(lengths))]
    edges = np.cumsum([0, *lengths])
    column = pa.chunked_array(
        [pa.array([None, *rows[a:b]], data_type).slice(1) for a, b in itertools.pairwise(edges)],
        data_type,
    )
    positions = np.random.default_rng(seed).permutation(len(rows))[: max(0, len(rows) - 3)]
    found = taken(column, positions, most)
    found.validate(full=True)
    assert found.type == data_type
    assert found.to_pylist() == [rows[p] for p in positions]


def test_no_chunk_holds_more_than_it_may_unless_one_row_does() -> None:
    rows = ["x" * (900 if n == 13 else 10) for n in range(200)]
    column = pa.chunked_array([pa.array(rows[:90]), pa.array(rows[90:])])
    found = taken(column, np.arange(199, -1, -1), 500)
    assert found.to_pylist() == rows[::-1]
    assert all(chunk.nbytes <= 500 or len(chunk) == 1 for chunk in found.chunks)
    assert found.num_chunks < 20


def test_one_array_is_enough_when_everything_fits() -> None:
    assert isinstance(taken(chunked(pa.array(WORDS), 50), np.array([3, 1])), pa.Array)
    parts = taken(pa.array(["x" * 100] * 4), np.array([0, 1, 2, 3, 3, 2]), 250)
    assert isinstance(parts, pa.ChunkedArray)
    assert max(len(chunk) for chunk in parts.chunks) <= 2
    assert len(parts) == 6


@pytest.mark.slow
def test_rows_of_two_gigabytes_of_text_in_another_order() -> None:
    wide = pa.array(["a" * (1 << 20), "b" * (1 << 20)])
    chunk = wide.take(pa.array([0, 1] * 550))
    column = pa.chunked_array([chunk, chunk])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        column.combine_chunks()
    found = taken(column, np.arange(2199, -1, -1))
    assert found.num_chunks >= 2 and len(found) == 2200
    assert [found[i].as_py()[0] for i in (0, 1, 2198, 2199)] == ["b", "a", "b", "a"]


@pytest.mark.slow
def test_a_row_that_is_wanted_more_often_than_one_array_can_hold_it() -> None:
    size = 750 << 20
    offsets = np.array([0, size, size, size, size], "<i4")
    text = pa.Array.from_buffers(
        pa.string(), 4, [None, pa.py_buffer(offsets), pa.py_buffer(np.full(size, 97, np.uint8))]
    )
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        text.take(pa.array([0, 0, 0]))
    found = taken(text, np.array([0, 3, 0, 0]))
    assert pc.binary_length(found).to_pylist() == [size, 0, size, size]


def test_pieces_that_one_array_cannot_hold() -> None:
    wide = pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))
    assert len(as_array(pa.chunked_array([wide]))) == 1
    with pytest.raises(LimitError, match="3 pieces of type .* smaller batches"):
        as_array(pa.chunked_array([wide] * 3))


def test_dictionaries_that_together_are_too_large_for_their_codes() -> None:
    codes = pa.array(range(100), pa.int8())
    left, right = (
        pa.DictionaryArray.from_arrays(codes, pa.array([f"{side}{n}" for n in codes])) for side in "lr"
    )
    column = joined([left, right], left.type)
    assert column.to_pylist() == [*left.to_pylist(), *right.to_pylist()]
    with pytest.raises(UnsupportedError, match="cannot be brought together"):
        as_array(column)
    with pytest.raises(UnsupportedError, match="cannot be brought together"):
        taken(column, np.array([150, 3]))
    few = joined([left.take(pa.array([99, 3])), right.take(pa.array([98]))], left.type)
    assert taken(few, np.array([2, 0, 1, 2])).to_pylist() == ["r98", "l99", "l3", "r98"]


def test_dictionaries_that_differ_become_one() -> None:
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", "b"]))
    two = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["c", None]))
    array = as_array(pa.chunked_array([one, two]))
    assert array.to_pylist() == ["a", "b", None, None, "c"]
    assert array.type == one.type
    same = unified([one, one.slice(1)])
    assert same[0] is one


def test_chunks_without_rows_are_left_out() -> None:
    column = chunked(pa.array([1, 2]), 0, 1, 1)
    assert [len(chunk) for chunk in chunks_of(column)] == [1, 1]
    assert as_array(column).to_pylist() == [1, 2]
    assert as_array(pa.chunked_array([], pa.int8())).equals(pa.array([], pa.int8()))
    assert as_array(chunked(pa.array([], pa.int8()), 0)).equals(pa.array([], pa.int8()))


def test_extension_types_are_added_and_removed() -> None:
    storage = pa.array(["[]", None])
    array = typed(storage, pa.json_())
    assert array.type == pa.json_()
    assert storage_of(array).equals(storage)
    column = typed(chunked(storage, 1), pa.json_())
    assert column.type == pa.json_()
    assert storage_of(column).equals(chunked(storage, 1))
    assert typed(storage, pa.string()) is storage
    assert storage_of(storage) is storage


def test_lists_of_an_extension_type_that_has_no_hash_are_cut() -> None:
    """Users' subclasses of ``pa.ExtensionType`` have none."""
    codes = pa.ExtensionArray.from_storage(Code(), pa.array([1, 2, 3]))
    with pytest.raises(TypeError):
        hash(codes.type)
    lists = pa.ListArray.from_arrays([0, 1, 3], codes)
    assert cut_out(lists, 1, 1).to_pylist() == [[2, 3]]


class Unhashable(pa.ExtensionType):  # type: ignore[misc]
    """An extension type, which has no hash."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.unhashable")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


VECTORS = pa.list_(pa.list_(pa.int16(), 1), 2)


@pytest.mark.parametrize("wrap", [
    lambda array: array,
    lambda array: pa.StructArray.from_arrays([array], ["a"]),
    lambda array: pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array),
    lambda array: pa.ExtensionArray.from_storage(Unhashable(array.type), array),
    lambda array: pa.chunked_array([array, array]).slice(1),
], ids=["plain", "struct", "list", "extension", "chunked"])  # fmt: skip
def test_rows_of_slices_of_nested_vectors_are_right(wrap: Callable[[pa.Array], Any]) -> None:
    whole = wrap(pa.array([[[2 * i], [2 * i + 1]] for i in range(12)], VECTORS))
    inner = wrap(pa.array([[[2 * i], [2 * i + 1]] for i in range(20)], VECTORS)[8:])
    for column in (whole, whole[3:], inner):
        rows = np.array([5, 0, 5])
        found, expected = taken(column, rows).to_pylist(), column.to_pylist()
        assert found == [expected[i] for i in rows]
        mask = np.arange(len(column)) % 2 == 1
        assert filtered(column, pa.array(mask)).to_pylist() == expected[1::2]


def test_other_columns_are_not_copied() -> None:
    column = pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2))[1:]
    assert unsliced(column) is column
    whole = pa.array([[[1], [2]]], VECTORS)
    assert unsliced(whole) is whole


def _numbers(numbers: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.float16():
        return pa.array(numbers.astype(np.float16))
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(int(n)) for n in numbers], kind)
    if kind == pa.date64():
        return pa.array(numbers, pa.int64()).cast(pa.int32()).cast(pa.date32()).cast(kind)
    is_narrow = pa.types.is_string(kind) or kind.bit_width == 32
    return pa.array(numbers, pa.int32() if is_narrow else pa.int64()).cast(kind, safe=False)


def _lists(count: int, kind: pa.DataType) -> list[Any]:
    """As many elements, some of them null where they may be."""
    if pa.types.is_map(kind):
        return [(f"k{n}", n) for n in range(count)]
    inner = kind.value_type
    if pa.types.is_fixed_size_list(inner):
        return [[n, 2.0] for n in range(count)]
    if pa.types.is_list(inner):
        return [[n % 2 == 0] * n for n in range(count)]
    return [None if n == 3 else f"w{n}" if pa.types.is_string(inner) else n for n in range(count)]


FIXED = [
    pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(),
    pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("us", "UTC"), pa.duration("ms"), pa.decimal128(10, 2),
    pa.decimal256(60, 5), pa.binary(3), pa.binary(0), pa.month_day_nano_interval(), pa.string(), pa.null(), pa.dictionary(pa.int16(), pa.string()),
    pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.struct([pa.field("c", pa.string(), False)]))]), pa.struct([]),
    pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_(pa.field("x", pa.list_(pa.bool_()), False)),
    pa.map_(pa.string(), pa.int8()), pa.list_(pa.list_(pa.float32(), 2)),
]  # fmt: skip


@pytest.mark.parametrize("kind", FIXED, ids=str)
def test_values_are_filtered_as_arrow_filters_them(kind: pa.DataType) -> None:
    random = np.random.default_rng(3)
    is_null = random.random(500) < 0.2
    numbers = random.integers(0, 100, 500)
    if pa.types.is_fixed_size_binary(kind):
        made = pa.array([bytes([n]) * kind.byte_width for n in numbers], kind)
    elif pa.types.is_null(kind):
        made = pa.nulls(500)
    elif kind == pa.month_day_nano_interval():
        made = pa.array([(int(n), 2, 3) for n in numbers], kind)
    elif pa.types.is_boolean(kind):
        made = pa.array(numbers > 50)
    elif pa.types.is_struct(kind):
        rows = [
            {"a": None if n % 3 == 0 else int(n), "b": None if n % 5 == 0 else {"c": f"w{n}"}}
            for n in numbers
        ]
        made = pa.array(rows if kind.num_fields else [{}] * 500, kind)
    elif pa.types.is_nested(kind):
        made = pa.array([_lists(int(n) % 7, kind) for n in numbers], kind)
    elif pa.types.is_dictionary(kind):
        made = pa.array([f"w{n}" for n in numbers]).dictionary_encode().cast(kind)
    else:
        made = _numbers(numbers, kind)
    nullable = pc.if_else(pa.array(is_null), pa.scalar(None, kind), made) if kind != pa.null() else made
    for part in (0.0, 0.02, 0.5, 1.0):
        keep = pa.array(random.random(520) < part)
        for column in (made, nullable):
            for piece, mask in ((column, keep[:500]), (column[7:431], keep[13:437]), (column[:0], keep[:0])):
                found = filtered(piece, mask)
                found.validate(full=True)
                expected = piece.filter(mask)
                assert found.equals(expected) and found.null_count == expected.null_count
                assert found.to_pylist() == expected.to_pylist()
            chunked = pa.chunked_array([column[:100], column[100:100], column[130:450]], kind)
            found = filtered(chunked, keep[3:423])
            found.validate(full=True)
            assert found.equals(chunked.filter(keep[3:423]))


def test_a_mask_with_nulls_or_of_another_length_is_left_to_arrow() -> None:
    column = pa.array([1, 2, 3])
    assert filtered(column, pa.array([True, None, True])).to_pylist() == [1, 3]
    with pytest.raises(pa.ArrowInvalid):
        filtered(column, pa.array([True, False]))


@pytest.mark.parametrize("wrap", [lambda maps: maps, lambda maps: pa.StructArray.from_arrays([maps], ["m"])])
def test_entries_of_a_sliced_map_are_its_own(wrap: Callable[[pa.Array], pa.Array]) -> None:
    """Arrow ignores where the entries of a map begin, though not in ``equals``."""
    maps = pa.array([[(0, 10)], [(1, 11)], [], [(2, 12)]], pa.map_(pa.int64(), pa.int64()))
    column, mask = wrap(maps).slice(1), pa.array([True, False, True])
    found = filtered(column, mask)
    found.validate(full=True)
    assert found.to_pylist() == column.filter(mask).to_pylist()
    assert filtered(
        pa.chunked_array([column, column]), pa.array([True, False, True] * 2)
    ).to_pylist() == 2 * (found.to_pylist())
