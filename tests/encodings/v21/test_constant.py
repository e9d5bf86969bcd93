"""Handmade constant pages: every stored form of a value and its levels."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from tests.helpers.folded import folded
from tests.helpers.pages21 import (
    BuiltPage,
    column_of,
    constant_page,
    flat,
    inline,
    leaf_field,
    out_of_line,
    rle,
    rows_of,
    u16,
)

LIST = (leaf_field("list"), leaf_field("int64", "item", 4))


def page(num_rows: int, *buffers: bytes, layers: tuple[int, ...] = (1,), **options: Any) -> BuiltPage:
    return BuiltPage(constant_page(layers, **options), list(buffers), num_rows, (2, 2))


def in_buffer(*parts: bytes) -> bytes:
    return struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)) + b"".join(parts)


@folded(
    ("kind", "value", "expected"),
    [
        ("int64", struct.pack("<q", -7), -7),
        ("int16", struct.pack("<h", -7), -7),
        ("uint8", b"\xc8", 200),
        ("bool", b"\x01", True),
        ("bool", b"\x00", False),
        ("double", struct.pack("<d", 2.5), 2.5),
        ("fixed_size_binary:3", b"abc", b"abc"),
        ("fixed_size_binary:32", bytes(range(32)), bytes(range(32))),
        ("fixed_size_list:int16:2", struct.pack("<2h", 1, -2), [1, -2]),
    ],
)
def test_value_in_the_message(kind: str, value: bytes, expected: Any) -> None:
    assert rows_of(page(11, value=value), leaf_field(kind)) == [expected] * 11
    nulls = page(3, b"", u16(0, 1, 0), layers=(3,), value=value)
    assert rows_of(nulls, leaf_field(kind)) == [expected, None, expected]
    assert rows_of(nulls, leaf_field(kind), rows=[1, 2]) == [None, expected]


def test_string_in_a_buffer_as_in_the_sheet() -> None:
    stored = bytes.fromhex("020000000800000002000000 0000000002000000 6869")
    assert rows_of(page(3, stored), leaf_field("string")) == ["hi"] * 3
    nulls = page(3, stored, b"", u16(1, 0, 1), layers=(3,))
    assert rows_of(nulls, leaf_field("string")) == [None, "hi", None]
    large = in_buffer(struct.pack("<2q", 0, 2), b"hi")
    assert rows_of(page(2, large), leaf_field("large_binary")) == [b"hi"] * 2
    empty = in_buffer(struct.pack("<2i", 0, 0), b"")
    assert rows_of(page(2, empty), leaf_field("string")) == [""] * 2


def test_wide_value_in_a_buffer() -> None:
    stored = in_buffer(b"q" * 33)
    assert rows_of(page(4, stored), leaf_field("fixed_size_binary:33")) == [b"q" * 33] * 4
    nulls = page(2, stored, b"", u16(1, 0), layers=(3,))
    assert rows_of(nulls, leaf_field("fixed_size_binary:33")) == [None, b"q" * 33]


def test_nothing_but_nulls() -> None:
    assert rows_of(page(5, layers=(3,)), leaf_field("int64")) == [None] * 5
    assert rows_of(page(5, layers=(3,)), leaf_field("null"), rows=[0, 4]) == [None] * 2
    assert rows_of(page(2, layers=(3,)), leaf_field("struct")) == [{}, {}]
    item = leaf_field("int64", "a", 4)
    chain = leaf_field("struct", children=(item,)), item
    built = page(3, b"", u16(2, 1, 2), layers=(3, 3))
    assert rows_of(built, *chain) == [None, {"a": None}, None]


def test_lists_without_items_raw_and_coded() -> None:
    expected = [None, [], [None, None], []]
    rep, levels = u16(1, 1, 1, 0, 1), u16(2, 3, 1, 1, 3)
    raw = page(4, rep, levels, layers=(3, 6))
    assert rows_of(raw, *LIST) == expected
    assert rows_of(raw, *LIST, rows=[1, 2]) == expected[1:3]
    runs = struct.pack("<Q", 6) + u16(1, 0, 1) + b"\x03\x01\x01"
    packed = struct.pack("<H", 2) + _packed([2, 3, 1, 1, 3], 2)
    coded = page(
        4,
        runs,
        packed,
        layers=(3, 6),
        rep=rle(flat(16), flat(8)),
        definition=inline(16),
        num_rep=5,
        num_def=5,
    )
    assert rows_of(coded, *LIST) == expected
    assert rows_of(coded, *LIST, rows=[0, 3]) == [None, []]
    blocks = page(
        4, rep, levels, layers=(3, 6), rep=flat(16), definition=out_of_line(16, 2), num_rep=5, num_def=5
    )
    assert rows_of(blocks, *LIST) == expected


def _packed(values: list[int], width: int) -> bytes:
    """One FastLanes block of 16-bit words, made directly by its definition."""
    order = (0, 4, 2, 6, 1, 5, 3, 7)
    words = np.zeros(64 * width, np.uint32)
    for row in range(16):
        for lane in range(64):
            index = order[row // 8] * 16 + row % 8 * 128 + lane
            value = values[index] if index < len(values) else 0
            at, shift = 64 * (row * width // 16) + lane, row * width % 16
            words[at] |= value << shift & 0xFFFF
            if shift + width > 16:
                words[at + 64] |= value >> (16 - shift)
    return words.astype("<u2").tobytes()


def test_lists_of_one_value() -> None:
    built = page(3, u16(1, 1, 1, 0), u16(1, 0, 0, 0), layers=(1, 5), value=struct.pack("<q", 7))
    assert rows_of(built, *LIST) == [[], [7], [7, 7]]
    assert rows_of(built, *LIST, rows=[2]) == [[7, 7]]
    # Without anything null or empty there are no definition levels.
    built = page(2, u16(1, 1, 0), b"", layers=(1, 2), value=struct.pack("<q", 7))
    assert rows_of(built, *LIST) == [[7], [7, 7]]


def test_nulls_of_a_long_string_take_no_bytes() -> None:
    text = b"x" * 10_000
    built = page(200, in_buffer(struct.pack("<2i", 0, 10_000), text), b"", u16(*[1] * 199, 0), layers=(3,))
    limits = Limits(page_bytes=10_000)
    assert rows_of(built, leaf_field("string"), limits=limits) == [None] * 199 + [text.decode()]


def test_every_read_is_one_round() -> None:
    built = column_of(page(3, b"", u16(0, 1, 0), layers=(3,), value=b"\x05"))
    assert rows_of(built, leaf_field("uint8"), rows=[1]) == [None]
    assert len(built.files.rounds) == 1
    built = column_of(page(3, value=b"\x05"))
    assert rows_of(built, leaf_field("uint8")) == [5] * 3
    assert len(built.files.rounds) == 0


@folded(
    ("what", "built", "kind"),
    [
        ("4 bytes in a column of 64 bits", page(3, value=bytes(4)), "int64"),
        ("2 bytes in a column of 1 bits", page(3, value=bytes(2)), "bool"),
        ("column of type null", page(3, value=b"a"), "null"),
        ("0 parts", page(3, b"\0\0\0\0"), "string"),
        ("9 parts", page(3, in_buffer(*[b""] * 9)), "string"),
        ("16777216 parts", page(3, b"\0\0\0\1"), "string"),
        ("a constant value of 7 bytes", page(3, struct.pack("<2I", 1, 7) + b"abc"), "fixed_size_binary:7"),
        ("no offsets", page(3, in_buffer(b"abcd", b"xy")), "string"),
        ("no offsets", page(3, in_buffer(bytes(8))), "string"),
        ("leave its bytes", page(3, in_buffer(struct.pack("<2i", 0, 9), b"hi")), "string"),
        ("leave its bytes", page(3, in_buffer(struct.pack("<2i", 2, 1), b"hi")), "string"),
        ("3 bytes of 16-bit levels", page(3, b"", b"\0\0\0", layers=(3,)), "int64"),
        ("2 definition levels in a page of 3 rows", page(3, b"", u16(0, 0), layers=(3,)), "int64"),
        ("without lists has repetition", page(3, u16(1, 1, 1), b"", layers=(1,), value=b"a"), "uint8"),
        ("1025 values", page(3, b"", b"\0\0", layers=(3,), definition=inline(16), num_def=1025), "int64"),
    ],
    ids=str,
)
def test_damage_is_refused_by_name(what: str, built: BuiltPage, kind: str) -> None:
    with pytest.raises(FormatError, match=what):
        rows_of(built, leaf_field(kind))


@pytest.mark.parametrize(
    ("what", "rep", "levels"),
    [
        ("no repetition levels, or not one", b"", u16(0)),
        ("no repetition levels, or not one", u16(1, 1), u16(0)),
        ("rows", u16(1, 0), u16(0, 0)),
        ("continues a list", u16(0, 1), u16(0, 0)),
    ],
)
def test_damaged_levels_of_lists_are_refused(what: str, rep: bytes, levels: bytes) -> None:
    built = page(2, rep, levels, layers=(3, 5))
    with pytest.raises(FormatError, match=what):
        rows_of(built, *LIST)
    with pytest.raises(FormatError):
        rows_of(built, *LIST, rows=[1])


def test_rows_without_bytes_are_bounded_by_limits() -> None:
    with pytest.raises(LimitError) as caught:
        rows_of(page(1 << 29, value=bytes(8)), leaf_field("int64"), limits=Limits())
    assert caught.value.limit == "page_bytes"
    coded = page(9, b"", b"\0\0", layers=(3,), definition=inline(16), num_def=1 << 40)
    with pytest.raises(LimitError):
        rows_of(coded, leaf_field("int64"))
