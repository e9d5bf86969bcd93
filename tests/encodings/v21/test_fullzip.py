"""Full-zip pages by hand: the examples of the fact sheet, every width, partial reads, and damage."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.model.block import FixedList, FixedWidth
from lancecy.encodings.v21 import fullzip
from lancecy.errors import FormatError, TruncatedError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import run
from tests.helpers.folded import folded
from tests.helpers.pages21 import (
    LZ4,
    ZSTD,
    BuiltPage,
    column_of,
    constant,
    fixed_list,
    flat,
    full_zip,
    general,
    leaf_field,
    out_of_line,
    rows_of,
    variable,
)

STRINGS = bytes.fromhex("000100000061 01 0000000000 0003000000636363")
STRING_ENDS = (0, 6, 7, 12, 20)
LISTS = bytes.fromhex("0407000000 0008000000 05 06 0409000000")
LIST_ENDS = (0, 10, 11, 12, 17)
ITEM = leaf_field("int32", "item", 4)


def index(*offsets: int, width: int = 1) -> bytes:
    return np.array(offsets, f"<u{width}").tobytes()


def strings(data: bytes = STRINGS, ends: bytes = index(*STRING_ENDS), **changes: Any) -> BuiltPage:
    """["a", null, "", "ccc"]"""
    settings: dict[str, Any] = {"layers": (3,), "length_bits": 32, "def_bits": 1, **changes}
    values = settings.pop("values", variable(32))
    return BuiltPage(full_zip(values, settings.pop("num_items", 4), **settings), [data, ends], 4)


def lists(data: bytes = LISTS, ends: bytes = index(*LIST_ENDS), **changes: Any) -> BuiltPage:
    """[[7, 8], null, [], [9]]"""
    settings: dict[str, Any] = {
        "layers": (1, 6), "bits": 32, "rep_bits": 1, "def_bits": 2, "num_visible": 3, **changes
    }  # fmt: skip
    return BuiltPage(full_zip(flat(32), settings.pop("num_items", 5), **settings), [data, ends], 4)


def list_field(kind: str = "list") -> Field:
    return leaf_field(kind, "c", 3, children=(ITEM,))


# -- the examples of the sheet ------------------------------------------------------------


def test_strings_with_a_null() -> None:
    assert rows_of(strings(), leaf_field("string")) == ["a", None, "", "ccc"]
    assert rows_of(strings(), leaf_field("binary")) == [b"a", None, b"", b"ccc"]


def test_integers_with_a_null_whose_value_is_there() -> None:
    data = bytes.fromhex("0007000000 0100000000 0009000000")
    page = BuiltPage(full_zip(flat(32), 3, (3,), bits=32, def_bits=1), [data], 3)
    assert rows_of(page, leaf_field("int32")) == [7, None, 9]
    assert rows_of(page, leaf_field("int32"), rows=[1, 2]) == [None, 9]


def test_lists_of_integers() -> None:
    assert rows_of(lists(), list_field(), ITEM) == [[7, 8], None, [], [9]]


@folded("width", [1, 2, 4, 8])
@folded("rows", [[0], [1], [3], [0, 2], [1, 2], [0, 1, 3], [0, 1, 2, 3]])
def test_some_rows_by_an_index_of_any_width(width: int, rows: list[int]) -> None:
    wanted = ["a", None, "", "ccc"]
    page = strings(ends=index(*STRING_ENDS, width=width))
    assert rows_of(page, leaf_field("string"), rows=rows) == [wanted[row] for row in rows]
    found = rows_of(lists(ends=index(*LIST_ENDS, width=width)), list_field(), ITEM, rows=rows)
    assert found == [[[7, 8], None, [], [9]][row] for row in rows]


# -- layouts ------------------------------------------------------------------------------


@pytest.mark.parametrize(("length_bits", "kind"), [(32, "string"), (64, "large_string")])
def test_strings_without_control_words(length_bits: int, kind: str) -> None:
    width = length_bits // 8
    data = b"".join(len(text).to_bytes(width, "little") + text for text in (b"one", b"", b"three"))
    layout = full_zip(variable(length_bits), 3, length_bits=length_bits)
    ends = index(0, width + 3, 2 * width + 3, 3 * width + 8)
    page = BuiltPage(layout, [data, ends], 3)
    assert rows_of(page, leaf_field(kind)) == ["one", "", "three"]
    assert rows_of(page, leaf_field(kind), rows=[0, 2]) == ["one", "three"]


@pytest.mark.parametrize(("def_bits", "word"), [(1, 1), (8, 1), (9, 2), (15, 2)])
def test_control_words_of_any_width(def_bits: int, word: int) -> None:
    data = b"".join(level.to_bytes(word, "little") + b"vwxy" for level in (0, 1, 0))
    page = BuiltPage(full_zip(flat(32), 3, (3,), bits=32, def_bits=def_bits), [data], 3)
    assert rows_of(page, leaf_field("fixed_size_binary:4")) == [b"vwxy", None, b"vwxy"]


def test_control_words_of_four_bytes() -> None:
    data = b"".join(word.to_bytes(4, "little") + b"v" for word in (1 << 9, 0, 1 << 9))
    layout = full_zip(flat(8), 3, (3, 2), bits=8, rep_bits=8, def_bits=9)
    page = BuiltPage(layout, [data, index(0, 10, 15)], 2)
    item = leaf_field("uint8", "item", 4)
    assert rows_of(page, leaf_field("list", children=(item,)), item) == [[118, 118], [118]]


def test_booleans_take_a_byte_each() -> None:
    page = BuiltPage(full_zip(flat(8), 10, bits=8), [bytes([1, 0, 0, 1, 1, 0, 1, 1, 1, 0])], 10)
    expected = [True, False, False, True, True, False, True, True, True, False]
    assert rows_of(page, leaf_field("bool")) == expected
    assert rows_of(page, leaf_field("bool"), rows=[2, 3, 9]) == [False, True, False]
    data = b"".join(bytes([level, value]) for level, value in ((0, 1), (1, 0), (0, 0)))
    page = BuiltPage(full_zip(flat(8), 3, (3,), bits=8, def_bits=1), [data], 3)
    assert rows_of(page, leaf_field("bool")) == [True, None, False]


@pytest.mark.parametrize("rows", [None, [0, 2], [1]])
def test_lists_with_nulls_inside_carry_their_bitmaps(rows: list[int] | None) -> None:
    field = leaf_field("fixed_size_list:int16:3")
    cells = [b"\x05" + struct.pack("<3h", 1, 0, 3), b"\x07" + struct.pack("<3h", 4, 5, 6), b"\x00" + bytes(6)]
    values = fixed_list(3, flat(16), has_validity=True)
    page = BuiltPage(full_zip(values, 3, bits=56), [b"".join(cells)], 3)
    expected = [[1, None, 3], [4, 5, 6], [None] * 3]
    wanted = expected if rows is None else [expected[row] for row in rows]
    assert rows_of(page, field, rows=rows) == wanted
    layout = full_zip(values, 3, (3,), bits=56, def_bits=1)
    words = b"".join(bytes([number == 1]) + cell for number, cell in enumerate(cells))
    expected[1] = None
    wanted = expected if rows is None else [expected[row] for row in rows]
    assert rows_of(BuiltPage(layout, [words], 3), field, rows=rows) == wanted


def test_lists_of_lists_have_the_outer_bitmap_first() -> None:
    field = leaf_field("fixed_size_list:fixed_size_list:int8:3:2")
    cell = b"\x01" + b"\x2d" + bytes([1, 2, 3, 4, 5, 6])
    values = fixed_list(2, fixed_list(3, flat(8), True), True)
    page = BuiltPage(full_zip(values, 2, bits=64), [cell + b"\x03\x3f" + bytes(range(6))], 2)
    assert rows_of(page, field) == [[[1, None, 3], None], [[0, 1, 2], [3, 4, 5]]]


def test_items_that_are_all_null_have_bitmaps_only() -> None:
    field = leaf_field("fixed_size_list:float:2")
    page = BuiltPage(full_zip(fixed_list(2, constant(), True), 3, bits=8), [bytes(3)], 3)
    assert rows_of(page, field) == [[None, None]] * 3


def test_lists_of_whole_bytes_of_bits() -> None:
    field = leaf_field("fixed_size_list:bool:8")
    page = BuiltPage(full_zip(fixed_list(8, flat(1)), 2, bits=8), [b"\x0f\x81"], 2)
    expected = [[True] * 4 + [False] * 4, [True, *[False] * 6, True]]
    assert rows_of(page, field) == expected
    assert rows_of(page, field, rows=[1]) == expected[1:]


@pytest.mark.parametrize("scheme", [LZ4, ZSTD])
def test_values_compressed_one_by_one(scheme: int) -> None:
    texts = [b"abc" * 900, b"", b"x" * 50_000]
    codec = pa.Codec("lz4_raw" if scheme == LZ4 else "zstd")
    width = 4 if scheme == LZ4 else 8
    packed = [
        len(text).to_bytes(width, "little") + codec.compress(text, asbytes=True) if text else b""
        for text in texts
    ]
    entries = [b"\x00" + len(part).to_bytes(4, "little") + part for part in packed] + [b"\x01"]
    ends = index(*np.cumsum([0, *map(len, entries)]).tolist(), width=4)
    layout = full_zip(general(scheme, variable()), 4, (3,), length_bits=32, def_bits=1)
    page = BuiltPage(layout, [b"".join(entries), ends], 4)
    assert rows_of(page, leaf_field("binary")) == [*texts, None]
    assert rows_of(page, leaf_field("binary"), rows=[2, 3]) == [texts[2], None]


def test_strings_with_64_bit_offsets_and_short_lengths_keep_their_type() -> None:
    """The length before a value and the offsets of the column need not have the same width."""
    data = b"\x02\x00\x00\x00hi"
    page = BuiltPage(full_zip(variable(64), 1, length_bits=32), [data, index(0, 6)], 1)
    assert rows_of(page, leaf_field("large_string")) == ["hi"]


# -- reading little -----------------------------------------------------------------------


def vectors(num_rows: int, **changes: Any) -> tuple[BuiltPage, np.ndarray[Any, np.dtype[np.float32]]]:
    values = np.arange(num_rows * 32, dtype=np.float32).reshape(num_rows, 32)
    return BuiltPage(
        full_zip(fixed_list(32, flat(32)), num_rows, bits=1024), [values.tobytes()], num_rows
    ), values


@pytest.mark.parametrize(("start", "stop"), [(0, 5000), (17, 4000)])
def test_vectors_without_control_words_are_views_of_a_map(start: int, stop: int) -> None:
    page, values = vectors(5000)
    built = column_of(page)
    spec = built.column.page(0).spec
    field = leaf_field("fixed_size_list:float:32")
    rows = RowSelection.range(5000, start, stop)
    read = fullzip.read(spec, built.column.page(0), (field,), rows, built.source, DEFAULT_LIMITS)  # type: ignore[arg-type]
    leaf = run(read, built.files.fetch)
    assert isinstance(leaf.values, FixedList) and isinstance(leaf.values.child, FixedWidth)
    view: Any = leaf.values.child.values
    memory = built.files.contents["data/x.lance"]
    assert np.shares_memory(view, memory)
    np.testing.assert_array_equal(np.frombuffer(view, "<f4").reshape(-1, 32), values[start:stop])


def test_rows_of_one_width_need_one_round_and_only_their_bytes() -> None:
    page, values = vectors(5000)
    built = column_of(page, is_mapped=False)
    found = rows_of(built, leaf_field("fixed_size_list:float:32"), rows=[3, 4, 4999])
    assert found == values[[3, 4, 4999]].tolist()
    assert [sum(int(r.lengths.sum()) for r in requests) for requests in built.files.rounds] == [3 * 128]


def test_other_rows_need_two_entries_of_the_index_and_their_bytes() -> None:
    texts = [b"%05d" % i * 20 for i in range(3000)]
    data = b"".join(b"\x00" + len(text).to_bytes(4, "little") + text for text in texts)
    ends = np.arange(3001) * 105
    layout = full_zip(variable(), 3000, (3,), length_bits=32, def_bits=1)
    built = column_of(BuiltPage(layout, [data, ends.astype("<u4").tobytes()], 3000), is_mapped=False)
    wanted = [7, 8, 9, 2000]
    assert rows_of(built, leaf_field("binary"), rows=wanted) == [texts[row] for row in wanted]
    assert [sum(int(r.lengths.sum()) for r in requests) for requests in built.files.rounds] == [16, 4 * 105]
    built.files.rounds.clear()
    assert rows_of(built, leaf_field("binary")) == texts
    assert [sum(int(r.lengths.sum()) for r in requests) for requests in built.files.rounds] == [len(data)]


# -- damage -------------------------------------------------------------------------------


@folded(
    ("changes", "error"),
    [
        ({"num_items": 5, "num_visible": 4}, FormatError),
        ({"num_items": 3}, FormatError),
        ({"num_visible": 3}, FormatError),
        ({"num_items": 1 << 40, "num_visible": 4}, TruncatedError),
        ({"data": STRINGS[:-1]}, FormatError),
        ({"data": STRINGS + b"\x01"}, FormatError),
        ({"data": b"\x02" + STRINGS[1:]}, FormatError),
        ({"data": b"\x00\xff\xff\xff\xff" + STRINGS[5:]}, FormatError),
        ({"values": out_of_line(32, 3)}, UnsupportedError),
        ({"values": variable(64)}, FormatError),
    ],
)
def test_damaged_strings_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        rows_of(strings(**changes), leaf_field("string"))


@folded(
    "ends",
    [b"", index(0, 6, 7, 12), index(0, 6, 7, 12, 21), index(0, 6, 5, 12, 20), index(0, 6, 7, 12, 20) * 3,
     index(0, 6, 7, 2**63, 20, width=8), index(0, 2**64 - 1, 7, 12, 20, width=8), index(0, 5, 7, 12, 20)],
)  # fmt: skip
def test_a_damaged_index_is_refused(ends: bytes) -> None:
    with pytest.raises(FormatError):
        rows_of(strings(ends=ends), leaf_field("string"), rows=[1, 3])


@folded(
    ("ends", "rows"),
    [((0, 5, 11, 12, 17), [0, 3]), ((0, 5, 11, 12, 17), [1, 3]), ((0, 10, 11, 11, 17), [0, 2]),
     ((0, 10, 11, 12, 12), [0, 3])],
)  # fmt: skip
def test_an_index_that_cuts_lists_is_refused(ends: tuple[int, ...], rows: list[int]) -> None:
    with pytest.raises(FormatError, match="repetition index"):
        rows_of(lists(ends=index(*ends)), list_field(), ITEM, rows=rows)


@folded(
    "changes",
    [{"num_items": 6}, {"num_items": 4}, {"num_visible": 2}, {"num_visible": 4}, {"data": LISTS[:-1]},
     {"data": LISTS[:11] + b"\x0c" + LISTS[12:]}, {"data": b"\x00" + LISTS[1:]}, {"bits": 64}],
)  # fmt: skip
def test_damaged_lists_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        rows_of(lists(**changes), list_field(), ITEM)


@pytest.mark.parametrize(
    ("num_items", "num_visible", "size", "error"),
    [
        (4, 4, 16, FormatError),
        (3, 2, 12, FormatError),
        (3, 3, 11, TruncatedError),
        (1 << 40, 1 << 40, 12, FormatError),
    ],
)
def test_damaged_tables_are_refused(
    num_items: int, num_visible: int, size: int, error: type[Exception]
) -> None:
    page = BuiltPage(full_zip(flat(32), num_items, bits=32, num_visible=num_visible), [bytes(size)], 3)
    with pytest.raises(error):
        rows_of(page, leaf_field("int32"))


def test_a_width_that_is_not_that_of_the_values_is_refused() -> None:
    page = BuiltPage(full_zip(fixed_list(3, flat(8), True), 1, bits=24), [bytes(3)], 1)
    with pytest.raises(FormatError, match="24 bits"):
        rows_of(page, leaf_field("fixed_size_list:int8:3"))


def test_values_of_another_type_are_refused() -> None:
    page = BuiltPage(full_zip(flat(32), 1, bits=32), [bytes(4)], 1)
    with pytest.raises(FormatError, match="32 bits"):
        rows_of(page, leaf_field("int64"))
