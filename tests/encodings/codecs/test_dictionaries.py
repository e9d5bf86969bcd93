"""Dictionaries of every kind of item, looked up by codes; codes of null slots are arbitrary."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lancecy.encodings.codecs.dictionaries import taken
from lancecy.encodings.model.block import AllNull, Block, FixedList, FixedWidth, Listed, VariableWidth
from lancecy.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.schema import Field
from tests.helpers.folded import folded
from tests.helpers.leaves import block_rows
from tests.helpers.pages21 import (
    LZ4,
    BuiltPage,
    chunk,
    constant,
    fixed_list,
    flat,
    general,
    inline,
    leaf_field,
    mini_block,
    parsed,
    rows_of,
    u16,
    variable,
    words,
)


def bits(*flags: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.packbits(flags, bitorder="little")


def numbers(count: int) -> FixedWidth:
    return FixedWidth(count, 16, np.arange(count, dtype="<i2"))


HOLES = FixedWidth(6, 16, np.arange(6, dtype="<i2"), bits(1, 0, 1, 1, 1, 0), 2)
ITEMS: dict[str, tuple[Block, str, list[Any]]] = {
    "numbers": (numbers(3), "int16", [0, 1, 2]),
    "bits": (FixedWidth(3, 1, bits(1, 0, 1)), "bool", [True, False, True]),
    "strings": (
        VariableWidth(3, 4, np.array([0, 1, 1, 3], "<i4"), np.frombuffer(b"abc", np.uint8)),
        "string",
        ["a", "", "bc"],
    ),
    "lists": (FixedList(3, 2, numbers(6)), "fixed_size_list:int16:2", [[0, 1], [2, 3], [4, 5]]),
    "null items": (FixedList(3, 2, HOLES), "fixed_size_list:int16:2", [[0, None], [2, 3], [4, None]]),
    "lists of bits": (
        FixedList(3, 3, FixedWidth(9, 1, bits(1, 0, 1, 0, 0, 0, 1, 1, 1))),
        "fixed_size_list:bool:3",
        [[True, False, True], [False] * 3, [True] * 3],
    ),
    "lists of lists": (
        FixedList(3, 2, FixedList(6, 1, HOLES, bits(1, 1, 0, 1, 1, 1), 1)),
        "fixed_size_list:fixed_size_list:int16:1:2",
        [[[0], [None]], [None, [3]], [[4], [None]]],
    ),
    "nulls": (FixedList(3, 2, AllNull(6)), "fixed_size_list:int16:2", [[None, None]] * 3),
}


@folded("name", ITEMS)
def test_items_by_code(name: str) -> None:
    items, kind, expected = ITEMS[name]
    chain = (leaf_field(kind),)
    codes = np.array([2, 200, 0, 1, 2], np.uint8)
    found = taken(codes, items, bits(1, 0, 1, 1, 1), DEFAULT_LIMITS)
    rows = block_rows(found, chain)
    assert len(rows) == 5
    assert [rows[i] for i in (0, 2, 3, 4)] == [expected[i] for i in (2, 0, 1, 2)]
    assert block_rows(taken(codes[2:], items, None, DEFAULT_LIMITS), chain) == [
        expected[i] for i in (0, 1, 2)
    ]
    for mask in (None, bits(1, 1, 0, 0, 0)):
        with pytest.raises(FormatError) as caught:
            taken(codes, items, mask, DEFAULT_LIMITS)
        assert caught.value.position == 1


def test_items_beyond_the_limit_are_refused() -> None:
    for name in ("numbers", "null items", "lists of bits", "lists of lists"):
        with pytest.raises(LimitError):
            taken(np.zeros(400, np.uint8), ITEMS[name][0], None, Limits(page_bytes=399))


def test_items_that_no_dictionary_holds_are_unsupported() -> None:
    lists = Listed(1, 4, np.array([0, 1], "<i4"), numbers(1))
    with pytest.raises(UnsupportedError, match="Listed"):
        taken(np.zeros(1, np.uint8), lists, None, DEFAULT_LIMITS)


# -- pages whose dictionary has lists with null items ---------------------------------------

PAIR = fixed_list(2, flat(16), True)
SHORT = struct.pack("<B2h", 0b01, 7, -1) + struct.pack("<B2h", 0b11, 8, 9)
WIDE = fixed_list(2, fixed_list(3, flat(8), True), True)


def page(encoding: bytes, items: bytes, *codes: int, nulls: list[int] | None = None) -> BuiltPage:
    """Rows with the code of one of two items."""
    levels = [0] * len(codes) if nulls is None else nulls
    part = chunk([np.array(codes, "<i4").tobytes()], len(codes), definition=u16(*levels))
    layout = mini_block(
        flat(32), len(codes), (3,), definition=flat(16), dictionary=encoding, num_dictionary_items=2
    )
    return BuiltPage(layout, [words([part]), part, items], len(codes))


def literal_lz4(data: bytes) -> bytes:
    return struct.pack("<IB", len(data), len(data) << 4) + data


@pytest.mark.parametrize(
    ("encoding", "items", "kind", "expected"),
    [
        (PAIR, SHORT, "fixed_size_list:int16:2", [[7, None], [8, 9]]),
        (general(LZ4, PAIR), literal_lz4(SHORT), "fixed_size_list:int16:2", [[7, None], [8, 9]]),
        (
            WIDE,
            bytes([0b10, 0b101000, *range(6), 0b11, 0b111111, *range(6, 12)]),
            "fixed_size_list:fixed_size_list:int8:3:2",
            [[None, [3, None, 5]], [[6, 7, 8], [9, 10, 11]]],
        ),
        (
            fixed_list(2, constant(), True),
            bytes(2),
            "fixed_size_list:int16:2",
            [[None, None], [None, None]],
        ),
    ],
    ids=["pairs", "compressed", "nested", "nothing but nulls"],
)
def test_dictionary_of_lists_with_null_items(
    encoding: bytes, items: bytes, kind: str, expected: list[Any]
) -> None:
    field: Field = leaf_field(kind)
    built = page(encoding, items, 1, 99, 0, 1, nulls=[0, 1, 0, 0])
    assert rows_of(built, field) == [expected[1], None, expected[0], expected[1]]
    assert rows_of(built, field, rows=[1, 2]) == [None, expected[0]]


def test_dictionary_that_is_too_short_for_its_lists_is_truncated() -> None:
    with pytest.raises(TruncatedError, match="2 lists of 5 bytes"):
        rows_of(page(PAIR, SHORT[:-1], 1), leaf_field("fixed_size_list:int16:2"))


@pytest.mark.parametrize("encoding", [fixed_list(2, inline(16), True), fixed_list(2, variable(), False)])
def test_dictionaries_of_other_lists_are_refused(encoding: bytes) -> None:
    layout = mini_block(flat(32), 3, dictionary=encoding, num_dictionary_items=2)
    with pytest.raises((FormatError, UnsupportedError), match=r"2 buffers|varying size"):
        parsed(layout, 3)
